/* The whole program from a test's point of view: a folder of its own, files in it, one call of
 * build/foldmill, what it printed as JSON or CSV, numbers by path. Everything asserts by itself: a test reads
 * like a session. */
#ifndef FM_TESTS_CASES_THROUGH_H
#define FM_TESTS_CASES_THROUGH_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

#define ANYWAY __attribute__((unused)) static

struct through {
    char folder[64];
    struct ts_result last; /* of the newest call */
};

/* The shortest ends of a sweep file, for tests that are about something else. */
#define TWO_CLASSES                                                                                          \
    "model: [flatten, {dense: {units: 2, activation: softmax}}]\n"                                           \
    "train: {loss: sparse_categorical_crossentropy, epochs: 1}\n"
/* The prediction is the sum of all the network's inputs and nothing is learnt: predictions show what went in.
 */
#define SUM_OF_INPUTS                                                                                        \
    "model: [flatten, {dense: {units: 1, kernel_initializer: ones}}]\n"                                      \
    "train: {loss: mse, optimizer: {sgd: {learning_rate: 0}}, epochs: 1}\n"

ANYWAY void through_open(struct through *t)
{
    memset(t, 0, sizeof *t);
    cr_assert(ts_temporary(t->folder, sizeof t->folder));
}

ANYWAY void through_close(struct through *t)
{
    ts_result_fini(&t->last);
    ts_remove_tree(t->folder);
}

ANYWAY void through_file(struct through *t, const char *name, const char *text)
{
    char path[256];
    cr_assert(ts_write_file(ts_join(path, sizeof path, t->folder, name), text, strlen(text)), "%s", path);
}

/* Writes s.yaml. */
__attribute__((format(printf, 2, 3))) ANYWAY void through_sweep(struct through *t, const char *format, ...)
{
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cr_assert(length > 0 && (size_t)length < sizeof text);
    through_file(t, "s.yaml", text);
}

/* A committed input into the folder. */
ANYWAY void through_copy(struct through *t, const char *name)
{
    char from[256], to[256];
    size_t size;
    char *bytes = ts_read_file(ts_join(from, sizeof from, "tests/cases/data", name), &size);
    cr_assert(bytes, "%s", from);
    cr_assert(ts_write_file(ts_join(to, sizeof to, t->folder, name), bytes, size), "%s", to);
    free(bytes);
}

/* foldmill <command> s.yaml <arguments..., NULL>. Gives the exit code. */
__attribute__((sentinel)) ANYWAY int through_call(struct through *t, const char *command, ...)
{
    char file[128];
    const char *argv[16] = {ts_program(), command, ts_join(file, sizeof file, t->folder, "s.yaml")};
    va_list arguments;
    va_start(arguments, command);
    for (int i = 3; i < 15 && (argv[i] = va_arg(arguments, const char *)); i++)
        ;
    va_end(arguments);
    ts_result_fini(&t->last);
    memset(&t->last, 0, sizeof t->last);
    cr_assert(ts_run(argv, NULL, 60, &t->last));
    return t->last.exit_code;
}

/* Forgets the results, so that another sweep can take their place. */
ANYWAY void through_forget(struct through *t)
{
    char journal[128];
    remove(ts_join(journal, sizeof journal, t->folder, "s.db"));
}

ANYWAY json_t *through_parsed(struct through *t, int code, int expected)
{
    cr_assert_eq(code, expected, "exit code %d (signal %d): %s", code, t->last.signal, t->last.err);
    json_error_t error;
    json_t *json = json_loads(t->last.out, JSON_REJECT_DUPLICATES, &error);
    cr_assert(json, "%s at %d: %s", error.text, error.line, t->last.out);
    return json;
}

/* json_decref these. */
#define through_plan(t) through_parsed((t), through_call((t), "plan", "--json", NULL), 0)
#define through_run(t)  through_parsed((t), through_call((t), "run", "--json", NULL), 0)

/* Asserts that both plan and run refuse the file with exit code 2, print nothing on standard output, leave no
 * journal, and that the message has all phrases (NULL ends them). */
__attribute__((sentinel)) ANYWAY void through_refused(struct through *t, ...)
{
    static const char *const commands[] = {"plan", "run"};
    for (size_t c = 0; c < 2; c++) {
        int code = through_call(t, commands[c], NULL);
        cr_assert_eq(code, 2, "%s: exit code %d, not 2: %s%s", commands[c], code, t->last.out, t->last.err);
        cr_assert_str_empty(t->last.out);
        va_list phrases;
        va_start(phrases, t);
        for (const char *phrase; (phrase = va_arg(phrases, const char *));)
            cr_assert(strstr(t->last.err, phrase), "%s: no \"%s\" in: %s", commands[c], phrase, t->last.err);
        va_end(phrases);
        char journal[128];
        FILE *left = fopen(ts_join(journal, sizeof journal, t->folder, "s.db"), "rb");
        cr_assert_null(left, "%s left a journal", commands[c]);
    }
}

/* "folds.0.classes.1.val": keys and indices (from 0; negative ones from the end). NULL if there is none. */
ANYWAY json_t *at_or_null(const json_t *json, const char *path)
{
    char part[64];
    const json_t *here = json;
    while (*path && here) {
        size_t n = strcspn(path, ".");
        cr_assert(n < sizeof part);
        memcpy(part, path, n);
        part[n] = '\0';
        path += n + (path[n] == '.');
        if (json_is_array(here)) {
            long i = strtol(part, NULL, 10);
            here = json_array_get(here, i < 0 ? json_array_size(here) + (size_t)i : (size_t)i);
        } else {
            here = json_object_get(here, part);
        }
    }
    return (json_t *)here;
}

