/* Initialisers as the user writes them: names, arguments, fans. */
#include "net/initialize.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"

/* The deviation of a standard normal number that was cut at two deviations, as Keras writes it. */
#define CUT_DEVIATION 0.87962566103423978
/* Multiply-adds of the largest orthogonal kernel: some ten seconds. */
#define ORTHOGONAL_WORK 1e10

struct initializer_arguments {
    double value, mean, stddev, minval, maxval, scale, gain;
    int mode, distribution;
};

#define ARGUMENT(member) offsetof(struct initializer_arguments, member)
#define ANY_NUMBER       -1e300, 1e300
#define SEED_LATER                                                                                           \
    {                                                                                                        \
        "seed", FM_KEY_NODE, 0, 0, 0, NULL, NULL, FM_LATER, "an own seed; weights are drawn from train.seed" \
    }

enum { MODE_FAN_IN, MODE_FAN_OUT, MODE_FAN_AVG };
enum { DISTRIBUTION_TRUNCATED, DISTRIBUTION_UNTRUNCATED, DISTRIBUTION_UNIFORM };
static const char *const modes[] = {"fan_in", "fan_out", "fan_avg", NULL};
static const char *const distributions[] = {"truncated_normal", "untruncated_normal", "uniform", NULL};

static const struct fm_key no_keys[] = {{0}};
const struct fm_key fm_scaled_keys[] = {SEED_LATER, {0}};
const struct fm_key fm_constant_keys[] = {
    {"value", FM_KEY_NUMBER, ARGUMENT(value), ANY_NUMBER, NULL, "0.0", 0, "every element"}, {0}};
const struct fm_key fm_normal_keys[] = {
    {"mean", FM_KEY_NUMBER, ARGUMENT(mean), ANY_NUMBER, NULL, "0.0", 0, "mean"},
    {"stddev", FM_KEY_NUMBER, ARGUMENT(stddev), 0, 1e300, NULL, "0.05", 0, "standard deviation"},
    SEED_LATER,
    {0}};
const struct fm_key fm_uniform_keys[] = {
    {"minval", FM_KEY_NUMBER, ARGUMENT(minval), ANY_NUMBER, NULL, "-0.05", 0, "lower end"},
    {"maxval", FM_KEY_NUMBER, ARGUMENT(maxval), ANY_NUMBER, NULL, "0.05", 0, "upper end"},
    SEED_LATER,
    {0}};
const struct fm_key fm_variance_scaling_keys[] = {
    {"scale", FM_KEY_NUMBER, ARGUMENT(scale), 0, 1e300, NULL, "1.0", FM_OPEN_MIN, "variance times the fan"},
    {"mode", FM_KEY_CHOICE, ARGUMENT(mode), 0, 0, modes, "fan_in", 0, "which fan divides the variance"},
    {"distribution", FM_KEY_CHOICE, ARGUMENT(distribution), 0, 0, distributions, "truncated_normal", 0,
     "what is drawn"},
    SEED_LATER,
    {0}};
const struct fm_key fm_orthogonal_keys[] = {
    {"gain", FM_KEY_NUMBER, ARGUMENT(gain), ANY_NUMBER, NULL, "1.0", 0, "factor of the orthonormal matrix"},
    SEED_LATER,
    {0}};

enum kind { ZEROS, ONES, CONSTANT, NORMAL, UNIFORM, TRUNCATED, SCALING, ORTHOGONAL };

/* The variance scalers of a fixed scale are rows of their own. */
static const struct {
    const char *name;
    enum kind kind;
    const struct fm_key *keys;
    double scale;
    int mode, distribution;
} initializers[] = {
    {"zeros", ZEROS, no_keys, 0, 0, 0},
    {"ones", ONES, no_keys, 0, 0, 0},
    {"constant", CONSTANT, fm_constant_keys, 0, 0, 0},
    {"random_normal", NORMAL, fm_normal_keys, 0, 0, 0},
    {"random_uniform", UNIFORM, fm_uniform_keys, 0, 0, 0},
    {"truncated_normal", TRUNCATED, fm_normal_keys, 0, 0, 0},
    {"variance_scaling", SCALING, fm_variance_scaling_keys, 0, 0, 0},
    {"glorot_uniform", SCALING, fm_scaled_keys, 1, MODE_FAN_AVG, DISTRIBUTION_UNIFORM},
    {"glorot_normal", SCALING, fm_scaled_keys, 1, MODE_FAN_AVG, DISTRIBUTION_TRUNCATED},
    {"he_uniform", SCALING, fm_scaled_keys, 2, MODE_FAN_IN, DISTRIBUTION_UNIFORM},
    {"he_normal", SCALING, fm_scaled_keys, 2, MODE_FAN_IN, DISTRIBUTION_TRUNCATED},
    {"lecun_uniform", SCALING, fm_scaled_keys, 1, MODE_FAN_IN, DISTRIBUTION_UNIFORM},
    {"lecun_normal", SCALING, fm_scaled_keys, 1, MODE_FAN_IN, DISTRIBUTION_TRUNCATED},
    {"orthogonal", ORTHOGONAL, fm_orthogonal_keys, 0, 0, 0},
};
#define INITIALIZERS (sizeof initializers / sizeof initializers[0])

