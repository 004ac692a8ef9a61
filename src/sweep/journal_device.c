/* What binds a journal to a kind of device: the class of the numbers of what was begun, and the choices of
 * the plans. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "sweep/journal_private.h"

/* Runs of another kind of GPU that the device ?1 was not let go on beside. */
#define ELSEWHERE                                                                                            \
    "numbers LIKE 'cuda%' AND numbers <> ?1 AND (status = 'running' OR ?1 LIKE 'cuda%') AND numbers NOT IN " \
    "(SELECT other FROM accepted WHERE accepted.numbers = ?1)"

/* Whether a listed run is not over. Trials have no numbers yet. */
static int is_work_left(struct fm_journal *journal, const struct fm_prepared *p, bool *left,
                        struct fm_error *err)
{
    int rc = 0;
    *left = false;
    for (int64_t t = 0; !rc && !*left && t < p->ntrials; t++) {
        int64_t over = 0;
        if (p->trials[t].network < 0) continue;
        rc = fm_sql_integer(&journal->sql,
                            "SELECT count(*) FROM run JOIN trial USING(trial) WHERE key = ? AND status IN "
                            "('completed', 'failed')",
                            0, &over, err, "t", p->trials[t].trial.key);
        *left = !rc && over < fm_planned_runs(p, &p->trials[t]);
    }
    return rc;
}

static int accept_elsewhere(struct fm_journal *journal, const char *numbers, struct fm_error *err)
{
    return fm_sql_run(&journal->sql,
                      "INSERT INTO accepted SELECT DISTINCT ?1, numbers FROM run WHERE " ELSEWHERE, err, "t",
                      numbers);
}

int fm_journal_device(struct fm_journal *journal, const struct fm_prepared *p, const char *numbers,
                      bool accept, struct fm_error *err)
{
    sqlite3_stmt *row = NULL;
    char other[192] = "";
    int64_t runs = 0;
    bool left = false;
    int rc = is_work_left(journal, p, &left, err);
    if (rc || !left) return rc;
    rc = fm_sql_query(&journal->sql, &row, "SELECT count(*), min(numbers) FROM run WHERE " ELSEWHERE, err,
                      "t", numbers);
    if (!rc) rc = fm_sql_step(&journal->sql, row, err);
    if (rc < 0) return rc;
    runs = sqlite3_column_int64(row, 0);
    const char *text = (const char *)sqlite3_column_text(row, 1);
    snprintf(other, sizeof other, "%s", text ? text : "");
    sqlite3_reset(row);
    if (runs && !accept)
        return fm_fail(err, FM_EUSAGE,
                       "%lld run%s of %s began on %s, and this device is %s: go on there, or go on here with "
                       "--accept-other-device: what is not over starts over then, and is marked",
                       (long long)runs, runs == 1 ? "" : "s", journal->path, other, numbers);
    rc = fm_journal_group(journal, err);
    if (!rc && runs) rc = accept_elsewhere(journal, numbers, err);
    /* Also what began there since this device was accepted. */
    return rc ? rc
              : fm_sql_run(&journal->sql,
                           "UPDATE run SET began_on = numbers WHERE status = 'running' AND numbers LIKE "
                           "'cuda%' AND numbers <> ?1",
                           err, "t", numbers);
}

/* ---- plans that lost the device ---- */

int fm_journal_lost_plans(struct fm_journal *journal, const char *numbers, struct fm_prepared *p,
                          struct fm_error *err)
{
    sqlite3_stmt *row = NULL;
    int rc = fm_sql_query(&journal->sql, &row, "SELECT network, batch FROM plan WHERE numbers = ? AND lost",
                          err, "t", numbers);
    while (!rc && (rc = fm_sql_step(&journal->sql, row, err)) > 0) {
        const char *network = (const char *)sqlite3_column_text(row, 0);
        rc = 0;
        if (fm_grow(&p->lost_plans, &p->lost_plan_capacity, (size_t)p->nlost_plans + 1,
                    sizeof *p->lost_plans)) {
            sqlite3_reset(row);
            return fm_fail_memory(err);
        }
        p->lost_plans[p->nlost_plans++] = (struct fm_plan_key){
            .network = network ? strtoull(network, NULL, 16) : 0, .batch = sqlite3_column_int64(row, 1)};
    }
    return rc;
}

int fm_journal_lost_plan(struct fm_journal *journal, const char *numbers, const struct fm_plan_key *plan,
                         struct fm_error *err)
{
    char network[17];
    fm_network_name(plan->network, network);
    int rc = fm_journal_group(journal, err);
    return rc ? rc
              : fm_sql_run(&journal->sql, "INSERT OR REPLACE INTO plan VALUES(?, ?, ?, '', 1)", err, "tti",
                           numbers, network, plan->batch);
}

/* ---- choices ---- */

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
              : fm_sql_run(&journal->sql, "INSERT OR REPLACE INTO plan VALUES(?,?,?,?,0)", err, "ttit",
                           numbers, network, batch, choices);
}

/* The device was lost when it tried what is on record. */
static int record_loss(struct fm_journal *journal, const char *numbers, const struct fm_program *program,
                       int64_t batch, const struct fm_error *why, struct fm_error *err)
{
    const struct fm_plan_key plan = {.network = program->hash, .batch = batch};
    const int rc = fm_journal_lost_plan(journal, numbers, &plan, err);
    return rc ? rc : fm_prepare_lost(batch, why, err);
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
        else if (rc == FM_EDEVICE)
            rc = record_loss(journal, backend->numbers(device), program, batch, &own, err);
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
    fm_network_name(program->hash, network);
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
