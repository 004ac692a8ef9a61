/* Times training steps of the reference networks on a device. */
#ifndef FM_API_BENCH_H
#define FM_API_BENCH_H

#include "engine/backend.h"

/* What one lane of the backend does with network S at batch 64, in floating point operations of the layers'
 * products a second; takes about `seconds`. */
int fm_bench_rate(const struct fm_backend *backend, double seconds, double *rate, struct fm_error *err);

#endif
