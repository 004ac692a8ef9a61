/* The table of launches: every kernel of Foldmill, as C functions that enqueue it. Each .cu file holds
 * kernels of one job and the functions that launch them.
 *
 * All return cudaSuccess or the launch's error, enqueue on place.stream, never allocate, synchronise or copy,
 * and may be captured. A kernel begins by looking at place.lane->control.activity and does nothing unless it
 * is place.activity; kernels with several blocks that change the control block do so in the last block to end
 * (control.ticket). Deterministic: no float atomics; every sum has one order that depends on shapes only -
 * never on the grid of another lane, on timing or on the card's size. Fp32 with fused multiply-adds (fmaf),
 * IEEE division and square root; sums over many examples that decide something (norm, losses) in double.
 * Denormals are kept. NaN passes through relu, max, clip (x < 0 ? 0 : x), never fmaxf.
 *
 * Tensors: an example's rows follow each other, `channels` floats each (L x C, row-major), examples `example`
 * floats apart - more than rows * channels where the plan put rows of zeros around them (the halo, for
 * cuDNN). Kernels never write into a halo. Batches: element numbers of a whole tensor fit int32 (the plan
 * refuses what is larger).
 *
 * Every kernel works for any shape: odd widths, 1 row, 1 channel, groups, strides, dilation, pads. Vector
 * loads only where pointer and width allow. At most 48 KB of shared memory and 1,024 threads a block; sm_30
 * upwards; C++14; no cooperative launch. Warp functions with masks (__shfl_*_sync).
 */
#ifndef FM_CUDA_KERNELS_H
#define FM_CUDA_KERNELS_H

#include <cuda_runtime_api.h>

#include "kernels/lane.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fm_cuda_place {
    cudaStream_t stream;
    struct fm_cuda_lane *lane; /* device memory */
    int activity;              /* FM_CUDA_TRAINS or FM_CUDA_EVALUATES */
    int rows;                  /* examples: the batch size, or the chunk */
};

struct fm_cuda_tensor {
    float *at;   /* the first real row of the first example */
    int example; /* floats from one example to the next */
};
struct fm_cuda_bytes { /* letters, winners of pools */
    uint8_t *at;
    int example;
};
/* An activation in an epilogue, or its derivative. kind is enum fm_activation of net/program.h (never softmax
 * here); FM_ACT_LINEAR = none. */
struct fm_cuda_activation {
    int kind;
    float slope;
    struct fm_cuda_tensor stored; /* forward: where the derivative goes, at == NULL: nowhere. Backward: what
                                     the derivative comes from (outputs, or what forward stored) */
    int is_stored;                /* backward: `stored` holds derivatives, else outputs */
    int is_pooled; /* backward of a max pool: `stored` has the shape of the pool's output (a winner's
                      derivative follows from what it became), else of its input */
};

/* code.cu: cudaSuccess when this build has code for the current card. */
cudaError_t fm_cuda_code(void);

/* ---- request.cu: begin, end, snapshots ------------------------------------------------------------------
 */

/* Starts a training or an evaluation: fills the control block's request fields and activity; leaves the lane
 * idle when it is frozen, or when there is nothing to do. The counts of the report are 0 then. */
cudaError_t fm_cuda_request_begin(struct fm_cuda_place place, struct fm_cuda_begin begin);
/* Ends a request of any kind: activity = idle, copies the control block's results and the tail's last loss
 * and norm into the answer (device address of mapped memory), then, after __threadfence_system(),
 * answer->done = number. `penalty`: the regularisers' part of the loss of this state (fm_cuda_penalty put it
 * there), or NULL. */
cudaError_t fm_cuda_request_end(struct fm_cuda_place place, struct fm_cuda_answer *answer, uint64_t number,
                                const double *penalty);
/* Only `*word = number`, visible to the host. With number 0, for graphs, which cannot know it: word[1] = the
 * lane's activity, then ++*word: one more chunk of steps is through. Looks at no activity. */
