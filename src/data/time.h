/* Times as a column writes them: numbers, or dates of ISO 8601. */
#ifndef FM_DATA_TIME_H
#define FM_DATA_TIME_H

#include <stddef.h>
#include <stdint.h>

enum fm_time_kind { FM_TIME_UNKNOWN, FM_TIME_NUMBER, FM_TIME_LOCAL, FM_TIME_ZONED };

/* Remembers the kind that the first time had; all later ones must be of it. Zero-initialise but for
 * `decimal`. */
struct fm_time_reader {
    char decimal;
    enum fm_time_kind kind;
    int64_t base; /* seconds since 1970 of the first date: dates count from it, so that fractions keep
                     their digits */
};

/* Reads a number, or YYYY-MM-DD[ T]HH:MM[:SS[.fraction]][Z|+hh:mm|-hh:mm], or YYYY-MM-DD. Dates become
 * seconds since the reader's first one; a date without a zone is read as it stands (no daylight saving).
 * Returns NULL, or what is wrong, as the end of a sentence: "... is not a number or a date". */
const char *fm_time_read(struct fm_time_reader *reader, const char *text, size_t size, double *time);

#endif
