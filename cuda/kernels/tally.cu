/* What an evaluation keeps of a chunk: sums, scores, confusion counts. One block, so that sums go on from
 * chunk to chunk in one order. */
#include "kernels/device.h"

#include "kernels/step.h"
#include "kernels/targets.h"

enum { CLEAR_BLOCKS = 256 };

/* Outputs beyond the classes are never predicted: no example has them. */
static __device__ int64_t predicted_class(const float *scores, int width, int64_t classes)
{
    if (width == 1) return scores[0] > 0.5f;
    int64_t best = 0;
    for (int64_t k = 1; k < width && k < classes; k++)
        if (scores[k] > scores[best]) best = k;
    return best;
}

static __device__ void add_errors(const struct fm_cuda_data &data, int64_t example, const float *scores,
                                  int width, double *square, double *absolute)
{
    const float *y = data.targets + example * width;
    for (int k = 0; k < width; k++) {
        const double error = (double)y[k] - (double)scores[k];
        *square += error * error;
        *absolute += fabs(error);
    }
}

static __global__ void tally_chunk(struct fm_cuda_place place, int width, const int64_t *example,
                                   const float *losses, const float *scores, float *all,
                                   unsigned long long *confusion)
{
    __shared__ double room[FM_STEP_WARPS];
    struct fm_cuda_control *c = &place.lane->control;
    if (!fm_turn(place)) return;
    const struct fm_cuda_data &data = place.lane->data;
    const bool numbers = data.class_bits == 0 && data.target_width == width;
    const int n = c->n;
    const int64_t at = c->at;
    double loss = 0, square = 0, absolute = 0;
    for (int i = (int)threadIdx.x; i < n; i += FM_STEP_THREADS) {
        const float *score = scores + (int64_t)i * width;
        loss += (double)losses[i];
        if (numbers) add_errors(data, example[i], score, width, &square, &absolute);
        if (confusion)
            atomicAdd(&confusion[fm_device_true_class(data, example[i]) * data.nclasses +
                                 predicted_class(score, width, data.nclasses)],
                      1ull);
    }
    for (int64_t e = threadIdx.x; all && e < (int64_t)n * width; e += FM_STEP_THREADS)
        all[at * width + e] = scores[e];
    loss = fm_block_sum(loss, room);
    square = fm_block_sum(square, room);
    absolute = fm_block_sum(absolute, room);
    if (threadIdx.x != 0) return;
    c->evaluated += loss;
    c->square_sum += square;
    c->absolute_sum += absolute;
    c->examples += n;
    c->at = at + n;
    if (c->at >= place.lane->part[c->part].count) c->activity = FM_CUDA_IDLE;
}

static __global__ void clear_bytes(uint8_t *at, int64_t bytes)
{
    const int64_t threads = (int64_t)gridDim.x * blockDim.x, words = bytes / 8;
    const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t i = thread; i < words; i += threads) ((uint64_t *)at)[i] = 0;
    if (thread < bytes % 8) at[words * 8 + thread] = 0;
}

cudaError_t fm_cuda_tally(struct fm_cuda_place place, struct fm_cuda_loss loss, const int64_t *example,
                          const float *losses, const float *scores, float *all, unsigned long long *confusion)
{
    return fm_launch(tally_chunk, dim3(1), dim3(FM_STEP_THREADS), 0, place.stream, place, loss.score_width,
                     example, losses, scores, all, confusion);
}

cudaError_t fm_cuda_clear(struct fm_cuda_place place, void *at, int64_t bytes)
{
    const int64_t blocks = bytes / 8 / FM_STEP_THREADS + 1;
    return fm_launch(clear_bytes, dim3((unsigned)(blocks < CLEAR_BLOCKS ? blocks : (int64_t)CLEAR_BLOCKS)),
                     dim3(FM_STEP_THREADS), 0, place.stream, (uint8_t *)at, bytes);
}
