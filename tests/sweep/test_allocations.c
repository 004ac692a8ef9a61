/* Every allocation of a small sweep fails once, alone or with all that follow: ours (the linker wraps them),
 * SQLite's and jansson's (their hooks). Whatever happens then, the journal is whole: the same command without
 * failures ends as if nothing had been, but for runs that were recorded as out of memory, which is a result.
 *
 * A full round is thousands of sweeps, so `make check` takes a sample of the places; the slow checks set
 * FOLDMILL_EVERY to the distance between the places they want (1 = all). */
#include <criterion/criterion.h>
#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/reference/reference.h"
#include "support/allocation.h"
#include "support/scripted.h"
#include "support/support.h"
#include "support/sweep.h"

static const char yaml[] = "cv: {split: stratified, folds: 2}\n"
                           "tags: [small]\n"
                           "model:\n"
                           "  - conv1d: {filters: \"${filters}\", kernel_size: 2, activation: relu}\n"
                           "  - flatten\n"
                           "  - dropout: {rate: 0.25}\n"
                           "  - dense: {units: 2, activation: softmax}\n"
                           "train:\n"
                           "  loss: categorical_crossentropy\n"
                           "  batch_size: 8\n"
                           "  epochs: 2\n"
                           "  class_weight: balanced\n"
                           "  early_stopping: {patience: 5, restore_best_weights: true}\n"
                           "  on_nan: rollback\n"
                           "metric: {name: val_accuracy}\n"
                           "method: grid\n"
                           "parameters:\n"
                           "  filters: {values: [2, 3]}\n";

static sqlite3_mem_methods plain;

static void *sqlite_malloc(int size)
{
    return ts_allocation_fails() ? NULL : plain.xMalloc(size);
}

static void *sqlite_realloc(void *p, int size)
{
    return ts_allocation_fails() ? NULL : plain.xRealloc(p, size);
}

/* The wrapper of malloc counts it. The product gives texts back by free, as jansson's own functions are
 * free's family here, so blocks cannot be counted: leaks are the address sanitizer's to find. */
static void *json_malloc(size_t size)
{
    return malloc(size);
}

/* Nothing here is about the disk, and waiting for it would take most of the time. */
static int no_sync(int descriptor)
{
    (void)descriptor;
    return 0;
}

static void hook_libraries(void)
{
    cr_assert_eq(sqlite3_shutdown(), SQLITE_OK);
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain), SQLITE_OK);
    sqlite3_mem_methods hooked = plain;
    hooked.xMalloc = sqlite_malloc;
    hooked.xRealloc = sqlite_realloc;
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_MALLOC, &hooked), SQLITE_OK);
    /* Small blocks would come from a reserve otherwise and never fail. */
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0), SQLITE_OK);
    cr_assert_eq(sqlite3_initialize(), SQLITE_OK);
    sqlite3_vfs *files = sqlite3_vfs_find(NULL);
    files->xSetSystemCall(files, "fsync", (sqlite3_syscall_ptr)no_sync);
    files->xSetSystemCall(files, "fdatasync", (sqlite3_syscall_ptr)no_sync);
    json_set_alloc_funcs(json_malloc, free);
}

static int run(struct ts_sweep *sweep, const struct fm_backend *backend, struct fm_error *err)
{
    struct ts_sweep_options options = {.backend = backend, .lanes = 1, .checkpoint_seconds = 0};
    *err = (struct fm_error){0};
    fm_scripted_configure(&(struct fm_scripted_options){.order = 1});
    return ts_sweep_run(sweep, &options, err);
}

static void remove_journal(const struct ts_sweep *sweep)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", sweep->journal, ends[i]);
        unlink(path);
    }
}

/* What is wrong after a failure at the n-th allocation, as a sentence in `text`, or "". */
static void fail_at(struct ts_sweep *sweep, const struct fm_backend *backend, long n, bool lasting,
                    const char *want, char *text, size_t size)
{
    struct fm_error err, again;
    text[0] = '\0';
    remove_journal(sweep);
    ts_fail_allocation(n, lasting);
    int rc = run(sweep, backend, &err);
    ts_fail_allocation(0, false);
    if (sqlite3_memory_used())
        snprintf(text, size, "SQLite keeps %lld bytes", (long long)sqlite3_memory_used());
    else if (rc && rc != FM_ENOMEM)
        snprintf(text, size, "code %d, %s", rc, err.text);
    else if ((rc != 0) != (err.text[0] != '\0'))
        snprintf(text, size, "code %d, but the text is '%s'", rc, err.text);
    else if (run(sweep, backend, &again))
        snprintf(text, size, "then: %s", again.text);
    if (text[0] || ts_sweep_number(sweep, "SELECT count(*) FROM run WHERE reason_code = 'oom'")) return;
    char *got = ts_sweep_dump(sweep);
    size_t same = 0;
    while (want[same] && got[same] == want[same]) same++;
    size_t from = same > 30 ? same - 30 : 0;
    if (strcmp(got, want) != 0)
        snprintf(text, size, "code %d; the end differs: ...%.80s... instead of ...%.80s...", rc, got + from,
                 want + from);
    free(got);
}

/* Distance between the places that are tried; a prime, so that every kind of place comes up. */
static long distance(long sample)
{
    const char *every = getenv("FOLDMILL_EVERY");
    long wanted = every ? strtol(every, NULL, 10) : 0;
    return wanted > 0 ? wanted : sample;
}

static void fail_in_turn(const struct fm_backend *backend, long step)
{
    struct ts_sweep sweep;
    struct fm_error err;
    char wrong[2048];
    ts_sweep_init(&sweep, yaml);
    hook_libraries();
    ts_fail_allocation(0, false);
    cr_assert_eq(run(&sweep, backend, &err), 0, "%s", err.text);
    long all = ts_allocations(), tried = 0, failed = 0;
    char *want = ts_sweep_dump(&sweep);
    cr_assert(strstr(want, "completed"));
    for (long n = 1; n <= all && failed < 20; n += step, tried++)
        for (int lasting = 0; lasting < 2; lasting++) {
            fail_at(&sweep, backend, n, lasting != 0, want, wrong, sizeof wrong);
            failed += wrong[0] != '\0';
            if (wrong[0])
                fprintf(stderr, "%s, allocation %ld%s: %s\n", backend->name, n, lasting ? " and on" : "",
                        wrong);
        }
    fprintf(stderr, "%s: %ld of %ld allocations failed, alone and from then on\n", backend->name, tried, all);
    cr_assert_eq(failed, 0, "%ld failures were not survived", failed);
    free(want);
    ts_sweep_fini(&sweep);
}

Test(allocations, scripted, .timeout = 3000)
{
    fail_in_turn(&fm_backend_scripted, distance(97));
}

Test(allocations, reference, .timeout = 3000)
{
    fail_in_turn(&fm_backend_reference, distance(89));
}
