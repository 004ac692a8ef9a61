/* Foldmill: cross-validates small 1-D convolutional networks over many folds. The public C API.
 *
 * A `struct foldmill` stands for one sweep file and its journal. Open it, look at the plan, run it, read the
 * results:
 *
 * Example:
 *     #include <foldmill.h>
 *     #include <stdio.h>
 *
 *     int main(int argc, char **argv)
 *     {
 *         struct fm_error err = {0};
 *         struct foldmill *sweep = NULL;
 *         struct fm_board *board = NULL;
 *         char line[2048];
 *         if (argc != 2) return 2;
 *         if (fm_open(&sweep, argv[1], NULL, &err) == 0 && fm_run(sweep, NULL, &err) == 0 &&
 *             fm_board_read(sweep, &board, &err) == 0) {
 *             for (int64_t i = 0; i < board->ntrials; i++)
 *                 printf("%s %g %s\n", fm_state_name(board->trials[i].state), board->trials[i].mean,
 *                        board->trials[i].params);
 *         }
 *         if (err.code) fprintf(stderr, "%s\n", fm_error_print(&err, line, sizeof line));
 *         fm_board_free(board);
 *         fm_close(sweep);
 *         return fm_exit_code(err.code);
 *     }
 * End of the example; build it with: cc example.c $(pkg-config --cflags --libs foldmill)
 *
 * Conventions that hold for every call
 *  - A call that can fail returns 0 or a negative `enum fm_code` and fills the caller's `struct fm_error`
 * (zero it before the first use; the first error is kept). NULL for `err` is fine.
 *  - The library never prints, never exits and keeps no global state. What a person should know comes as
 * notes.
 *  - One handle is used by one thread at a time; different handles are independent. fm_stop alone may be
 * called from any thread and from a signal handler. fm_run starts threads of its own, but calls back on the
 * caller's.
 *  - Strings and structs that a call gives out belong to the handle or to the struct they came with, and live
 * as long as that, unless it says that the caller frees them. Texts are UTF-8.
 *  - Epochs and trials count from 1; repeats, folds, examples, positions and steps from 0. Times are seconds.
 * A double that is not defined or was not measured is NaN.
 */
#ifndef FOLDMILL_H
#define FOLDMILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined __GNUC__
#define FM_API __attribute__((visibility("default")))
#else
#define FM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ---- */

/* name, value, exit code of the program, meaning */
#define FM_CODES(X)                                                                                          \
    X(FM_ENOMEM, -1, 1, "out of memory")                                                                     \
    X(FM_EUSAGE, -2, 2, "wrong use of the command line or of the library")                                   \
    X(FM_EFILE, -3, 2, "the sweep file or a data file says something that cannot be right")                  \
    X(FM_EIO, -4, 1, "the disk or the system refused: space, permission, read error")                        \
    X(FM_EBUSY, -5, 75, "another process works on this journal")                                             \
    X(FM_EINTERRUPTED, -6, 130, "stopped by Ctrl-C; the same command goes on")                               \
    X(FM_ETERMINATED, -7, 75, "stopped by SIGTERM; the same command goes on")                                \
    X(FM_ELATER, -8, 2, "not available yet")                                                                 \
    X(FM_ESHAPE, -9, 2, "a network does not fit its input; that trial is invalid")                           \
    X(FM_EFAILED, -10, 1, "every valid trial failed")                                                        \
    X(FM_EDEVICE, -11, 75, "the device was lost")                                                            \
    X(FM_EINTERNAL, -12, 1, "a mistake inside Foldmill")                                                     \
    X(FM_ELIBRARY, -13, 1, "a library that computes refused a call; that run fails")

enum fm_code {
    FM_OK = 0,
#define FM_CODE_ENUM(name, value, exit_code, meaning) name = value,
    FM_CODES(FM_CODE_ENUM)
#undef FM_CODE_ENUM
};

/* A plain value that owns nothing. The text is one sentence for a person: what was found, what was expected,
 * and where it helps the nearest valid word. `file`, `line` and `column` say where the user wrote it. */
