/* A whole sweep on three lanes of the CPU engine while another thread asks it to stop, again and
 * again: scheduler, worker threads, journal and resume under the thread sanitizer. What the journal holds in
 * the end is what an undisturbed run on one lane writes. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "engine/cpu/cpu.h"
#include "support/sweep.h"

static const char yaml[] =
    "cv: {split: stratified, folds: 3}\n"
    "model:\n"
    "  - conv1d: {filters: \"${filters}\", kernel_size: 3, padding: same, activation: relu}\n"
    "  - batch_normalization\n"
    "  - flatten\n"
    "  - dropout: {rate: 0.25}\n"
    "  - dense: {units: 2, activation: softmax}\n"
    "train:\n"
    "  loss: categorical_crossentropy\n"
    "  batch_size: 4\n"
    "  epochs: 240\n"
    "  early_stopping: {patience: 230, restore_best_weights: true}\n"
    "  on_nan: rollback\n"
    "metric: {name: val_auc}\n"
    "method: grid\n"
    "parameters:\n"
    "  filters: {values: [2, 5, 16]}\n";

struct stopper {
    atomic_int stop, over;
    uint64_t seed;
};

static void nap(long microseconds)
{
    struct timespec t = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static void *stop_later(void *context)
{
    struct stopper *stopper = context;
    nap(1000 + (long)(stopper->seed * 7919 % 83) * 500);
    if (!atomic_load(&stopper->over)) atomic_store(&stopper->stop, 1);
    return NULL;
}

/* Counts calls, so that the progress path runs too. */
static void on_progress(void *context, const struct fm_progress *progress)
{
    long *calls = context;
    *calls += progress->nlanes > 0;
}

static int run(struct ts_sweep *sweep, int64_t lanes, struct stopper *stopper, long *calls,
               struct fm_error *err)
{
    struct fm_watcher watcher = {.progress = on_progress, .context = calls};
    struct ts_sweep_options options = {.backend = &fm_backend_cpu,
                                       .lanes = lanes,
                                       .watcher = &watcher,
                                       .stop = stopper ? &stopper->stop : NULL,
                                       .checkpoint_seconds = 0.01};
    *err = (struct fm_error){0};
    return ts_sweep_run(sweep, &options, err);
}

int main(void)
{
    struct ts_sweep calm, disturbed;
    struct fm_error err;
    long calls = 0, stops = 0, wrong = 0;
    ts_sweep_init(&calm, yaml);
    ts_sweep_init(&disturbed, yaml);
    if (run(&calm, 1, NULL, &calls, &err)) {
        fprintf(stderr, "undisturbed: %s\n", err.text);
        return 1;
    }
    char *want = ts_sweep_dump(&calm);
    for (int rc = FM_EINTERRUPTED; rc == FM_EINTERRUPTED;) {
        struct stopper stopper = {.seed = (uint64_t)stops + 1};
        pthread_t thread;
        /* After many stops it is left alone, or a slow machine would never come to the end. */
        int disturb = stops < 60;
        if (disturb && pthread_create(&thread, NULL, stop_later, &stopper)) return 1;
        rc = run(&disturbed, 3, &stopper, &calls, &err);
        atomic_store(&stopper.over, 1);
        if (disturb) pthread_join(thread, NULL);
        stops += rc == FM_EINTERRUPTED;
        if (rc && rc != FM_EINTERRUPTED) {
            fprintf(stderr, "after %ld stops: %s\n", stops, err.text);
            return 1;
        }
    }
    char *got = ts_sweep_dump(&disturbed);
    wrong += strcmp(got, want) != 0;
    wrong += stops == 0;
    wrong += calls == 0;
    free(got);
    free(want);
    ts_sweep_fini(&calm);
    ts_sweep_fini(&disturbed);
    printf("plain_sweep: %ld stops, %ld wrong\n", stops, wrong);
    return wrong != 0;
}
