/* Losses, their gradients and scores on the device, from outputs in memory and from the fused head, against
 * the formulas in double (semantics.md 2.1, 2.2). */
#include "base/error.h"
#include "config/sweep.h"
#include "cuda/tensors.h"
#include "data/packed.h"

TestSuite(cuda_loss, .timeout = 60);

enum { STORED = 50, MOST = 40 };

static struct on_device device;
static struct draws draws;

enum { Z, LOSSES, DZ, SCORES, X, W, BIAS, PIECES };

/* One batch: examples by number, classes or numbers for each of STORED examples. */
struct batch {
    struct fm_cuda_place place;
    struct fm_cuda_loss loss;
    struct shape s; /* of z and dz */
    struct piece p[PIECES];
    int n;
    bool has_classes, gradient, evaluates;
    int64_t example[MOST];
    float weight[MOST];
    int64_t *example_at;
    float *weight_at;
    struct fm_packed classes;
    float values[STORED * MOST];
    /* the head's */
    int in;
    struct shape xs;
    struct fm_cuda_weights w;
};

static bool is_entropy(const struct fm_cuda_loss *loss)
{
    return loss->kind == FM_LOSS_CATEGORICAL_CROSSENTROPY ||
           loss->kind == FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
}

static double target(const struct batch *b, int64_t example, int k)
{
    const struct fm_cuda_loss *loss = &b->loss;
    const bool binary = loss->kind == FM_LOSS_BINARY_CROSSENTROPY;
    const uint32_t label = b->has_classes ? fm_packed_get(&b->classes, example) : 0;
    const double y = !b->has_classes ? (double)b->values[example * loss->outputs + k]
                     : binary        ? (double)label
                                     : label == (uint32_t)k;
    if (!binary && loss->kind != FM_LOSS_CATEGORICAL_CROSSENTROPY) return y;
    const double smooth = (double)loss->label_smoothing;
    return y * (1 - smooth) + smooth / (binary ? 2 : loss->outputs);
}

/* Loss of one example, gradient of its share, scores of all outputs. */
static double plain(const struct batch *b, int i, const double *z, double *gradient, double *score)
{
    const int n = b->loss.outputs, kind = b->loss.kind;
    const double delta = (double)b->loss.delta, share = b->gradient ? (double)b->weight[i] / b->n : 0;
    double top = z[0], sum = 0, loss = 0;
    for (int k = 1; k < n; k++) top = z[k] > top ? z[k] : top;
    for (int k = 0; k < n; k++) sum += exp(z[k] - top);
    for (int k = 0; k < n; k++) {
        const double y = target(b, b->example[i], k), error = z[k] - y, size = fabs(error);
        double d;
        score[k] = z[k];
        if (is_entropy(&b->loss)) {
            score[k] = exp(z[k] - top) / sum;
            loss -= y * (z[k] - top - log(sum)) * n;
            d = (score[k] - y) * n;
        } else if (kind == FM_LOSS_BINARY_CROSSENTROPY) {
            score[k] = 1 / (1 + exp(-z[k]));
            loss -= y * -log1p(exp(-z[k])) + (1 - y) * -log1p(exp(z[k]));
            d = score[k] - y;
        } else if (kind == FM_LOSS_MSE) {
            loss += error * error;
            d = 2 * error;
        } else if (kind == FM_LOSS_MAE) {
            loss += size;
            d = error > 0 ? 1 : error < 0 ? -1 : 0;
        } else {
            loss += size <= delta ? error * error / 2 : delta * (size - delta / 2);
            d = size <= delta ? error : error > 0 ? delta : -delta;
        }
        gradient[k] = d * share / n;
    }
    return loss / n;
}

static void batch_targets(struct batch *b, struct fm_cuda_data *data)
{
    const bool binary = b->loss.kind == FM_LOSS_BINARY_CROSSENTROPY;
    const int limits[] = {2, 200, 60000, 100000}, outputs = b->loss.outputs;
    const bool probable = binary || is_entropy(&b->loss);
    b->classes = (struct fm_packed){0};
    if (b->has_classes) {
        const int last = binary || outputs == 2 ? 1 : outputs - 1;
        struct fm_error err = {0};
        cr_assert_eq(fm_packed_init(&b->classes, STORED,
                                    limits[last < 2 ? draw(&draws, 0, 3) : draw(&draws, 1, 3)], &err),
                     0);
        for (int e = 0; e < STORED; e++) fm_packed_set(&b->classes, e, (uint32_t)draw(&draws, 0, last));
        data->class_bits = b->classes.bits;
        data->classes = on_device_put(&device, b->classes.data, (size_t)fm_packed_bytes(&b->classes));
        return;
    }
    for (int k = 0; k < STORED * outputs; k++) /* distributions need not sum to 1 */
        b->values[k] = probable ? (float)draw(&draws, 0, 4) / 4 : draw_number(&draws, 0, 3);
    data->targets = on_device_put(&device, b->values, (size_t)(STORED * outputs) * sizeof(float));
    data->target_width = outputs;
}

