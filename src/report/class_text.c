#include "report/look.h"
#include "report/table.h"
#include "report/trial_text.h"

#include <inttypes.h>

#include "base/memory.h"

#define CLASSES_SHOWN 40 /* wider matrices help nobody on a terminal */

static const char *class_name(const struct fm_board *board, int64_t i, char *buffer, size_t size)
{
    const char *name = board->classes[i];
    size_t length = 0;
    while (name[length]) length++;
    return fm_show(name, length, buffer, size);
}

static void add_matrix(struct fm_text *text, const struct fm_board *board, const int64_t *confusion,
                       const struct fm_look *look)
{
    int64_t k = board->nclasses;
    char name[24];
    struct fm_table table;
    fm_table_init(&table, (int)k + 1);
    table.left[0] = true;
    fm_table_cell(&table, "true \\ predicted");
    for (int64_t i = 0; i < k; i++) fm_table_cell(&table, "%s", class_name(board, i, name, sizeof name));
    for (int64_t i = 0; i < k; i++) {
        fm_table_cell(&table, "%s", class_name(board, i, name, sizeof name));
        for (int64_t j = 0; j < k; j++) fm_table_cell(&table, "%" PRId64, confusion[i * k + j]);
    }
    fm_table_print(&table, text, "  ", fm_look_bold(look), fm_look_off(look));
}

static double share(int64_t part, int64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* As scikit-learn's classification_report, with zero_division = 0. */
static void add_classes(struct fm_text *text, const struct fm_board *board, const int64_t *confusion,
                        const struct fm_look *look)
{
    int64_t k = board->nclasses;
    char name[40], buffer[3][FM_NUMBER_TEXT];
    struct fm_table table;
    fm_table_init(&table, 5);
    table.left[0] = true;
    static const char *const head[] = {"class", "precision", "recall", "f1", "examples"};
    for (int i = 0; i < 5; i++) fm_table_cell(&table, "%s", head[i]);
    for (int64_t i = 0; i < k; i++) {
        int64_t hits = confusion[i * k + i], truly = 0, said = 0;
        for (int64_t j = 0; j < k; j++) {
            truly += confusion[i * k + j];
            said += confusion[j * k + i];
        }
        fm_table_cell(&table, "%s", class_name(board, i, name, sizeof name));
        fm_table_cell(&table, "%s", fm_table_number(share(hits, said), buffer[0]));
        fm_table_cell(&table, "%s", fm_table_number(share(hits, truly), buffer[1]));
        fm_table_cell(&table, "%s", fm_table_number(share(2 * hits, said + truly), buffer[2]));
        fm_table_cell(&table, "%" PRId64, truly);
    }
    fm_table_print(&table, text, "  ", fm_look_bold(look), fm_look_off(look));
}

void fm_class_text(struct fm_text *text, const struct fm_board *board, const int64_t *confusion,
                   const struct fm_look *look)
{
    if (!confusion || !board->classes) return;
    fm_text_add_string(text, "\nConfusion matrix over all validation folds (rows: true class)\n");
    if (board->nclasses <= CLASSES_SHOWN)
        add_matrix(text, board, confusion, look);
    else
        fm_text_add(text, "  %" PRId64 " classes are too many to show here\n", board->nclasses);
    fm_text_add_string(text, "\n");
    add_classes(text, board, confusion, look);
}
