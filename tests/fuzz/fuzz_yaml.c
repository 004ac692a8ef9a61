/* libFuzzer: any bytes as a sweep file, with the first five trials of its search. */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "search/trials.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void draw(struct fm_sweep *sweep, struct fm_notes *notes, struct fm_error *err)
{
    struct fm_search *search;
    struct fm_trial trial;
    struct fm_train_config train;
    if (fm_search_new(&search, sweep, notes, err)) return;
    for (int i = 0; i < 5 && fm_search_next(search, &trial, err) == 1; i++) {
        (void)fm_train_read(&train, trial.train, sweep->cv.has_inner, notes, err);
        if (i % 2) fm_search_reject(search);
        fm_trial_fini(&trial);
    }
    fm_search_free(search);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fm_sweep sweep;
    struct fm_notes notes = {0};
    struct fm_error err = {0};
    int code = fm_sweep_parse(&sweep, "fuzz.yaml", (const char *)bytes, size, NULL, 0, &notes, &err);
    if (code == 0) {
        draw(&sweep, &notes, &err);
        fm_sweep_fini(&sweep);
    } else if (!err.text[0] || (err.line == 0 && size <= 1024 * 1024)) {
        __builtin_trap(); /* an error that does not say where */
    }
    fm_notes_fini(&notes);
    return 0;
}
