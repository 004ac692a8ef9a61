/* The one upload. Everything of a data set lies in one device allocation a card: first the sizes are added
 * up, so that what does not fit is refused by arithmetic, then the pieces go up one behind the other. Several
 * window lengths share the series, and their targets where these are equal. */
#include "cuda.h"

#include <string.h>

#include "base/memory.h"
#include "range.h"

struct piece {
    const void *from;
    int64_t bytes, offset;
    const void **where; /* a pointer that will hold the device address */
};

struct upload {
    struct piece *pieces;
    size_t count, capacity;
    int64_t total;
    bool failed;
};

static void add(struct upload *u, const void *from, int64_t bytes, const void **where)
{
    *where = NULL;
    if (!from || bytes <= 0) return;
    if (fm_grow(&u->pieces, &u->capacity, u->count + 1, sizeof *u->pieces)) {
        u->failed = true;
        return;
    }
    u->pieces[u->count++] = (struct piece){from, bytes, u->total, where};
    u->total += fm_cuda_round_up(bytes, FM_CUDA_ALIGN);
}
#define ADD(u, from, bytes, where) add(u, from, (int64_t)(bytes), (const void **)(where))

static int64_t blocks_of(const struct fm_indexset *set)
{
    const int64_t words = (set->nbits + 63) / 64;
    return (words + FM_INDEXSET_BLOCK - 1) / FM_INDEXSET_BLOCK;
}

static void add_set(struct upload *u, const struct fm_indexset *set, struct fm_cuda_set *out)
{
    *out = (struct fm_cuda_set){.count = set->count,
                                .nruns = set->bits ? 0 : set->nruns,
                                .origin = set->origin,
                                .stride = set->stride,
                                .nbits = set->nbits,
                                .pace = set->pace};
    if (set->bits) {
        ADD(u, set->bits, (set->nbits + 63) / 64 * 8, &out->bits);
        ADD(u, set->blocks, blocks_of(set) * (int64_t)sizeof *set->blocks, &out->blocks);
    } else {
        ADD(u, set->runs, set->nruns * (int64_t)sizeof *set->runs, &out->runs);
    }
}

/* What all views have in common. */
static void add_series(struct upload *u, const struct fm_resident *r, struct fm_cuda_data *out)
{
    const struct fm_dataset *d = r->data;
    *out = (struct fm_cuda_data){.channels = d->channels,
                                 .nrecords = d->nrecords,
                                 .head = d->head,
                                 .wraps = r->examples->edge == FM_EDGE_WRAP,
                                 .nclasses = d->nclasses,
                                 .weights_per_record = d->weights_per_record};
    if (d->values) ADD(u, d->values, d->positions * d->channels * (int64_t)sizeof(float), &out->values);
    if (d->letters) ADD(u, d->letters, d->positions, &out->letters);
    ADD(u, d->starts, (d->nrecords + 1) * 8, &out->starts);
    if (d->lengths) ADD(u, d->lengths, d->nrecords * 8, &out->lengths);
    if (d->weights)
        ADD(u, d->weights, (d->weights_per_record ? d->nrecords : d->positions) * (int64_t)sizeof(float),
            &out->weights);
    add_set(u, &r->examples->anchors, &out->anchors);
}

static void add_targets(struct upload *u, const struct fm_view *view, int64_t examples,
                        struct fm_cuda_data *out)
{
    out->class_bits = view->classes.bits;
    out->target_width = view->width;
    if (view->classes.bits) ADD(u, view->classes.data, fm_packed_bytes(&view->classes), &out->classes);
    if (view->values) ADD(u, view->values, examples * view->width * (int64_t)sizeof(float), &out->targets);
}

static void add_fold(struct upload *u, const struct fm_fold *fold, int64_t channels, struct fm_cuda_fold *out)
{
    add_set(u, &fold->train, &out->part[FM_PART_TRAIN]);
    add_set(u, &fold->inner, &out->part[FM_PART_INNER]);
    add_set(u, &fold->val, &out->part[FM_PART_VAL]);
    ADD(u, fold->shift, channels * (int64_t)sizeof(float), &out->shift);
    ADD(u, fold->factor, channels * (int64_t)sizeof(float), &out->factor);
}

static void resident_fini(struct fm_cuda_resident *own)
{
    for (int64_t s = 0; own->folds && s < own->nsplits; s++) fm_free(own->folds[s]);
    fm_free(own->folds);
    fm_free(own->views);
    *own = (struct fm_cuda_resident){0};
}

static bool resident_init(struct fm_cuda_resident *own, const struct fm_resident *r)
{
    *own = (struct fm_cuda_resident){.nviews = r->nviews, .nsplits = r->nsplits};
    own->views = fm_calloc((size_t)r->nviews, sizeof *own->views);
    own->folds = fm_calloc((size_t)r->nsplits, sizeof *own->folds);
    bool ok = own->views && own->folds;
    for (int64_t s = 0; ok && s < r->nsplits; s++) {
        own->folds[s] = fm_calloc((size_t)(r->splits[s].repeats * r->splits[s].folds), sizeof *own->folds[s]);
        ok = own->folds[s] != NULL;
    }
    return ok;
}

static int64_t same_targets(const struct fm_resident *r, int64_t view)
{
    for (int64_t v = 0; v < view; v++)
        if (fm_view_same_targets(&r->views[v], &r->views[view])) return v;
    return view;
}

