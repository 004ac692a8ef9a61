#include "report/trial_text.h"

#include <math.h>

static void add_level(struct fm_text *text, double share, bool utf8)
{
    static const char ascii[8] = {'_', '.', '-', ':', '=', '+', '*', '#'};
    int level = (int)(share * 7.999);
    if (level < 0) level = 0;
    if (level > 7) level = 7;
    char block[3] = {'\xe2', '\x96', (char)(0x81 + level)}; /* U+2581 .. U+2588 */
    if (utf8)
        fm_text_add_bytes(text, block, 3);
    else
        fm_text_add_bytes(text, &ascii[level], 1);
}

void fm_curve_text(struct fm_text *text, const double *values, int64_t n, int width,
                   const struct fm_look *look)
{
    double least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) continue;
        if (values[i] < least) least = values[i];
        if (values[i] > most) most = values[i];
    }
    int64_t shown = n < width ? n : width;
    for (int64_t i = 0; i < shown; i++) {
        /* The first and the last epoch are always among those shown. */
        double value = values[shown > 1 ? i * (n - 1) / (shown - 1) : 0];
        if (!isfinite(value))
            fm_text_add_string(text, "?");
        else
            add_level(text, most > least ? (value - least) / (most - least) : 0.5, look && look->utf8);
    }
}
