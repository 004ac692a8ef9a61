/* Several threads read one index set and one permutation at once; for the thread sanitizer. */
#include "base/indexset.h"
#include "base/random.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, N = 20000 };

struct job {
    const struct fm_indexset *set;
    const struct fm_permutation *order;
    uint64_t sum;
};

static void *work(void *data)
{
    struct job *job = data;
    struct fm_cursor cursor = {0};
    int64_t member;
    for (int64_t i = 0; fm_indexset_next(job->set, &cursor, &member); i++) {
        if (fm_indexset_at(job->set, i) != member || fm_indexset_rank(job->set, member) != i) return NULL;
        job->sum = job->sum * 31 + (uint64_t)member + fm_permutation_at(job->order, (uint64_t)i);
    }
    return job;
}

int main(void)
{
    struct fm_indexset_builder b;
    struct fm_indexset set;
    struct fm_permutation order;
    pthread_t threads[THREADS];
    struct job jobs[THREADS];
    int wrong = 0;
    fm_indexset_builder_init(&b, 1);
    for (int64_t v = 0; v < N; v++) {
        if (v * v % 7 != 2) fm_indexset_add(&b, v);
    }
    if (fm_indexset_finish(&b, &set, NULL) != 0) return 1;
    fm_permutation_init(&order, N, 3, 1);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){.set = &set, .order = &order};
        if (pthread_create(&threads[i], NULL, work, &jobs[i]) != 0) return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        void *done;
        if (pthread_join(threads[i], &done) != 0 || !done || jobs[i].sum != jobs[0].sum) wrong++;
    }
    fm_indexset_fini(&set);
    printf("readers: %d threads, %d wrong\n", THREADS, wrong);
    return wrong != 0;
}
