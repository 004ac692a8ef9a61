/* A run as a blob, and back.
 *
 * Layout, all in the machine's own byte order (the first eight bytes tell another order apart): head, at,
 * then the lane's state, the best weights and the last clean state where they are not the state itself, then
 * a hash of all before. The history is not in it: stopping is rebuilt by replaying the epochs that the caller
 * has on record. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "train/run_state.h"

#define MAGIC UINT64_C(0x31544b50434d4c46) /* "FLMCPKT1" */

/* Where a slot's contents are. */
enum { NOWHERE, IN_STATE, OWN };

struct head {
    uint64_t magic, program, plan;
    int64_t batch, state_size;
    int64_t best, clean; /* NOWHERE, IN_STATE or OWN */
};

/* Slots that hold what they held at the last epoch's end are the lane's state itself as long as no step was
 * done. */
static void where(const struct fm_run *run, struct head *head)
{
    bool fresh = run->at.step == 0;
    head->best = head->clean = NOWHERE;
    if (run->restores && run->stopping.best_epoch > 0)
        head->best = fresh && run->stopping.best_epoch == run->at.epoch ? IN_STATE : OWN;
    if (run->spec.config->on_nan == FM_ON_NAN_ROLLBACK) head->clean = fresh ? IN_STATE : OWN;
}

static void fill_head(const struct fm_run *run, struct head *head)
{
    const struct fm_run_spec *spec = &run->spec;
    *head =
        (struct head){.magic = MAGIC,
                      .program = spec->program->hash,
                      .plan = spec->backend->plan_hash(spec->device, spec->program, spec->config->batch_size),
                      .batch = spec->config->batch_size,
                      .state_size = spec->backend->state_size(run->lane)};
}

static int append_lane(struct fm_run *run, const struct head *head, char *buffer, struct fm_text *blob,
                       struct fm_error *err)
{
    const struct fm_backend *backend = run->spec.backend;
    size_t size = (size_t)head->state_size;
    int code = backend->state_read(run->lane, buffer, err);
    if (code < 0) return code;
    fm_text_add_bytes(blob, buffer, size);
    const int64_t places[] = {[FM_SLOT_BEST] = head->best, [FM_SLOT_CLEAN] = head->clean};
    for (int slot = FM_SLOT_BEST; slot <= FM_SLOT_CLEAN; slot++) {
        if (places[slot] != OWN) continue;
        code = backend->snapshot_read(run->lane, slot == FM_SLOT_BEST ? run->best_slot : slot, buffer, err);
        if (code < 0) return code;
        fm_text_add_bytes(blob, buffer, size);
    }
    return 0;
}

int fm_run_checkpoint(struct fm_run *run, struct fm_text *blob, struct fm_error *err)
{
    struct head head;
    if (!run->whole) return fm_fail(err, FM_EINTERNAL, "a checkpoint was asked for between two safe points");
    fill_head(run, &head);
    where(run, &head);
    char *buffer = head.state_size > 0 ? fm_malloc((size_t)head.state_size, 1) : NULL;
    if (!buffer) return fm_fail_memory(err);
    size_t first = blob->size;
    fm_text_add_bytes(blob, (const char *)&head, sizeof head);
    fm_text_add_bytes(blob, (const char *)&run->at, sizeof run->at);
    int code = append_lane(run, &head, buffer, blob, err);
    fm_free(buffer);
    if (code < 0) return code;
    if (blob->failed) return fm_fail_memory(err);
    struct fm_hash hash = {0};
    fm_hash_add(&hash, blob->data + first, blob->size - first);
    uint64_t value = fm_hash_value(&hash);
    fm_text_add_bytes(blob, (const char *)&value, sizeof value);
    return blob->failed ? fm_fail_memory(err) : 0;
}

/* ---- and back ---- */

static int misfit(struct fm_error *err, const char *what)
{
    return fm_fail(err, FM_EFILE, "the run's checkpoint does not fit: %s", what);
}

