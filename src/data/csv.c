#include "data/csv.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { FIRST_BUFFER = 1 << 18 };

/* ---- fields of a row ---- */

static int room_for_fields(struct fm_csv *csv, size_t count)
{
    size_t need = count + csv->nconstants;
    if (fm_grow(&csv->text, &csv->field_capacity, need, sizeof *csv->text) != 0 ||
        fm_grow(&csv->size, &csv->size_capacity, need, sizeof *csv->size) != 0 ||
        fm_grow(&csv->offset, &csv->offset_capacity, need, sizeof *csv->offset) != 0) {
        return FM_ENOMEM;
    }
    return 0;
}

static int too_many_columns(const struct fm_csv *csv, struct fm_error *err)
{
    return fm_fail_at(err, FM_EFILE, csv->path, csv->line, 0, "has more than %d columns in one row",
                      FM_CSV_MAX_COLUMNS);
}

static int too_large_field(const struct fm_csv *csv, int64_t line, struct fm_error *err)
{
    return fm_fail_at(err, FM_EFILE, csv->path, line, 0,
                      "has a field of more than 1 MiB: is a quote never closed, or is this no CSV file?");
}

static int too_large_row(const struct fm_csv *csv, struct fm_error *err)
{
    return csv->count > FM_CSV_MAX_COLUMNS ? too_many_columns(csv, err)
                                           : too_large_field(csv, csv->line, err);
}

/* ---- libcsv's callbacks, for rows with quotes ---- */

static void take_field(void *bytes, size_t size, void *user)
{
    struct fm_csv *csv = user;
    if (csv->failed) return;
    if (csv->count > FM_CSV_MAX_COLUMNS || csv->store_size + size > FM_CSV_MAX_LINE) {
        csv->failed = FM_EFILE;
        return;
    }
    if (room_for_fields(csv, csv->count + 1) != 0 ||
        fm_grow(&csv->store, &csv->store_capacity, csv->store_size + size + 1, 1) != 0) {
        csv->failed = FM_ENOMEM;
        return;
    }
    if (size > 0) memcpy(csv->store + csv->store_size, bytes, size);
    csv->offset[csv->count] = csv->store_size;
    csv->size[csv->count++] = size;
    csv->store_size += size;
}

static void take_row(int end, void *user)
{
    (void)end;
    ((struct fm_csv *)user)->row_done = true;
}

static int no_space(unsigned char c)
{
    (void)c;
    return 0;
}

static void *parser_realloc(void *p, size_t size)
{
    return fm_realloc(p, size, 1);
}

static int parser_init(struct fm_csv *csv, struct fm_error *err)
{
    if (csv_init(&csv->parser, CSV_STRICT | CSV_STRICT_FINI) != 0) return fm_fail_memory(err);
    csv->parser_ready = true;
    csv_set_delim(&csv->parser, (unsigned char)csv->delimiter);
    csv_set_space_func(&csv->parser, no_space); /* fields are never trimmed */
    csv_set_realloc_func(&csv->parser, parser_realloc);
    csv_set_free_func(&csv->parser, fm_free);
    csv_set_blk_size(&csv->parser, 4096);
    return 0;
}

static int parser_failed(struct fm_csv *csv, int64_t line, int64_t column, struct fm_error *err)
{
    if (csv->failed == FM_ENOMEM || csv_error(&csv->parser) != CSV_EPARSE) return fm_fail_memory(err);
    return fm_fail_at(
        err, FM_EFILE, csv->path, line, column,
        "a quote stands where none may: a field with quotes begins and ends with one, and a quote "
        "inside it is written twice");
}

/* ---- lines ---- */

static int refill(struct fm_csv *csv, struct fm_error *err)
{
    if (csv->begin > 0) {
        memmove(csv->buffer, csv->buffer + csv->begin, csv->end - csv->begin);
        csv->end -= csv->begin;
        csv->begin = 0;
    }
    csv->newline_known = false;
    if (csv->end == csv->capacity) {
        if (csv->capacity >= FM_CSV_MAX_LINE) {
            return fm_fail_at(err, FM_EFILE, csv->path, csv->next_line, 0,
                              "is longer than 16 MiB without a line break: is this a CSV file?");
        }
        if (fm_grow(&csv->buffer, &csv->capacity, csv->capacity * 2, 1) != 0) return fm_fail_memory(err);
    }
    int64_t n = fm_file_read(csv->path, csv->fd, csv->buffer + csv->end, csv->capacity - csv->end, err);
    if (n < 0) return FM_EIO;
    if ((size_t)n < csv->capacity - csv->end) csv->at_end = true;
    fm_hash_add(&csv->hash, csv->buffer + csv->end, (size_t)n);
    csv->end += (size_t)n;
    return 0;
}

