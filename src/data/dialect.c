#include "data/csv.h"
#include "data/time.h"

#include <string.h>

enum { SAMPLE_ROWS = 64 };

struct tally {
    size_t first; /* fields of the first row */
    bool even;    /* all others have as many, an empty last one aside */
};

/* Counts the fields of each row outside quotes. */
static struct tally count_fields(const char *s, size_t size, char delimiter)
{
    struct tally tally = {0, true};
    size_t rows = 0, fields = 1, at = 0, length = 0;
    bool quoted = false, ended_empty = false;
    for (; at < size && rows < SAMPLE_ROWS; at++) {
        char c = s[at];
        if (c == '"') quoted = !quoted;
        if (!quoted && c == delimiter) {
            fields++;
            ended_empty = true;
        } else if (!quoted && (c == '\n' || c == '\r')) {
            if (length > 0) {
                if (rows++ == 0) tally.first = fields;
                bool extra = ended_empty && fields == tally.first + 1;
                if (fields != tally.first && !extra) tally.even = false;
            }
            fields = 1;
            length = 0;
            ended_empty = false;
            continue;
        } else {
            ended_empty = false;
        }
        length++;
    }
    if (rows == 0) tally.first = fields; /* one line without an end */
    return tally;
}

char fm_csv_find_delimiter(const char *sample, size_t size, char decimal)
{
    static const char candidates[] = {',', ';', '\t'};
    char best = ',';
    struct tally best_tally = {0, false};
    if (decimal == ',') best = ';';
    for (size_t i = 0; i < sizeof candidates; i++) {
        if (candidates[i] == decimal) continue;
        struct tally t = count_fields(sample, size, candidates[i]);
        if (t.first < 2) continue;
        bool better = t.even != best_tally.even ? t.even : t.first > best_tally.first;
        if (best_tally.first != 0 && !better) continue;
        best = candidates[i];
        best_tally = t;
    }
    return best;
}

bool fm_csv_is_header(const struct fm_csv *csv)
{
    bool any_value = false;
    for (size_t i = 0; i < csv->columns; i++) {
        double value;
        struct fm_time_reader time = {.decimal = csv->decimal};
        if (fm_csv_missing(csv->text[i], csv->size[i])) continue;
        if (!fm_csv_number(csv, csv->text[i], csv->size[i], &value) &&
            fm_time_read(&time, csv->text[i], csv->size[i], &value) != NULL)
            return true;
        any_value = true;
    }
    return !any_value;
}
