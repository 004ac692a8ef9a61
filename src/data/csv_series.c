/* CSV rows to records of a numeric series: one row a position. A record ends where the record column (or,
 * without one, the group) changes, at a gap or disorder in time, where a row is dropped, and at the file's
 * end. */
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/cells.h"
#include "data/columns.h"
#include "data/fill.h"
#include "data/load.h"
#include "data/steps.h"
#include "data/time.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DISTINCT_STEPS = 1 << 20 };

/* Something that cut records: how often, and where first. */
struct cuts {
    int64_t count;
    int64_t line;
    char file[256];
};

struct series {
    struct fm_build build;
    struct fm_csv csv;
    struct fm_columns columns;
    struct fm_filler filler;
    struct fm_keep keep;
    const struct fm_data_file *file;
    double *row;
    struct fm_text id, group; /* of the current record, as written */
    bool in_file;             /* a row of this file was seen */
    bool cut;                 /* the next row that is kept begins a record */
    struct fm_time_reader times;
    double last_time, longest_step;
    bool has_last_time;
    int64_t steps;
    struct cuts gaps, disorders, dropped;
};

static void count_cut(struct cuts *cuts, const struct fm_csv *csv)
{
    if (cuts->count++ > 0) return;
    cuts->line = csv->line;
    snprintf(cuts->file, sizeof cuts->file, "%s", csv->path);
}

/* The record ends before the current row; what is kept next begins another. */
static int end_record(struct series *s, struct fm_error *err)
{
    int64_t channel, line;
    s->cut = true;
    if (!fm_filler_end(&s->filler, &channel, &line)) {
        return fm_fail_at(err, FM_EFILE, s->csv.path, line, 0,
                          "%s is missing, and its record has no value after it to interpolate to",
                          s->build.data->channel_names[channel]);
    }
    return fm_cell_place(&s->csv, fm_build_end(&s->build, err), err);
}

static int keep_text(struct fm_text *text, struct fm_cell cell, struct fm_error *err)
{
    text->size = 0;
    fm_text_add_bytes(text, cell.text, cell.size);
    return text->failed ? fm_fail_memory(err) : 0;
}

/* Ends the record when the row belongs to another one. */
static int follow_record(struct series *s, struct fm_error *err)
{
    int record = s->columns.record, group = s->columns.group, rc = 0;
    struct fm_cell id = {fm_file_base(s->csv.path), strlen(fm_file_base(s->csv.path))}, of_group = {NULL, 0};
    if (record >= 0) rc = fm_cell_name(&s->csv, record, "record", &id, err);
    if (rc == 0 && group >= 0) rc = fm_cell_name(&s->csv, group, "group", &of_group, err);
    if (rc != 0) return rc;
    bool other_id = !s->in_file || (record >= 0 && !fm_cell_is(id, &s->id));
    bool other_group = !s->in_file || (group >= 0 && !fm_cell_is(of_group, &s->group));
    if (other_group && !other_id && record >= 0) {
        char shown[64], shown_id[64];
        return fm_csv_fail(&s->csv, (size_t)group, err, "the group changes to '%s' inside record '%s'",
                           fm_show(of_group.text, of_group.size, shown, sizeof shown),
                           fm_show(id.text, id.size, shown_id, sizeof shown_id));
    }
    if (!other_id && !other_group) return 0;
    rc = end_record(s, err);
    if (rc == 0) rc = keep_text(&s->id, id, err);
    if (rc == 0 && group >= 0) rc = keep_text(&s->group, of_group, err);
    s->has_last_time = false;
    s->in_file = true;
    return rc;
}

/* Ends the record where time has a gap, stands still or goes back. */
static int follow_time(struct series *s, double *time, struct fm_error *err)
{
    size_t field = (size_t)s->columns.time;
    struct fm_cell cell = fm_cell_at(&s->csv, s->columns.time);
    char shown[64];
    const char *wrong = fm_time_read(&s->times, cell.text, cell.size, time);
    fm_show(cell.text, cell.size, shown, sizeof shown);
    if (wrong) return fm_csv_fail(&s->csv, field, err, "time: '%s' %s", shown, wrong);
    double step = *time - s->last_time;
    bool known = s->has_last_time;
    s->last_time = *time;
    s->has_last_time = true;
    if (!known) return 0;
    s->steps++;
    if (step > 0 && step <= s->longest_step) return 0;
    if (step <= 0 && s->build.config->disorder == FM_DISORDER_ERROR) {
        return fm_csv_fail(&s->csv, field, err,
                           "time: '%s' %s (disorder: split would start a new record at such places)", shown,
                           step == 0 ? "is the time of the row before" : "goes back");
    }
    count_cut(step > 0 ? &s->gaps : &s->disorders, &s->csv);
    return end_record(s, err);
}

