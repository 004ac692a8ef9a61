#include "data/view.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/bits.h"
#include "data/label_rule.h"
#include "data/pieces.h"

#include <string.h>

/* ---- examples ---- */

/* One pass over all records: which anchors are examples. */
struct search {
    const struct fm_dataset *data;
    struct fm_window_config window;
    struct fm_label_rule *rules;         /* of every length */
    struct fm_label_walk *walks;         /* only where a label may lack its class */
    int64_t nrules, longest;             /* longest: index of the rule whose windows must fit */
    struct fm_indexset_builder *builder; /* NULL: only count */
    int64_t count, dropped, masked, short_records, short_record;
};

/* Anchors of one record that the edge rule allows: *from, *from + stride, ... <= *to. */
static void edge_anchors(const struct search *s, int64_t length, int64_t *from, int64_t *to)
{
    const struct fm_label_rule *rule = &s->rules[s->longest];
    *from = 0;
    *to = length - 1;
    if (rule->edge == FM_EDGE_DROP) {
        *from = rule->lead;
        *to = length - rule->length + rule->lead;
    }
}

static void keep_run(struct search *s, int64_t first, int64_t count, int64_t stride)
{
    s->count += count;
    if (s->builder) fm_indexset_add_run(s->builder, first, count, stride);
}

static void visit_anchors(struct search *s, int64_t record, int64_t from, int64_t to, int64_t low,
                          int64_t high)
{
    int64_t base = s->data->starts[record];
    for (int64_t at = from; at <= to; at += s->window.stride) {
        if (s->data->mask && !fm_bits_get(s->data->mask, base + at)) {
            s->masked++;
            continue;
        }
        bool good = at >= low && at <= high;
        uint32_t class;
        float value;
        for (int64_t i = 0; good && s->walks && i < s->nrules; i++)
            good = fm_label_walk_at(&s->walks[i], record, at, &class, &value);
        if (good) {
            keep_run(s, base + at, 1, 1);
        } else {
            s->dropped++;
        }
    }
}

static void visit_record(struct search *s, int64_t record)
{
    int64_t length = fm_dataset_record_length(s->data, record), stride = s->window.stride, from, to;
    edge_anchors(s, length, &from, &to);
    if (from > to) {
        if (s->short_records++ == 0) s->short_record = record;
        return;
    }
    int64_t low = from, high = to;
    for (int64_t i = 0; i < s->nrules; i++) fm_label_valid_anchors(&s->rules[i], length, &low, &high);
    if (s->data->mask || s->walks) {
        visit_anchors(s, record, from, to, low, high);
        return;
    }
    int64_t all = (to - from) / stride + 1, first = from;
    if (low > from) first = from + ((low - from - 1) / stride + 1) * stride;
    int64_t count = first > high ? 0 : (high - first) / stride + 1;
    s->dropped += all - count;
    if (count > 0) keep_run(s, s->data->starts[record] + first, count, stride);
}

static int search_all(struct search *s, struct fm_error *err)
{
    int status = 0;
    if (fm_dataset_lacks_targets(s->data)) {
        s->walks = fm_calloc((size_t)s->nrules, sizeof *s->walks);
        if (!s->walks) return fm_fail_memory(err);
        for (int64_t i = 0; status == 0 && i < s->nrules; i++)
            status = fm_label_walk_init(&s->walks[i], s->data, &s->rules[i], err);
    }
    for (int64_t r = 0; status == 0 && r < s->data->nrecords; r++) visit_record(s, r);
    for (int64_t i = 0; s->walks && i < s->nrules; i++) fm_label_walk_fini(&s->walks[i]);
    fm_free(s->walks);
    s->walks = NULL;
    return status;
}

static int64_t longest_record(const struct fm_dataset *data)
{
    int64_t longest = 0;
    for (int64_t r = 0; r < data->nrecords; r++) {
        int64_t length = fm_dataset_record_length(data, r);
        if (length > longest) longest = length;
    }
    return longest;
}