cudaError_t fm_cuda_signal(struct fm_cuda_place place, volatile uint64_t *word, uint64_t number);
/* Copies a state of `bytes` (multiple of 16) unless the lane is frozen. snapshot: marks the slot taken.
 * restore: refuses an empty slot (control.status = 1), thaws the lane. These look at no activity; the counts
 * of the report become 0. */
cudaError_t fm_cuda_snapshot(struct fm_cuda_place place, const void *state, void *slot, int64_t bytes,
                             int number);
cudaError_t fm_cuda_restore(struct fm_cuda_place place, void *state, const void *slot, int64_t bytes,
                            int number);

/* ---- gather.cu: which examples, where their windows lie, the windows -------------------------------------
 */

/* The first launch of a step or chunk: it sets control.n. Row i gets example number example[i] and weight[i]
 * (training: example weight x class weight; evaluation: 1; 0 in invalid rows). Training: place step %
 * pass_steps * batch + i of the pass's permutation (base/random.h's Feistel rounds over Philox, bit for bit),
 * or set order without shuffle; evaluation: place control.at + i of the part. The window goes to out as
 * (stored - shift) * factor with rows of zeros around (data/slab.c), or to letters (FM_NO_LETTER around). */
cudaError_t fm_cuda_gather(struct fm_cuda_place place, int length, int channels, struct fm_cuda_tensor out,
                           struct fm_cuda_bytes letters, int64_t *example, float *weight);
cudaError_t fm_cuda_onehot(struct fm_cuda_place place, int length, int alphabet, struct fm_cuda_bytes letters,
                           struct fm_cuda_tensor out);

/* ---- products: forward.cu, input_grad.cu, weight_grad.cu, letters.cu, conv_pool.cu ------------------------
 */

/* A convolution; a dense layer is one with one tap (in_rows = out_rows), a dense layer over letters one with
 * as many taps as letters and one output row. y[o][f] = b[f] + sum_j sum_c x[o * stride + j * dilation -
 * pad][c] * W[j][c][f], zero outside (program.h). */
struct fm_cuda_conv {
    int in_rows, in_channels, out_rows, out_channels;
    int taps, stride, dilation, groups, pad;
};
/* W[j][c][f] = at[j * tap + c * in + f * out]: Keras's order, or cuDNN's [F][taps][C/groups]. */
struct fm_cuda_weights {
    const float *at;
    int tap, in, out;
};
cudaError_t fm_cuda_forward(struct fm_cuda_place place, struct fm_cuda_conv conv, struct fm_cuda_tensor x,
                            struct fm_cuda_weights w, const float *bias, struct fm_cuda_activation activation,
                            struct fm_cuda_tensor y);
cudaError_t fm_cuda_forward_letters(struct fm_cuda_place place, struct fm_cuda_conv conv,
                                    struct fm_cuda_bytes x, struct fm_cuda_weights w, const float *bias,
                                    struct fm_cuda_activation activation, struct fm_cuda_tensor y);
/* Max pooling right behind convolution and activation; y and winner are the pool's ([out_rows of the
 * pool][F]); stored derivative is not made here. winner.at may be NULL (evaluation). Offsets inside the
 * window, ties: lowest, NaN wins. */
struct fm_cuda_pool {
    int in_rows, out_rows, channels;
    int size, stride, pad;
    int average;
};
/* Whether conv_pool takes this shape (few taps and channels; size == stride; no padding; activation from its
 * output). */
int fm_cuda_conv_pool_can(const struct fm_cuda_conv *conv, const struct fm_cuda_pool *pool, int activation);
cudaError_t fm_cuda_conv_pool(struct fm_cuda_place place, struct fm_cuda_conv conv, struct fm_cuda_pool pool,
                              struct fm_cuda_tensor x, struct fm_cuda_weights w, const float *bias,
                              struct fm_cuda_activation activation, struct fm_cuda_tensor y,
                              struct fm_cuda_bytes winner);
