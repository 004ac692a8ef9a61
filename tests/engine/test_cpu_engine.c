/* The CPU engine as a whole on random programs: near the reference executor, the same bits with AVX2 and
 * AVX-512, with any slices, cuts and guards, nothing written outside its tensors, and the reference's
 * decisions about bad steps. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/backend_checks.h"
#include "support/allocation.h"
#include "support/inside.h"
#include "support/random_net.h"
#include "support/tolerance.h"

enum { STEPS = 4 };

/* How a network is run. */
struct manner {
    const struct fm_backend *backend;
    const char *isa; /* NULL: the best */
    struct fm_device_options options;
    bool resumed;                               /* after half of the steps a new lane goes on from a blob */
    bool (*guards_whole)(struct fm_lane *lane); /* of a backend that nobody can look into, or NULL */
};

/* Whether a test can look into the lanes of this backend. */
static bool can_look(const struct fm_backend *backend)
{
    for (size_t i = 0; i < sizeof inside_backends / sizeof *inside_backends; i++)
        if (backend == inside_backends[i]) return true;
    return false;
}

/* What came out of it, by kind; each kind has its tolerance. */
enum part { FIRST, GRADIENT, LOSSES, PARAMETERS, SCORES, PARTS };

struct outcome {
    int64_t steps;       /* done */
    double norm;         /* of the first step */
    double *part[PARTS]; /* loss and norm of the first step; its gradient, unless clipped; what follows:
                            losses of steps and evaluation; all parameters and scores at the end */
    int64_t count[PARTS];
    unsigned char *blob; /* at the end */
    size_t size;
    int64_t classes, *confusion;
    bool blew_up; /* a step was not finite */
};

static void free_outcome(struct outcome *o)
{
    for (int k = 0; k < PARTS; k++) free(o->part[k]);
    free(o->blob);
    free(o->confusion);
}

static void make_room(struct outcome *o, enum part part, int64_t count)
{
    o->count[part] = count;
    o->part[part] = calloc((size_t)count + 1, sizeof(double));
    cr_assert_not_null(o->part[part]);
}

/* The reference clips its gradients where they lie, so that they cannot be compared then. */
static void keep_gradient(const struct ts_bench *bench, const struct fm_lane *lane, struct outcome *o)
{
    const struct fm_program *p = bench->program;
    const bool clipped = bench->config.optimizer.clip != FM_CLIP_NONE;
    if (!can_look(bench->backend)) return;
    make_room(o, GRADIENT, clipped ? 0 : p->float_count);
    for (int v = 0; v < p->nvariables && !clipped; v++) {
        if (!p->variables[v].trainable) continue;
        size_t count;
        double *values = inside_tensor(lane, p->variables[v].gradient, &count);
        memcpy(o->part[GRADIENT] + p->variables[v].offset, values, count * sizeof *values);
        free(values);
    }
}

static void check_guards(const struct manner *m, struct fm_lane *lane, const struct ts_random_net *net,
                         const char *when)
{
    const bool whole = m->backend == &fm_backend_cpu ? fm_cpu_guards_whole(lane)
                       : m->guards_whole             ? m->guards_whole(lane)
                                                     : true;
    cr_assert(whole, "something was written outside its tensor in %s:\n%s", when, net->yaml.data);
}

static void evaluate(struct ts_bench *bench, struct fm_lane *lane, struct outcome *o)
{
    const struct fm_program *p = bench->program;
    const int64_t count = bench->folds[0].val.count * p->score_width;
    o->classes = bench->data.nclasses ? bench->data.nclasses : bench->data.distribution ? p->loss.outputs : 0;
    float *scores = calloc((size_t)count, sizeof *scores);
    o->confusion = calloc((size_t)(o->classes * o->classes + 1), sizeof *o->confusion);
    const struct fm_request request = {.kind = FM_EVALUATE,
                                       .part = FM_PART_VAL,
                                       .returns = FM_RETURN_SCORES | (o->classes ? FM_RETURN_CONFUSION : 0),
                                       .scores = scores,
                                       .confusion = o->confusion};
    struct fm_report report;
    cr_assert(ts_bench_do(bench, lane, &request, &report) && report.status == 0, "%s", report.error.text);
    o->part[LOSSES][STEPS] = report.loss;
    o->part[LOSSES][STEPS + 1] = report.square_sum;
    o->part[LOSSES][STEPS + 2] = report.absolute_sum;
    make_room(o, SCORES, count);
    for (int64_t i = 0; i < count; i++) o->part[SCORES][i] = (double)scores[i];
    free(scores);
}

