/* Writing down what will be run: the sweep, its files, views, folds, networks, trials and runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "sweep/journal_private.h"

/* The list as compact text, which the caller frees. It is lost when memory is out: nothing is written then
 * that misses an item. */
static int list_text(json_t *list, bool whole, char **text, struct fm_error *err)
{
    *text = whole ? json_dumps(list, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(list);
    return *text ? 0 : fm_fail_memory(err);
}

/* NULL where there are no counts. */
static int counts_text(const int64_t *counts, int64_t n, char **text, struct fm_error *err)
{
    *text = NULL;
    if (!counts) return 0;
    json_t *list = json_array();
    bool whole = list != NULL;
    for (int64_t i = 0; whole && i < n; i++) whole = !json_array_append_new(list, json_integer(counts[i]));
    return list_text(list, whole, text, err);
}

static int names_text(char *const *names, int64_t n, char **text, struct fm_error *err)
{
    *text = NULL;
    if (!names) return 0;
    json_t *list = json_array();
    bool whole = list != NULL;
    for (int64_t i = 0; whole && i < n; i++) whole = !json_array_append_new(list, json_string(names[i]));
    return list_text(list, whole, text, err);
}

static int tags_text(const struct fm_node *tags, char **text, struct fm_error *err)
{
    *text = NULL;
    if (!tags) return 0;
    json_t *value = fm_node_json(tags);
    *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    return *text ? 0 : fm_fail_memory(err);
}

static int write_sweep(struct fm_journal *journal, const struct fm_prepared *p, const char *device,
                       const char *numbers, struct fm_error *err)
{
    const struct fm_sweep *sweep = p->sweep;
    char metric[48];
    fm_monitor_name(sweep->metric, metric);
    char *classes = NULL, *tags = NULL;
    int rc = names_text(p->data.class_names, p->data.nclasses, &classes, err);
    if (!rc) rc = tags_text(sweep->tags, &tags, err);
    const char *target = p->data.nclasses ? "classes" : p->data.distribution ? "distribution" : "numbers";
    double now = fm_wall_clock();
    if (!rc)
        rc = fm_sql_run(
            &journal->sql,
            "INSERT INTO sweep(id, name, description, tags, file, fingerprint, fingerprint_text, data_hash, "
            "space_hash, "
            "metric, maximize, target, classes, examples, records, device, numbers, watched, keep_trials, "
            "keep_predictions, keep_weights, created, updated, clean) "
            "VALUES(1,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?21,0) "
            "ON CONFLICT(id) DO UPDATE SET name=?1, description=?2, tags=?3, file=?4, space_hash=?8, "
            "finished=0, "
            "metric=?9, "
            "maximize=?10, target=?11, classes=?12, device=?15, numbers=?16, keep_trials=?18, "
            "keep_predictions=?19, keep_weights=?20, "
            "updated=?21, clean=0",
            err, "ttttitiitittiitttiiid", sweep->name, sweep->description, tags, sweep->path,
            (int64_t)p->fingerprint, p->fingerprint_text, (int64_t)p->data_hash, (int64_t)p->space_hash,
            metric, (int64_t)sweep->maximize, target, classes, p->examples.count, p->data.nrecords, device,
            numbers, sweep->cv.has_inner ? "inner" : "val", sweep->keep.trials,
            (int64_t)sweep->keep.predictions, (int64_t)sweep->keep.weights, now);
    free(classes);
    free(tags);
    return rc;
}

static int write_files(struct fm_journal *journal, const struct fm_prepared *p, struct fm_error *err)
{
    int rc = fm_sql_run(&journal->sql, "DELETE FROM file", err, "");
    for (int64_t i = 0; !rc && i < p->nstamps; i++) {
        const struct fm_file_stamp *stamp = &p->stamps[i];
        rc = fm_sql_run(&journal->sql, "INSERT INTO file VALUES(?,?,?,?,?,?)", err, "itiiii", i, stamp->path,
                        stamp->size, stamp->mtime_ns, stamp->inode, (int64_t)stamp->hash);
    }
    return rc;
}

static int scale_text(const struct fm_fold *fold, int64_t channels, char **text, struct fm_error *err)
{
    *text = NULL;
    if (!fold->scale_center) return 0;
    json_t *list = json_array();
    bool whole = list != NULL;
    for (int64_t i = 0; whole && i < channels; i++)
        whole =
            !json_array_append_new(list, json_pack("[f, f]", fold->scale_center[i], fold->scale_divisor[i]));
    return list_text(list, whole, text, err);
}

static int write_fold(struct fm_journal *journal, const struct fm_prepared *p, const struct fm_split *split,
                      const struct fm_fold *fold, struct fm_error *err)
{
    char *train = NULL, *val = NULL, *scale = NULL;
    int rc = counts_text(fold->train_classes, p->data.nclasses, &train, err);
    if (!rc) rc = counts_text(fold->val_classes, p->data.nclasses, &val, err);
    if (!rc) rc = scale_text(fold, p->data.channels, &scale, err);
    if (!rc)
        rc = fm_sql_run(&journal->sql, "INSERT OR REPLACE INTO fold VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)", err,
                        "iiitiiiiiiittt", (int64_t)split->seed, fold->repeat, fold->fold, fold->name,
                        fold->train.count, fold->inner.count, fold->val.count, fold->purged, fold->embargoed,
                        fold->shared, fold->identical, train, val, scale);
    free(train);
    free(val);
    free(scale);
    return rc;
}

static int write_folds(struct fm_journal *journal, const struct fm_prepared *p, struct fm_error *err)
{
    int rc = 0;
    for (int64_t i = 0; !rc && i < p->nviews; i++) {
        char *counts = NULL;
        rc = counts_text(p->views[i].class_counts, p->data.nclasses, &counts, err);
        if (!rc)
            rc = fm_sql_run(&journal->sql, "INSERT OR REPLACE INTO view VALUES(?,?,?)", err, "iit",
                            p->views[i].length, (int64_t)(i == p->longest), counts);
        free(counts);
    }
    for (int64_t s = 0; !rc && s < p->nsplits; s++)
        for (int64_t f = 0; !rc && f < p->splits[s].repeats * p->splits[s].folds; f++)
            rc = write_fold(journal, p, &p->splits[s], &p->splits[s].fold[f], err);
    return rc;
}

void fm_network_name(uint64_t hash, char name[17])
{
    snprintf(name, 17, "%016llx", (unsigned long long)hash);
}

static int variables_text(const struct fm_program *program, char **text, struct fm_error *err)
{
    json_t *list = json_array();
    bool whole = list != NULL;
    for (int v = 0; whole && v < program->nvariables; v++) {
        const struct fm_variable *variable = &program->variables[v];
        json_t *shape = json_array();
        whole = shape != NULL;
        for (int d = 0; whole && d < variable->rank; d++)
            whole = !json_array_append_new(shape, json_integer(variable->shape[d]));
        if (whole)
            whole =
                !json_array_append_new(list, json_pack("{s:s, s:O}", "name", variable->name, "shape", shape));
        json_decref(shape);
    }
    return list_text(list, whole, text, err);
}

static int layers_text(const struct fm_program *program, char **text, struct fm_error *err)
{
    json_t *list = json_array();
    bool whole = list != NULL;
    for (int l = 0; whole && l < program->nlayers; l++) {
        const struct fm_layer_info *layer = &program->layers[l];
        whole = !json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I}", "type", layer->type, "rows",
                                                       (json_int_t)layer->out_rows, "channels",
                                                       (json_int_t)layer->out_channels, "params",
                                                       (json_int_t)layer->param_count));
    }
    return list_text(list, whole, text, err);
}

