/* Everything that can be wrong with a model: the code, the place and what the sentence says. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "support/network.h"

enum target { TWO, THREE, ARRAY, NUMBER, DISTRIBUTION };

struct mistake {
    const char *model;
    enum fm_loss_kind loss;
    enum target target;
    int code;
    int64_t line, column; /* 0 = not looked at */
    const char *says;
};

#define CCE  FM_LOSS_CATEGORICAL_CROSSENTROPY
#define SCE  FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
#define BCE  FM_LOSS_BINARY_CROSSENTROPY
#define HEAD "\n- flatten\n- dense: {units: 2, activation: softmax}\n"

static struct fm_net_input input_of(enum target target)
{
    struct fm_net_input in = ts_net_input(10, 4);
    in.nclasses = target == TWO ? 2 : target == THREE || target == ARRAY ? 3 : 0;
    in.exact_classes = target != ARRAY;
    in.distribution = target == DISTRIBUTION;
    in.target_width = target == DISTRIBUTION ? 3 : 1;
    return in;
}

static void check(const struct mistake *m, size_t i)
{
    struct ts_network n;
    struct fm_net_input input = input_of(m->target);
    struct fm_train_config train = ts_net_train(m->loss);
    ts_network_init(&n, m->model, &input, &train);
    cr_expect_eq(n.code, m->code, "%zu: code %d, not %d: %s", i, n.code, m->code, n.error.text);
    cr_expect_eq(n.error.code, n.code, "%zu", i);
    cr_expect(n.code == 0 || strstr(n.error.text, m->says), "%zu: '%s' does not say '%s'", i, n.error.text,
              m->says);
    if (m->line)
        cr_expect_eq(n.error.line, m->line, "%zu: line %" PRId64 ": %s", i, n.error.line, n.error.text);
    if (m->column)
        cr_expect_eq(n.error.column, m->column, "%zu: column %" PRId64 ": %s", i, n.error.column,
                     n.error.text);
    cr_expect(n.code != 0 || n.program, "%zu", i);
    cr_expect(n.code == 0 || (!n.program && n.error.text[0]), "%zu", i);
    ts_network_fini(&n);
}

