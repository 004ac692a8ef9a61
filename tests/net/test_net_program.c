/* Programs as such: a checker that knows the rules of program.h and nothing of the builder, run over hundreds
 * of random networks; then hashes, sharing, letters, regularisers and the listing. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "net/builder.h"
#include "net/print.h"
#include "support/allocation.h"
#include "support/network.h"

/* ---- the checker ---- */

static char what[4096]; /* the model under test, for messages */

#define CHECK(condition, ...)                                                                                \
    do {                                                                                                     \
        char text_[256];                                                                                     \
        snprintf(text_, sizeof text_, __VA_ARGS__);                                                          \
        cr_assert(condition, "%s in %s", text_, what);                                                       \
    } while (0)

static bool lives_always(const struct fm_tensor *t)
{
    return t->kind == FM_TENSOR_PARAMETER || t->kind == FM_TENSOR_STATE;
}

static void check_sections(const struct fm_program *p)
{
    CHECK(p->section_first[0] == 0 && p->section_first[FM_SECTIONS] == p->nops,
          "sections do not cover all operations");
    int stage = 0;
    for (int s = 0; s < FM_SECTIONS; s++) {
        CHECK(p->section_first[s] < p->section_first[s + 1], "section %d is empty", s);
        for (int i = p->section_first[s]; i < p->section_first[s + 1]; i++) {
            const struct fm_op *op = &p->ops[i];
            CHECK((int)op->section == s, "operation %d stands in a wrong section", i);
            CHECK(op->layer >= -1 && op->layer < p->nlayers, "operation %d has no layer", i);
            if (s == FM_SECTION_EVALUATE) {
                CHECK(op->stage == 0, "evaluate has stages");
                continue;
            }
            bool spans = op->code == FM_OP_BATCH_NORM || op->code == FM_OP_BATCH_NORM_GRAD ||
                         i == p->section_first[FM_SECTION_UPDATE];
            CHECK(op->stage == stage + spans, "operation %d has stage %d after %d", i, op->stage, stage);
            stage = op->stage;
        }
    }
    CHECK(p->stages == stage + 1, "%d stages, not %d", p->stages, stage + 1);
    CHECK(p->ops[p->section_first[FM_SECTION_BACKWARD] - 1].code == FM_OP_LOSS,
          "forward does not end in the loss");
    CHECK(p->ops[p->section_first[FM_SECTION_BACKWARD]].code == FM_OP_LOSS_GRAD,
          "backward does not begin with it");
    CHECK(p->ops[p->nops - 1].code == FM_OP_SCORES, "evaluate does not end in scores");
}

/* Runs ops [from, to) on a set of written tensors: everything read was written, everything is written once.
 */
static void simulate(const struct fm_program *p, int from, int to, bool *written)
{
    for (int i = from; i < to; i++) {
        const struct fm_op *op = &p->ops[i];
        for (int k = 0; k < FM_OP_INPUTS; k++)
            CHECK(op->in[k] < 0 || written[op->in[k]], "operation %d reads t%d before it is written", i,
                  op->in[k]);
        for (int k = 0; k < FM_OP_OUTPUTS; k++) {
            int t = op->out[k];
            if (t < 0) continue;
            bool again = written[t] && p->tensors[t].kind != FM_TENSOR_STATE;
            CHECK(again == (k == 0 && op->accumulate), "operation %d writes t%d twice or adds to nothing", i,
                  t);
            written[t] = true;
        }
        if (op->code == FM_OP_NORM)
            for (int v = 0; v < p->nvariables; v++)
                CHECK(!p->variables[v].trainable || written[p->variables[v].gradient], "%s has no gradient",
                      p->variables[v].name);
    }
}

static void check_order(const struct fm_program *p)
{
    bool *training = fm_calloc((size_t)p->ntensors, sizeof *training);
    bool *evaluate = fm_calloc((size_t)p->ntensors, sizeof *evaluate);
    int split = p->section_first[FM_SECTION_EVALUATE];
    for (int t = 0; t < p->ntensors; t++) training[t] = evaluate[t] = lives_always(&p->tensors[t]);
    simulate(p, 0, split, training);
    simulate(p, split, p->nops, evaluate);
    for (int t = 0; t < p->ntensors; t++) {
        CHECK(training[t] || evaluate[t], "t%d is never written", t);
        CHECK(lives_always(&p->tensors[t]) || training[t] != evaluate[t], "t%d is shared with evaluate", t);
    }
    fm_free(training);
    fm_free(evaluate);
}

static bool names_tensor(const struct fm_op *op, int t)
{
    bool found = false;
    for (int k = 0; k < FM_OP_INPUTS; k++) found |= op->in[k] == t;
    for (int k = 0; k < FM_OP_OUTPUTS; k++) found |= op->out[k] == t;
    /* norm, clip and optimizer work on all gradients */
    return found;
}

static void check_lifetimes(const struct fm_program *p)
{
    for (int t = 0; t < p->ntensors; t++) {
        const struct fm_tensor *x = &p->tensors[t];
        int first = -1, last = -1;
        for (int i = 0; i < p->nops; i++)
            if (names_tensor(&p->ops[i], t) ||
                (x->kind == FM_TENSOR_GRADIENT && p->ops[i].code == FM_OP_OPTIMIZER)) {
                if (first < 0) first = i;
                last = i;
            }
        if (x->kind == FM_TENSOR_REPORT) last = p->section_first[p->ops[first].section + 1] - 1;
        if (lives_always(x)) first = 0, last = p->nops - 1;
        CHECK(x->first_op == first && x->last_op == last, "t%d lives %d..%d, not %d..%d", t, x->first_op,
              x->last_op, first, last);
    }
}

/* Memory as the lifetimes and overwrite flags allow: tensors whose lives do not meet share a cell, and a
 * gradient lies on its tensor where it may. Every read must find what was written. */
