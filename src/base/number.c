#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A decimal as sign, digits d1 d2 ... dn and exponent: the whole number d1...dn times 10^exponent. No point
 * appears in any text that goes to or comes from the C library here, so that the locale has no say.
 *
 * No double, and no middle between two doubles, has more than 767 digits. Digits after that decide a rounding
 * only by being zero or not, so one more digit stands for all of them. */
enum { MAX_DIGITS = 772 };

struct decimal {
    bool negative;
    int count;
    int64_t exponent;
    char digits[MAX_DIGITS + 2];
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void take_digit(struct decimal *d, char digit, bool after_point)
{
    if (d->count == 0 && digit == '0') {
        if (after_point) d->exponent--;
        return;
    }
    if (d->count < MAX_DIGITS) {
        d->digits[d->count++] = digit;
        if (after_point) d->exponent--;
        return;
    }
    if (digit != '0') d->digits[MAX_DIGITS - 1] |= 1;
    if (!after_point) d->exponent++;
}

/* Reads [e [+-] digits] from s[i] to the end. Exponents beyond any double are capped, not wrapped. */
static bool read_exponent(const char *s, size_t size, size_t i, int64_t *exponent)
{
    static const int64_t cap = 100000000000000000;
    bool negative = false;
    if (i < size && (s[i] == '+' || s[i] == '-')) negative = s[i++] == '-';
    if (i == size) return false;
    int64_t value = 0;
    for (; i < size; i++) {
        if (!is_digit(s[i])) return false;
        value = value * 10 + (s[i] - '0');
        if (value > cap) value = cap;
    }
    *exponent += negative ? -value : value;
    return true;
}

static bool read_decimal(const char *s, size_t size, struct decimal *d)
{
    size_t i = 0;
    bool point = false, any = false;
    d->negative = false;
    d->count = 0;
    d->exponent = 0;
    if (i < size && (s[i] == '+' || s[i] == '-')) d->negative = s[i++] == '-';
    for (; i < size; i++) {
        if (is_digit(s[i])) {
            take_digit(d, s[i], point);
            any = true;
        } else if (s[i] == '.' && !point) {
            point = true;
        } else {
            break;
        }
    }
    if (!any) return false;
    if (i == size) return true;
    return (s[i] == 'e' || s[i] == 'E') && read_exponent(s, size, i + 1, &d->exponent);
}

/* Whole numbers below 2^53 and powers of ten up to 10^22 are exact doubles, so that one multiplication or
 * division of them rounds once and right (Clinger 1990). Most numbers in data files are of this kind. */
static bool quick_value(const struct decimal *d, double *value)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (d->count > 15 || d->exponent < -22 || d->exponent > 22) return false;
    int64_t whole = 0;
    for (int i = 0; i < d->count; i++) whole = whole * 10 + (d->digits[i] - '0');
    *value = d->exponent < 0 ? (double)whole / tens[-d->exponent] : (double)whole * tens[d->exponent];
    return true;
}

static double slow_value(const struct decimal *d)
{
    char text[MAX_DIGITS + 32];
    int64_t exponent = d->exponent;
    if (exponent > 100000) exponent = 100000;
    if (exponent < -100000) exponent = -100000;
    memcpy(text, d->digits, (size_t)d->count);
    snprintf(text + d->count, sizeof text - (size_t)d->count, "e%lld", (long long)exponent);
    return strtod(text, NULL);
}

bool fm_parse_number(const char *text, size_t size, double *value)
{
    struct decimal d;
    if (!read_decimal(text, size, &d)) return false;
    double result = 0.0;
    if (d.count > 0 && !quick_value(&d, &result)) result = slow_value(&d);
    if (isinf(result)) return false;
    *value = d.negative ? -result : result;
    return true;
}

/* [+-] digits and nothing else, within 64 bits. */
static bool plain_integer(const char *s, size_t size, int64_t *value)
{
    size_t i = 0;
    bool negative = false;
    if (i < size && (s[i] == '+' || s[i] == '-')) negative = s[i++] == '-';
    if (i == size) return false;
    int64_t result = 0;
    for (; i < size; i++) {
        int digit = s[i] - '0';
        if (!is_digit(s[i])) return false;
        /* Counting downwards reaches -2^63, which has no positive twin. */
        if (__builtin_mul_overflow(result, 10, &result) || __builtin_sub_overflow(result, digit, &result))
            return false;
    }
    if (!negative && result == INT64_MIN) return false;
    *value = negative ? result : -result;
    return true;
}

static bool only_digits(const char *s, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!is_digit(s[i]) && !(i == 0 && (s[i] == '+' || s[i] == '-'))) return false;
    }
    return true;
}

