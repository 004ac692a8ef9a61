/* Scores and weights of runs that ended in the open group. Most trials of a sweep are over soon and are not
 * among the best: what they would have written and taken away again is held here and written only when the
 * group is committed, so that the file never differs from what it held if everything were written at once. */
#include <string.h>

#include "base/memory.h"
#include "sweep/journal_private.h"

/* More than this is written at once: the wait would cost memory, and runs that large are not many a group. */
#define HELD_BYTES ((size_t)4 << 20)
#define HELD_RUNS  256
#define CHUNK      ((int64_t)64 << 20)

static size_t bytes_of(const struct fm_blobs *b)
{
    return ((size_t)(b->nscores * b->width) + (size_t)b->nweights) * sizeof(float);
}

static void blobs_fini(struct fm_blobs *b)
{
    fm_free(b->scores);
    fm_free(b->weights);
}

static int write_scores(struct fm_journal *journal, const struct fm_blobs *b, struct fm_error *err)
{
    const struct fm_fence *fence = &b->fence;
    int64_t rows = CHUNK / (b->width * (int64_t)sizeof(float));
    if (rows < 1) rows = 1;
    int rc = 0;
    for (int64_t first = 0, chunk = 0; !rc && first < b->nscores; first += rows, chunk++) {
        int64_t n = b->nscores - first < rows ? b->nscores - first : rows;
        rc = fm_sql_run(
            &journal->sql, "INSERT OR REPLACE INTO score SELECT trial, repeat, fold, ?, ?, ?, ?, ?" FM_FENCE,
            err, "iiiibiiii", chunk, first, n, b->width, (const void *)(b->scores + first * b->width),
            (size_t)(n * b->width) * sizeof(float), fence->trial, fence->repeat, fence->fold, fence->attempt);
    }
    return rc;
}

static int write_weights(struct fm_journal *journal, const struct fm_blobs *b, struct fm_error *err)
{
    const struct fm_fence *fence = &b->fence;
    return fm_sql_run(&journal->sql,
                      "INSERT OR REPLACE INTO artifact SELECT trial, repeat, fold, 'weights', ?" FM_FENCE,
                      err, "biiii", (const void *)b->weights, (size_t)b->nweights * sizeof(float),
                      fence->trial, fence->repeat, fence->fold, fence->attempt);
}

int fm_blobs_flush(struct fm_journal *journal, struct fm_error *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < journal->nblobs; i++) {
        const struct fm_blobs *b = &journal->blobs[i];
        if (b->scores) rc = write_scores(journal, b, err);
        if (!rc && b->weights) rc = write_weights(journal, b, err);
    }
    if (!rc) fm_blobs_clear(journal);
    return rc;
}

void fm_blobs_clear(struct fm_journal *journal)
{
    for (int64_t i = 0; i < journal->nblobs; i++) blobs_fini(&journal->blobs[i]);
    journal->nblobs = 0;
    journal->blob_bytes = 0;
}

int fm_blobs_hold(struct fm_journal *journal, struct fm_blobs *blobs, struct fm_error *err)
{
    if (fm_grow(&journal->blobs, &journal->blob_capacity, (size_t)journal->nblobs + 1,
                sizeof *journal->blobs)) {
        blobs_fini(blobs);
        return fm_fail_memory(err);
    }
    journal->blobs[journal->nblobs++] = *blobs;
    journal->blob_bytes += bytes_of(blobs);
    bool many = journal->blob_bytes > HELD_BYTES || journal->nblobs > HELD_RUNS;
    return many ? fm_blobs_flush(journal, err) : 0;
}

const struct fm_blobs *fm_blobs_find(const struct fm_journal *journal, int64_t trial, int64_t repeat,
                                     int64_t fold)
{
    for (int64_t i = journal->nblobs - 1; i >= 0; i--) {
        const struct fm_fence *fence = &journal->blobs[i].fence;
        if (fence->trial == trial && fence->repeat == repeat && fence->fold == fold)
            return &journal->blobs[i];
    }
    return NULL;
}

/* What is held of a trial (of one run with fold >= 0); gives how many runs that were. */
static int64_t let_go(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold, bool scores,
                      bool weights)
{
    int64_t kept = 0, found = 0;
    for (int64_t i = 0; i < journal->nblobs; i++) {
        struct fm_blobs *b = &journal->blobs[i];
        if (b->fence.trial == trial && (fold < 0 || (b->fence.repeat == repeat && b->fence.fold == fold))) {
            found++;
            journal->blob_bytes -= bytes_of(b);
            if (scores) {
                fm_free(b->scores);
                b->scores = NULL;
                b->nscores = 0;
            }
            if (weights) {
                fm_free(b->weights);
                b->weights = NULL;
                b->nweights = 0;
            }
            if (!b->scores && !b->weights) continue;
            journal->blob_bytes += bytes_of(b);
        }
        journal->blobs[kept++] = *b;
    }
    journal->nblobs = kept;
    return found;
}

void fm_blobs_forget_run(struct fm_journal *journal, int64_t trial, int64_t repeat, int64_t fold)
{
    (void)let_go(journal, trial, repeat, fold, true, true);
}

int fm_blobs_drop(struct fm_journal *journal, int64_t trial, int64_t runs, bool scores, bool weights,
                  struct fm_error *err)
{
    int rc = 0;
    if (!scores && !weights) return 0;
    /* A run is held here or written, never both. */
    if (let_go(journal, trial, -1, -1, scores, weights) == runs) return 0;
    if (scores) rc = fm_sql_run(&journal->sql, "DELETE FROM score WHERE trial = ?", err, "i", trial);
    if (!rc && weights)
        rc = fm_sql_run(&journal->sql, "DELETE FROM artifact WHERE trial = ?", err, "i", trial);
    return rc;
}
