/* Activations in double, by their definitions: what the tests of kernels compare with. Derivatives are
 * central differences. */
#ifndef FM_TESTS_CUDA_ACTIVATIONS_H
#define FM_TESTS_CUDA_ACTIVATIONS_H

#include <math.h>

#include "net/program.h"

static inline double expected_activation(int kind, double slope, double x)
{
    const double softplus = log1p(exp(-fabs(x))) + fmax(x, 0), sigmoid = 1 / (1 + exp(-x));
    const double scale = 1.0507009873554805, alpha = 1.6732632423543772;
    switch (kind) {
    case FM_ACT_RELU: return x < 0 ? 0 : x;
    case FM_ACT_LEAKY_RELU: return x < 0 ? slope * x : x;
    case FM_ACT_SWISH: return x * sigmoid;
    case FM_ACT_GELU: return x * (1 + erf(x / sqrt(2))) / 2;
    case FM_ACT_ELU: return x < 0 ? slope * (exp(x) - 1) : x;
    case FM_ACT_SELU: return scale * (x < 0 ? alpha * (exp(x) - 1) : x);
    case FM_ACT_SOFTPLUS: return softplus;
    case FM_ACT_TANH: return tanh(x);
    case FM_ACT_SIGMOID: return sigmoid;
    case FM_ACT_HARD_SIGMOID: return fmin(fmax(x + 3, 0), 6) / 6;
    case FM_ACT_MISH: return x * tanh(softplus);
    default: return x;
    }
}

static inline double expected_derivative(int kind, double slope, double x)
{
    const double h = 1e-6;
    return (expected_activation(kind, slope, x + h) - expected_activation(kind, slope, x - h)) / (2 * h);
}

static inline int derivative_is_stored(int kind)
{
    return kind == FM_ACT_SWISH || kind == FM_ACT_GELU || kind == FM_ACT_SOFTPLUS ||
           kind == FM_ACT_HARD_SIGMOID || kind == FM_ACT_MISH;
}

#endif
