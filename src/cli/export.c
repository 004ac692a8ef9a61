/* foldmill export: results as CSV and .npz. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/terminal.h"

static const struct fm_option options[] = {
    {"trials", 0, FM_OPTION_TRIALS, NULL, "CSV, one line a trial"},
    {"runs", 0, FM_OPTION_RUNS, NULL, "CSV, one line a run, measures at the scored epoch"},
    {"history", 0, FM_OPTION_HISTORY, NULL, "CSV, one line an epoch"},
    {"predictions", 0, FM_OPTION_PREDICTIONS, NULL,
     "CSV, out-of-fold predictions of the kept trials; reads the data"},
    {"weights", 0, FM_OPTION_WEIGHTS, "DIR", "one .npz per run of the kept trials into DIR"},
    FM_JOURNAL_OPTION,
    FM_SET_OPTION,
    {"quiet", 'q', FM_OPTION_QUIET, NULL, "no notes"},
    FM_COMMON_OPTIONS,
};

static int export_weights(const struct fm_arguments *a)
{
    struct fm_error err = {0};
    struct foldmill *sweep = NULL;
    int64_t count = 0;
    int rc = fm_open_results(&sweep, a->words[0], a->journal, &err);
    if (!rc) rc = fm_export_weights(sweep, a->weights, &count, &err);
    char shown[4096];
    if (!rc && !a->quiet)
        fprintf(stderr, "%" PRId64 " files in %s\n", count,
                fm_show(a->weights, strlen(a->weights), shown, sizeof shown));
    fm_close(sweep);
    return rc ? fm_complain(&err) : 0;
}

/* Only predictions need the sweep file and the data. */
static int export_csv(const struct fm_arguments *a, enum fm_export what)
{
    struct fm_error err = {0};
    struct foldmill *sweep = NULL;
    struct fm_writer out = fm_output_writer();
    int rc = what == FM_EXPORT_PREDICTIONS ? fm_command_open(a, &sweep, &err)
                                           : fm_open_results(&sweep, a->words[0], a->journal, &err);
    if (!rc) rc = fm_export_csv(sweep, what, &out, &err);
    fm_close(sweep);
    return rc ? fm_complain(&err) : 0;
}

static int run(const struct fm_arguments *a)
{
    switch (a->exports) {
    case 1u << FM_OPTION_TRIALS: return export_csv(a, FM_EXPORT_TRIALS);
    case 1u << FM_OPTION_RUNS: return export_csv(a, FM_EXPORT_RUNS);
    case 1u << FM_OPTION_HISTORY: return export_csv(a, FM_EXPORT_HISTORY);
    case 1u << FM_OPTION_PREDICTIONS: return export_csv(a, FM_EXPORT_PREDICTIONS);
    case 1u << FM_OPTION_WEIGHTS: return export_weights(a);
    default: break;
    }
    struct fm_error err = {0};
    fm_fail(&err, FM_EUSAGE,
            "foldmill export writes one thing at a time: --trials, --runs, --history, --predictions or "
            "--weights DIR");
    return fm_complain(&err);
}

const struct fm_command fm_command_export = {
    .name = "export",
    .arguments = "FILE",
    .summary = "write results as CSV to standard output, or weights as .npz",
    .details = "predictions: trial,repeat,fold,record,position,y,p_<class>...\n"
               "weights: DIR/trial<n>_repeat<r>_fold<f>.npz, float32 in Keras's shapes, keys "
               "<index>_<layer>/<variable>,\n"
               "index = place in the model. In Python: w = numpy.load(name); model.layers[0].set_weights(\n"
               "[w['0_conv1d/kernel'], w['0_conv1d/bias']])\n",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
