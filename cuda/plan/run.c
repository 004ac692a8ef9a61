/* Enqueues calls: looks up what their tensors and variables mean in a lane's block and launches. */
#include "plan/calls.h"

#include <stdio.h>

#include "library/library.h"

struct run {
    const struct fm_cuda_bound *bound;
    const struct fm_cuda_call *call;
    struct fm_cuda_place place;
};

static void *at(const struct run *r, int64_t offset)
{
    return r->bound->base + offset;
}

static struct fm_cuda_tensor tensor(const struct run *r, int number)
{
    if (number < 0 || r->bound->plan->rooms[number].offset < 0) return (struct fm_cuda_tensor){0};
    const struct fm_cuda_room *room = &r->bound->plan->rooms[number];
    return (struct fm_cuda_tensor){at(r, room->offset), room->example};
}

static struct fm_cuda_bytes bytes(const struct run *r, int number)
{
    const struct fm_cuda_tensor t = tensor(r, number);
    return (struct fm_cuda_bytes){(uint8_t *)t.at, t.example};
}

static struct fm_cuda_winner winner(const struct run *r, int number)
{
    const struct fm_cuda_tensor t = tensor(r, number);
    return (struct fm_cuda_winner){t.at, t.example, r->call->wide};
}

static float *parameter(const struct run *r, int variable)
{
    const struct fm_cuda_plan *plan = r->bound->plan;
    if (variable < 0) return NULL;
    return (float *)at(r, plan->layout.state) + plan->variables[variable].offset;
}

static float *gradient(const struct run *r, int variable)
{
    const struct fm_cuda_plan *plan = r->bound->plan;
    if (variable < 0) return NULL;
    return (float *)at(r, plan->layout.gradients) + plan->variables[variable].offset;
}

static struct fm_cuda_weights weights(const struct run *r)
{
    const struct fm_cuda_call *call = r->call;
    const struct fm_cuda_conv *conv = &call->conv;
    struct fm_cuda_weights w = {
        .tap = conv->in_channels / conv->groups * conv->out_channels, .in = conv->out_channels, .out = 1};
    if (r->bound->plan->variables[call->kernel].turned) w = fm_dnn_weights(conv);
    w.at = parameter(r, call->kernel);
    return w;
}

static struct fm_cuda_weights head_weights(const struct run *r)
{
    return (struct fm_cuda_weights){parameter(r, r->call->kernel), 0, r->call->loss.outputs, 1};
}

static struct fm_cuda_activation activation(const struct run *r)
{
    const struct fm_cuda_call_activation *own = &r->call->activation;
    return (struct fm_cuda_activation){.kind = own->kind,
                                       .slope = own->slope,
                                       .stored = tensor(r, own->stored),
                                       .is_stored = own->is_stored,
                                       .is_pooled = own->is_pooled};
}

static struct fm_cuda_update update(const struct run *r)
{
    const struct fm_cuda_layout *layout = &r->bound->plan->layout;
    struct fm_cuda_update u = r->bound->plan->update;
    u.tiles = at(r, layout->tiles);
    u.parameters = at(r, layout->state);
    u.slots = u.parameters + layout->floats;
    u.slot_stride = layout->floats;
    u.gradients = at(r, layout->gradients);
    u.partials = at(r, layout->partials);
    u.sums = at(r, layout->sums);
    u.scales = at(r, layout->scales);
    u.losses = at(r, layout->losses);
    u.weight = at(r, layout->weight);
    return u;
}

static cudaError_t gather(const struct run *r)
{
    const struct fm_cuda_call *call = r->call;
    const struct fm_cuda_layout *layout = &r->bound->plan->layout;
    const bool letters = r->bound->plan->letters;
    return fm_cuda_gather(r->place, call->length, letters ? 1 : call->channels,
                          letters ? (struct fm_cuda_tensor){0} : tensor(r, call->out[0]),
                          letters ? bytes(r, call->out[0]) : (struct fm_cuda_bytes){0},
                          at(r, layout->example), at(r, layout->weight));
}