static const struct mistake mistakes[] = {
    /* the file */
    {"- conv1: {filters: 2, kernel_size: 3}" HEAD, SCE, TWO, FM_EFILE, 1, 3, "did you mean conv1d?"},
    {"- flatten\n- dens: {units: 2}\n", SCE, TWO, FM_EFILE, 2, 3, "model[1].dens: no layer is called 'dens'"},
    {"- zzzzzzzzz\n", SCE, TWO, FM_EFILE, 1, 3, "foldmill help keys"},
    {"- flatten\n- dense: {unit: 2}\n", SCE, TWO, FM_EFILE, 2, 0, "unit"},
    {"- dense: {activation: relu}\n", SCE, TWO, FM_EFILE, 1, 0, "units"},
    {"- conv1d: {filters: 0, kernel_size: 3}" HEAD, SCE, TWO, FM_EFILE, 1, 0, "filters"},
    {"- conv1d: {filters: 2.5, kernel_size: 3}" HEAD, SCE, TWO, FM_EFILE, 1, 0, "filters"},
    {"- conv1d: {filters: 2, kernel_size: 3, padding: full}" HEAD, SCE, TWO, FM_EFILE, 1, 0, "padding"},
    {"- conv1d: {filters: 2, kernel_size: 3, activation: rely}" HEAD, SCE, TWO, FM_EFILE, 1, 0, "relu"},
    {"- conv1d: {filters: 2, kernel_size: 3, data_format: channels_first}" HEAD, SCE, TWO, FM_EFILE, 1, 3,
     "data_format must be channels_last"},
    {"- flatten: {data_format: channels_first}\n- dense: {units: 2, activation: softmax}\n", SCE, TWO,
     FM_EFILE, 1, 3, "channels_last"},
    {"- residual: {layers: [flatten]}" HEAD, SCE, TWO, FM_ELATER, 1, 3, "not available yet"},
    {"- highway" HEAD, SCE, TWO, FM_ELATER, 1, 3, "highway is not available yet"},
    {"- concat: {branches: []}" HEAD, SCE, TWO, FM_ELATER, 1, 3, "not available yet"},
    {"- embedding: {output_dim: 3}" HEAD, SCE, TWO, FM_ELATER, 1, 3, "not available yet"},
    {"- dense: {units: 2, kernel_constraint: max_norm}" HEAD, SCE, TWO, FM_ELATER, 1, 0, "kernel_constraint"},
    {"- dense: {units: 2, kernel_initializer: glorot_unifrm}" HEAD, SCE, TWO, FM_EFILE, 1, 0,
     "did you mean glorot_uniform?"},
    {"- dense: {units: 2, kernel_initializer: {random_uniform: {minval: 1, maxval: 0}}}" HEAD, SCE, TWO,
     FM_EFILE, 1, 0, "minval"},
    {"- dense: {units: 2, bias_initializer: orthogonal}" HEAD, SCE, TWO, FM_EFILE, 1, 0, "two dimensions"},
    {"- dense: {units: 2, kernel_initializer: {he_normal: {seed: 1}}}" HEAD, SCE, TWO, FM_ELATER, 1, 0,
     "seed"},
    {"- dense: {units: 2, kernel_regularizer: l3}" HEAD, SCE, TWO, FM_EFILE, 1, 0, "l1, l2 and l1_l2"},
    {"- dense: {units: 2, kernel_regularizer: {l2: {l2: -1}}}" HEAD, SCE, TWO, FM_EFILE, 1, 0, "l2"},
    {"- dropout" HEAD, SCE, TWO, FM_EFILE, 1, 0, "rate"},
    {"- dropout: {rate: 1.5}" HEAD, SCE, TWO, FM_EFILE, 1, 0, "rate"},
    {"- average_pooling1d" HEAD, SCE, TWO, FM_EFILE, 1, 0, "pool_size"},
    {"- leaky_relu: {negative_slope: 0.1, alpha: 0.1}" HEAD, SCE, TWO, FM_EFILE, 1, 3, "alpha"},
    {"- batch_normalization: {axis: 1}" HEAD, SCE, TWO, FM_EFILE, 1, 0, "axis"},
    {"dense: {units: 2}\n", SCE, TWO, FM_EFILE, 1, 0, "list of layers"},
    {"[]\n", SCE, TWO, FM_EFILE, 1, 0, "no layers"},
    {"- flatten\n- {dense: {units: 2}, flatten: {}}\n", SCE, TWO, FM_EFILE, 2, 0, "second name"},
    /* repeat and choose */
    {"- repeat: {times: 1000000000, layers: [relu]}" HEAD, SCE, TWO, FM_EFILE, 1, 19, "times"},
    {"- repeat: {times: 10000, layers: [relu, relu]}" HEAD, SCE, TWO, FM_EFILE, 1, 0,
     "more than 10000 layers"},
    {"- repeat: {times: 10000, layers: [{repeat: {times: 10000, layers: [{repeat: {times: 0, layers: "
     "[relu]}}]}}]}" HEAD,
     SCE, TWO, FM_EFILE, 1, 0, "more than 10000 layers"},
    {"- repeat: {times: 10000, layers: []}\n- repeat: {times: 10000, layers: []}\n- repeat: {times: 10000, "
     "layers: "
     "[]}\n- repeat: {times: 10000, layers: []}\n- flatten\n",
     SCE, TWO, FM_EFILE, 0, 0, "more than 10000 layers"},
    {"- repeat: {times: 2, layers: relu}" HEAD, SCE, TWO, FM_EFILE, 1, 0,
     "model[0].repeat[0].layers must be a list"},
    {"- repeat: {layers: [relu]}" HEAD, SCE, TWO, FM_EFILE, 1, 0, "times"},
    {"- flatten\n- choose: {by: smal, options: {small: [relu], large: [tanh]}}\n", SCE, TWO, FM_EFILE, 2, 0,
     "no option is called 'smal'; did you mean small?"},
    {"- choose: {by: a, options: [relu]}" HEAD, SCE, TWO, FM_EFILE, 1, 0, "options must be a map"},
    {"- choose: {by: a, options: {a: relu}}" HEAD, SCE, TWO, FM_EFILE, 1, 0,
     "model[0].choose.a must be a list"},
    /* shapes */
    {"- relu\n- conv1d: {filters: 2, kernel_size: 11}" HEAD, SCE, TWO, FM_ESHAPE, 2, 3,
     "model[1].conv1d: kernel_size 11 is longer than its input of 10 positions x 4 channels; kernel_size at "
     "most 10 "
     "fits"},
    {"- conv1d: {filters: 2, kernel_size: 5, dilation_rate: 3}" HEAD, SCE, TWO, FM_ESHAPE, 1, 3,
     "reaches over 13 positions, more than its input of 10 positions x 4 channels; kernel_size at most 4 "
     "fits"},
    {"- conv1d: {filters: 2, kernel_size: 2, dilation_rate: 2, strides: 2}" HEAD, SCE, TWO, FM_ESHAPE, 1, 3,
     "do not go together"},
    {"- conv1d: {filters: 3, kernel_size: 2, groups: 3}" HEAD, SCE, TWO, FM_ESHAPE, 1, 3,
     "groups 3 does not divide the channels of its input of 10 positions x 4 channels"},
    {"- conv1d: {filters: 3, kernel_size: 2, groups: 2}" HEAD, SCE, TWO, FM_ESHAPE, 1, 3,
     "multiple of groups"},
    {"- max_pooling1d: {pool_size: 11}" HEAD, SCE, TWO, FM_ESHAPE, 1, 3, "pool_size at most 10 fits"},
    {"- flatten\n- conv1d: {filters: 2, kernel_size: 3}" HEAD, SCE, TWO, FM_ESHAPE, 2, 3,
     "its input is flat (40 numbers)"},
    {"- global_max_pooling1d\n- max_pooling1d" HEAD, SCE, TWO, FM_ESHAPE, 2, 3,
     "its input is flat (4 numbers)"},
    {"- flatten\n- spatial_dropout1d: {rate: 0.5}" HEAD, SCE, TWO, FM_ESHAPE, 2, 3, "flat"},
    {"- dense: {units: 2147483647}\n- dense: {units: 2147483647}" HEAD, SCE, TWO, FM_ESHAPE, 1, 3, "2^31"},
    {"- conv1d: {filters: 2147483647, kernel_size: 2147483647, padding: same}" HEAD, SCE, TWO, FM_ESHAPE, 1,
     3, "2^31 parameters"},
    {"- flatten\n- dense: {units: 50000000}\n- dense: {units: 40}\n" HEAD, SCE, TWO, FM_ESHAPE, 3, 3,
     "up to here the network has more than 2^31 parameters"},
    {"- dense: {units: 300000000, use_bias: false}" HEAD, SCE, TWO, FM_ESHAPE, 1, 3,
     "too many for one example"},
    {"- flatten\n- dense: {units: 20000, kernel_initializer: orthogonal}\n- dense: {units: 20000, "
     "kernel_initializer: "
     "orthogonal}" HEAD,
     SCE, TWO, FM_ESHAPE, 3, 3, "too large to be made orthogonal"},
    /* outputs */
    {"- conv1d: {filters: 2, kernel_size: 2, activation: softmax}\n", SCE, TWO, FM_ESHAPE, 1, 3,
     "the network ends in 9 positions x 2 channels, but the loss takes one row of numbers; put flatten or "
     "global_average_pooling1d"},
    {"- flatten\n- dense: {units: 3, activation: softmax}\n", SCE, TWO, FM_ESHAPE, 2, 3,
     "3 outputs, but the target has 2 classes; units: 2 fits"},
    {"- flatten\n- dense: {units: 2, activation: softmax}\n", CCE, THREE, FM_ESHAPE, 2, 3, "units: 3 fits"},
    {"- flatten\n- dense: {units: 2, activation: softmax}\n", CCE, DISTRIBUTION, FM_ESHAPE, 2, 3,
     "units: 3 fits"},
    {"- flatten\n- dense: {units: 3, activation: softmax}\n", SCE, DISTRIBUTION, FM_EFILE, 1, 0,
     "use categorical_crossentropy"},
    {"- flatten\n- dense: {units: 2, activation: sigmoid}\n", BCE, TWO, FM_ESHAPE, 2, 3,
     "2 outputs, but binary_crossentropy takes one; units: 1"},
    {"- flatten\n- dense: {units: 1, activation: sigmoid}\n", BCE, THREE, FM_ESHAPE, 2, 3, "two classes"},
    {"- flatten\n- dense: {units: 1, activation: sigmoid}\n", BCE, NUMBER, FM_EFILE, 1, 0, "mse"},
    {"- flatten\n- dense: {units: 1, activation: sigmoid}\n", BCE, DISTRIBUTION, FM_EFILE, 1, 0,
     "categorical_crossentropy"},
    {"- flatten\n- dense: {units: 2}\n", FM_LOSS_MSE, NUMBER, FM_ESHAPE, 2, 3,
     "the target has 1 number; units: 1 fits"},
    {"- flatten\n- dense: {units: 1}\n", FM_LOSS_HUBER, TWO, FM_EFILE, 1, 0, "huber needs numbers"},
    {"- flatten\n- dense: {units: 1, activation: softmax}\n", SCE, NUMBER, FM_EFILE, 1, 0, "needs classes"},
    {"- flatten\n- dense: {units: 2}\n", SCE, TWO, FM_EFILE, 2, 3, "needs softmax as the last activation"},
    {"- flatten\n- dense: {units: 2, activation: sigmoid}\n", CCE, TWO, FM_EFILE, 2, 3, "from_logits: true"},
    {"- flatten\n- dense: {units: 1, activation: relu}\n", BCE, TWO, FM_EFILE, 2, 3, "needs sigmoid"},
    {"- flatten\n- dense: {units: 2, activation: softmax}\n- dropout: {rate: 0.5}\n", SCE, TWO, FM_EFILE, 3,
     3, "needs softmax"},
    {"- dense: {units: 1, activation: softmax}\n- max_pooling1d: {pool_size: 5}\n- flatten\n", SCE, TWO,
     FM_EFILE, 3, 3, "needs softmax"},
    {"- dense: {units: 1, activation: softmax}\n- max_pooling1d: {pool_size: 5}\n- relu\n- dense: {units: 1, "
     "activation: softmax}\n- flatten\n",
     SCE, TWO, FM_EFILE, 5, 3, "needs softmax"},
    {"- global_max_pooling1d\n- softmax\n", SCE, DISTRIBUTION, FM_EFILE, 2, 3, "nothing to train"},
};

