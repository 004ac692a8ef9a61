/* `model` and `train` of the sweep file, key by key, through the whole program. Networks are so small that a
 * training is a line of arithmetic; larger ones are compared with Keras in test_sweep_golden.c. */
#include "through.h"

/* Four training rows (fold -1) and one or two validation rows. */
#define COLUMN_FOLDS       "cv: {split: predefined, column: f}\n"
#define DENSE(units, more) "model: [flatten, {dense: {units: " #units ", " more "}}]\n"
static const char ones[] = "x,y,f\n1,1,-1\n1,2,-1\n1,3,-1\n1,4,-1\n1,0,0\n";
#define NUMBERS                                                                                              \
    "data: {source: csv, path: d.csv, features: [x], target: y, window: {length: 1}}\n" COLUMN_FOLDS
#define ZEROS DENSE(1, "kernel_initializer: zeros")

static json_t *run_of(struct through *t, const char *data, const char *file, const char *model,
                      const char *train)
{
    through_forget(t);
    through_file(t, "d.csv", data);
    through_sweep(t, "%s%strain: {%s}\n", file, model, train);
    return through_run(t);
}

static double predicted(struct through *t)
{
    double p[8];
    cr_assert_eq(through_call(t, "export", "--predictions", NULL), 0, "%s", t->last.err);
    cr_assert_geq(numbers_of(t, 6, p, 8), 1);
    return p[0];
}

/* ---- batches and order ---- */

Test(contract_train, steps_go_on_where_they_stopped)
{
    static const char rows[] = "x,y,f\n1,1,-1\n1,2,-1\n1,3,-1\n1,4,-1\n1,5,-1\n1,6,0\n";
    struct through t;
    through_open(&t);
    json_t *run = run_of(&t, rows, NUMBERS, ZEROS,
                         "loss: mse, optimizer: {sgd: {learning_rate: 0}}, shuffle: false, batch_size: 2, "
                         "steps_per_epoch: 2, epochs: 3");
    check_near(run, 1e-6, (1 + 4 + 9 + 16) / 4.0, "trials.0.runs.0.history.0.loss");
    check_near(run, 1e-6, (25 + 1 + 4) / 3.0, "trials.0.runs.0.history.1.loss");
    check_near(run, 1e-6, (9 + 16 + 25) / 3.0, "trials.0.runs.0.history.2.loss");
    check_number(run, 3, "trials.0.runs.0.epochs");
    json_decref(run);
    through_close(&t);
}

Test(contract_train, without_shuffling_steps_follow_the_file)
{
    struct through t;
    double kernel = 0, bias = 0, loss = 0;
    for (int epoch = 0; epoch < 2; epoch++)
        for (int i = 1; i <= 4; i++) {
            double e = kernel + bias - i;
            if (epoch == 1) loss += e * e / 4;
            kernel -= 0.1 * 2 * e;
            bias -= 0.1 * 2 * e;
        }
    through_open(&t);
    json_t *run =
        run_of(&t, ones, NUMBERS, ZEROS,
               "loss: mse, optimizer: {sgd: {learning_rate: 0.1}}, shuffle: false, batch_size: 1, epochs: 2");
    cr_assert(near(predicted(&t), kernel + bias, 1e-5));
    check_near(run, 1e-5, loss, "trials.0.runs.0.metrics.loss");
    json_decref(run);
    /* Shuffled it is another order, and the seed says which. */
    double shuffled[3];
    for (int i = 0; i < 3; i++) {
        json_decref(run_of(
            &t, ones, NUMBERS, ZEROS,
            i == 2 ? "loss: mse, optimizer: {sgd: {learning_rate: 0.1}}, batch_size: 1, epochs: 2, seed: 7"
                   : "loss: mse, optimizer: {sgd: {learning_rate: 0.1}}, batch_size: 1, epochs: 2"));
        shuffled[i] = predicted(&t);
    }
    cr_assert(shuffled[0] == shuffled[1] && shuffled[0] != shuffled[2]);
    through_close(&t);
}

