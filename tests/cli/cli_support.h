/* Small sweeps and shortcuts for tests that run the built program. */
#ifndef FM_TESTS_CLI_SUPPORT_H
#define FM_TESTS_CLI_SUPPORT_H

#include <stdio.h>
#include <string.h>

#include "support/support.h"

/* Two trials on three blocked folds of a small made-up series: 6 runs, well under a second. */
static const char quick_sweep[] = "name: quick\n"
                                  "data: {source: sine, samples: 1200, anomalies: 40, height: 3, window: "
                                  "{length: 8, edge: wrap, label: any}}\n"
                                  "cv: {split: blocked, folds: 3}\n"
                                  "model: [conv1d: {filters: 2, kernel_size: 3, activation: relu}, flatten, "
                                  "dense: {units: 2, activation: softmax}]\n"
                                  "train: {loss: categorical_crossentropy, batch_size: 64, epochs: 2, "
                                  "optimizer: {adam: {learning_rate: \"${lr}\"}}}\n"
                                  "metric: {name: val_auc}\n"
                                  "method: grid\n"
                                  "parameters: {lr: {values: [1e-2, 1e-3]}}\n";

struct cli {
    char folder[64], file[128], journal[128];
    struct ts_result result;
};

static inline bool cli_begin(struct cli *c, const char *sweep)
{
    memset(c, 0, sizeof *c);
    if (!ts_temporary(c->folder, sizeof c->folder)) return false;
    ts_join(c->file, sizeof c->file, c->folder, "s.yaml");
    ts_join(c->journal, sizeof c->journal, c->folder, "s.db");
    return ts_write_file(c->file, sweep, strlen(sweep));
}

static inline void cli_end(struct cli *c)
{
    ts_result_fini(&c->result);
    ts_remove_tree(c->folder);
}

/* Runs the program with up to six arguments; NULL ends them. Gives the exit code, -1 when it did not end by
 * itself. */
static inline int cli_run(struct cli *c, const char *a, const char *b, const char *d, const char *e,
                          const char *f, const char *g)
{
    const char *const argv[] = {ts_program(), a, b, d, e, f, g, NULL};
    ts_result_fini(&c->result);
    memset(&c->result, 0, sizeof c->result);
    return ts_run(argv, NULL, 60, &c->result) ? c->result.exit_code : -1;
}

static inline bool cli_has(const char *text, const char *part)
{
    return text && strstr(text, part) != NULL;
}

#endif
