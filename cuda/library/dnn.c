/* Convolutions by cuDNN.
 *
 * A 1-D convolution is cuDNN's 2-D one with height 1. Activations are channels-last: a tensor of n examples,
 * c channels, h = 1, w rows has strides (example, 1, rows * c, c). Padding is rows of zeros in the buffers,
 * because cuDNN pads both sides alike; the descriptors pad 0.
 *
 * What is known of the layouts. From the documentation of the legacy calls (7.6 to 9): with kernels NCHW,
 * forward takes any strides in ALGO_0, 1 and 2 (implicit GEMM, precomputed, explicit), but both gradients
 * want dy as packed NCHW, which ours is not; with kernels NHWC (7.6.3 and later in float) all three take x,
 * y, dx and dy as "HWC-packed" NHWC in ALGO_0 and 1. So kernels are NHWC: [F][1][taps][C / groups].
 * HWC-packed leaves the stride between examples free, which is what a halo needs. PyTorch's channels_last
 * convolutions are called in the same way, with groups too.
 *
 * Not known, for want of a card: whether each version takes a stride between examples that is larger than an
 * example, groups with these layouts, and dilation in the gradients. Therefore nothing is assumed: what the
 * getters of algorithm and workspace do not offer goes to the own kernel.
 *
 * Rows: of a padded tensor cuDNN sees `seen` rows, as many as it may without finding one more output row than
 * the convolution has. A stride can leave up to stride - 1 rows at the end that no output reaches; they are
 * inside what is seen, so that dx gets its zeros there. */
#include "library/private.h"

#include <limits.h>
#include <stdio.h>

#include "base/memory.h"

struct fm_cuda_weights fm_dnn_weights(const struct fm_cuda_conv *conv)
{
    const int in = conv->in_channels / conv->groups;
    const struct fm_cuda_weights weights = {NULL, in, 1, conv->taps * in};
    return weights;
}

struct shape {
    int examples, rows, channels, example;
};

/* The rows of x that the descriptor shows, or 0 when the arguments do not describe a convolution. */
static int rows_seen(const struct fm_cuda_conv *conv, int padded_rows, enum fm_dnn_direction direction)
{
    if (conv->in_rows < 1 || conv->out_rows < 1 || conv->in_channels < 1 || conv->out_channels < 1 ||
        conv->taps < 1 || conv->stride < 1 || conv->dilation < 1 || conv->groups < 1 || conv->pad < 0 ||
        conv->in_channels % conv->groups || conv->out_channels % conv->groups)
        return 0;
    const int64_t span = (int64_t)(conv->taps - 1) * conv->dilation + 1;
    const int64_t needed = (int64_t)(conv->out_rows - 1) * conv->stride + span;
    int64_t seen = needed + conv->stride - 1;
    if (seen > padded_rows) seen = padded_rows;
    if (seen < needed) return 0;
    if (direction == FM_DNN_INPUT_GRAD && seen < (int64_t)conv->pad + conv->in_rows) return 0;
    return (int)seen;
}

static bool fits(const struct shape *shape)
{
    return shape->examples >= 1 && (int64_t)shape->rows * shape->channels <= shape->example &&
           (int64_t)shape->examples * shape->example <= INT_MAX;
}

static int set_tensor(const struct fm_dnn_table *dnn, struct fm_dnn_tensor *tensor, const struct shape *shape)
{
    return dnn->tensor_set(tensor, FM_DNN_FLOAT, shape->examples, shape->channels, 1, shape->rows,
                           shape->example, 1, shape->rows * shape->channels, shape->channels);
}

/* FMA since 8; before, the default is what it is called now. */
static int set_math(const struct fm_cuda_libraries *libraries, struct fm_dnn_convolution *convolution)
{
    return libraries->dnn->convolution_math(convolution,
                                            libraries->cudnn >= 8000 ? FM_DNN_FMA_MATH : FM_DNN_DEFAULT_MATH);
}

#define FM_STEP(expression, name)                                                                            \
    do {                                                                                                     \
        const int step_status = fm_dnn_judge(device, (expression), name, why, why_size, err);                \
        if (step_status) return step_status;                                                                 \
    } while (0)
static int describe(struct fm_device *device, struct fm_dnn_call *call, const struct fm_cuda_conv *conv,
                    const struct shape *x, const struct shape *y, char *why, size_t why_size,
                    struct fm_error *err)
{
    const struct fm_dnn_table *dnn = device->libraries->dnn;
    FM_STEP(dnn->tensor_create(&call->x), "cudnnCreateTensorDescriptor");
    FM_STEP(dnn->tensor_create(&call->y), "cudnnCreateTensorDescriptor");
    FM_STEP(dnn->filter_create(&call->w), "cudnnCreateFilterDescriptor");
    FM_STEP(dnn->convolution_create(&call->convolution), "cudnnCreateConvolutionDescriptor");
    FM_STEP(set_tensor(dnn, call->x, x), "cudnnSetTensor4dDescriptorEx");
    FM_STEP(set_tensor(dnn, call->y, y), "cudnnSetTensor4dDescriptorEx");
    FM_STEP(dnn->filter_set(call->w, FM_DNN_FLOAT, FM_DNN_NHWC, conv->out_channels,
                            conv->in_channels / conv->groups, 1, conv->taps),
            "cudnnSetFilter4dDescriptor");
    FM_STEP(dnn->convolution_set(call->convolution, 0, 0, 1, conv->stride, 1, conv->dilation,
                                 FM_DNN_CROSS_CORRELATION, FM_DNN_FLOAT),
            "cudnnSetConvolution2dDescriptor");
    FM_STEP(dnn->convolution_groups(call->convolution, conv->groups), "cudnnSetConvolutionGroupCount");
    FM_STEP(set_math(device->libraries, call->convolution), "cudnnSetConvolutionMathType");
    return 0;
}
#undef FM_STEP