/* ---- losses, weights, regularisers, clips ---- */

/* From zeros, one step over all four rows: gradients of kernel and bias are both -2 * mean(y) = -5. */
static void one_step(struct through *t, const char *optimizer, double expected)
{
    char train[256];
    snprintf(train, sizeof train, "loss: mse, optimizer: %s, epochs: 1", optimizer);
    json_decref(run_of(t, ones, NUMBERS, ZEROS, train));
    double p = predicted(t);
    cr_assert(near(p, expected, 1e-5), "%s: %.9g, expected %.9g", optimizer, p, expected);
}

Test(contract_train, optimizers_and_clips)
{
    struct through t;
    through_open(&t);
    one_step(&t, "{sgd: {learning_rate: 0.1}}", 1.0);
    one_step(&t, "sgd", 0.1);
    one_step(&t, "adam", 0.002); /* the first step of Adam is its learning rate */
    one_step(&t, "{adamw: {learning_rate: 0.5}}", 1.0);
    one_step(&t, "{rmsprop: {learning_rate: 0.1, rho: 0}}", 0.2);
    one_step(&t, "{sgd: {learning_rate: 1, clipvalue: 0.5}}", 1.0);
    one_step(&t, "{sgd: {learning_rate: 1, clipnorm: 0.25}}", 0.5); /* per variable */
    one_step(&t, "{sgd: {learning_rate: 1, global_clipnorm: 1}}", sqrt(2));
    one_step(&t, "{sgd: {learning_rate: 1, global_clipnorm: 100}}", 10);
    through_forget(&t);
    through_file(&t, "d.csv", ones);
    through_sweep(&t, NUMBERS ZEROS "train: {loss: mse, optimizer: {sgd: {clipnorm: 1, clipvalue: 1}}}\n");
    through_refused(&t, "s.yaml:4:", "clip", NULL);
    through_sweep(&t, NUMBERS ZEROS "train: {loss: mse, optimizer: nadam}\n");
    through_refused(&t, "s.yaml:4:", "nadam", "not available yet", NULL);
    through_sweep(&t, NUMBERS ZEROS "train: {loss: mse, optimizer: adma}\n");
    through_refused(&t, "s.yaml:4:", "adma", "adam", NULL);
    through_close(&t);
}

Test(contract_train, losses_of_numbers)
{
    static const char rows[] = "x,y,f\n0,0.5,-1\n0,4,-1\n0,3,0\n0,-0.5,0\n";
    struct through t;
    through_open(&t);
    json_t *run =
        run_of(&t, rows, NUMBERS, ZEROS, "loss: mae, optimizer: {sgd: {learning_rate: 0}}, epochs: 1");
    check_near(run, 1e-6, 2.25, "trials.0.runs.0.metrics.loss");
    check_near(run, 1e-6, 1.75, "trials.0.runs.0.metrics.val_loss");
    json_decref(run);
    run = run_of(&t, rows, NUMBERS, ZEROS,
                 "loss: {huber: {delta: 2}}, optimizer: {sgd: {learning_rate: 0}}, epochs: 1");
    check_near(run, 1e-6, (0.125 + 2 * (4 - 1)) / 2, "trials.0.runs.0.metrics.loss");
    json_decref(run);
    /* A regulariser is part of both losses, as in Keras. */
    run = run_of(&t, rows, NUMBERS,
                 DENSE(1, "kernel_initializer: {constant: {value: 3}}, kernel_regularizer: {l2: {l2: 0.5}}"),
                 "loss: mse, optimizer: {sgd: {learning_rate: 0}}, epochs: 1");
    check_near(run, 1e-6, (0.25 + 16) / 2 + 4.5, "trials.0.runs.0.metrics.loss");
    check_near(run, 1e-6, (9 + 0.25) / 2 + 4.5, "trials.0.runs.0.metrics.val_loss");
    check_near(run, 1e-6, (9 + 0.25) / 2, "trials.0.runs.0.metrics.val_mse");
    json_decref(run);
    through_close(&t);
}

