/* What every backend must stand: the tests of the contract (engine/backend.h), for one backend each, so that
 * those of a backend that is no part of the library can run them too. They assert by Criterion. */
#ifndef FM_TESTS_BACKEND_CHECKS_H
#define FM_TESTS_BACKEND_CHECKS_H

#include "engine/backend.h"

/* test_lanes.c */
void ts_check_cuts(const struct fm_backend *backend);
void ts_check_between(const struct fm_backend *backend, int nets); /* of so many random networks */
void ts_check_all_beside(const struct fm_backend *backend, int rounds);
void ts_check_resume(const struct fm_backend *backend);
void ts_check_portable(const struct fm_backend *backend);
void ts_check_snapshots(const struct fm_backend *backend);
void ts_check_cancel(const struct fm_backend *backend);
void ts_check_closing(const struct fm_backend *backend);
void ts_check_allocations(const struct fm_backend *backend); /* of host memory, each failed in turn */

/* test_nan.c */
void ts_check_frozen(const struct fm_backend *backend, const char *policy, float bad);
void ts_check_skip(const struct fm_backend *backend);
void ts_check_keras(const struct fm_backend *backend);
void ts_check_clipvalue(const struct fm_backend *backend);
void ts_check_huge_rate(const struct fm_backend *backend);
void ts_check_equal_numbers(const struct fm_backend *backend, float number);

/* test_evaluate.c */
void ts_check_classes(const struct fm_backend *backend, int64_t k, const char *loss);
void ts_check_ties(const struct fm_backend *backend);
void ts_check_numbers(const struct fm_backend *backend);
void ts_check_a13(const struct fm_backend *backend);

/* test_training.c: Keras's own numbers, 20 steps of whole networks, the reference networks among them */
void ts_check_training(const struct fm_backend *backend, const struct fm_device_options *options);

/* test_cpu_engine.c: random programs beside the reference executor, from this seed on. guards_whole, if not
 * NULL, says of an idle lane whether nothing was written beside its tensors. */
void ts_check_random_networks(const struct fm_backend *backend, const struct fm_device_options *options,
                              bool (*guards_whole)(struct fm_lane *lane), uint64_t first, int count);

#endif
