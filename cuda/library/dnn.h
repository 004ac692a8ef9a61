/* cuDNN as Foldmill uses it: our own declarations of the calls that cuDNN 7.6, 8 and 9 have in common, so
 * that one source serves all three and none of NVIDIA's headers is needed. Every call has one row in
 * FM_DNN_CALLS, which makes the table that is filled by dlsym (or by the emulator). check_headers.cu compares
 * all of this with a real cudnn.h where there is one.
 *
 * NVIDIA's enums are passed as int, which is how they are passed on every platform that CUDA has. Statuses
 * changed their numbers in cuDNN 9: compare them with 0 only. Host scalars alpha and beta are float where the
 * data are.
 *
 * C11 and C++14. */
#ifndef FM_CUDA_LIBRARY_DNN_H
#define FM_CUDA_LIBRARY_DNN_H

#include <stddef.h>

#include <cuda_runtime_api.h>

struct fm_dnn_handle;
struct fm_dnn_tensor;
struct fm_dnn_filter;
struct fm_dnn_convolution;

/* name, value, NVIDIA's name */
#define FM_DNN_VALUES(X)                                                                                     \
    X(FM_DNN_SUCCESS, 0, CUDNN_STATUS_SUCCESS)                                                               \
    X(FM_DNN_FLOAT, 0, CUDNN_DATA_FLOAT)                                                                     \
    X(FM_DNN_NHWC, 1, CUDNN_TENSOR_NHWC)                                                                     \
    X(FM_DNN_CROSS_CORRELATION, 1, CUDNN_CROSS_CORRELATION)                                                  \
    X(FM_DNN_DEFAULT_MATH, 0, CUDNN_DEFAULT_MATH)                                                            \
    X(FM_DNN_TENSOR_OP_MATH, 1, CUDNN_TENSOR_OP_MATH)                                                        \
    X(FM_DNN_TENSOR_OP_CONVERSION, 2, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION)                                 \
    X(FM_DNN_DETERMINISTIC, 1, CUDNN_DETERMINISTIC)                                                          \
    X(FM_DNN_DATA_ALGO_0, 0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0)                                              \
    X(FM_DNN_FILTER_ALGO_0, 0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0)                                          \
    X(FM_DNN_FILTER_ALGO_3, 3, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3)
/* Since cuDNN 8; 7 knows no TF32, and its default is FMA. */
#define FM_DNN_VALUES_8(X) X(FM_DNN_FMA_MATH, 3, CUDNN_FMA_MATH)

enum fm_dnn_value {
#define FM_DNN_VALUE(name, value, theirs) name = value,
    FM_DNN_VALUES(FM_DNN_VALUE) FM_DNN_VALUES_8(FM_DNN_VALUE)
#undef FM_DNN_VALUE
};

/* The most algorithms that a direction has in any version (forward and backward data 8 and 6, filter 7), with
 * room for each of them with both kinds of math. */
#define FM_DNN_ALGORITHMS 32

/* cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t, which are alike. */
struct fm_dnn_answer {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math;
    int reserved[3];
};

