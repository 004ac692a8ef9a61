/* scikit-learn's definitions, from a confusion matrix and from scores. Counts are exact; each metric is then
 * a few double operations, so nothing depends on the order in which examples were evaluated. */
#include "train/metrics.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/auc.h"

#define BIT(metric) (1u << (metric))
#define RANKED      (BIT(FM_METRIC_AUC) | BIT(FM_METRIC_PR_AUC))
#define OF_NUMBERS  (BIT(FM_METRIC_MSE) | BIT(FM_METRIC_MAE) | BIT(FM_METRIC_R2))
#define OF_TWO      (BIT(FM_METRIC_PRECISION) | BIT(FM_METRIC_RECALL) | BIT(FM_METRIC_F1))
#define COUNTED                                                                                              \
    (BIT(FM_METRIC_ACCURACY) | BIT(FM_METRIC_BALANCED_ACCURACY) | BIT(FM_METRIC_MACRO_F1) |                  \
     BIT(FM_METRIC_MCC))

int64_t fm_metrics_classes(const struct fm_dataset *data)
{
    return data->distribution ? data->target_width : data->nclasses;
}

uint32_t fm_metrics_fitting(int64_t nclasses)
{
    if (nclasses == 0) return BIT(FM_METRIC_LOSS) | OF_NUMBERS;
    return BIT(FM_METRIC_LOSS) | COUNTED | RANKED | (nclasses == 2 ? OF_TWO : 0);
}

uint32_t fm_metrics_of_scores(void)
{
    return RANKED | BIT(FM_METRIC_R2);
}

/* Where examples, their targets and their scores come from: a part of a view, or plain arrays. */
struct source {
    const struct fm_view *view;
    const struct fm_indexset *part;
    const uint32_t *classes;
    const float *targets;
    const float *scores;
    int64_t n, nclasses, width, target_width;
};

/* Targets are read in order of the examples only. */
struct walk {
    struct fm_cursor cursor;
    int64_t i;
};

static bool next_example(const struct source *s, struct walk *w, int64_t *example)
{
    if (s->view) return fm_indexset_next(s->part, &w->cursor, example);
    *example = w->i;
    return w->i++ < s->n;
}

uint32_t fm_metrics_class(const struct fm_view *view, int64_t example)
{
    if (!view->data->distribution) return fm_packed_get(&view->classes, example);
    const float *shares = view->values + example * view->width;
    uint32_t best = 0;
    for (int64_t c = 1; c < view->width; c++)
        if (shares[c] > shares[best]) best = (uint32_t)c;
    return best;
}

static uint32_t class_of(const struct source *s, int64_t example)
{
    return s->view ? fm_metrics_class(s->view, example) : s->classes[example];
}

/* What decides between this class and the rest. Two logits decide by their difference. */
static float score_of(const struct source *s, int64_t i, int64_t c)
{
    const float *row = s->scores + i * s->width;
    if (s->width == 1) return row[0];
    return s->nclasses == 2 ? row[1] - row[0] : row[c];
}

static void clear(struct fm_measured *out)
{
    for (int m = 0; m < FM_METRICS; m++) out->value[m] = NAN;
}

static bool any_nan(const float *scores, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (isnan(scores[i])) return true;
    return false;
}

/* ---- from the confusion matrix ---- */

struct tally {
    int64_t n, right, classes_true, classes_seen; /* seen: true or predicted at least once */
    double recalls, f1s;                          /* sums over classes */
    __int128 rows_columns, rows_squared, columns_squared;
};

