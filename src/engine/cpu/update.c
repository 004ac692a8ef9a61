/* The second half of a step: regularisers, norm, clip, optimizer (engine/reference/optimizer.inc has the
 * plain version, semantics.md 3 the rules). */
#include "engine/cpu/cpu.h"

#include <math.h>

static const struct fm_variable *variable_at(const struct fm_cpu_lane *lane, int v)
{
    return &lane->plan.program->variables[v];
}

static float *gradient_of(const struct fm_cpu_lane *lane, int v)
{
    return lane->gradients + lane->plan.variables[v].offset;
}

double fm_cpu_penalty(const struct fm_cpu_lane *lane)
{
    const struct fm_program *p = lane->plan.program;
    double sum = 0;
    for (int i = p->section_first[FM_SECTION_UPDATE]; i < p->section_first[FM_SECTION_UPDATE + 1]; i++) {
        const struct fm_op *op = &p->ops[i];
        if (op->code != FM_OP_REGULARIZE) continue;
        const struct fm_tensor *t = &p->tensors[op->in[0]];
        double absolute = 0, square = 0;
        lane->k->magnitudes(t->rows * t->channels, fm_cpu_whole(lane, op->in[0]), &absolute, &square);
        sum += op->regularize.l1 * absolute + op->regularize.l2 * square;
    }
    return sum;
}

void fm_cpu_regularize(struct fm_cpu_lane *lane)
{
    const struct fm_program *p = lane->plan.program;
    for (int i = p->section_first[FM_SECTION_UPDATE]; i < p->section_first[FM_SECTION_UPDATE + 1]; i++) {
        const struct fm_op *op = &p->ops[i];
        if (op->code != FM_OP_REGULARIZE) continue;
        const struct fm_tensor *t = &p->tensors[op->in[0]];
        lane->k->regularize(t->rows * t->channels, fm_cpu_whole(lane, op->in[0]), (float)op->regularize.l1,
                            (float)op->regularize.l2, fm_cpu_whole(lane, op->out[0]));
    }
}

float fm_cpu_square(const struct fm_cpu_lane *lane)
{
    double sum = 0;
    for (int v = 0; v < lane->plan.program->nvariables; v++)
        if (variable_at(lane, v)->trainable)
            sum += (double)lane->k->square_sum(variable_at(lane, v)->count, gradient_of(lane, v));
    return (float)sum;
}

/* What Keras multiplies the gradients by: after an infinite norm finite ones are 0. */
static float clip_scale(const struct fm_cpu_lane *lane, float square)
{
    const float limit = (float)lane->host->options.hyper.clip_value, norm = sqrtf(square);
    return norm < limit ? 1 : limit / norm;
}

/* base^n by squaring: the same bits on every machine, unlike the C library's pow. */
static double power(double base, int64_t n)
{
    double result = 1;
    for (; n > 0; n /= 2, base *= base)
        if (n % 2) result *= base;
    return result;
}

static void fill(struct fm_update *u, const struct fm_cpu_lane *lane, double rate)
{
    const struct fm_program *p = lane->plan.program;
    const struct fm_hyper *h = &lane->host->options.hyper;
    *u = (struct fm_update){.scale = 1,
                            .limit = h->clip == FM_CLIP_VALUE ? (float)h->clip_value : INFINITY,
                            .rate = (float)rate,
                            .momentum = (float)h->momentum,
                            .epsilon = (float)h->epsilon,
                            .use_momentum = p->momentum,
                            .nesterov = p->nesterov,
                            .amsgrad = p->amsgrad,
                            .centered = p->centered};
    if (p->optimizer == FM_OPTIMIZER_RMSPROP) {
        u->a = (float)h->rho;
        u->b = (float)(1 - h->rho);
    } else if (p->optimizer != FM_OPTIMIZER_SGD) {
        /* Keras raises betas that were rounded to float: at the first step that is seen in the sixth digit.
         */
        const int64_t t = fm_lane_tail(lane->host)->iterations + 1;
        const double first = 1 - power((double)(float)h->beta_1, t);
        const double second = 1 - power((double)(float)h->beta_2, t);
        u->rate = (float)(rate * sqrt(second) / first);
        u->a = (float)(1 - h->beta_1);
        u->b = (float)(1 - h->beta_2);
    }
}

static void update_variable(struct fm_cpu_lane *lane, int v, struct fm_update *u)
{
    const struct fm_cpu_plan *plan = &lane->plan;
    float *state = (float *)lane->host->state + plan->variables[v].offset;
    u->n = variable_at(lane, v)->count;
    u->w = state;
    u->g = gradient_of(lane, v);
    for (int s = 0; s < plan->program->slots && s < 3; s++) u->slot[s] = state + (1 + s) * plan->extent;
    switch (plan->program->optimizer) {
    case FM_OPTIMIZER_SGD: lane->k->sgd(u); break;
    case FM_OPTIMIZER_ADAM:
    case FM_OPTIMIZER_ADAMW: lane->k->adam(u); break;
    case FM_OPTIMIZER_RMSPROP: lane->k->rmsprop(u); break;
    }
}

static void optimize(struct fm_cpu_lane *lane, double rate)
{
    const struct fm_hyper *h = &lane->host->options.hyper;
    struct fm_update u;
    fill(&u, lane, rate);
    /* A norm of them all that is not finite makes them all NaN, as in Keras. */
    if (h->clip == FM_CLIP_GLOBAL_NORM) u.scale = clip_scale(lane, lane->square) + 0 * lane->square;
    for (int v = 0; v < lane->plan.program->nvariables; v++) {
        const struct fm_variable *variable = variable_at(lane, v);
        if (!variable->trainable) continue;
        if (h->clip == FM_CLIP_NORM)
            u.scale = clip_scale(lane, lane->k->square_sum(variable->count, gradient_of(lane, v)));
        u.decay = variable->decay && h->weight_decay > 0 ? (float)h->weight_decay * (float)rate : 0;
        update_variable(lane, v, &u);
    }
    fm_lane_tail(lane->host)->iterations++;
}

void fm_cpu_update(struct fm_cpu_lane *lane, double learning_rate)
{
    const struct fm_program *p = lane->plan.program;
    optimize(lane, learning_rate);
    for (int i = p->section_first[FM_SECTION_UPDATE]; i < p->section_first[FM_SECTION_UPDATE + 1]; i++)
        if (p->ops[i].code == FM_OP_BATCH_NORM_MOVING) fm_cpu_batch_norm_moving(&p->ops[i], lane);
}
