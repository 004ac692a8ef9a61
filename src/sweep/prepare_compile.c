/* From a trial's trees to its program. A grid has far more trials than networks: a trial whose network was
 * written down before, word for word, takes the program that was made of it then, and what a backend says of
 * a program at a batch size is asked once. */
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "sweep/prepare_private.h"

/* ---- an index: numbers by hash, several may have one hash ---- */

static void put(struct fm_index *index, uint64_t hash, int64_t number)
{
    size_t at = (size_t)hash & (index->capacity - 1);
    while (index->number[at] >= 0) at = (at + 1) & (index->capacity - 1);
    index->hash[at] = hash;
    index->number[at] = number;
}

static int grow(struct fm_index *index, struct fm_error *err)
{
    struct fm_index wider = {.capacity = index->capacity ? 2 * index->capacity : 64};
    wider.hash = fm_malloc(wider.capacity, sizeof *wider.hash);
    wider.number = fm_malloc(wider.capacity, sizeof *wider.number);
    if (!wider.hash || !wider.number) {
        fm_index_fini(&wider);
        return fm_fail_memory(err);
    }
    for (size_t i = 0; i < wider.capacity; i++) wider.number[i] = -1;
    for (size_t i = 0; i < index->capacity; i++)
        if (index->number[i] >= 0) put(&wider, index->hash[i], index->number[i]);
    wider.count = index->count;
    fm_index_fini(index);
    *index = wider;
    return 0;
}

static int add(struct fm_index *index, uint64_t hash, int64_t number, struct fm_error *err)
{
    if (2 * (index->count + 1) > index->capacity && grow(index, err)) return FM_ENOMEM;
    put(index, hash, number);
    index->count++;
    return 0;
}

/* The next number of that hash after place *at (start with *at = -1), or -1. */
static int64_t find(const struct fm_index *index, uint64_t hash, int64_t *at)
{
    if (!index->capacity) return -1;
    size_t mask = index->capacity - 1, place = *at < 0 ? (size_t)hash & mask : ((size_t)*at + 1) & mask;
    for (; index->number[place] >= 0; place = (place + 1) & mask)
        if (index->hash[place] == hash) return *at = (int64_t)place, index->number[place];
    return -1;
}

void fm_index_fini(struct fm_index *index)
{
    fm_free(index->hash);
    fm_free(index->number);
    *index = (struct fm_index){0};
}

/* ---- trees ---- */

static void hash_tree(struct fm_hash *h, const struct fm_node *node)
{
    const int64_t what[] = {node->kind, node->line, node->column, (int64_t)node->size, (int64_t)node->count};
    fm_hash_add(h, what, sizeof what);
    if (node->text) fm_hash_add(h, node->text, node->size);
    for (size_t i = 0; i < node->count; i++) {
        if (node->keys) hash_tree(h, node->keys[i]);
        hash_tree(h, node->items[i]);
    }
}

/* The same down to their places in the file, so that whatever is said of one could be said of the other. */
static bool same_tree(const struct fm_node *a, const struct fm_node *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->plain != b->plain || a->line != b->line || a->column != b->column ||
        a->file != b->file || a->size != b->size || a->count != b->count || !a->text != !b->text ||
        !a->keys != !b->keys || (a->text && memcmp(a->text, b->text, a->size)))
        return false;
    for (size_t i = 0; i < a->count; i++)
        if ((a->keys && !same_tree(a->keys[i], b->keys[i])) || !same_tree(a->items[i], b->items[i]))
            return false;
    return true;
}

/* What of the training a program depends on. */
static bool same_training(const struct fm_train_config *a, const struct fm_train_config *b)
{
    return a->loss.kind == b->loss.kind && a->loss.from_logits == b->loss.from_logits &&
           a->loss.label_smoothing == b->loss.label_smoothing && a->loss.delta == b->loss.delta &&
           a->loss.where == b->loss.where && a->optimizer.kind == b->optimizer.kind &&
           a->optimizer.momentum == b->optimizer.momentum && a->optimizer.nesterov == b->optimizer.nesterov &&
           a->optimizer.amsgrad == b->optimizer.amsgrad && a->optimizer.centered == b->optimizer.centered;
}