static cudaError_t loss(const struct run *r)
{
    const struct fm_cuda_call *call = r->call;
    const struct fm_cuda_layout *layout = &r->bound->plan->layout;
    const struct fm_cuda_tensor none = {0}, dz = tensor(r, call->out[0]);
    float *scores = call->activity == FM_CUDA_EVALUATES ? at(r, layout->scores) : NULL;
    int64_t *example = at(r, layout->example);
    float *weight = at(r, layout->weight), *losses = at(r, layout->losses);
    if (call->kind == FM_CALL_LOSSES)
        return fm_cuda_losses(r->place, call->loss, tensor(r, call->in[0]), example, weight, losses, dz,
                              scores);
    return fm_cuda_head(r->place, call->loss, call->length, tensor(r, call->in[0]), head_weights(r),
                        parameter(r, call->bias), example, weight, none, losses, dz, scores);
}

/* Where a weight gradient goes: its partial sums, or the gradients themselves. */
static cudaError_t weight_grad(const struct run *r)
{
    const struct fm_cuda_call *call = r->call;
    float *kernel = gradient(r, call->kernel), *bias = gradient(r, call->bias);
    if (call->splits > 1) {
        const int64_t count = r->bound->plan->variables[call->kernel].count;
        kernel = (float *)at(r, r->bound->plan->layout.partials) + call->partial;
        bias = call->bias >= 0 ? kernel + (count + 3) / 4 * 4 : NULL;
    }
    if (call->kind == FM_CALL_LETTERS_GRAD)
        return fm_cuda_weight_grad_letters(r->place, call->conv, bytes(r, call->in[1]),
                                           tensor(r, call->in[0]), weights(r), kernel, bias, call->splits,
                                           call->stride);
    return fm_cuda_weight_grad(r->place, call->conv, tensor(r, call->in[1]), tensor(r, call->in[0]),
                               weights(r), kernel, bias, call->splits, call->stride);
}

static cudaError_t norm(const struct run *r)
{
    const struct fm_cuda_call *call = r->call;
    const int rows = call->length, channels = call->channels;
    const float *gamma = parameter(r, call->kernel), *beta = parameter(r, call->bias);
    float *scratch = at(r, call->scratch), *dgamma = gradient(r, call->kernel),
          *dbeta = gradient(r, call->bias);
    switch (call->kind) {
    case FM_CALL_BATCH_NORM:
        return fm_cuda_batch_norm(r->place, rows, channels, tensor(r, call->in[0]), gamma, beta, call->number,
                                  tensor(r, call->out[1]).at, tensor(r, call->out[2]).at,
                                  tensor(r, call->out[0]), scratch);
    case FM_CALL_BATCH_NORM_GRAD:
        return fm_cuda_batch_norm_grad(r->place, rows, channels, tensor(r, call->in[1]),
                                       tensor(r, call->in[0]), gamma, tensor(r, call->out[1]).at,
                                       tensor(r, call->out[2]).at, call->number, call->accumulate,
                                       tensor(r, call->out[0]), dgamma, dbeta, scratch);
    case FM_CALL_BATCH_NORM_MOVING:
        return fm_cuda_batch_norm_moving(r->place, rows, channels, tensor(r, call->in[0]).at,
                                         tensor(r, call->in[1]).at, call->number, parameter(r, call->mean),
                                         parameter(r, call->variance));
    case FM_CALL_BATCH_NORM_INFER:
        return fm_cuda_batch_norm_infer(r->place, rows, channels, tensor(r, call->in[0]), gamma, beta,
                                        parameter(r, call->mean), parameter(r, call->variance), call->number,
                                        tensor(r, call->out[0]));
    case FM_CALL_LAYER_NORM:
        return fm_cuda_layer_norm(r->place, rows, channels, tensor(r, call->in[0]), gamma, beta, call->number,
                                  tensor(r, call->out[1]).at, tensor(r, call->out[2]).at,
                                  tensor(r, call->out[0]));
    default:
        return fm_cuda_layer_norm_grad(r->place, rows, channels, tensor(r, call->in[1]),
                                       tensor(r, call->in[0]), gamma, tensor(r, call->out[1]).at,
                                       tensor(r, call->out[2]).at, call->accumulate, tensor(r, call->out[0]),
                                       dgamma, dbeta, scratch);
    }
}