static int write_networks(struct fm_journal *journal, const struct fm_prepared *p, struct fm_error *err)
{
    static const char *const losses[] = {"categorical_crossentropy",
                                         "sparse_categorical_crossentropy",
                                         "binary_crossentropy",
                                         "mse",
                                         "mae",
                                         "huber"};
    int rc = 0;
    for (int64_t i = 0; !rc && i < p->nnetworks; i++) {
        const struct fm_program *program = p->networks[i].program;
        char *variables = NULL, *layers = NULL, name[17];
        fm_network_name(program->hash, name);
        rc = variables_text(program, &variables, err);
        if (!rc) rc = layers_text(program, &layers, err);
        if (!rc)
            rc = fm_sql_run(&journal->sql, "INSERT OR IGNORE INTO network VALUES(?,?,?,?,?,?)", err, "ttiitt",
                            name, variables, program->score_width, program->loss.outputs,
                            losses[program->loss.kind], layers);
        free(variables);
        free(layers);
    }
    return rc;
}

/* Gives the trial the number it had, or the next one. */
static int number_trial(struct fm_journal *journal, struct fm_planned *planned, int64_t *next,
                        struct fm_error *err)
{
    int64_t number = 0;
    int rc = fm_sql_integer(&journal->sql, "SELECT trial FROM trial WHERE key = ?", 0, &number, err, "t",
                            planned->trial.key);
    if (!rc) planned->number = number ? number : (*next)++;
    return rc;
}

