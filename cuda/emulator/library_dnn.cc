// cuDNN's handles and descriptors.
#include "emulator/library_private.h"

#include <string.h>

#include <deque>

#define HANDLE      "cuDNN handle"
#define TENSOR      "cuDNN tensor descriptor"
#define FILTER      "cuDNN filter descriptor"
#define CONVOLUTION "cuDNN convolution descriptor"

#define ENTER(call)                                                                                          \
    struct fm_emulated_clock clock;                                                                          \
    do {                                                                                                     \
        const int entered = fm_emulated_enter_library(call, FM_EMULATED_DNN_EXECUTION_FAILED);               \
        if (entered) return entered;                                                                         \
    } while (0)
#define NEED(object, kind, call)                                                                             \
    do {                                                                                                     \
        if (!fm_emulated_object_is(object, kind, call)) return FM_EMULATED_DNN_BAD_PARAM;                    \
    } while (0)

// Objects are kept for ever, so that none is where a destroyed one was.
template <class T> static int make(T **object, const char *kind)
{
    static std::deque<T> *all = new std::deque<T>;
    all->emplace_back();
    *object = &all->back();
    fm_emulated_object_add(*object, kind);
    return 0;
}
// Gone even where the call fails: a program cannot give it back twice.
template <class T> static int unmake(T *object, const char *kind, const char *call)
{
    struct fm_emulated_clock clock;
    const int entered = fm_emulated_enter_library(call, FM_EMULATED_DNN_EXECUTION_FAILED);
    if (!fm_emulated_object_remove(object, kind, call)) return FM_EMULATED_DNN_BAD_PARAM;
    return entered;
}

// The newest that has code for the cards: what a careful user installs.
static size_t version(void)
{
    if (fm_emulated_library()->cudnn) return (size_t)fm_emulated_library()->cudnn;
    const struct fm_emulator_settings *settings = fm_emulated_settings();
    const bool old = strcmp(settings->card, "gtx1060") == 0 || strcmp(settings->others, "gtx1060") == 0;
    return old ? 91002 : 91900;
}
static size_t version_behind(void) { return (size_t)fm_emulated_library()->behind; }
static size_t cudart_version(void)
{
    return fm_emulated_library()->built_for ? (size_t)fm_emulated_library()->built_for : CUDART_VERSION;
}
static const char *error_string(int status)
{
    switch (status) {
    case 0: return "CUDNN_STATUS_SUCCESS";
    case FM_EMULATED_DNN_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case FM_EMULATED_DNN_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case FM_EMULATED_DNN_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case FM_EMULATED_DNN_NO_MEMORY: return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case FM_EMULATED_DNN_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_UNKNOWN_STATUS";
    }
}

static int create(struct fm_dnn_handle **handle)
{
    ENTER("cudnnCreate");
    if (!fm_emulated_may_block("cudnnCreate")) return FM_EMULATED_DNN_EXECUTION_FAILED;
    make(handle, HANDLE);
    (*handle)->card = fm_emulated_card();
    return 0;
}
static int destroy(struct fm_dnn_handle *handle)
{
    const bool fine = fm_emulated_may_block("cudnnDestroy");
    const int status = unmake(handle, HANDLE, "cudnnDestroy");
    return fine ? status : FM_EMULATED_DNN_EXECUTION_FAILED;
}
static int set_stream(struct fm_dnn_handle *handle, cudaStream_t stream)
{
    ENTER("cudnnSetStream");
    NEED(handle, HANDLE, "cudnnSetStream");
    if (!fm_emulated_stream_check(stream, "cudnnSetStream")) return FM_EMULATED_DNN_BAD_PARAM;
    handle->stream = stream;
    return 0;
}

static int tensor_create(struct fm_dnn_tensor **tensor)
{
    ENTER("cudnnCreateTensorDescriptor");
    return make(tensor, TENSOR);
}
static int tensor_destroy(struct fm_dnn_tensor *tensor)
{
    return unmake(tensor, TENSOR, "cudnnDestroyTensorDescriptor");
}
static int tensor_set(struct fm_dnn_tensor *tensor, int type, int n, int c, int h, int w, int n_stride,
                      int c_stride, int h_stride, int w_stride)
{
    ENTER("cudnnSetTensor4dDescriptorEx");
    NEED(tensor, TENSOR, "cudnnSetTensor4dDescriptorEx");
    if (type != FM_DNN_FLOAT || n < 1 || c < 1 || h < 1 || w < 1 || n_stride < 1 || c_stride < 1 ||
        h_stride < 1 || w_stride < 1 || (int64_t)n * n_stride > INT32_MAX) {
        fm_emulated_fault("cudnnSetTensor4dDescriptorEx: %d x %d x %d x %d, strides %d, %d, %d, %d", n, c, h,
                          w, n_stride, c_stride, h_stride, w_stride);
        return FM_EMULATED_DNN_BAD_PARAM;
    }
    *tensor = {true, n, c, h, w, n_stride, c_stride, h_stride, w_stride};
    return 0;
}

