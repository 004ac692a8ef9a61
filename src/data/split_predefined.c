/* Folds that somebody else made: a fold file, a column, or an array. */
#include "data/deal.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/foldfile.h"
#include "data/pieces.h"

#include <stdlib.h>
#include <string.h>

static const int32_t not_listed = INT32_MIN;

static int copy_names(struct fm_deal *deal, const char *const *names, int64_t count, struct fm_error *err)
{
    deal->folds = count;
    deal->names = fm_calloc((size_t)count, sizeof *deal->names);
    if (!deal->names) return fm_fail_memory(err);
    for (int64_t f = 0; f < count; f++) {
        deal->names[f] = fm_strdup(names[f]);
        if (!deal->names[f]) return fm_fail_memory(err);
    }
    return 0;
}

/* ---- a column: read at the anchor ---- */

static int deal_column(const struct fm_members *members, struct fm_deal *deal, struct fm_error *err)
{
    const struct fm_dataset *data = members->view->data;
    int status = copy_names(deal, (const char *const *)data->fold_names, data->nfolds, err);
    if (status != 0) return status;
    if (data->fold_per_record) {
        deal->of_record = fm_malloc((size_t)data->nrecords, sizeof *deal->of_record);
        if (!deal->of_record) return fm_fail_memory(err);
        memcpy(deal->of_record, data->fold, (size_t)data->nrecords * sizeof *deal->of_record);
        return 0;
    }
    deal->of_member = fm_malloc((size_t)members->n, sizeof *deal->of_member);
    if (!deal->of_member) return fm_fail_memory(err);
    struct fm_piece_walk walk;
    struct fm_piece piece;
    int64_t j = 0;
    fm_piece_walk_init(&walk, data, members->view->examples, members->among);
    while (fm_piece_walk_next(&walk, &piece)) {
        const int32_t *fold = data->fold + data->starts[piece.record] + piece.anchor;
        for (int64_t i = 0; i < piece.count; i++) deal->of_member[j++] = fold[i * piece.step];
    }
    return 0;
}

/* ---- a file by record ---- */

/* Names under which a record may be listed: its id, and what stands before "#2" where Foldmill counted it up.
 */
struct alias {
    const char *text;
    size_t size;
    int64_t record;
};

static int by_alias(const void *a, const void *b)
{
    const struct alias *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->size < y->size ? x->size : y->size);
    if (order != 0) return order;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    return 0;
}

struct aliases {
    struct alias *items;
    size_t count;
    char *texts; /* of records that have only numbers */
};

static void add_alias(struct aliases *a, const char *text, size_t size, int64_t record)
{
    a->items[a->count++] = (struct alias){text, size, record};
}

static int aliases_init(struct aliases *a, const struct fm_dataset *data, struct fm_error *err)
{
    size_t n = (size_t)data->nrecords, room = 24;
    *a = (struct aliases){.items = fm_malloc(2 * n, sizeof *a->items)};
    if (!data->record_ids) a->texts = fm_malloc(n, room);
    if (!a->items || (!data->record_ids && !a->texts)) return fm_fail_memory(err);
    for (int64_t r = 0; r < data->nrecords; r++) {
        const char *id = data->record_ids ? data->record_ids[r] : NULL;
        if (!id) id = fm_dataset_record_id(data, r, a->texts + (size_t)r * room, room);
        size_t size = strlen(id);
        add_alias(a, id, size, r);
        const char *mark = strrchr(id, '#');
        if (mark && mark > id && mark[1] != '\0' && mark[1 + strspn(mark + 1, "0123456789")] == '\0')
            add_alias(a, id, (size_t)(mark - id), r);
    }
    qsort(a->items, a->count, sizeof *a->items, by_alias);
    return 0;
}

static void aliases_fini(struct aliases *a)
{
    fm_free(a->items);
    fm_free(a->texts);
}

