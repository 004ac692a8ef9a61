/* Allocation with checked sizes. All memory of Foldmill's own comes from here, so that a test can fail each
 * allocation in turn (it wraps malloc, calloc and realloc at link time; nothing in the product knows of it).
 * Every function returns NULL when the size overflows or memory is out; n = 0 gives a valid pointer. */
#ifndef FM_BASE_MEMORY_H
#define FM_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *fm_malloc(size_t n, size_t size);           /* n items of `size` bytes, not cleared */
void *fm_calloc(size_t n, size_t size);           /* the same, all bytes zero */
void *fm_malloc_aligned(size_t n, size_t size);   /* not cleared; at a multiple of 64 bytes, a cache line */
void *fm_realloc(void *p, size_t n, size_t size); /* on failure `p` is still valid and owned by the caller */
void fm_free(void *p);                            /* NULL is fine */
char *fm_strdup(const char *text);                /* NULL text gives NULL */
char *fm_strndup(const char *text, size_t size);

/* Makes room for `need` items in *items (grown by half, at least 16). 0 or FM_ENOMEM; *items stays valid. */
int fm_grow(void *items_pointer, size_t *capacity, size_t need, size_t size);

/* a * b; false when it does not fit (the product is then unspecified). Arguments must not be negative. */
bool fm_multiply(int64_t a, int64_t b, int64_t *product);

#endif