static void read_blob(struct ts_bench *bench, struct fm_lane *lane, struct outcome *o)
{
    o->size = (size_t)bench->backend->state_size(lane);
    free(o->blob);
    o->blob = malloc(o->size);
    cr_assert(o->blob && bench->backend->state_read(lane, o->blob, &bench->error) == 0);
}

static void keep_parameters(const struct ts_bench *bench, struct outcome *o)
{
    make_room(o, PARAMETERS, bench->program->float_count);
    for (int64_t i = 0; i < o->count[PARAMETERS]; i++) {
        float value;
        memcpy(&value, o->blob + (size_t)i * sizeof value, sizeof value);
        o->part[PARAMETERS][i] = (double)value;
    }
}

static struct fm_lane *open_lane(struct ts_bench *bench, const struct ts_random_net *net)
{
    struct fm_lane *lane = ts_bench_lane(bench, 0, 7, net->weighted ? net->class_weights : NULL);
    cr_assert_not_null(lane, "%s\n%s", bench->error.text, net->yaml.data);
    return lane;
}

/* False when the network does not compile, or would take too long. */
static bool open_bench(struct ts_bench *bench, const struct ts_random_net *net, const struct manner *m)
{
    if (m->isa) setenv("FOLDMILL_ISA", m->isa, 1);
    const bool opened = ts_bench_open_with(bench, &net->examples, net->yaml.data, m->backend, &m->options);
    unsetenv("FOLDMILL_ISA");
    if (!opened) cr_assert_eq(bench->error.code, FM_ESHAPE, "%s\n%s", bench->error.text, net->yaml.data);
    const double most = can_look(m->backend) ? 8e6 : 1e6; /* emulated ones are slow */
    if (opened && fm_program_flops(bench->program, true) * (double)bench->config.batch_size < most)
        return true;
    ts_bench_close(bench);
    return false;
}

static struct fm_lane *resume(struct ts_bench *bench, struct fm_lane *lane, const struct ts_random_net *net,
                              struct outcome *o)
{
    read_blob(bench, lane, o);
    bench->backend->lane_close(lane);
    lane = open_lane(bench, net);
    cr_assert(bench->backend->state_write(lane, o->blob, &bench->error) == 0);
    return lane;
}

/* False when there is no such network, or when its training blows up, which is not this test's business. */
static bool run(const struct ts_random_net *net, const struct manner *m, struct outcome *o)
{
    struct ts_bench bench;
    memset(o, 0, sizeof *o);
    if (!open_bench(&bench, net, m)) return false;
    struct fm_lane *lane = open_lane(&bench, net);
    make_room(o, FIRST, 2);
    make_room(o, LOSSES, STEPS + 3);
    for (o->steps = 0; o->steps < STEPS; o->steps++) {
        struct fm_report report;
        if (m->resumed && o->steps == STEPS / 2) lane = resume(&bench, lane, net, o);
        cr_assert(ts_bench_train(&bench, lane, o->steps, 1, &report), "%s", net->yaml.data);
        if (report.bad_steps > 0) break;
        o->part[LOSSES][o->steps] = report.loss_sum / (double)report.examples;
        check_guards(m, lane, net, "a step");
        if (o->steps > 0) continue;
        o->part[FIRST][0] = o->part[LOSSES][0];
        o->part[FIRST][1] = o->norm = report.last_norm;
        keep_gradient(&bench, lane, o);
    }
    if (o->steps == STEPS) evaluate(&bench, lane, o);
    check_guards(m, lane, net, "an evaluation");
    read_blob(&bench, lane, o);
    keep_parameters(&bench, o);
    m->backend->lane_close(lane);
    ts_bench_close(&bench);
    o->blew_up = o->steps < STEPS;
    if (o->blew_up) free_outcome(o);
    return !o->blew_up;
}

/* ---- near the reference ---- */

static double *scaled(const struct outcome *o, enum part part, double scale)
{
    double *out = malloc((size_t)(o->count[part] + 1) * sizeof *out);
    for (int64_t i = 0; i < o->count[part]; i++) out[i] = o->part[part][i] * scale;
    return out;
}

