#include "data/columns.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

#include <fnmatch.h>
#include <string.h>

enum { SAMPLE_ROWS = 1000, MOST_NAMED = 10 };

/* ---- one column ---- */

static int no_column(struct fm_csv *csv, const struct fm_data_file *file, const struct fm_node *node,
                     const char *key, struct fm_error *err)
{
    char shown[96], near_shown[96];
    const char *near = fm_nearest(node->text, (const char *const *)csv->names, csv->columns);
    if (!near) near = fm_nearest(node->text, (const char *const *)file->columns, file->count + 1);
    fm_show(node->text, node->size, shown, sizeof shown);
    if (near) fm_show(near, strlen(near), near_shown, sizeof near_shown);
    if (!near && !csv->has_header) {
        return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column,
                          "%s: %s has no header, so its columns are called 0 to %zu, and none '%s'", key,
                          file->path, csv->columns - 1, shown);
    }
    return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column, "%s: %s has no column '%s'%s%s%s",
                      key, file->path, shown, near ? "; the nearest is '" : "", near ? near_shown : "",
                      near ? "'" : "");
}

int fm_column_find(struct fm_csv *csv, const struct fm_data_file *file, const struct fm_node *node,
                   const char *key, struct fm_error *err)
{
    int field = -1;
    if (node->kind != FM_SCALAR || node->size == 0) {
        return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column, "%s must be a column's name",
                          key);
    }
    int found = (int)fm_csv_columns_called(csv, node->text, &field);
    /* `file` is often a column of the data themselves; then that is what is meant. */
    for (size_t i = 0; i <= file->count; i++) {
        if (strcmp(file->columns[i], node->text) != 0 || (i == file->count && found > 0)) continue;
        field = (int)(csv->columns + i);
        found++;
    }
    if (found == 0) return no_column(csv, file, node, key, err);
    if (found > 1) {
        return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column,
                          "%s: %s has %d columns called '%s'; rename all but one", key, file->path, found,
                          node->text);
    }
    return field;
}

static int find_into(int *field, struct fm_csv *csv, const struct fm_data_file *file,
                     const struct fm_node *node, const char *key, struct fm_error *err)
{
    *field = -1;
    if (!node) return 0;
    int found = fm_column_find(csv, file, node, key, err);
    if (found < 0) return found;
    *field = found;
    return 0;
}

/* ---- features ---- */

/* Whether each column is numeric in the first rows: some number, and nothing else but missing values. */
static int sample_numeric(const struct fm_data_file *file, const struct fm_data_config *config,
                          bool **numeric, struct fm_error *err)
{
    struct fm_csv csv;
    int rc = fm_csv_open(&csv, file, config, err);
    if (rc != 0) return rc;
    bool *number = fm_calloc(csv.columns, sizeof *number), *text = fm_calloc(csv.columns, sizeof *text);
    if (!number || !text) rc = fm_fail_memory(err);
    for (int row = 0; rc == 0 && row < SAMPLE_ROWS; row++) {
        int more = fm_csv_next(&csv, err);
        if (more < 0) rc = more;
        if (more <= 0) break;
        for (size_t i = 0; i < csv.columns; i++) {
            double value;
            if (fm_csv_missing(csv.text[i], csv.size[i])) continue;
            bool *is = fm_csv_number(&csv, csv.text[i], csv.size[i], &value) ? number : text;
            is[i] = true;
        }
    }
    for (size_t i = 0; rc == 0 && i < csv.columns; i++) number[i] = number[i] && !text[i];
    fm_csv_close(&csv);
    fm_free(text);
    if (rc != 0) fm_free(number), number = NULL;
    *numeric = number;
    return rc;
}

static void add_field(struct fm_columns *c, int field)
{
    c->feature[c->nfeatures++] = field;
    c->taken[field] = true;
}

static bool is_used(const struct fm_columns *c, int field)
{
    return field == c->time || field == c->record || field == c->group || field == c->target ||
           field == c->weight || field == c->mask || field == c->fold;
}