static void fans(const struct fm_variable *v, double *in, double *out)
{
    const int64_t *s = v->shape;
    if (v->rank == 1) {
        *in = *out = (double)s[0];
    } else if (v->rank == 2) {
        *in = (double)s[0];
        *out = (double)s[1];
    } else {
        *in = (double)s[0] * (double)s[1];
        *out = (double)s[0] * (double)s[2];
    }
}

static void scale_variance(struct fm_variable *v, double scale, int mode, int distribution)
{
    double in, out;
    fans(v, &in, &out);
    double fan = mode == MODE_FAN_IN ? in : mode == MODE_FAN_OUT ? out : (in + out) / 2;
    double variance = scale / fmax(1, fan);
    if (distribution == DISTRIBUTION_UNIFORM) {
        v->initializer = FM_INIT_UNIFORM;
        v->b = sqrt(3 * variance);
        v->a = -v->b;
    } else {
        v->initializer = distribution == DISTRIBUTION_TRUNCATED ? FM_INIT_TRUNCATED_NORMAL : FM_INIT_NORMAL;
        v->a = 0;
        v->b = sqrt(variance) / (distribution == DISTRIBUTION_TRUNCATED ? CUT_DEVIATION : 1);
    }
}

static void set(struct fm_variable *v, enum fm_initializer initializer, double a, double b)
{
    v->initializer = initializer;
    v->a = a;
    v->b = b;
}

static void apply(struct fm_variable *v, size_t i, const struct initializer_arguments *x)
{
    switch (initializers[i].kind) {
    case ZEROS: set(v, FM_INIT_ZEROS, 0, 0); break;
    case ONES: set(v, FM_INIT_ONES, 0, 0); break;
    case CONSTANT: set(v, FM_INIT_CONSTANT, x->value, 0); break;
    case NORMAL: set(v, FM_INIT_NORMAL, x->mean, x->stddev); break;
    case UNIFORM: set(v, FM_INIT_UNIFORM, x->minval, x->maxval); break;
    case TRUNCATED: set(v, FM_INIT_TRUNCATED_NORMAL, x->mean, x->stddev); break;
    case ORTHOGONAL: set(v, FM_INIT_ORTHOGONAL, x->gain, 0); break;
    case SCALING:
        if (initializers[i].scale > 0)
            scale_variance(v, initializers[i].scale, initializers[i].mode, initializers[i].distribution);
        else
            scale_variance(v, x->scale, x->mode, x->distribution);
        break;
    }
}

static int unknown(const struct fm_node *name, const char *where, struct fm_error *err)
{
    const char *names[INITIALIZERS];
    char shown[64];
    for (size_t i = 0; i < INITIALIZERS; i++) names[i] = initializers[i].name;
    const char *near = fm_nearest(name->text, names, INITIALIZERS);
    fm_show(name->text, name->size, shown, sizeof shown);
    if (near)
        return fm_node_fail(name, FM_EFILE, err, "%s: no initializer is called '%s'; did you mean %s?", where,
                            shown, near);
    return fm_node_fail(name, FM_EFILE, err,
                        "%s: no initializer is called '%s'; glorot_uniform, he_normal and zeros are some",
                        where, shown);
}

int fm_initializer_read(struct fm_variable *v, const struct fm_node *node, const char *fallback,
                        const char *path, const char *argument, struct fm_error *err)
{
    struct initializer_arguments x = {0};
    struct fm_text where = {0};
    const struct fm_node *name = NULL, *arguments = NULL;
    fm_text_add(&where, "%s.%s", path, argument);
    if (where.failed) return fm_fail_memory(err);
    if (node && fm_node_type(node) == FM_NULL) node = NULL;
    int rc = node ? fm_named_read(node, where.data, &name, &arguments, err) : 0;
    const char *wanted = name ? name->text : fallback;
    size_t i = 0;
    while (i < INITIALIZERS && strcmp(initializers[i].name, wanted) != 0) i++;
    if (!rc && i == INITIALIZERS)
        rc = name ? unknown(name, where.data, err)
                  : fm_fail(err, FM_EINTERNAL, "no initializer is called %s", fallback);
    if (!rc) rc = fm_keys_read(initializers[i].keys, arguments, name, where.data, &x, NULL, NULL, err);
    if (!rc && initializers[i].kind == UNIFORM && x.minval > x.maxval)
        rc = fm_node_fail(name, FM_EFILE, err, "%s: minval must not be above maxval", where.data);
    if (!rc) apply(v, i, &x);
    fm_text_fini(&where);
    return rc;
}

int fm_initializer_check(const struct fm_builder *b, const struct fm_variable *v, const char *argument,
                         struct fm_error *err)
{
    if (v->initializer != FM_INIT_ORTHOGONAL) return 0;
    if (v->rank < 2)
        return fm_builder_fail(b, FM_EFILE, err, "%s: orthogonal needs two dimensions; use zeros or ones",
                               argument);
    double columns = (double)v->shape[v->rank - 1];
    double rows = (double)v->count / columns;
    double work = (double)v->count * fmin(rows, columns);
    if (work <= ORTHOGONAL_WORK) return 0;
    return fm_builder_fail(
        b, FM_ESHAPE, err,
        "%s: a matrix of %.0f x %.0f is too large to be made orthogonal; use glorot_uniform", argument, rows,
        columns);
}