/* The end of the line at `begin`, its break included; 0 if it is not in the buffer yet. *text = its size
 * without the break. */
static size_t find_line_end(struct fm_csv *csv, size_t *text)
{
    const char *start = csv->buffer + csv->begin;
    size_t left = csv->end - csv->begin;
    if (!csv->newline_known || csv->newline < csv->begin) {
        const char *found = left ? memchr(start, '\n', left) : NULL;
        csv->newline_known = true;
        csv->newline = found ? (size_t)(found - csv->buffer) : csv->end;
    }
    bool has_newline = csv->newline < csv->end;
    size_t limit = csv->newline - csv->begin;
    const char *cr = limit ? memchr(start, '\r', limit) : NULL;
    if (cr) {
        size_t at = (size_t)(cr - start);
        *text = at;
        if (at + 1 == left && !csv->at_end) return 0; /* a '\n' may follow */
        return at + (at + 1 == limit && has_newline ? 2 : 1);
    }
    *text = limit;
    if (has_newline) return limit + 1;
    return csv->at_end ? left : 0;
}

/* 1 = a line, 0 = no more. *size counts its break, *text does not. */
static int take_line(struct fm_csv *csv, const char **line, size_t *size, size_t *text, struct fm_error *err)
{
    size_t n;
    while ((n = find_line_end(csv, text)) == 0) {
        if (csv->at_end) return 0;
        int rc = refill(csv, err);
        if (rc != 0) return rc;
    }
    *line = csv->buffer + csv->begin;
    *size = n;
    csv->begin += n;
    csv->next_line++;
    return 1;
}

/* ---- rows ---- */

/* A line without quotes: fields are what stands between delimiters. */
static int cut_line(struct fm_csv *csv, const char *line, size_t size, struct fm_error *err)
{
    const char *at = line, *end = line + size;
    for (;;) {
        if (csv->count >= csv->columns) {
            if (csv->count > FM_CSV_MAX_COLUMNS) return too_many_columns(csv, err);
            if (room_for_fields(csv, csv->count + 1) != 0) return fm_fail_memory(err);
        }
        const char *stop = at < end ? memchr(at, csv->delimiter, (size_t)(end - at)) : NULL;
        if (!stop) stop = end;
        csv->text[csv->count] = at;
        csv->size[csv->count++] = (size_t)(stop - at);
        if (stop - at > FM_CSV_MAX_FIELD) return too_large_field(csv, csv->line, err);
        if (stop == end) return 0;
        at = stop + 1;
    }
}

/* A row with quotes, perhaps over several lines. */
static int parse_row(struct fm_csv *csv, const char *line, size_t size, struct fm_error *err)
{
    if (!csv->parser_ready) {
        int rc = parser_init(csv, err);
        if (rc != 0) return rc;
    }
    csv->row_done = false;
    csv->store_size = 0;
    for (int lines = 0;; lines++) {
        size_t used = csv_parse(&csv->parser, line, size, take_field, take_row, csv);
        if (csv->failed == FM_EFILE) return too_large_row(csv, err);
        if (used != size || csv->failed)
            return parser_failed(csv, csv->next_line - 1, (int64_t)used + 1, err);
        if (csv->parser.entry_pos > FM_CSV_MAX_FIELD) return too_large_field(csv, csv->line, err);
        if (csv->row_done) break;
        csv->line_start = NULL;
        size_t text;
        int rc = take_line(csv, &line, &size, &text, err);
        if (rc < 0) return rc;
        if (rc == 1) continue;
        if (csv_fini(&csv->parser, take_field, take_row, csv) != 0) {
            return fm_fail_at(err, FM_EFILE, csv->path, csv->line, 0, "a quote is opened and never closed");
        }
        if (csv->failed) return csv->failed == FM_ENOMEM ? fm_fail_memory(err) : too_large_row(csv, err);
        if (lines == 0) csv->line_start = csv->buffer + csv->begin - csv->line_size;
        break;
    }
    for (size_t i = 0; i < csv->count; i++) {
        csv->text[i] = csv->store + csv->offset[i];
        if (csv->size[i] > FM_CSV_MAX_FIELD) return too_large_field(csv, csv->line, err);
    }
    return 0;
}