static double entropy(double p, double y)
{
    return -(y * log(p) + (1 - y) * log(1 - p));
}

Test(contract_train, losses_of_classes)
{
    static const char rows[] = "x,y,f\n1,no,-1\n-2,yes,-1\n0.5,yes,0\n2,no,0\n";
    struct through t;
    double p[4] = {1 / (1 + exp(-1.0)), 1 / (1 + exp(2.0)), 1 / (1 + exp(-0.5)), 1 / (1 + exp(-2.0))};
    through_open(&t);
#define RATE_0 "optimizer: {sgd: {learning_rate: 0}}, epochs: 1"
    json_t *run = run_of(&t, rows, NUMBERS, DENSE(1, "kernel_initializer: ones, activation: sigmoid"),
                         "loss: {binary_crossentropy: {label_smoothing: 0.2}}, " RATE_0);
    check_near(run, 1e-5, (entropy(p[0], 0.1) + entropy(p[1], 0.9)) / 2, "trials.0.runs.0.metrics.loss");
    check_near(run, 1e-5, (entropy(p[2], 0.9) + entropy(p[3], 0.1)) / 2, "trials.0.runs.0.metrics.val_loss");
    check_number(run, 0.5, "trials.0.runs.0.metrics.val_accuracy");
    json_decref(run);
    run = run_of(&t, rows, NUMBERS, DENSE(1, "kernel_initializer: ones"),
                 "loss: {binary_crossentropy: {from_logits: true}}, " RATE_0);
    check_near(run, 1e-5, (entropy(p[2], 1) + entropy(p[3], 0)) / 2, "trials.0.runs.0.metrics.val_loss");
    cr_assert(near(predicted(&t), 1 - p[2], 1e-5), "predictions are probabilities");
    json_decref(run);
    through_forget(&t);
    through_sweep(&t, NUMBERS DENSE(1, "kernel_initializer: ones") "train: {loss: binary_crossentropy}\n");
    through_refused(&t, "from_logits", NULL);
    through_sweep(&t, NUMBERS DENSE(3, "activation: softmax") "train: {loss: binary_crossentropy}\n");
    cr_assert_eq(through_call(&t, "run", NULL), 2);
    cr_assert(strstr(t.last.err, "units"), "%s", t.last.err);
    through_close(&t);
}

Test(contract_train, class_weights_by_name)
{
    /* Zero kernels and inputs: only biases learn. One step of rate 1: b_k = mean(w_i ([y_i = k] - 1/2)). */
    static const char rows[] = "x,y,f\n0,a,-1\n0,a,-1\n0,a,-1\n0,b,-1\n0,a,0\n0,b,0\n";
    struct through t;
    through_open(&t);
    json_t *run = run_of(&t, rows, NUMBERS, DENSE(2, "activation: softmax"),
                         "loss: sparse_categorical_crossentropy, class_weight: {b: 6}, "
                         "optimizer: {sgd: {learning_rate: 1}}, epochs: 1");
    double a = (3 * 0.5 - 6 * 0.5) / 4; /* a is absent from the map: 1 */
    cr_assert(near(predicted(&t), exp(a) / (exp(a) + exp(-a)), 1e-5));
    check_near(run, 1e-5, (3 + 6) / 4.0 * log(2), "trials.0.runs.0.metrics.loss");
    json_decref(run);
    run = run_of(&t, rows, NUMBERS, DENSE(2, "activation: softmax"),
                 "loss: sparse_categorical_crossentropy, class_weight: balanced, "
                 "optimizer: {sgd: {learning_rate: 1}}, epochs: 1");
    cr_assert(near(predicted(&t), 0.5, 1e-5));
    json_decref(run);
    through_forget(&t);
    through_sweep(
        &t,
        NUMBERS DENSE(
            2,
            "activation: softmax") "train: {loss: sparse_categorical_crossentropy, class_weight: {c: 6}}\n");
    through_refused(&t, "s.yaml:4:", "c", NULL);
    through_sweep(&t, NUMBERS ZEROS "train: {loss: mse, class_weight: balanced}\n");
    through_refused(&t, "s.yaml:4:", "class_weight", NULL);
    through_close(&t);
}

