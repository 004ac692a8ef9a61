/* The head of the CPU engine - losses, their gradients, scores - against the formulas in double
 * (semantics.md 2.1, 2.2), for every instruction set this processor has, and bit for bit between those of one
 * class. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "engine/cpu/kernels.h"
#include "support/guarded.h"

TestSuite(cpu_head, .timeout = 60);

enum { EXAMPLES = 67, OUTPUTS = 40 };

static uint64_t state = 1;
static int64_t draw(int64_t low, int64_t high)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((state >> 33) % (uint64_t)(high - low + 1));
}
static float number(void)
{
    return (float)draw(-5000000, 5000000) / 1000000.0f;
}

static bool near(double got, double expected, double relative, double absolute)
{
    if (isnan(got) || isnan(expected)) return isnan(got) && isnan(expected);
    if (isinf(expected)) return got == expected;
    return fabs(got - expected) <= absolute + relative * fabs(expected);
}

static double target(const struct fm_head *h, int64_t e, int64_t k)
{
    const bool binary = h->kind == FM_LOSS_BINARY_CROSSENTROPY;
    const double y = !h->labels ? (double)h->values[e * h->outputs + k]
                     : binary   ? (double)h->labels[e]
                                : h->labels[e] == (uint32_t)k;
    if (!binary && h->kind != FM_LOSS_CATEGORICAL_CROSSENTROPY) return y;
    const double smooth = (double)h->smoothing;
    return y * (1 - smooth) + smooth / (binary ? 2 : (double)h->outputs);
}

/* Loss, gradient (before the share) and scores of one example. */
static double example(const struct fm_head *h, int64_t e, double *gradient, double *score)
{
    const float *z = h->z + e * h->zstride;
    const int64_t n = h->outputs;
    const bool entropy =
        h->kind == FM_LOSS_CATEGORICAL_CROSSENTROPY || h->kind == FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    double top = (double)z[0], sum = 0, loss = 0, delta = (double)h->delta;
    for (int64_t k = 1; k < n; k++) top = z[k] > top ? (double)z[k] : top;
    for (int64_t k = 0; k < n; k++) sum += exp((double)z[k] - top);
    for (int64_t k = 0; k < n; k++) {
        const double x = (double)z[k], y = target(h, e, k), error = x - y, size = fabs(error);
        score[k] = entropy                                  ? exp(x - top) / sum
                   : h->kind == FM_LOSS_BINARY_CROSSENTROPY ? 1 / (1 + exp(-x))
                                                            : x;
        if (entropy) {
            loss -= y * (x - top - log(sum));
            gradient[k] = score[k] - y;
        } else if (h->kind == FM_LOSS_BINARY_CROSSENTROPY) {
            loss += ((x < 0 ? 0 : x) - x * y + log1p(exp(-fabs(x)))) / (double)n;
            gradient[k] = score[k] - y;
        } else if (h->kind == FM_LOSS_MSE) {
            loss += error * error / (double)n;
            gradient[k] = 2 * error;
        } else if (h->kind == FM_LOSS_MAE) {
            loss += size / (double)n;
            gradient[k] = error > 0 ? 1 : error < 0 ? -1 : 0 * error;
        } else {
            loss += (size <= delta ? error * error / 2 : delta * size - delta * delta / 2) / (double)n;
            gradient[k] = error > delta ? delta : error < -delta ? -delta : error;
        }
    }
    return loss;
}

struct results {
    double *loss;
    float *dz, *scores;
};

static void check(const struct fm_kernels *kernels, const struct fm_head *h)
{
    double gradient[OUTPUTS], score[OUTPUTS];
    for (int64_t e = 0; e < h->count; e++) {
        const double loss = example(h, e, gradient, score);
        if (h->loss)
            cr_assert(near(h->loss[e], loss, 2e-6, 2e-6), "%s kind %d outputs %d: loss %.9g, expected %.9g",
                      kernels->name, (int)h->kind, (int)h->outputs, h->loss[e], loss);
        for (int64_t k = 0; h->dz && k < h->outputs; k++) {
            const double got = (double)h->dz[e * h->dzstride + k], share = (double)h->share[e];
            cr_assert(near(got, gradient[k] * share, 1e-6, 1e-6 * share),
                      "%s kind %d outputs %d: gradient %.9g, expected %.9g", kernels->name, (int)h->kind,
                      (int)h->outputs, got, gradient[k] * share);
        }
        for (int64_t k = 0; h->scores && k < h->score_width; k++) {
            const double got = (double)h->scores[e * h->score_width + k];
            const double expected = score[h->outputs - h->score_width + k];
            cr_assert(near(got, expected, 1.2e-6, 1e-37), "%s kind %d outputs %d: score %.9g, expected %.9g",
                      kernels->name, (int)h->kind, (int)h->outputs, got, expected);
        }
    }
}

static void compare(const struct fm_head *h, const struct results *a, const struct results *b)
{
    for (int64_t e = 0; a->loss && e < h->count; e++)
        cr_assert(!memcmp(a->loss + e, b->loss + e, sizeof *a->loss) ||
                  (isnan(a->loss[e]) && isnan(b->loss[e])));
    for (int64_t e = 0; a->dz && e < h->count; e++)
        cr_assert(same_bits(a->dz + e * h->dzstride, b->dz + e * h->dzstride, h->outputs));
    if (a->scores) cr_assert(same_bits(a->scores, b->scores, h->count * h->score_width));
}

