/* Gathering on the device against fm_view_window, fm_permutation_at, fm_indexset_at and the weights of the
 * host: all edges and alignments, letters and numbers, runs and bitmaps, several passes with partial batches,
 * and searches through sets of many levels. */
#include <stdlib.h>

#include "base/memory.h"
#include "base/random.h"
#include "cuda/on_device.h"
#include "data/split.h"
#include "engine/backend.h"
#include "support/bench.h"
#include "support/series.h"

enum { L = 6, CHANNELS = 3, ALPHABET = 5, CLASSES = 3, BATCH = 7 };

struct subject {
    struct fm_dataset data;
    struct fm_examples examples;
    struct fm_view view;
    struct fm_indexset train, val;
    float shift[CHANNELS], factor[CHANNELS], class_weights[CLASSES];
    bool letters, shuffle;
    int length;
    struct on_device device;
    struct fm_cuda_lane lane; /* the host's copy */
    struct fm_cuda_place place;
    float *out;
    uint8_t *letters_out;
    int64_t *example;
    float *weight;
};

enum { LONG = 9001, MOST = LONG * CHANNELS + 5 }; /* a window of several blocks; elements of an example */

/* Floats or letters from one example to the next. */
static size_t example_size(const struct subject *s)
{
    return (size_t)(s->letters ? s->length + 3 : s->length * CHANNELS + 5);
}

static void make_series(struct subject *s, const int64_t *lengths, enum fm_edge edge, bool mask,
                        bool per_record)
{
    ts_series_init(&s->data, lengths, 6, edge == FM_EDGE_WRAP ? L - 1 : 0);
    ts_series_classes(&s->data, CLASSES, false);
    const int64_t positions = s->data.positions;
    if (s->letters) {
        s->data.alphabet = ALPHABET;
        s->data.letters = fm_calloc((size_t)positions, 1);
        for (int64_t p = 0; p < positions; p++)
            s->data.letters[p] = p % 7 == 3 ? FM_NO_LETTER : (uint8_t)(p * 7 % ALPHABET);
    } else {
        ts_series_numbers(&s->data, CHANNELS);
        for (int64_t p = 0; p < positions * CHANNELS; p++)
            s->data.values[p] = ts_hashed((uint32_t)p, 4, 3, 1);
    }
    s->data.weights_per_record = per_record;
    s->data.weights = fm_calloc((size_t)(per_record ? s->data.nrecords : positions), sizeof(float));
    for (int64_t p = 0; p < (per_record ? s->data.nrecords : positions); p++)
        s->data.weights[p] = 1 + (float)p;
    for (int64_t p = 0; p < positions; p++) fm_packed_set(&s->data.classes, p, (uint32_t)(p * p % CLASSES));
    if (mask) {
        s->data.mask = fm_calloc((size_t)positions / 64 + 1, sizeof *s->data.mask);
        for (int64_t p = 0; p < positions; p++)
            if (p * 2654435761u % 7 < 5) s->data.mask[p / 64] |= UINT64_C(1) << p % 64;
    }
    if (edge == FM_EDGE_WRAP) ts_series_wrap(&s->data);
}

/* Every member of [0, count) that `keep` out of ten like, or a run of all of [from, count). */
static void make_set(struct fm_indexset *set, int64_t from, int64_t count, uint64_t keep)
{
    struct fm_indexset_builder builder;
    fm_indexset_builder_init(&builder, 1);
    for (int64_t i = from; i < count; i++)
        if ((uint64_t)(i + 1) * UINT64_C(2654435761) / 7 % 10 < keep) fm_indexset_add(&builder, i);
    cr_assert(fm_indexset_finish(&builder, set, NULL) == 0);
}

static void upload(struct subject *s)
{
    struct on_device *d = &s->device;
    const struct fm_dataset *data = &s->data;
    const size_t positions = (size_t)data->positions;
    struct fm_cuda_data *to = &s->lane.data;
    to->channels = data->channels;
    if (s->letters) {
        to->letters = on_device_put(d, data->letters, positions);
    } else {
        to->values = on_device_put(d, data->values, positions * CHANNELS * sizeof(float));
        to->shift = on_device_put(d, s->shift, sizeof s->shift);
        to->factor = on_device_put(d, s->factor, sizeof s->factor);
    }
    to->starts = on_device_put(d, data->starts, (size_t)(data->nrecords + 1) * sizeof *data->starts);
    if (data->lengths)
        to->lengths = on_device_put(d, data->lengths, (size_t)data->nrecords * sizeof *data->lengths);
    to->nrecords = data->nrecords;
    to->head = data->head;
    to->wraps = s->examples.edge == FM_EDGE_WRAP;
    to->anchors = on_device_set(d, &s->examples.anchors);
    to->length = s->view.length;
    to->lead = s->view.lead;
    to->class_bits = s->view.classes.bits;
    to->classes = on_device_put(d, s->view.classes.data, (size_t)fm_packed_bytes(&s->view.classes));
    to->nclasses = CLASSES;
    to->weights_per_record = data->weights_per_record;
    to->weights = on_device_put(
        d, data->weights, (data->weights_per_record ? (size_t)data->nrecords : positions) * sizeof(float));
    s->lane.part[FM_PART_TRAIN] = on_device_set(d, &s->train);
    s->lane.part[FM_PART_VAL] = on_device_set(d, &s->val);
}

