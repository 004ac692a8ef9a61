/* CSV by RFC 4180 into a writer: fields are quoted where they must be, lines end in "\n", numbers are the
 * shortest that read back the same, undefined ones are empty. The first failure is kept and ends the writing.
 */
#ifndef FM_REPORT_CSV_H
#define FM_REPORT_CSV_H

#include "base/error.h"
#include "base/text.h"

struct fm_rows {
    const struct fm_writer *out;
    struct fm_text line; /* what is not handed over yet */
    bool begun;          /* the line has a field */
    int failed;          /* errno of the writer, or ENOMEM */
};

void fm_rows_init(struct fm_rows *csv, const struct fm_writer *out);
void fm_rows_text(struct fm_rows *csv, const char *text);
/* A heading made of two parts: "p_" and a class. */
void fm_rows_name(struct fm_rows *csv, const char *prefix, const char *name);
void fm_rows_integer(struct fm_rows *csv, int64_t value);
void fm_rows_count(struct fm_rows *csv, int64_t value); /* empty where it is not above 0 */
void fm_rows_number(struct fm_rows *csv, double value);
void fm_rows_float(struct fm_rows *csv, float value);
void fm_rows_end(struct fm_rows *csv); /* of a line */
/* Hands the rest over and frees; 0 or FM_EIO, FM_ENOMEM. */
int fm_rows_fini(struct fm_rows *csv, struct fm_error *err);

#endif
