/* Tensors on the emulated device for the tests of elementwise kernels, pools, norms and losses: rows x
 * channels an example, `apart` floats between examples that are NaN at first and must stay so, as the halos
 * of the plan must. A call is run in several orders of a block's threads, which must give the same bits, and
 * once while the lane does something else, which must write nothing. */
#ifndef FM_TESTS_CUDA_TENSORS_H
#define FM_TESTS_CUDA_TENSORS_H

#include <stdlib.h>

#include "cuda/on_device.h"
#include "support/tolerance.h"

struct shape {
    int count, rows, channels, apart;
};
static inline int shape_example(const struct shape *s)
{
    return s->rows * s->channels + s->apart;
}
static inline int shape_floats(const struct shape *s)
{
    return s->count * shape_example(s);
}
/* Where element e of example i lies. */
static inline int shape_at(const struct shape *s, int i, int e)
{
    return i * shape_example(s) + e;
}

/* A piece of device memory with its content on the host. */
struct piece {
    void *device, *host;
    size_t bytes;
};
static inline struct piece piece_new(struct on_device *d, const void *from, size_t bytes)
{
    struct piece p = {on_device_put(d, from, bytes), malloc(bytes + 1), bytes};
    cr_assert_not_null(p.host);
    on_device_get(p.host, p.device, bytes);
    return p;
}

struct draws {
    uint64_t state;
};
static inline struct draws draws_from(int seed)
{
    return (struct draws){((uint64_t)seed + 1) * 0x9E3779B97F4A7C15u};
}
static inline int draw(struct draws *d, int low, int high)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return low + (int)((d->state >> 33) % (uint64_t)(high - low + 1));
}
static inline float draw_number(struct draws *d, float middle, float spread)
{
    return middle + spread * (float)draw(d, -1000000, 1000000) / 1000000.0f;
}

/* A tensor of numbers, NaN between examples; `spread` 0: all NaN, for outputs. */
static inline struct piece tensor_new(struct on_device *d, struct draws *draws, const struct shape *s,
                                      float middle, float spread)
{
    struct piece p = piece_new(d, NULL, (size_t)shape_floats(s) * sizeof(float));
    float *x = p.host;
    for (int i = 0; spread != 0 && i < s->count; i++)
        for (int e = 0; e < s->rows * s->channels; e++)
            x[shape_at(s, i, e)] = draw_number(draws, middle, spread);
    fm_emulator_poke(p.device, p.host, p.bytes);
    return p;
}
static inline struct piece numbers_new(struct on_device *d, struct draws *draws, int n, float middle,
                                       float spread)
{
    const struct shape s = {1, 1, n, 0};
    return tensor_new(d, draws, &s, middle, spread);
}
static inline struct fm_cuda_tensor tensor_of(const struct piece *p, const struct shape *s)
{
    return (struct fm_cuda_tensor){p->device, shape_example(s)};
}

/* Runs call(context) and brings back what the outputs hold then; before, they hold what they hold on the
 * host. */
enum { MOST_OUTPUTS = 6 };
static inline void run_call(const struct fm_cuda_place *place, cudaError_t (*call)(void *context),
                            void *context, struct piece *outputs, int noutputs)
{
    unsigned char *before[MOST_OUTPUTS];
    struct fm_cuda_control control = on_device_control(place), other = control;
    const int orders[] = {0, 1, 77};
    cr_assert(noutputs <= MOST_OUTPUTS);
    other.activity = place->activity == FM_CUDA_TRAINS ? FM_CUDA_EVALUATES : FM_CUDA_TRAINS;
    on_device_set_control(place, &other);
    cr_assert_eq(call(context), cudaSuccess);
    for (int k = 0; k < noutputs; k++) {
        before[k] = malloc(outputs[k].bytes + 1);
        cr_assert_not_null(before[k]);
        memcpy(before[k], outputs[k].host, outputs[k].bytes);
        on_device_get(outputs[k].host, outputs[k].device, outputs[k].bytes);
        cr_assert(memcmp(before[k], outputs[k].host, outputs[k].bytes) == 0,
                  "output %d was written while the lane did something else", k);
    }
    on_device_set_control(place, &control);
    for (int order = 0; order < 3; order++) {
        const struct fm_emulator_settings settings = {.thread_order = orders[order]};
        fm_emulator_set(&settings);
        for (int k = 0; k < noutputs; k++) fm_emulator_poke(outputs[k].device, before[k], outputs[k].bytes);
        cr_assert_eq(call(context), cudaSuccess);
        for (int k = 0; k < noutputs; k++) {
            unsigned char *got = malloc(outputs[k].bytes + 1);
            cr_assert_not_null(got);
            on_device_get(got, outputs[k].device, outputs[k].bytes);
            cr_assert(order == 0 || memcmp(got, outputs[k].host, outputs[k].bytes) == 0,
                      "output %d has other bits with other orders of threads", k);
            memcpy(outputs[k].host, got, outputs[k].bytes);
            free(got);
        }
    }
    for (int k = 0; k < noutputs; k++) free(before[k]);
}

/* Numbers between examples were not written. */
static inline void check_gaps(const struct piece *p, const struct shape *s)
{
    const float *x = p->host;
    for (int i = 0; i < s->count; i++)
        for (int e = s->rows * s->channels; e < shape_example(s); e++)
            cr_assert(isnan(x[shape_at(s, i, e)]), "example %d: wrote at %d behind it", i, e);
}
/* want: examples end to end. */
static inline void check_tensor(const struct piece *p, const struct shape *s, const double *want,
                                enum ts_tolerance tolerance, const char *what)
{
    const int n = s->rows * s->channels;
    check_gaps(p, s);
    for (int i = 0; i < s->count; i++) {
        const struct ts_worst w = ts_compare_float(tolerance, (const float *)p->host + shape_at(s, i, 0),
                                                   want + (size_t)i * (size_t)n, (size_t)n);
        cr_assert(w.ok, "%s, %dx%dx%d, example %d: %s", what, s->count, s->rows, s->channels, i, w.text);
    }
}
static inline void check_numbers(const struct piece *p, const double *want, enum ts_tolerance tolerance,
                                 const char *what)
{
    const struct ts_worst w = ts_compare_float(tolerance, p->host, want, p->bytes / sizeof(float));
    cr_assert(w.ok, "%s: %s", what, w.text);
}

static inline double *doubles_new(int n)
{
    double *x = calloc((size_t)n + 1, sizeof *x);
    cr_assert_not_null(x);
    return x;
}

/* Frees the host sides. */
static inline void pieces_free(struct piece *pieces, int n)
{
    for (int k = 0; k < n; k++) free(pieces[k].host);
}

#endif