static int read_features(struct series *s, struct fm_error *err)
{
    for (size_t i = 0; i < s->columns.nfeatures; i++) {
        int field = s->columns.feature[i];
        struct fm_cell cell = fm_cell_at(&s->csv, field);
        if (fm_csv_number(&s->csv, cell.text, cell.size, &s->row[i]) && !isinf((float)s->row[i])) continue;
        if (fm_csv_missing(cell.text, cell.size)) {
            s->row[i] = NAN;
            continue;
        }
        return fm_cell_number(&s->csv, field, s->build.data->channel_names[i], &s->row[i], err);
    }
    return 0;
}

static int read_target(struct series *s, struct fm_position *p, struct fm_error *err)
{
    int field = s->columns.target;
    struct fm_cell cell = fm_cell_at(&s->csv, field);
    if (s->build.numbers) {
        double value;
        if (s->build.config->target.other == FM_OTHER_SKIP && fm_csv_missing(cell.text, cell.size)) {
            p->target = NAN;
            return 0;
        }
        int rc = fm_cell_number(&s->csv, field, "target", &value, err);
        p->target = (float)value;
        return rc;
    }
    const char *wrong = fm_labels_code(&s->build.labels, cell.text, cell.size, &p->class_code);
    if (!wrong) return 0;
    if (wrong == fm_labels_no_memory) return fm_fail_memory(err);
    char shown[64];
    return fm_csv_fail(&s->csv, (size_t)field, err, "target: '%s' %s",
                       fm_show(cell.text, cell.size, shown, sizeof shown), wrong);
}

/* Everything of a row but its features. */
static int read_rest(struct series *s, struct fm_position *p, struct fm_error *err)
{
    const struct fm_columns *c = &s->columns;
    int rc = read_target(s, p, err);
    if (rc == 0 && c->mask >= 0) p->mask = fm_keep_fits(&s->keep, &s->csv, fm_cell_at(&s->csv, c->mask));
    if (rc == 0 && c->weight >= 0) rc = fm_cell_weight(&s->csv, c->weight, &p->weight, err);
    if (rc == 0 && c->fold >= 0) rc = fm_cell_fold(&s->csv, c->fold, &s->build.folds, &p->fold, err);
    return rc;
}

static int begin_record(struct series *s, struct fm_error *err)
{
    const char *group = s->columns.group >= 0 ? s->group.data : NULL;
    int rc = fm_build_begin(&s->build, s->id.data, s->id.size, group, s->group.size, err);
    s->cut = false;
    return fm_cell_place(&s->csv, rc, err);
}

static int read_row(struct series *s, struct fm_error *err)
{
    struct fm_position p = {.values = s->row};
    int64_t channel;
    const char *why;
    int rc = follow_record(s, err);
    if (rc == 0 && s->columns.time >= 0) rc = follow_time(s, &p.time, err);
    if (rc == 0) rc = read_features(s, err);
    if (rc != 0) return rc;
    switch (fm_filler_row(&s->filler, &s->build, fm_build_place(&s->build), s->row, s->csv.line, &channel,
                          &why)) {
    case FM_FILL_REFUSED:
        return fm_csv_fail(&s->csv, (size_t)s->columns.feature[channel], err, "%s %s",
                           s->build.data->channel_names[channel], why);
    case FM_FILL_DROP: count_cut(&s->dropped, &s->csv); return end_record(s, err);
    case FM_FILL_KEEP: break;
    }
    rc = read_rest(s, &p, err);
    if (rc == 0 && s->cut) rc = begin_record(s, err);
    return rc == 0 ? fm_cell_place(&s->csv, fm_build_add(&s->build, &p, err), err) : rc;
}

/* What depends on the channels, known with the first file. */
static int begin_series(struct series *s, struct fm_dataset *data, const struct fm_data_config *config,
                        const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err)
{
    int rc = fm_build_init(&s->build, data, config, needs, notes, (int64_t)s->columns.nfeatures, err);
    if (rc == 0) rc = fm_filler_init(&s->filler, config, data->channels, data->channel_names, err);
    if (rc != 0) return rc;
    s->build.has_mask = config->mask.column != NULL;
    s->build.has_weights = config->weight != NULL;
    s->build.has_time = needs->time && config->time;
    s->build.has_folds = needs->fold_column != NULL;
    s->row = fm_malloc(s->columns.nfeatures, sizeof *s->row);
    return s->row ? 0 : fm_fail_memory(err);
}

