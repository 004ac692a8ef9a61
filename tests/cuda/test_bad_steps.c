/* Bad steps on the device under each on_nan; snapshots, frozen lanes, lanes that are not at their turn. */
#include "cuda/step_subject.h"

static const struct fm_hyper usual = {
    .momentum = 0.9, .beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-3, .rho = 0.9, .weight_decay = 0.1};

/* What is wrong with the second of four steps. */
enum fault { NAN_LOSS, INFINITE_GRADIENT, LARGE_SQUARE, FAULTS };

static void open_small(struct subject *s, struct fm_hyper hyper)
{
    *s = (struct subject){.slots = 2, .nvariables = 2, .variable = {{.count = 6}, {.count = 3}}};
    s->update.optimizer = FM_OPTIMIZER_ADAM;
    set_hyper(s, &hyper);
    open_subject(s, 0);
}

static void small_step(struct subject *s, int step, int fault)
{
    float g[12] = {0}, losses[4] = {1, 2, 3, 4}, weights[4] = {1, 1, 2, 1};
    for (int i = 0; i < 9; i++) g[i < 6 ? i : i + 2] = partial_value(step, 0, 0, i);
    if (fault == NAN_LOSS) losses[2] = NAN;
    if (fault == INFINITE_GRADIENT) g[9] = INFINITY;
    if (fault == LARGE_SQUARE) g[3] = 3e19f; /* its square is beyond a float, though not beyond a double */
    fm_emulator_poke(s->update.gradients, g, sizeof g);
    set_losses(s, 4, losses, weights);
    end_step(s);
}

static void read_state(const struct subject *s, unsigned char *state)
{
    on_device_get(state, s->state, s->state_bytes);
}

static void check_bad(enum fm_on_nan on_nan, enum fault fault)
{
    struct subject s;
    unsigned char before[512], after[512];
    struct fm_cuda_tail tail;
    open_small(&s, usual);
    cr_assert(s.state_bytes <= sizeof before);
    begin(&s, on_nan, 10, 4, 0.1);
    small_step(&s, 0, -1);
    read_state(&s, before);
    on_device_get(&tail, s.lane.tail, sizeof tail);
    small_step(&s, 1, (int)fault);
    read_state(&s, after);
    struct fm_cuda_control c = on_device_control(&s.place);
    const bool keras = on_nan == FM_ON_NAN_KERAS,
               freezes = on_nan == FM_ON_NAN_STOP || on_nan == FM_ON_NAN_ROLLBACK;
    cr_assert_eq(c.bad, !keras);
    cr_assert_eq(c.frozen, freezes);
    cr_assert_eq(c.activity, freezes ? FM_CUDA_IDLE : FM_CUDA_TRAINS);
    cr_assert_eq(memcmp(before, after, s.state_bytes) == 0, !keras);
    small_step(&s, 2, -1);
    small_step(&s, 3, -1);
    const struct fm_cuda_answer answer = end(&s);
    cr_assert(answer.steps == (freezes ? 2 : 4) && answer.examples == answer.steps * 4);
    cr_assert_eq(answer.loss_examples, freezes ? 4 : keras ? 16 : 12);
    cr_assert(answer.bad_steps >= 1 && answer.first_bad_step == 11 && answer.frozen == freezes);
    struct fm_cuda_tail last;
    on_device_get(&last, s.lane.tail, sizeof last);
    cr_assert_eq(last.iterations, freezes ? 1 : keras ? 4 : 3);
    /* (1 + 2 + 2 * 3 + 4) / 4 of each step that counts. */
    if (!keras) cr_assert_eq(answer.loss_sum, 2.5 + 13 * (freezes ? 1 : 3));
    if (keras && fault == NAN_LOSS) cr_assert(isnan(answer.loss_sum));
    cr_assert_eq(answer.last_loss, 3.25);
    if (freezes) cr_assert_eq(answer.last_norm, tail.last_norm);
    on_device_close(&s.device);
}

Test(cuda_bad_steps, bad_steps)
{
    for (int fault = 0; fault < FAULTS; fault++) {
        check_bad(FM_ON_NAN_STOP, (enum fault)fault);
        check_bad(FM_ON_NAN_ROLLBACK, (enum fault)fault);
        check_bad(FM_ON_NAN_SKIP, (enum fault)fault);
        check_bad(FM_ON_NAN_KERAS, (enum fault)fault);
    }
}

/* ---- snapshots, frozen lanes ---- */

