#include "data/steps.h"

#include "base/error.h"
#include "base/text.h"
#include "data/cells.h"
#include "data/columns.h"
#include "data/median.h"
#include "data/time.h"

struct step_reader {
    struct fm_csv csv;
    int time, key; /* key: record or group column, -1 = none */
    struct fm_text current;
    struct fm_time_reader *times;
    double last;
    bool has_last;
};

/* Forgets the time before when another record begins. */
static int follow_record(struct step_reader *r, struct fm_error *err)
{
    if (r->key < 0) return 0;
    struct fm_cell cell = fm_cell_at(&r->csv, r->key);
    if (r->has_last && fm_cell_is(cell, &r->current)) return 0;
    r->current.size = 0;
    fm_text_add_bytes(&r->current, cell.text, cell.size);
    r->has_last = false;
    return r->current.failed ? fm_fail_memory(err) : 0;
}

static int read_steps(struct step_reader *r, struct fm_median *m, struct fm_error *err)
{
    int more;
    while ((more = fm_csv_next(&r->csv, err)) == 1) {
        double time;
        struct fm_cell cell = fm_cell_at(&r->csv, r->time);
        int rc = follow_record(r, err);
        if (rc != 0) return rc;
        const char *wrong = fm_time_read(r->times, cell.text, cell.size, &time);
        if (wrong) {
            char shown[64];
            return fm_csv_fail(&r->csv, (size_t)r->time, err, "time: '%s' %s",
                               fm_show(cell.text, cell.size, shown, sizeof shown), wrong);
        }
        if (r->has_last && time > r->last && fm_median_add(m, time - r->last) != 0)
            return fm_fail_memory(err);
        r->last = time;
        r->has_last = true;
    }
    return more;
}

static int read_file(const struct fm_data_file *file, const struct fm_data_config *config,
                     struct fm_time_reader *times, struct fm_median *m, struct fm_error *err)
{
    const struct fm_node *key = config->record ? config->record : config->group;
    struct step_reader r = {.key = -1, .times = times};
    int rc = fm_csv_open(&r.csv, file, config, err);
    if (rc != 0) return rc;
    r.time = fm_column_find(&r.csv, file, config->time, "time", err);
    if (r.time < 0) rc = r.time;
    if (rc == 0 && key) {
        r.key = fm_column_find(&r.csv, file, key, config->record ? "record" : "group", err);
        if (r.key < 0) rc = r.key;
    }
    if (rc == 0) rc = read_steps(&r, m, err);
    fm_text_fini(&r.current);
    fm_csv_close(&r.csv);
    return rc;
}

int fm_csv_median_step(const struct fm_file_list *files, const struct fm_data_config *config, size_t limit,
                       double *median, struct fm_error *err)
{
    struct fm_median m;
    int rc = 0, again = 1;
    fm_median_init(&m, limit);
    while (rc == 0 && again == 1) {
        struct fm_time_reader times = {.decimal = config->decimal};
        for (size_t i = 0; rc == 0 && i < files->count; i++)
            rc = read_file(&files->files[i], config, &times, &m, err);
        if (rc == 0) again = fm_median_end_pass(&m);
        if (again < 0) rc = fm_fail_memory(err);
    }
    if (rc == 0) {
        *median = fm_median_value(&m);
        if (*median < 0) rc = fm_fail_memory(err);
    }
    fm_median_fini(&m);
    return rc;
}