Test(contract_train, class_weights_times_weights)
{
    static const char rows[] = "x,y,w,f\n0,a,2,-1\n0,a,1,-1\n0,a,0,-1\n0,b,0.5,-1\n0,a,9,0\n0,b,9,0\n";
    struct through t;
    through_open(&t);
    json_t *run = run_of(&t, rows,
                         "data: {source: csv, path: d.csv, features: [x], target: y, weight: w, window: "
                         "{length: 1}}\n" COLUMN_FOLDS,
                         DENSE(2, "activation: softmax"),
                         "loss: sparse_categorical_crossentropy, class_weight: balanced, "
                         "optimizer: {sgd: {learning_rate: 1}}, epochs: 1");
    double a = 4.0 / (2 * 3), b = 4.0 / (2 * 1); /* n / (k * count); w counts for nothing there */
    check_near(run, 1e-5, (a * 2 + a + b * 0.5) / 4 * log(2), "trials.0.runs.0.metrics.loss");
    double bias = (a * 3 - b * 0.5) * 0.5 / 4;
    cr_assert(near(predicted(&t), exp(bias) / (exp(bias) + exp(-bias)), 1e-5));
    json_decref(run);
    through_close(&t);
}

/* ---- metrics ---- */

Test(contract_train, metrics_each_epoch_and_at_the_scored_one)
{
    static const char rows[] = "x,y,f\n-1,no,-1\n2,yes,-1\n-3,no,0\n-1,yes,0\n2,yes,0\n1,no,0\n3,yes,0\n";
    struct through t;
    through_open(&t);
    json_t *run = run_of(&t, rows, NUMBERS, DENSE(1, "kernel_initializer: ones, activation: sigmoid"),
                         "loss: binary_crossentropy, metrics: [f1, mcc], " RATE_0);
    /* Predicted no no yes yes yes: 2 right and 1 wrong yes, 1 right and 1 wrong no. */
    check_near(run, 1e-6, 2 / 3.0, "trials.0.runs.0.history.0.val_f1");
    check_near(run, 1e-6, (2 * 1 - 1 * 1) / sqrt(3 * 3 * 2 * 2), "trials.0.runs.0.history.0.val_mcc");
    cr_assert_null(at_or_null(run, "trials.0.runs.0.history.0.val_accuracy"));
    check_near(run, 1e-6, 0.6, "trials.0.runs.0.metrics.val_accuracy");
    check_near(run, 1e-6, (2 / 3.0 + 0.5) / 2, "trials.0.runs.0.metrics.val_balanced_accuracy");
    check_near(run, 1e-6, 5 / 6.0, "trials.0.runs.0.metrics.val_auc");
    check_near(run, 1e-6, 2 / 3.0, "trials.0.runs.0.metrics.val_precision");
    check_near(run, 1e-6, 2 / 3.0, "trials.0.runs.0.metrics.val_recall");
    check_near(run, 1e-6, (2 / 3.0 + 0.5) / 2, "trials.0.runs.0.metrics.val_macro_f1");
    cr_assert_null(at_or_null(run, "trials.0.runs.0.metrics.val_mse"));
    json_decref(run);
    through_forget(&t);
    through_sweep(
        &t, NUMBERS DENSE(1, "activation: sigmoid") "train: {loss: binary_crossentropy, metrics: [r2]}\n");
    through_refused(&t, "s.yaml:4:", "r2", NULL);
    through_sweep(
        &t,
        NUMBERS DENSE(1, "activation: sigmoid") "train: {loss: binary_crossentropy, metrics: [acuracy]}\n");
    through_refused(&t, "s.yaml:4:", "acuracy", "accuracy", NULL);
    through_file(&t, "d.csv", "x,y,f\n-1,a,-1\n2,b,-1\n-3,c,0\n-1,a,0\n");
    through_sweep(
        &t, NUMBERS DENSE(
                3, "activation: softmax") "train: {loss: sparse_categorical_crossentropy, metrics: [f1]}\n");
    through_refused(&t, "f1", "macro_f1", NULL);
    through_close(&t);
}