static bool at_fits(const struct fm_run *run, const struct fm_run_at *at)
{
    return at->epoch >= 0 && at->epoch <= run->spec.config->epochs && at->step >= 0 &&
           at->step <= run->steps && at->loss_examples >= 0 && isfinite(at->learning_rate) &&
           at->rollbacks >= 0 && at->rollbacks <= 3 && at->bad_steps >= 0 && at->epoch_bad >= 0 &&
           at->first_bad >= -1 && at->events >= 0;
}

static int check(const struct fm_run *run, const char *blob, size_t size, struct head *head,
                 struct fm_run_at *at, struct fm_error *err)
{
    struct head mine;
    uint64_t sum;
    if (size < sizeof *head + sizeof *at + sizeof sum) return misfit(err, "it is too short");
    memcpy(head, blob, sizeof *head);
    memcpy(at, blob + sizeof *head, sizeof *at);
    memcpy(&sum, blob + size - sizeof sum, sizeof sum);
    struct fm_hash hash = {0};
    fm_hash_add(&hash, blob, size - sizeof sum);
    if (fm_hash_value(&hash) != sum) return misfit(err, "its bytes are damaged");
    fill_head(run, &mine);
    if (head->magic != mine.magic) return misfit(err, "it is of another version");
    if (head->program != mine.program || head->plan != mine.plan || head->batch != mine.batch ||
        head->state_size != mine.state_size)
        return misfit(err, "it is of another network or another kind of device");
    if (!at_fits(run, at)) return misfit(err, "it is of other training rules");
    size_t states = 1 + (head->best == OWN) + (head->clean == OWN);
    if (size != sizeof *head + sizeof *at + states * (size_t)head->state_size + sizeof sum)
        return misfit(err, "its size is wrong");
    return 0;
}

static int write_slot(struct fm_run *run, int slot, int64_t place, const char *state, const char **next,
                      size_t size, struct fm_error *err)
{
    if (place == NOWHERE) return 0;
    const char *from = place == IN_STATE ? state : *next;
    if (place == OWN) *next += size;
    return run->spec.backend->snapshot_write(run->lane, slot, from, err);
}

static int write_lane(struct fm_run *run, const struct head *head, const char *state, struct fm_error *err)
{
    size_t size = (size_t)head->state_size;
    const char *next = state + size;
    int code = run->spec.backend->state_write(run->lane, state, err);
    if (code >= 0) code = write_slot(run, FM_SLOT_BEST, head->best, state, &next, size, err);
    if (code >= 0) code = write_slot(run, FM_SLOT_CLEAN, head->clean, state, &next, size, err);
    return code;
}

/* Feeds the recorded epochs to the rules again; they must lead to where the checkpoint says it was. */
static int replay(struct fm_run *run, const struct head *head, const struct fm_epoch *history,
                  int64_t nhistory, struct fm_error *err)
{
    if (nhistory != run->at.epoch) return misfit(err, "other epochs are on record than it was taken after");
    for (int64_t i = 0; i < nhistory; i++) {
        if (history[i].epoch != i + 1 || run->finishing)
            return misfit(err, "the epochs on record are not its own");
        fm_run_judge(run, history[i].loss,
                     run->watched == FM_PART_INNER ? &history[i].inner : &history[i].val);
    }
    struct head mine;
    where(run, &mine);
    if (mine.best != head->best || mine.clean != head->clean)
        return misfit(err, "its kept weights are of other training rules");
    return 0;
}

int fm_run_resume(struct fm_run *run, const void *blob, size_t size, const struct fm_epoch *history,
                  int64_t nhistory, struct fm_error *err)
{
    struct head head;
    struct fm_error why = {0};
    int code = fm_run_open(run, err);
    if (code) return code;
    code = check(run, blob, size, &head, &run->at, err);
    if (code < 0) return code;
    code = replay(run, &head, history, nhistory, err);
    if (code < 0) return code;
    const char *state = (const char *)blob + sizeof head + sizeof run->at;
    code = write_lane(run, &head, state, &why);
    if (code < 0) return fm_run_fault(run, code, &why, err);
    if (run->finishing) fm_run_plan_end(run);
    return fm_run_advance(run, err);
}