static double farthest(const struct outcome *a, const struct outcome *b, enum part part)
{
    double most = 0;
    for (int64_t i = 0; i < a->count[part]; i++) most = fmax(most, fabs(a->part[part][i] - b->part[part][i]));
    return most;
}

/* Gradients over their norm, which may itself be all but zero: what cancels in one is as large as the others
 * are. */
static struct ts_worst compare_part(const struct outcome *got, const struct outcome *want, enum part part)
{
    static const enum ts_tolerance tolerance[PARTS] = {TS_ENGINE_GRADIENT, TS_ENGINE_GRADIENT,
                                                       TS_ENGINE_STEPS, TS_ENGINE_STEPS, TS_ENGINE_STEPS};
    const double scale = part == GRADIENT ? 1 / fmax(want->norm, 0.01) : 1;
    double *g = scaled(got, part, scale), *w = scaled(want, part, scale);
    const struct ts_worst worst = ts_compare(tolerance[part], g, w, (size_t)want->count[part]);
    free(g);
    free(w);
    return worst;
}

/* Some networks make much of rounding (a normalisation of all but equal numbers, a relu at its kink): where
 * the tolerance does not do, the engine may be as far from the same loops in double as those in float are. */
static void compare(const struct outcome *got, const struct outcome *want, const char *isa, uint64_t seed,
                    const struct ts_random_net *net)
{
    static const char *const names[PARTS] = {"first loss and norm", "gradient over the norm", "losses",
                                             "parameters", "scores"};
    const struct manner m = {.backend = &fm_backend_reference64, .options.lanes = 1};
    struct outcome exact;
    bool there = false;
    for (enum part part = FIRST; part < PARTS; part++) {
        if (part == GRADIENT && !got->part[part]) continue; /* of a backend that nobody can look into */
        cr_assert_eq(got->count[part], want->count[part]);
        const struct ts_worst worst = compare_part(got, want, part);
        if (worst.ok) continue;
        if (!there) there = run(net, &m, &exact);
        cr_assert(there && farthest(got, &exact, part) <= 8 * farthest(want, &exact, part),
                  "seed %d, %s, %s: %s\n%s", (int)seed, isa, names[part], worst.text, net->yaml.data);
    }
    if (there) free_outcome(&exact);
    /* An example may change sides only where two scores are all but equal. */
    int64_t moved = 0;
    for (int64_t i = 0; i < want->classes * want->classes; i++)
        moved += llabs(got->confusion[i] - want->confusion[i]);
    cr_assert(moved <= 2, "seed %d, %s: %d differences in the confusion\n%s", (int)seed, isa, (int)moved,
              net->yaml.data);
}

static void compare_bits(const struct outcome *got, const struct outcome *want, const char *what,
                         uint64_t seed, const struct ts_random_net *net)
{
    for (enum part part = FIRST; part < PARTS; part++)
        cr_assert(got->count[part] == want->count[part] &&
                      memcmp(got->part[part], want->part[part], (size_t)want->count[part] * sizeof(double)) ==
                          0,
                  "seed %d: part %d has other bits %s\n%s", (int)seed, (int)part, what, net->yaml.data);
    cr_assert(got->size == want->size && memcmp(got->blob, want->blob, want->size) == 0,
              "seed %d: the state has other bits %s\n%s", (int)seed, what, net->yaml.data);
    cr_assert(memcmp(got->confusion, want->confusion,
                     (size_t)(want->classes * want->classes) * sizeof *want->confusion) == 0,
              "seed %d: the confusion differs %s\n%s", (int)seed, what, net->yaml.data);
}