struct fm_error {
    int code;        /* 0 = no error yet */
    int64_t line;    /* from 1, 0 = unknown */
    int64_t column;  /* from 1, 0 = unknown */
    char file[512];  /* "" = unknown; a long path keeps its end */
    char text[1024]; /* one sentence; a long one ends in "..." */
};

/* "file:line:column: text" into buffer (always terminated); returns buffer. Any thread. */
FM_API const char *fm_error_print(const struct fm_error *err, char *buffer, size_t size);

/* Forgets the error, so that the struct can be used again. */
FM_API void fm_error_clear(struct fm_error *err);

/* The process exit code that belongs to a code; 0 for FM_OK. */
FM_API int fm_exit_code(int code);

/* ---- versions, states, measures ---- */

/* "0.1.0" of the library that is linked. */
FM_API const char *fm_version(void);

/* Of a trial or of a run. PRUNED and INVALID are trials' only, RUNNING (started and not over) is a run's
 * only. */
enum fm_state {
    FM_STATE_COMPLETED,
    FM_STATE_PRUNED,
    FM_STATE_FAILED,
    FM_STATE_INVALID,
    FM_STATE_PENDING,
    FM_STATE_RUNNING
};
/* "completed", "pruned", ... */
FM_API const char *fm_state_name(enum fm_state state);

/* Everything that a run is measured by: loss (of training), then 13 inner_ and 13 val_ measures. A measure is
 * an index into arrays of FM_MEASURES doubles. */
#define FM_MEASURES 27
/* "loss", "inner_loss", ..., "val_r2"; NULL outside 0 .. FM_MEASURES - 1. */
FM_API const char *fm_measure_name(int measure);
/* The index of a name, or -1. */
FM_API int fm_measure_find(const char *name);

/* ---- opening a sweep ---- */

struct foldmill;

/* Zero-initialise; every field may stay so. Strings are borrowed during fm_open only. */
struct fm_options {
    const char *journal;         /* path; NULL = <file stem>.db beside the sweep file */
    const char *const *settings; /* "key=value" with dotted keys, as --set; later ones win */
    size_t setting_count;
    const char *device; /* "cpu", "cuda", "cuda:0,1", "reference", "auto"; NULL = auto: a GPU that can be
                           used, else cpu */
    const char
        *kernels;  /* of cuda: "auto", "own", "library" (cuDNN and cuBLAS wherever they can); NULL = auto */
    int64_t lanes; /* runs at a time; 0 = the usable cores, of a GPU what it likes */
    bool accept_other_device; /* fm_run goes on with a journal that holds runs of another kind of GPU, instead
                                 of refusing (FM_EUSAGE): those that are not over start over on this one, and
                                 what it computes is marked */
    bool profile;             /* fm_run measures for fm_profile_text; cuda only */
    bool fresh;               /* fm_run sets an existing journal aside (<stem>.old-<n>.db) and starts over */
    bool explain; /* fm_plan_json and fm_plan_text also tell how the device computes each network */
};

/* Reads and checks the sweep file `path`. Data and journal are not touched yet. FM_EFILE names file, line and
 * column. On failure *sweep is NULL. `options` NULL = all defaults. */
FM_API int fm_open(struct foldmill **sweep, const char *path, const struct fm_options *options,
                   struct fm_error *err);

/* For reading results only: the sweep file is not read and may have changed since. `path` is the sweep file
 * or the journal itself. Calls that need the file (plan, split, run, export of predictions) then fail with
 * FM_EUSAGE. */
FM_API int fm_open_results(struct foldmill **sweep, const char *path, const char *journal,
                           struct fm_error *err);

/* Frees everything; NULL is fine. Never while fm_run is inside. */
FM_API void fm_close(struct foldmill *sweep);

/* Where the journal is or will be. */
FM_API const char *fm_journal_file(const struct foldmill *sweep);

/* What was noticed so far, in order: text `i` < fm_note_count, and whether it is a warning (`warning` may be
 * NULL). */
