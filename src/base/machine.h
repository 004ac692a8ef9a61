/* What the machine lends to this process. */
#ifndef FM_BASE_MACHINE_H
#define FM_BASE_MACHINE_H

#include <stdint.h>

/* Cores that the process may run on (taskset and containers' cpusets count), at least 1. */
int64_t fm_usable_cores(void);

double fm_monotonic(void); /* seconds, for intervals */

#endif
