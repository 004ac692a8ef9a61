/* Where everything of a lane lies: variables and their tiles, tensors by lifetime, the block. */
#include "plan/calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "library/library.h"

#define MAX_BYTES (INT64_C(1) << 42)

/* Each at a multiple of 4 floats, so that they can be read four at a time. Kernels that cuDNN reads are
 * turned into its order, [out][taps][in]. */
int fm_cuda_place_variables(struct fm_cuda_builder *b)
{
    const struct fm_program *p = b->program;
    struct fm_cuda_layout *layout = &b->plan->layout;
    for (int i = 0; i < p->nvariables; i++) {
        const struct fm_variable *v = &p->variables[i];
        struct fm_cuda_variable *own = &b->plan->variables[i];
        own->offset = layout->floats;
        own->count = v->count;
        own->portable = v->offset;
        own->taps = v->rank == 3 ? (int)v->shape[0] : 1;
        own->in = v->rank == 3 ? (int)v->shape[1] : 1;
        own->out = v->rank == 3 ? (int)v->shape[2] : (int)v->count;
        layout->floats += fm_cuda_round_up(v->count, 4);
    }
    return 0;
}

/* ---- tiles ---- */

static void find_regularisers(const struct fm_program *p, int tensor, struct fm_cuda_tile *tile)
{
    for (int i = p->section_first[FM_SECTION_UPDATE]; i < p->section_first[FM_SECTION_UPDATE + 1]; i++)
        if (p->ops[i].code == FM_OP_REGULARIZE && p->ops[i].in[0] == tensor) {
            tile->l1 += p->ops[i].regularize.l1;
            tile->l2 += p->ops[i].regularize.l2;
        }
}

/* The call that makes a variable's gradient; splits stay 0 where it lies in `gradients` at once. */
static bool find_gradient(const struct fm_cuda_plan *plan, int variable, struct fm_cuda_tile *tile)
{
    for (int i = 0; i < plan->nstep; i++) {
        const struct fm_cuda_call *call = &plan->calls[i];
        const bool library =
            (call->kind == FM_CALL_DNN || call->kind == FM_CALL_BLAS) && call->role == FM_ROLE_WEIGHT_GRAD;
        const bool makes = library || call->kind == FM_CALL_WEIGHT_GRAD ||
                           call->kind == FM_CALL_LETTERS_GRAD || call->kind == FM_CALL_BIAS_GRAD ||
                           call->kind == FM_CALL_BATCH_NORM_GRAD || call->kind == FM_CALL_LAYER_NORM_GRAD;
        if (!makes || (call->kernel != variable && call->bias != variable)) continue;
        if (call->splits > 1) {
            tile->splits = call->splits;
            tile->stride = call->stride;
            tile->partial = call->partial;
            if (call->kernel != variable)
                tile->partial += fm_cuda_round_up(plan->variables[call->kernel].count, 4);
        }
        return true;
    }
    return false;
}

int fm_cuda_place_tiles(struct fm_cuda_builder *b)
{
    const struct fm_program *p = b->program;
    struct fm_cuda_plan *plan = b->plan;
    size_t capacity = 0;
    for (int i = 0; i < p->nvariables; i++) {
        const struct fm_variable *v = &p->variables[i];
        if (!v->trainable) continue;
        struct fm_cuda_tile tile = {.variable = i, .decay = v->decay};
        find_regularisers(p, v->tensor, &tile);
        plan->penalised = plan->penalised || tile.l1 != 0 || tile.l2 != 0;
        if (!find_gradient(plan, i, &tile))
            return fm_fail(b->err, FM_EINTERNAL, "nothing makes the gradient of %s", v->name);
        for (int64_t at = 0; at < v->count; at += FM_CUDA_TILE) {
            struct fm_cuda_tile own = tile;
            own.offset = plan->variables[i].offset + at;
            own.partial += at;
            own.count = (int)(v->count - at < FM_CUDA_TILE ? v->count - at : FM_CUDA_TILE);
            if (fm_grow(&plan->tiles, &capacity, (size_t)plan->ntiles + 1, sizeof *plan->tiles))
                return fm_fail_memory(b->err);
            plan->tiles[plan->ntiles++] = own;
        }
    }
    return 0;
}

/* ---- tensors ---- */

