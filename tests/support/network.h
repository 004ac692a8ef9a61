/* Networks for tests: a model as YAML text, compiled. */
#ifndef FM_TESTS_NETWORK_H
#define FM_TESTS_NETWORK_H

#include "base/error.h"
#include "base/log.h"
#include "net/layers.h"
#include "net/program.h"

struct ts_network {
    struct fm_document document;
    struct fm_program *program; /* NULL when it did not compile */
    struct fm_notes notes;
    struct fm_error error;
    int code;
};

/* Numbers of `rows` positions x `channels`, a target of two classes, as text. */
struct fm_net_input ts_net_input(int64_t rows, int64_t channels);
/* One optimizer with Keras's defaults (adam) and that loss. */
struct fm_train_config ts_net_train(enum fm_loss_kind loss);

/* Reads `model` (a YAML list) and compiles it; gives n->code. Call ts_network_fini in any case. */
int ts_network_init(struct ts_network *n, const char *model, const struct fm_net_input *input,
                    const struct fm_train_config *train);
void ts_network_fini(struct ts_network *n);

#endif