/* One network in all manners; false when it is none. */
static bool check_network(uint64_t seed)
{
    struct ts_random_net net;
    cr_assert(ts_random_net_init(&net, seed, TS_NET_ANY));
    const struct fm_kernels *isa[3];
    const int nisa = fm_kernels_available(isa);
    struct outcome want, best, other;
    const struct manner reference = {.backend = &fm_backend_reference, .options.lanes = 1};
    const bool ran = run(&net, &reference, &want);
    for (int i = 0; ran && i < nisa; i++) {
        const struct manner m = {
            .backend = &fm_backend_cpu, .isa = isa[i]->name, .options = {.lanes = 1, .guard = 64 + 64 * i}};
        struct outcome *o = i ? &other : &best;
        cr_assert(run(&net, &m, o));
        if (i && !strcmp(isa[i]->numbers, isa[0]->numbers))
            compare_bits(o, &best, isa[i]->name, seed, &net);
        else
            compare(o, &want, isa[i]->name, seed, &net);
        if (i) free_outcome(o);
    }
    /* Slices of a few examples, of one, no guard, another lane for the second half. */
    const struct manner cut = {.backend = &fm_backend_cpu,
                               .options = {.lanes = 1, .slice = seed % 3 ? 6000 << seed % 4 : 1},
                               .resumed = true};
    if (ran) {
        cr_assert(run(&net, &cut, &other));
        compare_bits(&other, &best, "in small slices", seed, &net);
        free_outcome(&want);
        free_outcome(&best);
        free_outcome(&other);
    }
    ts_random_net_fini(&net);
    return ran;
}

/* Another backend beside the reference, and its own bits when it goes on from a blob. */
static bool check_elsewhere(const struct manner *there, uint64_t seed)
{
    struct ts_random_net net;
    cr_assert(ts_random_net_init(&net, seed, TS_NET_ANY));
    struct outcome want, got, other;
    const struct manner reference = {.backend = &fm_backend_reference, .options = {.lanes = 1}};
    struct manner again = *there;
    again.options.guard = 0;
    again.resumed = true;
    const bool ran = run(&net, there, &got);
    if (got.blew_up)
        cr_assert(!run(&net, &reference, &want), "seed %d: only %s's training is not finite\n%s", (int)seed,
                  there->backend->name, net.yaml.data);
    if (ran) {
        cr_assert(run(&net, &reference, &want));
        compare(&got, &want, there->backend->name, seed, &net);
        cr_assert(run(&net, &again, &other));
        for (enum part part = FIRST; part < PARTS; part++)
            if (got.part[part])
                cr_assert(
                    memcmp(got.part[part], other.part[part], (size_t)got.count[part] * sizeof(double)) == 0,
                    "seed %d: part %d has other bits when resumed\n%s", (int)seed, (int)part, net.yaml.data);
        cr_assert(got.size == other.size && memcmp(got.blob, other.blob, got.size) == 0);
        free_outcome(&want);
        free_outcome(&got);
        free_outcome(&other);
    }
    ts_random_net_fini(&net);
    return ran;
}

void ts_check_random_networks(const struct fm_backend *backend, const struct fm_device_options *options,
                              bool (*guards_whole)(struct fm_lane *lane), uint64_t first, int count)
{
    const struct manner m = {.backend = backend, .options = *options, .guards_whole = guards_whole};
    for (uint64_t seed = first; count > 0; seed++) count -= check_elsewhere(&m, seed);
}

static void run_networks(uint64_t first, int count)
{
    for (uint64_t seed = first; count > 0; seed++) count -= check_network(seed);
}

/* In parts, so that Criterion runs them side by side. */
Test(engine_cpu, random_networks_1)
{
    run_networks(20000, 75);
}
Test(engine_cpu, random_networks_2)
{
    run_networks(30000, 75);
}
Test(engine_cpu, random_networks_3)
{
    run_networks(40000, 75);
}
Test(engine_cpu, random_networks_4)
{
    run_networks(50000, 75);
}

/* The check above is worth something: a byte written behind any buffer shows. */
Test(engine_cpu, guards_show_what_is_written_over)
{
    struct ts_random_net net;
    struct ts_bench bench;
    const struct manner m = {.backend = &fm_backend_cpu, .options = {.lanes = 1, .guard = 64}};
    uint64_t seed = 20000;
    for (;; seed++) {
        cr_assert(ts_random_net_init(&net, seed, TS_NET_ANY));
        if (open_bench(&bench, &net, &m)) break;
        ts_random_net_fini(&net);
    }
    struct fm_lane *lane = open_lane(&bench, &net);
    const struct fm_cpu_lane *cpu = lane->engine;
    cr_assert(cpu->plan.nrooms > 3 && fm_cpu_guards_whole(lane));
    for (int i = 0; i < cpu->plan.nrooms; i++)
        for (int after = 0; after < 2; after++) {
            const struct fm_cpu_room *room = &cpu->plan.rooms[i];
            unsigned char *byte = cpu->arena + room->offset + (after ? room->bytes : -1);
            *byte ^= 1;
            cr_assert(!fm_cpu_guards_whole(lane), "room %d", i);
            *byte ^= 1;
        }
    cr_assert(fm_cpu_guards_whole(lane));
    bench.backend->lane_close(lane);
    ts_bench_close(&bench);
    ts_random_net_fini(&net);
}

