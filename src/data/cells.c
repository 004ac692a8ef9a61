#include "data/cells.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { NOTED_FILES = 4 };

struct fm_cell fm_cell_at(const struct fm_csv *csv, int field)
{
    return (struct fm_cell){csv->text[field], csv->size[field]};
}

bool fm_cell_is(struct fm_cell cell, const struct fm_text *text)
{
    return cell.size == text->size && (cell.size == 0 || memcmp(cell.text, text->data, cell.size) == 0);
}

int fm_cell_name(const struct fm_csv *csv, int field, const char *what, struct fm_cell *cell,
                 struct fm_error *err)
{
    *cell = fm_cell_at(csv, field);
    if (cell->size == 0) return fm_csv_fail(csv, (size_t)field, err, "the %s is empty", what);
    const char *refused = fm_name_refused(cell->text, cell->size);
    if (!refused) return 0;
    char shown[64];
    return fm_csv_fail(csv, (size_t)field, err, "the %s '%s' %s", what,
                       fm_show(cell->text, cell->size, shown, sizeof shown), refused);
}

/* Whether a text that is no number would be one with a decimal comma. */
static bool has_decimal_comma(const struct fm_csv *csv, struct fm_cell cell)
{
    struct fm_csv other = {.decimal = ','};
    double value;
    return csv->decimal != ',' && memchr(cell.text, ',', cell.size) &&
           fm_csv_number(&other, cell.text, cell.size, &value);
}

int fm_cell_number(const struct fm_csv *csv, int field, const char *what, double *value, struct fm_error *err)
{
    struct fm_cell cell = fm_cell_at(csv, field);
    char shown[64];
    if (fm_csv_number(csv, cell.text, cell.size, value)) {
        if (!isinf((float)*value)) return 0;
        return fm_csv_fail(csv, (size_t)field, err,
                           "%s: '%s' is too large for single precision (about 3.4e38)", what,
                           fm_show(cell.text, cell.size, shown, sizeof shown));
    }
    if (fm_csv_missing(cell.text, cell.size))
        return fm_csv_fail(csv, (size_t)field, err, "%s: the value is missing", what);
    return fm_csv_fail(csv, (size_t)field, err, "%s: '%s' is not a number%s", what,
                       fm_show(cell.text, cell.size, shown, sizeof shown),
                       has_decimal_comma(csv, cell) ? "; if its comma is a decimal point, say decimal: \",\""
                                                    : "");
}

int fm_cell_weight(const struct fm_csv *csv, int field, float *weight, struct fm_error *err)
{
    double value;
    int rc = fm_cell_number(csv, field, "weight", &value, err);
    if (rc != 0) return rc;
    if (value < 0)
        return fm_csv_fail(csv, (size_t)field, err, "weight: an example's weight must not be negative");
    *weight = (float)value;
    return 0;
}

int fm_cell_fold(const struct fm_csv *csv, int field, struct fm_names *folds, uint32_t *fold,
                 struct fm_error *err)
{
    struct fm_cell cell;
    int rc = fm_cell_name(csv, field, "fold", &cell, err);
    if (rc != 0) return rc;
    return fm_names_add(folds, cell.text, cell.size, fold) == 0 ? 0 : fm_fail_memory(err);
}

void fm_keep_init(struct fm_keep *keep, const struct fm_data_config *config)
{
    *keep = (struct fm_keep){.node = config->mask.keep};
    if (keep->node) keep->numeric = fm_parse_number(keep->node->text, keep->node->size, &keep->value);
}

bool fm_keep_fits(const struct fm_keep *keep, const struct fm_csv *csv, struct fm_cell cell)
{
    double value;
    if (!keep->node) return true;
    if (cell.size == keep->node->size && memcmp(cell.text, keep->node->text, cell.size) == 0) return true;
    return keep->numeric && fm_csv_number(csv, cell.text, cell.size, &value) && value == keep->value;
}

int fm_cell_place(const struct fm_csv *csv, int rc, struct fm_error *err)
{
    struct fm_error bare;
    if (rc != FM_EFILE || !err || err->file[0]) return rc;
    bare = *err;
    fm_error_clear(err);
    return fm_fail_at(err, rc, csv->path, csv->line, 0, "%s", bare.text);
}

void fm_csv_notes(const struct fm_csv *csv, int64_t file, struct fm_notes *notes)
{
    bool guessed = !csv->has_header && csv->header_guessed;
    if (csv->extra_fields == 0 && csv->blank_lines == 0 && !guessed) return;
    if (file >= NOTED_FILES) {
        fm_note(notes, FM_NOTE,
                "further files with blank lines, empty extra fields or no header are not listed");
        return;
    }
    if (csv->extra_fields > 0) {
        fm_note(notes, FM_NOTE,
                "%s: %" PRId64 " row%s one empty field more than the header (the first is line %" PRId64
                "); it is left out",
                csv->path, csv->extra_fields, csv->extra_fields == 1 ? " has" : "s have",
                csv->first_extra_line);
    }
    if (csv->blank_lines > 0) {
        fm_note(notes, FM_NOTE,
                "%s: %" PRId64 " blank line%s between rows (the first is line %" PRId64 ") %s skipped",
                csv->path, csv->blank_lines, csv->blank_lines == 1 ? "" : "s", csv->first_blank_line,
                csv->blank_lines == 1 ? "is" : "are");
    }
    if (guessed) {
        fm_note(notes, FM_NOTE,
                "%s has no header (its first line holds numbers only): its columns are called 0 to %zu",
                csv->path, csv->columns - 1);
    }
}

int fm_csv_stamp(struct fm_csv *csv, struct fm_dataset *data, struct fm_error *err)
{
    int rc = fm_csv_finish(csv, err);
    if (rc != 0) return rc;
    for (int64_t i = 0; i < data->nfiles; i++) {
        const struct fm_file_stamp *other = &data->files[i];
        if (other->inode == csv->stamp.inode && other->size == csv->stamp.size &&
            other->hash == csv->stamp.hash) {
            return fm_fail(err, FM_EFILE,
                           "path: %s and %s are one file under two names; its rows would be read twice",
                           other->path, csv->path);
        }
    }
    struct fm_file_stamp stamp = csv->stamp;
    stamp.path = fm_strdup(csv->path);
    if (!stamp.path) return fm_fail_memory(err);
    rc = fm_dataset_add_stamp(data, &stamp, err);
    if (rc != 0) fm_free(stamp.path);
    return rc;
}