static void open_lane(struct subject *s)
{
    struct on_device *d = &s->device;
    const struct fm_cuda_tail tail = {.last_loss = (double)NAN, .last_norm = (double)NAN};
    s->lane.hyper.shuffle = s->shuffle;
    s->lane.hyper.class_weights = on_device_put(d, s->class_weights, sizeof s->class_weights);
    s->lane.shuffle_key = fm_key(5, FM_PURPOSE_SHUFFLE, 0, 1);
    s->lane.batch = BATCH;
    s->lane.pass_steps = (s->train.count + BATCH - 1) / BATCH;
    s->lane.tail = on_device_put(d, &tail, sizeof tail);
    s->out = on_device_put(d, NULL, BATCH * example_size(s) * sizeof(float));
    s->letters_out = on_device_put(d, NULL, BATCH * example_size(s));
    s->example = on_device_put(d, NULL, BATCH * sizeof *s->example);
    s->weight = on_device_put(d, NULL, BATCH * sizeof *s->weight);
    s->place = on_device_lane(d, &s->lane, FM_CUDA_TRAINS, BATCH);
}

static void gather(struct subject *s)
{
    const struct fm_cuda_tensor out = {s->letters ? NULL : s->out, (int)example_size(s)};
    const struct fm_cuda_bytes letters = {s->letters ? s->letters_out : NULL, (int)example_size(s)};
    cr_assert_eq(fm_cuda_gather(s->place, s->length, CHANNELS, out, letters, s->example, s->weight),
                 cudaSuccess);
}

/* The window of a row as floats; what lies behind it is as it was. */
static void read_window(const struct subject *s, int row, float *window)
{
    const size_t size = example_size(s), length = (size_t)s->length;
    if (s->letters) {
        static uint8_t x[LONG + 3];
        on_device_get(x, s->letters_out + (size_t)row * size, size);
        for (size_t i = 0; i < length * ALPHABET; i++) {
            cr_assert(x[i / ALPHABET] < ALPHABET || x[i / ALPHABET] == FM_NO_LETTER);
            window[i] = x[i / ALPHABET] == i % ALPHABET;
        }
        for (size_t i = length; i < size; i++) cr_assert_eq(x[i], 0xFF);
        return;
    }
    static uint32_t bits[MOST];
    on_device_get(bits, s->out + (size_t)row * size, size * sizeof *bits);
    memcpy(window, bits, length * CHANNELS * sizeof *window);
    for (size_t i = length * CHANNELS; i < size; i++) cr_assert_eq(bits[i], UINT32_MAX);
}

/* One row against the host: it must be `example`. */
static void check_row(const struct subject *s, int row, int64_t example, float weight)
{
    static float got[LONG * ALPHABET], want[LONG * ALPHABET];
    int64_t number;
    float its_weight;
    on_device_get(&number, s->example + row, sizeof number);
    on_device_get(&its_weight, s->weight + row, sizeof its_weight);
    cr_assert_eq(number, example, "row %d has example %lld, not %lld", row, (long long)number,
                 (long long)example);
    cr_assert_eq(its_weight, weight, "example %lld weighs %g, not %g", (long long)example, (double)its_weight,
                 (double)weight);
    read_window(s, row, got);
    fm_view_window(&s->view, example, s->shift, s->factor, want);
    const int elements = s->length * (s->letters ? ALPHABET : CHANNELS);
    for (int i = 0; i < elements; i++)
        cr_assert_eq(got[i], want[i], "example %lld, element %d: %g, not %g", (long long)example, i,
                     (double)got[i], (double)want[i]);
}

