// cuDNN's convolutions: checks, and plain loops.
#include "emulator/library_private.h"

static bool channels_last(const struct fm_dnn_tensor *t)
{
    return t->h == 1 && (t->c_stride == 1 || t->c == 1) && (t->w_stride == t->c || t->w == 1) &&
           t->n_stride >= t->w * t->c;
}

bool fm_emulated_conv_read(struct fm_emulated_conv *conv, const struct fm_dnn_tensor *x,
                           const struct fm_dnn_filter *w, const struct fm_dnn_convolution *convolution,
                           const struct fm_dnn_tensor *y, const char *call)
{
    if (!fm_emulated_object_is(x, "cuDNN tensor descriptor", call) ||
        !fm_emulated_object_is(y, "cuDNN tensor descriptor", call) ||
        !fm_emulated_object_is(w, "cuDNN filter descriptor", call) ||
        !fm_emulated_object_is(convolution, "cuDNN convolution descriptor", call))
        return false;
    if (!x->set || !y->set || !w->set || !convolution->set) {
        fm_emulated_fault("%s: a descriptor was not set", call);
        return false;
    }
    if (!channels_last(x) || !channels_last(y)) {
        fm_emulated_fault("%s: a tensor is not channels-last", call);
        return false;
    }
    const int64_t span = (int64_t)(w->w - 1) * convolution->dilation_w + 1;
    const int64_t rows = x->w < span ? 0 : (x->w - span) / convolution->stride_w + 1;
    if (w->h != 1 || x->n != y->n || x->c % convolution->groups || w->k % convolution->groups ||
        w->c != x->c / convolution->groups || y->c != w->k || y->w != rows) {
        fm_emulated_fault(
            "%s: %d rows of %d channels by %d kernels of %d taps and %d channels in %d groups are "
            "not %d rows of %d channels",
            call, x->w, x->c, w->k, w->w, w->c, convolution->groups, y->w, y->c);
        return false;
    }
    conv->examples = x->n;
    conv->x_rows = x->w;
    conv->y_rows = y->w;
    conv->channels = x->c;
    conv->filters = w->k;
    conv->taps = w->w;
    conv->stride = convolution->stride_w;
    conv->dilation = convolution->dilation_w;
    conv->groups = convolution->groups;
    conv->x_example = x->n_stride;
    conv->y_example = y->n_stride;
    return true;
}

// y = alpha x * w + beta y, each from its place; a beta of 0 does not read.
static inline void put(float *at, double value, float alpha, float beta)
{
    *at = (float)(beta == 0 ? alpha * value : alpha * value + (double)beta * *at);
}

static void forward(const struct fm_emulated_conv &c, const float *x, const float *w, float *y, float alpha,
                    float beta)
{
    const int in = c.channels / c.groups, out = c.filters / c.groups;
    for (int n = 0; n < c.examples; n++)
        for (int o = 0; o < c.y_rows; o++)
            for (int f = 0; f < c.filters; f++) {
                const float *from = x + n * c.x_example + (int64_t)o * c.stride * c.channels + f / out * in;
                const float *kernel = w + (int64_t)f * c.taps * in;
                double sum = 0;
                for (int j = 0; j < c.taps; j++)
                    for (int i = 0; i < in; i++)
                        sum += (double)from[(int64_t)j * c.dilation * c.channels + i] * kernel[j * in + i];
                put(y + n * c.y_example + (int64_t)o * c.filters + f, sum, alpha, beta);
            }
}

static void backward_data(const struct fm_emulated_conv &c, const float *dy, const float *w, float *dx,
                          float alpha, float beta)
{
    const int in = c.channels / c.groups, out = c.filters / c.groups;
    for (int n = 0; n < c.examples; n++)
        for (int r = 0; r < c.x_rows; r++)
            for (int i = 0; i < c.channels; i++) {
                const int first = i / in * out;
                double sum = 0;
                for (int j = 0; j < c.taps; j++) {
                    const int at = r - j * c.dilation;
                    if (at < 0 || at % c.stride || at / c.stride >= c.y_rows) continue;
                    const float *from = dy + n * c.y_example + (int64_t)(at / c.stride) * c.filters;
                    for (int f = first; f < first + out; f++)
                        sum += (double)from[f] * w[((int64_t)f * c.taps + j) * in + i % in];
                }
                put(dx + n * c.x_example + (int64_t)r * c.channels + i, sum, alpha, beta);
            }
}