static void check_sharing(const struct fm_program *p)
{
    int n = p->ntensors, cells = 0;
    int *cell = fm_calloc((size_t)n, sizeof *cell), *owner = fm_calloc((size_t)n, sizeof *owner);
    int *until = fm_calloc((size_t)n, sizeof *until);
    for (int t = 0; t < n; t++) cell[t] = -1, owner[t] = -1, until[t] = -1;
    /* in the order of first use, so that a cell is free when its last tenant is gone */
    for (int at = 0; at < p->nops; at++)
        for (int t = 0; t < n; t++) {
            const struct fm_tensor *x = &p->tensors[t];
            if (x->first_op != at || cell[t] >= 0) continue;
            int c = -1;
            if (x->gradient_of >= 0 && p->tensors[x->gradient_of].overwrite) {
                int under = cell[x->gradient_of];
                if (until[under] <= p->tensors[x->gradient_of].last_op || until[under] < at) c = under;
            }
            for (int k = 0; c < 0 && k < cells; k++)
                if (until[k] < at) c = k;
            if (c < 0) c = cells++;
            cell[t] = c;
            if (x->last_op > until[c]) until[c] = x->last_op;
        }
    for (int t = 0; t < n; t++)
        if (lives_always(&p->tensors[t])) owner[cell[t]] = t;
    for (int i = 0; i < p->nops; i++) {
        const struct fm_op *op = &p->ops[i];
        for (int k = 0; k < FM_OP_INPUTS; k++)
            if (op->in[k] >= 0)
                CHECK(owner[cell[op->in[k]]] == op->in[k], "operation %d finds t%d overwritten", i,
                      op->in[k]);
        for (int k = 0; k < FM_OP_OUTPUTS; k++)
            if (op->out[k] >= 0) owner[cell[op->out[k]]] = op->out[k];
        if (op->code == FM_OP_OPTIMIZER)
            for (int v = 0; v < p->nvariables; v++)
                CHECK(!p->variables[v].trainable ||
                          owner[cell[p->variables[v].gradient]] == p->variables[v].gradient,
                      "the optimizer finds a gradient overwritten");
    }
    fm_free(cell);
    fm_free(owner);
    fm_free(until);
}

static void check_overwrite(const struct fm_program *p)
{
    for (int t = 0; t < p->ntensors; t++) {
        int gradient = -1, written = -1, read_after = 0;
        for (int g = 0; g < p->ntensors; g++)
            if (p->tensors[g].gradient_of == t) gradient = g;
        for (int i = 0; i < p->nops && gradient >= 0; i++)
            for (int k = 0; k < FM_OP_OUTPUTS; k++)
                if (p->ops[i].out[k] == gradient && written < 0) written = i;
        for (int i = written; written >= 0 && i < p->nops; i++)
            for (int k = 0; k < FM_OP_INPUTS; k++) read_after += p->ops[i].in[k] == t;
        bool may = gradient >= 0 && p->tensors[t].kind == FM_TENSOR_ACTIVATION && read_after == 0;
        CHECK(p->tensors[t].overwrite == may, "t%d: overwrite is %d", t, p->tensors[t].overwrite);
    }
}

/* Shapes of an operation against the tensors it names. A flattened tensor is read as one row. */
static void check_shapes(const struct fm_program *p)
{
    for (int i = 0; i < p->nops; i++) {
        const struct fm_op *op = &p->ops[i];
        if (op->section != FM_SECTION_FORWARD && op->section != FM_SECTION_EVALUATE) continue;
        CHECK(op->in_rows > 0 && op->in_channels > 0 && op->out_rows > 0 && op->out_channels > 0,
              "operation %d has no shape", i);
        const struct fm_tensor *y = &p->tensors[op->out[0]];
        CHECK(y->rows * y->channels == op->out_rows * op->out_channels, "operation %d: output shape", i);
        if (op->in[0] < 0) continue;
        const struct fm_tensor *x = &p->tensors[op->in[0]];
        int64_t spread = 1; /* letters stand for rows of the alphabet's width */
        if (op->code == FM_OP_CONV1D && op->conv.letters) spread = p->input_channels;
        if (op->code == FM_OP_DENSE && op->dense.letters) spread = p->input_channels;
        CHECK(x->rows * x->channels * spread == op->in_rows * op->in_channels, "operation %d: input shape",
              i);
        CHECK((x->type == FM_U8) == (spread > 1 || op->code == FM_OP_ONEHOT),
              "operation %d reads a wrong type", i);
        if (op->code == FM_OP_CONV1D || op->code == FM_OP_POOL) {
            bool conv = op->code == FM_OP_CONV1D;
            int64_t reach = conv ? (op->conv.taps - 1) * op->conv.dilation + 1 : op->pool.size;
            int64_t stride = conv ? op->conv.stride : op->pool.stride;
            int64_t before = conv ? op->conv.pad_before : op->pool.pad_before;
            int64_t after = conv ? op->conv.pad_after : op->pool.pad_after;
            int64_t last = (op->out_rows - 1) * stride + reach - 1 - before;
            CHECK(last < op->in_rows + after, "operation %d reaches beyond its padded input", i);
            CHECK(last - (reach - 1) < op->in_rows && reach - 1 >= before,
                  "operation %d: a window of padding only", i);
        }
    }
}

static void check_groups(const struct fm_program *p)
{
    int next = 0;
    for (int i = 0; i < p->nops; i++) {
        const struct fm_op *op = &p->ops[i];
        CHECK((op->group >= 0) == (op->fuse != FM_FUSE_NONE), "operation %d: group without kind", i);
        if (op->group < 0) continue;
        if (op->group == next) {
            next++;
        } else {
            CHECK(op->group == next - 1 && p->ops[i - 1].group == op->group &&
                      p->ops[i - 1].fuse == op->fuse && p->ops[i - 1].section == op->section,
                  "group %d is torn", op->group);
        }
    }
}