/* ---- bad steps ---- */

/* Weights so large that something overflows sooner or later, or one number of the training set that is none.
 */
static void spoil(struct ts_bench *bench, struct fm_lane *lane, uint64_t seed)
{
    static const float factors[] = {1e6f, 1e12f, 1e20f, 1e30f};
    float *p = calloc((size_t)bench->program->float_count, sizeof *p);
    cr_assert(p && ts_bench_parameters(bench, lane, p));
    for (int64_t i = 0; i < bench->program->float_count; i++) p[i] *= factors[seed / 8 % 4];
    cr_assert(bench->backend->parameters_write(lane, p, &bench->error) == 0);
    free(p);
}

static void poison(struct ts_random_net *net, uint64_t seed)
{
    static const float none[] = {NAN, INFINITY, -INFINITY, 3e38f};
    const struct ts_examples *e = &net->examples;
    if (!e->x) return;
    const uint64_t size = (uint64_t)(e->rows * e->channels);
    net->x[seed % (uint64_t)e->train * size + seed % size] = none[seed / 8 % 4];
}

/* Whether something finite becomes too large, rather than that something is no number from the start. */
static bool overflows(uint64_t seed)
{
    return seed / 4 % 2 || seed / 8 % 4 == 3;
}

/* A relu that is fused between a convolution and its pool gives a unit that it made zero no gradient at all,
 * be it infinite; elsewhere infinity times zero is NaN. */
static bool has_fused_relu(const struct fm_lane *lane)
{
    const struct fm_cpu_plan *plan = &((const struct fm_cpu_lane *)lane->engine)->plan;
    for (int i = 0; i < plan->ntasks; i++)
        if (plan->tasks[i].run == fm_cpu_conv_pool && plan->tasks[i].act &&
            plan->tasks[i].act->activation.kind == FM_ACT_RELU)
            return true;
    return false;
}

struct bad_run {
    struct fm_report trained, evaluated;
    bool fused_relu;
};

/* Trains under one of the four policies; false when the network does not compile. */
static bool run_badly(const struct ts_random_net *net, const struct manner *m, uint64_t seed,
                      struct bad_run *run)
{
    struct ts_bench bench;
    if (!open_bench(&bench, net, m)) return false;
    bench.config.on_nan = (enum fm_on_nan)(seed % 4);
    struct fm_lane *lane = open_lane(&bench, net);
    if (seed / 4 % 2) spoil(&bench, lane, seed);
    cr_assert(ts_bench_train(&bench, lane, 0, 3, &run->trained));
    const struct fm_request request = {.kind = FM_EVALUATE, .part = FM_PART_VAL};
    cr_assert(ts_bench_do(&bench, lane, &request, &run->evaluated) && run->evaluated.status == 0);
    run->fused_relu = m->backend == &fm_backend_cpu && has_fused_relu(lane);
    check_guards(m, lane, net, "bad steps");
    m->backend->lane_close(lane);
    ts_bench_close(&bench);
    return true;
}

static void compare_decisions(const struct bad_run *got, const struct bad_run *want, const char *isa,
                              uint64_t seed, const struct ts_random_net *net)
{
    const struct fm_report *g = &got->trained, *w = &want->trained;
    /* Where weights are huge, a fused multiply-add stays finite where a product of its own overflows, and
     * sums of squares of a normalisation overflow in float. */
    if (overflows(seed) && strstr(net->yaml.data, "normalization")) return;
    const bool fewer = got->fused_relu || (overflows(seed) && strcmp(isa, fm_kernels_portable.name) != 0);
    if (fewer && (g->bad_steps < w->bad_steps || isfinite(got->evaluated.loss))) return;
    cr_assert(g->steps == w->steps && g->bad_steps == w->bad_steps &&
                  g->first_bad_step == w->first_bad_step && g->frozen == w->frozen &&
                  g->examples == w->examples && g->loss_examples == w->loss_examples,
              "seed %d, %s: %d bad steps of %d, first %d; the reference has %d of %d, first %d\n%s",
              (int)seed, isa, (int)g->bad_steps, (int)g->steps, (int)g->first_bad_step, (int)w->bad_steps,
              (int)w->steps, (int)w->first_bad_step, net->yaml.data);
    cr_assert(got->evaluated.frozen == want->evaluated.frozen &&
                  isfinite(got->evaluated.loss) == isfinite(want->evaluated.loss),
              "seed %d, %s: loss of the evaluation %g, %g in the reference\n%s", (int)seed, isa,
              got->evaluated.loss, want->evaluated.loss, net->yaml.data);
}

