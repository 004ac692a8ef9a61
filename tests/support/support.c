#include "support/support.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

json_t *ts_golden(const char *name)
{
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, "tests/goldens/%s.json", name);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root) fprintf(stderr, "%s:%d:%d: %s\n", path, error.line, error.column, error.text);
    return root;
}

struct numbers {
    double *items;
    size_t count, capacity;
};

static bool number_of(const json_t *value, double *number)
{
    const char *text = json_string_value(value);
    if (json_is_number(value)) {
        *number = json_number_value(value);
    } else if (json_is_null(value) || (text && strcmp(text, "nan") == 0)) {
        *number = NAN;
    } else if (text && (strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0)) {
        *number = text[0] == '-' ? -INFINITY : INFINITY;
    } else {
        return false;
    }
    return true;
}

static bool collect(const json_t *value, struct numbers *numbers)
{
    size_t i;
    json_t *item;
    if (json_is_array(value)) {
        json_array_foreach(value, i, item)
        {
            if (!collect(item, numbers)) return false;
        }
        return true;
    }
    if (numbers->count == numbers->capacity) {
        size_t capacity = numbers->capacity * 2 + 64;
        double *grown = realloc(numbers->items, capacity * sizeof *grown);
        if (!grown) return false;
        numbers->items = grown;
        numbers->capacity = capacity;
    }
    return number_of(value, &numbers->items[numbers->count++]);
}

double *ts_golden_numbers(const json_t *list, size_t *count)
{
    struct numbers numbers = {.items = malloc(sizeof(double)), .capacity = 1};
    if (!numbers.items || !list || !collect(list, &numbers)) {
        free(numbers.items);
        *count = 0;
        return NULL;
    }
    *count = numbers.count;
    return numbers.items;
}

bool ts_temporary(char *path, size_t size)
{
    int n = snprintf(path, size, "/tmp/foldmill-test-XXXXXX");
    return n > 0 && (size_t)n < size && mkdtemp(path) != NULL;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)place;
    /* What a test made unreadable could not be looked into. */
    if (kind == FTW_DNR) chmod(path, 0700);
    remove(path);
    return 0;
}

void ts_remove_tree(const char *path)
{
    nftw(path, remove_entry, 32, FTW_DEPTH | FTW_PHYS);
}

const char *ts_join(char *buffer, size_t size, const char *folder, const char *name)
{
    snprintf(buffer, size, "%s/%s", folder, name);
    return buffer;
}

bool ts_write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    bool whole = fwrite(bytes, 1, size, file) == size;
    return fclose(file) == 0 && whole;
}

/* A buffer that grows as a file or a pipe is read; data is always terminated. */
struct stream {
    int fd;
    char *data;
    size_t size, capacity;
};

/* Reads once; false at the end, on an error, or without memory. */
static bool read_some(struct stream *s)
{
    if (s->capacity - s->size < 4096) {
        size_t capacity = s->capacity * 2 + 8192;
        char *grown = realloc(s->data, capacity);
        if (!grown) return false;
        s->data = grown;
        s->capacity = capacity;
    }
    ssize_t n;
    do {
        n = read(s->fd, s->data + s->size, s->capacity - s->size - 1);
    } while (n < 0 && errno == EINTR);
    if (n > 0) s->size += (size_t)n;
    s->data[s->size] = '\0';
    return n > 0;
}

char *ts_read_file(const char *path, size_t *size)
{
    struct stream s = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (s.fd < 0) return NULL;
    while (read_some(&s)) continue;
    close(s.fd);
    if (size) *size = s.size;
    return s.data;
}

const char *ts_shared(void)
{
    return access("../shared", R_OK | X_OK) == 0 ? "../shared" : NULL;
}

const char *ts_program(void)
{
    const char *program = getenv("FOLDMILL");
    return program && program[0] ? program : "build/foldmill";
}

/* ---- running a program ----------------------------------------------------------------------------------
 */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char **joined_environment(const char *const *more)
{
    size_t n = 0, m = 0;
    while (environ[n]) n++;
    while (more && more[m]) m++;
    const char **all = calloc(n + m + 1, sizeof *all);
    if (!all) return NULL;
    /* The first of two values of one name is the one that getenv finds. */
    for (size_t i = 0; i < m; i++) all[i] = more[i];
    for (size_t i = 0; i < n; i++) all[m + i] = environ[i];
    return all;
}

static bool start(const char *const *argv, const char *const *environment, int out, int err, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    const char **all = joined_environment(environment);
    if (!all) return false;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, err, 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    /* The prototype of posix_spawn lacks a const that it keeps. */
    int failed = posix_spawnp(pid, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv,
                              (char *const *)(uintptr_t)all);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(all);
    return failed == 0;
}

/* Reads both pipes until they end or time is up; false if it was up. */
static bool read_both(struct stream streams[2], double deadline)
{
    struct pollfd polled[2] = {{.fd = streams[0].fd, .events = POLLIN},
                               {.fd = streams[1].fd, .events = POLLIN}};
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
        double left = deadline - now();
        if (left <= 0) return false;
        int ready = poll(polled, 2, (int)(left * 1000) + 1);
        if (ready < 0 && errno != EINTR) return false;
        for (int i = 0; i < 2 && ready > 0; i++) {
            if (polled[i].fd >= 0 && polled[i].revents && !read_some(&streams[i])) polled[i].fd = -1;
        }
    }
    return true;
}

/* Waits for a program that may have closed its output and still run; kills it when time is up. */
static int reap(pid_t pid, double deadline, bool *timed_out)
{
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (*timed_out || now() > deadline) {
            *timed_out = true;
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return status;
}

static void finish(struct stream *s, char **data, size_t *size)
{
    close(s->fd);
    *data = s->data ? s->data : calloc(1, 1);
    *size = s->size;
}

bool ts_run(const char *const *argv, const char *const *environment, double seconds, struct ts_result *result)
{
    int out[2], err[2];
    double deadline = now() + seconds;
    *result = (struct ts_result){.exit_code = -1};
    if (pipe2(out, O_CLOEXEC) != 0) return false;
    if (pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]), close(out[1]);
        return false;
    }
    pid_t pid;
    bool started = start(argv, environment, out[1], err[1], &pid);
    close(out[1]), close(err[1]);
    struct stream streams[2] = {{.fd = out[0]}, {.fd = err[0]}};
    if (started) {
        result->timed_out = !read_both(streams, deadline);
        int status = reap(pid, deadline, &result->timed_out);
        if (WIFEXITED(status)) result->exit_code = WEXITSTATUS(status);
        if (WIFSIGNALED(status)) result->signal = WTERMSIG(status);
    }
    finish(&streams[0], &result->out, &result->out_size);
    finish(&streams[1], &result->err, &result->err_size);
    if (!started) ts_result_fini(result);
    return started;
}

void ts_result_fini(struct ts_result *result)
{
    free(result->out);
    free(result->err);
    *result = (struct ts_result){.exit_code = -1};
}
