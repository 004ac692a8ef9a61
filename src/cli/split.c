/* foldmill split: the validation examples of every fold as CSV. */
#include "cli/commands.h"
#include "cli/terminal.h"

static const struct fm_option options[] = {
    FM_SET_OPTION,
    {"quiet", 'q', FM_OPTION_QUIET, NULL, "no notes"},
    FM_COMMON_OPTIONS,
};

static int run(const struct fm_arguments *a)
{
    struct fm_error err = {0};
    struct foldmill *sweep = NULL;
    struct fm_writer out = fm_output_writer();
    int rc = fm_command_open(a, &sweep, &err);
    if (!rc) rc = fm_split_csv(sweep, &out, &err);
    if (!rc) fm_command_notes(sweep, a);
    fm_close(sweep);
    return rc ? fm_complain(&err) : 0;
}

const struct fm_command fm_command_split = {
    .name = "split",
    .arguments = "FILE",
    .summary = "print every validation example as CSV: repeat,fold,example,record,start",
    .details = "start is the first position of the example's window in its record, from 0; below 0 where it "
               "begins in the\n"
               "padding. Where cv.seed is a parameter, the folds are those of the first trial's seed.\n",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
