#include "report/pool.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"

#define CHUNK ((size_t)65536)

static void *block(struct fm_pool *pool, size_t n, size_t size)
{
    void *p = NULL;
    if (fm_grow(&pool->blocks, &pool->capacity, pool->count + 1, sizeof *pool->blocks) == 0)
        p = fm_calloc(n, size);
    if (!p) {
        pool->failed = true;
        return NULL;
    }
    return pool->blocks[pool->count++] = p;
}

void *fm_pool_alloc(struct fm_pool *pool, size_t n, size_t size)
{
    if (pool->failed) return NULL;
    if (size == 0 || n == 0) n = size = 1;
    if (n > CHUNK / 4 / size) return block(pool, n, size);
    size_t bytes = (n * size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    if (bytes > pool->left) {
        pool->rest = block(pool, CHUNK, 1);
        pool->left = pool->rest ? CHUNK : 0;
        if (!pool->rest) return NULL;
    }
    void *p = pool->rest;
    pool->rest += bytes;
    pool->left -= bytes;
    return p;
}

const char *fm_pool_text(struct fm_pool *pool, const char *text)
{
    if (!text || !*text) return "";
    size_t size = strlen(text) + 1;
    char *copy = fm_pool_alloc(pool, size, 1);
    return copy ? memcpy(copy, text, size) : "";
}

void fm_pool_fini(struct fm_pool *pool)
{
    for (size_t i = 0; i < pool->count; i++) fm_free(pool->blocks[i]);
    fm_free(pool->blocks);
    *pool = (struct fm_pool){0};
}
