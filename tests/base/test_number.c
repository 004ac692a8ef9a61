#include "base/random.h"
#include "base/text.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse(const char *text, double *value)
{
    return fm_parse_number(text, strlen(text), value);
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static double random_double(uint32_t i)
{
    uint32_t bits[4];
    double value;
    fm_philox((uint32_t[4]){i, 0, 0, 0}, 99, bits);
    uint64_t word = (uint64_t)bits[0] << 32 | bits[1];
    /* Every other one has an everyday size and few digits. */
    if (i % 2) return (double)(int32_t)bits[0] / pow(10, bits[1] % 12);
    memcpy(&value, &word, sizeof value);
    return value;
}

Test(number, every_double_survives_the_way_through_text)
{
    for (uint32_t i = 0; i < 200000; i++) {
        double value = random_double(i), back = 0;
        char buffer[FM_NUMBER_TEXT];
        if (!isfinite(value)) continue;
        fm_format_number(value, buffer);
        cr_assert(parse(buffer, &back) && same_bits(back, value), "%.17g became %s", value, buffer);
        cr_assert(same_bits(strtod(buffer, NULL), value), "strtod reads %s", buffer);
    }
}

Test(number, every_float_survives_the_way_through_text)
{
    for (uint32_t i = 0; i < 200000; i++) {
        uint32_t bits[4];
        float value;
        char buffer[FM_NUMBER_TEXT];
        fm_philox((uint32_t[4]){i, 0, 0, 0}, 98, bits);
        memcpy(&value, bits, sizeof value);
        if (!isfinite(value)) continue;
        cr_assert(strtof(fm_format_float(value, buffer), NULL) == value, "%.9g became %s", (double)value,
                  buffer);
        cr_assert(strlen(buffer) <= 17, "%s", buffer);
    }
}

/* No text of fewer digits reads back: tried with the C library's own rounding. */
Test(number, the_shortest_text_is_chosen)
{
    for (uint32_t i = 0; i < 50000; i++) {
        double value = random_double(i);
        char buffer[FM_NUMBER_TEXT], shorter[64];
        if (!isfinite(value) || value == 0) continue;
        int digits = 0, zeros = 0;
        for (const char *c = fm_format_number(value, buffer); *c && *c != 'e'; c++) {
            if (*c < '0' || *c > '9' || (digits == 0 && *c == '0')) continue;
            digits++;
            zeros = *c == '0' ? zeros + 1 : 0;
        }
        digits -= zeros;
        if (digits < 2) continue;
        snprintf(shorter, sizeof shorter, "%.*e", digits - 2, value);
        cr_assert(strtod(shorter, NULL) != value, "%s is shorter than %s", shorter, buffer);
    }
}

Test(number, familiar_numbers_look_familiar)
{
    static const struct {
        double value;
        const char *text;
    } known[] = {{0.001, "0.001"},
                 {1e-5, "1e-05"},
                 {64, "64"},
                 {0.1, "0.1"},
                 {-2.5, "-2.5"},
                 {0, "0"},
                 {-0.0, "-0"},
                 {100, "100"},
                 {123456789, "123456789"},
                 {1e15, "1000000000000000"},
                 {1e16, "1e+16"},
                 {9007199254740992, "9007199254740992"},
                 {0.0001, "0.0001"},
                 {0.00012345, "0.00012345"},
                 {1.0 / 3, "0.3333333333333333"},
                 {5e-324, "5e-324"},
                 {1.7976931348623157e308, "1.7976931348623157e+308"},
                 {2.2250738585072014e-308, "2.2250738585072014e-308"},
                 /* 2^-44: the nearest of 16 digits lies on the thin side and does not read back. */
                 {0x1p-44, "5.684341886080802e-14"},
                 {NAN, "nan"},
                 {INFINITY, "inf"},
                 {-INFINITY, "-inf"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char buffer[FM_NUMBER_TEXT];
        cr_assert_str_eq(fm_format_number(known[i].value, buffer), known[i].text);
    }
    char buffer[FM_NUMBER_TEXT];
    cr_assert_str_eq(fm_format_float(0.1f, buffer), "0.1");
    cr_assert_str_eq(fm_format_float(16777216.0f, buffer), "16777216");
    cr_assert_str_eq(fm_format_float(1e-45f, buffer), "1e-45");
    cr_assert_str_eq(fm_format_float(3.4028235e38f, buffer), "3.4028235e+38");
    cr_assert_str_eq(fm_format_float(0x1p-24f, buffer), "5.9604645e-08");
}

Test(number, all_forms_of_numbers_are_read)
{
    static const struct {
        const char *text;
        double value;
    } known[] = {{"1e-3", 0.001},
                 {"5E-4", 0.0005},
                 {"1.e-2", 0.01},
                 {".5e-1", 0.05},
                 {"2.0e5", 200000},
                 {"+1e-3", 0.001},
                 {"-0", -0.0},
                 {"007", 7},
                 {"1e-400", 0},
                 {"0e999999999999999999999", 0},
                 {"4.9e-324", 5e-324},
                 {"2.4703282292062327e-324", 0},
                 {"2.4703282292062328e-324", 5e-324},
                 {"9007199254740993", 9007199254740992},
                 {"9007199254740993.0000000000000000000000001", 9007199254740994},
                 {"1.7976931348623158e308", 1.7976931348623157e308},
                 {"123456789012345678901234567890", 1.2345678901234568e29},
                 {"0.000000000000000000000000000000000001", 1e-36}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double value = 77;
        cr_assert(parse(known[i].text, &value), "%s", known[i].text);
        cr_assert(same_bits(value, known[i].value), "%s gave %.17g", known[i].text, value);
    }
}

Test(number, anything_else_is_refused)
{
    static const char *const bad[] = {"",      ".",     "+",
                                      "-",     "e5",    "1e",
                                      "1e+",   "1e-",   "0x10",
                                      "inf",   "-inf",  "nan",
                                      "NaN",   "1_000", "1,5",
                                      "1.2.3", "1 ",    " 1",
                                      "--1",   "+-1",   "1e5.0",
                                      "1e 5",  "1d5",   "infinity",
                                      "1f",    "1e309", "-1e309",
                                      ".e1",   "1e1e1", "١",
                                      "1'000", "\t1",   "1e99999999999999999999",
                                      "0b1",   "#1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value = 77;
        int64_t whole = 77;
        cr_assert(!parse(bad[i], &value) && value == 77, "'%s' was read as %g", bad[i], value);
        cr_assert(!fm_parse_integer(bad[i], strlen(bad[i]), &whole) && whole == 77, "'%s'", bad[i]);
    }
    double value;
    cr_assert(!fm_parse_number("1\0", 2, &value), "a zero byte is no end");
    cr_assert(fm_parse_number("12", 1, &value) && value == 1, "nothing behind the size is read");
}

/* Against strtod on the same text: long numbers, halves between doubles, digits far behind. */
Test(number, reading_rounds_as_the_c_library)
{
    for (uint32_t i = 0; i < 50000; i++) {
        uint32_t bits[4];
        char text[1200];
        size_t n = 0;
        fm_philox((uint32_t[4]){i, 1, 0, 0}, 97, bits);
        size_t length = i % 100 == 0 ? 1 + bits[0] % 1100 : 1 + bits[0] % 40, point = bits[1] % length;
        for (size_t k = 0; k < length; k++) {
            uint32_t digit[4];
            fm_philox((uint32_t[4]){i, 2, (uint32_t)k, 0}, 97, digit);
            if (k == point) text[n++] = '.';
            text[n++] = (char)('0' + digit[0] % 10);
        }
        snprintf(text + n, sizeof text - n, "e%d", (int)(bits[2] % 600) - 300);
        double expected = strtod(text, NULL), value = 0;
        cr_assert_eq(parse(text, &value), isfinite(expected), "%s", text);
        if (isfinite(expected)) cr_assert(same_bits(value, expected), "%s", text);
    }
}

Test(number, digits_far_behind_decide_a_tie)
{
    /* 2^53 + 1 lies in the middle; a one after a thousand zeros lifts it. */
    char text[1100];
    double value;
    memset(text, '0', sizeof text);
    memcpy(text, "9007199254740993.", 17);
    text[1050] = '1';
    cr_assert(fm_parse_number(text, 1000, &value) && value == 9007199254740992.0);
    cr_assert(fm_parse_number(text, sizeof text, &value) && value == 9007199254740994.0);
    memset(text, '0', sizeof text);
    text[1] = '.';
    text[1050] = '7';
    cr_assert(fm_parse_number(text, 1051, &value) && value == 0.0);
    memcpy(text + 1051, "e1049", 5);
    cr_assert(fm_parse_number(text, 1056, &value) && value == 7.0, "%g", value);
}

Test(number, whole_numbers_are_exact)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"+5", 5},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"3.0", 3},
                {"1e3", 1000},
                {"1.5e1", 15},
                {"-2.50e2", -250},
                {"9007199254740992.0", 9007199254740992},
                {"9.007199254740992e15", 9007199254740992},
                {"0.0", 0},
                {"0e99", 0}};
    static const char *const bad[] = {"9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999",
                                      "3.5",
                                      "1e-1",
                                      "9007199254740993.0",
                                      "1e16",
                                      "1e300",
                                      "2.99999999999999999999999",
                                      "0.1e0",
                                      "1e99999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t value = 77;
        cr_assert(fm_parse_integer(good[i].text, strlen(good[i].text), &value) && value == good[i].value,
                  "%s", good[i].text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t value = 77;
        cr_assert(!fm_parse_integer(bad[i], strlen(bad[i]), &value) && value == 77, "%s", bad[i]);
    }
}

Test(number, the_locale_has_no_say)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "pt_BR.UTF-8",
                                        "ru_RU.UTF-8"};
    const char *set = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !set; i++) set = setlocale(LC_ALL, names[i]);
    if (!set) cr_skip("no locale with a decimal comma is installed here");
    char buffer[FM_NUMBER_TEXT];
    double value = 0;
    cr_assert_str_eq(fm_format_number(0.1234567890123456789, buffer), "0.12345678901234568");
    cr_assert(parse("0.1234567890123456789", &value) && value == 0.1234567890123456789);
    cr_assert(!parse("1,5", &value));
}