static void batch_open(struct batch *b, int kind, int outputs, int count, int n, int seed)
{
    struct fm_cuda_lane lane = {0};
    memset(b, 0, sizeof *b);
    draws = draws_from(seed);
    on_device_open(&device, 0);
    b->loss = (struct fm_cuda_loss){.kind = kind, .outputs = outputs, .delta = 1.25f};
    b->loss.score_width = is_entropy(&b->loss) && outputs == 2 ? 1 : outputs;
    b->loss.label_smoothing = draw(&draws, 0, 1) ? 0.1f : 0;
    b->n = n;
    b->evaluates = seed % 3 == 2;
    b->gradient = seed % 3 < 2;
    b->has_classes = kind == FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY || draw(&draws, 0, 1);
    b->s = (struct shape){count, 1, outputs, draw(&draws, 0, 5)};
    for (int i = 0; i < count; i++) {
        b->example[i] = i < n ? draw(&draws, 0, STORED - 1) : b->example[n - 1];
        b->weight[i] = (float)draw(&draws, 1, 1000) / 400;
    }
    batch_targets(b, &lane.data);
    lane.control.activity = b->evaluates ? FM_CUDA_EVALUATES : FM_CUDA_TRAINS;
    lane.control.n = n;
    b->place = on_device_lane(&device, &lane, lane.control.activity, count);
    b->example_at = on_device_put(&device, b->example, (size_t)count * sizeof *b->example);
    b->weight_at = b->gradient ? on_device_put(&device, b->weight, (size_t)count * sizeof *b->weight) : NULL;
    b->p[Z] = tensor_new(&device, &draws, &b->s, 0, 6);
    b->p[LOSSES] = numbers_new(&device, &draws, count, 0, 0);
    b->p[DZ] = tensor_new(&device, &draws, &b->s, 0, 0);
    b->p[SCORES] = numbers_new(&device, &draws, count * b->loss.score_width, 0, 0);
}
static void batch_close(struct batch *b)
{
    pieces_free(b->p, PIECES);
    fm_packed_fini(&b->classes);
    on_device_close(&device);
}

/* z: [count][outputs]. */
static void check_batch(const struct batch *b, const double *z)
{
    const int outputs = b->loss.outputs, width = b->loss.score_width, count = b->s.count;
    double gradient[MOST], score[MOST], *losses = doubles_new(count), *dz = doubles_new(count * outputs),
                                        *scores = doubles_new(count * width);
    for (int i = 0; i < count; i++) {
        const double loss = plain(b, i, z + i * outputs, gradient, score);
        losses[i] = i < b->n ? loss : 0;
        for (int k = 0; k < outputs; k++) dz[i * outputs + k] = i < b->n ? gradient[k] : 0;
        memcpy(scores + i * width, score + outputs - width, (size_t)width * sizeof *score);
    }
    check_numbers(&b->p[LOSSES], losses, TS_FLOAT_LAYER, "loss");
    check_numbers(&b->p[SCORES], scores, TS_FLOAT_LAYER, "scores");
    if (b->gradient) check_tensor(&b->p[DZ], &b->s, dz, TS_FLOAT_LAYER, "loss gradient");
    free(losses), free(dz), free(scores);
}

static cudaError_t call_losses(void *context)
{
    const struct batch *b = context;
    const struct fm_cuda_tensor none = {NULL, 0};
    return fm_cuda_losses(b->place, b->loss, tensor_of(&b->p[Z], &b->s), b->example_at, b->weight_at,
                          b->p[LOSSES].device, b->gradient ? tensor_of(&b->p[DZ], &b->s) : none,
                          b->p[SCORES].device);
}

static const int widths[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 40};
enum { WIDTHS = sizeof widths / sizeof *widths };

Test(cuda_loss, all_losses)
{
    static struct batch b;
    double z[MOST * MOST];
    int seed = 0;
    for (int kind = FM_LOSS_CATEGORICAL_CROSSENTROPY; kind <= FM_LOSS_HUBER; kind++)
        for (int w = 0; w < WIDTHS; w++)
            for (int round = 0; round < 4; round++) {
                const int outputs = widths[w], count = round ? 7 : 1, n = round == 1 ? 7 : round ? 3 : 1;
                batch_open(&b, kind, outputs, count, n, seed++);
                for (int k = 0; k < count * outputs; k++)
                    z[k] = (double)((float *)b.p[Z].host)[shape_at(&b.s, k / outputs, k % outputs)];
                run_call(&b.place, call_losses, &b, b.p + LOSSES, 3);
                check_batch(&b, z);
                batch_close(&b);
            }
}