/* name in the table, symbol, result, parameters */
#define FM_DNN_CALLS(X)                                                                                      \
    X(version, cudnnGetVersion, size_t, (void))                                                              \
    X(cudart_version, cudnnGetCudartVersion, size_t, (void))                                                 \
    X(error_string, cudnnGetErrorString, const char *, (int status))                                         \
    X(create, cudnnCreate, int, (struct fm_dnn_handle * *handle))                                            \
    X(destroy, cudnnDestroy, int, (struct fm_dnn_handle * handle))                                           \
    X(set_stream, cudnnSetStream, int, (struct fm_dnn_handle * handle, cudaStream_t stream))                 \
    X(tensor_create, cudnnCreateTensorDescriptor, int, (struct fm_dnn_tensor * *tensor))                     \
    X(tensor_destroy, cudnnDestroyTensorDescriptor, int, (struct fm_dnn_tensor * tensor))                    \
    X(tensor_set, cudnnSetTensor4dDescriptorEx, int,                                                         \
      (struct fm_dnn_tensor * tensor, int type, int n, int c, int h, int w, int n_stride, int c_stride,      \
       int h_stride, int w_stride))                                                                          \
    X(filter_create, cudnnCreateFilterDescriptor, int, (struct fm_dnn_filter * *filter))                     \
    X(filter_destroy, cudnnDestroyFilterDescriptor, int, (struct fm_dnn_filter * filter))                    \
    X(filter_set, cudnnSetFilter4dDescriptor, int,                                                           \
      (struct fm_dnn_filter * filter, int type, int format, int k, int c, int h, int w))                     \
    X(convolution_create, cudnnCreateConvolutionDescriptor, int, (struct fm_dnn_convolution * *convolution)) \
    X(convolution_destroy, cudnnDestroyConvolutionDescriptor, int,                                           \
      (struct fm_dnn_convolution * convolution))                                                             \
    X(convolution_set, cudnnSetConvolution2dDescriptor, int,                                                 \
      (struct fm_dnn_convolution * convolution, int pad_h, int pad_w, int stride_h, int stride_w,            \
       int dilation_h, int dilation_w, int mode, int type))                                                  \
    X(convolution_groups, cudnnSetConvolutionGroupCount, int,                                                \
      (struct fm_dnn_convolution * convolution, int groups))                                                 \
    X(convolution_math, cudnnSetConvolutionMathType, int,                                                    \
      (struct fm_dnn_convolution * convolution, int math))                                                   \
    X(forward_algorithms, cudnnGetConvolutionForwardAlgorithm_v7, int,                                       \
      (struct fm_dnn_handle * handle, struct fm_dnn_tensor * x, struct fm_dnn_filter * w,                    \
       struct fm_dnn_convolution * convolution, struct fm_dnn_tensor * y, int requested, int *returned,      \
       struct fm_dnn_answer *answers))                                                                       \
    X(data_algorithms, cudnnGetConvolutionBackwardDataAlgorithm_v7, int,                                     \
      (struct fm_dnn_handle * handle, struct fm_dnn_filter * w, struct fm_dnn_tensor * dy,                   \
       struct fm_dnn_convolution * convolution, struct fm_dnn_tensor * dx, int requested, int *returned,     \
       struct fm_dnn_answer *answers))                                                                       \
    X(filter_algorithms, cudnnGetConvolutionBackwardFilterAlgorithm_v7, int,                                 \
      (struct fm_dnn_handle * handle, struct fm_dnn_tensor * x, struct fm_dnn_tensor * dy,                   \
       struct fm_dnn_convolution * convolution, struct fm_dnn_filter * dw, int requested, int *returned,     \
       struct fm_dnn_answer *answers))                                                                       \
    X(forward_workspace, cudnnGetConvolutionForwardWorkspaceSize, int,                                       \
      (struct fm_dnn_handle * handle, struct fm_dnn_tensor * x, struct fm_dnn_filter * w,                    \
       struct fm_dnn_convolution * convolution, struct fm_dnn_tensor * y, int algorithm, size_t *bytes))     \
    X(data_workspace, cudnnGetConvolutionBackwardDataWorkspaceSize, int,                                     \
      (struct fm_dnn_handle * handle, struct fm_dnn_filter * w, struct fm_dnn_tensor * dy,                   \
       struct fm_dnn_convolution * convolution, struct fm_dnn_tensor * dx, int algorithm, size_t *bytes))    \
    X(filter_workspace, cudnnGetConvolutionBackwardFilterWorkspaceSize, int,                                 \
      (struct fm_dnn_handle * handle, struct fm_dnn_tensor * x, struct fm_dnn_tensor * dy,                   \
       struct fm_dnn_convolution * convolution, struct fm_dnn_filter * dw, int algorithm, size_t *bytes))    \
    X(forward, cudnnConvolutionForward, int,                                                                 \
      (struct fm_dnn_handle * handle, const void *alpha, struct fm_dnn_tensor *x_descriptor, const void *x,  \
       struct fm_dnn_filter *w_descriptor, const void *w, struct fm_dnn_convolution *convolution,            \
       int algorithm, void *workspace, size_t bytes, const void *beta, struct fm_dnn_tensor *y_descriptor,   \
       void *y))                                                                                             \
    X(backward_data, cudnnConvolutionBackwardData, int,                                                      \
      (struct fm_dnn_handle * handle, const void *alpha, struct fm_dnn_filter *w_descriptor, const void *w,  \
       struct fm_dnn_tensor *dy_descriptor, const void *dy, struct fm_dnn_convolution *convolution,          \
       int algorithm, void *workspace, size_t bytes, const void *beta, struct fm_dnn_tensor *dx_descriptor,  \
       void *dx))                                                                                            \
    X(backward_filter, cudnnConvolutionBackwardFilter, int,                                                  \
      (struct fm_dnn_handle * handle, const void *alpha, struct fm_dnn_tensor *x_descriptor, const void *x,  \
       struct fm_dnn_tensor *dy_descriptor, const void *dy, struct fm_dnn_convolution *convolution,          \
       int algorithm, void *workspace, size_t bytes, const void *beta, struct fm_dnn_filter *dw_descriptor,  \
       void *dw))

struct fm_dnn_table {
#define FM_DNN_FIELD(name, symbol, result, parameters) result(*name) parameters;
    FM_DNN_CALLS(FM_DNN_FIELD)
#undef FM_DNN_FIELD
};

#endif