Test(cuda_bad_steps, snapshots_and_frozen_lanes)
{
    struct subject s;
    unsigned char first[512], now[512];
    open_small(&s, usual);
    void *slot = on_device_put(&s.device, NULL, s.state_bytes);
    const int64_t bytes = (int64_t)s.state_bytes;
    begin(&s, FM_ON_NAN_STOP, 0, 1, 0.1);
    small_step(&s, 0, -1);
    end(&s);
    read_state(&s, first);
    /* An empty slot. */
    cr_assert_eq(fm_cuda_restore(s.place, s.state, slot, bytes, 1), cudaSuccess);
    struct fm_cuda_answer answer = end(&s);
    read_state(&s, now);
    cr_assert(answer.status == 1 && answer.steps == 0 && memcmp(first, now, s.state_bytes) == 0);
    cr_assert_eq(fm_cuda_snapshot(s.place, s.state, slot, bytes, 1), cudaSuccess);
    cr_assert_eq(end(&s).status, 0);
    /* A good step, then a bad one, then nothing any more. */
    begin(&s, FM_ON_NAN_ROLLBACK, 1, 2, 0.1);
    small_step(&s, 1, -1);
    small_step(&s, 2, NAN_LOSS);
    cr_assert_eq(end(&s).frozen, 1);
    read_state(&s, now);
    cr_assert(memcmp(first, now, s.state_bytes) != 0);
    begin(&s, FM_ON_NAN_ROLLBACK, 3, 2, 0.1);
    small_step(&s, 3, -1);
    answer = end(&s);
    cr_assert(answer.frozen == 1 && answer.steps == 0 && answer.loss_sum == 2.5);
    cr_assert_eq(fm_cuda_snapshot(s.place, s.state, slot, bytes, 1), cudaSuccess);
    cr_assert_eq(end(&s).frozen, 1);
    /* Back to the first state, and on from there with the same bits as before. */
    unsigned char second[512], again[512];
    read_state(&s, second);
    cr_assert_eq(fm_cuda_restore(s.place, s.state, slot, bytes, 1), cudaSuccess);
    answer = end(&s);
    cr_assert(answer.frozen == 0 && answer.status == 0);
    read_state(&s, now);
    cr_assert_eq(memcmp(first, now, s.state_bytes), 0);
    begin(&s, FM_ON_NAN_ROLLBACK, 1, 1, 0.1);
    small_step(&s, 1, -1);
    end(&s);
    read_state(&s, again);
    cr_assert_eq(memcmp(second, again, s.state_bytes), 0);
    uint64_t *word = on_device_put(&s.device, NULL, sizeof *word), value;
    cr_assert_eq(fm_cuda_signal(s.place, word, 77), cudaSuccess);
    on_device_get(&value, word, sizeof value);
    cr_assert_eq(value, 77);
    on_device_close(&s.device);
}

Test(cuda_bad_steps, nothing_when_it_is_not_its_turn)
{
    struct subject s;
    unsigned char before[512], after[512];
    open_small(&s, usual);
    begin(&s, FM_ON_NAN_STOP, 0, 3, 0.1);
    small_step(&s, 0, -1);
    read_state(&s, before);
    const struct fm_cuda_control control = on_device_control(&s.place);
    s.place.activity = FM_CUDA_EVALUATES;
    end_step(&s);
    read_state(&s, after);
    struct fm_cuda_control now = on_device_control(&s.place);
    cr_assert_eq(memcmp(before, after, s.state_bytes), 0);
    cr_assert_eq(memcmp(&control, &now, sizeof now), 0);
    on_device_close(&s.device);
}

/* A network in which nothing can be trained still counts its steps. */
Test(cuda_bad_steps, without_trainable_variables)
{
    struct subject s = {.nvariables = 1, .variable = {{.count = 6, .frozen = 1}}};
    const float one[1] = {3};
    s.update.optimizer = FM_OPTIMIZER_SGD;
    open_subject(&s, 0);
    begin(&s, FM_ON_NAN_STOP, 0, 2, 0.1);
    for (int i = 0; i < 2; i++) {
        set_losses(&s, 1, one, one);
        end_step(&s);
    }
    cr_assert_eq(fm_cuda_penalty(s.place, s.update, s.penalty), cudaSuccess);
    double penalty;
    on_device_get(&penalty, s.penalty, sizeof penalty);
    cr_assert_eq(penalty, 0);
    const struct fm_cuda_answer answer = end(&s);
    cr_assert(answer.steps == 2 && answer.last_loss == 9 && answer.last_norm == 0);
    on_device_close(&s.device);
}
