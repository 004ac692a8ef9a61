#include "report/csv.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define BUFFERED ((size_t)65536)

void fm_rows_init(struct fm_rows *csv, const struct fm_writer *out)
{
    *csv = (struct fm_rows){.out = out};
}

static void hand_over(struct fm_rows *csv)
{
    if (csv->line.failed && !csv->failed) csv->failed = ENOMEM;
    if (!csv->failed && csv->line.size)
        csv->failed = csv->out->write(csv->out->context, csv->line.data, csv->line.size);
    csv->line.size = 0;
}

static void begin(struct fm_rows *csv)
{
    if (csv->begun) fm_text_add_bytes(&csv->line, ",", 1);
    csv->begun = true;
}

static void quoted(struct fm_rows *csv, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '"') fm_text_add_bytes(&csv->line, "\"", 1);
        fm_text_add_bytes(&csv->line, c, 1);
    }
}

void fm_rows_name(struct fm_rows *csv, const char *prefix, const char *name)
{
    static const char special[] = ",\"\r\n";
    begin(csv);
    bool quotes = strpbrk(prefix, special) || strpbrk(name, special);
    if (quotes) fm_text_add_bytes(&csv->line, "\"", 1);
    quoted(csv, prefix);
    quoted(csv, name);
    if (quotes) fm_text_add_bytes(&csv->line, "\"", 1);
}

void fm_rows_text(struct fm_rows *csv, const char *text)
{
    fm_rows_name(csv, "", text ? text : "");
}

void fm_rows_integer(struct fm_rows *csv, int64_t value)
{
    begin(csv);
    fm_text_add(&csv->line, "%" PRId64, value);
}

void fm_rows_count(struct fm_rows *csv, int64_t value)
{
    if (value > 0)
        fm_rows_integer(csv, value);
    else
        begin(csv);
}

void fm_rows_number(struct fm_rows *csv, double value)
{
    char buffer[FM_NUMBER_TEXT];
    begin(csv);
    if (!isnan(value)) fm_text_add_string(&csv->line, fm_format_number(value, buffer));
}

void fm_rows_float(struct fm_rows *csv, float value)
{
    char buffer[FM_NUMBER_TEXT];
    begin(csv);
    if (!isnan(value)) fm_text_add_string(&csv->line, fm_format_float(value, buffer));
}

void fm_rows_end(struct fm_rows *csv)
{
    fm_text_add_bytes(&csv->line, "\n", 1);
    csv->begun = false;
    if (csv->line.size >= BUFFERED || csv->line.failed) hand_over(csv);
}

int fm_rows_fini(struct fm_rows *csv, struct fm_error *err)
{
    hand_over(csv);
    fm_text_fini(&csv->line);
    if (csv->failed == ENOMEM) return fm_fail_memory(err);
    if (!csv->failed) return 0;
    errno = csv->failed;
    return fm_fail_errno(err, "write the output", NULL);
}
