/* Numbers, words and UTF-8 from any bytes: no reading outside, and what is read as a number survives being
 * written and read again. */
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const char *bytes, size_t size);

static void check_number(const char *bytes, size_t size)
{
    double value = 0, back = 0;
    int64_t whole = 0;
    char buffer[FM_NUMBER_TEXT];
    bool is_number = fm_parse_number(bytes, size, &value);
    if (fm_parse_integer(bytes, size, &whole) && !is_number) abort();
    if (!is_number) return;
    fm_format_number(value, buffer);
    if (!isfinite(value) || !fm_parse_number(buffer, strlen(buffer), &back) || back != value) abort();
    /* The C library reads the same text alike. */
    char *copy = malloc(size + 1);
    if (!copy) return;
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    if (strtod(copy, NULL) != value) abort();
    free(copy);
}

int LLVMFuzzerTestOneInput(const char *bytes, size_t size)
{
    static const char *const names[] = {"filters", "kernel_size", "strides", "padding", "l1"};
    char shown[40], word[200];
    check_number(bytes, size);
    int64_t at = fm_utf8_invalid(bytes, size);
    if (at < -1 || at >= (int64_t)size) abort();
    fm_show(bytes, size, shown, sizeof shown);
    if (fm_utf8_invalid(shown, strlen(shown)) != -1) abort();
    size_t length = size < sizeof word - 1 ? size : sizeof word - 1;
    memcpy(word, bytes, length);
    word[length] = '\0';
    fm_nearest(word, names, sizeof names / sizeof *names);
    return 0;
}
