/* Whole sweeps against the same experiments done by hand with Keras and scikit-learn
 * (scripts/goldens/sweep.py): folds, every epoch's losses, where training stopped, scores, mean. */
#include "support/tolerance.h"
#include "through.h"

/* `split`'s examples of one fold, in order. */
static void check_folds(struct through *t, const json_t *folds)
{
    double fold[512], example[512];
    cr_assert_eq(through_call(t, "split", NULL), 0, "%s", t->last.err);
    size_t n = numbers_of(t, 1, fold, 512), i = 0, f, k;
    cr_assert_eq(numbers_of(t, 2, example, 512), n);
    json_t *expected, *index;
    json_array_foreach(folds, f, expected) json_array_foreach(at(expected, "val"), k, index)
    {
        cr_assert(i < n && fold[i] == (double)f && example[i] == json_number_value(index), "row %zu of %s", i,
                  t->last.out);
        i++;
    }
    cr_assert_eq(i, n);
}

static void check_close(double got, double expected, const char *sweep, size_t fold, const char *what)
{
    struct ts_worst worst = ts_compare_one(TS_FLOAT_TRAINING, got, expected);
    cr_assert(worst.ok, "%s, fold %zu, %s: %s", sweep, fold, what, worst.text);
}

static void check_fold(const json_t *run, const json_t *expected, const char *sweep, size_t fold)
{
    const char *name;
    json_t *value;
    size_t epoch;
    cr_assert_eq(number_at(run, "epochs"), number_at(expected, "epochs"), "%s, fold %zu: %g epochs", sweep,
                 fold, number_at(run, "epochs"));
    cr_assert_eq(number_at(run, "scored_epoch"), number_at(expected, "scored_epoch"), "%s, fold %zu", sweep,
                 fold);
    json_object_foreach(at(expected, "metrics"), name, value)
    {
        const json_t *got = json_object_get(at(run, "metrics"), name);
        cr_assert(json_is_number(got), "%s, fold %zu has no %s", sweep, fold, name);
        check_close(json_number_value(got), json_number_value(value), sweep, fold, name);
    }
    for (int i = 0; i < 2; i++) {
        char path[64];
        name = i ? "val_loss" : "loss";
        snprintf(path, sizeof path, "history.%s", name);
        const json_t *curve = at(expected, path);
        json_array_foreach(curve, epoch, value)
        {
            char place[64];
            snprintf(place, sizeof place, "%s of epoch %zu", name, epoch + 1);
            snprintf(path, sizeof path, "history.%zu.%s", epoch, name);
            check_close(number_at(run, path), json_number_value(value), sweep, fold, place);
        }
    }
}

Test(sweep_golden, keras_and_scikit_learn, .timeout = 60)
{
    json_t *golden = ts_golden("sweep"), *entry;
    size_t i, f;
    cr_assert(golden);
    cr_assert_geq(json_array_size(at(golden, "cases")), 5);
    json_array_foreach(at(golden, "cases"), i, entry)
    {
        struct through t;
        char path[64];
        const char *name = json_string_value(at(entry, "sweep.name"));
        through_open(&t);
        through_file(&t, "d.csv", json_string_value(at(golden, "csv")));
        char *sweep = json_dumps(at(entry, "sweep"), JSON_REAL_PRECISION(17)); /* JSON is YAML */
        through_file(&t, "s.yaml", sweep);
        free(sweep);
        json_t *run = through_run(&t);
        json_t *fold;
        json_array_foreach(at(entry, "folds"), f, fold)
        {
            snprintf(path, sizeof path, "folds.%zu.train", f);
            cr_assert_eq(number_at(run, path), number_at(fold, "train"), "%s, fold %zu", name, f);
            snprintf(path, sizeof path, "trials.0.runs.%zu", f);
            check_fold(at(run, path), fold, name, f);
        }
        check_close(number_at(run, "trials.0.mean"), number_at(entry, "mean"), name, 0, "mean");
        check_close(number_at(run, "trials.0.std"), number_at(entry, "std"), name, 0, "deviation");
        json_decref(run);
        check_folds(&t, at(entry, "folds"));
        through_close(&t);
    }
    json_decref(golden);
}