/* The gradient may overwrite the outputs; huge outputs have finite losses; NaN is seen. */
Test(cuda_loss, in_place_and_special)
{
    static struct batch b;
    const float special[] = {NAN, 300.0f, -300.0f, 1e30f};
    for (int w = 0; w < WIDTHS; w++)
        for (int k = 0; k < 4; k++) {
            batch_open(&b, FM_LOSS_CATEGORICAL_CROSSENTROPY, widths[w], 3, 2, 3 * k);
            float *z = b.p[Z].host;
            z[shape_at(&b.s, 0, widths[w] - 1)] = special[k];
            fm_emulator_poke(b.p[Z].device, z, b.p[Z].bytes);
            free(b.p[DZ].host);
            b.p[DZ] = b.p[Z];
            b.p[Z].host = NULL;
            run_call(&b.place, call_losses, &b, b.p + LOSSES, 3);
            const float *loss = b.p[LOSSES].host, *dz = b.p[DZ].host;
            cr_assert(k ? isfinite(loss[0]) : isnan(loss[0]), "loss %g of outputs %d", (double)loss[0],
                      widths[w]);
            cr_assert(k ? isfinite(dz[0]) : isnan(dz[0]));
            cr_assert(isfinite(loss[1]) && loss[2] == 0);
            for (int o = 0; o < widths[w]; o++)
                cr_assert(isfinite(dz[shape_at(&b.s, 1, o)]) && dz[shape_at(&b.s, 2, o)] == 0);
            batch_close(&b);
        }
}

static cudaError_t call_head(void *context)
{
    const struct batch *b = context;
    const struct fm_cuda_tensor none = {NULL, 0};
    return fm_cuda_head(b->place, b->loss, b->in, tensor_of(&b->p[X], &b->xs), b->w, b->p[BIAS].device,
                        b->example_at, b->weight_at, b->p[Z].device ? tensor_of(&b->p[Z], &b->s) : none,
                        b->p[LOSSES].device, b->gradient ? tensor_of(&b->p[DZ], &b->s) : none,
                        b->p[SCORES].device);
}

/* Small products, so that outputs stay near those that all_losses has. */
static void one_head(int kind, int outputs, int in, int seed)
{
    static struct batch b;
    double z[MOST * MOST];
    const int count = 5;
    batch_open(&b, kind, outputs, count, seed % 2 ? 5 : 2, seed);
    b.in = in;
    b.xs = (struct shape){count, 1, in, seed % 4};
    b.p[X] = tensor_new(&device, &draws, &b.xs, 0, 1);
    b.p[W] = numbers_new(&device, &draws, in * outputs, 0, 0.2f);
    if (seed % 5) b.p[BIAS] = numbers_new(&device, &draws, outputs, 0, 1);
    b.w = seed % 2 ? (struct fm_cuda_weights){b.p[W].device, 0, outputs, 1}
                   : (struct fm_cuda_weights){b.p[W].device, 0, 1, in};
    const bool keep = seed % 3 == 1;
    for (int k = 0; k < shape_floats(&b.s); k++) ((float *)b.p[Z].host)[k] = NAN;
    fm_emulator_poke(b.p[Z].device, b.p[Z].host, b.p[Z].bytes);
    if (!keep) b.p[Z].device = NULL;
    for (int k = 0; k < count * outputs; k++) {
        const int i = k / outputs, o = k % outputs;
        z[k] = seed % 5 ? (double)((float *)b.p[BIAS].host)[o] : 0;
        for (int c = 0; c < in; c++)
            z[k] += (double)((float *)b.p[X].host)[shape_at(&b.xs, i, c)] *
                    (double)((float *)b.p[W].host)[c * b.w.in + o * b.w.out];
    }
    run_call(&b.place, call_head, &b, b.p + (keep ? Z : LOSSES), keep ? 4 : 3);
    if (keep) check_tensor(&b.p[Z], &b.s, z, TS_FLOAT_LAYER, "head's outputs");
    check_batch(&b, z);
    batch_close(&b);
}

Test(cuda_loss, head)
{
    const int ins[] = {1, 3, 20, 37, 100, 201};
    int seed = 0;
    for (int kind = FM_LOSS_CATEGORICAL_CROSSENTROPY; kind <= FM_LOSS_HUBER; kind++)
        for (int w = 0; w < WIDTHS; w++)
            for (int k = 0; k < 2; k++, seed++) {
                const int in = ins[seed % 6];
                if (widths[w] > 16) {
                    cr_assert(!fm_cuda_head_can(in, widths[w]));
                    continue;
                }
                cr_assert(fm_cuda_head_can(in, widths[w]));
                one_head(kind, widths[w], in, seed);
            }
}