static cudaError_t product(const struct run *r)
{
    const struct fm_cuda_call *call = r->call;
    const float *bias = parameter(r, call->bias);
    switch (call->kind) {
    case FM_CALL_FORWARD:
        return fm_cuda_forward(r->place, call->conv, tensor(r, call->in[0]), weights(r), bias, activation(r),
                               tensor(r, call->out[0]));
    case FM_CALL_LETTERS:
        return fm_cuda_forward_letters(r->place, call->conv, bytes(r, call->in[0]), weights(r), bias,
                                       activation(r), tensor(r, call->out[0]));
    case FM_CALL_CONV_POOL:
        return fm_cuda_conv_pool(r->place, call->conv, call->pool, tensor(r, call->in[0]), weights(r), bias,
                                 activation(r), tensor(r, call->out[0]), bytes(r, call->out[1]));
    case FM_CALL_INPUT_GRAD:
        return fm_cuda_input_grad(r->place, call->conv, tensor(r, call->in[0]), weights(r), activation(r),
                                  call->accumulate, tensor(r, call->out[0]));
    case FM_CALL_BIAS_GRAD:
        return fm_cuda_bias_grad(r->place, call->length, call->channels, tensor(r, call->in[0]),
                                 gradient(r, call->bias));
    case FM_CALL_BIAS_ACTIVATION:
        return fm_cuda_bias_activation(r->place, call->length, call->channels, bias, activation(r),
                                       tensor(r, call->out[0]));
    default: return weight_grad(r);
    }
}

static cudaError_t element(const struct run *r)
{
    const struct fm_cuda_call *call = r->call;
    const int rows = call->length, channels = call->channels;
    const struct fm_cuda_tensor x = tensor(r, call->in[0]), y = tensor(r, call->out[0]);
    switch (call->kind) {
    case FM_CALL_ONEHOT: return fm_cuda_onehot(r->place, rows, channels, bytes(r, call->in[0]), y);
    case FM_CALL_ACTIVATE: return fm_cuda_activate(r->place, rows, channels, x, activation(r), y);
    case FM_CALL_ACTIVATE_GRAD:
        return fm_cuda_activate_grad(r->place, rows, channels, x, activation(r), call->accumulate, y);
    case FM_CALL_SOFTMAX: return fm_cuda_softmax(r->place, rows, channels, x, y);
    case FM_CALL_SOFTMAX_GRAD:
        return fm_cuda_softmax_grad(r->place, rows, channels, x, tensor(r, call->in[1]), call->accumulate, y);
    case FM_CALL_POOLING: return fm_cuda_pooling(r->place, call->pool, x, y, winner(r, call->out[1]));
    case FM_CALL_POOLING_GRAD:
        return fm_cuda_pooling_grad(r->place, call->pool, x, winner(r, call->in[1]), activation(r),
                                    call->accumulate, y);
    default:
        return fm_cuda_dropout(r->place, rows, channels, call->index, call->id, call->spatial, x,
                               call->accumulate, y);
    }
}

static cudaError_t tally(const struct run *r)
{
    const struct fm_cuda_layout *layout = &r->bound->plan->layout;
    return fm_cuda_tally(r->place, r->call->loss, at(r, layout->example), at(r, layout->losses),
                         at(r, layout->scores), r->bound->scores,
                         r->bound->confusion ? at(r, layout->confusion) : NULL);
}

/* ---- libraries ---- */

static int dnn(const struct run *r, struct fm_error *err)
{
    const struct fm_cuda_bound *bound = r->bound;
    const struct fm_cuda_call *call = r->call;
    const struct fm_cuda_tensor x = tensor(r, call->in[0]), y = tensor(r, call->out[0]);
    float *w = call->role == FM_ROLE_WEIGHT_GRAD ? gradient(r, call->kernel) : parameter(r, call->kernel);
    return fm_dnn_call_run(bound->device, bound->card, call->dnn, bound->stream,
                           x.at - (int64_t)call->conv.pad * call->conv.in_channels, w, y.at,
                           at(r, bound->plan->layout.workspace), err);
}

