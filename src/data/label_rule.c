#include "data/label_rule.h"

#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

/* Larger lengths and horizons mean a mistake; sums of a few of them cannot overflow. */
#define LONGEST ((int64_t)1 << 56)

struct fm_window_config fm_window_effective(const struct fm_data_config *config)
{
    struct fm_window_config window = config->window;
    if (!config->has_window) {
        window = (struct fm_window_config){.stride = 1, .align = FM_ALIGN_START, .edge = FM_EDGE_DROP};
    }
    if (!window.label_given) window.label = FM_LABEL_ANCHOR;
    if (window.stride < 1) window.stride = 1;
    return window;
}

int64_t fm_window_lead(enum fm_align align, int64_t length)
{
    if (align == FM_ALIGN_CENTER) return length / 2;
    return align == FM_ALIGN_END ? length - 1 : 0;
}

static bool reads_window(enum fm_label label)
{
    return label <= FM_LABEL_MAX;
}

void fm_label_rule_fill(struct fm_label_rule *rule, const struct fm_data_config *config, int64_t length)
{
    struct fm_window_config window = fm_window_effective(config);
    int64_t lead = fm_window_lead(window.align, length);
    *rule =
        (struct fm_label_rule){.label = window.label, .edge = window.edge, .length = length, .lead = lead};
    int64_t first = -lead, last = length - 1 - lead;
    if (window.horizon_range) {
        rule->lo = last + window.horizon_first;
        rule->hi = last + window.horizon_last;
    } else if (reads_window(window.label)) {
        rule->window = true;
        rule->shift = window.horizon_first;
        rule->lo = first + window.horizon_first;
        rule->hi = last + window.horizon_first;
    } else {
        int64_t at = 0;
        if (window.label == FM_LABEL_FIRST) at = first;
        if (window.label == FM_LABEL_CENTER) at = first + length / 2;
        if (window.label == FM_LABEL_LAST) at = last;
        rule->lo = rule->hi = at + window.horizon_first;
    }
    rule->before = lead > -rule->lo ? lead : -rule->lo;
    rule->after = last > rule->hi ? last : rule->hi;
}

static int rule_fail(const struct fm_data_config *config, struct fm_error *err, const char *text)
{
    const struct fm_node *where = config->window.where ? config->window.where : config->where;
    if (!where) return fm_fail(err, FM_EFILE, "%s", text);
    return fm_fail_at(err, FM_EFILE, where->file, where->line, where->column, "%s", text);
}

int fm_label_rule_init(struct fm_label_rule *rule, const struct fm_dataset *data,
                       const struct fm_data_config *config, int64_t length, struct fm_error *err)
{
    struct fm_window_config window = fm_window_effective(config);
    if (length < 1 || length > LONGEST) return rule_fail(config, err, "data.window.length must be 1 or more");
    if (window.horizon_first < -LONGEST || window.horizon_last > LONGEST ||
        window.horizon_first > window.horizon_last || window.stride > LONGEST)
        return rule_fail(config, err,
                         "data.window.horizon must be [a, b] with a not greater than b, and neither "
                         "it nor data.window.stride may be that large");
    fm_label_rule_fill(rule, config, length);
    if (config->has_window && !window.label_given && length > 1 && config->source != FM_SOURCE_SEQUENCES &&
        !data->target_per_record)
        return rule_fail(config, err,
                         "data.window.label is required when windows are longer than 1: any, all, "
                         "majority, mean, max, anchor, first, center or last");
    if (window.horizon_range && !reads_window(window.label))
        return rule_fail(config, err,
                         "data.window.horizon: [a, b] needs the label any, all, majority, mean or max");
    if (data->target_per_record) return 0;
    if ((window.label == FM_LABEL_ANY || window.label == FM_LABEL_ALL) && data->nclasses != 2)
        return rule_fail(config, err,
                         "data.window.label: any and all need exactly two classes; use majority for "
                         "more, mean or max for numbers");
    if (window.label == FM_LABEL_MAJORITY && data->nclasses == 0)
        return rule_fail(config, err,
                         "data.window.label: majority needs classes, but the loss reads the target as "
                         "numbers; use mean or max");
    if ((window.label == FM_LABEL_MEAN || window.label == FM_LABEL_MAX) && data->nclasses > 0)
        return rule_fail(config, err,
                         "data.window.label: mean and max need a target of numbers (loss mse, mae or "
                         "huber); use any, all or majority for classes");
    return 0;
}

