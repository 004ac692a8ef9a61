/* --predictions: out-of-fold scores of the kept trials beside what the data say. */
#include "report/export.h"
#include "report/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "train/metrics.h"

/* One run whose scores are kept. */
struct scored {
    int64_t trial, seed, length, repeat, fold, width;
};

struct predictions {
    struct fm_reader reader;
    const struct fm_prepared *p;
    struct fm_pool pool;
    struct scored *runs;
    int64_t nruns;
    int64_t classes; /* 0 = numbers */
    int64_t columns; /* of scores */
    struct fm_rows csv;
};

/* The order of scores is that of the folds, so the folds must be the same ones. */
static int check_same(struct predictions *e, struct fm_error *err)
{
    struct fm_reader *reader = &e->reader;
    fm_reader_query(reader, "SELECT data_hash, fingerprint FROM sweep");
    if (!fm_reader_row(reader)) return fm_reader_status(reader, err);
    if ((uint64_t)fm_reader_integer(reader, 0) != e->p->data_hash)
        return fm_fail(err, FM_EFILE,
                       "the data changed since %s was written, so its predictions belong to other data",
                       reader->path);
    if ((uint64_t)fm_reader_integer(reader, 1) != e->p->fingerprint)
        return fm_fail(err, FM_EFILE,
                       "the sweep file changed since %s was written: put the old one back to export",
                       reader->path);
    return 0;
}

#define SCORED_RUNS                                                                                          \
    "FROM trial t JOIN run r USING(trial) WHERE t.listed AND t.kept AND EXISTS(SELECT 1 FROM score s WHERE " \
    "s.trial = r.trial AND s.repeat = r.repeat AND s.fold = r.fold)"

static int find_runs(struct predictions *e, struct fm_error *err)
{
    struct fm_reader *reader = &e->reader;
    int64_t n = fm_reader_count(reader, "SELECT count(*) " SCORED_RUNS);
    e->runs = fm_pool_alloc(&e->pool, (size_t)n, sizeof *e->runs);
    if (!e->runs) return fm_fail_memory(err);
    fm_reader_query(
        reader, "SELECT t.trial, t.seed, t.length, r.repeat, r.fold, (SELECT max(width) FROM score s WHERE "
                "s.trial = r.trial AND s.repeat = r.repeat AND s.fold = r.fold) " SCORED_RUNS
                " ORDER BY t.trial, r.repeat, r.fold");
    while (e->nruns < n && fm_reader_row(reader)) {
        struct scored *run = &e->runs[e->nruns++];
        int64_t *fields[] = {&run->trial, &run->seed, &run->length, &run->repeat, &run->fold, &run->width};
        for (int i = 0; i < 6; i++) *fields[i] = fm_reader_integer(reader, i);
        if (run->width > e->columns) e->columns = run->width;
    }
    int rc = fm_reader_status(reader, err);
    if (!rc && !n)
        rc = fm_fail(
            err, FM_EUSAGE,
            "%s holds no predictions: no trial is complete yet, or keep.predictions is off in the sweep file",
            reader->path);
    if (e->classes > e->columns) e->columns = e->classes;
    return rc;
}

static void write_head(struct predictions *e)
{
    static const char *const head[] = {"trial", "repeat", "fold", "record", "position"};
    const struct fm_dataset *data = &e->p->data;
    char number[24];
    for (int i = 0; i < 5; i++) fm_rows_text(&e->csv, head[i]);
    if (!data->distribution && (e->classes || data->target_width <= 1))
        fm_rows_text(&e->csv, "y");
    else
        for (int64_t k = 0; k < data->target_width; k++) {
            snprintf(number, sizeof number, "%" PRId64, k);
            fm_rows_name(&e->csv, "y_", number);
        }
    if (!e->classes && e->columns == 1)
        fm_rows_text(&e->csv, "p");
    else
        for (int64_t k = 0; k < e->columns; k++) {
            snprintf(number, sizeof number, "%" PRId64, k);
            fm_rows_name(&e->csv, "p_",
                         data->class_names && k < data->nclasses ? data->class_names[k] : number);
        }
    fm_rows_end(&e->csv);
}

static void write_target(struct predictions *e, const struct fm_view *view, int64_t example)
{
    const struct fm_dataset *data = &e->p->data;
    if (e->classes && !data->distribution) {
        char number[24];
        uint32_t class = fm_metrics_class(view, example);
        snprintf(number, sizeof number, "%" PRIu32, class);
        fm_rows_text(&e->csv, data->class_names ? data->class_names[class] : number);
        return;
    }
    for (int64_t k = 0; k < view->width; k++) fm_rows_float(&e->csv, view->values[example * view->width + k]);
}

