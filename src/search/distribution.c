/* Distributions: what is a valid one, its lattice, and draws from it (W&B's definitions). */
#include <float.h>
#include <math.h>

#include "base/error.h"
#include "base/random.h"
#include "search/space.h"

/* exp of more is no double. */
#define FM_MAX_EXPONENT 700.0

static bool is_lattice(enum fm_distribution d)
{
    return d == FM_INT_UNIFORM || d == FM_Q_UNIFORM || d == FM_Q_LOG_UNIFORM || d == FM_Q_LOG_UNIFORM_VALUES;
}

static int fail(const struct fm_parameter *p, struct fm_error *err, const char *text)
{
    return fm_node_fail(p->key, FM_EFILE, err, "parameters.%s: %s", p->name, text);
}

static int check_bounds(const struct fm_parameter *p, struct fm_error *err)
{
    if (p->min > p->max) return fail(p, err, "min is larger than max");
    switch (p->distribution) {
    case FM_LOG_UNIFORM:
    case FM_Q_LOG_UNIFORM:
        if (fabs(p->min) > FM_MAX_EXPONENT || fabs(p->max) > FM_MAX_EXPONENT) {
            return fail(p, err,
                        "min and max are exponents of e here, at most 700; log_uniform_values takes values");
        }
        return 0;
    case FM_LOG_UNIFORM_VALUES:
    case FM_Q_LOG_UNIFORM_VALUES:
    case FM_INV_LOG_UNIFORM_VALUES:
        return p->min > 0 ? 0
                          : fail(p, err, "min must be above 0, because values are drawn by their logarithm");
    default: return 0;
    }
}

static int check_spread(const struct fm_parameter *p, struct fm_error *err)
{
    if (!(p->sigma > 0)) return fail(p, err, "sigma must be above 0");
    bool exponent = p->distribution == FM_LOG_NORMAL || p->distribution == FM_Q_LOG_NORMAL;
    double limit = exponent ? FM_MAX_EXPONENT : 1e300;
    if (fabs(p->mu) + 10 * p->sigma > limit)
        return fail(p, err, "mu and sigma give numbers that are too large");
    return 0;
}

static int make_lattice(struct fm_parameter *p, struct fm_error *err)
{
    double last = p->max;
    p->first = p->min;
    if (p->distribution == FM_INT_UNIFORM) p->q = 1;
    if (p->distribution == FM_Q_LOG_UNIFORM) {
        last = exp(p->max);
        p->first = ceil(exp(p->min) / p->q) * p->q;
    }
    if (p->first > last) return fail(p, err, "no multiple of q lies between e^min and e^max");
    /* A step that rounding puts just above max is still meant. */
    double steps = floor((last - p->first) / p->q + 1e-9);
    if (!(steps < FM_KEY_MAX_INTEGER)) return fail(p, err, "q is too small for the distance from min to max");
    p->count = (int64_t)steps + 1;
    return 0;
}

int fm_distribution_check(struct fm_parameter *p, struct fm_error *err)
{
    bool bounded = p->distribution < FM_NORMAL;
    int code = bounded ? check_bounds(p, err) : check_spread(p, err);
    if (code) return code;
    if (!(p->q > 0)) return fail(p, err, "q must be above 0");
    return is_lattice(p->distribution) ? make_lattice(p, err) : 0;
}

/* ---- values ---- */

static void set_number(const struct fm_parameter *p, double value, struct fm_drawn *drawn)
{
    fm_format_number(value, drawn->text);
    size_t size = 0;
    while (drawn->text[size]) size++;
    drawn->node = (struct fm_node){.kind = FM_SCALAR,
                                   .plain = true,
                                   .file = p->key->file,
                                   .line = p->key->line,
                                   .column = p->key->column,
                                   .text = drawn->text,
                                   .size = size};
    drawn->value = &drawn->node;
}

/* The same number in at most 15 digits where that is what was meant: 3 * 0.1 is 0.3. */
static double tidy(double value)
{
    char text[48];
    double shorter;
    int size = snprintf(text, sizeof text, "%.15g", value);
    if (size <= 0 || !fm_parse_number(text, (size_t)size, &shorter)) return value;
    return fabs(shorter - value) <= 8 * DBL_EPSILON * fabs(value) ? shorter : value;
}

static double lattice_value(const struct fm_parameter *p, int64_t index)
{
    return tidy(p->first + (double)index * p->q);
}

void fm_parameter_at(const struct fm_parameter *p, int64_t index, struct fm_drawn *drawn)
{
    if (p->values)
        drawn->value = p->values[index];
    else
        set_number(p, lattice_value(p, index), drawn);
}

/* ---- draws ---- */

static double between(double low, double high, double u)
{
    double value = (1 - u) * low + u * high;
    return value < low ? low : value > high ? high : value;
}

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static int64_t draw_index(const struct fm_parameter *p, double u)
{
    if (!p->shares) {
        int64_t index = (int64_t)floor(u * (double)p->count);
        return index < p->count ? index : p->count - 1;
    }
    int64_t index = 0;
    while (index + 1 < p->count && u >= p->shares[index]) index++;
    return index;
}

static void draw_lattice(const struct fm_parameter *p, double value, struct fm_drawn *drawn)
{
    double steps = nearbyint((value - p->first) / p->q);
    set_number(p, lattice_value(p, (int64_t)clamp(steps, 0, (double)(p->count - 1))), drawn);
}

void fm_parameter_draw(const struct fm_parameter *p, int64_t seed, int64_t draw, uint32_t place,
                       struct fm_drawn *drawn)
{
    const uint32_t counter[4] = {(uint32_t)draw, (uint32_t)((uint64_t)draw >> 32), place, 0};
    uint32_t bits[4];
    double normal[2];
    fm_philox(counter, fm_key((uint64_t)seed, FM_PURPOSE_SEARCH, 0, 0), bits);
    double u = fm_uniform_double(bits[0], bits[1]);
    fm_normal(bits, normal);
    double z = p->mu + p->sigma * normal[0];
    switch (p->distribution) {
    case FM_CONSTANT:
    case FM_CATEGORICAL:
    case FM_LISTED: drawn->value = p->values[draw_index(p, u)]; break;
    case FM_INT_UNIFORM: set_number(p, lattice_value(p, draw_index(p, u)), drawn); break;
    case FM_UNIFORM: set_number(p, between(p->min, p->max, u), drawn); break;
    case FM_Q_UNIFORM: draw_lattice(p, between(p->min, p->max, u), drawn); break;
    case FM_LOG_UNIFORM: set_number(p, exp(between(p->min, p->max, u)), drawn); break;
    case FM_Q_LOG_UNIFORM: draw_lattice(p, exp(between(p->min, p->max, u)), drawn); break;
    case FM_LOG_UNIFORM_VALUES:
        set_number(p, clamp(exp(between(log(p->min), log(p->max), u)), p->min, p->max), drawn);
        break;
    case FM_Q_LOG_UNIFORM_VALUES: draw_lattice(p, exp(between(log(p->min), log(p->max), u)), drawn); break;
    case FM_INV_LOG_UNIFORM_VALUES:
        set_number(p, clamp(1 / exp(between(-log(p->max), -log(p->min), u)), p->min, p->max), drawn);
        break;
    case FM_NORMAL: set_number(p, z, drawn); break;
    case FM_Q_NORMAL: set_number(p, tidy(nearbyint(z / p->q) * p->q), drawn); break;
    case FM_LOG_NORMAL: set_number(p, exp(z), drawn); break;
    case FM_Q_LOG_NORMAL: set_number(p, tidy(nearbyint(exp(z) / p->q) * p->q), drawn); break;
    }
}