static void check_step(const struct subject *s, int64_t step)
{
    const int64_t per_pass = s->lane.pass_steps, first = step % per_pass * BATCH,
                  left = s->train.count - first, n = left < BATCH ? left : BATCH;
    struct fm_permutation order;
    fm_permutation_init(&order, (uint64_t)s->train.count, s->lane.shuffle_key, (uint32_t)(step / per_pass));
    const struct fm_cuda_control control = on_device_control(&s->place);
    cr_assert(control.n == n && control.step == step);
    for (int64_t i = 0; i < BATCH; i++) {
        const int64_t at = first + (i < n ? i : n - 1);
        const int64_t example =
            fm_indexset_at(&s->train, s->shuffle ? (int64_t)fm_permutation_at(&order, (uint64_t)at) : at);
        const float weight = fm_example_weight(&s->data, fm_example_anchor(&s->examples, example)) *
                             s->class_weights[fm_packed_get(&s->view.classes, example)];
        check_row(s, (int)i, example, i < n ? weight : 0);
    }
}

static void check_training(struct subject *s)
{
    const int64_t steps = 2 * s->lane.pass_steps + 1;
    const struct fm_cuda_begin begin = {
        .kind = FM_TRAIN, .on_nan = FM_ON_NAN_STOP, .first_step = 1, .steps = steps, .learning_rate = 0.1};
    const struct fm_cuda_update nothing = {.optimizer = FM_OPTIMIZER_SGD};
    cr_assert_eq(fm_cuda_request_begin(s->place, begin), cudaSuccess);
    for (int64_t step = 1; step <= steps; step++) {
        gather(s);
        check_step(s, step);
        cr_assert_eq(fm_cuda_optimize(s->place, nothing), cudaSuccess);
    }
    cr_assert_eq(on_device_control(&s->place).activity, FM_CUDA_IDLE);
}

static void check_evaluation(struct subject *s)
{
    const struct fm_cuda_begin begin = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
    const struct fm_cuda_loss loss = {.score_width = 1};
    float zeros[BATCH] = {0};
    float *losses = on_device_put(&s->device, zeros, sizeof zeros);
    s->place.activity = FM_CUDA_EVALUATES;
    cr_assert_eq(fm_cuda_request_begin(s->place, begin), cudaSuccess);
    for (int64_t first = 0; first < s->val.count; first += BATCH) {
        gather(s);
        const int64_t n = s->val.count - first < BATCH ? s->val.count - first : BATCH;
        cr_assert_eq(on_device_control(&s->place).n, n);
        for (int64_t i = 0; i < BATCH; i++)
            check_row(s, (int)i, fm_indexset_at(&s->val, first + (i < n ? i : n - 1)), i < n);
        cr_assert_eq(fm_cuda_tally(s->place, loss, s->example, losses, losses, NULL, NULL), cudaSuccess);
    }
    cr_assert_eq(on_device_control(&s->place).activity, FM_CUDA_IDLE);
    cr_assert_eq(on_device_control(&s->place).examples, s->val.count);
}

struct way {
    enum fm_edge edge;
    enum fm_align align;
    int64_t stride;
    bool letters, mask, per_record, shuffle, scattered;
};

static void check(const struct way *way, int thread_order)
{
    struct subject s = {.shift = {0.5f, -1.25f, 3},
                        .factor = {2.5f, 0.3f, -1},
                        .class_weights = {0.5f, 1, 3},
                        .length = L,
                        .letters = way->letters,
                        .shuffle = way->shuffle};
    struct fm_error err = {0};
    const int64_t lengths[6] = {17, 3, 40, 6, 25, 1};
    make_series(&s, lengths, way->edge, way->mask, way->per_record);
    const struct fm_data_config config =
        ts_series_config(way->stride, way->align, way->edge, FM_LABEL_ANCHOR);
    const int64_t length = L;
    cr_assert(fm_examples_init(&s.examples, &s.data, &config, &length, 1, NULL, &err) == 0, "%s", err.text);
    cr_assert(fm_view_init(&s.view, &s.data, &s.examples, &config, L, NULL, &err) == 0, "%s", err.text);
    cr_assert(s.examples.count > 10);
    make_set(&s.train, 0, s.examples.count - 3, way->scattered ? 6 : 10);
    make_set(&s.val, 2, s.examples.count, way->scattered ? 7 : 10);
    on_device_open(&s.device, thread_order);
    upload(&s);
    open_lane(&s);
    check_training(&s);
    check_evaluation(&s);
    on_device_close(&s.device);
    fm_indexset_fini(&s.train);
    fm_indexset_fini(&s.val);
    fm_view_fini(&s.view);
    fm_examples_fini(&s.examples);
    ts_series_fini(&s.data);
}

