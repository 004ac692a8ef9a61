/* Plans: made once for a program and batch size, found again, described, freed. */
#include "plan/calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "library/library.h"

/* Changes with everything that changes a bit: kernels, tiles, splits, rules. */
#define REVISION 1

#define MAX_BATCH 65536

/* Examples of an evaluation chunk. It changes no bit. */
static int chunk_of(const struct fm_device *device, int64_t batch)
{
    if (device->options.slice > 0) return device->options.slice < 1024 ? (int)device->options.slice : 1024;
    return batch * 4 < 128 ? 128 : batch * 4 > 1024 ? 1024 : (int)batch * 4;
}

static void plan_free(struct fm_device *device, struct fm_cuda_plan *plan)
{
    if (!plan) return;
    for (int i = 0; i < plan->ncalls; i++)
        if (plan->calls[i].dnn) fm_dnn_call_free(device, plan->calls[i].dnn);
    fm_free(plan->calls);
    fm_free(plan->tiles);
    fm_free(plan->rooms);
    fm_free(plan->variables);
    fm_text_fini(&plan->choices);
    fm_text_fini(&plan->refused);
    fm_free(plan);
}

void fm_cuda_plans_free(struct fm_device *device)
{
    while (device->plans) {
        struct fm_cuda_plan *next = device->plans->next;
        plan_free(device, device->plans);
        device->plans = next;
    }
}

static uint64_t hash_of(const struct fm_device *device, const struct fm_cuda_plan *plan)
{
    struct fm_hash hash = {0};
    const int64_t head[] = {REVISION, plan->batch, device->kind.major, device->kind.minor, plan->ncalls};
    fm_hash_add(&hash, "cuda", 4);
    fm_hash_add(&hash, head, sizeof head);
    fm_hash_add(&hash, &plan->program_hash, sizeof plan->program_hash);
    for (int i = 0; i < plan->nstep; i++) {
        const struct fm_cuda_call *call = &plan->calls[i];
        const int64_t what[] = {call->kind, call->role, call->rows, call->splits, call->activation.kind};
        fm_hash_add(&hash, what, sizeof what);
    }
    if (plan->choices.size) fm_hash_add(&hash, plan->choices.data, plan->choices.size);
    return fm_hash_value(&hash);
}

static void set_update(struct fm_cuda_plan *plan, const struct fm_program *program)
{
    plan->update = (struct fm_cuda_update){.ntiles = plan->ntiles,
                                           .nvariables = program->nvariables,
                                           .optimizer = (int)program->optimizer,
                                           .nesterov = program->nesterov,
                                           .amsgrad = program->amsgrad,
                                           .centered = program->centered,
                                           .momentum = program->momentum};
}

static int build(struct fm_cuda_builder *b)
{
    int status = fm_cuda_choose(b);
    if (!status) status = fm_cuda_place_variables(b);
    if (!status) status = fm_cuda_build_calls(b);
    if (!status) status = fm_cuda_place_tiles(b);
    if (!status) status = fm_cuda_place_block(b);
    if (status) return status;
    set_update(b->plan, b->program);
    b->plan->hash = hash_of(b->device, b->plan);
    return 0;
}

static bool allocate(struct fm_cuda_builder *b)
{
    const struct fm_program *p = b->program;
    b->plan = fm_calloc(1, sizeof *b->plan);
    b->stands_for = fm_malloc((size_t)p->ntensors + 1, sizeof *b->stands_for);
    b->by_library = fm_calloc((size_t)p->nops + 1, sizeof *b->by_library);
    if (!b->plan || !b->stands_for || !b->by_library) return false;
    for (int t = 0; t < p->ntensors; t++) b->stands_for[t] = -1;
    b->plan->rooms = fm_calloc((size_t)p->ntensors + 1, sizeof *b->plan->rooms);
    b->plan->variables = fm_calloc((size_t)p->nvariables + 1, sizeof *b->plan->variables);
    b->plan->ntensors = p->ntensors;
    b->plan->nvariables = p->nvariables;
    b->plan->letters = p->letters;
    return b->plan->rooms && b->plan->variables;
}

static int make(struct fm_device *device, const struct fm_program *program, int64_t batch,
                const char *recorded, struct fm_cuda_plan **out, struct fm_error *err)
{
    if (batch < 1 || batch > MAX_BATCH)
        return fm_fail(err, FM_ENOMEM, "a GPU takes batches of 1 to %d examples: take a smaller batch_size",
                       MAX_BATCH);
    struct fm_cuda_builder b = {.device = device,
                                .program = program,
                                .recorded = recorded,
                                .chunk = chunk_of(device, batch),
                                .err = err};
    int status = allocate(&b) ? 0 : fm_fail_memory(err);
    if (!status) {
        b.plan->program_hash = program->hash;
        b.plan->batch = batch;
        status = build(&b);
    }
    fm_free(b.stands_for);
    fm_free(b.by_library);
    if (status) {
        plan_free(device, b.plan);
        return status;
    }
    *out = b.plan;
    return 0;
}