ANYWAY json_t *at(const json_t *json, const char *path)
{
    json_t *found = at_or_null(json, path);
    if (!found) {
        char *text = json_dumps(json, JSON_ENCODE_ANY);
        cr_assert(found, "no %s in %s", path, text);
        free(text);
    }
    return found;
}

/* null is NaN. */
ANYWAY double number_at(const json_t *json, const char *path)
{
    json_t *found = at(json, path);
    if (json_is_null(found)) return NAN;
    cr_assert(json_is_number(found), "%s is no number", path);
    return json_number_value(found);
}

ANYWAY bool near(double got, double expected, double relative)
{
    if (isnan(expected)) return isnan(got);
    return fabs(got - expected) <= relative * fmax(fabs(expected), 1e-3);
}

/* The path may hold printf's words. Relative to the expected number, at least to 0.001. */
#define check_near(json, relative, expected, ...)                                                            \
    do {                                                                                                     \
        char path_[128];                                                                                     \
        snprintf(path_, sizeof path_, __VA_ARGS__);                                                          \
        double got_ = number_at(json, path_), expected_ = (expected);                                        \
        cr_assert(near(got_, expected_, relative), "%s: %.9g, expected %.9g", path_, got_, expected_);       \
    } while (0)
#define check_number(json, expected, ...) check_near(json, 0.0, expected, __VA_ARGS__)
#define check_text(json, path, expected)  cr_assert_str_eq(json_string_value(at(json, path)), expected)
#define check_size(json, path, expected)                                                                     \
    cr_assert_eq(json_array_size(at(json, path)), (size_t)(expected), "%s has %zu", path,                    \
                 json_array_size(at(json, path)))

/* Whether one of plan's or run's notes has the phrase. */
ANYWAY bool noted(const json_t *json, const char *phrase)
{
    size_t i;
    json_t *note;
    json_array_foreach(at(json, "notes"), i, note) if (strstr(json_string_value(note), phrase)) return true;
    return false;
}

/* Lines of CSV on standard output after the header, joined as "a;b;..." of the columns from `from` on. */
ANYWAY const char *rows_from(struct through *t, int from, char *buffer, size_t size)
{
    size_t used = 0;
    const char *line = strchr(t->last.out, '\n');
    for (line = line ? line + 1 : ""; *line;) {
        size_t length = strcspn(line, "\r\n");
        const char *cell = line;
        for (int i = 0; i < from && cell; i++)
            if ((cell = strchr(cell, ','))) cell++;
        cr_assert(cell && cell <= line + length && used + length + 2 < size);
        used += (size_t)snprintf(buffer + used, size - used, "%s%.*s", used ? ";" : "",
                                 (int)(line + length - cell), cell);
        line += length + strspn(line + length, "\r\n");
    }
    if (used == 0) buffer[0] = '\0';
    return buffer;
}

/* The validation examples of `split` as "fold,example,record,start;...". */
#define check_split(t, expected)                                                                             \
    do {                                                                                                     \
        char rows_[4096];                                                                                    \
        cr_assert_eq(through_call((t), "split", NULL), 0, "%s", (t)->last.err);                              \
        cr_assert_str_eq(rows_from((t), 1, rows_, sizeof rows_), expected);                                  \
    } while (0)

/* Column `column` (from 0) of the newest call's CSV output as numbers. Gives how many. */
ANYWAY size_t numbers_of(struct through *t, int column, double *numbers, size_t most)
{
    size_t n = 0;
    const char *line = strchr(t->last.out, '\n');
    for (line = line ? line + 1 : ""; *line; n++) {
        const char *cell = line;
        for (int i = 0; i < column && cell; i++)
            if ((cell = strchr(cell, ','))) cell++;
        cr_assert(cell && n < most);
        numbers[n] = strtod(cell, NULL);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return n;
}

/* Runs the sweep from nothing and checks what the network predicted for every validation example, in the
 * export's order (fold, example). `column` is the prediction's: 6 is the first. */
ANYWAY void check_predictions(struct through *t, int column, double relative, const double *expected,
                              size_t n)
{
    double got[512];
    through_forget(t);
    json_decref(through_run(t));
    cr_assert_eq(through_call(t, "export", "--predictions", NULL), 0, "%s", t->last.err);
    size_t count = numbers_of(t, column, got, 512);
    cr_assert_eq(count, n, "%zu predictions, expected %zu: %s", count, n, t->last.out);
    for (size_t i = 0; i < n; i++)
        cr_assert(near(got[i], expected[i], relative), "prediction %zu: %.9g, expected %.9g: %s", i, got[i],
                  expected[i], t->last.out);
}

#define check_inputs(t, ...)                                                                                 \
    do {                                                                                                     \
        const double expected_[] = {__VA_ARGS__};                                                            \
        check_predictions((t), 6, 1e-5, expected_, sizeof expected_ / sizeof *expected_);                    \
    } while (0)

/* The targets of the newest export of predictions. */
#define check_targets(t, ...)                                                                                \
    do {                                                                                                     \
        const double expected_[] = {__VA_ARGS__};                                                            \
        double targets_[512];                                                                                \
        size_t n_ = sizeof expected_ / sizeof *expected_;                                                    \
        cr_assert_eq(numbers_of((t), 5, targets_, 512), n_, "%s", (t)->last.out);                            \
        for (size_t i_ = 0; i_ < n_; i_++)                                                                   \
            cr_assert(near(targets_[i_], expected_[i_], 1e-6), "target %zu: %s", i_, (t)->last.out);         \
    } while (0)

#endif
