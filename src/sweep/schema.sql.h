/* The journal's schema as SQLite executes it: version 1, and what each later version adds to it. A new
 * version adds a step to `migrations` in journal_schema.c and never edits the texts of earlier ones. Metrics
 * are columns, NULL = not defined or not measured. The views trials, runs and epochs are a promise to
 * pandas.read_sql users: columns are only ever added. */
#ifndef FM_SWEEP_SCHEMA_H
#define FM_SWEEP_SCHEMA_H

#define FM_APPLICATION_ID 0x464d494c /* "FMIL" */
#define FM_SCHEMA_VERSION 3
#define FM_SCHEMA_READ    1 /* the oldest that is read without bringing it up: see struct fm_reader */

/* clang-format off */
#define FM_METRIC_COLUMNS \
    "inner_loss REAL, inner_accuracy REAL, inner_balanced_accuracy REAL, inner_auc REAL, inner_pr_auc REAL, " \
    "inner_precision REAL, inner_recall REAL, inner_f1 REAL, inner_macro_f1 REAL, inner_mcc REAL, inner_mse REAL, " \
    "inner_mae REAL, inner_r2 REAL, " \
    "val_loss REAL, val_accuracy REAL, val_balanced_accuracy REAL, val_auc REAL, val_pr_auc REAL, " \
    "val_precision REAL, val_recall REAL, val_f1 REAL, val_macro_f1 REAL, val_mcc REAL, val_mse REAL, " \
    "val_mae REAL, val_r2 REAL"

#define FM_METRIC_NAMES \
    "inner_loss, inner_accuracy, inner_balanced_accuracy, inner_auc, inner_pr_auc, inner_precision, inner_recall, " \
    "inner_f1, inner_macro_f1, inner_mcc, inner_mse, inner_mae, inner_r2, val_loss, val_accuracy, " \
    "val_balanced_accuracy, val_auc, val_pr_auc, val_precision, val_recall, val_f1, val_macro_f1, val_mcc, val_mse, " \
    "val_mae, val_r2"
#define FM_METRIC_MARKS "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?"

