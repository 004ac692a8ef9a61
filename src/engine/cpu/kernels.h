/* The routines of the CPU engine that one instruction set provides. Shapes come at run time; no routine knows
 * a network. The same source (the .inc files here, on top of vec.h) is compiled for AVX-512, AVX2 + FMA and a
 * portable baseline (isa/isa.h).
 *
 * Bits: AVX-512 and AVX2 + FMA give the same ones. What is summed has one order: products in ascending k, one
 * fma each; sums across lanes over 16 logical lanes and one tree (sum_lanes in vec.h); sums over rows and
 * examples in order, so that slices of a batch change nothing. exp, log, tanh, erf, the square root are our
 * own, of IEEE operations only. The baseline rounds a product before it is added and so has bits of its own.
 *
 * Sizes count elements (floats unless said), strides too. Rows of a matrix are contiguous. Pointers need no
 * alignment, but 64 bytes are faster. Nothing outside the given extents is written, ever; reads outside are
 * named where they happen. `acc`: add to what is there instead of writing. No routine allocates, locks, or
 * calls the C library's mathematics.
 */
#ifndef FM_ENGINE_CPU_KERNELS_H
#define FM_ENGINE_CPU_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "net/program.h"

/* C[g][m][n] = (acc ? C : bias or 0) + sum over k1, k2 of A[g*ag + m*am + k1*ak1 + k2*ak2] * B[k1*bk1 +
 * k2*bk2 + n], in ascending (k1, k2), one fma each. One routine serves
 *   a convolution forward  g = example, m = position, k2 = tap * channel, am = stride * channels, ak2 = 1
 *                          (dilation or groups: k1 = tap, k2 = channel)
 *   its weight gradient    m = tap * channel, am = 1; k1 = example, k2 = position, ak2 = stride * channels
 *   its input gradient     the forward product of dz between zero rows and the turned kernel
 *   dense layers           see fm_dots.
 * bias [n] or NULL; it is for acc == false. ak1 and bk1 may be negative. k1 == 0 or k2 == 0 gives the bias.
 */
struct fm_product {
    int64_t groups, m, n, k1, k2;
    bool acc;
    const float *a, *b, *bias;
    float *c;
    int64_t ag, am, ak1, ak2, bk1, bk2, cg, cm;
};

/* C[g][m][n] (+)= bias[n] + sum over k of A[g*ag + m*am + k] * B[n*bn + k]: rows times rows, for the wide
 * side of a dense layer. 16 partial sums (k mod 16), then the tree. relu: max(0, .), NaN stays NaN. acc and
 * relu exclude each other; bias may be NULL. */
struct fm_dots {
    int64_t groups, m, n, k;
    bool relu, acc;
    const float *a, *b, *bias;
    float *c;
    int64_t ag, am, bn, cg, cm;
};

/* Convolution + relu or nothing + max pooling in registers: y[e][w][n] = max over q < pool of z[w*pool + q],
 * z[o][n] = bias[n] + sum over k < depth of x[e*xstride + o*xstep + k] * weights[k][n] (so: no dilation, one
 * group, x between its zero rows). A NaN among the z makes y NaN. where[e][w][n] (rows of n bytes) is the
 * winner's place in its window, the first of equals; with relu it is `pool` where no z is positive. where may
 * be NULL (inference). Any pool from 1 to 255. */
struct fm_conv_pool {
    int64_t count, windows, pool, depth, n;
    bool relu;
    const float *x, *weights, *bias; /* bias may be NULL */
    float *y;
    uint8_t *where;
    int64_t xstride, xstep, ystride, wherestride; /* per example; xstep per position */
};

/* Gradient of such a convolution over ONE channel (xstep 1, pool 2 to 4) from the winners: only a winner has
 * a gradient d (shaped as y): dweights[k][n] += d * x[e][w*pool + where + k], dbias[n] += d (may be NULL), in
 * order of e, w. Where `where` says `pool` nothing is added. Reads up to 4 floats past the last input that
 * is needed (x must have them; their value does not matter). */