/* One score of two classes is the second one's. */
static void write_scores(struct predictions *e, const char *row, int64_t width)
{
    float score;
    if (width == 1 && e->classes == 2) {
        memcpy(&score, row, sizeof score);
        fm_rows_float(&e->csv, 1.0f - score);
        fm_rows_float(&e->csv, score);
        width = 2;
    } else {
        for (int64_t k = 0; k < width; k++) {
            memcpy(&score, row + (size_t)k * sizeof score, sizeof score);
            fm_rows_float(&e->csv, score);
        }
    }
    for (int64_t k = width; k < e->columns; k++) fm_rows_text(&e->csv, "");
}

static const struct fm_view *find_view(const struct fm_prepared *p, int64_t length)
{
    for (int64_t i = 0; i < p->nviews; i++)
        if (p->views[i].length == length) return &p->views[i];
    return NULL;
}

static const struct fm_fold *find_fold(const struct fm_prepared *p, const struct scored *run)
{
    for (int64_t s = 0; s < p->nsplits; s++) {
        const struct fm_split *split = &p->splits[s];
        for (int64_t f = 0; split->seed == run->seed && f < split->repeats * split->folds; f++)
            if (split->fold[f].repeat == run->repeat && split->fold[f].fold == run->fold)
                return &split->fold[f];
    }
    return NULL;
}

static void write_row(struct predictions *e, const struct scored *run, const struct fm_view *view,
                      int64_t example, const char *scores)
{
    char id[24];
    struct fm_place place;
    fm_place_of(view, example, &place);
    fm_rows_integer(&e->csv, run->trial);
    fm_rows_integer(&e->csv, run->repeat);
    fm_rows_integer(&e->csv, run->fold);
    fm_rows_text(&e->csv, fm_dataset_record_id(view->data, place.record, id, sizeof id));
    fm_rows_integer(&e->csv, place.position);
    write_target(e, view, example);
    write_scores(e, scores, run->width);
    fm_rows_end(&e->csv);
}

static int write_run(struct predictions *e, const struct scored *run, struct fm_error *err)
{
    const struct fm_view *view = find_view(e->p, run->length);
    const struct fm_fold *fold = find_fold(e->p, run);
    struct fm_reader *reader = &e->reader;
    int64_t seen = 0, example;
    struct fm_cursor cursor = {0};
    bool fits = view && fold;
    fm_reader_query(reader,
                    "SELECT n, width, blob FROM score WHERE trial = %lld AND repeat = %lld AND fold = %lld "
                    "ORDER BY chunk",
                    (long long)run->trial, (long long)run->repeat, (long long)run->fold);
    while (fits && !e->csv.failed && fm_reader_row(reader)) {
        int64_t n = fm_reader_integer(reader, 0), bytes = sqlite3_column_bytes(reader->statement, 2);
        const char *blob = sqlite3_column_blob(reader->statement, 2);
        fits = fm_reader_integer(reader, 1) == run->width &&
               bytes / (int64_t)sizeof(float) == n * run->width && n <= fold->val.count - seen;
        for (int64_t i = 0;
             fits && !e->csv.failed && i < n && fm_indexset_next(&fold->val, &cursor, &example); i++)
            write_row(e, run, view, example, blob + (size_t)(i * run->width) * sizeof(float));
        seen += n;
    }
    int rc = fm_reader_status(reader, err);
    if (!rc && !e->csv.failed && (!fits || seen != fold->val.count))
        rc = fm_fail(err, FM_EIO, "the predictions of trial %" PRId64 " in %s do not fit its folds",
                     run->trial, reader->path);
    return rc;
}

int fm_export_predictions(const char *path, const struct fm_prepared *p, const struct fm_writer *out,
                          struct fm_error *err)
{
    struct predictions e = {.p = p, .classes = fm_metrics_classes(&p->data)};
    int rc = fm_reader_open(&e.reader, path, err);
    if (rc) return rc;
    fm_rows_init(&e.csv, out);
    rc = check_same(&e, err);
    if (!rc) rc = find_runs(&e, err);
    if (!rc) write_head(&e);
    for (int64_t i = 0; !rc && !e.csv.failed && i < e.nruns; i++) rc = write_run(&e, &e.runs[i], err);
    struct fm_error own = {0};
    int written = fm_rows_fini(&e.csv, rc ? &own : err);
    if (!rc) rc = written;
    fm_pool_fini(&e.pool);
    fm_reader_close(&e.reader);
    return rc;
}