#define FM_SCHEMA \
    /* One row. metric is "val_auc"; maximize 0 or 1; finished 1 when nothing listed is left to do. */ \
    "CREATE TABLE sweep(id INTEGER PRIMARY KEY CHECK(id = 1), name TEXT NOT NULL, description TEXT, tags TEXT, " \
    " file TEXT NOT NULL, fingerprint INTEGER NOT NULL, fingerprint_text TEXT NOT NULL, data_hash INTEGER NOT NULL, " \
    " space_hash INTEGER NOT NULL, finished INTEGER NOT NULL DEFAULT 0, metric TEXT NOT NULL, maximize INTEGER NOT NULL, " \
    " target TEXT NOT NULL, classes TEXT, examples INTEGER NOT NULL, records INTEGER NOT NULL, device TEXT, numbers TEXT, " \
    " watched TEXT NOT NULL, keep_trials INTEGER NOT NULL, keep_predictions INTEGER NOT NULL, " \
    " keep_weights INTEGER NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, clean INTEGER NOT NULL DEFAULT 0) STRICT;" \
    /* In reading order; the fold file of a predefined split stands last. */ \
    "CREATE TABLE file(number INTEGER PRIMARY KEY, path TEXT NOT NULL, size INTEGER NOT NULL, " \
    " mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, hash INTEGER NOT NULL) STRICT;" \
    "CREATE TABLE view(length INTEGER PRIMARY KEY, longest INTEGER NOT NULL, class_counts TEXT) STRICT;" \
    /* One row a fold of each seed of the splits; counts as in plan. */ \
    "CREATE TABLE fold(seed INTEGER NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL, name TEXT, " \
    " train INTEGER NOT NULL, inner_count INTEGER NOT NULL, val INTEGER NOT NULL, purged INTEGER NOT NULL, " \
    " embargoed INTEGER NOT NULL, shared INTEGER NOT NULL, identical INTEGER NOT NULL, train_classes TEXT, " \
    " val_classes TEXT, scale TEXT, PRIMARY KEY(seed, repeat, fold)) STRICT;" \
    /* key: canonical parameters. origin: list, grid, random. parent: the trial it was bred from, if any. place: order in \
     * the present file. status: valid, invalid. */ \
    "CREATE TABLE trial(trial INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, params TEXT NOT NULL, origin TEXT NOT NULL, " \
    " parent INTEGER, listed INTEGER NOT NULL, place INTEGER NOT NULL, valid INTEGER NOT NULL, reason_code TEXT, " \
    " reason TEXT, seed INTEGER NOT NULL, length INTEGER NOT NULL, network TEXT, param_count INTEGER NOT NULL DEFAULT 0, " \
    " kept INTEGER NOT NULL DEFAULT 0, pooled_n INTEGER, confusion TEXT, " FM_METRIC_COLUMNS ") STRICT;" \
    "CREATE INDEX trial_kept ON trial(kept) WHERE kept;" \
    "CREATE TABLE run(trial INTEGER NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL, " \
    " status TEXT NOT NULL DEFAULT 'pending', attempt INTEGER NOT NULL DEFAULT 0, worker TEXT, lease REAL, numbers TEXT, " \
    " plan_hash INTEGER, reason_code TEXT, reason TEXT, epochs INTEGER, scored_epoch INTEGER, best_epoch INTEGER, " \
    " stopped TEXT, bad_steps INTEGER, loss REAL, confusion TEXT, started REAL, ended REAL, seconds REAL, " \
    FM_METRIC_COLUMNS ", PRIMARY KEY(trial, repeat, fold)) STRICT, WITHOUT ROWID;" \
    "CREATE TABLE epoch(trial INTEGER NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL, epoch INTEGER NOT NULL, " \
    " attempt INTEGER NOT NULL, loss REAL, learning_rate REAL, best INTEGER NOT NULL, " FM_METRIC_COLUMNS ", " \
    " PRIMARY KEY(trial, repeat, fold, epoch)) STRICT, WITHOUT ROWID;" \
    /* epoch: completed epochs in it; events: how many events had happened. */ \
    "CREATE TABLE checkpoint(trial INTEGER NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL, " \
    " attempt INTEGER NOT NULL, epoch INTEGER NOT NULL, events INTEGER NOT NULL, saved REAL NOT NULL, " \
    " blob BLOB NOT NULL, " \
    " PRIMARY KEY(trial, repeat, fold)) STRICT;" \
    /* kind: nan, skip, rollback, memory, note. epoch, step: -1 = unknown. */ \
    "CREATE TABLE event(trial INTEGER NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL, number INTEGER NOT NULL, " \
    " attempt INTEGER NOT NULL, kind TEXT NOT NULL, epoch INTEGER NOT NULL, step INTEGER NOT NULL, count INTEGER NOT NULL, " \
    " last_loss REAL, last_norm REAL, text TEXT NOT NULL, PRIMARY KEY(trial, repeat, fold, number)) STRICT, WITHOUT ROWID;" \
    /* Why something was not run or not kept: kind prune, keep, drop. Empty until early_terminate is there: \
     * what is kept follows from keep_trials and the scores. */ \
    "CREATE TABLE decision(number INTEGER PRIMARY KEY, time REAL NOT NULL, trial INTEGER, kind TEXT NOT NULL, " \
    " text TEXT NOT NULL) STRICT;" \
    /* Out-of-fold scores, float32 little-endian [n][width] in the order of the fold's validation set; several chunks. */ \
    "CREATE TABLE score(trial INTEGER NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL, chunk INTEGER NOT NULL, " \
    " first INTEGER NOT NULL, n INTEGER NOT NULL, width INTEGER NOT NULL, blob BLOB NOT NULL, " \
    " PRIMARY KEY(trial, repeat, fold, chunk)) STRICT;" \
    /* kind: weights (float32 little-endian, the portable parameters of net/program.h). */ \
    "CREATE TABLE artifact(trial INTEGER NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL, kind TEXT NOT NULL, " \
    " blob BLOB NOT NULL, PRIMARY KEY(trial, repeat, fold, kind)) STRICT;" \
    /* Variables of each network, so that weights can be exported from the journal alone: JSON [{"name","shape"}]. */ \
    "CREATE TABLE network(network TEXT PRIMARY KEY, variables TEXT NOT NULL, score_width INTEGER NOT NULL, " \
    " outputs INTEGER NOT NULL, loss TEXT NOT NULL, layers TEXT NOT NULL) STRICT;" \
    "CREATE TABLE transfers(device TEXT PRIMARY KEY, to_device INTEGER NOT NULL, to_host INTEGER NOT NULL) STRICT;" \
    "CREATE TABLE note(number INTEGER PRIMARY KEY, level TEXT NOT NULL, text TEXT NOT NULL UNIQUE) STRICT;" \
    "CREATE VIEW trials AS SELECT trial, params, origin, CASE WHEN valid = 0 THEN 'invalid' " \
    " WHEN EXISTS(SELECT 1 FROM run r WHERE r.trial = t.trial AND r.status = 'failed') THEN 'failed' " \
    " WHEN EXISTS(SELECT 1 FROM run r WHERE r.trial = t.trial AND r.status <> 'completed') THEN 'pending' " \
    " ELSE 'completed' END AS status, listed, reason_code, reason, param_count, length, seed FROM trial t;" \
    "CREATE VIEW runs AS SELECT * FROM run;" \
    "CREATE VIEW epochs AS SELECT * FROM epoch;"

/* Version 2. run.suspect: 1 = it was being computed when the device was lost, and has not ended since; it is run
 * alone. run.began_on: class of the numbers of a GPU on which an attempt began that was given up when the sweep
 * went on elsewhere (--accept-other-device). plan: the choices that a device made for a network at a batch size,
 * as its plan_choices gave them; they hold for as long as the class of the numbers stays. */
#define FM_SCHEMA_2 \
    "ALTER TABLE run ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0;" \
    "ALTER TABLE run ADD COLUMN began_on TEXT;" \
    "CREATE TABLE plan(numbers TEXT NOT NULL, network TEXT NOT NULL, batch INTEGER NOT NULL, choices TEXT NOT NULL, " \
    " PRIMARY KEY(numbers, network, batch)) STRICT, WITHOUT ROWID;"

/* Version 3. plan.lost: 1 = the device was lost when it made this plan, which is made with own kernels only since
 * then (no choices). accepted: a device of the class `numbers` may compute although runs of `other`, another kind of
 * GPU, are in the journal (--accept-other-device). run.accepted: 1 = such a device began the run after that. */
#define FM_SCHEMA_3 \
    "ALTER TABLE plan ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;" \
    "ALTER TABLE run ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;" \
    "CREATE TABLE accepted(numbers TEXT NOT NULL, other TEXT NOT NULL, PRIMARY KEY(numbers, other)) STRICT, WITHOUT ROWID;"
/* clang-format on */

#endif