static void backward_filter(const struct fm_emulated_conv &c, const float *x, const float *dy, float *dw,
                            float alpha, float beta)
{
    const int in = c.channels / c.groups, out = c.filters / c.groups;
    for (int f = 0; f < c.filters; f++)
        for (int j = 0; j < c.taps; j++)
            for (int i = 0; i < in; i++) {
                double sum = 0;
                for (int n = 0; n < c.examples; n++)
                    for (int o = 0; o < c.y_rows; o++)
                        sum += (double)dy[n * c.y_example + (int64_t)o * c.filters + f] *
                               x[n * c.x_example +
                                 ((int64_t)o * c.stride + (int64_t)j * c.dilation) * c.channels +
                                 f / out * in + i];
                put(dw + ((int64_t)f * c.taps + j) * in + i, sum, alpha, beta);
            }
}

struct run {
    struct fm_emulated_conv conv;
    int direction, algorithm;
    const void *x, *w, *y;
    void *workspace;
    size_t bytes;
    float alpha, beta;
};

static bool check_algorithm(struct fm_dnn_handle *handle, const struct run &run, const char *call)
{
    const int64_t need = fm_emulated_conv_workspace(&run.conv, run.direction, run.algorithm);
    if (!fm_emulated_conv_usable(run.direction, run.algorithm)) {
        fm_emulated_fault("%s: algorithm %d is not one to be used", call, run.algorithm);
        return false;
    }
    if ((int64_t)run.bytes < need) {
        fm_emulated_fault("%s: algorithm %d needs %lld bytes of workspace, %zu are given", call,
                          run.algorithm, (long long)need, run.bytes);
        return false;
    }
    const uint32_t bit = (uint32_t)1 << run.algorithm;
    if (!fm_emulated_stream_captures(handle->stream))
        handle->ran[run.direction] |= bit;
    else if (!(handle->ran[run.direction] & bit)) {
        fm_emulated_fault("%s: algorithm %d is captured, but its code was never loaded by a run before", call,
                          run.algorithm);
        return false;
    }
    return true;
}

static bool check_memory(const struct fm_dnn_handle *handle, const struct run &run, const char *call)
{
    const struct fm_emulated_conv &c = run.conv;
    const size_t x_bytes = (size_t)((c.examples - 1) * c.x_example + (int64_t)c.x_rows * c.channels) * 4;
    const size_t y_bytes = (size_t)((c.examples - 1) * c.y_example + (int64_t)c.y_rows * c.filters) * 4;
    const size_t w_bytes = (size_t)c.filters * c.taps * (c.channels / c.groups) * 4;
    const struct fm_emulated_operand x = {run.x, x_bytes, 16, "x"}, w = {run.w, w_bytes, 16, "w"},
                                     y = {run.y, y_bytes, 16, "y"},
                                     space = {run.workspace, run.bytes, 256, "workspace"};
    const struct fm_emulated_operand *order[3][3] = {{&x, &w, &y}, {&w, &y, &x}, {&x, &y, &w}};
    struct fm_emulated_operand operands[4];
    int count = 0;
    if (run.bytes) operands[count++] = space;
    for (const struct fm_emulated_operand *operand : order[run.direction]) operands[count++] = *operand;
    if (!fm_emulated_operands_check(operands, count, handle->card, call)) return false;
    // The workspace is written, too: it may lie over no input.
    if (run.bytes) {
        struct fm_emulated_operand turned[3] = {operands[1], operands[2], operands[0]};
        if (!fm_emulated_operands_check(turned, 3, handle->card, call)) return false;
    }
    return true;
}