Test(cuda_gather, numbers)
{
    const struct way ways[] = {
        {FM_EDGE_DROP, FM_ALIGN_START, 1, false, false, false, true, false},
        {FM_EDGE_ZERO, FM_ALIGN_CENTER, 1, false, false, true, true, true},
        {FM_EDGE_ZERO, FM_ALIGN_END, 3, false, true, false, false, true},
        {FM_EDGE_WRAP, FM_ALIGN_START, 1, false, true, false, true, false},
        {FM_EDGE_WRAP, FM_ALIGN_END, 2, false, false, true, false, true},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) check(&ways[i], (int)i % 3);
}

Test(cuda_gather, letters)
{
    const struct way ways[] = {
        {FM_EDGE_ZERO, FM_ALIGN_START, 1, true, false, false, true, false},
        {FM_EDGE_WRAP, FM_ALIGN_CENTER, 1, true, true, true, true, true},
        {FM_EDGE_DROP, FM_ALIGN_END, 1, true, true, false, false, false},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) check(&ways[i], (int)i % 3);
}

/* ---- searches of many levels ---- */

/* A long row of letters, one a record or in records of many lengths, and a training set of some form. */
static void check_search(int form, int64_t nrecords)
{
    struct subject s = {.length = L, .letters = true, .shuffle = true, .class_weights = {1, 1, 1}};
    int64_t *lengths = fm_calloc((size_t)nrecords, sizeof *lengths);
    struct fm_error err = {0};
    for (int64_t r = 0; r < nrecords; r++) lengths[r] = L + r * 7 % 23 + (r > nrecords / 2 ? 60 : 0);
    ts_series_init(&s.data, lengths, nrecords, 0);
    ts_series_classes(&s.data, CLASSES, false);
    s.data.alphabet = ALPHABET;
    s.data.letters = fm_calloc((size_t)s.data.positions, 1);
    s.data.weights = fm_calloc((size_t)s.data.positions, sizeof *s.data.weights);
    for (int64_t p = 0; p < s.data.positions; p++) {
        s.data.letters[p] = (uint8_t)(p * 7 % ALPHABET);
        s.data.weights[p] = (float)p;
        fm_packed_set(&s.data.classes, p, (uint32_t)(p % CLASSES));
    }
    const struct fm_data_config config = ts_series_config(1, FM_ALIGN_START, FM_EDGE_DROP, FM_LABEL_ANCHOR);
    const int64_t length = L;
    cr_assert(fm_examples_init(&s.examples, &s.data, &config, &length, 1, NULL, &err) == 0, "%s", err.text);
    cr_assert(fm_view_init(&s.view, &s.data, &s.examples, &config, L, NULL, &err) == 0, "%s", err.text);
    struct fm_indexset_builder builder;
    fm_indexset_builder_init(&builder, 1);
    const int64_t count = s.examples.count;
    for (int64_t i = 0; i < count; i++) /* scattered thinly, densely; or runs of growing length */
        if (form == 0 ? (uint64_t)i * UINT64_C(2654435761) % 97 < (i < count * 3 / 4 ? 2 : 80)
                      : i % (form == 1 ? 900 : 260) < 200)
            fm_indexset_add(&builder, i);
    cr_assert(fm_indexset_finish(&builder, &s.train, NULL) == 0);
    cr_assert_eq(s.train.bits != NULL, form == 0);
    on_device_open(&s.device, form);
    upload(&s);
    open_lane(&s);
    const struct fm_cuda_begin begin = {.kind = FM_TRAIN, .steps = 12};
    const struct fm_cuda_update nothing = {.optimizer = FM_OPTIMIZER_SGD};
    cr_assert_eq(fm_cuda_request_begin(s.place, begin), cudaSuccess);
    for (int64_t step = 0; step < 12; step++) {
        gather(&s);
        check_step(&s, step);
        cr_assert_eq(fm_cuda_optimize(s.place, nothing), cudaSuccess);
    }
    on_device_close(&s.device);
    fm_indexset_fini(&s.train);
    fm_view_fini(&s.view);
    fm_examples_fini(&s.examples);
    ts_series_fini(&s.data);
    fm_free(lengths);
}

Test(cuda_gather, sets_of_many_runs_and_blocks)
{
    check_search(0, 1500);
    check_search(1, 33);
    check_search(2, 6000);
}

/* ---- windows that several blocks copy ---- */

