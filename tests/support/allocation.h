/* Fails allocations in turn and counts locks. The linker redirects malloc, calloc, realloc and
 * pthread_mutex_lock of our own code to wrappers
 * (--wrap in the Makefile); libraries keep theirs, so their hooks (sqlite3_config, json_set_alloc_funcs) are
 * set to functions that ask ts_allocation_fails first. Counters are atomic; one test at a time uses them. */
#ifndef FM_TESTS_ALLOCATION_H
#define FM_TESTS_ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>

/* Counts from 1 again and lets the n-th allocation fail, alone or with all that follow; n = 0 fails none. */
void ts_fail_allocation(long n, bool from_then_on);

/* Allocations asked for since the last ts_fail_allocation. A test that ends with fewer than n has had them
 * all. */
long ts_allocations(void);

/* Mutexes that our own code locked since the program began. */
long ts_locks(void);

/* Counts one allocation and says whether it is to fail; for hooks of libraries. */
bool ts_allocation_fails(void);

#endif