static void touch(struct fm_cuda_plan *plan, const struct fm_program *p, int tensor, int call)
{
    if (tensor < 0) return;
    const enum fm_tensor_kind kind = p->tensors[tensor].kind;
    if (kind != FM_TENSOR_INPUT && kind != FM_TENSOR_ACTIVATION && kind != FM_TENSOR_BATCH) return;
    struct fm_cuda_room *room = &plan->rooms[tensor];
    if (room->last < 0) room->first = call;
    room->last = call;
}

static void find_lifetimes(struct fm_cuda_builder *b)
{
    struct fm_cuda_plan *plan = b->plan;
    for (int t = 0; t < plan->ntensors; t++) plan->rooms[t].last = plan->rooms[t].offset = -1;
    for (int i = 0; i < plan->ncalls; i++) {
        const struct fm_cuda_call *call = &plan->calls[i];
        for (int k = 0; k < 3; k++) {
            touch(plan, b->program, call->in[k], i);
            touch(plan, b->program, call->out[k], i);
        }
        touch(plan, b->program, call->activation.stored, i);
    }
}

static int64_t element_of(const struct fm_program *p, int tensor)
{
    return p->tensors[tensor].type == FM_U8 ? 1 : 4;
}

static int64_t bytes_of(const struct fm_cuda_builder *b, int tensor)
{
    const struct fm_cuda_room *room = &b->plan->rooms[tensor];
    const bool shared = b->program->tensors[tensor].kind == FM_TENSOR_BATCH;
    const int64_t rows = shared ? 1 : room->first < b->plan->nstep ? b->plan->batch : b->chunk;
    return room->example * rows * element_of(b->program, tensor);
}

struct span {
    int64_t at, bytes;
    int first, last;
};

/* The lowest place that no other tensor of the same time has. */
static int64_t first_fit(const struct span *spans, int count, int64_t bytes, int first, int last)
{
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < count; i++) {
            const struct span *other = &spans[i];
            if (other->last < first || last < other->first || other->at >= at + bytes ||
                at >= other->at + other->bytes)
                continue;
            at = other->at + other->bytes;
            moved = true;
        }
    }
    return at;
}

/* Offsets within the region of tensors; gives its size. Tensors come in the order of their numbers, which is
 * nearly that of their first use. */
static int place_tensors(struct fm_cuda_builder *b, int64_t *size)
{
    struct fm_cuda_plan *plan = b->plan;
    const int64_t guard = fm_cuda_round_up(b->device->options.guard, FM_CUDA_ALIGN);
    struct span *spans = fm_calloc((size_t)plan->ntensors + 1, sizeof *spans);
    int count = 0;
    *size = guard;
    if (!spans) return fm_fail_memory(b->err);
    for (int t = 0; t < plan->ntensors; t++) {
        struct fm_cuda_room *room = &plan->rooms[t];
        if (room->last < 0 || room->zero) continue;
        const int64_t exact = bytes_of(b, t), bytes = fm_cuda_round_up(exact, FM_CUDA_ALIGN);
        int64_t at = guard ? *size : first_fit(spans, count, bytes, room->first, room->last);
        spans[count++] = (struct span){at, bytes, room->first, room->last};
        room->offset = at;
        room->bytes = exact;
        if (at + bytes + guard > *size) *size = at + bytes + guard;
        if (*size > MAX_BYTES) break;
    }
    fm_free(spans);
    return 0;
}

/* ---- the block ---- */

static int64_t take(struct fm_cuda_layout *layout, int64_t bytes)
{
    const int64_t at = layout->bytes;
    if (bytes > MAX_BYTES || layout->bytes > MAX_BYTES) {
        layout->bytes = MAX_BYTES + FM_CUDA_ALIGN;
        return 0;
    }
    layout->bytes += fm_cuda_round_up(bytes, FM_CUDA_ALIGN);
    return at;
}

static void place_zero(struct fm_cuda_builder *b)
{
    struct fm_cuda_layout *layout = &b->plan->layout;
    layout->zero = layout->bytes;
    for (int t = 0; t < b->plan->ntensors; t++) {
        struct fm_cuda_room *room = &b->plan->rooms[t];
        if (room->last < 0 || !room->zero) continue;
        room->bytes = bytes_of(b, t);
        room->offset = take(layout, room->bytes);
    }
    layout->zero_bytes = layout->bytes - layout->zero;
}

