/* foldmill show: the leaderboard, or one trial. */
#include "cli/commands.h"
#include "cli/terminal.h"

static const struct fm_option options[] = {
    FM_JOURNAL_OPTION,
    {"trial", 't', FM_OPTION_TRIAL, "N", "one trial: folds, curves, confusion matrix, events"},
    {"json", 0, FM_OPTION_JSON, NULL, "print one JSON object, as run --json"},
    FM_COMMON_OPTIONS,
};

static int run(const struct fm_arguments *a)
{
    struct fm_error err = {0};
    struct foldmill *sweep = NULL;
    struct fm_board *board = NULL;
    char *text = NULL;
    struct fm_look look = fm_terminal_look(a);
    int rc = fm_open_results(&sweep, a->words[0], a->journal, &err);
    if (!rc) rc = fm_board_read(sweep, &board, &err);
    if (!rc)
        rc = a->json ? fm_board_json(board, a->trial, &text, &err)
                     : fm_board_text(board, a->trial, &look, &text, &err);
    int code = rc ? fm_complain(&err) : fm_output_text(text);
    fm_text_release(text);
    fm_board_free(board);
    fm_close(sweep);
    return code;
}

const struct fm_command fm_command_show = {
    .name = "show",
    .arguments = "FILE",
    .summary = "print the leaderboard, also while the sweep runs; FILE is the sweep file or a journal",
    .details = NULL,
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
