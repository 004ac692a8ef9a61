// Compares dnn.h and blas.h with NVIDIA's headers: values, layout of structs, and the type of every function. It
// makes no code. Compiled into each plug-in, so that a header that differs stops the build with the name of what
// differs. HAVE_CUDNN_H and HAVE_CUBLAS_H (0 or 1) come from scripts/cuda_probe.sh, which knows the headers that belong
// to nvcc; what the compiler finds by itself (/usr/local/include) may be another CUDA's.
#ifndef FM_EMULATED

#if !defined(HAVE_CUDNN_H) || !defined(HAVE_CUBLAS_H)
#error "HAVE_CUDNN_H and HAVE_CUBLAS_H are not defined: make plugins does it"
#endif

#include <stddef.h>
#include <type_traits>

#include "library/blas.h"
#include "library/dnn.h"

namespace
{
// Whether a value of type Theirs may be passed where a caller compiled with Ours passes one. Structs are ours
// and theirs by name, in the specialisations below.
template <class Ours, class Theirs> struct fits_pointee : std::is_same<Ours, Theirs> {
};
template <class Ours, class Theirs> struct fits_pointee<Ours *, Theirs *> : fits_pointee<Ours, Theirs> {
};
template <class Ours, class Theirs, bool is_enum> struct fits_value : std::is_same<Ours, Theirs> {
};
template <class Theirs> struct fits_value<int, Theirs, true> {
    static const bool value = sizeof(Theirs) == sizeof(int);
};
template <class Ours, class Theirs> struct fits : fits_value<Ours, Theirs, std::is_enum<Theirs>::value> {
};
template <class Ours, class Theirs> struct fits<Ours *, Theirs *> : fits_pointee<Ours, Theirs> {
};
template <bool... all> struct every;
template <> struct every<> : std::true_type {
};
template <bool first, bool... rest>
struct every<first, rest...> : std::integral_constant<bool, first && every<rest...>::value> {
};
template <class Ours, class Theirs> struct same_call {
    static const bool value = false;
};
template <bool same_count, class Ours, class Theirs> struct same_list {
    static const bool value = false;
};
template <class... P> struct list {
};
template <class... P, class... Q> struct same_list<true, list<P...>, list<Q...>> {
    static const bool value = every<fits<P, Q>::value...>::value;
};
template <class R, class... P, class S, class... Q> struct same_call<R (*)(P...), S (*)(Q...)> {
    static const bool value =
        fits<R, S>::value && same_list<sizeof...(P) == sizeof...(Q), list<P...>, list<Q...>>::value;
};
} // namespace

#if HAVE_CUDNN_H
#include <cudnn.h>
#if CUDNN_MAJOR * 100 + CUDNN_MINOR >= 706
namespace
{
template <> struct fits_pointee<fm_dnn_handle, cudnnContext> : std::true_type {
};
template <>
struct fits_pointee<fm_dnn_tensor, std::remove_pointer<cudnnTensorDescriptor_t>::type> : std::true_type {
};
template <>
struct fits_pointee<fm_dnn_filter, std::remove_pointer<cudnnFilterDescriptor_t>::type> : std::true_type {
};
template <>
struct fits_pointee<fm_dnn_convolution, std::remove_pointer<cudnnConvolutionDescriptor_t>::type>
    : std::true_type {
};
template <> struct fits_pointee<fm_dnn_answer, cudnnConvolutionFwdAlgoPerf_t> : std::true_type {
};
template <> struct fits_pointee<fm_dnn_answer, cudnnConvolutionBwdDataAlgoPerf_t> : std::true_type {
};
template <> struct fits_pointee<fm_dnn_answer, cudnnConvolutionBwdFilterAlgoPerf_t> : std::true_type {
};

#define FM_ANSWER_FIELD(theirs, ours_field, theirs_field)                                                    \
    static_assert(offsetof(fm_dnn_answer, ours_field) == offsetof(theirs, theirs_field) &&                   \
                      fits<decltype(fm_dnn_answer::ours_field), decltype(theirs::theirs_field)>::value,      \
                  #theirs "." #theirs_field " lies elsewhere than in dnn.h");
#define FM_ANSWER(theirs)                                                                                    \
    static_assert(sizeof(fm_dnn_answer) == sizeof(theirs), #theirs " has another size than in dnn.h");       \
    FM_ANSWER_FIELD(theirs, algorithm, algo)                                                                 \
    FM_ANSWER_FIELD(theirs, status, status)                                                                  \
    FM_ANSWER_FIELD(theirs, time, time)                                                                      \
    FM_ANSWER_FIELD(theirs, memory, memory)                                                                  \
    FM_ANSWER_FIELD(theirs, determinism, determinism)                                                        \
    FM_ANSWER_FIELD(theirs, math, mathType)                                                                  \
    FM_ANSWER_FIELD(theirs, reserved, reserved)
FM_ANSWER(cudnnConvolutionFwdAlgoPerf_t)
FM_ANSWER(cudnnConvolutionBwdDataAlgoPerf_t)
FM_ANSWER(cudnnConvolutionBwdFilterAlgoPerf_t)

#define FM_SAME_VALUE(name, value, theirs)                                                                   \
    static_assert((int)theirs == value, #theirs " has another value than in dnn.h or blas.h");
FM_DNN_VALUES(FM_SAME_VALUE)
#if CUDNN_MAJOR >= 8
FM_DNN_VALUES_8(FM_SAME_VALUE)
#endif
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_COUNT * 3 <= FM_DNN_ALGORITHMS &&
                  CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT * 3 <= FM_DNN_ALGORITHMS &&
                  CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT * 3 <= FM_DNN_ALGORITHMS,
              "cuDNN has more algorithms than dnn.h has room for");

#define FM_SAME_DNN_CALL(name, symbol, result, parameters)                                                   \
    static_assert(same_call<decltype(fm_dnn_table::name), decltype(&symbol)>::value,                         \
                  #symbol " has other parameters than in dnn.h");
FM_DNN_CALLS(FM_SAME_DNN_CALL)
} // namespace
#endif
#endif

#if HAVE_CUBLAS_H
#include <cublas_v2.h>
namespace
{
template <> struct fits_pointee<fm_blas_handle, std::remove_pointer<cublasHandle_t>::type> : std::true_type {
};
#undef FM_SAME_VALUE
#define FM_SAME_VALUE(name, value, theirs)                                                                   \
    static_assert((int)theirs == value, #theirs " has another value than in blas.h");
FM_BLAS_VALUES(FM_SAME_VALUE)
#if CUBLAS_VER_MAJOR >= 11
FM_BLAS_VALUES_11(FM_SAME_VALUE)
#define FM_SAME_BLAS_CALL(name, symbol, result, parameters)                                                  \
    static_assert(same_call<decltype(fm_blas_table::name), decltype(&symbol)>::value,                        \
                  #symbol " has other parameters than in blas.h");
FM_BLAS_CALLS(FM_SAME_BLAS_CALL)
#endif
} // namespace
#endif

#endif