FM_API size_t fm_note_count(const struct foldmill *sweep);
FM_API const char *fm_note_text(const struct foldmill *sweep, size_t i, bool *warning);

/* ---- texts and writers ---- */

/* Frees a text that a call below gave out; NULL is fine. */
FM_API void fm_text_release(char *text);

/* Takes long output piece by piece. `write` returns 0, or an errno value, which ends the call with FM_EIO. */
struct fm_writer {
    int (*write)(void *context, const char *bytes, size_t size);
    void *context;
};

/* How texts for people look. Zero-initialise: plain ASCII, 80 columns, no colour. */
struct fm_look {
    int columns; /* width of the terminal; 0 = 80 */
    bool color;  /* escape sequences may be used */
    bool utf8;   /* characters beyond ASCII may be used (curves) */
};

/* ---- plan and splits: nothing is written ---- */

/* Loads the data, makes the folds and compiles the networks; then what would run, as the JSON object of `plan
 * --json` or as text for people. The caller frees *text with fm_text_release. FM_ESHAPE when no trial is
 * valid: the text is given all the same. */
FM_API int fm_plan_json(struct foldmill *sweep, char **text, struct fm_error *err);
FM_API int fm_plan_text(struct foldmill *sweep, const struct fm_look *look, char **text,
                        struct fm_error *err);

/* CSV `repeat,fold,example,record,start`, a line per validation example; start is the window's first position
 * inside its record (negative where it begins in the padding). */
FM_API int fm_split_csv(struct foldmill *sweep, const struct fm_writer *out, struct fm_error *err);

/* ---- running ---- */

struct fm_lane_status {
    bool busy;
    int64_t trial, repeat, fold;
    int64_t epoch, epochs; /* in its epoch, of at most */
    int64_t step, steps;   /* inside the epoch */
    double loss, watched;  /* of the last epoch */
};
struct fm_status {
    double elapsed, left; /* seconds; left < 0 = not known yet */
    int64_t runs, done, failed;
    int64_t resumed; /* runs that were over before this call */
    const struct fm_lane_status *lanes;
    int64_t nlanes;
};
enum fm_message_kind { FM_MESSAGE_NOTE, FM_MESSAGE_RUN, FM_MESSAGE_TRIAL, FM_MESSAGE_EVENT };
struct fm_message {
    enum fm_message_kind kind;
    bool warning;
    int64_t trial, repeat, fold; /* 0, -1, -1 where they do not apply */
    const char *text;            /* one line for a person */
};
/* Called from inside fm_run on its thread; must be quick; everything given is valid during the call only. A
 * callback may call fm_stop and nothing else of the same handle. */
struct fm_callbacks {
    void (*status)(void *context, const struct fm_status *status);
    void (*message)(void *context, const struct fm_message *message);
    void *context;
};

/* Does everything that is not done yet and keeps the journal; a finished sweep answers at once. Returns 0
 * when all is over; FM_EINTERRUPTED after fm_stop (the same call goes on another time); FM_EBUSY when another
 * process works on the journal; FM_EFAILED when every valid trial failed and FM_ESHAPE when no trial is valid
 * (results can be read then too); FM_EFILE when file or data changed and `fresh` is needed; FM_EDEVICE when
 * the device was lost: the journal is whole, and another process goes on with it. `callbacks` may be NULL. */
FM_API int fm_run(struct foldmill *sweep, const struct fm_callbacks *callbacks, struct fm_error *err);

/* Where the device's time went, as a table for people: of a sweep opened with `profile`, after fm_run. The
 * caller frees *text with fm_text_release. FM_EUSAGE without it, FM_EDEVICE once the device was lost. */
FM_API int fm_profile_text(struct foldmill *sweep, char **text, struct fm_error *err);

/* Asks a running fm_run to stop at the next safe point. Safe in signal handlers and from any thread; stays in
 * force for later calls of fm_run on this handle. */
FM_API void fm_stop(struct foldmill *sweep);

/* ---- results: read from the journal, at any time, by any process ---- */