static int add_all(struct fm_columns *c, struct fm_csv *csv, const struct fm_data_file *file,
                   const struct fm_data_config *config, struct fm_notes *notes, struct fm_error *err)
{
    bool *numeric;
    struct fm_text left_out = {0};
    size_t dropped = 0;
    int rc = sample_numeric(file, config, &numeric, err);
    if (rc != 0) return rc;
    for (size_t i = 0; i < csv->columns; i++) {
        if (is_used(c, (int)i) || c->taken[i] || !csv->names[i][0]) continue;
        if (numeric[i]) {
            add_field(c, (int)i);
        } else if (++dropped <= MOST_NAMED) {
            fm_text_add(&left_out, "%s'%s'", left_out.size ? ", " : "", csv->names[i]);
        }
    }
    if (dropped > MOST_NAMED) fm_text_add(&left_out, " and %zu more columns", dropped - MOST_NAMED);
    if (left_out.size) {
        fm_note(notes, FM_NOTE,
                "features: all leaves out %s of %s, which hold no numbers in the first %d rows",
                left_out.data, file->path, SAMPLE_ROWS);
    }
    fm_text_fini(&left_out);
    fm_free(numeric);
    return 0;
}

static int add_matching(struct fm_columns *c, struct fm_csv *csv, const struct fm_data_file *file,
                        const struct fm_node *node, struct fm_error *err)
{
    size_t before = c->nfeatures;
    for (size_t i = 0; i < csv->columns; i++) {
        if (!csv->names[i][0] || c->taken[i]) continue;
        if (fnmatch(node->text, csv->names[i], 0) == 0) add_field(c, (int)i);
    }
    if (c->nfeatures > before) return 0;
    return no_column(csv, file, node, "features", err);
}

static int add_feature(struct fm_columns *c, struct fm_csv *csv, const struct fm_data_file *file,
                       const struct fm_data_config *config, const struct fm_node *node,
                       struct fm_notes *notes, struct fm_error *err)
{
    int field = -1;
    if (node->kind != FM_SCALAR || node->size == 0) {
        return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column,
                          "features must be a column's name, a list of names, or all");
    }
    if ((int)fm_csv_columns_called(csv, node->text, &field) == 0) {
        if (strcmp(node->text, "all") == 0) return add_all(c, csv, file, config, notes, err);
        if (strpbrk(node->text, "*?[")) return add_matching(c, csv, file, node, err);
    }
    field = fm_column_find(csv, file, node, "features", err);
    if (field < 0) return field;
    if (c->taken[field]) {
        return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column,
                          "features: '%s' is listed twice", node->text);
    }
    add_field(c, field);
    return 0;
}

static int find_features(struct fm_columns *c, struct fm_csv *csv, const struct fm_data_file *file,
                         const struct fm_data_config *config, struct fm_notes *notes, struct fm_error *err)
{
    const struct fm_node *features = config->features;
    int rc = 0;
    if (!features) return fm_fail(err, FM_EFILE, "data: `features` is missing");
    c->feature = fm_malloc(csv->columns + csv->nconstants, sizeof *c->feature);
    c->taken = fm_calloc(csv->columns + csv->nconstants, sizeof *c->taken);
    if (!c->feature || !c->taken) return fm_fail_memory(err);
    if (features->kind == FM_LIST) {
        for (size_t i = 0; rc == 0 && i < features->count; i++)
            rc = add_feature(c, csv, file, config, features->items[i], notes, err);
    } else {
        rc = add_feature(c, csv, file, config, features, notes, err);
    }
    if (rc == 0 && c->nfeatures == 0) {
        rc = fm_fail_at(err, FM_EFILE, features->file, features->line, features->column,
                        "features: %s has no column that could be one", file->path);
    }
    return rc;
}

static const char *field_name(struct fm_csv *csv, const struct fm_data_file *file, int field)
{
    size_t i = (size_t)field;
    return i < csv->columns ? csv->names[i] : file->columns[i - csv->columns];
}

