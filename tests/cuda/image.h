/* One piece of device memory that holds everything a call of kernels reads and writes, with an image of it on
 * the host: what is not marked as output must not change by a byte, whether it is an operand, a halo, a gap
 * or the lane's record. Everything else is NaN, so that reading beside an operand shows as well.
 *
 * image_check runs a call while the lane does something else (nothing may change), then as it should, then
 * again in another order of each block's threads (the same bits). What came out lies in image->result. */
#ifndef FM_TESTS_CUDA_IMAGE_H
#define FM_TESTS_CUDA_IMAGE_H

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/emulator.h"
#include "kernels/kernels.h"
#include "support/tolerance.h"

enum { IMAGE_BYTES = 8 << 20 };

struct image {
    uint64_t state; /* of the random numbers */
    cudaStream_t stream;
    unsigned char *device, *host, *result, *again, *output;
    size_t used;
    int thread_order;
};

static inline int image_draw(struct image *im, int low, int high)
{
    im->state = im->state * 6364136223846793005u + 1442695040888963407u;
    return low + (int)((im->state >> 33) % (uint64_t)(high - low + 1));
}

static inline float image_number(struct image *im, double spread)
{
    return (float)(spread * image_draw(im, -1000000, 1000000) / 1e6);
}

static inline void image_open(struct image *im, uint64_t seed)
{
    fm_emulator_reset(NULL);
    memset(im, 0, sizeof *im);
    im->state = seed;
    void *device;
    cr_assert_eq(cudaStreamCreateWithFlags(&im->stream, cudaStreamNonBlocking), cudaSuccess);
    cr_assert_eq(cudaMalloc(&device, IMAGE_BYTES), cudaSuccess);
    im->device = device;
    im->host = malloc(4 * (size_t)IMAGE_BYTES);
    cr_assert_not_null(im->host);
    im->result = im->host + IMAGE_BYTES;
    im->again = im->result + IMAGE_BYTES;
    im->output = im->again + IMAGE_BYTES;
    im->used = IMAGE_BYTES;
}

static inline void image_close(struct image *im)
{
    cr_assert_eq(cudaFree(im->device), cudaSuccess);
    cr_assert_eq(cudaStreamDestroy(im->stream), cudaSuccess);
    struct fm_emulator_counts counts;
    fm_emulator_count(&counts);
    cr_assert(counts.faults == 0, "%s", fm_emulator_fault());
    cr_assert_eq(counts.live, 0);
    free(im->host);
}

/* Begins a new case. */
static inline void image_clear(struct image *im)
{
    memset(im->host, 0xFF, im->used);
    memset(im->output, 0, im->used);
    im->used = sizeof(struct fm_cuda_lane) + 64;
    memset(im->host, 0, sizeof(struct fm_cuda_lane));
}

/* The place of `bytes` bytes: aligned to 16 or, as often, to 4 only. */
static inline size_t image_room(struct image *im, size_t bytes)
{
    const size_t apart = image_draw(im, 0, 1) ? 0 : 4 * (size_t)image_draw(im, 1, 3);
    const size_t at = (im->used + 79) / 16 * 16 + apart;
    cr_assert(at + bytes + 64 < IMAGE_BYTES, "the image is too small");
    im->used = at + bytes + 64;
    return at;
}
static inline size_t image_floats(struct image *im, int64_t count)
{
    return image_room(im, (size_t)count * sizeof(float));
}

static inline float *host_at(const struct image *im, size_t at)
{
    return (float *)(void *)(im->host + at);
}
static inline const float *result_at(const struct image *im, size_t at)
{
    return (const float *)(const void *)(im->result + at);
}
static inline float *device_at(const struct image *im, size_t at)
{
    return (float *)(void *)(im->device + at);
}
static inline void image_mark(const struct image *im, size_t at, size_t bytes)
{
    memset(im->output + at, 1, bytes);
}

typedef cudaError_t image_call(struct fm_cuda_place place, const void *context);

static inline void image_run(struct image *im, image_call *call, const void *context, int rows, int activity,
                             unsigned char *to)
{
    struct fm_cuda_lane *lane = (void *)im->host;
    lane->control.activity = activity;
    fm_emulator_poke(im->device, im->host, im->used);
    const struct fm_cuda_place place = {
        .stream = im->stream, .lane = (void *)im->device, .activity = FM_CUDA_TRAINS, .rows = rows};
    cr_assert_eq(call(place, context), cudaSuccess);
    cr_assert_eq(cudaStreamSynchronize(im->stream), cudaSuccess);
    fm_emulator_peek(to, im->device, im->used);
}

/* `what` is said when it fails. */
static inline void image_check(struct image *im, image_call *call, const void *context, int rows,
                               const char *what)
{
    struct fm_emulator_settings settings = {.thread_order = 0};
    image_run(im, call, context, rows, FM_CUDA_EVALUATES, im->again);
    cr_assert(memcmp(im->again, im->host, im->used) == 0, "%s: written although the lane evaluates", what);
    fm_emulator_set(&settings);
    image_run(im, call, context, rows, FM_CUDA_TRAINS, im->result);
    for (size_t i = 0; i < im->used; i++)
        cr_assert(im->output[i] || im->result[i] == im->host[i], "%s: byte %zu of %zu was written", what, i,
                  im->used);
    settings.thread_order = im->thread_order = im->thread_order % 5 + 1;
    fm_emulator_set(&settings);
    image_run(im, call, context, rows, FM_CUDA_TRAINS, im->again);
    cr_assert(memcmp(im->again, im->result, im->used) == 0, "%s: other bits in thread order %d", what,
              settings.thread_order);
}