static double ratio(int64_t part, int64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static void tally(struct tally *t, const int64_t *confusion, int64_t k)
{
    *t = (struct tally){0};
    for (int64_t c = 0; c < k; c++) {
        int64_t row = 0, column = 0, hit = confusion[c * k + c];
        for (int64_t j = 0; j < k; j++) {
            row += confusion[c * k + j];
            column += confusion[j * k + c];
        }
        t->n += row;
        t->right += hit;
        t->classes_true += row > 0;
        t->classes_seen += row + column > 0;
        t->recalls += ratio(hit, row);
        t->f1s += ratio(2 * hit, row + column);
        t->rows_columns += (__int128)row * column;
        t->rows_squared += (__int128)row * row;
        t->columns_squared += (__int128)column * column;
    }
}

/* Matthews's coefficient for any number of classes; 0 where a side never varies. */
static double matthews(const struct tally *t)
{
    __int128 n2 = (__int128)t->n * t->n;
    double together = (double)((__int128)t->right * t->n - t->rows_columns);
    double apart = sqrt((double)(n2 - t->columns_squared)) * sqrt((double)(n2 - t->rows_squared));
    return apart > 0 ? together / apart : 0;
}

static void from_confusion(const int64_t *confusion, int64_t k, uint32_t wanted, struct fm_measured *out)
{
    struct tally t;
    double *v = out->value;
    tally(&t, confusion, k);
    if (t.n == 0) return;
    if (wanted & BIT(FM_METRIC_ACCURACY)) v[FM_METRIC_ACCURACY] = ratio(t.right, t.n);
    if (wanted & BIT(FM_METRIC_BALANCED_ACCURACY))
        v[FM_METRIC_BALANCED_ACCURACY] = t.recalls / (double)t.classes_true;
    if (wanted & BIT(FM_METRIC_MACRO_F1)) v[FM_METRIC_MACRO_F1] = t.f1s / (double)t.classes_seen;
    if (wanted & BIT(FM_METRIC_MCC)) v[FM_METRIC_MCC] = matthews(&t);
    if (k != 2) return;
    int64_t hit = confusion[3], alarm = confusion[1], miss = confusion[2];
    if (wanted & BIT(FM_METRIC_PRECISION)) v[FM_METRIC_PRECISION] = ratio(hit, hit + alarm);
    if (wanted & BIT(FM_METRIC_RECALL)) v[FM_METRIC_RECALL] = ratio(hit, hit + miss);
    if (wanted & BIT(FM_METRIC_F1)) v[FM_METRIC_F1] = ratio(2 * hit, 2 * hit + alarm + miss);
}

/* ---- from scores ---- */

static void rank_class(const struct source *s, int64_t c, struct fm_ranking *ranking, float *scratch)
{
    struct walk w = {0};
    int64_t example, i = 0;
    fm_ranking_init(ranking, scratch, s->n);
    while (next_example(s, &w, &example)) {
        fm_ranking_add(ranking, score_of(s, i, c), class_of(s, example) == (uint32_t)c);
        i++;
    }
}

static int from_ranking(const struct source *s, uint32_t wanted, struct fm_measured *out,
                        struct fm_error *err)
{
    int64_t first = s->nclasses == 2 ? 1 : 0, count = s->nclasses == 2 ? 1 : s->nclasses;
    double auc = 0, precision = 0;
    float *scratch = fm_malloc((size_t)s->n, sizeof *scratch);
    if (!scratch) return fm_fail_memory(err);
    for (int64_t c = first; c < s->nclasses; c++) {
        struct fm_ranking ranking;
        rank_class(s, c, &ranking, scratch);
        if (wanted & BIT(FM_METRIC_AUC)) auc += fm_ranking_auc(&ranking);
        if (wanted & BIT(FM_METRIC_PR_AUC)) precision += fm_ranking_average_precision(&ranking);
    }
    fm_free(scratch);
    if (wanted & BIT(FM_METRIC_AUC)) out->value[FM_METRIC_AUC] = auc / (double)count;
    if (wanted & BIT(FM_METRIC_PR_AUC)) out->value[FM_METRIC_PR_AUC] = precision / (double)count;
    return 0;
}

static double target_of(const struct source *s, int64_t example, int64_t output)
{
    const float *values = s->view ? s->view->values : s->targets;
    return values[example * s->target_width + output];
}

/* Sums of one output over the part: of squared and absolute errors, and of the target's deviations squared.
 */
static void sum_output(const struct source *s, int64_t output, double *squares, double *absolutes,
                       double *spread)
{
    struct walk w = {0};
    int64_t example, i = 0;
    double sum = 0, mean;
    *squares = *absolutes = *spread = 0;
    while (next_example(s, &w, &example)) {
        double y = target_of(s, example, output), error = y - s->scores[i++ * s->width + output];
        sum += y;
        *squares += error * error;
        *absolutes += fabs(error);
    }
    mean = sum / (double)s->n;
    w = (struct walk){0};
    while (next_example(s, &w, &example)) {
        double deviation = target_of(s, example, output) - mean;
        *spread += deviation * deviation;
    }
}

/* As r2_score with force_finite: constant targets give 1 when they are met exactly, else 0. */
static void from_errors(const struct source *s, uint32_t wanted, bool all, struct fm_measured *out)
{
    double r2 = 0, squares = 0, absolutes = 0, outputs = (double)s->width;
    for (int64_t o = 0; o < s->width; o++) {
        double square, absolute, spread;
        sum_output(s, o, &square, &absolute, &spread);
        squares += square;
        absolutes += absolute;
        if (isnan(square))
            r2 = NAN;
        else
            r2 += spread > 0 ? 1 - square / spread : square == 0;
    }
    if (s->n >= 2 && wanted & BIT(FM_METRIC_R2)) out->value[FM_METRIC_R2] = r2 / outputs;
    if (!all) return;
    if (wanted & BIT(FM_METRIC_MSE)) out->value[FM_METRIC_MSE] = squares / ((double)s->n * outputs);
    if (wanted & BIT(FM_METRIC_MAE)) out->value[FM_METRIC_MAE] = absolutes / ((double)s->n * outputs);
}

int fm_metrics_measure(const struct fm_metrics_input *in, struct fm_measured *out, struct fm_error *err)
{
    const struct fm_view *view = in->view;
    struct source s = {.view = view,
                       .part = in->part,
                       .scores = in->scores,
                       .n = in->part->count,
                       .nclasses = fm_metrics_classes(view->data),
                       .width = in->width,
                       .target_width = view->width};
    uint32_t wanted = in->wanted & fm_metrics_fitting(s.nclasses);
    clear(out);
    out->value[FM_METRIC_LOSS] = in->loss;
    if (s.n == 0) return 0;
    if (s.nclasses) {
        if (isnan(in->loss) || (s.scores && any_nan(s.scores, s.n * s.width))) return 0;
        if (in->confusion) from_confusion(in->confusion, s.nclasses, wanted, out);
        return s.scores && wanted & RANKED ? from_ranking(&s, wanted, out, err) : 0;
    }
    double values = (double)s.n * (double)s.width;
    if (wanted & BIT(FM_METRIC_MSE)) out->value[FM_METRIC_MSE] = in->square_sum / values;
    if (wanted & BIT(FM_METRIC_MAE)) out->value[FM_METRIC_MAE] = in->absolute_sum / values;
    if (s.scores && wanted & BIT(FM_METRIC_R2)) from_errors(&s, wanted, false, out);
    return 0;
}

/* ---- pooled ---- */

static int64_t predicted(const struct source *s, int64_t i)
{
    const float *row = s->scores + i * s->width;
    if (s->width == 1) return row[0] > 0.5f;
    int64_t best = 0;
    for (int64_t c = 1; c < s->width; c++)
        if (row[c] > row[best]) best = c;
    return best;
}

static int pooled_classes(const struct source *s, uint32_t wanted, struct fm_measured *out,
                          int64_t *confusion, struct fm_error *err)
{
    int64_t k = s->nclasses, cells, *counts = confusion;
    if (!fm_multiply(k, k, &cells)) return fm_fail_memory(err);
    if (!counts) counts = fm_malloc((size_t)cells, sizeof *counts);
    if (!counts) return fm_fail_memory(err);
    for (int64_t i = 0; i < cells; i++) counts[i] = 0;
    for (int64_t i = 0; i < s->n; i++) counts[(int64_t)s->classes[i] * k + predicted(s, i)]++;
    bool known = !any_nan(s->scores, s->n * s->width);
    if (known) from_confusion(counts, k, wanted, out);
    if (counts != confusion) fm_free(counts);
    return known && wanted & RANKED ? from_ranking(s, wanted, out, err) : 0;
}

int fm_metrics_pooled(const uint32_t *classes, const float *targets, const float *scores, int64_t n,
                      int64_t nclasses, int64_t width, uint32_t wanted, struct fm_measured *out,
                      int64_t *confusion, struct fm_error *err)
{
    struct source s = {.classes = classes,
                       .targets = targets,
                       .scores = scores,
                       .n = n,
                       .nclasses = nclasses,
                       .width = width,
                       .target_width = width};
    wanted &= fm_metrics_fitting(nclasses);
    clear(out);
    if (n == 0) return 0;
    if (nclasses) return pooled_classes(&s, wanted, out, confusion, err);
    from_errors(&s, wanted, true, out);
    return 0;
}