static int blas(const struct run *r, struct fm_error *err)
{
    const struct fm_cuda_bound *bound = r->bound;
    const struct fm_cuda_call *call = r->call;
    float *x = tensor(r, call->in[0]).at, *y = tensor(r, call->out[0]).at;
    const bool gradient_of_w = call->role == FM_ROLE_WEIGHT_GRAD,
               gradient_of_x = call->role == FM_ROLE_INPUT_GRAD;
    float *w = gradient_of_w ? gradient(r, call->kernel) : parameter(r, call->kernel);
    return fm_blas_product(bound->device, bound->card, bound->stream, &call->product, gradient_of_x ? y : x,
                           gradient_of_w ? y : w,
                           gradient_of_w   ? w
                           : gradient_of_x ? x
                                           : y,
                           at(r, bound->plan->layout.workspace), err);
}

static cudaError_t launch(const struct run *r)
{
    switch (r->call->kind) {
    case FM_CALL_GATHER: return gather(r);
    case FM_CALL_FORWARD:
    case FM_CALL_LETTERS:
    case FM_CALL_CONV_POOL:
    case FM_CALL_INPUT_GRAD:
    case FM_CALL_WEIGHT_GRAD:
    case FM_CALL_LETTERS_GRAD:
    case FM_CALL_BIAS_GRAD:
    case FM_CALL_BIAS_ACTIVATION: return product(r);
    case FM_CALL_HEAD:
    case FM_CALL_LOSSES: return loss(r);
    case FM_CALL_BATCH_NORM:
    case FM_CALL_BATCH_NORM_GRAD:
    case FM_CALL_BATCH_NORM_MOVING:
    case FM_CALL_BATCH_NORM_INFER:
    case FM_CALL_LAYER_NORM:
    case FM_CALL_LAYER_NORM_GRAD: return norm(r);
    case FM_CALL_NORM: return fm_cuda_norm(r->place, update(r));
    case FM_CALL_OPTIMIZE: return fm_cuda_optimize(r->place, update(r));
    case FM_CALL_TALLY: return tally(r);
    default: return element(r);
    }
}

static int enqueue(const struct fm_cuda_bound *bound, const struct fm_cuda_call *call, struct fm_error *err)
{
    const struct run r = {.bound = bound,
                          .call = call,
                          .place = {.stream = bound->stream,
                                    .lane = (struct fm_cuda_lane *)(bound->base + bound->plan->layout.record),
                                    .activity = call->activity,
                                    .rows = call->rows}};
    if (call->kind == FM_CALL_DNN) return dnn(&r, err);
    if (call->kind == FM_CALL_BLAS) return blas(&r, err);
    const cudaError_t status = launch(&r);
    if (status == cudaSuccess) return 0;
    char what[96];
    snprintf(what, sizeof what, "launch '%s'", call->name);
    return fm_cuda_check(bound->device, status, err, what);
}

static int enqueue_all(const struct fm_cuda_bound *bound, int first, int end, struct fm_error *err)
{
    int status = 0;
    for (int i = first; !status && i < end; i++) {
        const struct fm_cuda_call *call = &bound->plan->calls[i];
        if (bound->watch) status = bound->watch(bound->context, call, err);
        if (!status) status = enqueue(bound, call, err);
    }
    if (!status && bound->watch) status = bound->watch(bound->context, NULL, err);
    return status;
}

int fm_cuda_enqueue_step(const struct fm_cuda_bound *bound, struct fm_error *err)
{
    return enqueue_all(bound, 0, bound->plan->nstep, err);
}

int fm_cuda_enqueue_chunk(const struct fm_cuda_bound *bound, struct fm_error *err)
{
    return enqueue_all(bound, bound->plan->nstep, bound->plan->ncalls, err);
}

int fm_cuda_enqueue_penalty(const struct fm_cuda_bound *bound, struct fm_error *err)
{
    if (!bound->plan->penalised) return 0;
    struct fm_cuda_call call = {.activity = FM_CUDA_IDLE, .rows = (int)bound->plan->batch};
    const struct run r = {.bound = bound,
                          .call = &call,
                          .place = {.stream = bound->stream,
                                    .lane = (struct fm_cuda_lane *)(bound->base + bound->plan->layout.record),
                                    .rows = call.rows}};
    return fm_cuda_check(bound->device,
                         fm_cuda_penalty(r.place, update(&r), at(&r, bound->plan->layout.penalty)), err,
                         "launch 'penalty'");
}

const char *fm_cuda_call_name(const struct fm_cuda_call *call)
{
    return call->name;
}