Test(net_errors, every_mistake_has_its_place_and_advice)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) check(&mistakes[i], i);
}

Test(net_errors, huge_repeats_are_refused_at_once)
{
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++)
        if (strstr(mistakes[i].model, "repeat")) check(&mistakes[i], i);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    cr_expect_lt(seconds, 5, "%.2f s", seconds);
}

Test(net_errors, ten_thousand_layers_are_allowed)
{
    struct ts_network n;
    struct fm_net_input input = ts_net_input(10, 4);
    struct fm_train_config train = ts_net_train(SCE);
    ts_network_init(&n, "- repeat: {times: 9998, layers: [relu]}" HEAD, &input, &train);
    cr_assert_eq(n.code, 0, "%s", n.error.text);
    cr_expect_eq(n.program->nlayers, 10000);
    ts_network_fini(&n);
}

Test(net_errors, deep_nesting_ends)
{
    struct fm_text model = {0};
    for (int i = 0; i < 60; i++) fm_text_add_string(&model, "[{repeat: {times: 1, layers: ");
    fm_text_add_string(&model, "[relu]");
    for (int i = 0; i < 60; i++) fm_text_add_string(&model, "}}]");
    struct ts_network n;
    struct fm_net_input input = ts_net_input(10, 4);
    struct fm_train_config train = ts_net_train(SCE);
    cr_expect_eq(ts_network_init(&n, model.data, &input, &train), FM_EFILE);
    cr_expect(n.error.text[0]);
    ts_network_fini(&n);
    fm_text_fini(&model);
}

