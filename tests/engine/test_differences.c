/* Finite differences of every operation through whole programs, in double: random networks of random sizes
 * under all losses, with weights, regularisers, norms and dropout. Four-point central differences, h = 1e-4:
 * the formula's own error is h^4, that of rounding 1e-16 / h. And float against double on the same networks.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/inside.h"
#include "support/random_net.h"
#include "support/tolerance.h"

struct subject {
    struct ts_random_net net;
    struct ts_bench bench;
    struct fm_lane *lane;
    unsigned char *blob; /* its state at first, changed and written for each loss */
    double *w;           /* the parameters in the blob */
};

static bool open_subject(struct subject *s, uint64_t seed, enum ts_net_kind kind,
                         const struct fm_backend *backend)
{
    cr_assert(ts_random_net_init(&s->net, seed, kind));
    if (!ts_bench_open(&s->bench, &s->net.examples, s->net.yaml.data, backend, 1)) {
        cr_assert_eq(s->bench.error.code, FM_ESHAPE, "%s\n%s", s->bench.error.text, s->net.yaml.data);
        ts_bench_close(&s->bench);
        ts_random_net_fini(&s->net);
        return false;
    }
    s->bench.config.optimizer.learning_rate = 0;
    s->lane = ts_bench_lane(&s->bench, 0, (int64_t)seed, s->net.weighted ? s->net.class_weights : NULL);
    cr_assert_not_null(s->lane, "%s", s->bench.error.text);
    s->blob = malloc((size_t)backend->state_size(s->lane));
    cr_assert(s->blob && backend->state_read(s->lane, s->blob, &s->bench.error) == 0);
    s->w = (double *)(s->blob + (s->lane->layout.blob - s->lane->layout.state));
    return true;
}

static void close_subject(struct subject *s)
{
    s->bench.backend->lane_close(s->lane);
    ts_bench_close(&s->bench);
    ts_random_net_fini(&s->net);
    free(s->blob);
}

/* Of step 0: the same batch and the same dropout masks each time. */
static double loss(struct subject *s)
{
    struct fm_report report;
    cr_assert(s->bench.backend->state_write(s->lane, s->blob, &s->bench.error) == 0);
    cr_assert(ts_bench_train(&s->bench, s->lane, 0, 1, &report));
    cr_assert_eq(report.bad_steps, 0, "a bad step:\n%s", s->net.yaml.data);
    return report.loss_sum / (double)report.examples;
}

/* Along a direction over all parameters; `rough` gets the distance of two estimates, large where a kink lies
 * near. */
static double difference(struct subject *s, const double *direction, double *rough)
{
    const int64_t count = s->bench.program->float_count;
    const double h = 1e-4, steps[4] = {-2 * h, -h, h, 2 * h};
    double at[4];
    double *start = malloc((size_t)count * sizeof *start);
    memcpy(start, s->w, (size_t)count * sizeof *start);
    for (int i = 0; i < 4; i++) {
        for (int64_t p = 0; p < count; p++) s->w[p] = start[p] + steps[i] * direction[p];
        at[i] = loss(s);
    }
    memcpy(s->w, start, (size_t)count * sizeof *start);
    free(start);
    const double narrow = (at[2] - at[1]) / (2 * h), wide = (at[3] - at[0]) / (4 * h);
    *rough = fabs(narrow - wide);
    return (4 * narrow - wide) / 3;
}

static double *gradient(struct subject *s)
{
    const struct fm_program *p = s->bench.program;
    double *g = calloc((size_t)p->float_count, sizeof *g);
    loss(s);
    for (int v = 0; v < p->nvariables; v++) {
        if (!p->variables[v].trainable) continue;
        size_t count;
        double *values = inside_tensor(s->lane, p->variables[v].gradient, &count);
        memcpy(g + p->variables[v].offset, values, count * sizeof *g);
        free(values);
    }
    return g;
}

/* Checks one direction; false where a kink makes the difference meaningless: the two estimates are then as
 * far from each other as from the gradient, while they agree to nine digits where only the gradient is wrong.
 */
static bool check_direction(struct subject *s, const double *g, const double *direction, const char *what)
{
    double rough, expected = 0;
    const double got = difference(s, direction, &rough);
    for (int64_t p = 0; p < s->bench.program->float_count; p++) expected += g[p] * direction[p];
    const struct ts_worst worst = ts_compare_one(TS_DIFFERENCE, got, expected);
    if (!worst.ok && s->net.kinks && fabs(got - expected) < 100 * rough) return false;
    cr_assert(worst.ok, "%s: %s\n%s", what, worst.text, s->net.yaml.data);
    return true;
}

