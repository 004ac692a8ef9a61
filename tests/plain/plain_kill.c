/* A process that runs a sweep is killed at random instants, again and again, until the sweep is done: with a
 * checkpoint at every safe point, so that most lives go on from one. The journal ends as an undisturbed
 * run's. A plain program, because the processes are its own. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "engine/cpu/cpu.h"
#include "support/sweep.h"

enum { AT_LEAST = 20, LIVES = 10 };

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
    "  optimizer: {adam: {learning_rate: \"${rate}\"}}\n"
    "  batch_size: 4\n"
    "  epochs: 1200\n"
    "  early_stopping: {patience: 230, restore_best_weights: true}\n"
    "  on_nan: rollback\n"
    "metric: {name: val_auc}\n"
    "method: grid\n"
    "keep: {trials: 2}\n"
    "parameters:\n"
    "  filters: {values: [2, 16]}\n"
    "  rate: {value: 1e-2}\n";

static void nap(double seconds)
{
    struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};
    while (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
    nanosleep(&t, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One life: killed after so many seconds, or 0 = left alone. Gives its exit code, -1 when it was killed. */
static int life(struct ts_sweep *sweep, int64_t lanes, double seconds)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0) return 127;
    if (child == 0) {
        struct ts_sweep_options options = {
            .backend = &fm_backend_cpu, .lanes = lanes, .checkpoint_seconds = 0};
        struct fm_error err = {0};
        const int rc = ts_sweep_run(sweep, &options, &err);
        if (rc) fprintf(stderr, "plain_kill: %s\n", err.text);
        _exit(rc ? 1 : 0);
    }
    if (seconds > 0) {
        nap(seconds);
        kill(child, SIGKILL);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Checkpoints that the next life finds. A life may have ended before there was a journal, or in the middle of
 * its creation, which only a writer can clear up: then there are none. */
static long checkpoints(const struct ts_sweep *sweep)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    long count = 0;
    if (sqlite3_open_v2(sweep->journal, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "SELECT count(*) FROM checkpoint", -1, &row, NULL) == SQLITE_OK &&
        sqlite3_step(row) == SQLITE_ROW)
        count = sqlite3_column_int(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(db);
    return count;
}

int main(void)
{
    struct ts_sweep calm, killed;
    ts_sweep_init(&calm, yaml);
    const double began = now();
    if (life(&calm, 1, 0)) return 1;
    const double whole = now() - began;
    char *want = ts_sweep_dump(&calm);
    long kills = 0, resumed = 0, wrong = 0, stories = 0;
    /* Other programs make lives longer and shorter, so the reach of the axe follows them. */
    double reach = 0.7 * whole;
    for (; stories < 200 && (kills < AT_LEAST || resumed < AT_LEAST / 5); stories++) {
        ts_sweep_init(&killed, yaml);
        int code = -1;
        for (uint64_t lives = 0; code == -1; lives++) {
            const float share =
                fm_uniform_float((uint32_t)fm_key(7, FM_PURPOSE_SHUFFLE, (uint32_t)stories, (uint32_t)lives));
            resumed += checkpoints(&killed) > 0;
            /* Every other life lasts until something was committed (0.2 s), so that the next one has what to
             * go on from. */
            const double least = lives % 2 ? 0.002 : 0.25;
            code = life(&killed, 1 + (int64_t)lives % 3, lives < LIVES ? least + (double)share * reach : 0);
            kills += code == -1;
            reach *= code == -1 ? 1.1 : 0.7;
        }
        char *got = code == 0 ? ts_sweep_dump(&killed) : NULL;
        wrong += !got || strcmp(got, want) != 0;
        free(got);
        ts_sweep_fini(&killed);
    }
    free(want);
    ts_sweep_fini(&calm);
    printf("plain_kill: %ld kills in %ld stories, %ld lives found checkpoints, %ld wrong\n", kills, stories,
           resumed, wrong);
    return wrong != 0 || resumed < AT_LEAST / 5 || kills < AT_LEAST;
}