/* ---- what is allowed ---- */

static void compiles(const char *model, enum fm_loss_kind loss, enum target target, bool from_logits,
                     struct ts_network *n)
{
    struct fm_net_input input = input_of(target);
    struct fm_train_config train = ts_net_train(loss);
    train.loss.from_logits = from_logits;
    ts_network_init(n, model, &input, &train);
    cr_assert_eq(n->code, 0, "%s: %s", model, n->error.text);
}

static int count_ops(const struct fm_program *p, enum fm_opcode code)
{
    int count = 0;
    for (int i = 0; i < p->nops; i++) count += p->ops[i].code == code;
    return count;
}

Test(net_errors, a_last_softmax_goes_into_the_loss_however_it_is_written)
{
    static const char *const models[] = {
        "- flatten\n- dense: {units: 2, activation: softmax}\n",
        "- flatten\n- dense: {units: 2}\n- softmax\n",
        "- flatten\n- dense: {units: 2}\n- activation: {activation: softmax}\n",
        "- flatten\n- dense: {units: 2}\n- softmax\n- dropout: {rate: 0}\n- linear\n",
        "- flatten\n- dense: {units: 2}\n- softmax: {axis: -1}\n- flatten\n",
    };
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct ts_network n;
        compiles(models[i], SCE, TWO, false, &n);
        cr_expect(n.program->loss.logits);
        cr_expect_eq(count_ops(n.program, FM_OP_ACTIVATION), 0, "%zu", i);
        cr_expect_eq(n.notes.count, 0u);
        if (i) cr_expect_eq(n.program->hash, hash, "%zu", i);
        hash = n.program->hash;
        ts_network_fini(&n);
    }
}