static int no_examples(const struct search *s, const struct fm_data_config *config, struct fm_error *err)
{
    const struct fm_node *where = config->window.where ? config->window.where : config->where;
    const char *file = where ? where->file : NULL;
    int64_t line = where ? where->line : 0, column = where ? where->column : 0;
    if (s->dropped > 0)
        return fm_fail_at(
            err, FM_EFILE, file, line, column,
            "no example is left: the label of all %lld windows lies past their record's end or on "
            "positions without a class; shorten data.window.horizon or list more classes",
            (long long)s->dropped);
    if (s->masked > 0)
        return fm_fail_at(err, FM_EFILE, file, line, column,
                          "no example is left: data.mask keeps none of %lld windows; check data.mask.keep",
                          (long long)s->masked);
    return fm_fail_at(err, FM_EFILE, file, line, column,
                      "no example: the longest record has %lld positions, but windows have %lld; shorten "
                      "data.window.length, or set data.window.edge to zero",
                      (long long)longest_record(s->data), (long long)s->rules[s->longest].length);
}

/* A record's id for a message: cut where it is long. */
static const char *shown_id(const struct fm_dataset *data, int64_t record, char *buffer, size_t size)
{
    char number[24];
    const char *id = fm_dataset_record_id(data, record, number, sizeof number);
    return fm_show(id, strlen(id), buffer, size);
}

static void note_examples(const struct fm_examples *examples, const struct search *s, int64_t shortest,
                          struct fm_notes *notes)
{
    char id[64];
    if (s->short_records == 1) {
        fm_note(notes, FM_NOTE,
                "record %s has %lld positions, too short for a window of %lld: it gives no example",
                shown_id(s->data, s->short_record, id, sizeof id),
                (long long)fm_dataset_record_length(s->data, s->short_record), (long long)examples->longest);
    } else if (s->short_records > 1) {
        fm_note(
            notes, FM_NOTE,
            "%lld of %lld records are too short for a window of %lld and give no example (the first is %s)",
            (long long)s->short_records, (long long)s->data->nrecords, (long long)examples->longest,
            shown_id(s->data, s->short_record, id, sizeof id));
    }
    if (s->dropped > 0)
        fm_note(
            notes, FM_NOTE,
            "%lld window%s left out because the label lies past the record or on positions without a class",
            (long long)s->dropped, s->dropped == 1 ? " is" : "s are");
    if (examples->lost > 0)
        fm_note(
            notes, FM_NOTE,
            "all window lengths share the examples of the longest (%lld): %lld more would have been possible "
            "with length %lld",
            (long long)examples->longest, (long long)examples->lost, (long long)shortest);
}

/* The distance that most neighbouring anchors have. */
static int64_t usual_distance(const struct search *s)
{
    const struct fm_dataset *data = s->data;
    if (data->nrecords < 2) return s->window.stride;
    int64_t stored = data->starts[1] - data->starts[0], from, to;
    edge_anchors(s, fm_dataset_record_length(data, 0), &from, &to);
    return from <= to && to - from < s->window.stride ? stored : s->window.stride;
}

/* Precut examples have the one length that their records have. */
static int64_t effective_length(const struct fm_dataset *data, const struct fm_data_config *config,
                                int64_t length)
{
    if (length == 0 && !config->has_window && data->nrecords > 0) return fm_dataset_record_length(data, 0);
    return length;
}

static int find_examples(struct fm_examples *examples, struct search *s, const struct fm_data_config *config,
                         int64_t shortest, struct fm_notes *notes, struct fm_error *err)
{
    struct fm_indexset_builder builder;
    fm_indexset_builder_init(&builder, usual_distance(s));
    s->builder = &builder;
    int status = search_all(s, err);
    int finished = fm_indexset_finish(&builder, &examples->anchors, status == 0 ? err : NULL);
    if (status == 0) status = finished;
    if (status == 0 && examples->anchors.count == 0) status = no_examples(s, config, err);
    if (status != 0) return status;
    examples->count = s->count;
    examples->short_records = s->short_records;
    examples->dropped_labels = s->dropped;
    if (s->rules[shortest].length < examples->longest) {
        struct search fewer = {
            .data = s->data, .window = s->window, .rules = &s->rules[shortest], .nrules = 1};
        if ((status = search_all(&fewer, err)) != 0) return status;
        examples->lost = fewer.count > s->count ? fewer.count - s->count : 0;
    }
    note_examples(examples, s, s->rules[shortest].length, notes);
    return 0;
}

