/* The reference engine: every operation of a program as plain loops over the whole batch.
 *
 * It is the oracle of the fast engines, so it is written to be read. It exists twice from one source: in
 * float (fm_backend_reference, `--device reference`) and in double (fm_backend_reference64, for finite
 * differences). What depends on the type of a number stands in the .inc files, which single.c and double.c
 * compile with `real` defined. Devices, threads, lanes and requests are the host's (engine/host/host.h).
 *
 * Bits: every sum has one order - products in ascending input, examples in batch order, norms and losses in
 * double - so results depend on program, data, keys and batch size only, never on threads, lanes or how
 * requests were cut.
 *
 * A state is reals [float_count] of parameters, reals [slots][float_count] of the optimizer and the tail. A
 * blob is a state; in double it is preceded by the portable parameters in float (which are the state's own
 * beginning otherwise).
 */
#ifndef FM_ENGINE_REFERENCE_H
#define FM_ENGINE_REFERENCE_H

#include "engine/host/host.h"

extern const struct fm_backend fm_backend_reference;
extern const struct fm_backend fm_backend_reference64;

/* Examples are evaluated so many at a time; each on its own, so the number changes no bit. */
#define FM_EVALUATE_CHUNK 128

/* Behind lane->engine. */
struct fm_loops {
    size_t size;         /* of one number: a float or a double */
    void **tensor;       /* [ntensors]; parameters point into the lane's state */
    void *scratch;       /* what one operation needs beside its tensors */
    unsigned char *keep; /* one example's dropout mask */
};

static inline struct fm_loops *fm_loops(const struct fm_lane *lane)
{
    return lane->engine;
}

/* layout.c: sizes, in bytes; `real` is the size of one number. */
bool fm_loops_measure(struct fm_host_layout *layout, const struct fm_program *program, int64_t batch,
                      size_t real, char *why, size_t why_size);
int64_t fm_loops_tensor_bytes(const struct fm_program *program, int tensor, int64_t batch, size_t real);
/* The widest need of one operation: a transposed kernel, sums per channel in double, or the winners of one
 * window; false when it is larger than any memory. */
bool fm_loops_scratch_bytes(const struct fm_program *program, size_t real, int64_t *bytes);
/* One dropout mask: the elements of the largest tensor that is dropped. */
int64_t fm_loops_keep_bytes(const struct fm_program *program);
/* Offset of the state in a blob: 0, or room for the floats. */
int64_t fm_loops_portable_bytes(const struct fm_program *program, size_t real);

/* lane.c */
int fm_loops_open(struct fm_lane *lane, size_t real, struct fm_error *err);
void fm_loops_close(struct fm_lane *lane);

#endif
