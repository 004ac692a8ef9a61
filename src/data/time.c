#include "data/time.h"

#include "base/text.h"

#include <string.h>

struct scan {
    const char *at, *end;
};

/* Exactly n digits. */
static bool digits(struct scan *s, int n, int *value)
{
    if (s->end - s->at < n) return false;
    *value = 0;
    for (int i = 0; i < n; i++, s->at++) {
        if (*s->at < '0' || *s->at > '9') return false;
        *value = *value * 10 + (*s->at - '0');
    }
    return true;
}

static bool sign(struct scan *s, char c)
{
    if (s->at == s->end || *s->at != c) return false;
    s->at++;
    return true;
}

/* Days since 1970-01-01 in the proleptic Gregorian calendar. Years count from March, so that the leap day
 * comes last. */
static int64_t days_from_date(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = year / 400, of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool date(struct scan *s, int64_t *seconds)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day;
    if (!digits(s, 4, &year) || !sign(s, '-') || !digits(s, 2, &month) || !sign(s, '-') ||
        !digits(s, 2, &day))
        return false;
    if (month < 1 || month > 12) return false;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (day < 1 || day > lengths[month - 1] + (month == 2 && leap)) return false;
    *seconds = days_from_date(year, month, day) * 86400;
    return true;
}

static bool fraction(struct scan *s, double *value)
{
    char text[40] = "0.";
    size_t n = 2;
    const char *start = s->at;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
        if (n < sizeof text) text[n++] = *s->at;
    }
    return s->at > start && fm_parse_number(text, n, value);
}

static bool clock_time(struct scan *s, int64_t *seconds, double *part)
{
    int hour, minute, second = 0;
    if (!digits(s, 2, &hour) || !sign(s, ':') || !digits(s, 2, &minute)) return false;
    if (sign(s, ':')) {
        if (!digits(s, 2, &second)) return false;
        if ((sign(s, '.') || sign(s, ',')) && !fraction(s, part)) return false;
    }
    if (hour > 23 || minute > 59 || second > 60) return false; /* 60: a leap second */
    *seconds += hour * 3600 + minute * 60 + second;
    return true;
}

static bool zone(struct scan *s, int64_t *seconds)
{
    int hour, minute = 0;
    if (s->at == s->end) return false;
    char c = *s->at++;
    if (c == 'Z' || c == 'z') return true;
    if ((c != '+' && c != '-') || !digits(s, 2, &hour)) return false;
    bool colon = sign(s, ':');
    if ((colon || s->at < s->end) && !digits(s, 2, &minute)) return false;
    if (hour > 23 || minute > 59) return false;
    *seconds += (c == '+' ? -1 : 1) * (hour * 3600 + minute * 60);
    return true;
}

static enum fm_time_kind iso(const char *text, size_t size, int64_t *seconds, double *part)
{
    struct scan s = {text, text + size};
    *part = 0;
    if (!date(&s, seconds)) return FM_TIME_UNKNOWN;
    if (s.at == s.end) return FM_TIME_LOCAL;
    if (!sign(&s, ' ') && !sign(&s, 'T') && !sign(&s, 't')) return FM_TIME_UNKNOWN;
    if (!clock_time(&s, seconds, part)) return FM_TIME_UNKNOWN;
    if (s.at == s.end) return FM_TIME_LOCAL;
    sign(&s, ' ');
    return zone(&s, seconds) && s.at == s.end ? FM_TIME_ZONED : FM_TIME_UNKNOWN;
}

static bool number(char decimal, const char *text, size_t size, double *value)
{
    char copy[64];
    if (decimal != ',') return fm_parse_number(text, size, value);
    if (size > sizeof copy || memchr(text, '.', size)) return false;
    for (size_t i = 0; i < size; i++) copy[i] = text[i] == ',' ? '.' : text[i];
    return fm_parse_number(copy, size, value);
}

const char *fm_time_read(struct fm_time_reader *reader, const char *text, size_t size, double *time)
{
    int64_t seconds = 0;
    double part = 0;
    while (size > 0 && (*text == ' ' || *text == '\t')) text++, size--;
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t')) size--;
    enum fm_time_kind kind = iso(text, size, &seconds, &part);
    if (kind == FM_TIME_UNKNOWN && number(reader->decimal, text, size, time)) kind = FM_TIME_NUMBER;
    if (kind == FM_TIME_UNKNOWN) return "is not a time: write a number, or a date like 2013-12-02 21:15:00";
    if (reader->kind == FM_TIME_UNKNOWN) {
        reader->kind = kind;
        reader->base = seconds;
    }
    if (kind != reader->kind) {
        return kind == FM_TIME_NUMBER || reader->kind == FM_TIME_NUMBER
                   ? "mixes numbers and dates in one time column"
                   : "mixes dates with and without a time zone, whose order cannot be told";
    }
    if (kind != FM_TIME_NUMBER) *time = (double)(seconds - reader->base) + part;
    return NULL;
}
