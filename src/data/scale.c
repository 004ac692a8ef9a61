/* Scales as scikit-learn's StandardScaler, MinMaxScaler and RobustScaler fit them, on stored numbers in
 * double, over the positions that a bitmap marks. Stored numbers are x - offset, so no digits are lost to a
 * large offset; two passes, so none are lost to a large mean. Quantiles are exact: floats are ordered as
 * whole numbers are, and two histograms of 16 bits each find the k-th smallest without sorting or copying. */
#include "data/split.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/bits.h"
#include "data/sharing.h"

#include <math.h>
#include <string.h>

/* Sums are kept over this many positions before they are added to the total, so that rounding does not grow.
 */
enum { CHUNK = 1024 };

struct fit {
    const struct fm_dataset *data;
    uint64_t *bits;
    int64_t count;           /* positions marked */
    enum fm_scale *kinds;    /* [C] */
    double *sum, *partial;   /* [C] */
    double *mean, *variance; /* [C] */
    float *low, *high;       /* [C] */
};

/* ---- which scale each channel has ---- */

static bool matches(const struct fm_node *pattern, const char *name)
{
    size_t size = pattern->size;
    if (size > 0 && pattern->text[size - 1] == '*') return strncmp(pattern->text, name, size - 1) == 0;
    return strcmp(pattern->text, name) == 0;
}

static int unknown_column(const struct fm_dataset *data, const struct fm_node *column, struct fm_error *err)
{
    const char *nearest = NULL;
    if (data->channel_names)
        nearest = fm_nearest(column->text, (const char *const *)data->channel_names, (size_t)data->channels);
    return fm_fail_at(err, FM_EFILE, column->file, column->line, column->column,
                      nearest ? "data.scale names '%s', which is not a feature; did you mean '%s'?"
                              : "data.scale names '%s', which is not a feature%s",
                      column->text, nearest ? nearest : "");
}

/* A map per column: an exact name before a pattern, an earlier pattern before a later one. */
static int choose_kinds(const struct fm_dataset *data, const struct fm_data_config *config,
                        enum fm_scale *kinds, struct fm_error *err)
{
    for (int64_t c = 0; c < data->channels; c++) kinds[c] = config->scale;
    for (int exact = 0; exact <= 1; exact++) {
        for (size_t i = config->scale_count; i-- > 0;) {
            const struct fm_node *column = config->scale_columns[i].column;
            bool pattern = column->size > 0 && column->text[column->size - 1] == '*', found = false;
            if (pattern == (exact == 1)) continue;
            for (int64_t c = 0; data->channel_names && c < data->channels; c++) {
                if (!matches(column, data->channel_names[c])) continue;
                kinds[c] = config->scale_columns[i].scale;
                found = true;
            }
            if (!found) return unknown_column(data, column, err);
        }
    }
    return 0;
}

/* ---- passes over the marked positions ---- */

static bool next_range(const struct fit *f, int64_t *at, int64_t *first, int64_t *count)
{
    *first = fm_bits_next_one(f->bits, *at, f->data->positions);
    if (*first >= f->data->positions) return false;
    int64_t limit = f->data->positions - *first < CHUNK ? f->data->positions : *first + CHUNK;
    *at = fm_bits_next_zero(f->bits, *first, limit);
    *count = *at - *first;
    return true;
}

static void pass_mean(struct fit *f)
{
    int64_t channels = f->data->channels, at = 0, first, count, held = 0;
    for (int64_t c = 0; c < channels; c++) {
        f->sum[c] = f->partial[c] = 0;
        f->low[c] = INFINITY;
        f->high[c] = -INFINITY;
    }
    while (next_range(f, &at, &first, &count)) {
        const float *row = f->data->values + first * channels;
        for (int64_t i = 0; i < count; i++, row += channels) {
            for (int64_t c = 0; c < channels; c++) {
                f->partial[c] += row[c];
                if (row[c] < f->low[c]) f->low[c] = row[c];
                if (row[c] > f->high[c]) f->high[c] = row[c];
            }
        }
        held += count;
        f->count += count;
        if (held < CHUNK) continue;
        held = 0;
        for (int64_t c = 0; c < channels; c++) {
            f->sum[c] += f->partial[c];
            f->partial[c] = 0;
        }
    }
    for (int64_t c = 0; c < channels; c++) f->mean[c] = (f->sum[c] + f->partial[c]) / (double)f->count;
}

static void pass_variance(struct fit *f)
{
    int64_t channels = f->data->channels, at = 0, first, count, held = 0;
    for (int64_t c = 0; c < channels; c++) f->sum[c] = f->partial[c] = 0;
    while (next_range(f, &at, &first, &count)) {
        const float *row = f->data->values + first * channels;
        for (int64_t i = 0; i < count; i++, row += channels) {
            for (int64_t c = 0; c < channels; c++) {
                double d = row[c] - f->mean[c];
                f->partial[c] += d * d;
            }
        }
        held += count;
        if (held < CHUNK) continue;
        held = 0;
        for (int64_t c = 0; c < channels; c++) {
            f->sum[c] += f->partial[c];
            f->partial[c] = 0;
        }
    }
    for (int64_t c = 0; c < channels; c++) f->variance[c] = (f->sum[c] + f->partial[c]) / (double)f->count;
}

