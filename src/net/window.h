/* The arithmetic of sliding windows that convolutions and pools share (semantics.md 1.1 and 1.2). Private to
 * src/net. */
#ifndef FM_NET_WINDOW_H
#define FM_NET_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum fm_padding { FM_PADDING_VALID, FM_PADDING_SAME, FM_PADDING_CAUSAL };

struct fm_window_fit {
    int64_t rows;                  /* of the output */
    int64_t pad_before, pad_after; /* rows of padding; an odd number has the larger half after */
};

/* `taps` positions `dilation` apart over `rows` positions, every `stride`-th. All at least 1 and below 2^31.
 * False when nothing fits (only without padding). */
bool fm_window_fit(int64_t rows, int64_t taps, int64_t stride, int64_t dilation, enum fm_padding padding,
                   struct fm_window_fit *fit);

#endif
