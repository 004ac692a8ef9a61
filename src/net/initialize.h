/* Initial values of variables: Keras's initialisers (semantics.md 1.8), drawn by key. Private to src/net.
 *
 * Element e of variable v is a function of (key, v, e) and of nothing else: counter = {v, e low, e high,
 * attempt}. So the first layers of two networks start alike, and trials that share seed, repeat and fold are
 * paired. uniform           a + (b - a) * u, u from the first 53 bits of attempt 0 normal            the
 * first number of fm_normal(attempt 0) truncated normal  numbers of fm_normal(attempt 0, 1, ...), the first
 * within two deviations orthogonal        element e of the normal matrix [max(r, c)][min(r, c)] as `normal`,
 * then Q of its QR factorisation with the diagonal of R positive, transposed where r < c; r = all dimensions
 * but the last, c = the last
 */
#ifndef FM_NET_INITIALIZE_H
#define FM_NET_INITIALIZE_H

#include "net/builder.h"

/* Reads `node` (a name or {name: {arguments}}; NULL: `fallback`) into v->initializer, v->a and v->b by the
 * fans of v->shape: [in, out]; [k, C / groups, F] has fan_in = k * C / groups and fan_out = k * F; [n] has
 * both = n. */
int fm_initializer_read(struct fm_variable *v, const struct fm_node *node, const char *fallback,
                        const char *path, const char *argument, struct fm_error *err);
/* Refuses what cannot be drawn: orthogonal for one dimension, or so large that the factorisation takes
 * minutes. */
int fm_initializer_check(const struct fm_builder *b, const struct fm_variable *v, const char *argument,
                         struct fm_error *err);

/* Draws variable number `index` into `values` (count floats). */
int fm_variable_draw(const struct fm_variable *v, int index, uint64_t key, float *values,
                     struct fm_error *err);

/* Makes `count` vectors of `length` numbers, one after another in q, orthonormal in place by Gram-Schmidt
 * with every step done twice, count <= length: as columns of a matrix they equal Q of its QR factorisation
 * with positive diagonal. A vector that vanishes (none that was drawn does) is left zero. */
void fm_orthonormalize(double *q, int64_t count, int64_t length);

/* Tables for help (layers.c lists them). */
extern const struct fm_key fm_scaled_keys[], fm_constant_keys[], fm_normal_keys[], fm_uniform_keys[],
    fm_variance_scaling_keys[], fm_orthogonal_keys[];

#endif