/* ---- stopping ---- */

/* y = 1 in training and -3 in validation: training makes validation worse from the first epoch on. */
static const char worse[] = "x,y,f\n1,1,-1\n1,1,-1\n1,-3,0\n";

Test(contract_train, early_stopping)
{
    struct through t;
    through_open(&t);
    json_t *run = run_of(&t, worse, NUMBERS, ZEROS,
                         "loss: mse, optimizer: {sgd: {learning_rate: 0.01}}, epochs: 20, "
                         "early_stopping: {monitor: val_loss, patience: 3, restore_best_weights: true}");
    check_number(run, 4, "trials.0.runs.0.epochs");
    check_number(run, 1, "trials.0.runs.0.scored_epoch");
    check_text(run, "trials.0.runs.0.stopped", "early_stopping");
    check_near(run, 1e-5, pow(0.04 + 3, 2), "trials.0.runs.0.metrics.val_loss");
    cr_assert(near(predicted(&t), 0.04, 1e-5), "the best weights are those that predicted");
    json_decref(run);
    run = run_of(&t, worse, NUMBERS, ZEROS,
                 "loss: mse, optimizer: {sgd: {learning_rate: 0.01}}, epochs: 20, "
                 "early_stopping: {monitor: val_loss, patience: 2, start_from_epoch: 5}");
    check_number(run, 8, "trials.0.runs.0.epochs"); /* epochs 6, 7, 8 are looked at */
    check_number(run, 8, "trials.0.runs.0.scored_epoch");
    check_number(run, 1, "trials.0.runs.0.best_epoch");
    json_decref(run);
    run = run_of(&t, worse, NUMBERS, ZEROS,
                 "loss: mse, optimizer: {sgd: {learning_rate: 0.01}}, epochs: 7, "
                 "early_stopping: {monitor: loss, patience: 2}"); /* that one improves for ever */
    check_number(run, 7, "trials.0.runs.0.epochs");
    check_text(run, "trials.0.runs.0.stopped", "epochs");
    json_decref(run);
    for (int baseline = 0; baseline < 2; baseline++) {
        /* The first epoch improves on nothing, but not on the baseline, so that it counts as waited for. */
        run = run_of(&t, worse, NUMBERS, ZEROS,
                     baseline ? "loss: mse, optimizer: {sgd: {learning_rate: 0.01}}, epochs: 20, "
                                "early_stopping: {monitor: val_loss, patience: 2, baseline: 5}"
                              : "loss: mse, optimizer: {sgd: {learning_rate: 0.01}}, epochs: 20, "
                                "early_stopping: {monitor: val_loss, patience: 2}");
        check_number(run, baseline ? 2 : 3, "trials.0.runs.0.epochs");
        json_decref(run);
    }
    run = run_of(&t, worse, NUMBERS, ZEROS,
                 "loss: mse, optimizer: {sgd: {learning_rate: 0.01}}, epochs: 20, early_stopping: {rule: gl, "
                 "alpha: 5}");
    check_number(run, 1, "trials.0.runs.0.scored_epoch"); /* Prechelt's rules restore the best weights */
    /* 100 (val / best - 1) > 5 for the first time; the error 1 - 0.96^n shrinks. */
    int expected = 1;
    for (double best = pow(4 - 0.96, 2);; expected++) {
        double now = pow(4 - pow(0.96, expected), 2);
        if (100 * (now / best - 1) > 5) break;
    }
    check_number(run, expected, "trials.0.runs.0.epochs");
    json_decref(run);
    through_forget(&t);
    through_sweep(&t, NUMBERS ZEROS "train: {loss: mse, early_stopping: {monitor: val_acc, patience: 3}}\n");
    through_refused(&t, "s.yaml:4:", "val_acc", NULL);
    through_close(&t);
}

