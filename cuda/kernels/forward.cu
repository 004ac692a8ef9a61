/* Convolutions and dense layers forward, with bias, activation and its stored derivative: see product.h. */
#include "kernels/product.h"

extern "C" cudaError_t fm_cuda_forward(struct fm_cuda_place place, struct fm_cuda_conv conv,
                                       struct fm_cuda_tensor x, struct fm_cuda_weights w, const float *bias,
                                       struct fm_cuda_activation activation, struct fm_cuda_tensor y)
{
    struct fm_product p = {};
    p.x = x.at;
    p.x_example = x.example;
    p.x_channels = conv.in_channels;
    p.x_rows = conv.in_rows;
    p.depth = conv.in_channels / conv.groups;
    p.width = conv.out_channels / conv.groups;
    p.w = w.at;
    p.w_tap = w.tap;
    p.w_k = w.in;
    p.w_n = w.out;
    p.w_group = p.width * w.out;
    p.y = y;
    p.y_channels = conv.out_channels;
    p.y_rows = conv.out_rows;
    p.taps = conv.taps;
    p.stride = conv.stride;
    p.dilation = conv.dilation;
    p.pad = conv.pad;
    p.phases = p.period = 1;
    p.places = conv.out_rows;
    p.bias = bias;
    p.activation = activation;
    return product_enqueue<false>(place, p);
}
