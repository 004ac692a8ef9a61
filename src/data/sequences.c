/* Sequences: one CSV row a record, one character a position, in the sequence and in the target and mask
 * beside it. */
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/cells.h"
#include "data/columns.h"
#include "data/load.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_LETTERS = 254, ASCII = 128 };

/* Which code a character has. Characters beyond ASCII are few and looked up one by one. */
struct alphabet {
    struct fm_names letters;
    int16_t code[ASCII]; /* -1 = unknown */
};

struct sequences {
    struct fm_build build;
    struct fm_csv csv;
    struct fm_columns columns;
    struct alphabet alphabet;
    struct fm_keep keep;
    int64_t class_code[ASCII]; /* codes of labels that were asked for already; -1 = not yet */
    size_t weight_capacity, fold_capacity;
    int64_t first_unknown_line;
    char first_unknown[8];
};

/* Bytes of the character at `at`; the text is valid UTF-8. */
static size_t character(const char *text, size_t at)
{
    unsigned char c = (unsigned char)text[at];
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static int64_t count_characters(struct fm_cell cell)
{
    int64_t n = 0;
    for (size_t i = 0; i < cell.size; i++) n += ((unsigned char)cell.text[i] & 0xc0) != 0x80;
    return n;
}

static int alphabet_init(struct sequences *s, const struct fm_data_config *config, struct fm_dataset *data,
                         struct fm_error *err)
{
    const struct fm_node *node = config->sequence.alphabet;
    struct alphabet *a = &s->alphabet;
    if (!node || node->kind != FM_SCALAR || node->size == 0) {
        return fm_fail(err, FM_EFILE, "data: `sequence` needs an `alphabet`, its letters as one text");
    }
    for (int i = 0; i < ASCII; i++) a->code[i] = -1, s->class_code[i] = -1;
    for (size_t i = 0, n; i < node->size; i += n) {
        uint32_t number;
        size_t before = a->letters.count;
        n = character(node->text, i);
        if (fm_names_add(&a->letters, node->text + i, n, &number) != 0) return fm_fail_memory(err);
        if (a->letters.count == before || a->letters.count > MOST_LETTERS) {
            return fm_fail_at(err, FM_EFILE, node->file, node->line, node->column,
                              a->letters.count == before
                                  ? "sequence: the alphabet has '%.*s' twice"
                                  : "sequence: '%.*s' is one letter too many; 254 are possible",
                              (int)n, node->text + i);
        }
        if (n == 1) a->code[(unsigned char)node->text[i]] = (int16_t)number;
    }
    data->alphabet = (int64_t)a->letters.count + (config->sequence.unknown == FM_UNKNOWN_LETTER);
    data->alphabet_letters = fm_strndup(node->text, node->size);
    return data->alphabet_letters ? 0 : fm_fail_memory(err);
}

static int letter_code(struct sequences *s, const char *text, size_t size, uint8_t *code,
                       struct fm_error *err)
{
    struct alphabet *a = &s->alphabet;
    struct fm_dataset *data = s->build.data;
    enum fm_unknown unknown = s->build.config->sequence.unknown;
    uint32_t number;
    int known = size == 1 ? a->code[(unsigned char)*text] : -1;
    if (size > 1 && fm_names_find(&a->letters, text, size, &number)) known = (int)number;
    if (known >= 0) {
        *code = (uint8_t)known;
        return 0;
    }
    if (unknown == FM_UNKNOWN_ERROR) {
        char shown[16];
        return fm_csv_fail(&s->csv, (size_t)s->columns.sequence, err,
                           "sequence: '%s' at position %" PRId64 " is not in the alphabet",
                           fm_show(text, size, shown, sizeof shown), s->build.real);
    }
    if (data->unknown_letters++ == 0) {
        s->first_unknown_line = s->csv.line;
        fm_show(text, size, s->first_unknown, sizeof s->first_unknown);
    }
    *code = unknown == FM_UNKNOWN_LETTER ? (uint8_t)(data->alphabet - 1) : FM_NO_LETTER;
    return 0;
}

static int label_code(struct sequences *s, const char *text, size_t size, struct fm_position *p,
                      struct fm_error *err)
{
    int field = s->columns.target;
    char shown[16];
    if (s->build.numbers) {
        if (size == 1 && *text >= '0' && *text <= '9') {
            p->target = (float)(*text - '0');
            return 0;
        }
        return fm_csv_fail(
            &s->csv, (size_t)field, err,
            "target: '%s' at position %" PRId64
            " is not a digit; this loss needs numbers, and here a number is one digit a position",
            fm_show(text, size, shown, sizeof shown), s->build.real);
    }
    int64_t *cached = size == 1 ? &s->class_code[(unsigned char)*text] : NULL;
    if (cached && *cached >= 0) {
        p->class_code = (uint32_t)*cached;
        return 0;
    }
    const char *wrong = fm_labels_code(&s->build.labels, text, size, &p->class_code);
    if (wrong == fm_labels_no_memory) return fm_fail_memory(err);
    if (wrong) {
        return fm_csv_fail(&s->csv, (size_t)field, err, "target: '%s' at position %" PRId64 " %s",
                           fm_show(text, size, shown, sizeof shown), s->build.real, wrong);
    }
    if (cached) *cached = p->class_code;
    return 0;
}

/* A column of one character a position: valid text, as long as the sequence. */
static int position_text(struct sequences *s, int field, const char *what, int64_t length,
                         struct fm_cell *cell, struct fm_error *err)
{
    *cell = fm_cell_at(&s->csv, field);
    const char *refused = fm_name_refused(cell->text, cell->size);
    if (refused) return fm_csv_fail(&s->csv, (size_t)field, err, "%s: the text %s", what, refused);
    int64_t own = count_characters(*cell);
    if (own == length) return 0;
    return fm_csv_fail(&s->csv, (size_t)field, err,
                       "%s: %" PRId64 " characters stand beside a sequence of %" PRId64, what, own, length);
}

static int add_positions(struct sequences *s, struct fm_cell letters, struct fm_cell labels,
                         struct fm_cell mask, struct fm_error *err)
{
    size_t at = 0, label_at = 0, mask_at = 0;
    while (at < letters.size) {
        struct fm_position p = {0};
        size_t n = character(letters.text, at), m = character(labels.text, label_at);
        int rc = letter_code(s, letters.text + at, n, &p.letter, err);
        if (rc == 0) rc = label_code(s, labels.text + label_at, m, &p, err);
        if (rc != 0) return rc;
        at += n;
        label_at += m;
        if (mask.text) {
            struct fm_cell one = {mask.text + mask_at, character(mask.text, mask_at)};
            p.mask = fm_keep_fits(&s->keep, &s->csv, one);
            mask_at += one.size;
        }
        rc = fm_build_add(&s->build, &p, err);
        if (rc != 0) return fm_cell_place(&s->csv, rc, err);
    }
    return 0;
}

/* Weight and fold hold for the whole row. */
static int add_record_columns(struct sequences *s, struct fm_error *err)
{
    struct fm_dataset *d = s->build.data;
    size_t record = (size_t)d->nrecords - 1;
    if (s->columns.weight >= 0) {
        if (fm_grow(&d->weights, &s->weight_capacity, record + 1, sizeof *d->weights) != 0)
            return fm_fail_memory(err);
        d->weights_per_record = true;
        int rc = fm_cell_weight(&s->csv, s->columns.weight, &d->weights[record], err);
        if (rc != 0) return rc;
    }
    if (s->columns.fold >= 0) {
        uint32_t fold;
        if (fm_grow(&d->fold, &s->fold_capacity, record + 1, sizeof *d->fold) != 0)
            return fm_fail_memory(err);
        d->fold_per_record = true;
        int rc = fm_cell_fold(&s->csv, s->columns.fold, &s->build.folds, &fold, err);
        if (rc != 0) return rc;
        d->fold[record] = (int32_t)fold;
    }
    return 0;
}

static int read_row(struct sequences *s, struct fm_error *err)
{
    const struct fm_columns *c = &s->columns;
    const char *base = fm_file_base(s->csv.path);
    struct fm_cell id = {base, strlen(base)}, group = {NULL, 0}, labels, mask = {NULL, 0};
    struct fm_cell letters = fm_cell_at(&s->csv, c->sequence);
    if (letters.size == 0) return fm_csv_fail(&s->csv, (size_t)c->sequence, err, "the sequence is empty");
    int64_t length = count_characters(letters);
    int rc = position_text(s, c->sequence, "sequence", length, &letters, err);
    if (rc == 0) rc = position_text(s, c->target, "target", length, &labels, err);
    if (rc == 0 && c->mask >= 0) rc = position_text(s, c->mask, "mask", length, &mask, err);
    if (rc == 0 && c->record >= 0) rc = fm_cell_name(&s->csv, c->record, "record", &id, err);
    if (rc == 0 && c->group >= 0) rc = fm_cell_name(&s->csv, c->group, "group", &group, err);
    if (rc != 0) return rc;
    rc = fm_build_begin(&s->build, id.text, id.size, group.text, group.size, err);
    if (rc == 0) rc = add_record_columns(s, err);
    if (rc == 0) rc = add_positions(s, letters, labels, mask, err);
    if (rc == 0) rc = fm_build_end(&s->build, err);
    return fm_cell_place(&s->csv, rc, err);
}

static int read_file(struct sequences *s, const struct fm_data_file *file,
                     const struct fm_dataset_needs *needs, struct fm_error *err)
{
    const struct fm_data_config *config = s->build.config;
    char **no_names = NULL;
    int64_t no_count = 0;
    int rc = fm_csv_open(&s->csv, file, config, err);
    if (rc != 0) return rc;
    rc = fm_columns_init(&s->columns, &s->csv, file, config, needs, &no_names, &no_count, NULL, err);
    int more = rc;
    while (rc == 0 && (more = fm_csv_next(&s->csv, err)) == 1) rc = read_row(s, err);
    if (rc == 0) rc = more;
    if (rc == 0 && s->csv.rows == 0)
        rc = fm_fail_at(err, FM_EFILE, file->path, 0, 0, "has a header and no rows");
    if (rc == 0) rc = fm_csv_stamp(&s->csv, s->build.data, err);
    if (rc == 0) fm_csv_notes(&s->csv, s->build.data->nfiles - 1, s->build.notes);
    fm_columns_fini(&s->columns);
    fm_csv_close(&s->csv);
    return rc;
}

static int finish(struct sequences *s, const struct fm_dataset_needs *needs, struct fm_notes *notes,
                  struct fm_error *err)
{
    struct fm_dataset *d = s->build.data;
    int rc = fm_build_finish(&s->build, err);
    if (rc == 0 && needs->fold_column) rc = fm_folds_finish(d, &s->build.folds, d->nrecords, err);
    if (rc == 0 && d->unknown_letters > 0) {
        fm_note(notes, FM_NOTE,
                "sequence: %" PRId64 " letter%s not in the alphabet (the first is '%s' in line %" PRId64
                ") and become%s %s",
                d->unknown_letters, d->unknown_letters == 1 ? " is" : "s are", s->first_unknown,
                s->first_unknown_line, d->unknown_letters == 1 ? "s" : "",
                s->build.config->sequence.unknown == FM_UNKNOWN_LETTER ? "a letter of their own" : "zeros");
    }
    return rc;
}

int fm_load_sequences(struct fm_dataset *data, const struct fm_data_config *config,
                      const struct fm_dataset_needs *needs, struct fm_notes *notes, struct fm_error *err)
{
    struct sequences s = {.csv = {.fd = -1}};
    struct fm_file_list files;
    int rc = fm_file_list_init(&files, config, err);
    if (rc != 0) return rc;
    rc = fm_build_init(&s.build, data, config, needs, notes, 0, err);
    s.build.has_mask = config->mask.column != NULL;
    fm_keep_init(&s.keep, config);
    if (rc == 0) rc = alphabet_init(&s, config, data, err);
    for (size_t i = 0; rc == 0 && i < files.count; i++) rc = read_file(&s, &files.files[i], needs, err);
    if (rc == 0) rc = finish(&s, needs, notes, err);
    fm_build_fini(&s.build);
    fm_names_fini(&s.alphabet.letters);
    fm_file_list_fini(&files);
    return rc;
}