int fm_dnn_call_new(struct fm_dnn_call **made, struct fm_device *device, struct fm_card *card,
                    enum fm_dnn_direction direction, const struct fm_cuda_conv *conv, int padded_rows,
                    int rows, int x_example, int y_example, int algorithm, char *why, size_t why_size,
                    struct fm_error *err)
{
    *made = NULL;
    if (!card->dnn) {
        snprintf(why, why_size, "there is no cuDNN");
        return 1;
    }
    const struct shape x = {rows, rows_seen(conv, padded_rows, direction), conv->in_channels, x_example};
    const struct shape y = {rows, conv->out_rows, conv->out_channels, y_example};
    if (x.rows == 0)
        return fm_fail(err, FM_EINTERNAL, "a convolution of %d rows from %d does not fit a buffer of %d",
                       conv->out_rows, conv->in_rows, padded_rows);
    if (!fits(&x) || !fits(&y)) {
        snprintf(why, why_size, "the tensor is too large for cuDNN");
        return 1;
    }
    int status = fm_card_use(device, card, err);
    if (status) return status;
    struct fm_dnn_call *call = fm_calloc(1, sizeof *call);
    if (!call) return fm_fail_memory(err);
    call->direction = direction;
    call->conv = *conv;
    call->rows = rows;
    call->x_example = x_example;
    call->y_example = y_example;
    status = describe(device, call, conv, &x, &y, why, why_size, err);
    if (!status) status = fm_dnn_choose(device, card->dnn, call, algorithm, why, why_size, err);
    if (status) {
        fm_dnn_call_free(device, call);
        return status;
    }
    *made = call;
    return 0;
}

void fm_dnn_call_free(struct fm_device *device, struct fm_dnn_call *call)
{
    if (!call) return;
    const struct fm_dnn_table *dnn = device->libraries->dnn;
    if (call->convolution)
        FM_LIBRARY_NOTED(device, dnn->convolution_destroy(call->convolution),
                         "cudnnDestroyConvolutionDescriptor");
    if (call->w) FM_LIBRARY_NOTED(device, dnn->filter_destroy(call->w), "cudnnDestroyFilterDescriptor");
    if (call->y) FM_LIBRARY_NOTED(device, dnn->tensor_destroy(call->y), "cudnnDestroyTensorDescriptor");
    if (call->x) FM_LIBRARY_NOTED(device, dnn->tensor_destroy(call->x), "cudnnDestroyTensorDescriptor");
    fm_free(call);
}

int fm_dnn_call_algorithm(const struct fm_dnn_call *call)
{
    return call->algorithm;
}

int64_t fm_dnn_call_workspace(const struct fm_dnn_call *call)
{
    return (int64_t)call->workspace;
}

int fm_dnn_call_run(struct fm_device *device, struct fm_card *card, const struct fm_dnn_call *call,
                    cudaStream_t stream, float *x, float *w, float *y, void *workspace, struct fm_error *err)
{
    const struct fm_dnn_table *dnn = device->libraries->dnn;
    const float one = 1, zero = 0;
    void *space = call->workspace ? workspace : NULL;
    int status = fm_cuda_alive(device, err);
    if (status) return status;
    status = fm_dnn_check(device, dnn->set_stream(card->dnn, stream), "cudnnSetStream", err);
    if (status) return status;
    switch (call->direction) {
    case FM_DNN_FORWARD:
        return fm_dnn_check(device,
                            dnn->forward(card->dnn, &one, call->x, x, call->w, w, call->convolution,
                                         call->algorithm, space, call->workspace, &zero, call->y, y),
                            "cudnnConvolutionForward", err);
    case FM_DNN_INPUT_GRAD:
        return fm_dnn_check(device,
                            dnn->backward_data(card->dnn, &one, call->w, w, call->y, y, call->convolution,
                                               call->algorithm, space, call->workspace, &zero, call->x, x),
                            "cudnnConvolutionBackwardData", err);
    default:
        return fm_dnn_check(device,
                            dnn->backward_filter(card->dnn, &one, call->x, x, call->y, y, call->convolution,
                                                 call->algorithm, space, call->workspace, &zero, call->w, w),
                            "cudnnConvolutionBackwardFilter", err);
    }
}