Test(contract_train, a_monitor_that_a_fold_cannot_define)
{
    static const char rows[] = "x,y,f\n1,no,0\n-2,yes,0\n1,yes,1\n2,no,1\n5,no,2\n3,no,2\n";
    struct through t;
    through_open(&t);
    json_t *run = run_of(&t, rows, NUMBERS, DENSE(1, "kernel_initializer: ones, activation: sigmoid"),
                         "loss: binary_crossentropy, optimizer: {sgd: {learning_rate: 0}}, epochs: 5, "
                         "early_stopping: {monitor: val_auc, patience: 1}");
    check_number(run, 2, "trials.0.runs.0.epochs");
    check_number(run, 2, "trials.0.runs.1.epochs");
    check_number(run, 5, "trials.0.runs.2.epochs");
    json_decref(run);
    cr_assert_eq(through_call(&t, "show", "--trial", "1", NULL), 0);
    cr_assert(strstr(t.last.out, "early stopping"), "%s", t.last.out);
    through_close(&t);
}

/* ---- numbers that are not finite ---- */

Test(contract_train, on_nan)
{
    struct through t;
    through_open(&t);
#define WILD                                                                                                 \
    "loss: mse, batch_size: 1, shuffle: false, optimizer: {sgd: {learning_rate: 1e30}}, epochs: 3, on_nan: "
    through_forget(&t);
    through_file(&t, "d.csv", ones);
    through_sweep(&t, NUMBERS ZEROS "train: {" WILD "stop}\n");
    cr_assert_eq(through_call(&t, "run", "--json", NULL), 1, "every valid trial failed");
    json_t *run = through_parsed(&t, t.last.exit_code, 1);
    check_text(run, "trials.0.status", "failed");
    check_text(run, "trials.0.runs.0.status", "failed");
    check_text(run, "trials.0.runs.0.reason.code", "nan");
    cr_assert(json_is_null(at(run, "trials.0.mean")));
    json_decref(run);
    run = run_of(&t, ones, NUMBERS, ZEROS, WILD "skip");
    check_text(run, "trials.0.runs.0.status", "completed");
    json_decref(run);
    cr_assert_eq(through_call(&t, "export", "--runs", NULL), 0);
    /* The first step's gradient is finite, those of the 11 after it are not. */
    cr_assert(strstr(t.last.out, ",epochs,11,"), "%s", t.last.out);
    through_forget(&t);
    through_sweep(&t, NUMBERS ZEROS "train: {" WILD "rollback}\n"); /* half of 1e30, thrice, is still wild */
    run = through_parsed(&t, through_call(&t, "run", "--json", NULL), 1);
    check_text(run, "trials.0.runs.0.reason.code", "nan");
    json_decref(run);
    run = run_of(&t, ones, NUMBERS, ZEROS, WILD "keras"); /* carries on; nothing is finite at the end */
    check_text(run, "trials.0.runs.0.status", "completed");
    check_number(run, 3, "trials.0.runs.0.epochs");
    cr_assert(json_is_null(at(run, "trials.0.runs.0.metrics.val_loss")));
    json_decref(run);
    through_close(&t);
}

/* ---- model ---- */