static int name_channels(const struct fm_columns *c, struct fm_csv *csv, const struct fm_data_file *file,
                         const struct fm_data_config *config, char ***names, int64_t *count,
                         struct fm_error *err)
{
    *names = fm_calloc(c->nfeatures, sizeof **names);
    if (!*names) return fm_fail_memory(err);
    for (size_t i = 0; i < c->nfeatures; i++) {
        const char *name = field_name(csv, file, c->feature[i]);
        int field;
        if ((int)fm_csv_columns_called(csv, name, &field) > 1) {
            return fm_fail_at(
                err, FM_EFILE, config->features->file, config->features->line, config->features->column,
                "features: %s has more than one column called '%s'; rename all but one", file->path, name);
        }
        (*names)[i] = fm_strdup(name);
        if (!(*names)[i]) return fm_fail_memory(err);
        *count = (int64_t)i + 1;
    }
    return 0;
}

/* Finds the first file's features in a later one. */
static int match_channels(struct fm_columns *c, struct fm_csv *csv, const struct fm_data_file *file,
                          const struct fm_data_config *config, char *const *names, int64_t count,
                          struct fm_error *err)
{
    const struct fm_node *where = config->features;
    c->feature = fm_malloc((size_t)count, sizeof *c->feature);
    if (!c->feature) return fm_fail_memory(err);
    for (int64_t k = 0; k < count; k++) {
        int field = -1;
        size_t found = fm_csv_columns_called(csv, names[k], &field);
        for (size_t i = 0; found == 0 && i <= file->count; i++) {
            if (strcmp(file->columns[i], names[k]) != 0) continue;
            field = (int)(csv->columns + i);
            found = 1;
        }
        if (found != 1) {
            return fm_fail_at(err, FM_EFILE, where->file, where->line, where->column,
                              "features: %s has %s '%s', which the first file has", file->path,
                              found ? "more than one column" : "no column", names[k]);
        }
        c->feature[c->nfeatures++] = field;
    }
    return 0;
}

/* ---- all columns ---- */

int fm_columns_init(struct fm_columns *c, struct fm_csv *csv, const struct fm_data_file *file,
                    const struct fm_data_config *config, const struct fm_dataset_needs *needs, char ***names,
                    int64_t *count, struct fm_notes *notes, struct fm_error *err)
{
    *c = (struct fm_columns){.sequence = -1};
    int rc = find_into(&c->time, csv, file, config->time, "time", err);
    if (rc == 0) rc = find_into(&c->record, csv, file, config->record, "record", err);
    if (rc == 0) rc = find_into(&c->group, csv, file, config->group, "group", err);
    if (rc == 0) rc = find_into(&c->target, csv, file, config->target.column, "target", err);
    if (rc == 0) rc = find_into(&c->weight, csv, file, config->weight, "weight", err);
    if (rc == 0) rc = find_into(&c->mask, csv, file, config->mask.column, "mask", err);
    if (rc == 0) rc = find_into(&c->fold, csv, file, needs->fold_column, "cv.column", err);
    if (rc == 0 && c->target < 0) rc = fm_fail(err, FM_EFILE, "data: `target` is missing");
    if (rc != 0) return rc;
    if (config->source == FM_SOURCE_SEQUENCES) {
        if (!config->sequence.column) return fm_fail(err, FM_EFILE, "data: `sequence` is missing");
        return find_into(&c->sequence, csv, file, config->sequence.column, "sequence", err);
    }
    if (*names) {
        rc = match_channels(c, csv, file, config, *names, *count, err);
    } else {
        rc = find_features(c, csv, file, config, notes, err);
        if (rc == 0) rc = name_channels(c, csv, file, config, names, count, err);
    }
    if (rc != 0) fm_columns_fini(c);
    return rc;
}

void fm_columns_fini(struct fm_columns *c)
{
    fm_free(c->feature);
    fm_free(c->taken);
    *c = (struct fm_columns){0};
}