/* The next line that is not blank as a row of any width. */
static int read_row(struct fm_csv *csv, struct fm_error *err)
{
    const char *line;
    size_t size, text;
    int64_t blanks = 0, first_blank = 0;
    for (;;) {
        int rc = take_line(csv, &line, &size, &text, err);
        if (rc <= 0) return rc;
        if (text > 0) break;
        if (blanks++ == 0) first_blank = csv->next_line - 1;
    }
    csv->line = csv->next_line - 1;
    if (blanks > 0 && csv->rows > 0) {
        if (csv->columns == 1) {
            return fm_fail_at(err, FM_EFILE, csv->path, first_blank, 0,
                              "is blank: in a file of one column write NA for a missing value");
        }
        if (csv->blank_lines == 0) csv->first_blank_line = first_blank;
        csv->blank_lines += blanks;
    }
    csv->count = 0;
    csv->line_start = line;
    csv->line_size = text;
    int rc = memchr(line, '"', text) ? parse_row(csv, line, size, err) : cut_line(csv, line, text, err);
    return rc == 0 ? 1 : rc;
}

int fm_csv_next(struct fm_csv *csv, struct fm_error *err)
{
    if (csv->pushed_back) {
        csv->pushed_back = false;
    } else {
        int rc = read_row(csv, err);
        if (rc <= 0) return rc;
    }
    if (csv->count == csv->columns + 1 && csv->size[csv->columns] == 0) {
        if (csv->extra_fields++ == 0) csv->first_extra_line = csv->line;
    } else if (csv->count != csv->columns) {
        return fm_fail_at(err, FM_EFILE, csv->path, csv->line, 0, "has %zu field%s where %s has %zu",
                          csv->count, csv->count == 1 ? "" : "s",
                          csv->has_header ? "the header" : "the first row", csv->columns);
    }
    for (size_t i = 0; i < csv->nconstants; i++) {
        csv->text[csv->columns + i] = csv->constants[i];
        csv->size[csv->columns + i] = strlen(csv->constants[i]);
    }
    csv->rows++;
    return 1;
}

/* ---- opening ---- */

static int check_start(struct fm_csv *csv, struct fm_error *err)
{
    const unsigned char *s = (const unsigned char *)csv->buffer;
    if (csv->end == 0) return fm_fail_at(err, FM_EFILE, csv->path, 0, 0, "is empty");
    if (csv->end >= 2 && ((s[0] == 0xff && s[1] == 0xfe) || (s[0] == 0xfe && s[1] == 0xff))) {
        return fm_fail_at(err, FM_EFILE, csv->path, 0, 0, "is UTF-16 text; save it as UTF-8");
    }
    if (csv->end >= 3 && s[0] == 0xef && s[1] == 0xbb && s[2] == 0xbf) csv->begin = 3;
    size_t look = csv->end < 4096 ? csv->end : 4096;
    const char *zero = memchr(csv->buffer, '\0', look);
    if (zero) {
        return fm_fail_at(
            err, FM_EFILE, csv->path, 0, 0,
            "holds a zero byte at offset %zu, so it is no CSV file; .npy and .npz files need source: npy "
            "or npz",
            (size_t)(zero - csv->buffer));
    }
    return 0;
}

static int take_names(struct fm_csv *csv, struct fm_error *err)
{
    csv->names = fm_calloc(csv->columns, sizeof *csv->names);
    if (!csv->names) return fm_fail_memory(err);
    for (size_t i = 0; i < csv->columns; i++) {
        char number[24];
        const char *s = csv->text[i];
        size_t size = csv->size[i];
        if (!csv->has_header) {
            size = (size_t)snprintf(number, sizeof number, "%zu", i);
            s = number;
        }
        while (size > 0 && (*s == ' ' || *s == '\t')) s++, size--;
        while (size > 0 && (s[size - 1] == ' ' || s[size - 1] == '\t')) size--;
        if (fm_utf8_invalid(s, size) >= 0 || memchr(s, '\0', size)) {
            return fm_csv_fail(csv, i, err, "column %zu's name is not valid UTF-8; save the file as UTF-8",
                               i + 1);
        }
        csv->names[i] = fm_strndup(s, size);
        if (!csv->names[i]) return fm_fail_memory(err);
    }
    return 0;
}

static int index_names(struct fm_csv *csv, struct fm_error *err)
{
    csv->first = fm_calloc(csv->columns, sizeof *csv->first);
    csv->repeats = fm_calloc(csv->columns, sizeof *csv->repeats);
    if (!csv->first || !csv->repeats) return fm_fail_memory(err);
    for (size_t i = 0; i < csv->columns; i++) {
        uint32_t number;
        if (fm_names_add(&csv->index, csv->names[i], strlen(csv->names[i]), &number) != 0)
            return fm_fail_memory(err);
        if (csv->repeats[number]++ == 0) csv->first[number] = (uint32_t)i;
    }
    return 0;
}

size_t fm_csv_columns_called(struct fm_csv *csv, const char *name, int *field)
{
    uint32_t number;
    if (!fm_names_find(&csv->index, name, strlen(name), &number)) return 0;
    *field = (int)csv->first[number];
    return csv->repeats[number];
}