/* Which tensors depend on a trainable variable: only those have gradients, and all of them do. */
static void check_gradients(const struct fm_program *p)
{
    bool *depends = fm_calloc((size_t)p->ntensors, sizeof *depends);
    for (int i = 0; i < p->section_first[FM_SECTION_BACKWARD]; i++)
        for (int k = 0; k < FM_OP_INPUTS; k++) {
            int t = p->ops[i].in[k];
            if (t >= 0 && (depends[t] || p->tensors[t].kind == FM_TENSOR_PARAMETER))
                depends[p->ops[i].out[0]] = true;
        }
    for (int g = 0; g < p->ntensors; g++) {
        int t = p->tensors[g].gradient_of;
        if (t < 0 || p->tensors[g].kind == FM_TENSOR_GRADIENT) continue;
        CHECK(depends[t], "t%d has a gradient that nothing needs", t);
        CHECK(p->tensors[g].rows == p->tensors[t].rows && p->tensors[g].channels == p->tensors[t].channels,
              "t%d and its gradient differ in shape", t);
    }
    int weight = -1;
    for (int i = p->section_first[FM_SECTION_BACKWARD]; i < p->section_first[FM_SECTION_UPDATE]; i++) {
        enum fm_opcode code = p->ops[i].code;
        if (code == FM_OP_CONV1D_WEIGHT_GRAD || code == FM_OP_DENSE_WEIGHT_GRAD) weight = p->ops[i].layer;
        if (code == FM_OP_CONV1D_INPUT_GRAD || code == FM_OP_DENSE_INPUT_GRAD)
            CHECK(weight == p->ops[i].layer, "operation %d: the input gradient comes first", i);
    }
    fm_free(depends);
}

static void check_variables(const struct fm_program *p)
{
    int64_t offset = 0, trained = 0, layers = 0;
    for (int i = 0; i < p->nvariables; i++) {
        const struct fm_variable *v = &p->variables[i];
        int64_t count = 1;
        for (int k = 0; k < v->rank; k++) count *= v->shape[k];
        CHECK(v->count == count && v->offset == offset, "%s lies wrong", v->name);
        CHECK(p->tensors[v->tensor].variable == i, "%s: tensor", v->name);
        CHECK(p->tensors[v->tensor].rows * p->tensors[v->tensor].channels == count, "%s: size", v->name);
        CHECK((v->gradient >= 0) == v->trainable && v->decay == v->trainable, "%s: gradient", v->name);
        if (v->trainable) CHECK(p->tensors[v->gradient].gradient_of == v->tensor, "%s: gradient", v->name);
        for (int k = 0; k < i; k++)
            CHECK(strcmp(p->variables[k].name, v->name) != 0, "two variables %s", v->name);
        offset += count;
        if (v->trainable) trained += count;
    }
    for (int i = 0; i < p->nlayers; i++) layers += p->layers[i].param_count;
    CHECK(p->param_count == offset && p->float_count == offset && p->trainable_count == trained &&
              layers == offset,
          "parameters are counted wrong");
}

static void check_program(const struct fm_program *p)
{
    check_sections(p);
    check_order(p);
    check_lifetimes(p);
    check_overwrite(p);
    check_sharing(p);
    check_shapes(p);
    check_groups(p);
    check_gradients(p);
    check_variables(p);
}

/* ---- random networks ---- */

struct dice {
    uint64_t key;
    uint32_t throws;
};

static uint32_t throw(struct dice * d, uint32_t sides)
{
    uint32_t counter[4] = {d->throws++, 0, 0, 0}, out[4];
    fm_philox(counter, d->key, out);
    return out[0] % sides;
}

static void random_conv(struct dice *d, struct fm_text *t)
{
    static const char *const paddings[] = {"valid", "same", "causal"};
    static const char *const activations[] = {"linear",       "relu",     "swish",  "gelu", "leaky_relu",
                                              "elu",          "selu",     "tanh",   "mish", "sigmoid",
                                              "hard_sigmoid", "softplus", "softmax"};
    fm_text_add(t, "{conv1d: {filters: %u, kernel_size: %u, padding: %s, activation: %s",
                2 * (1 + throw(d, 4)), 1 + throw(d, 4), paddings[throw(d, 3)], activations[throw(d, 13)]);
    if (throw(d, 3) == 0)
        fm_text_add(t, ", strides: %u", 1 + throw(d, 3));
    else if (throw(d, 3) == 0)
        fm_text_add(t, ", dilation_rate: %u", 1 + throw(d, 3));
    if (throw(d, 3) == 0) fm_text_add_string(t, ", groups: 2");
    if (throw(d, 4) == 0) fm_text_add_string(t, ", use_bias: false");
    if (throw(d, 4) == 0)
        fm_text_add_string(t, ", kernel_regularizer: l2, bias_regularizer: {l1_l2: {l1: 0.1}}");
    fm_text_add_string(t, "}}, ");
}

static void random_layer(struct dice *d, struct fm_text *t)
{
    switch (throw(d, 12)) {
    case 0:
    case 1:
    case 2: random_conv(d, t); break;
    case 3: fm_text_add(t, "{max_pooling1d: {pool_size: %u, padding: same}}, ", 1 + throw(d, 300)); break;
    case 4: fm_text_add(t, "{average_pooling1d: {pool_size: %u, strides: 2}}, ", 1 + throw(d, 4)); break;
    case 5: fm_text_add(t, "{dense: {units: %u, activation: gelu}}, ", 2 * (1 + throw(d, 3))); break;
    case 6: fm_text_add(t, "{dropout: {rate: 0.%u}}, ", throw(d, 3)); break;
    case 7: fm_text_add_string(t, "{spatial_dropout1d: {rate: 0.5}}, "); break;
    case 8:
        fm_text_add(t, "{batch_normalization: {center: %s, scale: %s}}, ", throw(d, 2) ? "true" : "false",
                    throw(d, 2) ? "true" : "false");
        break;
    case 9:
        fm_text_add(t, "{layer_normalization: {center: %s, scale: %s}}, ", throw(d, 2) ? "true" : "false",
                    throw(d, 2) ? "true" : "false");
        break;
    case 10: fm_text_add_string(t, "softmax, "); break;
    default:
        fm_text_add_string(t, throw(d, 2) ? "mish, " : "{repeat: {times: 2, layers: [tanh, elu]}}, ");
        break;
    }
}

