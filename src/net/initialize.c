/* Drawing initial values. */
#include "net/initialize.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"

/* One number in twenty-two lies outside two deviations: 64 pairs in a row never happen. */
#define ATTEMPTS 64

static void draw_bits(int variable, int64_t element, uint32_t attempt, uint64_t key, uint32_t bits[4])
{
    uint32_t counter[4] = {(uint32_t)variable, (uint32_t)element, (uint32_t)((uint64_t)element >> 32),
                           attempt};
    fm_philox(counter, key, bits);
}

static double draw_normal(int variable, int64_t element, uint64_t key)
{
    uint32_t bits[4];
    double two[2];
    draw_bits(variable, element, 0, key, bits);
    fm_normal(bits, two);
    return two[0];
}

static double draw_truncated(int variable, int64_t element, uint64_t key)
{
    for (uint32_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        uint32_t bits[4];
        double two[2];
        draw_bits(variable, element, attempt, key, bits);
        fm_normal(bits, two);
        if (fabs(two[0]) <= 2) return two[0];
        if (fabs(two[1]) <= 2) return two[1];
    }
    return 0;
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

void fm_orthonormalize(double *q, int64_t count, int64_t length)
{
    for (int64_t j = 0; j < count; j++) {
        double *x = q + j * length;
        /* The second pass takes away what rounding left of the earlier vectors. */
        for (int pass = 0; pass < 2; pass++)
            for (int64_t i = 0; i < j; i++) {
                const double *y = q + i * length;
                double share = dot(x, y, length);
                for (int64_t r = 0; r < length; r++) x[r] -= share * y[r];
            }
        double norm = sqrt(dot(x, x, length));
        for (int64_t r = 0; r < length; r++) x[r] = norm > 0 ? x[r] / norm : 0;
    }
}

static int draw_orthogonal(const struct fm_variable *v, int index, uint64_t key, float *values,
                           struct fm_error *err)
{
    int64_t columns = v->shape[v->rank - 1], rows = v->count / columns;
    int64_t many = rows > columns ? rows : columns, few = rows > columns ? columns : rows;
    /* The columns of the drawn matrix [many][few], each in one piece. */
    double *q = fm_malloc((size_t)v->count, sizeof *q);
    if (!q) return fm_fail_memory(err);
    for (int64_t e = 0; e < v->count; e++) q[e % few * many + e / few] = draw_normal(index, e, key);
    fm_orthonormalize(q, few, many);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            values[r * columns + c] = (float)(v->a * (rows < columns ? q[r * many + c] : q[c * many + r]));
    fm_free(q);
    return 0;
}

/* The common case, drawn by rows: in short runs most of what a lane's opening takes is this. */
static void draw_uniform(const struct fm_variable *v, int index, uint64_t key, float *values)
{
    uint32_t bits[4][FM_PHILOX_ROW];
    const double a = v->a, spread = v->b - v->a;
    for (int64_t first = 0; first < v->count; first += FM_PHILOX_ROW) {
        const uint32_t counter[4] = {(uint32_t)index, (uint32_t)first, (uint32_t)((uint64_t)first >> 32), 0};
        const int n = v->count - first < FM_PHILOX_ROW ? (int)(v->count - first) : FM_PHILOX_ROW;
        fm_philox_row(counter, key, n, bits);
        for (int i = 0; i < n; i++)
            values[first + i] = (float)(a + spread * fm_uniform_double(bits[0][i], bits[1][i]));
    }
}

int fm_variable_draw(const struct fm_variable *v, int index, uint64_t key, float *values,
                     struct fm_error *err)
{
    if (v->initializer == FM_INIT_ORTHOGONAL) return draw_orthogonal(v, index, key, values, err);
    if (v->initializer == FM_INIT_UNIFORM) return draw_uniform(v, index, key, values), 0;
    for (int64_t e = 0; e < v->count; e++) {
        double value = 0;
        switch (v->initializer) {
        case FM_INIT_ONES: value = 1; break;
        case FM_INIT_CONSTANT: value = v->a; break;
        case FM_INIT_NORMAL: value = v->a + v->b * draw_normal(index, e, key); break;
        case FM_INIT_TRUNCATED_NORMAL: value = v->a + v->b * draw_truncated(index, e, key); break;
        default: break;
        }
        values[e] = (float)value;
    }
    return 0;
}

int fm_program_initialize(const struct fm_program *program, uint64_t key, float *parameters,
                          struct fm_error *err)
{
    for (int i = 0; i < program->nvariables; i++) {
        const struct fm_variable *v = &program->variables[i];
        int rc = fm_variable_draw(v, i, key, parameters + v->offset, err);
        if (rc) return rc;
    }
    return 0;
}