int fm_examples_init(struct fm_examples *examples, const struct fm_dataset *data,
                     const struct fm_data_config *config, const int64_t *lengths, int64_t nlengths,
                     struct fm_notes *notes, struct fm_error *err)
{
    struct search s = {.data = data, .window = fm_window_effective(config), .nrules = nlengths};
    *examples = (struct fm_examples){.edge = s.window.edge, .align = s.window.align};
    if (nlengths < 1) return fm_fail(err, FM_EINTERNAL, "no window length was given");
    s.rules = fm_calloc((size_t)nlengths, sizeof *s.rules);
    if (!s.rules) return fm_fail_memory(err);
    int status = 0;
    int64_t shortest = 0;
    for (int64_t i = 0; status == 0 && i < nlengths; i++) {
        int64_t length = effective_length(data, config, lengths[i]);
        status = fm_label_rule_init(&s.rules[i], data, config, length, err);
        if (length > s.rules[s.longest].length) s.longest = i;
        if (length < s.rules[shortest].length) shortest = i;
    }
    examples->longest = s.rules[s.longest].length;
    if (status == 0) status = find_examples(examples, &s, config, shortest, notes, err);
    fm_free(s.rules);
    if (status != 0) fm_examples_fini(examples);
    return status;
}

void fm_examples_fini(struct fm_examples *examples)
{
    fm_indexset_fini(&examples->anchors);
    *examples = (struct fm_examples){0};
}

/* ---- views ---- */

static int view_allocate(struct fm_view *view, struct fm_error *err)
{
    int64_t n = view->examples->count;
    if (view->data->nclasses > 0) {
        view->class_counts = fm_calloc((size_t)view->data->nclasses, sizeof *view->class_counts);
        if (!view->class_counts) return fm_fail_memory(err);
        return fm_packed_init(&view->classes, n, view->data->nclasses, err);
    }
    int64_t items;
    if (!fm_multiply(n, view->width, &items)) return fm_fail_memory(err);
    view->values = fm_malloc((size_t)items, sizeof *view->values);
    return view->values ? 0 : fm_fail_memory(err);
}

/* Examples have a label for the longest window and for the other lengths that were asked for; one in between
 * may still read it where there is none. */
static int no_target(const struct fm_view *view, int64_t record, int64_t anchor, struct fm_error *err)
{
    char id[64];
    return fm_fail(
        err, FM_EFILE,
        "the window of %lld at position %lld of record %s reads its label where the target is not "
        "listed (other: skip), though windows of %lld do not; use label: anchor, or list that class",
        (long long)view->length, (long long)anchor, shown_id(view->data, record, id, sizeof id),
        (long long)view->examples->longest);
}

static int fill_piece(struct fm_view *view, struct fm_label_walk *walk, const struct fm_piece *piece,
                      struct fm_error *err)
{
    const float *rows = view->data->target_values;
    for (int64_t i = 0; i < piece->count; i++) {
        int64_t example = piece->example + i * piece->example_step;
        if (!view->class_counts && view->width > 1) {
            memcpy(view->values + example * view->width, rows + piece->record * view->width,
                   (size_t)view->width * sizeof *rows);
            continue;
        }
        uint32_t class = 0;
        float value = 0;
        if (!fm_label_walk_at(walk, piece->record, piece->anchor + i * piece->step, &class, &value))
            return no_target(view, piece->record, piece->anchor + i * piece->step, err);
        if (view->class_counts) {
            fm_packed_set(&view->classes, example, class);
            view->class_counts[class]++;
        } else {
            view->values[example] = value;
        }
    }
    return 0;
}

static int check_classes(const struct fm_view *view, const struct fm_data_config *config,
                         struct fm_error *err)
{
    int64_t present = 0, last = 0;
    for (int64_t c = 0; c < view->data->nclasses; c++) {
        if (view->class_counts[c] == 0) continue;
        present++;
        last = c;
    }
    if (view->data->nclasses == 0 || present > 1) return 0;
    const struct fm_node *where = config->window.where ? config->window.where : config->where;
    char name[64];
    if (view->data->class_names) {
        fm_show(view->data->class_names[last], strlen(view->data->class_names[last]), name, sizeof name);
    } else {
        fm_format_number((double)last, name);
    }
    return fm_fail_at(
        err, FM_EFILE, where ? where->file : NULL, where ? where->line : 0, where ? where->column : 0,
        "all %lld examples with windows of %lld have the class '%s': there is nothing to learn; "
        "check data.target, data.mask and data.window.label",
        (long long)view->examples->count, (long long)view->length, name);
}

