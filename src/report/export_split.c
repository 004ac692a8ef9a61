/* `split`: a line per validation example. */
#include "report/export.h"
#include "report/place.h"

int fm_export_split(const struct fm_prepared *p, const struct fm_writer *out, struct fm_error *err)
{
    static const char *const head[] = {"repeat", "fold", "example", "record", "start"};
    const struct fm_view *view = &p->views[p->longest];
    const struct fm_split *split = &p->splits[0];
    struct fm_rows csv;
    char id[24];
    fm_rows_init(&csv, out);
    for (int i = 0; i < 5; i++) fm_rows_text(&csv, head[i]);
    fm_rows_end(&csv);
    for (int64_t f = 0; f < split->repeats * split->folds && !csv.failed; f++) {
        const struct fm_fold *fold = &split->fold[f];
        struct fm_cursor cursor = {0};
        int64_t example;
        while (!csv.failed && fm_indexset_next(&fold->val, &cursor, &example)) {
            struct fm_place place;
            fm_place_of(view, example, &place);
            fm_rows_integer(&csv, fold->repeat);
            fm_rows_integer(&csv, fold->fold);
            fm_rows_integer(&csv, example);
            fm_rows_text(&csv, fm_dataset_record_id(p->views[p->longest].data, place.record, id, sizeof id));
            fm_rows_integer(&csv, place.start);
            fm_rows_end(&csv);
        }
    }
    return fm_rows_fini(&csv, err);
}