void fm_label_valid_anchors(const struct fm_label_rule *rule, int64_t length, int64_t *from, int64_t *to)
{
    if (rule->edge == FM_EDGE_WRAP) return;
    bool low = true, high = true;
    if (rule->window) {
        /* The real positions are inside by definition; only their move can lead out, on its own side. */
        low = rule->shift < 0;
        high = rule->shift > 0;
    }
    if (low && *from < -rule->lo) *from = -rule->lo;
    if (high && *to > length - 1 - rule->hi) *to = length - 1 - rule->hi;
}

bool fm_dataset_lacks_targets(const struct fm_dataset *data)
{
    if (data->nclasses == 0) {
        int64_t rows = data->target_per_record ? data->nrecords : data->positions;
        int64_t width = data->target_width > 0 ? data->target_width : 1;
        for (int64_t i = 0; i < rows * width; i++) {
            if (isnan(data->target_values[i])) return true;
        }
        return false;
    }
    uint32_t none = (uint32_t)data->nclasses;
    if (data->classes.bits == 8 && none < 256)
        return memchr(data->classes.data, (int)none, (size_t)data->classes.count) != NULL;
    if (data->classes.bits == 1 && none > 1) return false;
    for (int64_t i = 0; i < data->classes.count; i++) {
        if (fm_packed_get(&data->classes, i) >= none) return true;
    }
    return false;
}

/* ---- the walk ---- */

static bool walk_counts(const struct fm_label_walk *walk)
{
    return walk->data->nclasses > 0 && !walk->data->target_per_record && (reads_window(walk->rule.label));
}

static bool walk_sums(const struct fm_label_walk *walk)
{
    return walk->data->nclasses == 0 && !walk->data->target_per_record && reads_window(walk->rule.label);
}

int fm_label_walk_init(struct fm_label_walk *walk, const struct fm_dataset *data,
                       const struct fm_label_rule *rule, struct fm_error *err)
{
    *walk = (struct fm_label_walk){.data = data, .rule = *rule, .record = -1};
    if (walk_counts(walk)) {
        walk->leaves = 1;
        while (walk->leaves < data->nclasses) walk->leaves *= 2;
        walk->counts = fm_calloc((size_t)walk->leaves, sizeof *walk->counts);
        walk->tree = fm_calloc((size_t)walk->leaves * 2, sizeof *walk->tree);
        if (!walk->counts || !walk->tree) {
            fm_label_walk_fini(walk);
            return fm_fail_memory(err);
        }
    } else if (walk_sums(walk)) {
        int64_t longest = 0;
        for (int64_t r = 0; r < data->nrecords; r++) {
            int64_t length = fm_dataset_record_length(data, r);
            if (length > longest) longest = length;
        }
        int64_t span = rule->hi - rule->lo + 1;
        walk->front_capacity = span < longest ? span : longest;
        walk->front = fm_malloc((size_t)walk->front_capacity, sizeof *walk->front);
        if (!walk->front) return fm_fail_memory(err);
    }
    return 0;
}

void fm_label_walk_fini(struct fm_label_walk *walk)
{
    fm_free(walk->counts);
    fm_free(walk->tree);
    fm_free(walk->front);
    *walk = (struct fm_label_walk){0};
}

static int64_t modulo(int64_t a, int64_t n)
{
    int64_t rest = a % n;
    return rest < 0 ? rest + n : rest;
}

/* Numbers of the class of the best subtree; leaves are classes, the lower class wins a tie. */
static void tree_update(struct fm_label_walk *walk, int64_t class)
{
    int64_t node = class + walk->leaves;
    walk->tree[node] = class;
    for (node /= 2; node >= 1; node /= 2) {
        int64_t a = walk->tree[2 * node], b = walk->tree[2 * node + 1];
        walk->tree[node] = walk->counts[b] > walk->counts[a] ? b : a;
    }
}