static void random_model(struct dice *d, struct fm_text *t)
{
    static const char *const ends[] = {"flatten, ", "global_max_pooling1d, ", "global_average_pooling1d, "};
    fm_text_add_string(t, "[");
    for (uint32_t i = throw(d, 7); i > 0; i--) random_layer(d, t);
    fm_text_add_string(t, ends[throw(d, 3)]);
    if (throw(d, 2)) fm_text_add_string(t, "{dense: {units: 6, activation: relu}}, batch_normalization, ");
    fm_text_add_string(t, "{dense: {units: 2, activation: softmax}}]");
}

Test(net_program, random_networks_are_valid)
{
    int compiled = 0, refused = 0;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct dice d = {fm_key(seed, FM_PURPOSE_SEARCH, 0, 0), 0};
        struct fm_text model = {0};
        struct ts_network n;
        struct fm_net_input input = ts_net_input(12 + throw(&d, 20), 4);
        struct fm_train_config train = ts_net_train(FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY);
        input.letters = throw(&d, 2);
        random_model(&d, &model);
        snprintf(what, sizeof what, "%s", model.data);
        ts_network_init(&n, model.data, &input, &train);
        if (n.code == FM_ESHAPE) {
            refused++;
        } else {
            cr_assert_eq(n.code, 0, "%s: %s", n.error.text, what);
            check_program(n.program);
            compiled++;
        }
        ts_network_fini(&n);
        fm_text_fini(&model);
    }
    cr_expect_geq(compiled, 300, "%d compiled, %d refused", compiled, refused);
}

/* ---- single properties ---- */

static void build(struct ts_network *n, const char *model, bool letters)
{
    struct fm_net_input input = ts_net_input(16, 4);
    struct fm_train_config train = ts_net_train(FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY);
    input.letters = letters;
    snprintf(what, sizeof what, "%s", model);
    ts_network_init(n, model, &input, &train);
    cr_assert_eq(n->code, 0, "%s: %s", model, n->error.text);
    check_program(n->program);
}

static const struct fm_op *find(const struct fm_program *p, enum fm_opcode code)
{
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].code == code) return &p->ops[i];
    return NULL;
}

static int count(const struct fm_program *p, enum fm_opcode code)
{
    int n = 0;
    for (int i = 0; i < p->nops; i++) n += p->ops[i].code == code;
    return n;
}

#define END ", flatten, {dense: {units: 2, activation: softmax}}]"

Test(net_program, letters_stay_letters_where_the_first_layer_takes_them)
{
    struct ts_network n;
    build(&n, "[{conv1d: {filters: 4, kernel_size: 3}}" END, true);
    cr_expect(find(n.program, FM_OP_CONV1D)->conv.letters);
    cr_expect(find(n.program, FM_OP_CONV1D_WEIGHT_GRAD)->conv.letters);
    cr_expect_null(find(n.program, FM_OP_ONEHOT));
    cr_expect_null(find(n.program, FM_OP_CONV1D_INPUT_GRAD));
    ts_network_fini(&n);
    build(&n, "[flatten, {dense: {units: 2, activation: softmax}}]", true);
    cr_expect(find(n.program, FM_OP_DENSE)->dense.letters);
    cr_expect_eq(find(n.program, FM_OP_DENSE)->dense.alphabet, 4);
    cr_expect_eq(find(n.program, FM_OP_DENSE)->in_channels, 64);
    ts_network_fini(&n);
    build(&n, "[{dense: {units: 3}}" END, true);
    cr_expect(find(n.program, FM_OP_DENSE)->dense.letters);
    cr_expect_eq(find(n.program, FM_OP_DENSE)->in_rows, 16);
    ts_network_fini(&n);
    build(&n, "[{dropout: {rate: 0}}, {conv1d: {filters: 4, kernel_size: 3}}" END, true);
    cr_expect(find(n.program, FM_OP_CONV1D)->conv.letters);
    ts_network_fini(&n);
    static const char *const onehot[] = {
        "[{conv1d: {filters: 4, kernel_size: 3, groups: 2}}" END, "[{dropout: {rate: 0.5}}" END,
        "[max_pooling1d" END, "[relu" END,
        "[flatten, batch_normalization, {dense: {units: 2, activation: softmax}}]"};
    for (size_t i = 0; i < sizeof onehot / sizeof onehot[0]; i++) {
        build(&n, onehot[i], true);
        cr_expect_eq(count(n.program, FM_OP_ONEHOT), 2, "%s: forward and evaluate", onehot[i]);
        ts_network_fini(&n);
    }
}

Test(net_program, dropout_of_rate_0_is_nothing_and_moves_no_mask)
{
    struct ts_network n;
    build(&n,
          "[{dropout: {rate: 0}}, {dense: {units: 3}}, {spatial_dropout1d: {rate: 0.25}}, {dropout: {rate: "
          "1}}" END,
          false);
    cr_assert_eq(count(n.program, FM_OP_DROPOUT), 2);
    const struct fm_op *op = find(n.program, FM_OP_DROPOUT);
    cr_expect(op->dropout.spatial);
    cr_expect_eq(op->dropout.index, 0);
    cr_expect_eq(op->dropout.id, 1);
    cr_expect_eq(n.program->nrates, 2);
    cr_expect_eq(n.program->rates[0], 0.25);
    cr_expect_eq(n.program->rates[1], 1);
    ts_network_fini(&n);
}

