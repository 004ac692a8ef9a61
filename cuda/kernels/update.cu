/* The end of a step, after engine/reference/optimizer.inc and train_step of engine/host/run.c: two kernels
 * with a block for each tile of the trainable variables. The first adds up the gradient, and its last block
 * decides about the step; the second updates, and its last block ends the step. Arithmetic is rounded where
 * the reference rounds: no fused multiply-adds, all of it is bound by memory. */
#include "kernels/device.h"

#include "config/sweep.h"
#include "kernels/step.h"
#include "kernels/tile.h"

/* ---- the gradient ---- */

/* Four neighbouring gradients: partial sums in order of the splits. The loads of several splits are under way
 * at once. */
static __device__ fm_four gradient_of(const struct fm_cuda_update &u, const struct fm_cuda_tile &tile, int at,
                                      int count)
{
    if (tile.splits == 0) return fm_four_load(u.gradients + tile.offset + at, count);
    const float *partial = u.partials + tile.partial + at;
    fm_four g = fm_four_load(partial, count);
    if (fm_four_whole(partial, count) && tile.stride % 4 == 0) {
#pragma unroll 8
        for (int s = 1; s < tile.splits; s++) {
            const float4 more = *(const float4 *)(partial + s * tile.stride);
            g.v[0] += more.x;
            g.v[1] += more.y;
            g.v[2] += more.z;
            g.v[3] += more.w;
        }
        return g;
    }
#pragma unroll 4
    for (int s = 1; s < tile.splits; s++)
        for (int j = 0; j < 4; j++)
            if (j < count) g.v[j] += partial[s * tile.stride + j];
    return g;
}

static __device__ void regularize(const struct fm_cuda_tile &tile, const fm_four &w, fm_four &g)
{
    const float l1 = (float)tile.l1, l2 = (float)tile.l2;
    for (int j = 0; j < 4; j++) g.v[j] += l1 * (float)((w.v[j] > 0) - (w.v[j] < 0)) + 2 * l2 * w.v[j];
}

/* Sums over the tile go to u.sums. */
static __device__ void add_up(const struct fm_cuda_update &u, const struct fm_cuda_tile &tile, double *sums,
                              double *room)
{
    const int at = (int)threadIdx.x * 4, count = tile.count - at < 4 ? tile.count - at : 4;
    double square = 0, penalty = 0;
    if (count > 0) {
        fm_four g = gradient_of(u, tile, at, count);
        if (tile.l1 != 0 || tile.l2 != 0) {
            const fm_four w = fm_four_load(u.parameters + tile.offset + at, count);
            regularize(tile, w, g);
            penalty = fm_four_penalty(tile, w);
        }
        fm_four_store(u.gradients + tile.offset + at, g, count);
        for (int j = 0; j < 4; j++) square += (double)g.v[j] * (double)g.v[j];
    }
    square = fm_block_sum(square, room);
    penalty = fm_block_sum(penalty, room);
    if (threadIdx.x == 0) {
        sums[0] = square;
        sums[1] = penalty;
    }
}

/* ---- the decision, by the last block ---- */

