/* Evaluation sums on the device against plain loops: losses, errors of numbers, confusion counts of classes
 * and distributions, scores, over chunks of which the last is smaller. */
#include <stdlib.h>

#include "cuda/on_device.h"
#include "data/packed.h"
#include "engine/backend.h"
#include "support/bench.h"
#include "support/tolerance.h"

enum { COUNT = 701, CHUNK = 300, MOST = 4 };

enum targets { CLASSES, DISTRIBUTIONS, NUMBERS };
struct way {
    enum targets targets;
    int width, classes, bits; /* of scores; of the confusion matrix; of packed codes */
};

struct subject {
    struct on_device device;
    struct fm_cuda_lane lane;
    struct fm_cuda_place place;
    struct fm_packed codes;
    float scores[COUNT * MOST], targets[COUNT * MOST], losses[COUNT];
};

/* Places that are no example numbers: example = place reversed. */
static int64_t example_at(int64_t place)
{
    return COUNT - 1 - place;
}

static void make(struct subject *s, const struct way *way, int order)
{
    const int64_t limit = way->bits == 1 ? 2 : way->bits == 8 ? 200 : way->bits == 16 ? 300 : 70000;
    for (int i = 0; i < COUNT * MOST; i++) {
        s->scores[i] = (float)(i * 7 % 11) / 10; /* ties on purpose */
        s->targets[i] = (float)(i * 5 % 13);
    }
    for (int i = 0; i < COUNT; i++) s->losses[i] = ts_hashed((uint32_t)i, 3, 1, 1);
    cr_assert(fm_packed_init(&s->codes, COUNT, limit, NULL) == 0 && s->codes.bits == way->bits);
    for (int i = 0; i < COUNT; i++)
        fm_packed_set(&s->codes, i, (uint32_t)(i * 3 % 7 % (way->classes ? way->classes : 1)));
    on_device_open(&s->device, order);
    const struct fm_cuda_tail tail = {.iterations = 4};
    s->lane.tail = on_device_put(&s->device, &tail, sizeof tail);
    s->lane.part[FM_PART_INNER].count = COUNT;
    s->lane.data.nclasses = way->classes;
    if (way->targets == CLASSES) {
        s->lane.data.class_bits = way->bits;
        s->lane.data.classes = on_device_put(&s->device, s->codes.data, (size_t)fm_packed_bytes(&s->codes));
    } else {
        s->lane.data.targets = on_device_put(&s->device, s->targets, sizeof s->targets);
        s->lane.data.target_width = way->targets == NUMBERS ? way->width : way->classes;
    }
    s->place = on_device_lane(&s->device, &s->lane, FM_CUDA_EVALUATES, CHUNK);
}

static int argmax(const float *x, int n)
{
    int best = 0;
    for (int k = 1; k < n; k++)
        if (x[k] > x[best]) best = k;
    return best;
}

struct sums {
    double loss, square, absolute;
    unsigned long long confusion[MOST * MOST];
};

static void plain_sums(const struct subject *s, const struct way *way, struct sums *sums)
{
    *sums = (struct sums){0};
    for (int64_t p = 0; p < COUNT; p++) {
        const int64_t example = example_at(p);
        const float *score = s->scores + p * way->width;
        const float *y = s->targets + example * s->lane.data.target_width;
        sums->loss += (double)s->losses[p];
        const int truth = way->targets == CLASSES         ? (int)fm_packed_get(&s->codes, example)
                          : way->targets == DISTRIBUTIONS ? argmax(y, way->classes)
                                                          : 0;
        const int most = way->width < way->classes ? way->width : way->classes;
        const int guess = way->width == 1 ? score[0] > 0.5f : argmax(score, most);
        if (way->targets != NUMBERS) sums->confusion[truth * way->classes + guess]++;
        for (int k = 0; way->targets != CLASSES && s->lane.data.target_width == way->width && k < way->width;
             k++) {
            const double error = (double)y[k] - (double)score[k];
            sums->square += error * error;
            sums->absolute += fabs(error);
        }
    }
}

