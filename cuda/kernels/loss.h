/* Losses of one example, their gradients and scores (semantics.md 2.1, 2.2; engine/reference/loss.inc is the
 * plain version), for loss.cu and head.cu. Arithmetic is in float as the reference's. */
#ifndef FM_CUDA_KERNELS_LOSS_H
#define FM_CUDA_KERNELS_LOSS_H

#include "kernels/activation.h"
#include "kernels/rows.h"
#include "kernels/targets.h"

/* Up to so many outputs one thread works on all of them; beyond, a warp does. */
enum { FM_LOSS_NARROW = 16 };

static inline __device__ bool fm_loss_entropy(const fm_cuda_loss &loss)
{
    return loss.kind == FM_LOSS_CATEGORICAL_CROSSENTROPY ||
           loss.kind == FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
}
static inline __device__ bool fm_loss_binary(const fm_cuda_loss &loss)
{
    return loss.kind == FM_LOSS_BINARY_CROSSENTROPY;
}

/* An example's targets: numbers, or a class; smoothed target = y * on + off. */
struct fm_loss_target {
    const float *values;
    uint32_t label;
    bool binary;
    float on, off;
};
static inline __device__ fm_loss_target fm_loss_target_of(const fm_cuda_loss &loss, const fm_cuda_data &data,
                                                          int64_t example)
{
    fm_loss_target t;
    t.binary = fm_loss_binary(loss);
    t.values = data.class_bits ? NULL : data.targets + example * data.target_width;
    t.label = data.class_bits ? fm_device_class(data, example) : 0;
    const bool smooth = t.binary || loss.kind == FM_LOSS_CATEGORICAL_CROSSENTROPY;
    const float part = smooth ? loss.label_smoothing : 0.0f;
    t.on = 1 - part;
    t.off = part / (t.binary ? 2.0f : (float)loss.outputs);
    return t;
}
static inline __device__ float fm_loss_target_at(const fm_loss_target &t, int k)
{
    const float y = t.values ? t.values[k] : t.binary ? (float)t.label : t.label == (uint32_t)k ? 1.0f : 0.0f;
    return fmaf(y, t.on, t.off);
}

/* Losses that are means over the outputs: of one output, and its gradient. */
static inline __device__ float fm_output_loss(const fm_cuda_loss &loss, float z, float y)
{
    const float error = z - y, size = fabsf(error);
    switch (loss.kind) {
    case FM_LOSS_BINARY_CROSSENTROPY: return (z < 0 ? 0 : z) - z * y + log1pf(expf(-fabsf(z)));
    case FM_LOSS_MSE: return error * error;
    case FM_LOSS_HUBER:
        return size <= loss.delta ? error * error / 2 : loss.delta * size - loss.delta * loss.delta / 2;
    default: return size;
    }
}
static inline __device__ float fm_output_gradient(const fm_cuda_loss &loss, float z, float y)
{
    const float error = z - y;
    switch (loss.kind) {
    case FM_LOSS_BINARY_CROSSENTROPY: return fm_sigmoid(z) - y;
    case FM_LOSS_MSE: return 2 * error;
    case FM_LOSS_HUBER: return error > loss.delta ? loss.delta : error < -loss.delta ? -loss.delta : error;
    default: return error > 0 ? 1.0f : error < 0 ? -1.0f : 0 * error;
    }
}

/* What a gradient is multiplied with, in double as the reference does. */
static inline __device__ float fm_loss_share(const fm_cuda_loss &loss, float weight, int n)
{
    return (float)((double)weight / (double)n / (fm_loss_entropy(loss) ? 1.0 : (double)loss.outputs));
}

/* One example of at most MAX outputs in registers: z becomes the scores, d the gradient times `share`. */
template <int MAX>
static inline __device__ float fm_narrow_loss(const fm_cuda_loss &loss, const fm_loss_target &t, float share,
                                              float (&z)[MAX], float (&d)[MAX])
{
    const bool entropy = fm_loss_entropy(loss), binary = t.binary;
    float top = z[0], sum = 0, value = 0;
#pragma unroll
    for (int k = 1; k < MAX; k++)
        if (k < loss.outputs && z[k] > top) top = z[k];
    if (entropy) {
#pragma unroll
        for (int k = 0; k < MAX; k++)
            if (k < loss.outputs) sum += d[k] = expf(z[k] - top);
    }
    const float logarithm = entropy ? logf(sum) : 0;
#pragma unroll
    for (int k = 0; k < MAX; k++) {
        if (k >= loss.outputs) continue;
        const float y = fm_loss_target_at(t, k);
        if (entropy) {
            value -= y * (z[k] - top - logarithm);
            z[k] = d[k] / sum;
            d[k] = (z[k] - y) * share;
        } else {
            value += fm_output_loss(loss, z[k], y);
            d[k] = fm_output_gradient(loss, z[k], y) * share;
            if (binary) z[k] = fm_sigmoid(z[k]);
        }
    }
    return entropy ? value : value / (float)loss.outputs;
}

#endif