static json_t *network(struct through *t, const char *model)
{
    through_file(t, "d.csv", "x,y\n1,0\n2,1\n4,0\n8,1\n16,0\n32,1\n64,0\n128,1\n");
    through_sweep(
        t,
        "data: {source: csv, path: d.csv, features: [x], target: y, window: {length: 5, label: first}}\n"
        "cv: {split: kfold, folds: 2, shuffle: false}\n"
        "model: %s\n"
        "train: {loss: sparse_categorical_crossentropy, epochs: 1}\n",
        model);
    return through_plan(t);
}

Test(contract_train, layers)
{
    static const struct {
        const char *model;
        int parameters;
    } of[] = {
        {"[flatten, {dense: {units: 2, activation: softmax}}]", 12},
        {"[flatten, {dense: {units: 2}}, softmax]", 12},
        {"[{repeat: {times: 0, layers: [{conv1d: {filters: 9, kernel_size: 9}}]}}, flatten, {dense: {units: "
         "2, activation: "
         "softmax}}]",
         12},
        {"[{repeat: {times: 2, layers: [{conv1d: {filters: 3, kernel_size: 2}}, relu]}}, "
         "global_average_pooling1d, "
         "{dense: {units: 2, activation: softmax}}]",
         9 + 21 + 8},
        {"[{choose: {by: b, options: {a: [flatten], b: [{conv1d: {filters: 2, kernel_size: 5}}, flatten]}}}, "
         "{dense: {units: "
         "2, activation: softmax}}]",
         12 + 6},
        {"[{conv1d: {filters: 4, kernel_size: 3, strides: 2, padding: causal, use_bias: false}}, "
         "batch_normalization, "
         "{max_pooling1d: {pool_size: 2}}, {spatial_dropout1d: {rate: 0.1}}, layer_normalization, "
         "global_max_pooling1d, "
         "{dropout: {rate: 0.5}}, {dense: {units: 2, activation: softmax}}]",
         12 + 16 + 8 + 10},
    };
    struct through t;
    through_open(&t);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        json_t *plan = network(&t, of[i].model);
        check_number(plan, of[i].parameters, "networks.0.param_count");
        json_decref(plan);
    }
    static const char *const wrong[][3] = {
        {"[flatten, {dense: {unit: 2}}]", "unit", "units"},
        {"[flaten, {dense: {units: 2}}]", "flaten", "flatten"},
        {"[{choose: {by: c, options: {a: [flatten], b: [flatten]}}}, {dense: {units: 2, activation: "
         "softmax}}]",
         "'c'", "a"},
        {"[{residual: {layers: [relu]}}, flatten, {dense: {units: 2, activation: softmax}}]", "residual",
         "not available yet"},
        {"[flatten, {dense: {units: 2.5, activation: softmax}}]", "units", "2.5"},
        {"[flatten, {dense: {units: 3, activation: softmax}}]", "3", "2"},
        {"[flatten, {dense: {units: 2, activation: softmx}}]", "softmx", "softmax"},
        {"[{conv1d: {filters: 4, kernel_size: 9}}, flatten, {dense: {units: 2, activation: softmax}}]",
         "kernel_size 9", "5"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        through_sweep(
            &t,
            "data: {source: csv, path: d.csv, features: [x], target: y, window: {length: 5, label: first}}\n"
            "cv: {split: kfold, folds: 2, shuffle: false}\n"
            "model: %s\n"
            "train: {loss: sparse_categorical_crossentropy, epochs: 1}\n",
            wrong[i][0]);
        cr_assert_eq(through_call(&t, "run", NULL), 2, "%s: %s", wrong[i][0], t.last.out);
        cr_assert(strstr(t.last.err, wrong[i][1]) && strstr(t.last.err, wrong[i][2]) &&
                      strstr(t.last.err, "s.yaml:3:"),
                  "%s: %s", wrong[i][0], t.last.err);
        through_forget(&t);
    }
    through_close(&t);
}
