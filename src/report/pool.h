/* Memory that is given back all at once: what a leaderboard consists of. */
#ifndef FM_REPORT_POOL_H
#define FM_REPORT_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct fm_pool {
    void **blocks;
    size_t count, capacity;
    char *rest; /* of the newest block of small pieces */
    size_t left;
    bool failed; /* memory ran out: every later call gives NULL */
};

/* Cleared memory for n items (n = 0 gives a valid pointer), NULL when memory is out. */
void *fm_pool_alloc(struct fm_pool *pool, size_t n, size_t size);
/* A copy of a text; "" of NULL; never fails visibly: "" when memory is out (see `failed`). */
const char *fm_pool_text(struct fm_pool *pool, const char *text);
void fm_pool_fini(struct fm_pool *pool);

#endif