static uint64_t twin_hash(const struct fm_planned *planned)
{
    struct fm_hash h = {0};
    const int64_t what[] = {planned->view, planned->config.loss.kind, planned->config.optimizer.kind};
    fm_hash_add(&h, what, sizeof what);
    hash_tree(&h, planned->trial.model);
    return fm_hash_value(&h);
}

static const struct fm_planned *find_twin(const struct fm_compiler *c, const struct fm_planned *planned,
                                          uint64_t hash)
{
    int64_t at = -1, number;
    while ((number = find(&c->models, hash, &at)) >= 0) {
        const struct fm_planned *twin = &c->p->trials[number];
        /* One whose batch size the backend refused has none any more. */
        if (twin->network >= 0 && twin->view == planned->view &&
            same_training(&twin->config, &planned->config) &&
            same_tree(twin->trial.model, planned->trial.model))
            return twin;
    }
    return NULL;
}

/* ---- programs ---- */

/* Trials of one architecture share a program. Takes ownership of `program`. */
static int share_program(struct fm_compiler *c, struct fm_program *program, int64_t *index,
                         struct fm_error *err)
{
    struct fm_prepared *p = c->p;
    int64_t at = -1;
    *index = find(&c->programs, program->hash, &at);
    if (*index >= 0) {
        fm_program_free(program);
        return 0;
    }
    size_t capacity = (size_t)p->network_capacity;
    if (fm_grow(&p->networks, &capacity, (size_t)p->nnetworks + 1, sizeof *p->networks)) {
        fm_program_free(program);
        return fm_fail_memory(err);
    }
    p->network_capacity = (int64_t)capacity;
    p->networks[p->nnetworks] = (struct fm_network){.program = program};
    *index = p->nnetworks++;
    return add(&c->programs, program->hash, *index, err);
}

static int keep_rates(struct fm_planned *planned, int nrates, const double *rates, struct fm_error *err)
{
    planned->rates = fm_malloc((size_t)nrates, sizeof *planned->rates);
    if (!planned->rates) return fm_fail_memory(err);
    if (nrates) memcpy(planned->rates, rates, (size_t)nrates * sizeof *rates);
    return 0;
}

static void invalid(struct fm_planned *planned, const char *code, const char *reason)
{
    planned->network = -1;
    snprintf(planned->reason_code, sizeof planned->reason_code, "%s", code);
    snprintf(planned->reason, sizeof planned->reason, "%s", reason);
}

/* Compiles; a network that does not fit marks the trial, everything else is an error. */
static int compile(struct fm_compiler *c, struct fm_planned *planned, struct fm_error *err)
{
    struct fm_prepared *p = c->p;
    const struct fm_dataset *data = &p->data;
    struct fm_net_input input = {
        .rows = p->views[planned->view].length,
        .channels = data->letters ? data->alphabet : data->channels,
        .letters = data->letters != NULL,
        .nclasses = data->nclasses,
        .target_width = data->target_width,
        .distribution = data->distribution,
        .exact_classes = data->class_names != NULL && p->sweep->data.source != FM_SOURCE_NPY &&
                         p->sweep->data.source != FM_SOURCE_NPZ,
    };
    struct fm_program *program = NULL;
    struct fm_error shape = {0};
    int rc = fm_program_compile(&program, planned->trial.model, &planned->config, &input, &p->notes, &shape);
    if (rc == FM_ESHAPE) {
        char text[1024];
        invalid(planned, "shape", fm_error_print(&shape, text, sizeof text));
        return 0;
    }
    if (rc) {
        if (err && !err->code) *err = shape;
        return rc;
    }
    if (input.nclasses && !input.exact_classes)
        rc = fm_dataset_check_outputs(data, program->loss.outputs, err);
    if (!rc) rc = keep_rates(planned, program->nrates, program->rates, err);
    if (rc) return fm_program_free(program), rc;
    return share_program(c, program, &planned->network, err);
}