struct fm_board_fold {
    int64_t seed, repeat, fold; /* seed of the splits */
    const char *name;           /* predefined folds and groups: the fold's own name; else NULL */
    int64_t train, inner, val, purged, embargoed, shared, identical;
};
struct fm_board_epoch {
    int64_t epoch;
    bool best; /* the kept weights became this epoch's */
    double learning_rate;
    double measures[FM_MEASURES];
};
struct fm_board_run {
    int64_t repeat, fold;
    enum fm_state state;
    const char *numbers;  /* class of the numbers, "cpu-fma"; "" before it started */
    const char *began_on; /* class of the numbers of a GPU on which it had begun before it started over here
                             (accept_other_device), else "" */
    bool suspect;         /* it was computed when the device was lost, and has not ended since */
    bool accepted;        /* it began on a GPU that was let go on (accept_other_device) where runs of another
                             kind of GPU were on record */
    const char *reason_code, *reason;         /* of what is not completed; else "" */
    const char *stopped;                      /* "epochs", "early_stopping", ...; "" before the end */
    int64_t epochs, scored_epoch, best_epoch; /* 0 = none */
    int64_t attempt, bad_steps;
    double seconds;
    double measures[FM_MEASURES]; /* at the scored epoch */
    const int64_t *confusion;     /* [classes][classes], true x predicted; NULL = none */
    const struct fm_board_epoch *history;
    int64_t nhistory;
};
struct fm_board_trial {
    int64_t trial; /* its number */
    int64_t rank;  /* from 1; equal means share the lower one; 0 = not ranked */
    enum fm_state state;
    const char *params; /* JSON object, null where a parameter is unused */
    const char *origin; /* "list", "grid", "random" */
    const char *reason_code, *reason;
    double mean, std;           /* of the sweep's metric over the runs that define it; population deviation */
    int64_t defined;            /* how many runs define it */
    double pooled[FM_MEASURES]; /* out of fold, all runs together; val_ ones only */
    int64_t pooled_count;       /* examples in it; 0 = not pooled */
    const int64_t *confusion;   /* of all runs together, or NULL */
    int64_t param_count, length, seed;
    bool kept; /* what the sweep keeps of its best trials is in the journal */
    const struct fm_board_run *runs;
    int64_t nruns;
};
struct fm_board_event {
    int64_t trial, repeat, fold;
    const char *kind;           /* nan, skip, rollback, memory, note */
    int64_t epoch, step, count; /* -1 = unknown */
    double last_loss, last_norm;
    const char *text;
};
/* The leaderboard. Trials stand in order of rank: completed, pruned, failed, invalid, pending. */
struct fm_board {
    const char *name, *journal, *device;
    bool finished;
    int64_t to_device, to_host; /* bytes */
    int64_t examples, records;
    const char *metric; /* "val_auc" */
    int measure;        /* its index */
    bool maximize;
    const char *watched; /* evaluated each epoch: "val" (the fold that is scored) or "inner" */
    bool stops_early;    /* early stopping looked at it */
    bool keeps_predictions, keeps_weights; /* what is kept of the best trials */
    const char *const *classes;            /* names in order; NULL for numbers */
    int64_t nclasses;
    const struct fm_board_fold *folds;
    int64_t nfolds;
    const struct fm_board_trial *trials;
    int64_t ntrials;
    const struct fm_board_event *events;
    int64_t nevents;
    const char *const *notes;
    int64_t nnotes;
    const char *const
        *numbers; /* distinct classes of the completed runs; more than one means that ranks mix them */
    int64_t nnumbers;
    void *owner; /* the library's */
};
/* A consistent picture of the journal as it is now; the caller frees it. FM_EFILE when there is no journal,
 * FM_EBUSY while a run that made it has not written the sweep yet. */
FM_API int fm_board_read(struct foldmill *sweep, struct fm_board **board, struct fm_error *err);
FM_API void fm_board_free(struct fm_board *board);

/* The leaderboard, or one trial (number `trial`, 0 = all), as the JSON object of `run --json`, or for people.
 * The caller frees *text with fm_text_release. FM_EUSAGE when there is no such trial. */