static int filter_create(struct fm_dnn_filter **filter)
{
    ENTER("cudnnCreateFilterDescriptor");
    return make(filter, FILTER);
}
static int filter_destroy(struct fm_dnn_filter *filter)
{
    return unmake(filter, FILTER, "cudnnDestroyFilterDescriptor");
}
static int filter_set(struct fm_dnn_filter *filter, int type, int format, int k, int c, int h, int w)
{
    ENTER("cudnnSetFilter4dDescriptor");
    NEED(filter, FILTER, "cudnnSetFilter4dDescriptor");
    if (type != FM_DNN_FLOAT || format < 0 || format > 1 || k < 1 || c < 1 || h < 1 || w < 1) {
        fm_emulated_fault("cudnnSetFilter4dDescriptor: %d x %d x %d x %d in format %d", k, c, h, w, format);
        return FM_EMULATED_DNN_BAD_PARAM;
    }
    *filter = {true, format, k, c, h, w};
    return 0;
}

static int convolution_create(struct fm_dnn_convolution **convolution)
{
    ENTER("cudnnCreateConvolutionDescriptor");
    make(convolution, CONVOLUTION);
    (*convolution)->groups = 1;
    return 0;
}
static int convolution_destroy(struct fm_dnn_convolution *convolution)
{
    return unmake(convolution, CONVOLUTION, "cudnnDestroyConvolutionDescriptor");
}
static int convolution_set(struct fm_dnn_convolution *convolution, int pad_h, int pad_w, int stride_h,
                           int stride_w, int dilation_h, int dilation_w, int mode, int type)
{
    ENTER("cudnnSetConvolution2dDescriptor");
    NEED(convolution, CONVOLUTION, "cudnnSetConvolution2dDescriptor");
    if (pad_h || pad_w || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1 ||
        mode != FM_DNN_CROSS_CORRELATION || type != FM_DNN_FLOAT) {
        fm_emulated_fault("cudnnSetConvolution2dDescriptor: pad %d %d, stride %d %d, dilation %d %d, mode %d",
                          pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, mode);
        return FM_EMULATED_DNN_BAD_PARAM;
    }
    convolution->set = true;
    convolution->stride_h = stride_h;
    convolution->stride_w = stride_w;
    convolution->dilation_h = dilation_h;
    convolution->dilation_w = dilation_w;
    return 0;
}
static int convolution_groups(struct fm_dnn_convolution *convolution, int groups)
{
    ENTER("cudnnSetConvolutionGroupCount");
    NEED(convolution, CONVOLUTION, "cudnnSetConvolutionGroupCount");
    if (groups < 1) {
        fm_emulated_fault("cudnnSetConvolutionGroupCount: %d groups", groups);
        return FM_EMULATED_DNN_BAD_PARAM;
    }
    convolution->groups = groups;
    return 0;
}
static int convolution_math(struct fm_dnn_convolution *convolution, int math)
{
    ENTER("cudnnSetConvolutionMathType");
    NEED(convolution, CONVOLUTION, "cudnnSetConvolutionMathType");
    if (math != (version() >= 8000 ? FM_DNN_FMA_MATH : FM_DNN_DEFAULT_MATH)) {
        fm_emulated_fault("cudnnSetConvolutionMathType: %d is not fp32", math);
        return FM_EMULATED_DNN_BAD_PARAM;
    }
    convolution->math = math;
    return 0;
}

// The getters. Heuristics may load code, so they have no place in a capture.
static int algorithms(struct fm_dnn_handle *handle, struct fm_dnn_tensor *x, struct fm_dnn_filter *w,
                      struct fm_dnn_convolution *convolution, struct fm_dnn_tensor *y, int direction,
                      const char *call, int requested, int *returned, struct fm_dnn_answer *answers)
{
    struct fm_emulated_clock clock;
    const int entered = fm_emulated_enter_library(call, FM_EMULATED_DNN_EXECUTION_FAILED);
    if (entered) return entered;
    struct fm_emulated_conv conv;
    if (!fm_emulated_object_is(handle, HANDLE, call) || !fm_emulated_may_block(call) ||
        !fm_emulated_conv_read(&conv, x, w, convolution, y, call) || requested < 1 || !returned || !answers)
        return FM_EMULATED_DNN_BAD_PARAM;
    if (fm_emulated_library()->no_getters) return FM_EMULATED_DNN_NOT_SUPPORTED;
    *returned = fm_emulated_conv_answers(&conv, direction, w->format == FM_DNN_NHWC, requested, answers);
    return 0;
}
static int workspace(struct fm_dnn_handle *handle, struct fm_dnn_tensor *x, struct fm_dnn_filter *w,
                     struct fm_dnn_convolution *convolution, struct fm_dnn_tensor *y, int direction,
                     const char *call, int algorithm, size_t *bytes)
{
    struct fm_emulated_clock clock;
    const int entered = fm_emulated_enter_library(call, FM_EMULATED_DNN_EXECUTION_FAILED);
    if (entered) return entered;
    struct fm_emulated_conv conv;
    if (!fm_emulated_object_is(handle, HANDLE, call) ||
        !fm_emulated_conv_read(&conv, x, w, convolution, y, call) || !bytes)
        return FM_EMULATED_DNN_BAD_PARAM;
    const int64_t need = fm_emulated_conv_workspace(&conv, direction, algorithm);
    if (need < 0) return FM_EMULATED_DNN_NOT_SUPPORTED;
    *bytes = (size_t)need;
    return 0;
}