static int start(struct fm_dnn_handle *handle, struct run run, const void *alpha,
                 struct fm_dnn_tensor *x_descriptor, struct fm_dnn_filter *w_descriptor,
                 struct fm_dnn_convolution *convolution, struct fm_dnn_tensor *y_descriptor, const void *beta,
                 const char *call)
{
    struct fm_emulated_clock clock;
    const int entered = fm_emulated_enter_library(call, FM_EMULATED_DNN_EXECUTION_FAILED);
    if (entered) return entered;
    if (!fm_emulated_object_is(handle, "cuDNN handle", call) ||
        !fm_emulated_handle_ready(handle->card, handle->stream, call) ||
        !fm_emulated_conv_read(&run.conv, x_descriptor, w_descriptor, convolution, y_descriptor, call))
        return FM_EMULATED_DNN_BAD_PARAM;
    if (w_descriptor->format != FM_DNN_NHWC) {
        fm_emulated_fault("%s: kernels are not NHWC", call);
        return FM_EMULATED_DNN_NOT_SUPPORTED;
    }
    if (convolution->math != (fm_emulator_dnn()->version() >= 8000 ? FM_DNN_FMA_MATH : FM_DNN_DEFAULT_MATH)) {
        fm_emulated_fault("%s: FMA math was not set, TF32 could be used", call);
        return FM_EMULATED_DNN_NOT_SUPPORTED;
    }
    if (!alpha || !beta || !check_algorithm(handle, run, call) || !check_memory(handle, run, call))
        return FM_EMULATED_DNN_BAD_PARAM;
    if (fm_emulated_library()->refuses) return FM_EMULATED_DNN_NOT_SUPPORTED;
    run.alpha = *(const float *)alpha;
    run.beta = *(const float *)beta;
    if (fm_emulated_library()->wrong) {
        run.conv.x_example = (int64_t)run.conv.x_rows * run.conv.channels;
        run.conv.y_example = (int64_t)run.conv.y_rows * run.conv.filters;
    }
    const auto work = [run] {
        const float *x = (const float *)run.x, *w = (const float *)run.w, *y = (const float *)run.y;
        if (run.bytes) fm_emulated_scribble(run.workspace, run.bytes);
        if (run.direction == FM_EMULATED_FORWARD)
            forward(run.conv, x, w, (float *)y, run.alpha, run.beta);
        else if (run.direction == FM_EMULATED_DATA)
            backward_data(run.conv, y, w, (float *)x, run.alpha, run.beta);
        else
            backward_filter(run.conv, x, y, (float *)w, run.alpha, run.beta);
    };
    return fm_emulated_enqueue(handle->stream, call, work) ? FM_EMULATED_DNN_EXECUTION_FAILED : 0;
}

int fm_emulated_dnn_forward(struct fm_dnn_handle *handle, const void *alpha,
                            struct fm_dnn_tensor *x_descriptor, const void *x,
                            struct fm_dnn_filter *w_descriptor, const void *w,
                            struct fm_dnn_convolution *convolution, int algorithm, void *workspace,
                            size_t bytes, const void *beta, struct fm_dnn_tensor *y_descriptor, void *y)
{
    const struct run run = {{}, FM_EMULATED_FORWARD, algorithm, x, w, y, workspace, bytes, 0, 0};
    return start(handle, run, alpha, x_descriptor, w_descriptor, convolution, y_descriptor, beta,
                 "cudnnConvolutionForward");
}

int fm_emulated_dnn_backward_data(struct fm_dnn_handle *handle, const void *alpha,
                                  struct fm_dnn_filter *w_descriptor, const void *w,
                                  struct fm_dnn_tensor *dy_descriptor, const void *dy,
                                  struct fm_dnn_convolution *convolution, int algorithm, void *workspace,
                                  size_t bytes, const void *beta, struct fm_dnn_tensor *dx_descriptor,
                                  void *dx)
{
    const struct run run = {{}, FM_EMULATED_DATA, algorithm, dx, w, dy, workspace, bytes, 0, 0};
    return start(handle, run, alpha, dx_descriptor, w_descriptor, convolution, dy_descriptor, beta,
                 "cudnnConvolutionBackwardData");
}

int fm_emulated_dnn_backward_filter(struct fm_dnn_handle *handle, const void *alpha,
                                    struct fm_dnn_tensor *x_descriptor, const void *x,
                                    struct fm_dnn_tensor *dy_descriptor, const void *dy,
                                    struct fm_dnn_convolution *convolution, int algorithm, void *workspace,
                                    size_t bytes, const void *beta, struct fm_dnn_filter *dw_descriptor,
                                    void *dw)
{
    const struct run run = {{}, FM_EMULATED_FILTER, algorithm, x, dw, dy, workspace, bytes, 0, 0};
    return start(handle, run, alpha, x_descriptor, dw_descriptor, convolution, dy_descriptor, beta,
                 "cudnnConvolutionBackwardFilter");
}