/* dx[i][c] (+)= d * sum dy[o][f] W[j][c][f] over all o, j that reach i; d: the derivative of `activation`,
 * whose stored values may lie where dx goes. */
cudaError_t fm_cuda_input_grad(struct fm_cuda_place place, struct fm_cuda_conv conv, struct fm_cuda_tensor dy,
                               struct fm_cuda_weights w, struct fm_cuda_activation activation, int accumulate,
                               struct fm_cuda_tensor dx);
/* Sums over the batch, cut into `splits` partial sums that the norm kernel adds in order: partial s goes to
 * kernel + s * stride (laid out as `w` says, w.at is not read) and bias + s * stride (or bias NULL).
 * fm_cuda_weight_splits is a pure function of its arguments. */
int fm_cuda_weight_splits(const struct fm_cuda_conv *conv, int rows, int letters);
cudaError_t fm_cuda_weight_grad(struct fm_cuda_place place, struct fm_cuda_conv conv, struct fm_cuda_tensor x,
                                struct fm_cuda_tensor dy, struct fm_cuda_weights w, float *kernel,
                                float *bias, int splits, int64_t stride);
cudaError_t fm_cuda_weight_grad_letters(struct fm_cuda_place place, struct fm_cuda_conv conv,
                                        struct fm_cuda_bytes x, struct fm_cuda_tensor dy,
                                        struct fm_cuda_weights w, float *kernel, float *bias, int splits,
                                        int64_t stride);
/* Column sums of dy over all rows and examples (the bias gradient of a product that a library made); and bias
 * + activation after one, in place. */
cudaError_t fm_cuda_bias_grad(struct fm_cuda_place place, int rows, int channels, struct fm_cuda_tensor dy,
                              float *bias);
cudaError_t fm_cuda_bias_activation(struct fm_cuda_place place, int rows, int channels, const float *bias,
                                    struct fm_cuda_activation activation, struct fm_cuda_tensor y);

/* ---- elements.cu, pool.cu, batch_norm.cu, layer_norm.cu, dropout.cu --------------------------------------
 */

cudaError_t fm_cuda_activate(struct fm_cuda_place place, int rows, int channels, struct fm_cuda_tensor x,
                             struct fm_cuda_activation activation, struct fm_cuda_tensor y);
/* dx (+)= dy * derivative; may be in place. */
cudaError_t fm_cuda_activate_grad(struct fm_cuda_place place, int rows, int channels,
                                  struct fm_cuda_tensor dy, struct fm_cuda_activation activation,
                                  int accumulate, struct fm_cuda_tensor dx);
cudaError_t fm_cuda_softmax(struct fm_cuda_place place, int rows, int channels, struct fm_cuda_tensor x,
                            struct fm_cuda_tensor y);
cudaError_t fm_cuda_softmax_grad(struct fm_cuda_place place, int rows, int channels, struct fm_cuda_tensor dy,
                                 struct fm_cuda_tensor y, int accumulate, struct fm_cuda_tensor dx);
/* winner: u8 offsets, or int32 where the window is longer than 256 (wide); NULL pointers where none is made.
 */
struct fm_cuda_winner {
    void *at;
    int example; /* elements */
    int wide;
};
cudaError_t fm_cuda_pooling(struct fm_cuda_place place, struct fm_cuda_pool pool, struct fm_cuda_tensor x,
                            struct fm_cuda_tensor y, struct fm_cuda_winner winner);
/* dx (+)= gradient, times the derivative of `activation` (what stands before the pool in the network). */
cudaError_t fm_cuda_pooling_grad(struct fm_cuda_place place, struct fm_cuda_pool pool,
                                 struct fm_cuda_tensor dy, struct fm_cuda_winner winner,
                                 struct fm_cuda_activation activation, int accumulate,
                                 struct fm_cuda_tensor dx);