struct fm_conv_pool_grad {
    int64_t count, windows, pool, depth, n;
    const float *x, *d;
    const uint8_t *where;
    float *dweights, *dbias;
    int64_t xstride, dstride, wherestride;
};

/* One-hot rows as letters. y[e][o][n] (+)= bias[n] + sum over taps j of w[j][letter][n], letter = x[o*stride
 * + j*dilation - pad] where that lies in [0, in_rows) and is not FM_NO_LETTER. A dense layer over flattened
 * letters is the case stride = taps = places. Gradients: dw[j][letter][n] += dy[e][o][n], in order of e, o,
 * j. */
struct fm_letters {
    int64_t count, out_rows, in_rows, taps, stride, dilation, pad, alphabet, n;
    bool acc;
    const uint8_t *x;
    const float *w, *bias; /* bias may be NULL */
    float *y;              /* or dy (only read) for the gradient */
    float *dw;
    int64_t xstride, ystride;
};

/* Convolutions in groups too narrow for products (filters / groups < 16): everything runs along the filters.
 * Filter f of group f / width reads channels (f / width) * depth + d, d < depth; depth and width are at most
 * 64.
 *   narrow          y[e][o][f] (+)= bias[f] + sum over j, d of x[e][o*stride + j*dilation][channel of d] *
 *                   w[j][d][f], in ascending (j, d)
 *   narrow_weights  dw[j][d][f] += sum over e, o of x[e][o*stride + j*dilation][channel of d] * dy[e][o][f]
 *   narrow_turn     turned[j][i][c] = w[j][c % depth][c / depth * width + i], i < width
 *   narrow_input    dx[e][r][c] (+)= sum over j, i of dy[e][o][c / depth * width + i] * turned[j][i][c], o *
 *                   stride + j*dilation = r + pad, for r in [0, in_rows); depth = width = 1 reads w instead
 * x starts at the row that tap 0 of output row 0 reads. */
struct fm_narrow {
    int64_t count, in_rows, out_rows, taps, stride, dilation, pad, depth, width, filters;
    bool acc;
    const float *x, *w, *bias, *dy;
    float *y, *dw, *dx, *turned;
    int64_t xstride, ystride, dxstride; /* per example; ystride: of y and dy */
};

/* An element-wise pass over `count` examples of n elements each: example e lies at e * stride of its array.
 */
struct fm_each {
    int64_t count, n;
};

/* Activations. stored (may be NULL): the derivative, for those that cannot tell it from their output. x == y
 * is allowed. FM_ACT_SOFTMAX runs over rows of `channels`; stored is NULL then. */
struct fm_activation_pass {
    struct fm_each each;
    enum fm_activation kind;
    float slope;
    int64_t channels;
    const float *x;
    float *y, *stored;
    int64_t xstride, ystride, storedstride;
};
/* dx (+)= dy * derivative, from = the output, the input or the stored derivative as `derivative` says (NULL
 * for FM_FROM_NONE: dx (+)= dy). dx == dy is allowed. Softmax: dx = y (dy - sum over the row of dy y). */
struct fm_activation_grad_pass {
    struct fm_each each;
    enum fm_activation kind;
    enum fm_derivative derivative;
    float slope;
    int64_t channels;
    bool acc;
    const float *dy, *from;
    float *dx;
    int64_t dystride, fromstride, dxstride;
};

/* Pools as in net/program.h: window o covers rows o*stride - pad .. + size, as far as they exist. Max: ties
 * to the lowest row, NaN wins; the winner's offset inside the window goes to where8 or where32 (both may be
 * NULL), [out_rows][channels] per example. Average divides by the rows that exist. Gradients scatter; dx is
 * cleared first unless acc. A winner of `size` or more has no gradient (fused convolutions write it). */
struct fm_pool_pass {
    int64_t count, in_rows, out_rows, channels, size, stride, pad;
    bool average, acc;
    const float *x, *dy;
    float *y, *dx;
    uint8_t *where8;
    int32_t *where32;
    int64_t xstride, ystride, wherestride; /* of x and dx; of y and dy; of where */
};