Test(net_errors, from_logits)
{
    struct ts_network n;
    compiles("- flatten\n- dense: {units: 2}\n", CCE, TWO, true, &n);
    cr_expect(n.program->loss.logits);
    cr_expect_eq(n.notes.count, 0u);
    ts_network_fini(&n);
    compiles("- flatten\n- dense: {units: 2, activation: softmax}\n", CCE, TWO, true, &n);
    cr_assert_eq(n.notes.count, 1u);
    cr_expect(strstr(n.notes.text[0], "from_logits"));
    cr_expect_eq(count_ops(n.program, FM_OP_ACTIVATION), 0);
    ts_network_fini(&n);
    compiles("- flatten\n- dense: {units: 1, activation: sigmoid}\n", BCE, TWO, false, &n);
    cr_expect(n.program->loss.logits);
    cr_expect_eq(n.program->score_width, 1);
    ts_network_fini(&n);
    compiles("- flatten\n- dense: {units: 1, activation: sigmoid}\n", FM_LOSS_MSE, NUMBER, false, &n);
    cr_expect_not(n.program->loss.logits);
    cr_expect_eq(count_ops(n.program, FM_OP_ACTIVATION), 2, "forward and evaluate");
    ts_network_fini(&n);
}

Test(net_errors, outputs_and_score_widths)
{
    struct ts_network n;
    compiles("- flatten\n- dense: {units: 5, activation: softmax}\n", SCE, ARRAY, false, &n);
    cr_expect_eq(n.program->score_width, 5);
    cr_expect_eq(n.program->loss.outputs, 5);
    ts_network_fini(&n);
    compiles("- flatten\n- dense: {units: 3, activation: softmax}\n", CCE, DISTRIBUTION, false, &n);
    cr_expect_eq(n.program->score_width, 3);
    ts_network_fini(&n);
    compiles("- flatten\n- dense: {units: 1}\n", FM_LOSS_HUBER, NUMBER, false, &n);
    cr_expect_eq(n.program->loss.delta, 1);
    cr_expect_eq(n.program->score_width, 1);
    ts_network_fini(&n);
}

Test(net_errors, choose_takes_its_option)
{
    struct ts_network n;
    compiles("- choose: {by: b, options: {a: [relu], b: [], 3: [tanh]}}" HEAD, SCE, TWO, false, &n);
    cr_expect_eq(n.program->nlayers, 2);
    ts_network_fini(&n);
    compiles("- choose: {by: 3, options: {a: [relu], b: [], 3: [tanh, {dense: {units: 3}}]}}" HEAD, SCE, TWO,
             false, &n);
    cr_expect_str_eq(n.program->layers[1].path, "model[0].choose.3[1].dense");
    cr_expect_eq(n.program->layers[1].line, 1);
    ts_network_fini(&n);
}