static void count_class(struct fm_label_walk *walk, int64_t at, int64_t by)
{
    uint32_t class = fm_packed_get(&walk->data->classes, walk->base + at);
    if (class >= (uint64_t)walk->data->nclasses) return;
    walk->counts[class] += by;
    walk->counted += by;
    if (walk->rule.label == FM_LABEL_MAJORITY) tree_update(walk, class);
}

/* Numbers that are not there add nothing. */
static double number_at(const struct fm_label_walk *walk, int64_t at)
{
    float x = walk->data->target_values[walk->base + at];
    if (isnan(x)) return walk->rule.label == FM_LABEL_MAX ? -INFINITY : 0.0;
    return x;
}

static void count_number(struct fm_label_walk *walk, int64_t at, int64_t by)
{
    if (!isnan(walk->data->target_values[walk->base + at])) walk->counted += by;
}

static double combine(const struct fm_label_walk *walk, double a, double b)
{
    if (walk->rule.label == FM_LABEL_MAX) return a > b ? a : b;
    return a + b;
}

static double identity(const struct fm_label_walk *walk)
{
    return walk->rule.label == FM_LABEL_MAX ? -INFINITY : 0.0;
}

/* Counts `laps` whole rounds of the record, so that what slides is shorter than the record. */
static void begin_laps(struct fm_label_walk *walk)
{
    int64_t length = walk->record_length, laps = walk->laps;
    walk->lap_value = identity(walk);
    if (laps == 0) return;
    for (int64_t i = 0; i < length; i++) {
        if (walk->counts) {
            count_class(walk, i, laps);
        } else {
            walk->lap_value = combine(walk, walk->lap_value, number_at(walk, i));
            count_number(walk, i, laps);
        }
    }
    if (walk->rule.label == FM_LABEL_MEAN) walk->lap_value *= (double)laps;
}

static void begin_record(struct fm_label_walk *walk, int64_t record)
{
    walk->record = record;
    walk->record_length = fm_dataset_record_length(walk->data, record);
    walk->base = walk->data->starts[record];
    walk->start = walk->end = walk->middle = INT64_MIN;
    walk->laps = 0;
    if (walk->rule.edge == FM_EDGE_WRAP)
        walk->laps = (walk->rule.hi - walk->rule.lo + 1) / walk->record_length;
    walk->back = identity(walk);
    walk->counted = 0;
    if (walk->counts) {
        memset(walk->counts, 0, (size_t)walk->leaves * sizeof *walk->counts);
        for (int64_t i = 0; i < walk->leaves; i++) walk->tree[walk->leaves + i] = i;
        for (int64_t i = walk->leaves - 1; i >= 1; i--) walk->tree[i] = walk->tree[2 * i];
    }
    if (walk->counts || walk->front) begin_laps(walk);
}

static void leave_first(struct fm_label_walk *walk)
{
    if (walk->counts) {
        count_class(walk, walk->start_at, -1);
    } else {
        count_number(walk, walk->start_at, -1);
    }
    walk->start++;
    if (++walk->start_at == walk->record_length) walk->start_at = 0;
}

static void restart(struct fm_label_walk *walk, int64_t start)
{
    while (walk->start < walk->end) leave_first(walk);
    walk->start = walk->end = walk->middle = start;
    walk->start_at = walk->end_at = modulo(start, walk->record_length);
    walk->back = identity(walk);
}

/* Turns what was added since the last turn round, so that it can be taken away from the front. */
static void turn(struct fm_label_walk *walk)
{
    double value = identity(walk);
    int64_t at = walk->end_at;
    for (int64_t k = 0; k < walk->end - walk->start; k++) {
        at = (at == 0 ? walk->record_length : at) - 1;
        value = combine(walk, value, number_at(walk, at));
        walk->front[k] = value;
    }
    walk->middle = walk->end;
    walk->back = identity(walk);
}

static void drop_first(struct fm_label_walk *walk)
{
    leave_first(walk);
    if (walk->front && walk->start > walk->middle) turn(walk);
}

