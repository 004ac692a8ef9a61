/* Stopping against Keras's own callback and Prechelt's rules (tests/goldens/early_stopping.json), and our
 * rule for values that are not finite. */
#include <criterion/criterion.h>
#include <math.h>

#include "support/support.h"
#include "support/tolerance.h"
#include "train/stopping.h"

static double number(const json_t *args, const char *key, double otherwise)
{
    const json_t *value = json_object_get(args, key);
    return value ? json_number_value(value) : otherwise;
}

static void read_args(const json_t *c, struct fm_train_config *config)
{
    const char *rule = json_string_value(json_object_get(c, "rule"));
    const json_t *args = json_object_get(c, "args");
    const char *monitor = json_string_value(json_object_get(args, "monitor"));
    memset(config, 0, sizeof *config);
    config->early_stopping.rule = strcmp(rule, "keras") == 0 ? FM_STOP_KERAS
                                  : strcmp(rule, "gl") == 0  ? FM_STOP_GL
                                  : strcmp(rule, "pq") == 0  ? FM_STOP_PQ
                                                             : FM_STOP_UP;
    bool accuracy = monitor && strcmp(monitor, "val_accuracy") == 0;
    config->early_stopping.monitor.part = FM_PART_VAL;
    config->early_stopping.monitor.metric = accuracy ? FM_METRIC_ACCURACY : FM_METRIC_LOSS;
    config->early_stopping.patience = (int64_t)number(args, "patience", 0);
    config->early_stopping.min_delta = number(args, "min_delta", 0);
    config->early_stopping.has_baseline = json_object_get(args, "baseline") != NULL;
    config->early_stopping.baseline = number(args, "baseline", 0);
    config->early_stopping.start_from_epoch = (int64_t)number(args, "start_from_epoch", 0);
    config->early_stopping.restore_best_weights = json_is_true(json_object_get(args, "restore_best_weights"));
    config->early_stopping.alpha = number(args, "alpha", 0);
    config->early_stopping.strips = (int64_t)number(args, "strips", 0);
    config->early_stopping.strip = (int64_t)number(args, "strip", 5);
}

struct outcome {
    int64_t stopped, epochs, kept;
    double best;
};

static struct outcome replay(const struct fm_train_config *config, const double *loss, const double *values,
                             size_t n)
{
    struct fm_stopping s;
    struct outcome o = {0};
    fm_stopping_init(&s, config);
    for (size_t i = 0; i < n && !o.stopped; i++) {
        struct fm_verdict v = fm_stopping_epoch(&s, loss ? loss[i] : 1, values[i]);
        o.epochs++;
        if (v.improved) cr_assert_eq(s.best_epoch, (int64_t)i + 1);
        if (v.stop) o.stopped = o.epochs;
    }
    o.kept = fm_stopping_restores(&s) && s.best_epoch ? s.best_epoch : o.epochs;
    o.best = s.best;
    return o;
}

Test(stopping, goldens)
{
    json_t *golden = ts_golden("early_stopping");
    cr_assert(golden);
    json_t *cases = json_object_get(golden, "cases"), *c;
    size_t index;
    cr_assert_gt(json_array_size(cases), 60);
    json_array_foreach(cases, index, c)
    {
        struct fm_train_config config;
        size_t n, m = 0;
        read_args(c, &config);
        double *values = ts_golden_numbers(json_object_get(c, "values"), &n);
        json_t *losses = json_object_get(c, "loss");
        double *loss = losses ? ts_golden_numbers(losses, &m) : NULL;
        struct outcome o = replay(&config, loss, values, n);
        json_t *stopped = json_object_get(c, "stopped"), *best = json_object_get(c, "best");
        cr_assert_eq(o.stopped, json_is_null(stopped) ? 0 : json_integer_value(stopped),
                     "case %zu stops at %lld", index, (long long)o.stopped);
        cr_assert_eq(o.epochs, json_integer_value(json_object_get(c, "epochs")), "case %zu", index);
        cr_assert_eq(o.kept, json_integer_value(json_object_get(c, "kept")), "case %zu keeps %lld", index,
                     (long long)o.kept);
        if (json_is_number(best)) {
            struct ts_worst w = ts_compare_one(TS_FLOAT, o.best, json_number_value(best));
            cr_assert(w.ok, "case %zu: %s", index, w.text);
        }
        free(values);
        free(loss);
    }
    json_decref(golden);
}

