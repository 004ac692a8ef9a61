/* Random sweeps over tiny data through the whole program, against the slow and plain model of
 * scripts/goldens/random_sweeps.py: examples, folds, purging, counts, and by a network that adds up its
 * inputs also windows, padding, scales, labels and the inner part. */
#include "support/tolerance.h"
#include "through.h"

static void check_counts(const json_t *plan, const json_t *expected, int seed)
{
    static const char *const counts[] = {"train", "purged", "embargoed", "shared"};
    size_t f;
    json_t *fold, *value;
    const char *name;
    cr_assert_eq(number_at(plan, "examples"), number_at(expected, "examples"), "case %d", seed);
    cr_assert_eq(json_array_size(at(plan, "folds")), json_array_size(at(expected, "folds")), "case %d", seed);
    json_array_foreach(at(expected, "folds"), f, fold) for (size_t i = 0; i < 4; i++)
    {
        const json_t *got = json_array_get(at(plan, "folds"), f);
        cr_assert_eq(number_at(got, counts[i]), number_at(fold, counts[i]),
                     "case %d, fold %zu: %s is %g, not %g", seed, f, counts[i], number_at(got, counts[i]),
                     number_at(fold, counts[i]));
    }
    if (!at_or_null(expected, "classes")) return;
    json_object_foreach(at(expected, "classes"), name, value)
    {
        const json_t *class = NULL;
        json_array_foreach(at(plan, "classes"), f,
                           fold) if (!strcmp(json_string_value(at(fold, "name")), name)) class
            = fold;
        cr_assert(class && number_at(class, "count") == json_number_value(value), "case %d: class %s", seed,
                  name);
    }
}

static void check_examples(struct through *t, const json_t *expected, int seed)
{
    char *line = t->last.out;
    size_t f, k;
    json_t *fold, *example;
    json_array_foreach(at(expected, "folds"), f, fold) json_array_foreach(at(fold, "val"), k, example)
    {
        char row[128];
        snprintf(row, sizeof row, "\n0,%zu,%d,%s,%d", f, (int)number_at(example, "0"),
                 json_string_value(at(example, "1")), (int)number_at(example, "2"));
        line = strchr(line, '\n');
        cr_assert(line && !strncmp(line, row, strlen(row)) && line[strlen(row)] == '\n',
                  "case %d: no%s in %s", seed, row, t->last.out);
        line++;
    }
    line = strchr(line, '\n');
    cr_assert(line && line[1] == '\0', "case %d: more in %s", seed, t->last.out);
}

/* The prediction is a sum of up to 12 float inputs around 1000. */
static void check_seen(struct through *t, const json_t *run, const json_t *expected, int seed)
{
    static const char *const losses[] = {"loss", "val_loss", "inner_loss"};
    double y[512], p[512];
    size_t f, k, i = 0;
    json_t *fold, *value;
    cr_assert_eq(through_call(t, "export", "--predictions", NULL), 0, "%s", t->last.err);
    size_t n = numbers_of(t, 5, y, 512);
    cr_assert_eq(numbers_of(t, 6, p, 512), n);
    json_array_foreach(at(expected, "folds"), f, fold)
    {
        json_array_foreach(at(fold, "p"), k, value)
        {
            cr_assert(i < n && near(y[i], json_number_value(json_array_get(at(fold, "y"), k)), 1e-6) &&
                          fabs(p[i] - json_number_value(value)) < 1e-3 + 1e-6 * fabs(p[i]),
                      "case %d, fold %zu, example %zu: sees %.9g, labelled %g", seed, f, k, p[i], y[i]);
            i++;
        }
        for (size_t l = 0; l < 3; l++) {
            char path[64];
            snprintf(path, sizeof path, "trials.0.runs.%zu.metrics.%s", f, losses[l]);
            json_t *loss = json_object_get(fold, losses[l]);
            cr_assert_eq(loss != NULL, at_or_null(run, path) != NULL, "case %d: %s", seed, path);
            if (loss)
                cr_assert(near(number_at(run, path), json_number_value(loss), 1e-4),
                          "case %d: %s is %g, not %g", seed, path, number_at(run, path),
                          json_number_value(loss));
        }
    }
    cr_assert_eq(i, n, "case %d", seed);
}

static void check_case(const json_t *entry)
{
    struct through t;
    int seed = (int)number_at(entry, "seed");
    through_open(&t);
    through_file(&t, "d.csv", json_string_value(at(entry, "csv")));
    char *sweep = json_dumps(at(entry, "sweep"), 0);
    through_file(&t, "s.yaml", sweep);
    free(sweep);
    int code = through_call(&t, "plan", "--json", NULL);
    if (at_or_null(entry, "refused")) {
        cr_assert_eq(code, 2, "case %d is not refused", seed);
        cr_assert(strstr(t.last.err, "s.yaml:"), "case %d: %s", seed, t.last.err);
        through_close(&t);
        return;
    }
    cr_assert_eq(code, 0, "case %d: %s", seed, t.last.err);
    json_t *plan = through_parsed(&t, code, 0);
    check_counts(plan, entry, seed);
    json_decref(plan);
    cr_assert_eq(through_call(&t, "split", NULL), 0);
    check_examples(&t, entry, seed);
    if (!at_or_null(entry, "classes")) {
        json_t *run = through_run(&t);
        check_seen(&t, run, entry, seed);
        json_decref(run);
    }
    through_close(&t);
}

Test(random_sweeps, equal_a_plain_model, .timeout = 120)
{
    json_t *golden = ts_golden("random_sweeps"), *entry;
    size_t i, refused = 0;
    cr_assert(golden);
    json_array_foreach(at(golden, "cases"), i, entry)
    {
        check_case(entry);
        refused += at_or_null(entry, "refused") != NULL;
    }
    cr_assert(i >= 60 && refused >= 5 && refused <= 10);
    json_decref(golden);
}