/* All trainable parameters at once in a random direction, then some one by one. Returns how many were
 * checked. */
static int64_t check_network(struct subject *s, uint64_t seed)
{
    const struct fm_program *p = s->bench.program;
    double *g = gradient(s), *direction = calloc((size_t)p->float_count, sizeof *direction);
    int64_t checked = 0;
    for (int v = 0; v < p->nvariables; v++)
        for (int64_t i = 0; p->variables[v].trainable && i < p->variables[v].count; i++)
            direction[p->variables[v].offset + i] =
                ts_hashed((uint32_t)i, (uint32_t)(seed + 77 * (uint64_t)v), 1, 0);
    checked += check_direction(s, g, direction, "all");
    for (int v = 0; v < p->nvariables; v++) {
        if (!p->variables[v].trainable) continue;
        for (int k = 0; k < 3; k++) {
            const float where = ts_hashed((uint32_t)k, (uint32_t)(seed + (uint64_t)v), 0.5, 0.5);
            const int64_t i = (int64_t)((double)where * (double)p->variables[v].count);
            memset(direction, 0, (size_t)p->float_count * sizeof *direction);
            direction[p->variables[v].offset + i] = 1;
            checked += check_direction(s, g, direction, p->variables[v].name);
        }
    }
    free(g);
    free(direction);
    return checked;
}

static void mark_ops(const struct fm_program *p, bool seen[FM_OP_OPTIMIZER + 1])
{
    for (int i = 0; i < p->nops; i++) seen[p->ops[i].code] = true;
}

static void run_differences(enum ts_net_kind kind, uint64_t first, int networks, int64_t at_least)
{
    bool seen[FM_OP_OPTIMIZER + 1] = {false};
    int64_t checked = 0;
    int ran = 0;
    for (uint64_t seed = first; ran < networks; seed++) {
        struct subject s;
        if (!open_subject(&s, seed, kind, &fm_backend_reference64)) continue;
        checked += check_network(&s, seed);
        mark_ops(s.bench.program, seen);
        close_subject(&s);
        ran++;
    }
    cr_assert(checked >= at_least, "only %d differences were checked", (int)checked);
    for (int code = FM_OP_CONV1D; code <= FM_OP_REGULARIZE && kind != TS_NET_SMOOTH; code++)
        cr_assert(seen[code], "no network had operation %d", code);
}

Test(engine_differences, smooth_networks)
{
    run_differences(TS_NET_SMOOTH, 1000, 120, 1000);
}
Test(engine_differences, networks_with_kinks)
{
    run_differences(TS_NET_KINKS, 5000, 160, 1200);
}

/* The largest gradient of a variable sets the scale of what rounding may do to the others. */
static void check_near_double(const struct fm_backend *backend)
{
    int ran = 0;
    for (uint64_t seed = 9000; ran < 150; seed++) {
        struct subject exact, rounded;
        if (!open_subject(&exact, seed, TS_NET_SMOOTH, &fm_backend_reference64)) continue;
        cr_assert(open_subject(&rounded, seed, TS_NET_SMOOTH, backend));
        struct fm_report a, b;
        cr_assert(ts_bench_train(&exact.bench, exact.lane, 0, 1, &a));
        cr_assert(ts_bench_train(&rounded.bench, rounded.lane, 0, 1, &b));
        const struct ts_worst worst = ts_compare_one(TS_FLOAT_LAYER, b.loss_sum, a.loss_sum);
        cr_assert(worst.ok, "loss: %s\n%s", worst.text, exact.net.yaml.data);
        for (int v = 0; v < exact.bench.program->nvariables; v++) {
            const struct fm_variable *variable = &exact.bench.program->variables[v];
            if (!variable->trainable) continue;
            size_t count;
            double *want = inside_tensor(exact.lane, variable->gradient, &count);
            double *got = inside_tensor(rounded.lane, variable->gradient, &count);
            double scale = a.last_norm;
            for (size_t i = 0; i < count; i++) scale = fmax(scale, fabs(want[i]));
            for (size_t i = 0; i < count; i++)
                cr_assert(fabs(got[i] - want[i]) <= 1e-5 * scale + 1e-7,
                          "seed %d, %s[%zu]: %.9g, %.9g in double\n%s", (int)seed, variable->name, i, got[i],
                          want[i], exact.net.yaml.data);
            free(want);
            free(got);
        }
        close_subject(&exact);
        close_subject(&rounded);
        ran++;
    }
}

Test(engine_differences, float_is_near_double)
{
    check_near_double(&fm_backend_reference);
    check_near_double(&fm_backend_cpu);
}
