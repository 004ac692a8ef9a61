/* foldmill plan: what would run; writes nothing. */
#include "cli/commands.h"
#include "cli/terminal.h"

static const struct fm_option options[] = {
    FM_SET_OPTION,
    FM_DEVICE_OPTIONS,
    FM_LANES_OPTIONS,
    {"json", 0, FM_OPTION_JSON, NULL, "print the plan as one JSON object"},
    {"explain", 0, FM_OPTION_EXPLAIN, NULL,
     "also tell how the device computes each network at each batch size"},
    FM_COMMON_OPTIONS,
};

static int run(const struct fm_arguments *a)
{
    struct fm_error err = {0};
    struct foldmill *sweep = NULL;
    char *text = NULL;
    struct fm_look look = fm_terminal_look(a);
    int rc = fm_command_open(a, &sweep, &err);
    if (!rc) rc = a->json ? fm_plan_json(sweep, &text, &err) : fm_plan_text(sweep, &look, &text, &err);
    /* A plan without a valid trial is printed too: it says why. */
    int code = text ? fm_output_text(text) : 0;
    if (rc && !code) code = fm_complain(&err);
    fm_text_release(text);
    fm_close(sweep);
    return code;
}

const struct fm_command fm_command_plan = {
    .name = "plan",
    .arguments = "FILE",
    .summary = "show trials, folds, leak counts, memory and expected time; writes nothing",
    .details = "Counts of a fold: train, val; purged and embargoed windows were left out of training because "
               "they share\n"
               "positions with validation windows; shared ones are still trained on; identical counts "
               "validation records\n"
               "whose input equals a training record's.\n",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