/* y (+)= kept ? x / (1 - rate) : 0; the mask of engine/dropout.h: keys[e] is the example's key. spatial: one
 * draw per channel. */
struct fm_dropout_pass {
    struct fm_each each;
    int64_t channels;
    bool spatial, acc;
    double rate;
    const uint64_t *keys;
    const float *x;
    float *y;
    int64_t xstride, ystride;
};

/* Loss, its gradient and scores of `count` examples (semantics.md 2.1, 2.2; engine/reference/loss.inc is the
 * plain version). Targets are labels or values, already smoothed by the routine. Each output may be NULL.
 * share[e] = weight / N (/ outputs unless softmax): dz = share * d loss / dz. scores: as net/program.h says,
 * score_width of them. */
struct fm_head {
    int64_t count, outputs, score_width;
    enum fm_loss_kind kind;
    float smoothing, delta;
    const float *z;         /* [count][outputs] at zstride */
    const uint32_t *labels; /* [count], or NULL */
    const float *values;    /* [count][outputs], when labels are NULL */
    const float *share;
    double *loss;
    float *dz, *scores; /* scores [count][score_width] */
    int64_t zstride, dzstride;
};

/* Batch normalisation, per channel; the arrays of sums, means and factors are [channels].
 *   norm_sums       a += sum of x
 *   norm_squares    b += sum of (x - mean)^2
 *   norm_apply      y = (x - mean) * scale + beta (beta may be NULL)
 *   norm_grad_sums  a += sum of dy, b += inverse * sum of dy * (x - mean)
 *   norm_grad       dx (+)= (dy - ma - (x - mean) * inverse * mb) * scale
 * One call of a sum is one batch: its rows are counted from 0 through all examples, wherever they lie, and
 * the order is the same for every instruction set. From 16 channels on, blocks of 64 rows: row i of a block
 * goes to float chain i mod 4, then ((0 + 1) + (2 + 3)) to the double. Below, blocks of 256 rows: chain i mod
 * 16, each to the double in order. The others go element by element; their calls may be slices. */
struct fm_norm_pass {
    int64_t count, rows, channels;
    bool acc;
    const float *x, *dy;
    float *y, *dx;
    const float *mean, *scale, *beta, *inverse, *ma, *mb;
    double *a, *b;
    int64_t xstride, ystride; /* of x and dx; of y and dy */
};

/* Layer normalisation: each row of `channels` on its own; gamma and beta may be NULL. mean and inverse:
 * [rows] per example, may be NULL forward. Gradient: dx (may be NULL), dgamma, dbeta (+=, may be NULL), rows
 * in order. Two passes over a row (mean, then deviations), sums over 16 lanes and the tree in float; the
 * second pass also corrects the mean, so that rows far from zero lose nothing. */
struct fm_layer_norm_pass {
    int64_t count, rows, channels;
    bool acc;
    float epsilon;
    const float *x, *dy, *gamma, *beta;
    float *y, *dx, *mean, *inverse, *dgamma, *dbeta;
    int64_t xstride, ystride, dxstride, statstride; /* ystride: of y and dy */
};

/* What happens to a variable's gradient before the optimizer sees it: g = clamp(g * scale, limit), limit =
 * INFINITY for none (NaN stays NaN). Weight decay: w -= w * decay first, if decay > 0. The optimizers compute
 * what engine/reference/optimizer.inc does. */
struct fm_update {
    int64_t n;
    float scale, limit, decay;
    float *w;
    const float *g;
    float *slot[3]; /* in the reference engine's order (optimizer.inc) */
    /* sgd: rate, momentum; adam: rate = step size with both corrections, a = 1 - beta_1, b = 1 - beta_2,
     * epsilon; rmsprop: rate, rho = a, 1 - rho = b, epsilon, momentum. */
    float rate, a, b, epsilon, momentum;
    bool use_momentum, nesterov, amsgrad, centered;
};

struct fm_kernels {
    const char *name;    /* "avx512", "avx2", "portable" (SSE2 on x86-64), "neon" */
    const char *numbers; /* class of the numbers: "cpu-fma", "cpu-portable", "cpu-neon" */
    int width;           /* floats of a vector */