/* In all norms: `rows` is the length of an example, and gamma, beta, dx.at, dgamma, dbeta may be NULL.
 *
 * Batch norm. Statistics over the n valid rows of the batch; mean, variance: [channels]. In rows that are not
 * valid dx (+)= 0. scratch: fm_cuda_batch_norm_scratch floats at a multiple of 8 bytes, for the length of the
 * call alone; batch: its size. */
int64_t fm_cuda_batch_norm_scratch(int batch, int length, int channels);
cudaError_t fm_cuda_batch_norm(struct fm_cuda_place place, int rows, int channels, struct fm_cuda_tensor x,
                               const float *gamma, const float *beta, double epsilon, float *mean,
                               float *variance, struct fm_cuda_tensor y, float *scratch);
cudaError_t fm_cuda_batch_norm_grad(struct fm_cuda_place place, int rows, int channels,
                                    struct fm_cuda_tensor x, struct fm_cuda_tensor dy, const float *gamma,
                                    const float *mean, const float *variance, double epsilon, int accumulate,
                                    struct fm_cuda_tensor dx, float *dgamma, float *dbeta, float *scratch);
/* Left out after a bad step. */
cudaError_t fm_cuda_batch_norm_moving(struct fm_cuda_place place, int rows, int channels, const float *mean,
                                      const float *variance, double momentum, float *moving_mean,
                                      float *moving_variance);
cudaError_t fm_cuda_batch_norm_infer(struct fm_cuda_place place, int rows, int channels,
                                     struct fm_cuda_tensor x, const float *gamma, const float *beta,
                                     const float *moving_mean, const float *moving_variance, double epsilon,
                                     struct fm_cuda_tensor y);
/* Layer norm. mean, deviation (its inverse): [examples of the batch][length], NULL in evaluation. scratch as
 * above. */
int64_t fm_cuda_layer_norm_scratch(int batch, int length, int channels);
cudaError_t fm_cuda_layer_norm(struct fm_cuda_place place, int rows, int channels, struct fm_cuda_tensor x,
                               const float *gamma, const float *beta, double epsilon, float *mean,
                               float *deviation, struct fm_cuda_tensor y);
cudaError_t fm_cuda_layer_norm_grad(struct fm_cuda_place place, int rows, int channels,
                                    struct fm_cuda_tensor x, struct fm_cuda_tensor dy, const float *gamma,
                                    const float *mean, const float *deviation, int accumulate,
                                    struct fm_cuda_tensor dx, float *dgamma, float *dbeta, float *scratch);
/* The mask of engine/dropout.h, recomputed; forward and backward are the same: y (+)= x / (1 - rate) or 0,
 * maybe in place. index: into hyper.rates. */
cudaError_t fm_cuda_dropout(struct fm_cuda_place place, int rows, int channels, int index, int id,
                            int spatial, struct fm_cuda_tensor x, int accumulate, struct fm_cuda_tensor y);

/* ---- loss.cu, head.cu, tally.cu: losses, their gradients, scores, evaluation sums
 * --------------------------------------------- */

struct fm_cuda_loss {
    int kind; /* enum fm_loss_kind */
    int outputs, score_width;
    float label_smoothing, delta;
};
/* loss[rows] of each example (0 in invalid rows); dz (may be NULL): gradient of sum(weight * loss) / n, 0 in
 * invalid rows; scores (may be NULL): [rows][score_width]. */
cudaError_t fm_cuda_losses(struct fm_cuda_place place, struct fm_cuda_loss loss, struct fm_cuda_tensor z,
                           const int64_t *example, const float *weight, float *losses,
                           struct fm_cuda_tensor dz, float *scores);
/* The same after a last dense layer of few outputs in one kernel: z = x W + b is kept where z.at is not NULL.
 */
int fm_cuda_head_can(int in, int outputs);
cudaError_t fm_cuda_head(struct fm_cuda_place place, struct fm_cuda_loss loss, int in,
                         struct fm_cuda_tensor x, struct fm_cuda_weights w, const float *bias,
                         const int64_t *example, const float *weight, struct fm_cuda_tensor z, float *losses,
                         struct fm_cuda_tensor dz, float *scores);
