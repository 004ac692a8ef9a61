#include "base/memory.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of n items, at least one so that an empty array has an address; false where no object can be as
 * large. */
static bool total_size(size_t n, size_t size, size_t *total)
{
    if (__builtin_mul_overflow(n, size, total) || *total > PTRDIFF_MAX) return false;
    if (*total == 0) *total = 1;
    return true;
}

void *fm_malloc(size_t n, size_t size)
{
    size_t total;
    return total_size(n, size, &total) ? malloc(total) : NULL;
}

void *fm_calloc(size_t n, size_t size)
{
    size_t total;
    return total_size(n, size, &total) ? calloc(1, total) : NULL;
}

void *fm_malloc_aligned(size_t n, size_t size)
{
    enum { LINE = 64 };
    size_t total;
    if (!total_size(n, size, &total) || total > PTRDIFF_MAX - LINE) return NULL;
    total = (total + LINE - 1) / LINE * LINE;
    return aligned_alloc(LINE, total);
}

void *fm_realloc(void *p, size_t n, size_t size)
{
    size_t total;
    return total_size(n, size, &total) ? realloc(p, total) : NULL;
}

void fm_free(void *p)
{
    free(p);
}

char *fm_strdup(const char *text)
{
    return text ? fm_strndup(text, strlen(text)) : NULL;
}

char *fm_strndup(const char *text, size_t size)
{
    if (!text) return NULL;
    size_t length = strnlen(text, size);
    char *copy = fm_malloc(length + 1, 1);
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

int fm_grow(void *items_pointer, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) return 0;
    size_t wanted = *capacity + *capacity / 2;
    if (wanted < 16) wanted = 16;
    if (wanted < need) wanted = need;
    /* The caller's pointer has its own type, so it is read and written as bytes. */
    void *items;
    memcpy(&items, items_pointer, sizeof items);
    void *grown = fm_realloc(items, wanted, size);
    if (!grown) return FM_ENOMEM;
    memcpy(items_pointer, &grown, sizeof grown);
    *capacity = wanted;
    return 0;
}

bool fm_multiply(int64_t a, int64_t b, int64_t *product)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, product);
}