static int read_header(struct fm_csv *csv, const struct fm_data_config *config, struct fm_error *err)
{
    int rc = read_row(csv, err);
    if (rc == 0) return fm_fail_at(err, FM_EFILE, csv->path, 0, 0, "holds nothing but blank lines");
    if (rc < 0) return rc;
    csv->columns = csv->count;
    csv->has_header =
        config->header == FM_HEADER_YES || (config->header == FM_HEADER_AUTO && fm_csv_is_header(csv));
    csv->header_guessed = config->header == FM_HEADER_AUTO;
    csv->pushed_back = !csv->has_header;
    rc = take_names(csv, err);
    if (rc == 0) rc = index_names(csv, err);
    if (rc == 0 && room_for_fields(csv, csv->columns + 1) != 0) rc = fm_fail_memory(err);
    return rc;
}

int fm_csv_open(struct fm_csv *csv, const struct fm_data_file *file, const struct fm_data_config *config,
                struct fm_error *err)
{
    *csv = (struct fm_csv){
        .path = file->path, .fd = -1, .decimal = config->decimal ? config->decimal : '.', .next_line = 1};
    csv->constants = (const char *const *)file->values;
    csv->nconstants = file->count + 1;
    int rc = fm_file_open(file->path, &csv->fd, &csv->stamp, err);
    if (rc != 0) return rc;
    csv->buffer = fm_malloc(FIRST_BUFFER, 1);
    if (!csv->buffer) {
        rc = fm_fail_memory(err);
    } else {
        csv->capacity = FIRST_BUFFER;
        rc = refill(csv, err);
    }
    if (rc == 0) rc = check_start(csv, err);
    if (rc == 0) {
        csv->delimiter = config->delimiter;
        if (!csv->delimiter) {
            csv->delimiter =
                fm_csv_find_delimiter(csv->buffer + csv->begin, csv->end - csv->begin, csv->decimal);
        }
        rc = read_header(csv, config, err);
    }
    if (rc != 0) fm_csv_close(csv);
    return rc;
}

int fm_csv_finish(struct fm_csv *csv, struct fm_error *err)
{
    csv->stamp.hash = fm_hash_value(&csv->hash);
    return fm_file_check_same(csv->path, csv->fd, &csv->stamp, err);
}

void fm_csv_close(struct fm_csv *csv)
{
    if (csv->parser_ready) csv_free(&csv->parser);
    if (csv->fd >= 0) close(csv->fd);
    for (size_t i = 0; csv->names && i < csv->columns; i++) fm_free(csv->names[i]);
    fm_free(csv->names);
    fm_names_fini(&csv->index);
    fm_free(csv->first);
    fm_free(csv->repeats);
    fm_free(csv->text);
    fm_free(csv->size);
    fm_free(csv->offset);
    fm_free(csv->store);
    fm_free(csv->buffer);
    *csv = (struct fm_csv){.fd = -1};
}

/* ---- cells ---- */

/* The column (from 1) where a field of the row begins; 0 if its line is no longer there. */
static int64_t field_column(const struct fm_csv *csv, size_t field)
{
    if (!csv->line_start || field >= csv->columns) return 0;
    size_t at = 0;
    bool quoted = false;
    for (size_t i = 0; i < csv->line_size && at < field; i++) {
        if (csv->line_start[i] == '"') quoted = !quoted;
        if (csv->line_start[i] == csv->delimiter && !quoted && ++at == field) return (int64_t)i + 2;
    }
    return at == field ? 1 : 0;
}

int fm_csv_fail(const struct fm_csv *csv, size_t field, struct fm_error *err, const char *format, ...)
{
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fm_fail_at(err, FM_EFILE, csv->path, csv->line, field_column(csv, field), "%s", text);
}

static void trim(const char **text, size_t *size)
{
    while (*size > 0 && (**text == ' ' || **text == '\t')) ++*text, --*size;
    while (*size > 0 && ((*text)[*size - 1] == ' ' || (*text)[*size - 1] == '\t')) --*size;
}

bool fm_csv_number(const struct fm_csv *csv, const char *text, size_t size, double *value)
{
    char copy[64];
    trim(&text, &size);
    if (csv->decimal != ',') return fm_parse_number(text, size, value);
    if (size > sizeof copy || memchr(text, '.', size)) return false;
    for (size_t i = 0; i < size; i++) copy[i] = text[i] == ',' ? '.' : text[i];
    return fm_parse_number(copy, size, value);
}

bool fm_csv_missing(const char *text, size_t size)
{
    trim(&text, &size);
    return size == 0 || (size == 2 && memcmp(text, "NA", 2) == 0) ||
           (size == 3 && strncasecmp(text, "nan", 3) == 0);
}