static int read_file(struct series *s, struct fm_dataset *data, const struct fm_data_config *config,
                     const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err)
{
    int64_t count = data->channels;
    bool first = !data->channel_names;
    int rc = fm_csv_open(&s->csv, s->file, config, err);
    if (rc != 0) return rc;
    rc = fm_columns_init(&s->columns, &s->csv, s->file, config, needs, &data->channel_names, &count, notes,
                         err);
    if (first) data->channels = count;
    if (rc == 0 && first) rc = begin_series(s, data, config, needs, notes, err);
    s->in_file = false;
    int more = rc;
    while (rc == 0 && (more = fm_csv_next(&s->csv, err)) == 1) rc = read_row(s, err);
    if (rc == 0) rc = more;
    if (rc == 0 && s->csv.rows == 0) {
        rc = fm_fail_at(err, FM_EFILE, s->csv.path, 0, 0, "has a header and no rows");
    }
    if (rc == 0) rc = end_record(s, err);
    if (rc == 0) rc = fm_csv_stamp(&s->csv, data, err);
    if (rc == 0) fm_csv_notes(&s->csv, data->nfiles - 1, notes);
    fm_columns_fini(&s->columns);
    fm_csv_close(&s->csv);
    return rc;
}

static void note_cuts(const struct series *s, double median, struct fm_notes *notes)
{
    char step[FM_NUMBER_TEXT];
    if (s->gaps.count > 0) {
        fm_note(notes, FM_NOTE,
                "time: %" PRId64
                " step%s longer than %g median steps (of %s) start%s a new record; the first is %s:%" PRId64,
                s->gaps.count, s->gaps.count == 1 ? "" : "s", s->build.config->gap,
                fm_format_number(median, step), s->gaps.count == 1 ? "s" : "", s->gaps.file, s->gaps.line);
    }
    if (s->disorders.count > 0) {
        fm_note(notes, FM_NOTE,
                "time stands still or goes back at %" PRId64
                " place%s, where a new record starts; the first is "
                "%s:%" PRId64,
                s->disorders.count, s->disorders.count == 1 ? "" : "s", s->disorders.file, s->disorders.line);
    }
    if (s->dropped.count > 0) {
        fm_note(notes, FM_NOTE,
                "missing: %" PRId64 " row%s dropped, and the record is cut there; the first is %s:%" PRId64,
                s->dropped.count, s->dropped.count == 1 ? " is" : "s are", s->dropped.file, s->dropped.line);
    }
}

/* Gaps are meant to be rare; if they are not, the clock is not what `gap` takes it for. */
static int check_gaps(const struct series *s, double median, struct fm_error *err)
{
    char step[FM_NUMBER_TEXT];
    const struct fm_data_config *config = s->build.config;
    if (config->gap_given || s->gaps.count * 20 <= s->steps) return 0;
    return fm_fail_at(err, FM_EFILE, s->gaps.file, s->gaps.line, 0,
                      "time: %" PRId64 " of %" PRId64
                      " steps are longer than %g median steps (of %s), more than 5 %%; "
                      "say with `gap` from how many median steps on a new record starts",
                      s->gaps.count, s->steps, config->gap, fm_format_number(median, step));
}

static int finish_series(struct series *s, double median, struct fm_notes *notes, struct fm_error *err)
{
    int rc = check_gaps(s, median, err);
    if (rc != 0) return rc;
    note_cuts(s, median, notes);
    if (s->build.data->nrecords == 0) {
        return fm_fail(err, FM_EFILE, "data: `missing: drop` leaves no row of the data");
    }
    return fm_build_finish(&s->build, err);
}

int fm_load_csv(struct fm_dataset *data, const struct fm_data_config *config,
                const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err)
{
    struct series s = {.longest_step = INFINITY, .times = {.decimal = config->decimal}, .csv = {.fd = -1}};
    struct fm_file_list files;
    double median = 0;
    int rc = fm_file_list_init(&files, config, err);
    if (rc != 0) return rc;
    fm_keep_init(&s.keep, config);
    if (config->time) rc = fm_csv_median_step(&files, config, DISTINCT_STEPS, &median, err);
    if (median > 0) s.longest_step = median * config->gap;
    for (size_t i = 0; rc == 0 && i < files.count; i++) {
        s.file = &files.files[i];
        rc = read_file(&s, data, config, needs, notes, err);
    }
    if (rc == 0) rc = finish_series(&s, median, notes, err);
    fm_build_fini(&s.build);
    fm_filler_fini(&s.filler);
    fm_text_fini(&s.id);
    fm_text_fini(&s.group);
    fm_free(s.row);
    fm_file_list_fini(&files);
    return rc;
}