Test(net_program, derivatives_come_from_where_program_h_says)
{
    static const struct {
        const char *name;
        enum fm_derivative from;
    } rules[] = {{"relu", FM_FROM_OUTPUT},        {"leaky_relu", FM_FROM_OUTPUT}, {"elu", FM_FROM_OUTPUT},
                 {"selu", FM_FROM_OUTPUT},        {"tanh", FM_FROM_OUTPUT},       {"sigmoid", FM_FROM_OUTPUT},
                 {"softmax", FM_FROM_OUTPUT},     {"swish", FM_FROM_STORED},      {"silu", FM_FROM_STORED},
                 {"gelu", FM_FROM_STORED},        {"softplus", FM_FROM_STORED},   {"mish", FM_FROM_STORED},
                 {"hard_sigmoid", FM_FROM_STORED}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        char model[256];
        struct ts_network n;
        snprintf(model, sizeof model, "[{dense: {units: 3, activation: %s}}" END, rules[i].name);
        build(&n, model, false);
        const struct fm_op *forward = find(n.program, FM_OP_ACTIVATION);
        const struct fm_op *back = find(n.program, FM_OP_ACTIVATION_GRAD);
        cr_assert(forward && back);
        cr_expect_eq(back->derivative, rules[i].from, "%s", rules[i].name);
        cr_expect_eq(back->in[1], rules[i].from == FM_FROM_STORED ? forward->out[1] : forward->out[0]);
        uint64_t hash = n.program->hash;
        ts_network_fini(&n);
        /* the same as a layer of its own; leaky_relu has another slope there */
        snprintf(model, sizeof model, "[{dense: {units: 3}}, %s" END, rules[i].name);
        build(&n, model, false);
        cr_expect_eq(n.program->hash == hash, strcmp(rules[i].name, "leaky_relu") != 0, "%s", rules[i].name);
        ts_network_fini(&n);
    }
}

Test(net_program, activation_arguments)
{
    static const struct {
        const char *layer;
        enum fm_activation kind;
        double slope;
    } cases[] = {{"leaky_relu", FM_ACT_LEAKY_RELU, 0.3},
                 {"{leaky_relu: {negative_slope: 0.1}}", FM_ACT_LEAKY_RELU, 0.1},
                 {"{leaky_relu: {alpha: 0.05}}", FM_ACT_LEAKY_RELU, 0.05},
                 {"{activation: {activation: leaky_relu}}", FM_ACT_LEAKY_RELU, 0.2},
                 {"{relu: {negative_slope: 0.4}}", FM_ACT_LEAKY_RELU, 0.4},
                 {"relu", FM_ACT_RELU, 0},
                 {"elu", FM_ACT_ELU, 1},
                 {"{elu: {alpha: 0.5}}", FM_ACT_ELU, 0.5},
                 {"{activation: {activation: silu}}", FM_ACT_SWISH, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char model[256];
        struct ts_network n;
        snprintf(model, sizeof model, "[{dense: {units: 3}}, %s" END, cases[i].layer);
        build(&n, model, false);
        cr_expect_eq(find(n.program, FM_OP_ACTIVATION)->activation.kind, cases[i].kind, "%s", cases[i].layer);
        cr_expect_eq(find(n.program, FM_OP_ACTIVATION)->activation.slope, cases[i].slope, "%s",
                     cases[i].layer);
        ts_network_fini(&n);
    }
}

Test(net_program, regularizers_have_keras_defaults)
{
    static const struct {
        const char *written;
        double l1, l2;
    } cases[] = {{"l1", 0.01, 0},
                 {"l2", 0, 0.01},
                 {"{l2: {l2: 0.5}}", 0, 0.5},
                 {"{l1_l2: {l1: 0.25}}", 0.25, 0},
                 {"{l1_l2: {l1: 0.25, l2: 2}}", 0.25, 2}};
    struct ts_network n;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char model[256];
        snprintf(model, sizeof model,
                 "[flatten, {dense: {units: 2, activation: softmax, kernel_regularizer: %s, "
                 "bias_regularizer: null}}]",
                 cases[i].written);
        build(&n, model, false);
        cr_assert_eq(count(n.program, FM_OP_REGULARIZE), 1);
        const struct fm_op *op = find(n.program, FM_OP_REGULARIZE);
        cr_expect_eq(op->regularize.l1, cases[i].l1);
        cr_expect_eq(op->regularize.l2, cases[i].l2);
        cr_expect_eq(op->in[0], n.program->variables[0].tensor);
        cr_expect_eq(op->out[0], n.program->variables[0].gradient);
        cr_expect_eq(op->layer, 1);
        ts_network_fini(&n);
    }
    build(&n, "[flatten, {dense: {units: 2, activation: softmax, kernel_regularizer: l1_l2}}]", false);
    cr_expect_eq(count(n.program, FM_OP_REGULARIZE), 0);
    ts_network_fini(&n);
}

Test(net_program, batch_normalization_cuts_stages)
{
    struct ts_network n;
    build(&n,
          "[batch_normalization, {conv1d: {filters: 4, kernel_size: 3}}, {batch_normalization: {momentum: "
          "0.9, epsilon: "
          "0.01}}, relu" END,
          false);
    /* two forward, two backward, update; the first normalisation has gamma and beta but no input gradient */
    cr_expect_eq(n.program->stages, 6);
    cr_expect_eq(count(n.program, FM_OP_BATCH_NORM_MOVING), 2);
    cr_expect_eq(count(n.program, FM_OP_BATCH_NORM_INFER), 2);
    const struct fm_op *last = NULL;
    for (int i = 0; i < n.program->nops; i++)
        if (n.program->ops[i].code == FM_OP_BATCH_NORM_GRAD) last = &n.program->ops[i];
    cr_expect_eq(last->out[0], -1);
    cr_expect_geq(last->out[1], 0);
    const struct fm_op *infer = find(n.program, FM_OP_BATCH_NORM_INFER);
    cr_expect_eq(n.program->tensors[infer->in[3]].kind, FM_TENSOR_STATE);
    cr_expect_str_eq(n.program->variables[2].name, "batch_normalization/moving_mean");
    cr_expect_str_eq(n.program->variables[6].name, "batch_normalization_1/gamma");
    cr_expect_eq(infer->norm.epsilon, 1e-3);
    cr_expect_eq(infer->norm.momentum, 0.99);
    ts_network_fini(&n);
}