/* ---- tensors and layers ----------------------------------------------------------------------------------
 */

/* [count][rows][channels], examples `example` elements apart, with room for a halo before and after. */
struct image_tensor {
    size_t at; /* the first real row */
    int count, rows, channels, example;
};

static inline struct image_tensor image_tensor(struct image *im, int count, int rows, int channels,
                                               double spread)
{
    const int before = image_draw(im, 0, 2) ? 0 : image_draw(im, 0, 3) * channels;
    const int after = image_draw(im, 0, 2) ? 0 : image_draw(im, 0, 3) * channels + image_draw(im, 0, 3);
    struct image_tensor t = {0, count, rows, channels, before + rows * channels + after};
    t.at = image_floats(im, (int64_t)count * t.example) + (size_t)before * sizeof(float);
    float *x = host_at(im, t.at);
    for (int i = 0; i < count; i++)
        for (int e = 0; e < rows * channels; e++) x[i * t.example + e] = image_number(im, spread);
    return t;
}
static inline struct fm_cuda_tensor image_device_tensor(const struct image *im, const struct image_tensor *t)
{
    return (struct fm_cuda_tensor){device_at(im, t->at), t->example};
}
static inline void image_mark_tensor(const struct image *im, const struct image_tensor *t)
{
    for (int i = 0; i < t->count; i++)
        image_mark(im, t->at + (size_t)(i * t->example) * sizeof(float),
                   (size_t)(t->rows * t->channels) * sizeof(float));
}
/* Where element (i, row, channel) lies from `at`, in elements. */
static inline int image_index(const struct image_tensor *t, int i, int row, int channel)
{
    return i * t->example + row * t->channels + channel;
}

/* Weights in Keras's order, cuDNN's, or neither. */
struct image_weights {
    size_t at;
    int taps, depth, filters, span; /* span: floats */
    struct fm_cuda_weights strides;
};

static inline struct image_weights image_weights(struct image *im, int taps, int depth, int filters,
                                                 double spread)
{
    struct image_weights w = {.taps = taps, .depth = depth, .filters = filters};
    const int kind = image_draw(im, 0, 4);
    if (kind == 0)
        w.strides = (struct fm_cuda_weights){NULL, 1, taps, taps * depth};
    else if (kind == 1)
        w.strides = (struct fm_cuda_weights){NULL, depth * (filters + 4) + 8, filters + 4, 1};
    else
        w.strides = (struct fm_cuda_weights){NULL, depth * filters, filters, 1};
    w.span = (taps - 1) * w.strides.tap + (depth - 1) * w.strides.in + (filters - 1) * w.strides.out + 1;
    w.at = image_floats(im, w.span);
    w.strides.at = device_at(im, w.at);
    float *x = host_at(im, w.at);
    for (int j = 0; j < taps; j++)
        for (int c = 0; c < depth; c++)
            for (int f = 0; f < filters; f++)
                x[j * w.strides.tap + c * w.strides.in + f * w.strides.out] = image_number(im, spread);
    return w;
}
static inline int image_weight(const struct image_weights *w, int tap, int in, int out)
{
    return tap * w->strides.tap + in * w->strides.in + out * w->strides.out;
}

/* Any convolution of at most these sizes; some have padding, strides, dilation, groups. */
struct image_sizes {
    int rows, channels, filters, taps;
};
static inline struct fm_cuda_conv image_conv(struct image *im, struct image_sizes most)
{
    struct fm_cuda_conv c = {.groups = 1, .stride = 1, .dilation = 1};
    c.taps = image_draw(im, 0, 3) ? image_draw(im, 1, most.taps) : 1;
    if (image_draw(im, 0, 1)) c.stride = image_draw(im, 1, 4);
    if (image_draw(im, 0, 1)) c.dilation = image_draw(im, 1, 3);
    if (image_draw(im, 0, 3) == 0) c.groups = image_draw(im, 2, 5);
    c.in_channels = image_draw(im, 1, (most.channels + c.groups - 1) / c.groups) * c.groups;
    c.out_channels = image_draw(im, 1, (most.filters + c.groups - 1) / c.groups) * c.groups;
    const int span = (c.taps - 1) * c.dilation + 1;
    c.in_rows = image_draw(im, 1, most.rows);
    c.pad = image_draw(im, 0, 1) ? image_draw(im, 0, span - 1) : 0;
    int after = image_draw(im, 0, 1) ? image_draw(im, 0, span - 1) : 0;
    if (c.pad + c.in_rows + after < span) after = span - c.pad - c.in_rows;
    c.out_rows = (c.pad + c.in_rows + after - span) / c.stride + 1;
    return c;
}
static inline const char *image_conv_text(char (*text)[256], const struct fm_cuda_conv *c, int rows)
{
    snprintf(*text, sizeof *text,
             "%d x [%d][%d] -> [%d][%d], %d taps, stride %d, dilation %d, %d groups, pad %d", rows,
             c->in_rows, c->in_channels, c->out_rows, c->out_channels, c->taps, c->stride, c->dilation,
             c->groups, c->pad);
    return *text;
}

static inline void compare(enum ts_tolerance tolerance, double got, double expected, const char *what)
{
    const struct ts_worst worst = ts_compare_one(tolerance, got, expected);
    cr_assert(worst.ok, "%s: %s", what, worst.text);
}

/* `count` cases after each other in one image. */
static inline void image_cases(void (*one)(struct image *im, int number), int count, uint64_t seed)
{
    struct image im;
    image_open(&im, seed);
    for (int i = 0; i < count; i++) {
        image_clear(&im);
        one(&im, i);
    }
    image_close(&im);
}

#endif