/* ---- quantiles ---- */

enum { BINS = 1 << 16, RANKS = 6 };

static uint32_t order_key(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
}

static float key_value(uint32_t key)
{
    uint32_t bits = key >> 31 ? key & ~(UINT32_C(1) << 31) : ~key;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Finds the bin that holds the rank-th number (from 0); `rank` becomes the rank inside it. */
static uint32_t find_bin(const int64_t *bins, int64_t *rank)
{
    uint32_t bin = 0;
    while (bin < BINS - 1 && *rank >= bins[bin]) *rank -= bins[bin++];
    return bin;
}

static void histogram(const struct fit *f, int64_t channel, const uint32_t *high, int nhigh, int64_t *bins)
{
    int64_t channels = f->data->channels, at = 0, first, count;
    while (next_range(f, &at, &first, &count)) {
        const float *x = f->data->values + first * channels + channel;
        for (int64_t i = 0; i < count; i++, x += channels) {
            uint32_t key = order_key(*x);
            if (nhigh == 0) bins[key >> 16]++;
            for (int k = 0; k < nhigh; k++) {
                if (key >> 16 == high[k]) bins[(size_t)k * BINS + (key & 0xFFFF)]++;
            }
        }
    }
}

/* value[i] = the ranks[i]-th smallest of one channel. */
static int select_ranks(const struct fit *f, int64_t channel, int64_t ranks[RANKS], double value[RANKS],
                        struct fm_error *err)
{
    uint32_t high[RANKS], bin[RANKS];
    int which[RANKS], nhigh = 0;
    int64_t *bins = fm_calloc(BINS, sizeof *bins);
    if (!bins) return fm_fail_memory(err);
    histogram(f, channel, NULL, 0, bins);
    for (int i = 0; i < RANKS; i++) {
        bin[i] = find_bin(bins, &ranks[i]);
        which[i] = 0;
        while (which[i] < nhigh && high[which[i]] != bin[i]) which[i]++;
        if (which[i] == nhigh) high[nhigh++] = bin[i];
    }
    fm_free(bins);
    bins = fm_calloc((size_t)nhigh * BINS, sizeof *bins);
    if (!bins) return fm_fail_memory(err);
    histogram(f, channel, high, nhigh, bins);
    for (int i = 0; i < RANKS; i++) {
        uint32_t low = find_bin(bins + (size_t)which[i] * BINS, &ranks[i]);
        value[i] = key_value(bin[i] << 16 | low);
    }
    fm_free(bins);
    return 0;
}

/* NumPy's linear quantiles: 25 %, 50 %, 75 %. */
static int quartiles(const struct fit *f, int64_t channel, double q[3], struct fm_error *err)
{
    int64_t ranks[RANKS];
    double value[RANKS], part[3];
    for (int i = 0; i < 3; i++) {
        double place = (double)(f->count - 1) * 0.25 * (i + 1);
        int64_t below = (int64_t)place;
        ranks[2 * i] = below;
        ranks[2 * i + 1] = below + 1 < f->count ? below + 1 : below;
        part[i] = place - (double)below;
    }
    int status = select_ranks(f, channel, ranks, value, err);
    for (int i = 0; status == 0 && i < 3; i++) {
        double a = value[2 * i], b = value[2 * i + 1];
        q[i] = part[i] >= 0.5 ? b - (b - a) * (1 - part[i]) : a + (b - a) * part[i];
    }
    return status;
}

/* ---- results ---- */

static void note_constant(const struct fit *f, int64_t channel, bool quartiles_equal, double x,
                          struct fm_notes *notes)
{
    char number[FM_NUMBER_TEXT], name[80];
    if (f->data->channel_names) {
        const char *own = f->data->channel_names[channel];
        fm_show(own, strlen(own), name, sizeof name);
    } else {
        fm_format_number((double)channel, name);
    }
    fm_format_float((float)x, number);
    if (quartiles_equal) {
        fm_note(notes, FM_WARNING,
                "feature '%s' has no spread between its quartiles (both %s) in some training part: it is "
                "shifted, "
                "not scaled",
                name, number);
    } else {
        fm_note(notes, FM_WARNING,
                "feature '%s' is constant (%s) in some training part: it becomes 0 there and tells the "
                "network nothing",
                name, number);
    }
}

static int finish_channel(const struct fit *f, int64_t c, struct fm_fold *fold, struct fm_notes *notes,
                          struct fm_error *err)
{
    double offset = f->data->offset ? f->data->offset[c] : 0, center = -offset, divisor = 1, q[3];
    bool constant = f->low[c] == f->high[c];
    int status;
    if (f->kinds[c] == FM_SCALE_STANDARD) {
        center = constant ? f->low[c] : f->mean[c];
        divisor = sqrt(f->variance[c]);
    } else if (f->kinds[c] == FM_SCALE_MINMAX) {
        center = f->low[c];
        divisor = (double)f->high[c] - (double)f->low[c];
    } else if (f->kinds[c] == FM_SCALE_ROBUST) {
        if ((status = quartiles(f, c, q, err)) != 0) return status;
        center = q[1];
        divisor = q[2] - q[0];
    }
    if (f->kinds[c] != FM_SCALE_NONE && (constant || isinf((float)(1 / divisor)))) {
        /* A spread may also round to zero in the squares, or be so small that a float cannot hold its
         * inverse: such a channel is as good as constant. */
        divisor = 1;
        note_constant(f, c, !constant && f->kinds[c] == FM_SCALE_ROBUST, center + offset, notes);
    }
    fold->shift[c] = (float)center;
    fold->factor[c] = (float)(1 / divisor);
    fold->scale_center[c] = center + offset;
    fold->scale_divisor[c] = divisor;
    return 0;
}

static int fit_allocate(struct fit *f, struct fm_fold *fold, struct fm_error *err)
{
    size_t c = (size_t)f->data->channels;
    f->kinds = fm_calloc(c, sizeof *f->kinds);
    f->sum = fm_calloc(c, sizeof(double));
    f->partial = fm_calloc(c, sizeof(double));
    f->mean = fm_calloc(c, sizeof(double));
    f->variance = fm_calloc(c, sizeof(double));
    f->low = fm_calloc(c, sizeof(float));
    f->high = fm_calloc(c, sizeof(float));
    fold->shift = fm_calloc(c, sizeof(float));
    fold->factor = fm_calloc(c, sizeof(float));
    fold->scale_center = fm_calloc(c, sizeof(double));
    fold->scale_divisor = fm_calloc(c, sizeof(double));
    bool good = f->kinds && f->sum && f->partial && f->mean && f->variance && f->low && f->high &&
                fold->shift && fold->factor && fold->scale_center && fold->scale_divisor;
    return good ? 0 : fm_fail_memory(err);
}

static void fit_fini(struct fit *f)
{
    fm_free(f->bits);
    fm_free(f->kinds);
    fm_free(f->sum);
    fm_free(f->partial);
    fm_free(f->mean);
    fm_free(f->variance);
    fm_free(f->low);
    fm_free(f->high);
}

static int mark_positions(struct fit *f, const struct fm_fold *fold, const struct fm_view *longest, bool all,
                          struct fm_error *err)
{
    const struct fm_dataset *data = f->data;
    f->bits = fm_calloc((size_t)fm_bits_words(data->positions), sizeof *f->bits);
    if (!f->bits) return fm_fail_memory(err);
    if (!all) {
        fm_cover(data, longest->examples, &fold->train, longest->lead, longest->length - 1 - longest->lead,
                 f->bits);
        return 0;
    }
    for (int64_t r = 0; r < data->nrecords; r++)
        fm_bits_set_range(f->bits, data->starts[r], data->starts[r] + fm_dataset_record_length(data, r));
    return 0;
}

static bool any_scale(const struct fit *f)
{
    for (int64_t c = 0; c < f->data->channels; c++) {
        if (f->kinds[c] != FM_SCALE_NONE) return true;
    }
    return false;
}

int fm_fold_fit_scale(struct fm_fold *fold, const struct fm_view *longest,
                      const struct fm_data_config *config, struct fm_notes *notes, struct fm_error *err)
{
    struct fit f = {.data = longest->data};
    if (f.data->alphabet > 0) {
        const struct fm_node *where = config->where;
        if (config->scale == FM_SCALE_NONE && config->scale_count == 0) return 0;
        return fm_fail_at(err, FM_EFILE, where ? where->file : NULL, where ? where->line : 0,
                          where ? where->column : 0, "data.scale is for numbers; letters cannot be scaled");
    }
    int status = fit_allocate(&f, fold, err);
    if (status == 0) status = choose_kinds(f.data, config, f.kinds, err);
    if (status == 0 && any_scale(&f)) {
        if (config->scale_fit_all)
            fm_note(
                notes, FM_WARNING,
                "scale_fit: all: the scale is fitted on all positions, those that folds validate included");
        status = mark_positions(&f, fold, longest, config->scale_fit_all, err);
        if (status == 0) {
            pass_mean(&f);
            pass_variance(&f);
        }
    }
    for (int64_t c = 0; status == 0 && c < f.data->channels; c++)
        status = finish_channel(&f, c, fold, notes, err);
    fit_fini(&f);
    return status;
}