/* After the scores of a chunk: adds losses and errors, in an order that only n decides, to the control block,
 * counts the confusion matrix (whole numbers, atomics; cleared by the caller before), copies scores to all[at
 * + i], and goes on to the next chunk: control.at; idle after the last. all, confusion may be NULL. */
cudaError_t fm_cuda_tally(struct fm_cuda_place place, struct fm_cuda_loss loss, const int64_t *example,
                          const float *losses, const float *scores, float *all,
                          unsigned long long *confusion);
/* Zeroes a confusion matrix. Looks at no activity; `at` is a multiple of 8. */
cudaError_t fm_cuda_clear(struct fm_cuda_place place, void *at, int64_t bytes);

/* ---- update.cu: norm and finite check, clip, optimizers, next step ----------------------------------------
 */

/* A stretch of one variable, at most FM_CUDA_TILE floats: what one block of these kernels works on. All
 * offsets are in floats into parameters, gradients and each slot, which are laid out alike. The tiles of a
 * variable follow each other. */
enum { FM_CUDA_TILE = 1024 };
struct fm_cuda_tile {
    int variable, count;
    int64_t offset;
    int splits;      /* partial sums to add; 0: the gradient is already at `offset` of gradients */
    int64_t partial; /* of split 0, in floats into `partials` */
    int64_t stride;  /* from one split to the next */
    double l1, l2;   /* regularisers, as given */
    int decay;
};
/* Everything the update needs: device addresses that stay the same for a captured step. */
struct fm_cuda_update {
    const struct fm_cuda_tile *tiles;      /* [ntiles], trainable variables only, in order */
    int ntiles, nvariables;                /* nvariables: of the program; clipnorm is per variable */
    float *parameters, *gradients, *slots; /* slots: [slots][stride] */
    int64_t slot_stride;
    const float *partials;
    double *sums;        /* [ntiles][2]: squares and penalty of each tile */
    float *scales;       /* [nvariables]: for clipnorm: limit and divisor are applied as Keras does */
    const float *losses; /* [rows] */
    const float *weight; /* [rows] */
    int optimizer;       /* enum fm_optimizer_kind */
    int nesterov, amsgrad, centered, momentum;
};
/* gradients = sum of partials + regularisers; norms; the batch's loss (sum weight * loss / n + penalty, in
 * double, in an order that only n decides); decides as on_nan says: control.loss, norm, bad, frozen, counts,
 * loss_sum, last finite values; global clip's scale. Reference: src/engine/host/run.c (train_step) and
 * engine/reference/optimizer.inc, exactly. */
cudaError_t fm_cuda_norm(struct fm_cuda_place place, struct fm_cuda_update update);
/* Clip, decoupled decay, optimizer (unless control.bad); then the step is over: tail->iterations,
 * control.step; idle after the last step of the request or when frozen. The last launch of a step. */
cudaError_t fm_cuda_optimize(struct fm_cuda_place place, struct fm_cuda_update update);
/* The regularisers' part of the loss of the present parameters -> *penalty; for evaluations; looks at no
 * activity. */
cudaError_t fm_cuda_penalty(struct fm_cuda_place place, struct fm_cuda_update update, double *penalty);

/* ---- trial.cu: what library/trial.c compares a library's call by ------------------------------------------
 */

/* Element e of example i becomes a number in [-1, 1) that depends on i * count + e and the salt alone, for
 * place.rows examples of `count` floats; what lies between examples is left alone. */
cudaError_t fm_cuda_trial_fill(struct fm_cuda_place place, int count, struct fm_cuda_tensor to,
                               unsigned salt);
/* *largest = max(*largest, the bits of the largest |a - b|): infinity where one of them is no finite number.
 */
cudaError_t fm_cuda_trial_compare(struct fm_cuda_place place, int count, struct fm_cuda_tensor a,
                                  struct fm_cuda_tensor b, unsigned *largest);

#ifdef __cplusplus
}
#endif

#endif