Test(net_program, nothing_is_written_below_the_first_parameters)
{
    struct ts_network n;
    build(&n,
          "[relu, max_pooling1d, {dropout: {rate: 0.5}}, {conv1d: {filters: 3, kernel_size: 2}}, "
          "max_pooling1d" END,
          false);
    cr_expect_eq(count(n.program, FM_OP_ACTIVATION_GRAD), 0);
    cr_expect_eq(count(n.program, FM_OP_DROPOUT_GRAD), 0);
    cr_expect_eq(count(n.program, FM_OP_POOL_GRAD), 1);
    cr_expect_eq(count(n.program, FM_OP_CONV1D_INPUT_GRAD), 0);
    cr_expect_eq(find(n.program, FM_OP_POOL)->out[1], -1, "no winner where no gradient asks for it");
    ts_network_fini(&n);
}

Test(net_program, groups_of_the_paper_check)
{
    struct ts_network n;
    build(&n,
          "[{conv1d: {filters: 3, kernel_size: 2, activation: relu}}, max_pooling1d, {conv1d: {filters: 3, "
          "kernel_size: "
          "2, activation: swish}}" END,
          false);
    const struct fm_program *p = n.program;
    static const enum fm_fuse forward[] = {
        FM_FUSE_NONE,      FM_FUSE_CONV_ACT_POOL, FM_FUSE_CONV_ACT_POOL, FM_FUSE_CONV_ACT_POOL,
        FM_FUSE_LAYER_ACT, FM_FUSE_LAYER_ACT,     FM_FUSE_HEAD,          FM_FUSE_HEAD};
    for (int i = 0; i < 8; i++) cr_expect_eq(p->ops[i].fuse, forward[i], "operation %d", i);
    static const enum fm_opcode backward[] = {
        FM_OP_LOSS_GRAD,       FM_OP_DENSE_WEIGHT_GRAD,  FM_OP_DENSE_INPUT_GRAD,
        FM_OP_ACTIVATION_GRAD, FM_OP_CONV1D_WEIGHT_GRAD, FM_OP_CONV1D_INPUT_GRAD,
        FM_OP_POOL_GRAD,       FM_OP_ACTIVATION_GRAD,    FM_OP_CONV1D_WEIGHT_GRAD};
    for (int i = 0; i < 9; i++) cr_expect_eq(p->ops[8 + i].code, backward[i], "operation %d", 8 + i);
    cr_expect_eq(p->ops[10].group, p->ops[11].group);
    cr_expect_eq(p->ops[14].group, p->ops[15].group);
    cr_expect_eq(p->ops[10].fuse, FM_FUSE_GRAD_ACT);
    ts_network_fini(&n);
}

/* ---- hashes ---- */

static uint64_t hash_of(const char *model, bool letters)
{
    struct ts_network n;
    build(&n, model, letters);
    uint64_t hash = n.program->hash;
    ts_network_fini(&n);
    return hash;
}

Test(net_program, equal_programs_have_equal_hashes)
{
    static const char *const same[] = {
        "[{conv1d: {filters: 4, kernel_size: 3}}, {conv1d: {filters: 4, kernel_size: 3}}, {dropout: {rate: "
        "0.5}}" END,
        "[{repeat: {times: 2, layers: [{conv1d: {kernel_size: 3, filters: 4}}]}}, {dropout: {rate: "
        "0.25}}" END,
        "[{choose: {by: a, options: {a: [{conv1d: {filters: 4, kernel_size: [3], strides: 1}}]}}}, linear,\n"
        " {conv1d: {filters: 4.0, kernel_size: 3, kernel_initializer: glorot_uniform}}, {dropout: {rate: "
        "0.1}}" END,
    };
    for (size_t i = 0; i < 3; i++) cr_expect_eq(hash_of(same[i], false), hash_of(same[0], false), "%zu", i);
}

Test(net_program, different_programs_have_different_hashes)
{
    static const char *const models[] = {
        "[{conv1d: {filters: 4, kernel_size: 3}}" END,
        "[{conv1d: {filters: 6, kernel_size: 3}}" END,
        "[{conv1d: {filters: 4, kernel_size: 2}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, padding: same}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, padding: causal}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, strides: 2}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, dilation_rate: 2}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, groups: 2}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, use_bias: false}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, activation: relu}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, activation: leaky_relu}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3}}, leaky_relu" END,
        "[{conv1d: {filters: 4, kernel_size: 3, kernel_initializer: he_normal}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, kernel_initializer: {constant: {value: 1}}}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, kernel_initializer: {constant: {value: 2}}}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, kernel_regularizer: l1}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, kernel_regularizer: l2}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3, bias_regularizer: l2}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3}}, max_pooling1d" END,
        "[{conv1d: {filters: 4, kernel_size: 3}}, {average_pooling1d: {pool_size: 2}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3}}, {max_pooling1d: {pool_size: 4}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3}}, {max_pooling1d: {pool_size: 4, padding: same}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3}}, {dropout: {rate: 0.5}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3}}, {spatial_dropout1d: {rate: 0.5}}" END,
        "[{dropout: {rate: 0}}, {conv1d: {filters: 4, kernel_size: 3}}, {dropout: {rate: 0.5}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3}}, batch_normalization" END,
        "[{conv1d: {filters: 4, kernel_size: 3}}, {batch_normalization: {momentum: 0.9}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3}}, {batch_normalization: {epsilon: 0.01}}" END,
        "[{conv1d: {filters: 4, kernel_size: 3}}, layer_normalization" END,
    };
    enum { COUNT = sizeof models / sizeof models[0] };
    uint64_t hashes[COUNT + 1];
    for (size_t i = 0; i < COUNT; i++) hashes[i] = hash_of(models[i], false);
    hashes[COUNT] = hash_of(models[0], true);
    for (size_t i = 0; i <= COUNT; i++)
        for (size_t k = 0; k < i; k++) cr_expect_neq(hashes[i], hashes[k], "%zu and %zu", i, k);
}

