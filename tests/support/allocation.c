#include "support/allocation.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

static atomic_long locked;
static atomic_long seen;
static atomic_long first_failure;
static atomic_bool lasting;

void ts_fail_allocation(long n, bool from_then_on)
{
    atomic_store(&seen, 0);
    atomic_store(&lasting, from_then_on);
    atomic_store(&first_failure, n);
}

long ts_allocations(void)
{
    return atomic_load(&seen);
}

bool ts_allocation_fails(void)
{
    long number = atomic_fetch_add(&seen, 1) + 1, limit = atomic_load(&first_failure);
    bool fails = limit > 0 && (number == limit || (number > limit && atomic_load(&lasting)));
    if (fails) errno = ENOMEM;
    return fails;
}

void *__wrap_malloc(size_t size)
{
    return ts_allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return ts_allocation_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return ts_allocation_fails() ? NULL : __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return ts_allocation_fails() ? NULL : __real_aligned_alloc(alignment, size);
}

long ts_locks(void)
{
    return atomic_load(&locked);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    atomic_fetch_add(&locked, 1);
    return __real_pthread_mutex_lock(mutex);
}
