#include "data/fill.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/build.h"

#include <math.h>
#include <string.h>

static bool column_fits(const struct fm_node *column, const char *name)
{
    size_t size = column->size;
    if (size > 0 && column->text[size - 1] == '*') return strncmp(name, column->text, size - 1) == 0;
    return strcmp(name, column->text) == 0;
}

static int no_such_column(const struct fm_node *column, int64_t channels, char *const *names,
                          struct fm_error *err)
{
    const char *near = names ? fm_nearest(column->text, (const char *const *)names, (size_t)channels) : NULL;
    return fm_fail_at(err, FM_EFILE, column->file, column->line, column->column,
                      "missing: '%s' is no feature%s%s%s", column->text, near ? "; the nearest is '" : "",
                      near ? near : "", near ? "'" : "");
}

/* As with scales, an exact name goes before a pattern and an earlier pattern before a later one: what goes
 * before is applied after. */
static int apply_exceptions(struct fm_filler *filler, const struct fm_data_config *config, char *const *names,
                            struct fm_error *err)
{
    for (int exact = 0; exact <= 1; exact++) {
        for (size_t i = config->missing_count; i-- > 0;) {
            const struct fm_missing_column *exception = &config->missing_columns[i];
            const struct fm_node *column = exception->column;
            bool pattern = column->size > 0 && column->text[column->size - 1] == '*', fits = false;
            if (pattern == (exact == 1)) continue;
            for (int64_t c = 0; names && c < filler->channels; c++) {
                if (!column_fits(column, names[c])) continue;
                filler->channel[c].rule = exception->rule;
                fits = true;
            }
            if (!fits) return no_such_column(column, filler->channels, names, err);
        }
    }
    return 0;
}

int fm_filler_init(struct fm_filler *filler, const struct fm_data_config *config, int64_t channels,
                   char *const *names, struct fm_error *err)
{
    *filler = (struct fm_filler){.channels = channels};
    filler->channel = fm_calloc((size_t)channels, sizeof *filler->channel);
    if (!filler->channel) return fm_fail_memory(err);
    for (int64_t c = 0; c < channels; c++) filler->channel[c].rule = config->missing;
    int rc = apply_exceptions(filler, config, names, err);
    if (rc != 0) {
        fm_filler_fini(filler);
        return rc;
    }
    for (int64_t c = 0; c < channels; c++) {
        if (filler->channel[c].rule.kind != FM_MISSING_ERROR) filler->active = true;
    }
    return 0;
}

void fm_filler_fini(struct fm_filler *filler)
{
    fm_free(filler->channel);
    *filler = (struct fm_filler){0};
}

/* What becomes of one missing value. */
static enum fm_fill_result fill_one(struct fm_fill_channel *c, double *value, int64_t where, const char **why)
{
    if (c->hole++ == 0) c->hole_where = where;
    if (c->rule.limit > 0 && c->hole > c->rule.limit) {
        *why = "is missing, and so are more values in a row before it than `missing` allows";
        return FM_FILL_REFUSED;
    }
    switch (c->rule.kind) {
    case FM_MISSING_ERROR:
        *why = "is missing; say what to do with `missing` (drop, interpolate, ffill, or a number)";
        return FM_FILL_REFUSED;
    case FM_MISSING_DROP: return FM_FILL_DROP;
    case FM_MISSING_VALUE: *value = c->rule.value; return FM_FILL_KEEP;
    case FM_MISSING_FFILL:
        if (c->has_last) {
            *value = c->last;
            return FM_FILL_KEEP;
        }
        *why = "is missing, and its record has no value before it that ffill could repeat";
        return FM_FILL_REFUSED;
    case FM_MISSING_INTERPOLATE:
        if (c->has_last) return FM_FILL_KEEP;
        *why = "is missing, and its record has no value before it to interpolate from";
        return FM_FILL_REFUSED;
    }
    return FM_FILL_KEEP;
}

/* A value after a hole: the line from the last one to it. */
static void close_hole(struct fm_fill_channel *c, struct fm_build *build, int64_t position, int64_t channel,
                       double value)
{
    int64_t before = position - c->hole - 1;
    for (int64_t i = 1; i <= c->hole; i++) {
        double part = (double)i / (double)(c->hole + 1);
        fm_build_set_value(build, before + i, channel, c->last + (value - c->last) * part);
    }
}

/* Whether a channel that drops rows says so for this one. */
static enum fm_fill_result look_for_drop(struct fm_filler *filler, double *row, int64_t where,
                                         int64_t *channel, const char **why)
{
    enum fm_fill_result result = FM_FILL_KEEP;
    for (int64_t i = 0; i < filler->channels; i++) {
        struct fm_fill_channel *c = &filler->channel[i];
        if (c->rule.kind != FM_MISSING_DROP) continue;
        if (!isnan(row[i])) {
            c->hole = 0;
            continue;
        }
        *channel = i;
        result = fill_one(c, &row[i], where, why);
        if (result == FM_FILL_REFUSED) return result;
        result = FM_FILL_DROP;
    }
    return result;
}

enum fm_fill_result fm_filler_row(struct fm_filler *filler, struct fm_build *build, int64_t position,
                                  double *row, int64_t where, int64_t *channel, const char **why)
{
    enum fm_fill_result result = look_for_drop(filler, row, where, channel, why);
    if (result != FM_FILL_KEEP) return result;
    for (int64_t i = 0; i < filler->channels; i++) {
        struct fm_fill_channel *c = &filler->channel[i];
        if (isnan(row[i])) {
            *channel = i;
            if (fill_one(c, &row[i], where, why) == FM_FILL_REFUSED) return FM_FILL_REFUSED;
            continue;
        }
        if (c->hole > 0 && c->rule.kind == FM_MISSING_INTERPOLATE) close_hole(c, build, position, i, row[i]);
        c->hole = 0;
        c->last = row[i];
        c->has_last = true;
    }
    return FM_FILL_KEEP;
}

bool fm_filler_end(struct fm_filler *filler, int64_t *channel, int64_t *where)
{
    bool complete = true;
    for (int64_t i = 0; i < filler->channels; i++) {
        struct fm_fill_channel *c = &filler->channel[i];
        if (c->hole > 0 && c->rule.kind == FM_MISSING_INTERPOLATE && complete) {
            *channel = i;
            *where = c->hole_where;
            complete = false;
        }
        /* Rows that are dropped one after the other cut the record once, so the count of a hole goes on. */
        if (c->rule.kind != FM_MISSING_DROP) c->hole = 0;
        c->has_last = false;
    }
    return complete;
}