int fm_view_init(struct fm_view *view, const struct fm_dataset *data, const struct fm_examples *examples,
                 const struct fm_data_config *config, int64_t length, struct fm_notes *notes,
                 struct fm_error *err)
{
    (void)notes;
    *view = (struct fm_view){.data = data, .examples = examples, .width = data->target_width};
    if (view->width < 1) view->width = 1;
    view->length = effective_length(data, config, length);
    struct fm_label_rule rule;
    int status = fm_label_rule_init(&rule, data, config, view->length, err);
    if (status != 0) return status;
    if (view->length > examples->longest)
        return fm_fail(err, FM_EINTERNAL, "a view of %lld is longer than the examples allow",
                       (long long)view->length);
    view->lead = rule.lead;
    struct fm_label_walk walk = {0};
    status = view_allocate(view, err);
    if (status == 0) status = fm_label_walk_init(&walk, data, &rule, err);
    struct fm_piece_walk pieces;
    struct fm_piece piece;
    fm_piece_walk_init(&pieces, data, examples, NULL);
    while (status == 0 && fm_piece_walk_next(&pieces, &piece)) status = fill_piece(view, &walk, &piece, err);
    fm_label_walk_fini(&walk);
    if (status == 0) status = check_classes(view, config, err);
    if (status != 0) fm_view_fini(view);
    return status;
}

void fm_view_fini(struct fm_view *view)
{
    fm_packed_fini(&view->classes);
    fm_free(view->values);
    fm_free(view->class_counts);
    *view = (struct fm_view){0};
}

static int64_t count_differences(const struct fm_view *a, const struct fm_view *b)
{
    int64_t differences = 0;
    for (int64_t i = 0; i < a->examples->count; i++) {
        if (a->class_counts) {
            differences += fm_packed_get(&a->classes, i) != fm_packed_get(&b->classes, i);
        } else {
            const float *x = a->values + i * a->width, *y = b->values + i * b->width;
            bool same = true;
            for (int64_t k = 0; same && k < a->width; k++) same = x[k] == y[k];
            differences += !same;
        }
    }
    return differences;
}

bool fm_view_same_targets(const struct fm_view *a, const struct fm_view *b)
{
    return a->width == b->width && count_differences(a, b) == 0;
}

void fm_view_compare(struct fm_view *view, const struct fm_view *longest, struct fm_notes *notes)
{
    int64_t differences = count_differences(view, longest);
    view->differs = differences > 0;
    if (!view->differs) return;
    fm_note(
        notes, FM_WARNING,
        "targets depend on the window: %lld of %lld examples have another target with length %lld than with "
        "%lld, so trials of different lengths are not scored on the same task",
        (long long)differences, (long long)view->examples->count, (long long)view->length,
        (long long)longest->length);
}

/* ---- windows ---- */

void fm_example_span(const struct fm_view *longest, const struct fm_data_config *config, int64_t example,
                     struct fm_span *span)
{
    const struct fm_dataset *data = longest->data;
    struct fm_label_rule rule;
    fm_label_rule_fill(&rule, config, longest->length);
    int64_t anchor = fm_example_anchor(longest->examples, example);
    span->record = fm_dataset_record_of(data, anchor);
    anchor -= data->starts[span->record];
    span->first = anchor - rule.before;
    span->last = anchor + rule.after;
    if (rule.edge == FM_EDGE_WRAP) return;
    int64_t length = fm_dataset_record_length(data, span->record);
    if (span->first < 0) span->first = 0;
    if (span->last > length - 1) span->last = length - 1;
}

void fm_view_window(const struct fm_view *view, int64_t example, const float *shift, const float *factor,
                    float *out)
{
    const struct fm_dataset *data = view->data;
    int64_t channels = data->alphabet > 0 ? data->alphabet : data->channels;
    struct fm_slab slab;
    fm_view_slab(view, example, &slab);
    for (int64_t i = 0; i < view->length * channels; i++) out[i] = 0.0f;
    out += slab.before * channels;
    for (int64_t i = 0; i < slab.rows; i++, out += channels) {
        if (data->alphabet > 0) {
            uint8_t letter = data->letters[slab.first + i];
            if (letter != FM_NO_LETTER) out[letter] = 1.0f;
            continue;
        }
        const float *row = data->values + (slab.first + i) * channels;
        for (int64_t c = 0; c < channels; c++) {
            float x = shift ? row[c] - shift[c] : row[c];
            out[c] = factor ? x * factor[c] : x;
        }
    }
}