Test(stopping, what_is_not_finite_never_improves)
{
    struct fm_train_config config = {0};
    config.early_stopping.rule = FM_STOP_KERAS;
    config.early_stopping.monitor = (struct fm_monitor){FM_PART_VAL, FM_METRIC_LOSS};
    config.early_stopping.patience = 2;
    config.early_stopping.restore_best_weights = true;
    /* Keras 3.7 and newer keep the NaN as best for ever; here the first finite value replaces it. */
    struct outcome o = replay(&config, NULL, (double[]){NAN, .9, .8}, 3);
    cr_assert_eq(o.stopped, 0);
    cr_assert_eq(o.kept, 3);
    o = replay(&config, NULL, (double[]){.9, NAN, INFINITY, .1}, 4);
    cr_assert_eq(o.stopped, 3);
    cr_assert_eq(o.kept, 1);
    o = replay(&config, NULL, (double[]){.9, -INFINITY, .8, .7}, 4);
    cr_assert_eq(o.stopped, 0);
    cr_assert_eq(o.kept, 4);
    config.early_stopping.patience = 0; /* nothing stops after the first epoch */
    o = replay(&config, NULL, (double[]){NAN, .9, .8, .8}, 4);
    cr_assert_eq(o.stopped, 4);
    config.early_stopping.patience = 2;
    config.early_stopping.mode = FM_MODE_MAX;
    o = replay(&config, NULL, (double[]){.5, INFINITY, .6, .7}, 4);
    cr_assert_eq(o.kept, 4);
}

Test(stopping, prechelt_takes_what_is_not_finite_as_the_worst)
{
    struct fm_train_config config = {0};
    config.early_stopping.rule = FM_STOP_GL;
    config.early_stopping.alpha = 5;
    config.early_stopping.strip = 2;
    struct outcome o = replay(&config, (double[]){1, 1, 1}, (double[]){NAN, 1, .9}, 3);
    cr_assert_eq(o.stopped, 0);
    cr_assert_eq(o.kept, 3);
    o = replay(&config, (double[]){1, 1, 1}, (double[]){1, NAN, .9}, 3);
    cr_assert_eq(o.stopped, 2);
    cr_assert_eq(o.kept, 1);
    config.early_stopping.rule = FM_STOP_UP;
    config.early_stopping.strips = 1;
    o = replay(&config, (double[]){1, 1, 1, 1}, (double[]){1, 1, 1, NAN}, 4);
    cr_assert_eq(o.stopped, 4);
    o = replay(&config, (double[]){1, 1, 1, 1}, (double[]){1, NAN, 1, 1}, 4);
    cr_assert_eq(o.stopped, 0);
}

Test(stopping, off_and_none_keep_the_last)
{
    struct fm_train_config config = {0};
    struct fm_stopping s;
    fm_stopping_init(&s, &config);
    for (int i = 0; i < 9; i++) {
        struct fm_verdict v = fm_stopping_epoch(&s, 1, i);
        cr_assert(!v.improved && !v.stop);
    }
    cr_assert(!fm_stopping_restores(&s));
    config.early_stopping.rule = FM_STOP_KERAS;
    config.early_stopping.restore_best_weights = true;
    fm_stopping_init(&s, &config);
    s.off = true;
    for (int i = 0; i < 9; i++) cr_assert(!fm_stopping_epoch(&s, 1, i).stop);
    cr_assert(!fm_stopping_restores(&s));
}