static void everywhere(struct fm_head *h, bool loss, bool dz, bool scores)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    struct results made[3];
    const size_t n = (size_t)h->count;
    for (int i = 0; i < count; i++) {
        made[i].loss = guarded_new(n * sizeof(double));
        made[i].dz = guarded_new(n * (size_t)h->dzstride * sizeof(float));
        made[i].scores = guarded_new(n * (size_t)h->score_width * sizeof(float));
        struct results *r = &made[i];
        h->loss = loss ? r->loss : NULL;
        h->dz = dz ? r->dz : NULL;
        h->scores = scores ? r->scores : NULL;
        kernels[i]->head(h);
        cr_assert(guarded_intact(r->loss) && guarded_intact(r->dz) && guarded_intact(r->scores));
        if (dz) cr_assert(guarded_gaps(r->dz, h->count, h->outputs, h->dzstride));
        check(kernels[i], h);
        if (i && !strcmp(kernels[i]->numbers, kernels[0]->numbers))
            compare(h, &(struct results){h->loss, h->dz, h->scores},
                    &(struct results){loss ? made[0].loss : NULL, dz ? made[0].dz : NULL,
                                      scores ? made[0].scores : NULL});
    }
    for (int i = 0; i < count; i++)
        guarded_free(made[i].loss), guarded_free(made[i].dz), guarded_free(made[i].scores);
}

static void one_head(enum fm_loss_kind kind, int64_t outputs, float special)
{
    static float z[EXAMPLES * (OUTPUTS + 3)], values[EXAMPLES * OUTPUTS], share[EXAMPLES];
    static uint32_t labels[EXAMPLES];
    const bool binary = kind == FM_LOSS_BINARY_CROSSENTROPY,
               entropy = kind <= FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    struct fm_head h = {.count = draw(1, EXAMPLES),
                        .outputs = outputs,
                        .kind = kind,
                        .z = z,
                        .share = share,
                        .score_width = entropy && outputs == 2 ? 1 : outputs,
                        .delta = 1.5f,
                        .zstride = outputs + draw(0, 3),
                        .dzstride = outputs + draw(0, 3)};
    h.smoothing = draw(0, 1) ? 0.1f : 0;
    if (draw(0, 1))
        h.labels = labels;
    else
        h.values = values;
    for (int e = 0; e < EXAMPLES; e++) {
        labels[e] = (uint32_t)draw(0, binary ? 1 : outputs - 1);
        share[e] = (float)draw(1, 1000) / 500;
    }
    for (int i = 0; i < EXAMPLES * OUTPUTS; i++) values[i] = entropy || binary ? (float)draw(0, 1) : number();
    for (int i = 0; i < EXAMPLES * (OUTPUTS + 3); i++) z[i] = number();
    if (special != 0) z[draw(0, h.count * h.zstride - 1)] = special;
    const bool loss = draw(0, 3), dz = draw(0, 3), scores = draw(0, 1);
    everywhere(&h, loss, dz, scores);
}

Test(cpu_head, all_losses_against_double)
{
    const int64_t outputs[] = {1, 2, 3, 4, 5, 7, 15, 16, 17, 31, 32, 40};
    for (int round = 0; round < 12; round++)
        for (int kind = FM_LOSS_CATEGORICAL_CROSSENTROPY; kind <= FM_LOSS_HUBER; kind++)
            for (int i = 0; i < 12; i++) one_head((enum fm_loss_kind)kind, outputs[i], 0);
}

Test(cpu_head, special_values)
{
    const float special[] = {NAN, INFINITY, -INFINITY, 300.0f, -300.0f, 1e30f, -1e30f, 1e-42f};
    for (int s = 0; s < 8; s++)
        for (int kind = FM_LOSS_CATEGORICAL_CROSSENTROPY; kind <= FM_LOSS_HUBER; kind++) {
            if (kind == FM_LOSS_MSE && fabsf(special[s]) > 1e20f)
                continue; /* overflows in float, as it must */
            for (int64_t outputs = 1; outputs < 20; outputs += 3)
                one_head((enum fm_loss_kind)kind, outputs, special[s]);
            one_head((enum fm_loss_kind)kind, 2, special[s]);
        }
}

/* An example's numbers do not depend on its place in the batch or on the size of that. */
Test(cpu_head, slices_change_nothing)
{
    const struct fm_kernels *kernels[3];
    const int count = fm_kernels_available(kernels);
    for (int i = 0; i < count; i++)
        for (int64_t k = 2; k < 20; k += 5) {
            float z[EXAMPLES * 20], share[EXAMPLES], dz[EXAMPLES * 20], part[EXAMPLES * 20];
            uint32_t labels[EXAMPLES];
            double loss[EXAMPLES], loss_part[EXAMPLES];
            for (int e = 0; e < EXAMPLES * 20; e++) z[e] = number();
            for (int e = 0; e < EXAMPLES; e++) labels[e] = (uint32_t)draw(0, k - 1), share[e] = 0.1f;
            struct fm_head h = {.count = EXAMPLES,
                                .outputs = k,
                                .kind = FM_LOSS_CATEGORICAL_CROSSENTROPY,
                                .z = z,
                                .labels = labels,
                                .share = share,
                                .loss = loss,
                                .dz = dz,
                                .zstride = k,
                                .dzstride = k};
            kernels[i]->head(&h);
            for (int64_t e = 0, n; e < EXAMPLES; e += n) {
                n = e % 9 + 1 < EXAMPLES - e ? e % 9 + 1 : EXAMPLES - e;
                h.count = n, h.z = z + e * k, h.labels = labels + e, h.share = share + e;
                h.loss = loss_part + e, h.dz = part + e * k;
                kernels[i]->head(&h);
            }
            cr_assert(same_bits(dz, part, EXAMPLES * k) && !memcmp(loss, loss_part, sizeof loss));
        }
}