static void place_state(struct fm_cuda_builder *b)
{
    const struct fm_program *p = b->program;
    struct fm_cuda_layout *layout = &b->plan->layout;
    layout->tail = fm_cuda_round_up(layout->floats * 4 * (1 + (int64_t)p->slots), 16);
    layout->state_bytes = fm_cuda_round_up(layout->tail + (int64_t)sizeof(struct fm_cuda_tail), 16);
    layout->state = take(layout, layout->state_bytes);
    for (int slot = 0; slot < FM_SLOTS; slot++) layout->snapshot[slot] = take(layout, layout->state_bytes);
    layout->gradients = take(layout, layout->floats * 4);
}

static void place_rows(struct fm_cuda_builder *b)
{
    const struct fm_program *p = b->program;
    struct fm_cuda_layout *layout = &b->plan->layout;
    const int64_t rows = b->plan->batch > b->chunk ? b->plan->batch : b->chunk;
    layout->example = take(layout, rows * 8);
    layout->weight = take(layout, rows * 4);
    layout->losses = take(layout, rows * 4);
    layout->scores = take(layout, (int64_t)b->chunk * p->score_width * 4);
}

static void place_lists(struct fm_cuda_builder *b)
{
    const struct fm_program *p = b->program;
    struct fm_cuda_layout *layout = &b->plan->layout;
    const int64_t classes = p->loss.outputs > 2 ? p->loss.outputs : 2;
    layout->tiles = take(layout, b->plan->ntiles * (int64_t)sizeof(struct fm_cuda_tile));
    layout->rates = take(layout, p->nrates * (int64_t)sizeof(double));
    layout->class_weights = take(layout, classes * (int64_t)sizeof(float));
    layout->confusion_bytes = classes * classes * 8;
    layout->confusion = take(layout, layout->confusion_bytes);
    layout->penalty = take(layout, sizeof(double));
    layout->partials = take(layout, b->partials * 4);
    layout->sums = take(layout, b->plan->ntiles * 2 * (int64_t)sizeof(double));
    layout->scales = take(layout, p->nvariables * (int64_t)sizeof(float));
}

static void place_scratch(struct fm_cuda_builder *b)
{
    struct fm_cuda_layout *layout = &b->plan->layout;
    int64_t scratch = 0;
    for (int i = 0; i < b->plan->ncalls; i++) {
        const struct fm_cuda_call *call = &b->plan->calls[i];
        if (call->scratch > scratch) scratch = call->scratch;
        if (call->kind == FM_CALL_BLAS && layout->workspace_bytes < FM_BLAS_WORKSPACE)
            layout->workspace_bytes = FM_BLAS_WORKSPACE;
        if (call->kind == FM_CALL_DNN && fm_dnn_call_workspace(call->dnn) > layout->workspace_bytes)
            layout->workspace_bytes = fm_dnn_call_workspace(call->dnn);
    }
    const int64_t at = take(layout, scratch);
    for (int i = 0; i < b->plan->ncalls; i++) b->plan->calls[i].scratch = at;
    layout->workspace = take(layout, layout->workspace_bytes);
}

int fm_cuda_place_block(struct fm_cuda_builder *b)
{
    struct fm_cuda_layout *layout = &b->plan->layout;
    int64_t tensors;
    find_lifetimes(b);
    layout->chunk = b->chunk;
    layout->record = take(layout, sizeof(struct fm_cuda_lane));
    place_zero(b);
    place_state(b);
    place_rows(b);
    place_lists(b);
    place_scratch(b);
    const int status = place_tensors(b, &tensors);
    if (status) return status;
    const int64_t base = take(layout, tensors);
    if (layout->bytes > MAX_BYTES)
        return fm_fail(b->err, FM_ENOMEM,
                       "the network at batch size %" PRId64 " is larger than any card's memory",
                       b->plan->batch);
    layout->tensors = base;
    for (int t = 0; t < b->plan->ntensors; t++) {
        struct fm_cuda_room *room = &b->plan->rooms[t];
        if (room->last < 0) continue;
        if (!room->zero) room->offset += base;
        room->room = room->offset;
        room->offset += room->before * b->program->tensors[t].channels * element_of(b->program, t);
    }
    return 0;
}