static void list_pieces(struct upload *u, const struct fm_resident *r, struct fm_cuda_resident *own)
{
    add_series(u, r, &own->views[0]);
    for (int64_t v = 0; v < r->nviews; v++)
        if (same_targets(r, v) == v) add_targets(u, &r->views[v], r->examples->count, &own->views[v]);
    for (int64_t s = 0; s < r->nsplits; s++)
        for (int64_t f = 0; f < r->splits[s].repeats * r->splits[s].folds; f++)
            add_fold(u, &r->splits[s].fold[f], r->data->channels, &own->folds[s][f]);
}

/* The pieces' addresses are known: the other views get their copies of what is shared. */
static void complete_views(const struct fm_resident *r, struct fm_cuda_resident *own)
{
    for (int64_t v = 0; v < r->nviews; v++) {
        const struct fm_cuda_data *targets = &own->views[same_targets(r, v)];
        struct fm_cuda_data whole = own->views[0];
        whole.class_bits = targets->class_bits;
        whole.classes = targets->classes;
        whole.targets = targets->targets;
        whole.target_width = targets->target_width;
        whole.length = r->views[v].length;
        whole.lead = r->views[v].lead;
        own->views[v] = whole;
    }
}

static int check_room(struct fm_device *device, struct fm_card *card, int64_t bytes, struct fm_error *err)
{
    int64_t room;
    char need[FM_BYTES_TEXT], have[FM_BYTES_TEXT], all[FM_BYTES_TEXT];
    const int status = fm_card_room(device, card, &room, err);
    if (status || bytes <= room) return status;
    return fm_fail(
        err, FM_ENOMEM,
        "the data take %s on the card, and of its %s %s can be used: take a larger card, fewer channels or "
        "records, or --device cpu",
        fm_show_bytes(bytes, need), fm_show_bytes(card->total, all), fm_show_bytes(room, have));
}

static int upload_all(struct fm_device *device, struct fm_card *card, struct upload *u,
                      struct fm_cuda_resident *own, struct fm_error *err)
{
    int status = check_room(device, card, u->total, err);
    if (!status)
        status = fm_cuda_check(device, cudaMalloc(&own->memory, (size_t)(u->total > 0 ? u->total : 1)), err,
                               "make room for the data");
    own->bytes = u->total;
    for (size_t i = 0; !status && i < u->count; i++) {
        const struct piece *piece = &u->pieces[i];
        *piece->where = (char *)own->memory + piece->offset;
        status = fm_card_to_device(device, card, (char *)own->memory + piece->offset, piece->from,
                                   piece->bytes, err);
    }
    return status ? status : fm_card_settle(device, card, err);
}

static void forget(struct fm_device *device, struct fm_card *card, struct fm_cuda_resident *own)
{
    if (own->memory) {
        FM_CUDA_NOTED(device, cudaSetDevice(card->number));
        FM_CUDA_NOTED(device, cudaFree(own->memory));
    }
    resident_fini(own);
}

static int load_card(struct fm_device *device, struct fm_card *card, const struct fm_resident *r,
                     struct fm_cuda_resident *own, struct fm_error *err)
{
    struct upload u = {0};
    int status = fm_card_use(device, card, err);
    if (status) return status;
    if (!resident_init(own, r)) {
        resident_fini(own);
        return fm_fail_memory(err);
    }
    list_pieces(&u, r, own);
    status = u.failed ? fm_fail_memory(err) : upload_all(device, card, &u, own, err);
    fm_free(u.pieces);
    if (status)
        forget(device, card, own);
    else
        complete_views(r, own);
    return status;
}

/* A free number, with room for it on every card. */
static int take_number(struct fm_device *device, int *number, struct fm_error *err)
{
    int n = 0;
    while (n < device->nresident && device->resident[n].data) n++;
    *number = n;
    if (n < device->nresident) return 0;
    struct fm_resident *grown = fm_realloc(device->resident, (size_t)n + 1, sizeof *grown);
    if (!grown) return fm_fail_memory(err);
    device->resident = grown;
    for (int i = 0; i < device->ncards; i++) {
        struct fm_cuda_resident *own = fm_realloc(device->cards[i].resident, (size_t)n + 1, sizeof *own);
        if (!own) return fm_fail_memory(err);
        own[n] = (struct fm_cuda_resident){0};
        device->cards[i].resident = own;
    }
    grown[n] = (struct fm_resident){0};
    device->nresident = n + 1;
    return 0;
}

int fm_cuda_load(struct fm_device *device, const struct fm_resident *resident, int *dataset,
                 struct fm_error *err)
{
    int number, status = fm_cuda_alive(device, err);
    if (!status) status = take_number(device, &number, err);
    if (status) return status;
    FM_RANGE_BEGIN("load");
    for (int i = 0; !status && i < device->ncards; i++)
        status = load_card(device, &device->cards[i], resident, &device->cards[i].resident[number], err);
    FM_RANGE_END();
    if (status) {
        for (int i = 0; i < device->ncards; i++)
            forget(device, &device->cards[i], &device->cards[i].resident[number]);
        return status;
    }
    device->resident[number] = *resident;
    *dataset = number;
    return 0;
}

void fm_cuda_unload(struct fm_device *device, int dataset)
{
    if (dataset < 0 || dataset >= device->nresident || !device->resident[dataset].data) return;
    for (int i = 0; i < device->ncards; i++)
        forget(device, &device->cards[i], &device->cards[i].resident[dataset]);
    device->resident[dataset] = (struct fm_resident){0};
}
