/* What the scripts here need beside a shell: compare two results, read one number of them, measure a program.
 *
 *   tool same A.json B.json      exit 0 when the results are equal bit for bit, journal's name, transfers and
 *                                times aside; else tells where they differ
 *   tool get FILE KEY...         the value at object keys and array places, as JSON
 *   tool measure FILE COMMAND... runs the command and writes "<wall s> <processor s> <peak kB>" into FILE;
 *                                exits with its code
 *   tool nap SECONDS             sleeps
 *   tool started JOURNAL         when its first run started, in seconds since 1970
 *   tool choices JOURNAL         what a GPU's libraries chose for its plans */
#include <jansson.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *value = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!value) fprintf(stderr, "%s:%d: %s\n", path, error.line, error.text);
    return value;
}

static bool leaves_out(const char *key)
{
    static const char *const keys[] = {"journal", "transfers", "seconds", "started", "ended"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i])) return true;
    return false;
}

static bool same(const json_t *a, const json_t *b, const char *where);

static bool same_object(json_t *a, json_t *b, const char *where)
{
    const char *key;
    json_t *value;
    bool equal = json_object_size(a) == json_object_size(b);
    if (!equal) fprintf(stderr, "%s: other keys\n", where);
    json_object_foreach(a, key, value)
    {
        char inner[512];
        snprintf(inner, sizeof inner, "%s.%s", where, key);
        if (equal && !leaves_out(key)) equal = same(value, json_object_get(b, key), inner);
    }
    return equal;
}

static bool same(const json_t *a, const json_t *b, const char *where)
{
    if (!a || !b || json_typeof(a) != json_typeof(b)) {
        fprintf(stderr, "%s: something else\n", where);
        return false;
    }
    if (json_is_object(a)) return same_object((json_t *)a, (json_t *)b, where);
    if (!json_is_array(a)) {
        bool equal = json_is_real(a) ? json_real_value(a) == json_real_value(b) : json_equal(a, b);
        if (!equal) fprintf(stderr, "%s: another value\n", where);
        return equal;
    }
    bool equal = json_array_size(a) == json_array_size(b);
    if (!equal) fprintf(stderr, "%s: %zu items, then %zu\n", where, json_array_size(a), json_array_size(b));
    for (size_t i = 0; equal && i < json_array_size(a); i++) {
        char inner[512];
        snprintf(inner, sizeof inner, "%s[%zu]", where, i);
        equal = same(json_array_get(a, i), json_array_get(b, i), inner);
    }
    return equal;
}

static int compare(const char *one, const char *other)
{
    json_t *a = load(one), *b = load(other);
    bool equal = a && b && same(a, b, "results");
    json_decref(a);
    json_decref(b);
    return equal ? 0 : 1;
}

static int get(const char *path, char **keys)
{
    json_t *root = load(path), *value = root;
    for (; value && *keys; keys++)
        value = json_is_array(value) ? json_array_get(value, strtoul(*keys, NULL, 10))
                                     : json_object_get(value, *keys);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    printf("%s\n", text ? text : "null");
    free(text);
    json_decref(root);
    return value ? 0 : 1;
}

static double monotonic(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int measure(const char *into, char **command)
{
    double began = monotonic();
    pid_t child = fork();
    if (child == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    int status = 0;
    struct rusage use;
    if (child < 0 || wait4(child, &status, 0, &use) != child) return 126;
    FILE *file = fopen(into, "w");
    if (!file) return 126;
    double processor = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
    fprintf(file, "%.3f %.3f %ld\n", monotonic() - began, processor, use.ru_maxrss);
    if (fclose(file)) return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int nap(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    return nanosleep(&t, NULL) ? 1 : 0;
}

/* The one value that the query gives. */
static int value_of(const char *journal, const char *query)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    bool found = sqlite3_open_v2(journal, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
                 sqlite3_prepare_v2(db, query, -1, &row, NULL) == SQLITE_OK &&
                 sqlite3_step(row) == SQLITE_ROW && sqlite3_column_type(row, 0) != SQLITE_NULL;
    if (found) printf("%s\n", (const char *)sqlite3_column_text(row, 0));
    sqlite3_finalize(row);
    sqlite3_close(db);
    return !found;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "same")) return compare(argv[2], argv[3]);
    if (argc >= 3 && !strcmp(argv[1], "get")) return get(argv[2], argv + 3);
    if (argc >= 4 && !strcmp(argv[1], "measure")) return measure(argv[2], argv + 3);
    if (argc == 3 && !strcmp(argv[1], "nap")) return nap(strtod(argv[2], NULL));
    if (argc == 3 && !strcmp(argv[1], "started"))
        return value_of(argv[2], "SELECT printf('%.6f', min(started)) FROM run WHERE started IS NOT NULL "
                                 "HAVING count(*) > 0");
    if (argc == 3 && !strcmp(argv[1], "choices"))
        return value_of(argv[2], "SELECT group_concat(choices, '') FROM (SELECT choices FROM plan ORDER BY "
                                 "network, batch)");
    fprintf(stderr, "see the head of tests/slow/tool.c\n");
    return 2;
}
