/* Random byte edits of the contract's two sweep files: reading them and drawing five trials never crashes,
 * and ends in success or in an error that says where. The seed is fixed, so a failure repeats. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "search/trials.h"
#include "support/support.h"

#define EDITS 6000

static uint64_t state;

static uint32_t next(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % below);
}

/* One to four edits: a byte changed, taken out, doubled, or a piece of the file copied elsewhere. */
static size_t edit(char *text, size_t size, size_t room)
{
    static const char bytes[] = "{}[]:,-#&*!|>'\"%@`?~$ \n\t01.eE+abz_\\\r\x80\xC3";
    for (uint32_t n = 1 + next(4); n && size; n--) {
        size_t at = next((uint32_t)size), from = next((uint32_t)size), length = 1 + next(40);
        switch (next(4)) {
        case 0: text[at] = bytes[next(sizeof bytes - 1)]; break;
        case 1: memmove(text + at, text + at + 1, --size - at); break;
        case 2:
            if (size == room) break;
            memmove(text + at + 1, text + at, size++ - at);
            text[at] = bytes[next(sizeof bytes - 1)];
            break;
        default:
            if (from + length > size || at + length > size) break;
            memmove(text + at, text + from, length);
        }
    }
    return size;
}

static int read_all(const char *text, size_t size, struct fm_error *err)
{
    struct fm_sweep sweep;
    struct fm_search *search = NULL;
    struct fm_notes notes = {0};
    int code = fm_sweep_parse(&sweep, "m.yaml", text, size, NULL, 0, &notes, err);
    if (!code) {
        code = fm_search_new(&search, &sweep, &notes, err);
        for (int i = 0; i < 5 && code >= 0 && search; i++) {
            struct fm_trial trial;
            struct fm_train_config train;
            code = fm_search_next(search, &trial, err);
            if (code != 1) break;
            code = fm_train_read(&train, trial.train, sweep.cv.has_inner, &notes, err);
            fm_trial_fini(&trial);
        }
        fm_search_free(search);
        fm_sweep_fini(&sweep);
    }
    fm_notes_fini(&notes);
    return code;
}

Test(mutation, of_the_contracts_sweeps, .timeout = 60)
{
    size_t size;
    char path[256];
    if (!ts_shared()) cr_skip("../shared is absent");
    char *contract = ts_read_file(ts_join(path, sizeof path, ts_shared(), "sweep-file.md"), &size);
    if (!contract) cr_skip("../shared/sweep-file.md is absent");
    int refused = 0;
    char *at = contract;
    for (int file = 0; file < 2; file++) {
        char *start = strstr(at, "```yaml\n") + 8, *end = strstr(start, "```");
        size_t length = (size_t)(end - start);
        state = (uint64_t)file + 1;
        for (int i = 0; i < EDITS / 2; i++) {
            char text[8192];
            struct fm_error err = {0};
            memcpy(text, start, length);
            size_t now = edit(text, length, sizeof text);
            int code = read_all(text, now, &err);
            if (code >= 0) continue;
            refused++;
            cr_assert(code == FM_EFILE || code == FM_ELATER, "file %d, edit %d: code %d, %s", file, i, code,
                      err.text);
            cr_assert(err.line > 0 && err.column > 0 && err.text[0], "file %d, edit %d: no place for '%s'",
                      file, i, err.text);
        }
        at = end;
    }
    /* Most edits break something; a reader that let them pass would be broken itself. */
    cr_expect(refused > EDITS / 2 && refused < EDITS, "%d", refused);
    free(contract);
}
