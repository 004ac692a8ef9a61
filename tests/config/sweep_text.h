/* A small sweep file in sections, so that a test changes one and knows on which line it stands. */
#ifndef FM_TESTS_SWEEP_TEXT_H
#define FM_TESTS_SWEEP_TEXT_H

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "config/sweep.h"

/* Lines 1 to 4 and 5 on; NULL takes the default section. */
struct ts_sections {
    const char *data, *cv, *model, *train, *rest;
};

static inline int ts_parse_sections(struct fm_sweep *sweep, const struct ts_sections *s,
                                    struct fm_notes *notes, struct fm_error *err)
{
    char text[8192];
    int size = snprintf(
        text, sizeof text, "data: %s\ncv: %s\nmodel: %s\ntrain: %s\n%s",
        s->data ? s->data : "{source: csv, path: a.csv, features: [x], target: y, window: {length: 1}}",
        s->cv ? s->cv : "{split: kfold}", s->model ? s->model : "[flatten, {dense: {units: 1}}]",
        s->train ? s->train : "{loss: mse}", s->rest ? s->rest : "");
    memset(err, 0, sizeof *err);
    return fm_sweep_parse(sweep, "folder/s.yaml", text, (size_t)size, NULL, 0, notes, err);
}

#endif