/* Counts the bad steps in *bad. */
static bool check_bad_steps(uint64_t seed, int64_t *bad)
{
    struct ts_random_net net;
    cr_assert(ts_random_net_init(&net, seed, TS_NET_ANY));
    if (seed / 4 % 2 == 0) poison(&net, seed);
    const struct fm_kernels *isa[3];
    const int nisa = fm_kernels_available(isa);
    struct bad_run want, got;
    const struct manner reference = {.backend = &fm_backend_reference, .options.lanes = 1};
    const bool ran = run_badly(&net, &reference, seed, &want);
    for (int i = 0; ran && i < nisa; i++) {
        const struct manner m = {.backend = &fm_backend_cpu,
                                 .isa = isa[i]->name,
                                 .options = {.lanes = 1, .guard = 64, .slice = i ? 5000 : 0}};
        cr_assert(run_badly(&net, &m, seed, &got));
        compare_decisions(&got, &want, isa[i]->name, seed, &net);
    }
    if (ran) *bad += want.trained.bad_steps;
    ts_random_net_fini(&net);
    return ran;
}

Test(engine_cpu, bad_steps_are_those_of_the_reference)
{
    int64_t bad = 0;
    int ran = 0, first = 60000, count = 150;
    for (uint64_t seed = first; ran < count; seed++) ran += check_bad_steps(seed, &bad);
    cr_assert(bad > 30 && bad < 400, "%d bad steps are no test", (int)bad);
}

/* ---- memory and locks ---- */

struct count {
    long allocations, locks;
};

static struct count count_of(struct ts_bench *bench, struct fm_lane *lane, const struct fm_request *request)
{
    struct fm_report report;
    const long locks = ts_locks();
    ts_fail_allocation(0, false);
    cr_assert(bench->backend->submit(lane, request, &bench->error) == 0);
    cr_assert_eq(bench->backend->wait(bench->device, 60000, &report, &bench->error), 1);
    return (struct count){ts_allocations(), ts_locks() - locks};
}

/* However long a request is, its work is allocated by submit, and locks are taken at its ends only. */
Test(engine_cpu, steps_neither_allocate_nor_lock)
{
    for (uint64_t seed = 70000, ran = 0; ran < 20; seed++) {
        struct ts_random_net net;
        struct ts_bench bench;
        cr_assert(ts_random_net_init(&net, seed, TS_NET_ANY));
        const struct manner m = {.backend = &fm_backend_cpu, .options.lanes = 1};
        if (open_bench(&bench, &net, &m)) {
            struct fm_lane *lane = open_lane(&bench, &net);
            struct fm_request request = {.kind = FM_TRAIN, .steps = 1, .learning_rate = 1e-3};
            const struct count one = count_of(&bench, lane, &request);
            request.first_step = 1;
            request.steps = 40; /* each of them would be seen in the counts */
            const struct count many = count_of(&bench, lane, &request);
            cr_assert(one.allocations == 1 && many.allocations == 1, "%ld, then %ld allocations",
                      one.allocations, many.allocations);
            cr_assert(many.locks > 0 && many.locks < 10, "%ld locks for 40 steps", many.locks);
            request = (struct fm_request){.kind = FM_EVALUATE, .part = FM_PART_VAL};
            const struct count evaluation = count_of(&bench, lane, &request);
            cr_assert(evaluation.allocations == 1 && evaluation.locks < 10,
                      "an evaluation: %ld allocations, %ld locks", evaluation.allocations, evaluation.locks);
            bench.backend->lane_close(lane);
            ts_bench_close(&bench);
            ran++;
        }
        ts_random_net_fini(&net);
    }
}
