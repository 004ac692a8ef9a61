/* Aligned columns for people: cells are added row by row, then printed with two blanks between columns.
 * Widths count characters, not bytes. Running out of memory shows in the text that is printed to. */
#ifndef FM_REPORT_TABLE_H
#define FM_REPORT_TABLE_H

#include "base/text.h"

#define FM_TABLE_COLUMNS 96

struct fm_table {
    struct fm_text cells; /* one after the other, each ended by '\0' */
    size_t count;         /* of cells */
    int columns;
    bool left[FM_TABLE_COLUMNS]; /* text; numbers stand to the right */
    bool failed;
};

void fm_table_init(struct fm_table *table, int columns); /* at most FM_TABLE_COLUMNS */
void fm_table_cell(struct fm_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends all rows, each after `indent`; `first` and `rest` go around the header row (escape sequences or
 * ""). Frees. */
void fm_table_print(struct fm_table *table, struct fm_text *text, const char *indent, const char *first,
                    const char *rest);

/* A measure for people: 0.9312, 12.35, 1.2e-05, "-" for NaN. */
const char *fm_table_number(double value, char buffer[FM_NUMBER_TEXT]);
/* Columns that a text takes on a terminal: its characters. */
size_t fm_table_width(const char *text);

#endif
