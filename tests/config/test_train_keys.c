/* `train`: Keras's defaults, clipping, early stopping, and mistakes. Defaults are those of semantics.md 3.2
 * and 4.3. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/error.h"
#include "config/sweep.h"

static struct fm_document doc;

static int read_train(struct fm_train_config *train, const char *text, bool inner, struct fm_error *err)
{
    memset(err, 0, sizeof *err);
    cr_assert_eq(fm_document_parse(&doc, "t.yaml", text, strlen(text), NULL, err), 0, "%s: %s", text,
                 err->text);
    return fm_train_read(train, doc.root, inner, NULL, err);
}

Test(train_keys, defaults)
{
    struct fm_train_config t;
    struct fm_error err;
    cr_assert_eq(read_train(&t, "{loss: mse}", false, &err), 0, "%s", err.text);
    cr_expect(t.batch_size == 32 && t.epochs == 10 && t.steps_per_epoch == 0 && t.shuffle && t.seed == 0);
    cr_expect(t.optimizer.kind == FM_OPTIMIZER_ADAM && t.optimizer.learning_rate == 0.001 &&
              t.optimizer.beta_1 == 0.9 && t.optimizer.beta_2 == 0.999 && t.optimizer.epsilon == 1e-7 &&
              t.optimizer.weight_decay == 0);
    cr_expect(t.optimizer.clip == FM_CLIP_NONE && t.on_nan == FM_ON_NAN_STOP &&
              t.early_stopping.rule == FM_STOP_NONE);
    cr_expect(t.metrics == 1u << FM_METRIC_MAE && !t.metrics_given);
    fm_document_fini(&doc);
    cr_assert_eq(
        read_train(&t, "{loss: binary_crossentropy, optimizer: sgd, steps_per_epoch: ~}", false, &err), 0);
    cr_expect(t.optimizer.learning_rate == 0.01 && t.optimizer.momentum == 0 && !t.optimizer.nesterov);
    cr_expect(t.metrics == 1u << FM_METRIC_ACCURACY);
    fm_document_fini(&doc);
    cr_assert_eq(read_train(&t, "{loss: huber, optimizer: {adamw: {amsgrad: true}}}", false, &err), 0);
    cr_expect(t.optimizer.weight_decay == 0.004 && t.optimizer.amsgrad && t.loss.delta == 1);
    fm_document_fini(&doc);
    cr_assert_eq(
        read_train(&t, "{loss: mae, optimizer: {rmsprop: {centered: true, weight_decay: 0.1}}}", false, &err),
        0);
    cr_expect(t.optimizer.rho == 0.9 && t.optimizer.epsilon == 1e-7 && t.optimizer.centered &&
              t.optimizer.weight_decay == 0.1);
    fm_document_fini(&doc);
}

Test(train_keys, one_clip_at_most)
{
    static const struct {
        const char *optimizer;
        enum fm_clip_kind clip;
        double value;
    } rows[] = {
        {"{adam: {clipnorm: 1}}", FM_CLIP_NORM, 1},
        {"{adam: {global_clipnorm: 0.5}}", FM_CLIP_GLOBAL_NORM, 0.5},
        {"{sgd: {clipvalue: 2.5}}", FM_CLIP_VALUE, 2.5},
        {"{sgd: {clipvalue: 0}}", FM_CLIP_NONE, 0},
        {"{sgd: {clipnorm: 0, clipvalue: 3, global_clipnorm: ~}}", FM_CLIP_VALUE, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fm_train_config t;
        struct fm_error err;
        char text[256];
        snprintf(text, sizeof text, "{loss: mse, optimizer: %s}", rows[i].optimizer);
        cr_assert_eq(read_train(&t, text, false, &err), 0, "%s: %s", text, err.text);
        cr_expect(t.optimizer.clip == rows[i].clip && t.optimizer.clip_value == rows[i].value, "%s", text);
        fm_document_fini(&doc);
    }
}

Test(train_keys, early_stopping)
{
    struct fm_train_config t;
    struct fm_error err;
    cr_assert_eq(read_train(&t, "{loss: mse, early_stopping: {min_delta: -0.5, baseline: 2}}", false, &err),
                 0);
    cr_expect(t.early_stopping.rule == FM_STOP_KERAS && t.early_stopping.patience == 0 &&
              !t.early_stopping.restore_best_weights && t.early_stopping.start_from_epoch == 0);
    cr_expect(t.early_stopping.monitor.part == FM_PART_VAL &&
              t.early_stopping.monitor.metric == FM_METRIC_LOSS);
    cr_expect(t.early_stopping.min_delta == 0.5 && t.early_stopping.has_baseline &&
              t.early_stopping.baseline == 2);
    fm_document_fini(&doc);
    cr_assert_eq(read_train(&t, "{loss: mse, early_stopping: {patience: 2}}", true, &err), 0);
    cr_expect_eq(t.early_stopping.monitor.part, FM_PART_INNER);
    fm_document_fini(&doc);
    cr_assert_eq(read_train(&t, "{loss: mse, early_stopping: {rule: pq, alpha: 0.5}}", true, &err), 0, "%s",
                 err.text);
    cr_expect(t.early_stopping.rule == FM_STOP_PQ && t.early_stopping.alpha == 0.5 &&
              t.early_stopping.strip == 5 && t.early_stopping.restore_best_weights &&
              t.early_stopping.monitor.part == FM_PART_INNER);
    fm_document_fini(&doc);
    cr_assert_eq(read_train(&t, "{loss: mse, early_stopping: {rule: up, strips: 2, strip: 3}}", false, &err),
                 0);
    cr_expect(t.early_stopping.rule == FM_STOP_UP && t.early_stopping.strips == 2 &&
              t.early_stopping.strip == 3);
    fm_document_fini(&doc);
}

Test(train_keys, metrics_and_class_weights)
{
    struct fm_train_config t;
    struct fm_error err;
    cr_assert_eq(read_train(&t,
                            "{loss: {categorical_crossentropy: {label_smoothing: 0.1, from_logits: true}}, "
                            "metrics: [auc, mcc], "
                            "class_weight: {H: 2, NO: 0.5}}",
                            false, &err),
                 0, "%s", err.text);
    cr_expect(t.metrics == (1u << FM_METRIC_AUC | 1u << FM_METRIC_MCC) && t.metrics_given);
    cr_expect(t.class_weight == FM_CLASS_WEIGHT_MAP && t.class_weight_map->count == 2);
    cr_expect(t.loss.label_smoothing == 0.1 && t.loss.from_logits);
    fm_document_fini(&doc);
    for (int m = 0; m < FM_METRICS; m++) {
        for (int part = FM_PART_INNER; part <= FM_PART_VAL; part++) {
            char name[48], text[64];
            struct fm_monitor monitor = {(enum fm_part)part, (enum fm_metric)m}, back;
            struct fm_document d;
            snprintf(text, sizeof text, "%s", fm_monitor_name(monitor, name));
            cr_assert_eq(fm_document_parse(&d, "m", text, strlen(text), NULL, &err), 0);
            cr_assert_eq(fm_monitor_read(d.root, "m", &back, &err), 0);
            cr_expect(back.part == monitor.part && back.metric == monitor.metric, "%s", text);
            fm_document_fini(&d);
        }
    }
}

static const struct {
    const char *text, *says;
    bool inner;
    int code;
} mistakes[] = {
    {"{loss: mee}", "did you mean mse", false, FM_EFILE},
    {"{loss: {mse: {delta: 1}}}", "unknown key 'delta': mse takes no keys", false, FM_EFILE},
    {"{loss: {huber: {delta: 0}}}", "huber.delta is 0; expected a number above 0", false, FM_EFILE},
    {"{loss: {huber: 3}}", "the arguments of huber are a mapping", false, FM_EFILE},
    {"{loss: {huber: {}, mse: {}}}", "second name 'mse'", false, FM_EFILE},
    {"{loss: [mse]}", "is a list; expected a name", false, FM_EFILE},
    {"{loss: {sparse_categorical_crossentropy: {label_smoothing: 0.1}}}", "unknown key 'label_smoothing'",
     false, FM_EFILE},
    {"{loss: {binary_crossentropy: {label_smoothing: 2}}}", "label_smoothing is 2", false, FM_EFILE},
    {"{loss: binary_focal_crossentropy}", "not available yet", false, FM_ELATER},
    {"{loss: mse, optimizer: nadam}", "nadam is not available yet", false, FM_ELATER},
    {"{loss: mse, optimizer: {lion: {}}}", "lion is not available yet", false, FM_ELATER},
    {"{loss: mse, optimizer: adagrad}", "adagrad is not available yet", false, FM_ELATER},
    {"{loss: mse, optimizer: Adam}", "did you mean adam", false, FM_EFILE},
    {"{loss: mse, optimizer: {sgd: {beta_1: 0.9}}}", "unknown key 'beta_1' in sgd", false, FM_EFILE},
    {"{loss: mse, optimizer: {adam: {beta_1: 1}}}", "at least 0 and below 1", false, FM_EFILE},
    {"{loss: mse, optimizer: {adam: {learning_rate: '1e-3'}}}", "remove the quotes", false, FM_EFILE},
    {"{loss: mse, optimizer: {adam: {learning_rate: -1}}}", "adam.learning_rate is -1", false, FM_EFILE},
    {"{loss: mse, optimizer: {adam: {learning_rate: 1e300}}}", "at least 0 and at most 3.4028", false,
     FM_EFILE},
    {"{loss: mse, optimizer: {adam: {learning_rate: .nan}}}", "expected a number", false, FM_EFILE},
    {"{loss: mse, optimizer: {adam: {learning_rate: {cosine_decay: {}}}}}", "not available yet", false,
     FM_ELATER},
    {"{loss: mse, optimizer: {adam: {use_ema: true}}}", "not available yet", false, FM_ELATER},
    {"{loss: mse, optimizer: {adam: {clipnorm: 1, clipvalue: 1}}}", "clipnorm and clipvalue are both given",
     false, FM_EFILE},
    {"{loss: mse, learning_rate_schedule: {}}", "not available yet", false, FM_ELATER},
    {"{loss: mse, batch_size: 0}", "train.batch_size is 0", false, FM_EFILE},
    {"{loss: mse, batch_size: 8.5}", "train.batch_size is 8.5", false, FM_EFILE},
    {"{loss: mse, epochs: }", "train.epochs is empty; expected a whole number", false, FM_EFILE},
    {"{loss: mse, shuffle: batch}", "train.shuffle is batch; expected true or false", false, FM_EFILE},
    {"{loss: mse, on_nan: rolback}", "did you mean rollback", false, FM_EFILE},
    {"{loss: mse, class_weight: balanced}", "needs classes", false, FM_EFILE},
    {"{loss: binary_crossentropy, class_weight: balance}", "did you mean balanced", false, FM_EFILE},
    {"{loss: binary_crossentropy, class_weight: {a: -1}}", "the class weight of 'a' is -1", false, FM_EFILE},
    {"{loss: binary_crossentropy, metrics: [acc]}", "expected accuracy, balanced_accuracy", false, FM_EFILE},
    {"{loss: binary_crossentropy, metrics: mse}", "mse measures numbers", false, FM_EFILE},
    {"{loss: mse, metrics: [f1]}", "f1 measures classes", false, FM_EFILE},
    {"{loss: mse, early_stopping: true}", "single value; expected a mapping", false, FM_EFILE},
    {"{loss: mse, early_stopping: {patience: -1}}", "patience is -1", false, FM_EFILE},
    {"{loss: mse, early_stopping: {patients: 1}}", "did you mean 'patience'", false, FM_EFILE},
    {"{loss: mse, early_stopping: {monitor: val_auc}}", "auc measures classes", false, FM_EFILE},
    {"{loss: mse, early_stopping: {monitor: val_loss}}", "expected inner_loss", true, FM_EFILE},
    {"{loss: mse, early_stopping: {monitor: inner_loss}}", "cv.inner is not given", false, FM_EFILE},
    {"{loss: mse, early_stopping: {mode: max}}", "val_loss is better when it is smaller", false, FM_EFILE},
    {"{loss: mse, early_stopping: {alpha: 5}}", "alpha needs rule", false, FM_EFILE},
    {"{loss: mse, early_stopping: {rule: gl}}", "rule gl needs alpha", false, FM_EFILE},
    {"{loss: mse, early_stopping: {rule: gl, alpha: 5, strip: 5}}", "rule gl takes no strip", false,
     FM_EFILE},
    {"{loss: mse, early_stopping: {rule: up, alpha: 5}}", "rule up takes no alpha", false, FM_EFILE},
    {"{loss: mse, early_stopping: {rule: up}}", "rule up needs strips", false, FM_EFILE},
    {"{loss: mse, early_stopping: {rule: pq, alpha: 0}}", "alpha is 0", false, FM_EFILE},
    {"{loss: mse, early_stopping: {rule: gl, alpha: 5, patience: 3}}", "unknown key 'patience'", false,
     FM_EFILE},
};

Test(train_keys, mistakes)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct fm_train_config t;
        struct fm_error err;
        int code = read_train(&t, mistakes[i].text, mistakes[i].inner, &err);
        cr_expect_eq(code, mistakes[i].code, "%s: %d %s", mistakes[i].text, code, err.text);
        cr_expect(strstr(err.text, mistakes[i].says), "%s: %s", mistakes[i].text, err.text);
        cr_expect(err.line == 1 && err.column > 0, "%s", mistakes[i].text);
        fm_document_fini(&doc);
    }
}