/* Works on the digits, because a double would round 2.99999999999999999999 to a whole number. */
static bool whole_decimal(const char *text, size_t size, int64_t *value)
{
    struct decimal d;
    if (!read_decimal(text, size, &d)) return false;
    while (d.count > 0 && d.digits[d.count - 1] == '0') {
        d.count--;
        d.exponent++;
    }
    int64_t result = 0;
    if (d.count > 0 && (d.exponent < 0 || d.exponent + d.count > 16)) return false;
    for (int i = 0; i < d.count; i++) result = result * 10 + (d.digits[i] - '0');
    for (int64_t i = 0; d.count > 0 && i < d.exponent; i++) result *= 10;
    if (result > (int64_t)1 << 53) return false;
    *value = d.negative ? -result : result;
    return true;
}

bool fm_parse_integer(const char *text, size_t size, int64_t *value)
{
    return only_digits(text, size) ? plain_integer(text, size, value) : whole_decimal(text, size, value);
}

/* The value nearest to `value` with `precision` digits, as digits (no trailing zeros) and the exponent of the
 * first one. `value` is positive and finite. */
static void round_to(double value, int precision, char digits[24], int *first)
{
    char text[48];
    int n = snprintf(text, sizeof text, "%.*e", precision - 1, value), count = 0, i = 0;
    for (; i < n && text[i] != 'e'; i++) {
        /* Whatever the locale's point is made of, it is no digit. */
        if (is_digit(text[i]) && count < 20) digits[count++] = text[i];
    }
    *first = (int)strtol(text + i + 1, NULL, 10);
    while (count > 1 && digits[count - 1] == '0') count--;
    digits[count] = '\0';
}

static bool reads_back(double value, bool as_float, const char *digits, int first)
{
    char text[48];
    snprintf(text, sizeof text, "%se%d", digits, first - (int)strlen(digits) + 1);
    return as_float ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value;
}

/* The next larger number of exactly `precision` digits. */
static void step_up(char digits[24], int precision, int *first)
{
    int count = (int)strlen(digits), i = precision - 1;
    while (count < precision) digits[count++] = '0';
    digits[count] = '\0';
    while (i >= 0 && digits[i] == '9') digits[i--] = '0';
    if (i >= 0) {
        digits[i]++;
    } else {
        digits[0] = '1';
        (*first)++;
    }
    while (count > 1 && digits[count - 1] == '0') digits[--count] = '\0';
}

/* Doubles thin out to half below a power of two, so that the nearest short decimal, below it, may belong to
 * the neighbour while the next one above still reads back: hence the second try. */
static void shortest(double value, bool as_float, char digits[24], int *first)
{
    bool normal = value >= (as_float ? 1.17549435e-38 : 2.2250738585072014e-308);
    int most = as_float ? 9 : 17;
    /* Every decimal of 15 (float: 6) digits survives the way through a normal number, so shorter ones appear
     * there with their zeros cut off; among denormal numbers they have to be tried. */
    for (int precision = !normal ? 1 : as_float ? 6 : 15; precision < most; precision++) {
        round_to(value, precision, digits, first);
        if (reads_back(value, as_float, digits, *first)) return;
        step_up(digits, precision, first);
        if (reads_back(value, as_float, digits, *first)) return;
    }
    round_to(value, most, digits, first);
}

static const char *layout(bool negative, const char *digits, int first, char buffer[FM_NUMBER_TEXT])
{
    int count = (int)strlen(digits), at = 0;
    if (negative) buffer[at++] = '-';
    if (first < -4 || first >= 16) {
        snprintf(buffer + at, FM_NUMBER_TEXT - (size_t)at, "%c%s%se%c%02u", digits[0], count > 1 ? "." : "",
                 digits + 1, first < 0 ? '-' : '+', (unsigned)abs(first) % 1000);
        return buffer;
    }
    if (first < 0) {
        buffer[at++] = '0';
        buffer[at++] = '.';
        for (int i = -1; i > first; i--) buffer[at++] = '0';
    }
    for (int i = 0; i < count || i <= first; i++) {
        if (i == first + 1 && first >= 0) buffer[at++] = '.';
        buffer[at++] = i < count ? digits[i] : '0';
    }
    buffer[at] = '\0';
    return buffer;
}

static const char *format_value(double value, bool as_float, char buffer[FM_NUMBER_TEXT])
{
    char digits[24] = "0";
    int first = 0;
    if (!isfinite(value)) {
        snprintf(buffer, FM_NUMBER_TEXT, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return buffer;
    }
    if (value != 0.0) shortest(fabs(value), as_float, digits, &first);
    return layout(signbit(value), digits, first, buffer);
}

const char *fm_format_number(double value, char buffer[FM_NUMBER_TEXT])
{
    return format_value(value, false, buffer);
}

const char *fm_format_float(float value, char buffer[FM_NUMBER_TEXT])
{
    return format_value((double)value, true, buffer);
}