FM_API int fm_board_json(const struct fm_board *board, int64_t trial, char **text, struct fm_error *err);
FM_API int fm_board_text(const struct fm_board *board, int64_t trial, const struct fm_look *look, char **text,
                         struct fm_error *err);

/* CSV by RFC 4180 (lines end in "\n"); undefined numbers are empty. PREDICTIONS are those of the kept trials
 * and need the data, which must be the same as when the sweep ran (FM_EFILE if not). */
enum fm_export { FM_EXPORT_TRIALS, FM_EXPORT_RUNS, FM_EXPORT_HISTORY, FM_EXPORT_PREDICTIONS };
FM_API int fm_export_csv(struct foldmill *sweep, enum fm_export what, const struct fm_writer *out,
                         struct fm_error *err);

/* Weights of the kept trials: folder/trial<n>_repeat<r>_fold<f>.npz with float32 arrays in Keras's shapes and
 * order, named <index>_<layer>/<variable> ("0_conv1d/kernel", "0_conv1d/bias", "3_dense/kernel"); index =
 * place in the model, so that model.layers[index].set_weights takes them. Makes the folder. *count (may be
 * NULL) = files written. */
FM_API int fm_export_weights(struct foldmill *sweep, const char *folder, int64_t *count,
                             struct fm_error *err);

/* ---- about this machine and this build ---- */

/* Each device that can be used, with what it computes with and the class of its numbers, or why it cannot.
 * The caller frees *text. */
FM_API int fm_device_list(char **text, struct fm_error *err);

/* Times training steps of the reference networks, with Adam on shuffled examples: S (windows of 104 samples
 * of a series of 1,049,344, conv 24x9 relu, max pool 4, dense 20 relu, 2 classes; batches of 1, 8, 64, 128,
 * 4096), P2 and P3 (windows of 17 letters of 21, two or three conv 64x5 swish, 3 classes; batches of 1, 8,
 * 64). A row is the best of many stretches of 20 ms of one lane: other work on the machine only ever makes
 * one slower. */
struct fm_bench_options {
    const char *device;  /* as in fm_options */
    const char *network; /* "S", "P2" or "P3"; NULL = all */
    int64_t batch;       /* only this one, 1 to 32768; 0 = those above */
    double seconds;      /* to measure in all, at most 3600 */
    const char *kernels; /* as in fm_options */
};
struct fm_bench_machine {
    const char *device;  /* one line, with the instruction set in use */
    const char *numbers; /* class of the numbers: "cpu-fma" */
    int64_t cores;       /* that may be used */
    double peak_gflops;  /* 10^9 multiplications and additions a second of one core, in registers; NaN =
                            unknown */
};
struct fm_bench_row {
    const char *network;
    int64_t batch;
    double steps_per_second, examples_per_second;
    double gflops; /* 10^9 floating point operations a second of the work that the layers' products need: no
                      taps on padding, no gradients that max pooling left zero */
    double share;  /* of the core's peak; NaN = unknown */
};
/* How much more work several lanes at once do than one. */
struct fm_bench_lanes {
    const char *network;
    int64_t batch, lanes;
    double times;
};
/* Called in this order as soon as each is known; any may be NULL. `lanes` comes only where neither network
 * nor batch was chosen and two cores may be used. What is given is valid during the call. */
struct fm_bench_calls {
    void (*machine)(void *context, const struct fm_bench_machine *machine);
    void (*row)(void *context, const struct fm_bench_row *row);
    void (*lanes)(void *context, const struct fm_bench_lanes *lanes);
    void *context;
};
FM_API int fm_bench(const struct fm_bench_options *options, const struct fm_bench_calls *calls,
                    struct fm_error *err);

/* The key tables of the sweep file as text: all sections (`section` NULL), or one ("data", "cv", "conv1d").
 * The caller frees *text. FM_EUSAGE names the nearest section. */
FM_API int fm_help_keys(const char *section, char **text, struct fm_error *err);

#ifdef __cplusplus
}
#endif

#endif