/* The first alias that is not smaller than the key. */
static size_t lower_bound(const struct aliases *a, const struct alias *key)
{
    size_t low = 0, high = a->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_alias(&a->items[middle], key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int unknown_record(const struct aliases *a, const char *path, const struct fm_foldfile_row *row,
                          struct fm_error *err)
{
    char shown[80], known[80];
    const char **names = fm_malloc(a->count, sizeof *names), *nearest = NULL;
    char *texts = NULL;
    size_t size = 0, at = 0;
    for (size_t i = 0; i < a->count; i++) size += a->items[i].size + 1;
    texts = fm_malloc(size, 1);
    if (names && texts) {
        for (size_t i = 0; i < a->count; i++) {
            names[i] = texts + at;
            memcpy(texts + at, a->items[i].text, a->items[i].size);
            at += a->items[i].size;
            texts[at++] = '\0';
        }
        nearest = fm_nearest(row->key, names, a->count);
    }
    fm_show(row->key, strlen(row->key), shown, sizeof shown);
    int status;
    if (nearest) {
        fm_show(nearest, strlen(nearest), known, sizeof known);
        status = fm_fail_at(err, FM_EFILE, path, row->line, 0,
                            "the data have no record '%s'; did you mean '%s'?", shown, known);
    } else {
        status = fm_fail_at(err, FM_EFILE, path, row->line, 0, "the data have no record '%s'", shown);
    }
    fm_free(names);
    fm_free(texts);
    return status;
}

static int assign_record(struct fm_deal *deal, const struct aliases *a, const char *path,
                         const struct fm_foldfile_row *row, struct fm_error *err)
{
    struct alias key = {row->key, strlen(row->key), 0};
    size_t i = lower_bound(a, &key);
    if (i == a->count || by_alias(&a->items[i], &key) != 0) return unknown_record(a, path, row, err);
    for (; i < a->count && by_alias(&a->items[i], &key) == 0; i++) {
        int32_t *part = &deal->of_record[a->items[i].record];
        if (*part != not_listed) {
            char shown[80];
            return fm_fail_at(err, FM_EFILE, path, row->line, 0, "the record '%s' is listed a second time",
                              fm_show(row->key, key.size, shown, sizeof shown));
        }
        *part = row->part;
    }
    return 0;
}

static int check_records(const struct fm_members *members, struct fm_deal *deal, const char *path,
                         struct fm_error *err)
{
    const struct fm_dataset *data = members->view->data;
    for (int64_t r = 0; r < data->nrecords; r++) {
        if (deal->of_record[r] != not_listed) continue;
        int64_t first, count;
        fm_members_of_record(members, r, &first, &count);
        deal->of_record[r] = FM_NOWHERE;
        if (count == 0) continue;
        char number[24], shown[80];
        const char *id = fm_dataset_record_id(data, r, number, sizeof number);
        return fm_fail_at(err, FM_EFILE, path, 0, 0,
                          "the record '%s' is not listed; add it, with fold -1 if it always trains",
                          fm_show(id, strlen(id), shown, sizeof shown));
    }
    return 0;
}

static int deal_by_record(const struct fm_foldfile *file, const char *path, const struct fm_members *members,
                          struct fm_deal *deal, struct fm_error *err)
{
    const struct fm_dataset *data = members->view->data;
    struct aliases a;
    int status = aliases_init(&a, data, err);
    if (status == 0) {
        deal->of_record = fm_malloc((size_t)data->nrecords, sizeof *deal->of_record);
        if (!deal->of_record) status = fm_fail_memory(err);
    }
    for (int64_t r = 0; status == 0 && r < data->nrecords; r++) deal->of_record[r] = not_listed;
    for (size_t i = 0; status == 0 && i < file->nrows; i++)
        status = assign_record(deal, &a, path, &file->rows[i], err);
    if (status == 0) status = check_records(members, deal, path, err);
    aliases_fini(&a);
    return status;
}

/* ---- a file by example ---- */

static int deal_by_example(const struct fm_foldfile *file, const char *path, const struct fm_members *members,
                           struct fm_deal *deal, struct fm_error *err)
{
    char shown[80];
    deal->of_member = fm_malloc((size_t)members->n, sizeof *deal->of_member);
    if (!deal->of_member) return fm_fail_memory(err);
    for (int64_t j = 0; j < members->n; j++) deal->of_member[j] = not_listed;
    for (size_t i = 0; i < file->nrows; i++) {
        const struct fm_foldfile_row *row = &file->rows[i];
        int64_t example;
        fm_show(row->key, strlen(row->key), shown, sizeof shown);
        if (!fm_parse_integer(row->key, strlen(row->key), &example) || example < 0 || example >= members->n)
            return fm_fail_at(err, FM_EFILE, path, row->line, 0,
                              "'%s' is not an example: they are numbered 0..%lld", shown,
                              (long long)members->n - 1);
        if (deal->of_member[example] != not_listed)
            return fm_fail_at(err, FM_EFILE, path, row->line, 0, "the example %s is listed a second time",
                              shown);
        deal->of_member[example] = row->part;
    }
    for (int64_t j = 0; j < members->n; j++) {
        if (deal->of_member[j] == not_listed)
            return fm_fail_at(err, FM_EFILE, path, 0, 0,
                              "the example %lld is not listed; add it, with fold -1 if it always trains",
                              (long long)j);
    }
    return 0;
}

static int deal_file(const struct fm_deal_request *request, const struct fm_members *members,
                     const struct fm_data_config *config, struct fm_deal *deal, struct fm_error *err)
{
    struct fm_text path = {0};
    const char *name = request->cv->file->text;
    if (name[0] != '/' && config->folder && strcmp(config->folder, ".") != 0) {
        fm_text_add_string(&path, config->folder);
        fm_text_add_string(&path, "/");
    }
    fm_text_add_string(&path, name);
    if (path.failed || !path.data) {
        fm_text_fini(&path);
        return fm_fail_memory(err);
    }
    struct fm_foldfile file;
    int status = fm_foldfile_read(&file, path.data, err);
    if (status == 0) {
        status = copy_names(deal, file.names, file.nfolds, err);
        if (status == 0)
            status = file.by_example ? deal_by_example(&file, path.data, members, deal, err)
                                     : deal_by_record(&file, path.data, members, deal, err);
        fm_foldfile_fini(&file);
    }
    fm_text_fini(&path);
    return status;
}

int fm_deal_predefined(const struct fm_deal_request *request, const struct fm_members *members,
                       const struct fm_data_config *config, struct fm_deal *deal, struct fm_error *err)
{
    int status;
    if (request->cv->file) {
        status = deal_file(request, members, config, deal, err);
    } else if (members->view->data->fold) {
        status = deal_column(members, deal, err);
    } else {
        return fm_deal_fail(request, err, "predefined folds need cv.file, cv.column or data.fold");
    }
    if (status == 0 && deal->folds == 0)
        return fm_deal_fail(request, err, "no fold is named: all examples have -1, always training");
    if (status == 0 && deal->folds > FM_MOST_FOLDS)
        return fm_deal_fail(request, err, "%lld folds are named, more than %d", (long long)deal->folds,
                            FM_MOST_FOLDS);
    return status;
}