/* ---- what the backend says ---- */

static uint64_t ask_hash(const struct fm_planned *planned)
{
    struct fm_hash h = {0};
    const int64_t what[] = {planned->network, planned->config.batch_size};
    fm_hash_add(&h, what, sizeof what);
    return fm_hash_value(&h);
}

int fm_prepare_lost(int64_t batch, const struct fm_error *why, struct fm_error *err)
{
    return fm_fail(err, FM_EDEVICE,
                   "while it planned a network at batch_size %lld (%.600s): --kernels own does without the "
                   "libraries, which are tried then",
                   (long long)batch, why->text);
}

/* A plan that lost a device is made without what lost it: libraries' calls are tried while a plan is made. */
static int avoid_loss(struct fm_compiler *c, const struct fm_program *program, int64_t batch,
                      struct fm_error *err)
{
    const struct fm_prepared *p = c->p;
    for (int64_t i = 0; i < p->nlost_plans; i++) {
        if (p->lost_plans[i].network != program->hash || p->lost_plans[i].batch != batch) continue;
        c->p->own_plans++;
        return c->backend->plan_use ? c->backend->plan_use(c->device, program, batch, "", err) : 0;
    }
    return 0;
}

/* 0 when the backend refuses the plan as such. A device that was lost meanwhile supports nothing any more,
 * which says nothing about the network. */
static int check_lost(struct fm_compiler *c, const struct fm_program *program, int64_t batch,
                      struct fm_error *err)
{
    struct fm_report report;
    struct fm_error why = {0};
    if (c->backend->wait(c->device, 0, &report, &why) >= 0) return 0;
    c->p->lost_by = (struct fm_plan_key){.network = program->hash, .batch = batch};
    return fm_prepare_lost(batch, &why, err);
}

static int ask_backend(struct fm_compiler *c, struct fm_planned *planned, struct fm_error *err)
{
    struct fm_network *network = &c->p->networks[planned->network];
    const int64_t batch = planned->config.batch_size;
    uint64_t hash = ask_hash(planned);
    int64_t at = -1, number;
    while ((number = find(&c->asked, hash, &at)) >= 0) {
        const struct fm_planned *other = &c->p->trials[number];
        if (other->network != planned->network || other->config.batch_size != batch) continue;
        planned->bytes = other->bytes;
        planned->plan_hash = other->plan_hash;
        return 0;
    }
    char why[256] = "";
    int rc = avoid_loss(c, network->program, batch, err);
    if (rc) return rc;
    if (!c->backend->supports(c->device, network->program, batch, why, sizeof why)) {
        invalid(planned, "device", why);
        return check_lost(c, network->program, batch, err);
    }
    planned->bytes = c->backend->cost(c->device, network->program, batch);
    planned->plan_hash = c->backend->plan_hash(c->device, network->program, batch);
    if (planned->bytes > network->bytes) network->bytes = planned->bytes;
    return add(&c->asked, hash, planned - c->p->trials, err);
}

int fm_prepare_compile(struct fm_compiler *c, struct fm_planned *planned, struct fm_error *err)
{
    uint64_t hash = twin_hash(planned);
    const struct fm_planned *twin = find_twin(c, planned, hash);
    int rc;
    if (twin) {
        planned->network = twin->network;
        rc = keep_rates(planned, c->p->networks[twin->network].program->nrates, twin->rates, err);
    } else {
        rc = compile(c, planned, err);
        if (!rc && planned->network >= 0) rc = add(&c->models, hash, planned - c->p->trials, err);
    }
    if (rc || planned->network < 0 || !c->backend) return rc;
    return ask_backend(c, planned, err);
}

void fm_compiler_fini(struct fm_compiler *c)
{
    fm_index_fini(&c->models);
    fm_index_fini(&c->programs);
    fm_index_fini(&c->asked);
}
