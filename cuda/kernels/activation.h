/* Activations on the device, and their derivatives: what engine/reference/activation.inc says, in float. One
 * element at a time; softmax is no part of it (elements.cu).
 *
 * CUDA's own expf, tanhf, ... in full precision, never the fast intrinsics: results stay within a few units
 * of the last place of the CPU's. Comparisons are written so that NaN comes out as NaN.
 *
 * The switch is long once inlined: call it from a loop that is not unrolled, or give `kind` as a constant. */
#ifndef FM_CUDA_KERNELS_ACTIVATION_H
#define FM_CUDA_KERNELS_ACTIVATION_H

#include "kernels/device.h"
#include "net/program.h"

static __device__ inline float fm_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static __device__ inline float fm_softplus(float x)
{
    return (x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x)));
}

#define FM_SELU_SCALE  1.0507009873554804934193349852946f
#define FM_SELU_ALPHA  1.6732632423543772848170429916717f
#define FM_ROOT_HALF   0.70710678118654752440084436210485f
#define FM_NORMAL_PEAK 0.39894228040143267793994605993438f

static __device__ inline float fm_activate(int kind, float slope, float x)
{
    switch (kind) {
    case FM_ACT_RELU: return x < 0.0f ? 0.0f : x;
    case FM_ACT_LEAKY_RELU: return x > 0.0f ? x : slope * x;
    case FM_ACT_SWISH: return x * fm_sigmoid(x);
    case FM_ACT_GELU: return x * (0.5f * erfcf(-x * FM_ROOT_HALF));
    case FM_ACT_ELU: return x > 0.0f ? x : slope * expm1f(x);
    case FM_ACT_SELU: return FM_SELU_SCALE * (x > 0.0f ? x : FM_SELU_ALPHA * expm1f(x));
    case FM_ACT_SOFTPLUS: return fm_softplus(x);
    case FM_ACT_TANH: return tanhf(x);
    case FM_ACT_SIGMOID: return fm_sigmoid(x);
    case FM_ACT_HARD_SIGMOID: return (x <= -3.0f ? 0.0f : x >= 3.0f ? 6.0f : x + 3.0f) / 6.0f;
    case FM_ACT_MISH: return x * tanhf(fm_softplus(x));
    default: return x;
    }
}

/* The derivative from the input, which forward stores for swish, gelu, softplus, hard_sigmoid and mish. */
static __device__ inline float fm_derivative_of_input(int kind, float slope, float x)
{
    switch (kind) {
    case FM_ACT_RELU: return x > 0.0f ? 1.0f : 0.0f;
    case FM_ACT_LEAKY_RELU: return x > 0.0f ? 1.0f : slope;
    case FM_ACT_SWISH: {
        const float s = fm_sigmoid(x);
        return s * (1.0f + x * (1.0f - s));
    }
    case FM_ACT_GELU: return 0.5f * erfcf(-x * FM_ROOT_HALF) + x * FM_NORMAL_PEAK * expf(-x * x / 2.0f);
    case FM_ACT_ELU: return x < 0.0f ? slope * expf(x) : 1.0f;
    case FM_ACT_SELU: return FM_SELU_SCALE * (x < 0.0f ? FM_SELU_ALPHA * expf(x) : 1.0f);
    case FM_ACT_SOFTPLUS: return fm_sigmoid(x);
    case FM_ACT_TANH: {
        const float t = tanhf(x);
        return 1.0f - t * t;
    }
    case FM_ACT_SIGMOID: {
        const float s = fm_sigmoid(x);
        return s * (1.0f - s);
    }
    case FM_ACT_HARD_SIGMOID: return x > -3.0f && x < 3.0f ? 1.0f / 6.0f : 0.0f;
    case FM_ACT_MISH: {
        const float s = fm_sigmoid(x), t = tanhf(fm_softplus(x));
        return t + x * s * (1.0f - t * t);
    }
    default: return 1.0f;
    }
}

static __device__ inline float fm_derivative_of_output(int kind, float slope, float y)
{
    switch (kind) {
    case FM_ACT_RELU: return y > 0.0f ? 1.0f : 0.0f;
    case FM_ACT_LEAKY_RELU: return y > 0.0f ? 1.0f : slope;
    case FM_ACT_ELU: return y < 0.0f ? y + slope : 1.0f;
    case FM_ACT_SELU: return y < 0.0f ? y + FM_SELU_SCALE * FM_SELU_ALPHA : FM_SELU_SCALE;
    case FM_ACT_SOFTPLUS: return -expm1f(-y);
    case FM_ACT_TANH: return 1.0f - y * y;
    case FM_ACT_SIGMOID: return y * (1.0f - y);
    case FM_ACT_HARD_SIGMOID: return y > 0.0f && y < 1.0f ? 1.0f / 6.0f : 0.0f;
    default: return 1.0f;
    }
}

/* What the derivative of struct fm_cuda_activation is at one element of `stored`; 1 where there is none. */
static __device__ inline float fm_derivative_at(struct fm_cuda_activation activation, int64_t place)
{
    if (activation.kind == FM_ACT_LINEAR || !activation.stored.at) return 1.0f;
    const float value = activation.stored.at[place];
    return activation.is_stored ? value : fm_derivative_of_output(activation.kind, activation.slope, value);
}

#endif