Test(net_program, hash_tells_losses_and_optimizers_apart)
{
    struct fm_net_input input = ts_net_input(8, 2);
    uint64_t hashes[9];
    int slots[9] = {2, 2, 2, 3, 0, 1, 1, 1, 3};
    for (int i = 0; i < 9; i++) {
        struct fm_train_config train = ts_net_train(FM_LOSS_CATEGORICAL_CROSSENTROPY);
        if (i == 1) train.loss.label_smoothing = 0.1;
        if (i == 2) train.loss.kind = FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
        if (i == 3) train.optimizer.amsgrad = true;
        if (i >= 4 && i < 7) train.optimizer.kind = FM_OPTIMIZER_SGD;
        if (i == 5 || i == 6) train.optimizer.momentum = 0.9;
        if (i == 6) train.optimizer.nesterov = true;
        if (i >= 7) train.optimizer.kind = FM_OPTIMIZER_RMSPROP;
        if (i == 8) train.optimizer.momentum = 0.9, train.optimizer.centered = true;
        struct ts_network n;
        ts_network_init(&n, "[flatten, {dense: {units: 2, activation: softmax}}]", &input, &train);
        cr_assert_eq(n.code, 0, "%s", n.error.text);
        hashes[i] = n.program->hash;
        cr_expect_eq(n.program->slots, slots[i], "%d", i);
        /* what a lane sets is not part of the program */
        train.optimizer.learning_rate = 0.5;
        train.optimizer.clip = FM_CLIP_NORM;
        train.batch_size = 1;
        struct ts_network again;
        ts_network_init(&again, "[flatten, {dense: {units: 2, activation: softmax}}]", &input, &train);
        cr_expect_eq(again.program->hash, hashes[i]);
        ts_network_fini(&again);
        ts_network_fini(&n);
    }
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < i; k++) cr_expect_neq(hashes[i], hashes[k], "%d and %d", i, k);
}

/* Every field of an operation that says what is computed counts, whatever the shapes do. */
Test(net_program, hash_reads_every_field)
{
    struct ts_network n;
    build(&n,
          "[{conv1d: {filters: 4, kernel_size: 3, activation: elu, kernel_regularizer: l1}}, {dropout: "
          "{rate: 0.5}}, "
          "max_pooling1d, layer_normalization, batch_normalization" END,
          false);
    struct fm_program *p = n.program;
    uint64_t hash = fm_program_hash(p);
    cr_expect_eq(hash, p->hash);
#define CHANGES(field)                                                                                       \
    do {                                                                                                     \
        __typeof__(field) kept = (field);                                                                    \
        (field) = kept + 1;                                                                                  \
        cr_expect_neq(fm_program_hash(p), hash, #field " of operation %d", i);                               \
        (field) = kept;                                                                                      \
    } while (0)
    for (int i = 0; i < p->nops; i++) {
        struct fm_op *op = &p->ops[i];
        CHANGES(op->code);
        CHANGES(op->stage);
        CHANGES(op->in[0]);
        CHANGES(op->out[2]);
        CHANGES(op->derivative);
        CHANGES(op->in_rows);
        CHANGES(op->out_channels);
        if (op->code >= FM_OP_CONV1D && op->code <= FM_OP_CONV1D_INPUT_GRAD) {
            CHANGES(op->conv.taps);
            CHANGES(op->conv.stride);
            CHANGES(op->conv.dilation);
            CHANGES(op->conv.groups);
            CHANGES(op->conv.pad_before);
            CHANGES(op->conv.pad_after);
        }
        if (op->code == FM_OP_POOL || op->code == FM_OP_POOL_GRAD) {
            CHANGES(op->pool.size);
            CHANGES(op->pool.stride);
            CHANGES(op->pool.pad_before);
        }
        if (op->code == FM_OP_ACTIVATION || op->code == FM_OP_ACTIVATION_GRAD) CHANGES(op->activation.slope);
        if (op->code == FM_OP_BATCH_NORM || op->code == FM_OP_LAYER_NORM) CHANGES(op->norm.epsilon);
        if (op->code == FM_OP_BATCH_NORM_MOVING) CHANGES(op->norm.momentum);
        if (op->code == FM_OP_DROPOUT || op->code == FM_OP_DROPOUT_GRAD) CHANGES(op->dropout.id);
        if (op->code == FM_OP_REGULARIZE) CHANGES(op->regularize.l2);
    }
    for (int i = 0; i < p->ntensors; i++) CHANGES(p->tensors[i].rows);
    for (int i = 0; i < p->nvariables; i++) CHANGES(p->variables[i].b);
    for (int i = 0; i < p->nlayers; i++) p->layers[i].line++;
    cr_expect_eq(fm_program_hash(p), hash, "lines do not count");
    ts_network_fini(&n);
}

/* ---- flops, listing, help, memory ---- */

Test(net_program, flops_are_those_of_the_products)
{
    struct ts_network n;
    build(&n, "[{conv1d: {filters: 6, kernel_size: 3}}" END, false);
    double conv = 2.0 * 14 * 3 * 4 * 6, dense = 2.0 * 84 * 2;
    cr_expect_eq(fm_program_flops(n.program, false), conv + dense);
    cr_expect_eq(fm_program_flops(n.program, true), 2 * conv + 3 * dense,
                 "the first layer has no input gradient");
    ts_network_fini(&n);
    build(&n, "[{conv1d: {filters: 6, kernel_size: 3}}" END, true);
    cr_expect_eq(fm_program_flops(n.program, false), conv / 8 + dense,
                 "letters add a row of 4 without products");
    ts_network_fini(&n);
}

/* What ../shared/cpu_kernels.md counts of the reference networks: S 0.121, P2 1.97, P3 3.91 MFLOP. */
Test(net_program, flops_count_no_padding_and_nothing_that_pooling_left_zero)
{
#define SWISH "conv1d: {filters: 64, kernel_size: 5, padding: same, activation: swish}, "
    static const struct {
        const char *model;
        bool letters;
        int64_t rows, channels;
        double flops;
    } nets[] = {
        {"[conv1d: {filters: 24, kernel_size: 9, activation: relu}, max_pooling1d: {pool_size: 4}, flatten, "
         "dense: {units: 20, activation: relu}, dense: {units: 2, activation: softmax}]",
         false, 104, 1, 2.0 * 96 * 9 * 24 + 2.0 * 24 * 9 * 24 + 6.0 * 576 * 20 + 6.0 * 20 * 2},
        {"[" SWISH SWISH "flatten, dense: {units: 3, activation: softmax}]", true, 17, 21,
         3 * 2.0 * 79 * 64 * 64 + 2.0 * 79 * 64 + 6.0 * 17 * 64 * 3},
        {"[" SWISH SWISH SWISH "flatten, dense: {units: 3, activation: softmax}]", true, 17, 21,
         2 * 3 * 2.0 * 79 * 64 * 64 + 2.0 * 79 * 64 + 6.0 * 17 * 64 * 3},
        /* four windows from rows 0, 3, 6 and 9 of 11: the last one's third tap is padding */
        {"[conv1d: {filters: 5, kernel_size: 3, strides: 3, padding: same, activation: relu}, flatten, "
         "dense: "
         "{units: 2, activation: softmax}]",
         false, 11, 2, 2 * (2.0 * 11 * 2 * 5) + 3 * (2.0 * 20 * 2)},
    };
#undef SWISH
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        struct ts_network n;
        struct fm_net_input input = ts_net_input(nets[i].rows, nets[i].channels);
        const struct fm_train_config train = ts_net_train(
            nets[i].letters ? FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY : FM_LOSS_CATEGORICAL_CROSSENTROPY);
        input.letters = nets[i].letters;
        input.nclasses = nets[i].letters ? 3 : 2;
        cr_assert_eq(ts_network_init(&n, nets[i].model, &input, &train), 0, "%s", n.error.text);
        cr_expect_eq(fm_program_flops(n.program, true), nets[i].flops, "%s: %.1f, not %.1f", nets[i].model,
                     fm_program_flops(n.program, true), nets[i].flops);
        ts_network_fini(&n);
    }
}