static int write_trial(struct fm_journal *journal, const struct fm_prepared *p, int64_t place,
                       const struct fm_planned *planned, struct fm_error *err)
{
    static const char *const origins[] = {"list", "grid", "random"};
    bool valid = planned->network >= 0;
    char network[17] = "";
    if (valid) fm_network_name(p->networks[planned->network].program->hash, network);
    char *params = json_dumps(planned->trial.params, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!params) return fm_fail_memory(err);
    int rc = fm_sql_run(
        &journal->sql,
        "INSERT INTO trial(trial, key, params, origin, listed, place, valid, reason_code, reason, seed, "
        "length, network, "
        "param_count) VALUES(?1,?2,?3,?4,1,?5,?6,?7,?8,?9,?10,?11,?12) "
        "ON CONFLICT(trial) DO UPDATE SET params=?3, origin=?4, listed=1, place=?5, valid=?6, "
        "reason_code=?7, reason=?8, network=?11, param_count=?12",
        err, "itttiittiiti", planned->number, planned->trial.key, params, origins[planned->trial.origin],
        place, (int64_t)valid, valid ? NULL : planned->reason_code, valid ? NULL : planned->reason,
        (int64_t)p->splits[planned->split].seed, p->views[planned->view].length, valid ? network : NULL,
        valid ? p->networks[planned->network].program->param_count : 0);
    free(params);
    if (!valid) return rc;
    const struct fm_split *split = &p->splits[planned->split];
    for (int64_t f = 0; !rc && f < split->repeats * split->folds; f++)
        rc = fm_sql_run(&journal->sql, "INSERT OR IGNORE INTO run(trial, repeat, fold) VALUES(?,?,?)", err,
                        "iii", planned->number, split->fold[f].repeat, split->fold[f].fold);
    return rc;
}

static int write_trials(struct fm_journal *journal, struct fm_prepared *p, struct fm_error *err)
{
    int64_t next = 1, before;
    int rc = fm_sql_integer(&journal->sql, "SELECT max(trial) + 1 FROM trial", 1, &next, err, "");
    if (!rc) rc = fm_sql_run(&journal->sql, "UPDATE trial SET listed = 0", err, "");
    before = next;
    for (int64_t i = 0; !rc && i < p->ntrials; i++) {
        if (before == 1)
            p->trials[i].number = next++; /* nothing to look up in a new journal: keys differ */
        else
            rc = number_trial(journal, &p->trials[i], &next, err);
        if (!rc) rc = write_trial(journal, p, i, &p->trials[i], err);
    }
    return rc;
}

static int write_notes(struct fm_journal *journal, const struct fm_prepared *p, struct fm_error *err)
{
    int rc = fm_sql_run(&journal->sql, "DELETE FROM note", err, "");
    for (size_t i = 0; !rc && i < p->notes.count; i++)
        rc = fm_sql_run(&journal->sql, "INSERT OR IGNORE INTO note(level, text) VALUES(?,?)", err, "tt",
                        p->notes.level[i] == FM_WARNING ? "warning" : "note", p->notes.text[i]);
    return rc;
}

int fm_journal_begin(struct fm_journal *journal, struct fm_prepared *p, const char *device,
                     const char *numbers, struct fm_error *err)
{
    int rc = fm_journal_group(journal, err);
    int64_t checkpoints = 1;
    fm_keep_forget(journal);
    if (!rc)
        rc = fm_sql_integer(&journal->sql, "SELECT EXISTS(SELECT 1 FROM checkpoint)", 1, &checkpoints, err,
                            "");
    journal->no_checkpoints = !rc && !checkpoints;
    if (!rc) rc = write_sweep(journal, p, device, numbers, err);
    if (!rc) rc = write_files(journal, p, err);
    if (!rc) rc = write_folds(journal, p, err);
    if (!rc) rc = write_networks(journal, p, err);
    if (!rc) rc = write_trials(journal, p, err);
    if (!rc) rc = write_notes(journal, p, err);
    return rc ? rc : fm_journal_commit(journal, true, err);
}
