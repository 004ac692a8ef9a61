/* A CSV file as a stream of rows, its dialect found from its first lines.
 *
 * RFC 4180 with any of , ; tab: quotes, doubled quotes, line breaks inside quotes, LF, CRLF or CR, a last
 * line without an end. A UTF-8 byte-order mark is skipped, UTF-16 is refused. Fields are never trimmed. A
 * stray or unclosed quote, a field of more than 1 MiB, a line of more than 16 MiB, more than 65,536 columns,
 * and a row with more or fewer fields than the header are errors at their place; one more field that is empty
 * in a row (a comma at the line's end) is dropped and counted. Blank lines are skipped, but a file of one
 * column may hold none between its rows, because there they could be missing values.
 *
 * Lines without quotes are cut where they lie in the read buffer; libcsv reads the others. Both give the same
 * rows.
 */
#ifndef FM_DATA_CSV_H
#define FM_DATA_CSV_H

#include "base/random.h"
#include "data/files.h"
#include "data/names.h"

#include <csv.h>

enum { FM_CSV_MAX_FIELD = 1 << 20, FM_CSV_MAX_LINE = 1 << 24, FM_CSV_MAX_COLUMNS = 65536 };

struct fm_csv {
    const char *path; /* for messages; belongs to the caller */
    int fd;
    char delimiter, decimal;
    bool has_header, header_guessed;
    size_t columns;            /* fields of a row */
    char **names;              /* [columns], "" = unnamed; without a header "0", "1", ... */
    struct fm_names index;     /* the distinct names */
    uint32_t *first, *repeats; /* of each of them: its first column, and how many columns have it */

    /* The current row: fields, then the constants. Valid until the next call. */
    int64_t line;      /* where it begins */
    const char **text; /* [columns + constants]; not terminated */
    size_t *size;
    const char *const *constants; /* text columns that the file's name gave */
    size_t nconstants;

    int64_t rows;         /* returned so far */
    int64_t extra_fields; /* rows with one empty field too many */
    int64_t first_extra_line;
    int64_t blank_lines, first_blank_line;

    struct fm_file_stamp stamp; /* its hash grows as the file is read; its path is not set */
    struct fm_hash hash;

    /* Private. */
    struct csv_parser parser;
    bool parser_ready, in_quotes, at_end, pushed_back;
    char *buffer; /* [capacity]; bytes begin..end are not used up yet */
    size_t begin, end, capacity;
    size_t newline; /* place of the next '\n' at or after begin, if it is known to lie there */
    bool newline_known;
    int64_t next_line;      /* number of the line at `begin` */
    const char *line_start; /* the row's line in the buffer, NULL if it had line breaks inside */
    size_t line_size;
    size_t count, field_capacity, size_capacity, offset_capacity;
    size_t *offset; /* of fields that libcsv gave, in `store` */
    char *store;
    size_t store_size, store_capacity;
    int failed; /* in a callback: FM_ENOMEM, or FM_EFILE for a limit */
    bool row_done;
};

/* Opens a file, finds its dialect and reads its header. `constants`: names and values of text columns that
 * every row gets after its own; they belong to the caller and outlive the reader. */
int fm_csv_open(struct fm_csv *csv, const struct fm_data_file *file, const struct fm_data_config *config,
                struct fm_error *err);
/* 1 = a row, 0 = end of file, negative = error. */
int fm_csv_next(struct fm_csv *csv, struct fm_error *err);
/* At the end: checks that the file did not change, and completes stamp.hash. */
int fm_csv_finish(struct fm_csv *csv, struct fm_error *err);
void fm_csv_close(struct fm_csv *csv);

/* Columns with that name; *field (if any) is the first of them. */
size_t fm_csv_columns_called(struct fm_csv *csv, const char *name, int *field);

/* An error at a field of the current row (the line alone where the column cannot be told). */
int fm_csv_fail(const struct fm_csv *csv, size_t field, struct fm_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Reads a number as this file writes it: blanks around it are skipped, `decimal` is its point. */
bool fm_csv_number(const struct fm_csv *csv, const char *text, size_t size, double *value);
/* Empty, NA or nan (any case), blanks around it skipped: a missing value. */
bool fm_csv_missing(const char *text, size_t size);

/* ---- dialect.c ---- */

/* The delimiter that cuts the sample's lines most evenly; `complete`: the sample is the whole file. */
char fm_csv_find_delimiter(const char *sample, size_t size, char decimal);
/* Whether the current row is a header: it holds a field that is no number, no time and not missing, or no
 * number or time at all. */
bool fm_csv_is_header(const struct fm_csv *csv);

#endif
