/* foldmill run: does everything, and run again goes on where it stopped. */
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/terminal.h"

static const struct fm_option options[] = {
    FM_JOURNAL_OPTION,
    FM_DEVICE_OPTIONS,
    FM_LANES_OPTIONS,
    FM_SET_OPTION,
    {"fresh", 0, FM_OPTION_FRESH, NULL, "set an existing journal aside (<stem>.old-<n>.db) and start over"},
    {"accept-other-device", 0, FM_OPTION_ACCEPT_OTHER, NULL,
     "go on where another kind of GPU began runs; what is not over starts over"},
    {"profile", 0, FM_OPTION_PROFILE, NULL, "print where the GPU's time went, at the end, on standard error"},
    {"quiet", 'q', FM_OPTION_QUIET, NULL, "no progress and no notes; errors and results only"},
    {"json", 0, FM_OPTION_JSON, NULL, "print the results as one JSON object"},
    FM_COMMON_OPTIONS,
};

/* Results are printed whenever there are some: also when every trial failed, or when it was stopped on the
 * way. Gives 0, or the exit code of what was told. `must`: that there are none is an error. */
static int print_results(struct foldmill *sweep, const struct fm_arguments *a, bool must)
{
    struct fm_error err = {0};
    struct fm_board *board = NULL;
    char *text = NULL;
    struct fm_look look = fm_terminal_look(a);
    int rc = fm_board_read(sweep, &board, &err), code = 0;
    if (!rc)
        rc = a->json ? fm_board_json(board, 0, &text, &err) : fm_board_text(board, 0, &look, &text, &err);
    if (!rc)
        code = fm_output_text(text);
    else if (must)
        code = fm_complain(&err);
    fm_text_release(text);
    fm_board_free(board);
    return code;
}

/* Beside the results, which may be JSON. A lost device has nothing to tell any more. */
static void print_profile(struct foldmill *sweep)
{
    struct fm_error err = {0};
    char *text = NULL;
    if (fm_profile_text(sweep, &text, &err))
        fprintf(stderr, "foldmill: no profile: %s\n", err.text);
    else
        fputs(text, stderr);
    fm_text_release(text);
}

static int finish(struct foldmill *sweep, const struct fm_arguments *a, int rc, const char *summary,
                  struct fm_error *err)
{
    if (rc == FM_EINTERRUPTED) {
        /* Stopped before anything was written down there is nothing to print, and nothing is wrong. */
        if (print_results(sweep, a, false)) return 1;
        if (!a->quiet)
            fprintf(stderr, "foldmill: stopped%s%s; the same command goes on from here\n",
                    *summary ? ": " : "", summary);
        return fm_signals_exit_code();
    }
    if (rc == FM_EDEVICE && print_results(sweep, a, false)) return 1;
    bool over = rc == 0 || rc == FM_EFAILED || rc == FM_ESHAPE;
    int code = over ? print_results(sweep, a, true) : 0;
    if (code) return code;
    if (rc) return fm_complain(err);
    const char *journal = fm_journal_file(sweep);
    char shown[4096];
    if (!a->quiet) fprintf(stderr, "journal: %s\n", fm_show(journal, strlen(journal), shown, sizeof shown));
    return 0;
}

static int run(const struct fm_arguments *a)
{
    struct fm_error err = {0};
    struct foldmill *sweep = NULL;
    if (fm_command_open(a, &sweep, &err)) return fm_complain(&err);
    char summary[160];
    struct fm_display *display = fm_display_new(a);
    struct fm_callbacks callbacks = {
        .status = fm_display_status, .message = fm_display_message, .context = display};
    fm_signals_begin(sweep);
    int rc = fm_run(sweep, &callbacks, &err);
    fm_signals_end();
    snprintf(summary, sizeof summary, "%s", fm_display_summary(display));
    fm_display_free(display);
    int code = finish(sweep, a, rc, summary, &err);
    if (a->profile && (rc == 0 || rc == FM_EINTERRUPTED || rc == FM_EFAILED)) print_profile(sweep);
    fm_close(sweep);
    return code;
}

const struct fm_command fm_command_run = {
    .name = "run",
    .arguments = "FILE",
    .summary = "train every trial on every fold; run again, it goes on where it stopped",
    .details = "Results go to standard output, progress to standard error. Ctrl-C once stops at the next "
               "safe point and\n"
               "keeps everything, twice stops at once; the same command goes on.\n"
               "Exit codes: 0 finished (also if some trials failed or are invalid); 1 needs a person (disk, "
               "permission),\n"
               "or every valid trial failed; 2 usage, a bad file, or no valid trial; 75 call again (SIGTERM, "
               "journal in\n"
               "use, lost device); 130 after Ctrl-C.\n",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