static int forward_algorithms(struct fm_dnn_handle *handle, struct fm_dnn_tensor *x, struct fm_dnn_filter *w,
                              struct fm_dnn_convolution *convolution, struct fm_dnn_tensor *y, int requested,
                              int *returned, struct fm_dnn_answer *answers)
{
    return algorithms(handle, x, w, convolution, y, FM_EMULATED_FORWARD,
                      "cudnnGetConvolutionForwardAlgorithm_v7", requested, returned, answers);
}
static int data_algorithms(struct fm_dnn_handle *handle, struct fm_dnn_filter *w, struct fm_dnn_tensor *dy,
                           struct fm_dnn_convolution *convolution, struct fm_dnn_tensor *dx, int requested,
                           int *returned, struct fm_dnn_answer *answers)
{
    return algorithms(handle, dx, w, convolution, dy, FM_EMULATED_DATA,
                      "cudnnGetConvolutionBackwardDataAlgorithm_v7", requested, returned, answers);
}
static int filter_algorithms(struct fm_dnn_handle *handle, struct fm_dnn_tensor *x, struct fm_dnn_tensor *dy,
                             struct fm_dnn_convolution *convolution, struct fm_dnn_filter *dw, int requested,
                             int *returned, struct fm_dnn_answer *answers)
{
    return algorithms(handle, x, dw, convolution, dy, FM_EMULATED_FILTER,
                      "cudnnGetConvolutionBackwardFilterAlgorithm_v7", requested, returned, answers);
}
static int forward_workspace(struct fm_dnn_handle *handle, struct fm_dnn_tensor *x, struct fm_dnn_filter *w,
                             struct fm_dnn_convolution *convolution, struct fm_dnn_tensor *y, int algorithm,
                             size_t *bytes)
{
    return workspace(handle, x, w, convolution, y, FM_EMULATED_FORWARD,
                     "cudnnGetConvolutionForwardWorkspaceSize", algorithm, bytes);
}
static int data_workspace(struct fm_dnn_handle *handle, struct fm_dnn_filter *w, struct fm_dnn_tensor *dy,
                          struct fm_dnn_convolution *convolution, struct fm_dnn_tensor *dx, int algorithm,
                          size_t *bytes)
{
    return workspace(handle, dx, w, convolution, dy, FM_EMULATED_DATA,
                     "cudnnGetConvolutionBackwardDataWorkspaceSize", algorithm, bytes);
}
static int filter_workspace(struct fm_dnn_handle *handle, struct fm_dnn_tensor *x, struct fm_dnn_tensor *dy,
                            struct fm_dnn_convolution *convolution, struct fm_dnn_filter *dw, int algorithm,
                            size_t *bytes)
{
    return workspace(handle, x, dw, convolution, dy, FM_EMULATED_FILTER,
                     "cudnnGetConvolutionBackwardFilterWorkspaceSize", algorithm, bytes);
}

const struct fm_dnn_table *fm_emulator_dnn(void)
{
    static struct fm_dnn_table table;
    struct fm_dnn_table *t = &table;
    t->version = version, t->cudart_version = cudart_version, t->error_string = error_string;
    t->create = create, t->destroy = destroy, t->set_stream = set_stream;
    t->tensor_create = tensor_create, t->tensor_destroy = tensor_destroy, t->tensor_set = tensor_set;
    t->filter_create = filter_create, t->filter_destroy = filter_destroy, t->filter_set = filter_set;
    t->convolution_create = convolution_create, t->convolution_destroy = convolution_destroy;
    t->convolution_set = convolution_set, t->convolution_groups = convolution_groups;
    t->convolution_math = convolution_math;
    t->forward_algorithms = forward_algorithms, t->data_algorithms = data_algorithms;
    t->filter_algorithms = filter_algorithms;
    t->forward_workspace = forward_workspace, t->data_workspace = data_workspace;
    t->filter_workspace = filter_workspace;
    t->forward = fm_emulated_dnn_forward, t->backward_data = fm_emulated_dnn_backward_data;
    t->backward_filter = fm_emulated_dnn_backward_filter;
    return fm_emulated_settings()->no_library ? NULL : t;
}

const struct fm_dnn_table *fm_emulator_dnn_behind(void)
{
    static struct fm_dnn_table table;
    if (!fm_emulator_dnn() || !fm_emulated_library()->behind) return NULL;
    table = *fm_emulator_dnn();
    table.version = version_behind;
    return &table;
}
