/* What binds a journal to a kind of device: the class of the numbers of what was begun, and the choices of
 * the plans. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "sweep/journal_private.h"

/* Runs that began on a GPU of another kind and are not over. One that was let go on elsewhere before says so.
 */
#define ELSEWHERE "status = 'running' AND numbers LIKE 'cuda%' AND numbers <> ?1 AND began_on IS NOT numbers"

int fm_journal_device(struct fm_journal *journal, const char *numbers, bool accept, struct fm_error *err)
{
    sqlite3_stmt *row = NULL;
    char other[192] = "";
    int64_t runs = 0;
    int rc = fm_sql_query(&journal->sql, &row, "SELECT count(*), min(numbers) FROM run WHERE " ELSEWHERE, err,
                          "t", numbers);
    if (!rc) rc = fm_sql_step(&journal->sql, row, err);
    if (rc < 0) return rc;
    runs = sqlite3_column_int64(row, 0);
    const char *text = (const char *)sqlite3_column_text(row, 1);
    snprintf(other, sizeof other, "%s", text ? text : "");
    sqlite3_reset(row);
    if (!runs) return 0;
    if (!accept)
        return fm_fail(err, FM_EUSAGE,
                       "%lld run%s of %s began on %s, and this device is %s: go on there, or let what began "
                       "there start over here with --accept-other-device",
                       (long long)runs, runs == 1 ? "" : "s", journal->path, other, numbers);
    rc = fm_journal_group(journal, err);
    return rc ? rc
              : fm_sql_run(&journal->sql, "UPDATE run SET began_on = numbers WHERE " ELSEWHERE, err, "t",
                           numbers);
}

/* 1 and the text, which the caller frees, 0 when nothing is on record. */
static int recorded_choices(struct fm_journal *journal, const char *numbers, const char *network,
                            int64_t batch, struct fm_text *choices, struct fm_error *err)
{
    sqlite3_stmt *row = NULL;
    int rc = fm_sql_query(&journal->sql, &row,
                          "SELECT choices FROM plan WHERE numbers = ? AND network = ? AND batch = ?", err,
                          "tti", numbers, network, batch);
    if (!rc) rc = fm_sql_step(&journal->sql, row, err);
    if (rc <= 0) return rc;
    const char *text = (const char *)sqlite3_column_text(row, 0);
    fm_text_add_string(choices, text ? text : "");
    sqlite3_reset(row);
    return choices->failed ? fm_fail_memory(err) : 1;
}

static int record_choices(struct fm_journal *journal, const char *numbers, const char *network, int64_t batch,
                          const char *choices, struct fm_error *err)
{
    int rc = fm_journal_group(journal, err);
    return rc ? rc
              : fm_sql_run(&journal->sql, "INSERT OR REPLACE INTO plan VALUES(?,?,?,?)", err, "ttit", numbers,
                           network, batch, choices);
}

/* Choices on record that the device understands are used; 0, 1 when there are none. */
static int use_recorded(struct fm_journal *journal, struct fm_notes *notes, const struct fm_backend *backend,
                        struct fm_device *device, const struct fm_program *program, int64_t batch,
                        const char *network, struct fm_error *err)
{
    struct fm_text choices = {0};
    struct fm_error own = {0};
    int rc = recorded_choices(journal, backend->numbers(device), network, batch, &choices, err);
    if (rc > 0) {
        rc = backend->plan_use(device, program, batch, choices.data ? choices.data : "", &own);
        if (rc == FM_EFILE)
            fm_note(
                notes, FM_WARNING,
                "the choices on record for network %s at batch %lld are no use here (%s): what began with "
                "them starts over",
                network, (long long)batch, own.text);
        else if (rc && err && !err->code)
            *err = own;
        rc = rc == FM_EFILE ? 1 : rc;
    } else if (!rc) {
        rc = 1;
    }
    fm_text_fini(&choices);
    return rc;
}

static int settle(struct fm_journal *journal, struct fm_notes *notes, const struct fm_backend *backend,
                  struct fm_device *device, const struct fm_program *program, int64_t batch,
                  struct fm_error *err)
{
    char network[17];
    struct fm_text choices = {0};
    fm_network_name(program, network);
    int rc = use_recorded(journal, notes, backend, device, program, batch, network, err);
    if (rc <= 0) return rc;
    rc = backend->plan_choices(device, program, batch, &choices, err);
    if (!rc && choices.failed) rc = fm_fail_memory(err);
    /* That there is nothing to choose is a choice too. */
    if (!rc)
        rc = record_choices(journal, backend->numbers(device), network, batch,
                            choices.data ? choices.data : "", err);
    fm_text_fini(&choices);
    return rc;
}

static int by_plan(const void *a, const void *b)
{
    const struct fm_planned *x = *(struct fm_planned *const *)a, *y = *(struct fm_planned *const *)b;
    if (x->network != y->network) return x->network < y->network ? -1 : 1;
    return x->config.batch_size < y->config.batch_size ? -1 : x->config.batch_size > y->config.batch_size;
}

int fm_journal_plans(struct fm_journal *journal, struct fm_prepared *p, const struct fm_backend *backend,
                     struct fm_device *device, struct fm_error *err)
{
    if (!backend->plan_choices || !backend->plan_use || !p->ntrials) return 0;
    struct fm_planned **order = fm_malloc((size_t)p->ntrials, sizeof *order);
    if (!order) return fm_fail_memory(err);
    size_t n = 0;
    int rc = 0;
    for (int64_t t = 0; t < p->ntrials; t++)
        if (p->trials[t].network >= 0) order[n++] = &p->trials[t];
    if (n) qsort(order, n, sizeof *order, by_plan);
    for (size_t i = 0; !rc && i < n; i++) {
        struct fm_planned *trial = order[i];
        const struct fm_planned *twin = i && !by_plan(&order[i - 1], &order[i]) ? order[i - 1] : NULL;
        const struct fm_program *program = p->networks[trial->network].program;
        const int64_t batch = trial->config.batch_size;
        if (!twin) rc = settle(journal, &p->notes, backend, device, program, batch, err);
        if (rc) break;
        trial->plan_hash = twin ? twin->plan_hash : backend->plan_hash(device, program, batch);
        trial->bytes = twin ? twin->bytes : backend->cost(device, program, batch);
    }
    fm_free(order);
    return rc;
}
