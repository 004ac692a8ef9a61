/* Values that readers of YAML 1.1 understand differently. */
#include <string.h>
#include <strings.h>

#include "config/tree.h"

static bool all_of(const char *text, size_t size, const char *set)
{
    for (size_t i = 0; i < size; i++) {
        if (!strchr(set, text[i])) return false;
    }
    return size > 0;
}

const char *fm_odd_reading(const char *text, size_t size)
{
    static const char *const words[] = {"on", "off", "yes", "no"};
    for (size_t w = 0; w < 4; w++) {
        if (strlen(words[w]) != size || strncasecmp(words[w], text, size) != 0) continue;
        bool mixed = size > 1 && text[0] >= 'a' && memcmp(text, words[w], size) != 0;
        return mixed ? NULL : "true or false";
    }
    size_t sign = size && (text[0] == '-' || text[0] == '+');
    const char *digits = text + sign;
    size_t n = size - sign;
    if (n == 0 || digits[0] < '0' || digits[0] > '9') return NULL;
    if (n > 1 && digits[0] == '0' && all_of(digits, n, "01234567")) return "an octal number";
    if (memchr(digits, '_', n) && all_of(digits, n, "0123456789_.")) return "a number";
    if (memchr(digits, ':', n) && digits[n - 1] != ':' && all_of(digits, n, "0123456789:")) {
        return "a number to the base 60";
    }
    return NULL;
}
