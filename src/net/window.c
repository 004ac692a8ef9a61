#include "net/window.h"

bool fm_window_fit(int64_t rows, int64_t taps, int64_t stride, int64_t dilation, enum fm_padding padding,
                   struct fm_window_fit *fit)
{
    int64_t reach = (taps - 1) * dilation + 1;
    *fit = (struct fm_window_fit){0};
    if (padding == FM_PADDING_VALID) {
        if (reach > rows) return false;
        fit->rows = (rows - reach) / stride + 1;
        return true;
    }
    fit->rows = (rows - 1) / stride + 1;
    if (padding == FM_PADDING_CAUSAL) {
        fit->pad_before = reach - 1;
        return true;
    }
    int64_t pad = (fit->rows - 1) * stride + reach - rows;
    if (pad < 0) pad = 0;
    fit->pad_before = pad / 2;
    fit->pad_after = pad - fit->pad_before;
    return true;
}
