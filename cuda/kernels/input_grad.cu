/* The gradient of a convolution's or dense layer's input, times the derivative of what stands before it: see
 * product.h. W is read with its channels and filters exchanged; nothing is transposed in memory. */
#include "kernels/product.h"

static int common_divisor(int a, int b)
{
    while (b) {
        const int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

extern "C" cudaError_t fm_cuda_input_grad(struct fm_cuda_place place, struct fm_cuda_conv conv,
                                          struct fm_cuda_tensor dy, struct fm_cuda_weights w,
                                          struct fm_cuda_activation activation, int accumulate,
                                          struct fm_cuda_tensor dx)
{
    struct fm_product p = {};
    p.x = dy.at;
    p.x_example = dy.example;
    p.x_channels = conv.out_channels;
    p.x_rows = conv.out_rows;
    p.depth = conv.out_channels / conv.groups;
    p.width = conv.in_channels / conv.groups;
    p.w = w.at;
    p.w_tap = w.tap;
    p.w_k = w.out;
    p.w_n = w.in;
    p.w_group = p.depth * w.out;
    p.y = dx;
    p.y_channels = conv.in_channels;
    p.y_rows = conv.in_rows;
    p.taps = conv.taps;
    p.stride = conv.stride;
    p.dilation = conv.dilation;
    p.pad = conv.pad;
    p.phases = conv.stride;
    p.period = conv.stride / common_divisor(conv.stride, conv.dilation);
    p.places = (int)fm_ceil(conv.in_rows, conv.stride);
    p.activation = activation;
    p.accumulate = accumulate;
    return product_enqueue<true>(place, p);
}
