/* Class weights: case A07's numbers, maps by name, refusals with their place. */
#include <criterion/criterion.h>

#include "config/node.h"
#include "support/tolerance.h"
#include "train/run.h"

static char *class_names[] = {"run", "walk", "walk, slow"};
static const struct fm_dataset data = {.nclasses = 3, .class_names = class_names};

Test(class_weights, A07_balanced_over_the_training_part)
{
    static int64_t counts[3][3] = {{6, 2, 2}, {6, 3, 1}, {6, 3, 1}};
    static const double expected[3][3] = {
        {0.555556, 1.666667, 1.666667}, {0.555556, 1.111111, 3.333333}, {0.555556, 1.111111, 3.333333}};
    struct fm_train_config config = {.class_weight = FM_CLASS_WEIGHT_BALANCED};
    struct fm_error err = {0};
    for (int f = 0; f < 3; f++) {
        struct fm_fold fold = {.train_classes = counts[f]};
        float weights[3];
        cr_assert_eq(fm_class_weights(&config, &data, &fold, weights, &err), 0);
        struct ts_worst w = ts_compare_float(TS_METRIC, weights, expected[f], 3);
        cr_assert(w.ok, "fold %d: %s", f, w.text);
    }
}

Test(class_weights, balanced_leaves_absent_classes_at_one)
{
    int64_t counts[3] = {3, 0, 1};
    struct fm_train_config config = {.class_weight = FM_CLASS_WEIGHT_BALANCED};
    struct fm_fold fold = {.train_classes = counts};
    struct fm_error err = {0};
    float weights[3];
    cr_assert_eq(fm_class_weights(&config, &data, &fold, weights, &err), 0);
    /* n/(k*count) with n = 4 and k = 2 present classes. */
    struct ts_worst w = ts_compare_float(TS_FLOAT, weights, (double[]){4.0 / 6, 1, 2}, 3);
    cr_assert(w.ok, "%s", w.text);
}

static int from_text(const char *text, float *weights, struct fm_error *err)
{
    struct fm_document doc = {0};
    struct fm_fold fold = {0};
    int code = fm_document_parse(&doc, "sweep.yaml", text, strlen(text), NULL, err);
    if (code >= 0) {
        struct fm_train_config config = {.class_weight = FM_CLASS_WEIGHT_MAP,
                                         .class_weight_map = fm_node_get(doc.root, "class_weight")};
        code = fm_class_weights(&config, &data, &fold, weights, err);
    }
    fm_document_fini(&doc);
    return code;
}

Test(class_weights, map_by_name)
{
    struct fm_error err = {0};
    float weights[3];
    cr_assert_eq(from_text("class_weight: {\"walk, slow\": 2.5, run: 0}\n", weights, &err), 0, "%s",
                 err.text);
    cr_assert_eq(weights[0], 0);
    cr_assert_eq(weights[1], 1);
    cr_assert_eq(weights[2], 2.5f);
}

Test(class_weights, refusals_name_the_place)
{
    struct fm_error err = {0};
    float weights[3];
    cr_assert_eq(from_text("class_weight:\n  run: 1\n  wlak: 2\n", weights, &err), FM_EFILE);
    cr_assert_eq(err.line, 3);
    cr_assert(strstr(err.text, "wlak") && strstr(err.text, "\"walk\""), "%s", err.text);
    fm_error_clear(&err);
    cr_assert_eq(from_text("class_weight: {run: -1}\n", weights, &err), FM_EFILE);
    cr_assert_eq(err.line, 1);
    fm_error_clear(&err);
    cr_assert_eq(from_text("class_weight: {run: much}\n", weights, &err), FM_EFILE);
    fm_error_clear(&err);
    cr_assert_eq(from_text("class_weight: {run: 1e39}\n", weights, &err), FM_EFILE);

    struct fm_dataset numbers = {0};
    struct fm_fold fold = {0};
    struct fm_train_config config = {.class_weight = FM_CLASS_WEIGHT_BALANCED};
    fm_error_clear(&err);
    cr_assert_eq(fm_class_weights(&config, &numbers, &fold, weights, &err), FM_EFILE);
}