static void run_chunks(struct subject *s, const struct way *way, float *all, unsigned long long *confusion)
{
    const struct fm_cuda_begin begin = {.kind = FM_EVALUATE, .part = FM_PART_INNER};
    const struct fm_cuda_loss loss = {.outputs = way->width, .score_width = way->width};
    int64_t *example = on_device_put(&s->device, NULL, CHUNK * sizeof *example);
    float *losses = on_device_put(&s->device, NULL, CHUNK * sizeof *losses);
    float *scores = on_device_put(&s->device, NULL, (size_t)CHUNK * MOST * sizeof *scores);
    cr_assert_eq(fm_cuda_request_begin(s->place, begin), cudaSuccess);
    /* One chunk more than there are: it finds the lane idle. */
    for (int64_t first = 0; first < COUNT + CHUNK; first += CHUNK) {
        const int64_t left = COUNT - first, n = left < 0 ? 0 : left < CHUNK ? left : CHUNK;
        int64_t number[CHUNK];
        for (int64_t i = 0; i < n; i++) number[i] = example_at(first + i);
        fm_emulator_poke(example, number, (size_t)n * sizeof *number);
        fm_emulator_poke(losses, s->losses + first, (size_t)n * sizeof *losses);
        fm_emulator_poke(scores, s->scores + first * way->width, (size_t)(n * way->width) * sizeof *scores);
        struct fm_cuda_control control = on_device_control(&s->place);
        cr_assert_eq(control.activity, n > 0 ? FM_CUDA_EVALUATES : FM_CUDA_IDLE);
        control.n = (int)n;
        on_device_set_control(&s->place, &control);
        cr_assert_eq(fm_cuda_tally(s->place, loss, example, losses, scores, all, confusion), cudaSuccess);
    }
}

static void check(const struct way *way, int order)
{
    static struct subject s;
    struct sums want;
    memset(&s, 0, sizeof s);
    make(&s, way, order);
    plain_sums(&s, way, &want);
    const size_t cells = (size_t)(way->classes * way->classes);
    unsigned long long counts[MOST * MOST];
    float *all = on_device_put(&s.device, NULL, (size_t)(COUNT * way->width) * sizeof *all);
    unsigned long long *confusion = on_device_put(&s.device, NULL, cells * sizeof *confusion);
    cr_assert_eq(fm_cuda_clear(s.place, confusion, (int64_t)(cells * sizeof *confusion)), cudaSuccess);
    run_chunks(&s, way, all, way->targets == NUMBERS ? NULL : confusion);
    struct fm_cuda_answer *at = on_device_put(&s.device, NULL, sizeof *at), answer;
    const double penalty = 0.25;
    cr_assert_eq(fm_cuda_request_end(s.place, at, 9, on_device_put(&s.device, &penalty, sizeof penalty)),
                 cudaSuccess);
    on_device_get(&answer, at, sizeof answer);
    cr_assert(answer.done == 9 && answer.examples == COUNT && answer.penalty == 0.25);
    cr_assert(ts_compare_one(TS_DOUBLE_SUM, answer.evaluated, want.loss).ok);
    cr_assert(ts_compare_one(TS_DOUBLE_SUM, answer.square_sum, want.square).ok);
    cr_assert(ts_compare_one(TS_DOUBLE_SUM, answer.absolute_sum, want.absolute).ok);
    on_device_get(counts, confusion, cells * sizeof *counts);
    cr_assert_eq(memcmp(counts, want.confusion, cells * sizeof *counts), 0);
    static float scores[COUNT * MOST];
    on_device_get(scores, all, (size_t)(COUNT * way->width) * sizeof *scores);
    cr_assert_eq(memcmp(scores, s.scores, (size_t)(COUNT * way->width) * sizeof *scores), 0);
    on_device_close(&s.device);
    fm_packed_fini(&s.codes);
}

Test(cuda_tally, classes_distributions_and_numbers)
{
    const struct way ways[] = {{CLASSES, 1, 2, 1},       {CLASSES, 3, 3, 8},      {CLASSES, 4, 2, 16},
                               {CLASSES, 2, 3, 32},      {NUMBERS, 1, 0, 1},      {NUMBERS, 3, 0, 1},
                               {DISTRIBUTIONS, 4, 4, 1}, {DISTRIBUTIONS, 1, 2, 1}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) check(&ways[i], (int)i % 4);
}

Test(cuda_tally, clears_any_number_of_bytes)
{
    struct on_device d;
    const struct fm_cuda_lane lane = {0};
    on_device_open(&d, 0);
    const struct fm_cuda_place place = on_device_lane(&d, &lane, FM_CUDA_EVALUATES, 1);
    for (int64_t bytes = 1; bytes < 5000; bytes = bytes * 3 + 2) {
        unsigned char got[5000];
        void *at = on_device_put(&d, NULL, (size_t)bytes);
        cr_assert_eq(fm_cuda_clear(place, at, bytes), cudaSuccess);
        on_device_get(got, at, (size_t)bytes);
        for (int64_t i = 0; i < bytes; i++) cr_assert_eq(got[i], 0);
    }
    on_device_close(&d);
}
