/* Results: from the journal, and for predictions from the data beside it. */
#include "api/handle.h"

#include "report/export.h"

int fm_board_read(struct foldmill *f, struct fm_board **board, struct fm_error *err)
{
    return fm_board_collect(board, f->journal, err);
}

static int export_board(struct foldmill *f, enum fm_export what, const struct fm_writer *out,
                        struct fm_error *err)
{
    struct fm_board *board = NULL;
    int rc = fm_board_collect(&board, f->journal, err);
    if (rc) return rc;
    switch (what) {
    case FM_EXPORT_TRIALS: rc = fm_export_trials(board, out, err); break;
    case FM_EXPORT_RUNS: rc = fm_export_runs(board, out, err); break;
    default: rc = fm_export_history(board, out, err); break;
    }
    fm_board_free(board);
    return rc;
}

int fm_export_csv(struct foldmill *f, enum fm_export what, const struct fm_writer *out, struct fm_error *err)
{
    switch (what) {
    case FM_EXPORT_TRIALS:
    case FM_EXPORT_RUNS:
    case FM_EXPORT_HISTORY: return export_board(f, what, out, err);
    case FM_EXPORT_PREDICTIONS: {
        struct fm_reader reader;
        int rc = fm_handle_needs_sweep(f, err);
        /* Say at once that there is nothing, before the data are read. */
        if (!rc) rc = fm_reader_open(&reader, f->journal, err);
        if (rc) return rc;
        fm_reader_close(&reader);
        rc = fm_handle_plan(f, err);
        return rc ? rc : fm_export_predictions(f->journal, &f->prepared, out, err);
    }
    }
    return fm_fail(err, FM_EUSAGE, "there is no such export");
}

int fm_export_weights(struct foldmill *f, const char *folder, int64_t *count, struct fm_error *err)
{
    if (count) *count = 0;
    if (!folder || !*folder) return fm_fail(err, FM_EUSAGE, "no folder for the weights was given");
    return fm_export_weights_to(f->journal, folder, count, err);
}