static void check_long(bool letters)
{
    struct subject s = {.length = LONG, .letters = letters, .factor = {1, 2, 3}, .class_weights = {1, 1, 1}};
    const int64_t lengths[6] = {5000, 3, 9001, 6, 12000, 1}, length = LONG;
    struct fm_error err = {0};
    make_series(&s, lengths, FM_EDGE_ZERO, false, false);
    const struct fm_data_config config =
        ts_series_config(1000, FM_ALIGN_CENTER, FM_EDGE_ZERO, FM_LABEL_ANCHOR);
    cr_assert(fm_examples_init(&s.examples, &s.data, &config, &length, 1, NULL, &err) == 0, "%s", err.text);
    cr_assert(fm_view_init(&s.view, &s.data, &s.examples, &config, LONG, NULL, &err) == 0, "%s", err.text);
    make_set(&s.train, 0, s.examples.count, 10);
    make_set(&s.val, 0, 2, 10);
    on_device_open(&s.device, 0);
    upload(&s);
    open_lane(&s);
    const struct fm_cuda_begin begin = {.kind = FM_TRAIN, .steps = s.lane.pass_steps};
    const struct fm_cuda_update nothing = {.optimizer = FM_OPTIMIZER_SGD};
    cr_assert_eq(fm_cuda_request_begin(s.place, begin), cudaSuccess);
    for (int64_t step = 0; step < s.lane.pass_steps; step++) {
        gather(&s);
        check_step(&s, step);
        cr_assert_eq(fm_cuda_optimize(s.place, nothing), cudaSuccess);
    }
    on_device_close(&s.device);
    fm_indexset_fini(&s.train);
    fm_indexset_fini(&s.val);
    fm_view_fini(&s.view);
    fm_examples_fini(&s.examples);
    ts_series_fini(&s.data);
}

Test(cuda_gather, long_windows)
{
    check_long(false);
    check_long(true);
}

/* ---- what must not happen ---- */

enum { EXAMPLE = L * CHANNELS + 5 };

Test(cuda_gather, nothing_when_it_is_not_its_turn)
{
    struct on_device d;
    const struct fm_cuda_lane lane = {.batch = BATCH};
    on_device_open(&d, 0);
    struct fm_cuda_place place = on_device_lane(&d, &lane, FM_CUDA_TRAINS, BATCH);
    float *out = on_device_put(&d, NULL, BATCH * EXAMPLE * sizeof(float));
    int64_t *example = on_device_put(&d, NULL, BATCH * sizeof *example);
    float *weight = on_device_put(&d, NULL, BATCH * sizeof *weight);
    const struct fm_cuda_tensor tensor = {out, EXAMPLE};
    const struct fm_cuda_bytes none = {NULL, 0}, letters = {(uint8_t *)weight, 1};
    cr_assert_eq(fm_cuda_gather(place, L, CHANNELS, tensor, none, example, weight), cudaSuccess);
    cr_assert_eq(fm_cuda_onehot(place, L, 1, letters, tensor), cudaSuccess);
    uint32_t bits[BATCH * EXAMPLE];
    on_device_get(bits, out, sizeof bits);
    for (int i = 0; i < BATCH * EXAMPLE; i++) cr_assert_eq(bits[i], UINT32_MAX);
    on_device_get(bits, weight, BATCH * sizeof *weight);
    for (int i = 0; i < BATCH; i++) cr_assert_eq(bits[i], UINT32_MAX);
    on_device_close(&d);
}

Test(cuda_gather, letters_become_rows)
{
    enum { ROWS = 3, LENGTH = 700, LETTERS = 20, AT = LENGTH * LETTERS + 40 };
    struct on_device d;
    struct fm_cuda_lane lane = {.batch = ROWS};
    lane.control.activity = FM_CUDA_TRAINS;
    static uint8_t x[ROWS * LENGTH];
    static float y[ROWS * AT];
    for (int i = 0; i < ROWS * LENGTH; i++) x[i] = i % 11 == 4 ? FM_NO_LETTER : (uint8_t)(i * 7 % LETTERS);
    on_device_open(&d, 1);
    const struct fm_cuda_place place = on_device_lane(&d, &lane, FM_CUDA_TRAINS, ROWS);
    const struct fm_cuda_bytes letters = {on_device_put(&d, x, sizeof x), LENGTH};
    const struct fm_cuda_tensor out = {on_device_put(&d, NULL, sizeof y), AT};
    cr_assert_eq(fm_cuda_onehot(place, LENGTH, LETTERS, letters, out), cudaSuccess);
    on_device_get(y, out.at, sizeof y);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < AT; i++) {
            const float got = y[r * AT + i];
            if (i >= LENGTH * LETTERS)
                cr_assert(isnan(got));
            else
                cr_assert_eq(got, x[r * LENGTH + i / LETTERS] == i % LETTERS);
        }
    on_device_close(&d);
}
