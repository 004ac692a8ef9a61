/* The end of a step on the device, for tests: a lane's state, gradients as partial sums or whole, tiles,
 * losses. Every piece is guarded (on_device.h). */
#ifndef FM_TESTS_STEP_SUBJECT_H
#define FM_TESTS_STEP_SUBJECT_H

#include <stdlib.h>

#include "cuda/on_device.h"
#include "engine/backend.h"
#include "support/bench.h"

enum { VARIABLES = 5, ROWS = 37, MOST_SLOTS = 3, MOST_TILES = 24, MOST_SPLITS = 4 };

/* What one variable is. */
struct variable {
    int count, splits, offset, frozen;
    double l1, l2;
    int decay;
};

/* A lane's memory: parameters, slots and tail as one state, and everything that a step needs beside it. */
struct subject {
    struct variable variable[VARIABLES];
    int nvariables, floats, slots;
    struct on_device device;
    struct fm_cuda_lane lane;
    struct fm_cuda_tile tiles[MOST_TILES];
    struct fm_cuda_update update;
    struct fm_cuda_place place;
    size_t state_bytes;
    unsigned char *state;
    double *penalty;
    struct fm_cuda_answer *answer; /* the device's address */
    uint64_t number;
};

static inline int partial_stride(const struct variable *v)
{
    return v->count % 2 ? v->count + 2 : v->count; /* aligned or not */
}

/* Offsets and tiles. Returns the floats of all partial sums. */
static inline int lay_out(struct subject *s)
{
    int at = 0, partial = 0, n = 0;
    for (int v = 0; v < s->nvariables; v++) {
        struct variable *variable = &s->variable[v];
        variable->offset = at;
        for (int first = 0; !variable->frozen && first < variable->count; first += FM_CUDA_TILE) {
            const int left = variable->count - first;
            cr_assert(n < MOST_TILES);
            s->tiles[n++] = (struct fm_cuda_tile){.variable = v,
                                                  .count = left < FM_CUDA_TILE ? left : FM_CUDA_TILE,
                                                  .offset = at + first,
                                                  .splits = variable->splits,
                                                  .partial = partial + first,
                                                  .stride = partial_stride(variable),
                                                  .l1 = variable->l1,
                                                  .l2 = variable->l2,
                                                  .decay = variable->decay};
        }
        partial += partial_stride(variable) * variable->splits;
        at += (variable->count + 3) / 4 * 4;
    }
    s->floats = at;
    s->update.ntiles = n;
    return partial;
}

static inline void open_subject(struct subject *s, int thread_order)
{
    struct on_device *d = &s->device;
    const int partials = lay_out(s);
    const size_t floats = (size_t)s->floats;
    on_device_open(d, thread_order);
    s->state_bytes = floats * (size_t)(1 + s->slots) * sizeof(float);
    s->state_bytes = (s->state_bytes + 15) / 16 * 16;
    const size_t tail = s->state_bytes;
    s->state_bytes += (sizeof(struct fm_cuda_tail) + 15) / 16 * 16;
    unsigned char *zero = calloc(1, s->state_bytes);
    const struct fm_cuda_tail none = {.last_loss = (double)NAN, .last_norm = (double)NAN};
    memcpy(zero + tail, &none, sizeof none);
    s->state = on_device_put(d, zero, s->state_bytes);
    free(zero);
    struct fm_cuda_update *u = &s->update;
    u->tiles = on_device_put(d, s->tiles, (size_t)u->ntiles * sizeof *s->tiles);
    u->nvariables = s->nvariables;
    u->parameters = (float *)s->state;
    u->slots = u->parameters + s->floats;
    u->slot_stride = s->floats;
    u->gradients = on_device_put(d, NULL, floats * sizeof(float));
    u->partials = on_device_put(d, NULL, (size_t)partials * sizeof(float));
    u->sums = on_device_put(d, NULL, (size_t)u->ntiles * 2 * sizeof(double));
    u->scales = on_device_put(d, NULL, (size_t)s->nvariables * sizeof(float));
    u->losses = on_device_put(d, NULL, ROWS * sizeof(float));
    u->weight = on_device_put(d, NULL, ROWS * sizeof(float));
    s->penalty = on_device_put(d, NULL, sizeof *s->penalty);
    s->answer = on_device_put(d, NULL, sizeof *s->answer);
    s->lane.tail = (struct fm_cuda_tail *)(void *)(s->state + tail);
    s->lane.part[FM_PART_TRAIN].count = 1000;
    s->lane.batch = ROWS;
    s->lane.pass_steps = 28;
    s->place = on_device_lane(d, &s->lane, FM_CUDA_TRAINS, ROWS);
}

static inline void set_hyper(struct subject *s, const struct fm_hyper *h)
{
    s->lane.hyper = (struct fm_cuda_hyper){.momentum = (float)h->momentum,
                                           .beta_1 = (float)h->beta_1,
                                           .beta_2 = (float)h->beta_2,
                                           .epsilon = (float)h->epsilon,
                                           .rho = (float)h->rho,
                                           .weight_decay = (float)h->weight_decay,
                                           .beta_1_wide = h->beta_1,
                                           .beta_2_wide = h->beta_2,
                                           .rho_wide = h->rho,
                                           .clip = (int)h->clip,
                                           .clip_value = (float)h->clip_value};
}

static inline void begin(struct subject *s, enum fm_on_nan on_nan, int64_t first, int64_t steps, double rate)
{
    const struct fm_cuda_begin request = {.kind = FM_TRAIN,
                                          .on_nan = (int)on_nan,
                                          .first_step = first,
                                          .steps = steps,
                                          .learning_rate = rate,
                                          .loss_sum = 2.5};
    cr_assert_eq(fm_cuda_request_begin(s->place, request), cudaSuccess);
}

/* The valid rows of the step, with the losses that the loss kernel would have left. */
static inline void set_losses(struct subject *s, int n, const float *losses, const float *weights)
{
    float loss[ROWS], weight[ROWS];
    for (int i = 0; i < ROWS; i++) {
        loss[i] = i < n ? losses[i] : NAN; /* what is not valid must not be looked at */
        weight[i] = i < n ? weights[i] : NAN;
    }
    fm_emulator_poke((void *)s->update.losses, loss, sizeof loss);
    fm_emulator_poke((void *)s->update.weight, weight, sizeof weight);
    struct fm_cuda_control control = on_device_control(&s->place);
    control.n = n;
    on_device_set_control(&s->place, &control);
}

static inline void end_step(struct subject *s)
{
    cr_assert_eq(fm_cuda_norm(s->place, s->update), cudaSuccess);
    cr_assert_eq(fm_cuda_optimize(s->place, s->update), cudaSuccess);
}

static inline struct fm_cuda_answer end(struct subject *s)
{
    struct fm_cuda_answer answer;
    cr_assert_eq(fm_cuda_request_end(s->place, s->answer, ++s->number, NULL), cudaSuccess);
    on_device_get(&answer, s->answer, sizeof answer);
    cr_assert_eq(answer.done, s->number);
    cr_assert_eq(on_device_control(&s->place).activity, FM_CUDA_IDLE);
    return answer;
}

/* A gradient's part, near 1. */
static inline float partial_value(int step, int variable, int split, int i)
{
    return ts_hashed((uint32_t)(((step * VARIABLES + variable) * MOST_SPLITS + split) * 4096 + i), 22, 1, 0);
}

#endif