    /* products.inc, matrix.inc */
    void (*product)(const struct fm_product *);
    void (*dots)(const struct fm_dots *);
    void (*column_sums)(int64_t groups, int64_t m, int64_t n, const float *a, int64_t ag,
                        float *sum); /* sum[n] += rows of a[g][m][n], in order */
    void (*transpose)(int64_t m, int64_t n, const float *from, int64_t from_row, float *to,
                      int64_t to_row); /* to[j][i] = from[i][j], i < m, j < n */
    /* convolve.inc */
    void (*conv_pool)(const struct fm_conv_pool *);
    void (*conv_pool_grad)(const struct fm_conv_pool_grad *);
    void (*letters)(const struct fm_letters *);
    void (*letters_grad)(const struct fm_letters *);
    void (*narrow)(const struct fm_narrow *);
    void (*narrow_weights)(const struct fm_narrow *);
    void (*narrow_turn)(const struct fm_narrow *);
    void (*narrow_input)(const struct fm_narrow *);
    /* activation.inc, softmax.inc, head.inc, pool.inc, random.inc */
    void (*activation)(const struct fm_activation_pass *);
    void (*activation_grad)(const struct fm_activation_grad_pass *);
    void (*pool)(const struct fm_pool_pass *);
    void (*pool_grad)(const struct fm_pool_pass *);
    void (*dropout)(const struct fm_dropout_pass *);
    void (*head)(const struct fm_head *);
    /* out = (x - shift) * factor, n elements; shift and factor [n] (a window's worth), either may be NULL. */
    void (*scale)(int64_t n, const float *x, const float *shift, const float *factor, float *out);
    /* places[i] = fm_permutation_at(p, first + i). Ask for thousands at once: from n >> half_bits places on
     * (sets of up to 2^24) a table of 7 us is made for the call, and then a place costs a quarter. */
    void (*permute)(const struct fm_permutation *p, uint64_t first, int64_t count, uint64_t *places);
    /* norms.inc */
    void (*norm_sums)(const struct fm_norm_pass *);
    void (*norm_squares)(const struct fm_norm_pass *);
    void (*norm_apply)(const struct fm_norm_pass *);
    void (*norm_grad_sums)(const struct fm_norm_pass *);
    void (*norm_grad)(const struct fm_norm_pass *);
    void (*layer_norm)(const struct fm_layer_norm_pass *);
    void (*layer_norm_grad)(const struct fm_layer_norm_pass *);
    /* update.inc */
    float (*square_sum)(int64_t n, const float *g); /* not finite if any g is not */
    void (*regularize)(int64_t n, const float *w, float l1, float l2,
                       float *g); /* g += l1 * sign(w) + 2 * l2 * w */
    void (*magnitudes)(int64_t n, const float *w, double *absolute, double *square); /* += sums */
    void (*sgd)(const struct fm_update *);
    void (*adam)(const struct fm_update *);
    void (*rmsprop)(const struct fm_update *);
    /* Runs `rounds` rounds of independent fused (or split) multiply-adds in registers: *flops of them were
     * done. For the peak that `foldmill bench` prints. The result only keeps the compiler honest. */
    float (*peak)(int64_t rounds, double *flops);
};

extern const struct fm_kernels fm_kernels_portable;
#if defined(__x86_64__)
extern const struct fm_kernels fm_kernels_avx2;
extern const struct fm_kernels fm_kernels_avx512;
#endif

struct fm_error;

/* The best one that this processor runs, or the one that `name` (FOLDMILL_ISA: avx512, avx2, portable)
 * forces; NULL and "" mean the best. FM_EUSAGE for an unknown name or one this processor lacks. */
int fm_kernels_choose(const struct fm_kernels **kernels, const char *name, struct fm_error *err);
/* All that this processor runs, the best first: kernels[i] for i < the returned count (at most 3). */
int fm_kernels_available(const struct fm_kernels *kernels[3]);

#endif