static struct fm_cuda_plan *find(const struct fm_device *device, const struct fm_program *program,
                                 int64_t batch)
{
    struct fm_cuda_plan *plan = device->plans;
    while (plan && (plan->retired || plan->program_hash != program->hash || plan->batch != batch))
        plan = plan->next;
    return plan;
}

int fm_cuda_plan_get(struct fm_device *device, const struct fm_program *program, int64_t batch,
                     const struct fm_cuda_plan **out, struct fm_error *err)
{
    struct fm_cuda_plan *plan = find(device, program, batch);
    if (!plan) {
        int status = fm_cuda_alive(device, err);
        if (!status) status = make(device, program, batch, NULL, &plan, err);
        if (status) return status;
        plan->next = device->plans;
        device->plans = plan;
    }
    *out = plan;
    return 0;
}

/* ---- the backend's questions about programs ---- */

/* Plans are kept because they are asked for again and again; to the caller the device is the same as before.
 */
static const struct fm_cuda_plan *plan_of(const struct fm_device *device, const struct fm_program *program,
                                          int64_t batch, struct fm_error *err)
{
    const struct fm_cuda_plan *plan = NULL;
    return fm_cuda_plan_get((struct fm_device *)device, program, batch, &plan, err) ? NULL : plan;
}

bool fm_cuda_supports(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                      char *why, size_t why_size)
{
    struct fm_error err = {0};
    if (plan_of(device, program, batch, &err)) return true;
    snprintf(why, why_size, "%s", err.text);
    return false;
}

int64_t fm_cuda_cost(const struct fm_device *device, const struct fm_program *program, int64_t batch)
{
    const struct fm_cuda_plan *plan = plan_of(device, program, batch, NULL);
    return plan ? plan->layout.bytes : INT64_MAX;
}

uint64_t fm_cuda_plan_hash(const struct fm_device *device, const struct fm_program *program, int64_t batch)
{
    const struct fm_cuda_plan *plan = plan_of(device, program, batch, NULL);
    return plan ? plan->hash : 0;
}

int fm_cuda_plan_choices(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                         struct fm_text *text, struct fm_error *err)
{
    const struct fm_cuda_plan *plan = NULL;
    const int status = fm_cuda_plan_get((struct fm_device *)device, program, batch, &plan, err);
    if (status) return status;
    if (plan->choices.size) fm_text_add_bytes(text, plan->choices.data, plan->choices.size);
    return text->failed ? fm_fail_memory(err) : 0;
}

int fm_cuda_plan_use(struct fm_device *device, const struct fm_program *program, int64_t batch,
                     const char *choices, struct fm_error *err)
{
    struct fm_cuda_plan *old = find(device, program, batch), *plan = NULL;
    const char *have = old && old->choices.size ? old->choices.data : "";
    if (old && !strcmp(have, choices)) return 0;
    int status = fm_cuda_alive(device, err);
    if (!status) status = make(device, program, batch, choices, &plan, err);
    if (status) return status;
    have = plan->choices.size ? plan->choices.data : "";
    if (strcmp(have, choices)) {
        plan_free(device, plan);
        return fm_fail(err, FM_EFILE,
                       "the journal's choice of algorithms is not one for this network and these libraries");
    }
    if (old) old->retired = true;
    plan->next = device->plans;
    device->plans = plan;
    return 0;
}

bool fm_cuda_plan_gap(const struct fm_cuda_plan *plan, int i, int64_t *offset, int64_t *bytes)
{
    /* Rooms are asked for in the order of their offsets. */
    int64_t end = plan->layout.tensors;
    for (int gap = 0;; gap++) {
        const struct fm_cuda_room *next = NULL;
        int64_t begin = plan->layout.bytes, size = 0;
        for (int t = 0; t < plan->ntensors; t++) {
            const struct fm_cuda_room *room = &plan->rooms[t];
            if (room->last < 0 || room->zero || room->room < end || room->room >= begin) continue;
            next = room;
            begin = room->room;
            size = room->bytes;
        }
        if (gap == i) {
            *offset = end;
            *bytes = begin - end;
            return *bytes > 0;
        }
        if (!next) return false;
        end = begin + size;
    }
}

bool fm_cuda_plan_part(const struct fm_cuda_plan *plan, int i, int64_t *offset, int64_t *bytes)
{
    const struct fm_cuda_layout *layout = &plan->layout;
    if (i < 2 * plan->nvariables) {
        const struct fm_cuda_variable *v = &plan->variables[i / 2];
        *offset = (i % 2 ? layout->gradients : layout->state) + v->offset * 4;
        *bytes = v->count * 4;
        return true;
    }
    i -= 2 * plan->nvariables;
    if (i < plan->ntensors) {
        *offset = plan->rooms[i].room;
        *bytes = plan->rooms[i].last < 0 ? 0 : plan->rooms[i].bytes;
        return true;
    }
    *offset = layout->workspace;
    *bytes = layout->workspace_bytes;
    return i == plan->ntensors;
}