static void slide(struct fm_label_walk *walk, int64_t first, int64_t last)
{
    if (first >= walk->end) restart(walk, first);
    while (walk->end <= last) {
        if (walk->counts) {
            count_class(walk, walk->end_at, 1);
        } else {
            walk->back = combine(walk, walk->back, number_at(walk, walk->end_at));
            count_number(walk, walk->end_at, 1);
        }
        walk->end++;
        if (++walk->end_at == walk->record_length) walk->end_at = 0;
        /* Dropping as we go keeps the front within its room. */
        if (walk->start < first) drop_first(walk);
    }
    while (walk->start < first) drop_first(walk);
}

/* The positions that slide, unbounded; empty (first > last) when the laps are all there is. */
static void label_positions(const struct fm_label_walk *walk, int64_t anchor, int64_t *first, int64_t *last)
{
    const struct fm_label_rule *rule = &walk->rule;
    *first = anchor + rule->lo;
    *last = anchor + rule->hi;
    if (rule->edge == FM_EDGE_WRAP) {
        *last -= walk->laps * walk->record_length;
    } else if (rule->window) {
        if (*first < rule->shift) *first = rule->shift;
        if (*last > walk->record_length - 1 + rule->shift) *last = walk->record_length - 1 + rule->shift;
    }
}

/* Whether a position, or a record, has a target; a class is read on the way. */
static bool target_at(const struct fm_label_walk *walk, int64_t index, uint32_t *class)
{
    const struct fm_dataset *data = walk->data;
    if (data->nclasses == 0) {
        bool there = true;
        for (int64_t k = 0; k < data->target_width; k++)
            there = there && !isnan(data->target_values[index * data->target_width + k]);
        return there;
    }
    *class = fm_packed_get(&data->classes, index);
    return *class < (uint64_t)data->nclasses;
}

static bool read_one(struct fm_label_walk *walk, int64_t record, int64_t anchor, uint32_t *class,
                     float *value)
{
    const struct fm_dataset *data = walk->data;
    int64_t index = record;
    if (!data->target_per_record) {
        int64_t at = anchor + walk->rule.lo;
        if (at < 0 || at >= walk->record_length) at = modulo(at, walk->record_length);
        index = walk->base + at;
    }
    if (data->nclasses == 0 && data->target_width == 1) *value = data->target_values[index];
    return target_at(walk, index, class);
}

static bool anchor_has_target(const struct fm_label_walk *walk, int64_t anchor, int64_t first, int64_t last)
{
    bool read = walk->laps > 0 || (anchor >= first && anchor <= last);
    if (!read && walk->rule.edge == FM_EDGE_WRAP && first <= last)
        read = first + modulo(anchor - first, walk->record_length) <= last;
    uint32_t class;
    return !read || target_at(walk, walk->base + anchor, &class);
}

static float summed_value(const struct fm_label_walk *walk)
{
    double total = combine(walk, walk->lap_value, walk->back);
    if (walk->start < walk->middle) total = combine(walk, total, walk->front[walk->middle - 1 - walk->start]);
    if (walk->rule.label == FM_LABEL_MEAN) total /= (double)walk->counted;
    return (float)total;
}

bool fm_label_walk_at(struct fm_label_walk *walk, int64_t record, int64_t anchor, uint32_t *class,
                      float *value)
{
    if (record != walk->record) begin_record(walk, record);
    if (!walk->counts && !walk->front) return read_one(walk, record, anchor, class, value);
    int64_t first, last;
    label_positions(walk, anchor, &first, &last);
    if (first <= last) slide(walk, first, last);
    if (walk->counted == 0 || !anchor_has_target(walk, anchor, first, last)) return false;
    if (walk->front) {
        *value = summed_value(walk);
    } else if (walk->rule.label == FM_LABEL_MAJORITY) {
        *class = (uint32_t)walk->tree[1];
    } else if (walk->rule.label == FM_LABEL_ANY) {
        *class = walk->counts[1] > 0;
    } else {
        *class = walk->counts[1] == walk->counted;
    }
    return true;
}
