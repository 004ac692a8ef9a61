#include "report/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

void fm_table_init(struct fm_table *table, int columns)
{
    *table = (struct fm_table){.columns = columns < FM_TABLE_COLUMNS ? columns : FM_TABLE_COLUMNS};
}

void fm_table_cell(struct fm_table *table, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *cell = n < 0 ? NULL : fm_malloc((size_t)n + 1, 1);
    if (cell) {
        vsnprintf(cell, (size_t)n + 1, format, args);
        /* Names come from files: none of them may steer the terminal. */
        fm_printable(cell);
        fm_text_add_bytes(&table->cells, cell, strlen(cell) + 1);
        table->count++;
    }
    va_end(args);
    if (!cell) table->failed = true;
    fm_free(cell);
}

size_t fm_table_width(const char *text)
{
    size_t width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void pad(struct fm_text *text, size_t count)
{
    static const char blanks[] = "                                ";
    for (; count; count -= count < 32 ? count : 32) fm_text_add_bytes(text, blanks, count < 32 ? count : 32);
}

static void widths(const struct fm_table *table, size_t width[FM_TABLE_COLUMNS])
{
    const char *cell = table->cells.data;
    memset(width, 0, FM_TABLE_COLUMNS * sizeof *width);
    for (size_t i = 0; i < table->count; i++, cell += strlen(cell) + 1) {
        size_t w = fm_table_width(cell), column = i % (size_t)table->columns;
        if (w > width[column]) width[column] = w;
    }
}

/* One row; blanks that nothing follows are left out. */
static const char *print_row(const struct fm_table *table, struct fm_text *text, const char *cell,
                             size_t cells, const size_t width[FM_TABLE_COLUMNS])
{
    size_t owed = 0;
    for (size_t column = 0; column < cells; column++, cell += strlen(cell) + 1) {
        size_t w = fm_table_width(cell), gap = width[column] - w;
        if (w) {
            pad(text, owed + (table->left[column] ? 0 : gap));
            fm_text_add_string(text, cell);
            owed = table->left[column] ? gap : 0;
        } else {
            owed += gap;
        }
        if (width[column]) owed += 2;
    }
    return cell;
}

void fm_table_print(struct fm_table *table, struct fm_text *text, const char *indent, const char *first,
                    const char *rest)
{
    size_t width[FM_TABLE_COLUMNS], columns = (size_t)table->columns;
    if (table->failed || table->cells.failed) text->failed = true;
    if (!text->failed && table->count) {
        widths(table, width);
        const char *cell = table->cells.data;
        for (size_t i = 0; i < table->count; i += columns) {
            fm_text_add(text, "%s%s", indent, i ? "" : first);
            cell =
                print_row(table, text, cell, table->count - i < columns ? table->count - i : columns, width);
            fm_text_add(text, "%s\n", i ? "" : rest);
        }
    }
    fm_text_fini(&table->cells);
    table->count = 0;
}

const char *fm_table_number(double value, char buffer[FM_NUMBER_TEXT])
{
    double size = fabs(value);
    if (isnan(value))
        snprintf(buffer, FM_NUMBER_TEXT, "-");
    else if (size == 0 || (size >= 0.001 && size < 1000))
        snprintf(buffer, FM_NUMBER_TEXT, "%.4f", value);
    else
        snprintf(buffer, FM_NUMBER_TEXT, "%.4g", value);
    return buffer;
}