Test(net_program, listing_names_everything)
{
    struct ts_network n;
    struct fm_text text = {0};
    build(&n,
          "[{conv1d: {filters: 6, kernel_size: 3, activation: swish}}, {dropout: {rate: 0.5}}, "
          "max_pooling1d" END,
          true);
    fm_program_print(n.program, &text);
    cr_assert_not(text.failed);
    static const char *const words[] = {"model[0].conv1d (16 x 4) -> (14 x 6), 78 parameters",
                                        "conv1d/kernel [3, 4, 6]",
                                        "gather -> t0",
                                        "letters",
                                        "swish stored",
                                        "dropout_grad",
                                        "[layer_act 0]",
                                        "optimizer",
                                        "evaluate",
                                        "scores",
                                        "max 2 stride 2 pad 0+0",
                                        "overwrite"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        cr_expect(strstr(text.data, words[i]), "no '%s' in\n%s", words[i], text.data);
    fm_text_fini(&text);
    ts_network_fini(&n);
}

Test(net_program, every_layer_is_in_the_help)
{
    static const char *const names[] = {
        "conv1d",  "max_pooling1d", "average_pooling1d", "global_max_pooling1d",
        "flatten", "dense",         "dropout",           "spatial_dropout1d",
        "mish",    "swish",         "hard_sigmoid",      "batch_normalization",
        "repeat",  "choose",        "embedding",         "layer_normalization"};
    struct fm_text text = {0};
    for (const struct fm_key_section *s = fm_layer_sections(); s->title; s++) fm_keys_print(s, &text);
    cr_assert_not(text.failed);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_expect(strstr(text.data, names[i]), "%s", names[i]);
    cr_expect(strstr(text.data, "kernel_size"));
    cr_expect(strstr(text.data, "glorot_uniform"));
    fm_text_fini(&text);
}

Test(net_program, every_failed_allocation_is_reported)
{
    static const char model[] =
        "[{repeat: {times: 2, layers: [{conv1d: {filters: 4, kernel_size: 3, activation: swish, "
        "kernel_regularizer: "
        "l2}}, batch_normalization, {dropout: {rate: 0.5}}]}}, {choose: {by: a, options: {a: [max_pooling1d, "
        "layer_normalization]}}}" END;
    struct ts_network whole;
    build(&whole, model, false);
    struct fm_net_input input = ts_net_input(16, 4);
    struct fm_train_config train = ts_net_train(FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY);
    train.loss.where = whole.document.root;
    long number = 1;
    for (;; number++) {
        struct fm_program *program;
        struct fm_error err = {0};
        ts_fail_allocation(number, false);
        int rc = fm_program_compile(&program, whole.document.root, &train, &input, NULL, &err);
        long asked = ts_allocations();
        ts_fail_allocation(0, false);
        if (asked < number) {
            cr_expect_eq(rc, 0);
            cr_expect_eq(program->hash, whole.program->hash);
            fm_program_free(program);
            break;
        }
        cr_assert_eq(rc, FM_ENOMEM, "allocation %ld: %d %s", number, rc, err.text);
        cr_assert_null(program);
    }
    cr_expect_gt(number, 50);
    ts_network_fini(&whole);
}