/* The first tile of the variable, or of one after it. */
static __device__ int first_tile(const struct fm_cuda_update &u, int variable)
{
    int low = 0, high = u.ntiles;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (u.tiles[middle].variable < variable)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* clipnorm: what each variable's gradient times the limit is divided by. A warp takes a variable. */
static __device__ void variable_norms(const struct fm_cuda_update &u, float limit)
{
    const volatile double *sums = u.sums;
    for (int v = (int)threadIdx.x / 32; v < u.nvariables; v += FM_STEP_WARPS) {
        const int end = first_tile(u, v + 1);
        double square = 0;
        for (int t = first_tile(u, v) + (int)threadIdx.x % 32; t < end; t += 32) square += sums[2 * t];
        for (int d = 16; d > 0; d /= 2) square += __shfl_down_sync(0xffffffffu, square, d);
        const float norm = sqrtf((float)square);
        if (threadIdx.x % 32 == 0) u.scales[v] = norm < limit ? limit : norm;
    }
}

static __device__ float global_scale(float square, float limit)
{
    const float norm = sqrtf(square), a = 1 / norm, b = 1 / limit;
    return limit * (a < b ? a : b) + (norm - norm);
}

/* Keras raises betas that were rounded to float. */
static __device__ float adam_step(const struct fm_cuda_lane &lane)
{
    const double t = (double)lane.tail->iterations + 1;
    const double first = 1 - pow((double)lane.hyper.beta_1, t),
                 second = 1 - pow((double)lane.hyper.beta_2, t);
    return (float)(lane.control.learning_rate * sqrt(second) / first);
}

static __device__ void record_step(struct fm_cuda_lane *lane, double loss, float square)
{
    struct fm_cuda_control *c = &lane->control;
    c->loss = loss;
    c->norm = sqrt((double)square);
    c->bad = 0;
    c->steps++;
    c->examples += c->n;
    if (fm_finite(loss) && fm_finite((double)square)) {
        lane->tail->last_loss = loss;
        lane->tail->last_norm = c->norm;
    } else {
        if (c->bad_steps++ == 0) c->first_bad_step = c->step;
        c->bad = c->on_nan != FM_ON_NAN_KERAS;
        c->frozen = c->bad && c->on_nan != FM_ON_NAN_SKIP;
    }
    if (c->bad) return;
    c->loss_sum += loss * (double)c->n;
    c->loss_examples += c->n;
}

static __device__ void decide(struct fm_cuda_lane *lane, const struct fm_cuda_update &u, double *room)
{
    const volatile double *sums = u.sums;
    const int n = lane->control.n, thread = (int)threadIdx.x;
    double square = 0, penalty = 0, loss = 0;
    for (int t = thread; t < u.ntiles; t += FM_STEP_THREADS) {
        square += sums[2 * t];
        penalty += sums[2 * t + 1];
    }
    for (int i = thread; i < n; i += FM_STEP_THREADS) loss += (double)u.weight[i] * (double)u.losses[i];
    square = fm_block_sum(square, room);
    penalty = fm_block_sum(penalty, room);
    loss = fm_block_sum(loss, room);
    if (lane->hyper.clip == FM_CLIP_NORM) variable_norms(u, lane->hyper.clip_value);
    if (thread == 0) {
        record_step(lane, loss / (double)n + penalty, (float)square);
        lane->control.scale = global_scale((float)square, lane->hyper.clip_value);
    }
    if (thread == 32 && (u.optimizer == FM_OPTIMIZER_ADAM || u.optimizer == FM_OPTIMIZER_ADAMW))
        lane->control.adam_step = adam_step(*lane);
}

static __global__ void norm_kernel(struct fm_cuda_place place, struct fm_cuda_update u)
{
    __shared__ double room[FM_STEP_WARPS];
    __shared__ unsigned turn;
    if (!fm_turn(place)) return;
    if ((int)blockIdx.x < u.ntiles) add_up(u, u.tiles[blockIdx.x], u.sums + 2 * (int64_t)blockIdx.x, room);
    if (fm_last_block(&place.lane->control.ticket[FM_TICKET_NORM], &turn)) decide(place.lane, u, room);
}

/* ---- the update ---- */

/* What the optimizers need of the lane, in registers. */
struct rule {
    float rate, momentum, a, b, rho, epsilon, adam_step;
    bool nesterov, amsgrad, centered, has_momentum;
};

static __device__ void clip(const struct fm_cuda_lane &lane, const struct fm_cuda_update &u, int variable,
                            fm_four &g)
{
    const float limit = lane.hyper.clip_value, scale = lane.control.scale;
    switch (lane.hyper.clip) {
    case FM_CLIP_NORM:
        for (int j = 0; j < 4; j++) g.v[j] = g.v[j] * limit / u.scales[variable];
        break;
    case FM_CLIP_GLOBAL_NORM:
        for (int j = 0; j < 4; j++) g.v[j] *= scale;
        break;
    case FM_CLIP_VALUE:
        for (int j = 0; j < 4; j++) g.v[j] = g.v[j] > limit ? limit : g.v[j] < -limit ? -limit : g.v[j];
        break;
    default: break;
    }
}

static __device__ void sgd(const struct rule &r, const fm_four &g, float *slots, int count, fm_four &w)
{
    if (!r.has_momentum) {
        for (int j = 0; j < 4; j++) w.v[j] -= r.rate * g.v[j];
        return;
    }
    fm_four m = fm_four_load(slots, count);
    for (int j = 0; j < 4; j++) {
        m.v[j] = r.momentum * m.v[j] - r.rate * g.v[j];
        w.v[j] += r.nesterov ? r.momentum * m.v[j] - r.rate * g.v[j] : m.v[j];
    }
    fm_four_store(slots, m, count);
}

static __device__ void adam(const struct rule &r, const fm_four &g, float *slots, int64_t stride, int count,
                            fm_four &w)
{
    fm_four m = fm_four_load(slots, count), s = fm_four_load(slots + stride, count);
    for (int j = 0; j < 4; j++) {
        m.v[j] += (g.v[j] - m.v[j]) * r.a;
        s.v[j] += (g.v[j] * g.v[j] - s.v[j]) * r.b;
    }
    fm_four_store(slots, m, count);
    fm_four_store(slots + stride, s, count);
    if (r.amsgrad) {
        const fm_four largest = fm_four_load(slots + 2 * stride, count);
        for (int j = 0; j < 4; j++) s.v[j] = s.v[j] < largest.v[j] ? largest.v[j] : s.v[j];
        fm_four_store(slots + 2 * stride, s, count);
    }
    for (int j = 0; j < 4; j++) w.v[j] -= m.v[j] * r.adam_step / (sqrtf(s.v[j]) + r.epsilon);
}

static __device__ void rmsprop(const struct rule &r, const fm_four &g, float *slots, int64_t stride,
                               int count, fm_four &w)
{
    fm_four s = fm_four_load(slots, count), step;
    for (int j = 0; j < 4; j++) s.v[j] = r.rho * s.v[j] + r.a * (g.v[j] * g.v[j]);
    fm_four_store(slots, s, count);
    if (r.centered) {
        fm_four mean = fm_four_load(slots + stride, count);
        for (int j = 0; j < 4; j++) {
            mean.v[j] = r.rho * mean.v[j] + r.a * g.v[j];
            s.v[j] -= mean.v[j] * mean.v[j];
        }
        fm_four_store(slots + stride, mean, count);
    }
    for (int j = 0; j < 4; j++) step.v[j] = r.rate * g.v[j] / sqrtf(s.v[j] + r.epsilon);
    if (r.has_momentum) {
        float *moments = slots + (r.centered ? 2 : 1) * stride;
        const fm_four m = fm_four_load(moments, count);
        for (int j = 0; j < 4; j++) step.v[j] += r.momentum * m.v[j];
        fm_four_store(moments, step, count);
    }
    for (int j = 0; j < 4; j++) w.v[j] -= step.v[j];
}

static __device__ struct rule rule_of(const struct fm_cuda_lane &lane, const struct fm_cuda_update &u)
{
    const struct fm_cuda_hyper &h = lane.hyper;
    const bool rmsprop = u.optimizer == FM_OPTIMIZER_RMSPROP;
    struct rule r;
    r.rate = (float)lane.control.learning_rate;
    r.momentum = h.momentum;
    r.a = (float)(1 - (rmsprop ? h.rho_wide : h.beta_1_wide));
    r.b = (float)(1 - h.beta_2_wide);
    r.rho = h.rho;
    r.epsilon = h.epsilon;
    r.adam_step = lane.control.adam_step;
    r.nesterov = u.nesterov != 0;
    r.amsgrad = u.amsgrad != 0;
    r.centered = u.centered != 0;
    r.has_momentum = u.momentum != 0;
    return r;
}

static __device__ void update_tile(const struct fm_cuda_lane &lane, const struct fm_cuda_update &u,
                                   const struct fm_cuda_tile &tile)
{
    const int first = (int)threadIdx.x * 4, count = tile.count - first < 4 ? tile.count - first : 4;
    if (count <= 0) return;
    const struct rule r = rule_of(lane, u);
    const int64_t at = tile.offset + first;
    const float decay = lane.hyper.weight_decay;
    fm_four g = fm_four_load(u.gradients + at, count), w = fm_four_load(u.parameters + at, count);
    clip(lane, u, tile.variable, g);
    if (tile.decay && decay > 0)
        for (int j = 0; j < 4; j++) w.v[j] -= w.v[j] * decay * r.rate;
    if (u.optimizer == FM_OPTIMIZER_SGD)
        sgd(r, g, u.slots + at, count, w);
    else if (u.optimizer == FM_OPTIMIZER_RMSPROP)
        rmsprop(r, g, u.slots + at, u.slot_stride, count, w);
    else
        adam(r, g, u.slots + at, u.slot_stride, count, w);
    fm_four_store(u.parameters + at, w, count);
}

static __global__ void optimize_kernel(struct fm_cuda_place place, struct fm_cuda_update u)
{
    __shared__ unsigned turn;
    struct fm_cuda_control *c = &place.lane->control;
    if (!fm_turn(place)) return;
    if (!c->bad && (int)blockIdx.x < u.ntiles) update_tile(*place.lane, u, u.tiles[blockIdx.x]);
    if (!fm_last_block(&c->ticket[FM_TICKET_OPTIMIZE], &turn) || threadIdx.x != 0) return;
    if (!c->bad) place.lane->tail->iterations++;
    c->step++;
    if (c->frozen || c->step >= c->end) c->activity = FM_CUDA_IDLE;
}

static dim3 tile_grid(const struct fm_cuda_update &update)
{
    return dim3((unsigned)(update.ntiles > 0 ? update.ntiles : 1));
}

cudaError_t fm_cuda_norm(struct fm_cuda_place place, struct fm_cuda_update update)
{
    return fm_launch(norm_kernel, tile_grid(update), dim3(FM_STEP_THREADS), 0, place.stream, place, update);
}

cudaError_t fm_cuda_optimize(struct fm_cuda_place place, struct fm_cuda_update update)
{
    return fm_launch(optimize_kernel, tile_grid(update), dim3(FM_STEP_THREADS), 0, place.stream, place,
                     update);
}
