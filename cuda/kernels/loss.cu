/* Losses, gradients and scores from outputs that lie in memory: a thread an example where there are few, a
 * warp where there are many. */
#include "kernels/loss.h"

struct loss_pass {
    fm_cuda_place place;
    fm_cuda_loss loss;
    fm_cuda_tensor z, dz;
    const int64_t *example;
    const float *weight;
    float *losses, *scores;
};

template <int MAX> static __global__ void losses_narrow(loss_pass p)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), outputs = p.loss.outputs;
    if (!fm_turn(p.place) || i >= p.place.rows) return;
    const int n = p.place.lane->control.n;
    const bool valid = i < n;
    float z[MAX], d[MAX];
#pragma unroll
    for (int k = 0; k < MAX; k++) z[k] = k < outputs ? p.z.at[(int64_t)i * p.z.example + k] : 0;
    const fm_loss_target t = fm_loss_target_of(p.loss, p.place.lane->data, p.example[i]);
    const float share = p.dz.at ? fm_loss_share(p.loss, p.weight[i], n) : 0;
    const float value = fm_narrow_loss<MAX>(p.loss, t, share, z, d);
    p.losses[i] = valid ? value : 0;
    const int skipped = outputs - p.loss.score_width; /* one score of two classes: the second's */
#pragma unroll
    for (int k = 0; k < MAX; k++) {
        if (k >= outputs) continue;
        if (p.dz.at) p.dz.at[(int64_t)i * p.dz.example + k] = valid ? d[k] : 0;
        if (p.scores && k >= skipped) p.scores[(int64_t)i * p.loss.score_width + k - skipped] = z[k];
    }
}

/* Threads of a warp take every 32nd output. dz may lie where z does: each thread writes what it alone reads
 * then. */
static __global__ void losses_wide(loss_pass p)
{
    const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int i = (int)(thread / 32), first = (int)(thread % 32), outputs = p.loss.outputs;
    if (!fm_turn(p.place) || i >= p.place.rows) return;
    const int n = p.place.lane->control.n;
    const bool valid = i < n, entropy = fm_loss_entropy(p.loss);
    const float *z = p.z.at + (int64_t)i * p.z.example;
    float top = z[0], sum = 0, value = 0;
    if (entropy) {
        for (int k = first; k < outputs; k += 32)
            if (z[k] > top) top = z[k];
        top = fm_group_max(top, 32);
        for (int k = first; k < outputs; k += 32) sum += expf(z[k] - top);
        sum = fm_group_sum(sum, 32);
    }
    const float logarithm = entropy ? logf(sum) : 0;
    const fm_loss_target t = fm_loss_target_of(p.loss, p.place.lane->data, p.example[i]);
    const float share = p.dz.at ? fm_loss_share(p.loss, p.weight[i], n) : 0;
    for (int k = first; k < outputs; k += 32) {
        const float y = fm_loss_target_at(t, k), out = z[k];
        float score = t.binary ? fm_sigmoid(out) : out, d;
        if (entropy) {
            value -= y * (out - top - logarithm);
            score = expf(out - top) / sum;
            d = score - y;
        } else {
            value += fm_output_loss(p.loss, out, y);
            d = fm_output_gradient(p.loss, out, y);
        }
        if (p.dz.at) p.dz.at[(int64_t)i * p.dz.example + k] = valid ? d * share : 0;
        if (p.scores) p.scores[(int64_t)i * p.loss.score_width + k] = score;
    }
    value = fm_group_sum(value, 32);
    if (first == 0) p.losses[i] = !valid ? 0 : entropy ? value : value / (float)outputs;
}

cudaError_t fm_cuda_losses(struct fm_cuda_place place, struct fm_cuda_loss loss, struct fm_cuda_tensor z,
                           const int64_t *example, const float *weight, float *losses,
                           struct fm_cuda_tensor dz, float *scores)
{
    loss_pass p;
    p.place = place;
    p.loss = loss;
    p.z = z;
    p.dz = dz;
    p.example = example;
    p.weight = weight;
    p.losses = losses;
    p.scores = scores;
    if (loss.outputs > FM_LOSS_NARROW)
        return fm_launch(losses_wide, dim3(fm_blocks_for((int64_t)place.rows * 32, 128)), dim3(128), 0,
                         place.stream, p);
    void (*narrow)(loss_pass) = loss.outputs <= 2   ? losses_narrow<2>
                                : loss.outputs <= 4 ? losses_narrow<4>
                                : loss.outputs <= 8 ? losses_narrow<8>
                                                    : losses_narrow<FM_LOSS_NARROW>;
    return fm_launch(narrow, dim3(fm_blocks_for(place.rows, 64)), dim3(64), 0, place.stream, p);
}
