/* The last dense layer with the loss: a group of threads multiplies one example's row, adds over the group,
 * and has all outputs in registers for loss, gradient and scores. How many threads follows from the width of
 * the row: at least four products each. */
#include "kernels/loss.h"

struct head_pass {
    fm_cuda_place place;
    fm_cuda_loss loss;
    int in, group;
    fm_cuda_tensor x, z, dz;
    fm_cuda_weights w;
    const float *bias;
    const int64_t *example;
    const float *weight;
    float *losses, *scores;
};

enum { HEAD_PRODUCTS = 16384 }; /* more of them: a matrix product shares what it reads */

template <int MAX> static __device__ void head_outputs(const head_pass &p, int i, int first, float (&z)[MAX])
{
    const int outputs = p.loss.outputs;
    const float *x = p.x.at + (int64_t)i * p.x.example;
#pragma unroll
    for (int k = 0; k < MAX; k++) z[k] = 0;
    for (int c = first; c < p.in; c += p.group) {
        const float v = x[c];
#pragma unroll
        for (int k = 0; k < MAX; k++)
            if (k < outputs) z[k] = fmaf(v, p.w.at[c * p.w.in + k * p.w.out], z[k]);
    }
#pragma unroll
    for (int k = 0; k < MAX; k++)
        if (k < outputs) z[k] = fm_group_sum(z[k], p.group) + (p.bias ? p.bias[k] : 0);
}

template <int MAX> static __global__ void head(head_pass p)
{
    if (!fm_turn(p.place)) return;
    const fm_group_row r = fm_group_row_here(p.place.rows, 1, p.group);
    const int i = r.i, outputs = p.loss.outputs, n = p.place.lane->control.n;
    float z[MAX], d[MAX];
    head_outputs<MAX>(p, i, r.first, z);
    if (!r.real) return;
#pragma unroll
    for (int k = 0; k < MAX; k++)
        if (p.z.at && k < outputs && k % p.group == r.first) p.z.at[(int64_t)i * p.z.example + k] = z[k];
    const bool valid = i < n;
    const fm_loss_target t = fm_loss_target_of(p.loss, p.place.lane->data, p.example[i]);
    const float share = p.dz.at ? fm_loss_share(p.loss, p.weight[i], n) : 0;
    const float value = fm_narrow_loss<MAX>(p.loss, t, share, z, d);
    if (r.first == 0) p.losses[i] = valid ? value : 0;
    const int skipped = outputs - p.loss.score_width; /* one score of two classes: the second's */
#pragma unroll
    for (int k = 0; k < MAX; k++) {
        if (k >= outputs || k % p.group != r.first) continue;
        if (p.dz.at) p.dz.at[(int64_t)i * p.dz.example + k] = valid ? d[k] : 0;
        if (p.scores && k >= skipped) p.scores[(int64_t)i * p.loss.score_width + k - skipped] = z[k];
    }
}

int fm_cuda_head_can(int in, int outputs)
{
    return outputs <= FM_LOSS_NARROW && in <= HEAD_PRODUCTS / outputs;
}

cudaError_t fm_cuda_head(struct fm_cuda_place place, struct fm_cuda_loss loss, int in,
                         struct fm_cuda_tensor x, struct fm_cuda_weights w, const float *bias,
                         const int64_t *example, const float *weight, struct fm_cuda_tensor z, float *losses,
                         struct fm_cuda_tensor dz, float *scores)
{
    head_pass p;
    p.place = place;
    p.loss = loss;
    p.in = in;
    p.group = fm_group_for((in + 3) / 4);
    p.x = x;
    p.z = z;
    p.dz = dz;
    p.w = w;
    p.bias = bias;
    p.example = example;
    p.weight = weight;
    p.losses = losses;
    p.scores = scores;
    void (*kernel)(head_pass) = loss.outputs <= 2   ? head<2>
                                : loss.outputs <= 4 ? head<4>
                                : loss.outputs <= 8 ? head<8>
                                                    : head<FM_LOSS_NARROW>;
    return fm_launch(kernel, fm_group_blocks(place, 1, p.group), dim3(FM_GROUP_THREADS), 0, place.stream, p);
}
