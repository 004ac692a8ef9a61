/* The search: candidates one after another, of which those that are new become trials.
 *
 * A candidate costs no memory: its values, what it uses and its key are worked out in scratch. Trees are made
 * in the sweep's document only for trials. */
#include "search/trials.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "search/candidates.h"
#include "search/substitute.h"

#define FM_ENUMERATED ((int64_t)10000)   /* spaces up to this size are gone through when the search is made */
#define FM_GRID_MAX   ((int64_t)1000000) /* combinations of a grid without run_cap */

struct fm_search {
    struct fm_sweep *sweep;
    struct fm_notes *notes;
    struct fm_space space;
    struct fm_places places;
    struct fm_drawn *drawn;
    const struct fm_node **values;
    bool *used;
    int64_t *digits;
    json_t *seen;  /* keys of all trials so far */
    json_t *left;  /* keys of an enumerated space that are not yet seen; NULL: not enumerated */
    size_t listed; /* entries of `trials` gone through */
    bool own;      /* the method has trials of its own */
    bool grid_started, ended;
    int64_t grid_index, draw, accepted, barren;
    bool last_random; /* the trial given last was drawn */
};

struct candidate {
    enum fm_origin origin;
    int64_t draw;
    json_t *params;
    struct fm_text key;
};

static void candidate_fini(struct candidate *c)
{
    json_decref(c->params);
    fm_text_fini(&c->key);
}

/* ---- identity ---- */

/* Marks what the present values use, and makes params and key of it. */
static int identify(struct fm_search *s, const struct fm_node *blame, struct candidate *c,
                    struct fm_error *err)
{
    struct fm_assignment a = {&s->space, s->values, s->used, blame};
    int code = fm_usage_mark(&a, &s->places, err);
    if (code) return code;
    c->params = json_object();
    if (!c->params) return fm_fail_memory(err);
    for (size_t i = 0; i < s->space.count; i++) {
        json_t *value = s->used[i] ? fm_node_json(s->values[i]) : json_null();
        if (json_object_set_new(c->params, s->space.items[i].name, value)) return fm_fail_memory(err);
    }
    return fm_json_text(c->params, &c->key, err);
}

static bool is_seen(const struct fm_search *s, const struct candidate *c)
{
    return json_object_get(s->seen, c->key.data) != NULL;
}

static int set_seen(struct fm_search *s, const struct candidate *c, struct fm_error *err)
{
    if (json_object_set_new(s->seen, c->key.data, json_true())) return fm_fail_memory(err);
    if (s->left) (void)json_object_del(s->left, c->key.data); /* fails when the key is outside the space */
    return 0;
}

/* ---- setting up ---- */

static int check_methods(struct fm_search *s, struct fm_error *err)
{
    const struct fm_sweep *sweep = s->sweep;
    const struct fm_node *method = fm_node_get(sweep->document.root, "method");
    int64_t size = fm_space_size(&s->space);
    if (!s->own || sweep->run_cap) return 0;
    if (sweep->method == FM_METHOD_RANDOM && (size < 0 || size > FM_ENUMERATED)) {
        return fm_node_fail(
            method, FM_EFILE, err,
            "a random search over more than 10,000 combinations needs run_cap, the number of trials");
    }
    if (sweep->method == FM_METHOD_GRID && size > FM_GRID_MAX) {
        return fm_node_fail(
            method, FM_EFILE, err,
            "this grid has more than 1,000,000 combinations; give run_cap, or method: random");
    }
    return 0;
}

static bool all_used(const struct fm_search *s, const bool *ever)
{
    for (size_t i = 0; i < s->space.count; i++)
        if (!ever[i]) return false;
    return true;
}

/* Goes through a small space once: what random may draw, and which parameters some trial uses. A grid need
 * not know more than the latter. */
static int enumerate(struct fm_search *s, bool *ever, struct fm_error *err)
{
    s->left = json_object();
    if (!s->left) return fm_fail_memory(err);
    do {
        struct candidate c = {0};
        fm_grid_values(&s->space, s->digits, s->drawn, s->values);
        int code = identify(s, NULL, &c, err);
        if (!code && json_object_set_new(s->left, c.key.data, json_true())) code = fm_fail_memory(err);
        candidate_fini(&c);
        if (code) return code;
        for (size_t i = 0; i < s->space.count; i++) ever[i] |= s->used[i];
        if (s->sweep->method == FM_METHOD_GRID && all_used(s, ever)) break;
    } while (fm_grid_advance(&s->space, s->digits, s->used));
    if (s->space.count) memset(s->digits, 0, s->space.count * sizeof *s->digits);
    return 0;
}

/* Refuses mistakes in `trials` before anything runs. */
static int check_listed(struct fm_search *s, bool *ever, struct fm_error *err)
{
    const struct fm_node *trials = s->sweep->trials;
    for (size_t i = 0; trials && i < trials->count; i++) {
        struct candidate c = {0};
        int code = fm_list_values(&s->space, trials->items[i], s->values, err);
        if (!code) code = identify(s, trials->items[i], &c, err);
        candidate_fini(&c);
        if (code) return code;
        for (size_t p = 0; p < s->space.count; p++) ever[p] |= s->used[p];
    }
    return 0;
}

/* Where every trial is known, a parameter that stands only in options that none chooses is a mistake too. */
static int check_used(struct fm_search *s, struct fm_error *err)
{
    int64_t size = fm_space_size(&s->space);
    bool *ever = fm_calloc(s->space.count, sizeof *ever);
    if (!ever) return fm_fail_memory(err);
    bool known = !s->own || (size >= 0 && size <= FM_ENUMERATED);
    int code = check_listed(s, ever, err);
    if (!code && s->own && known) code = enumerate(s, ever, err);
    for (size_t i = 0; !code && known && i < s->space.count; i++) {
        if (ever[i]) continue;
        code = fm_node_fail(
            s->space.items[i].key, FM_EFILE, err,
            "parameter '%s' is not used by any trial: no trial chooses the option where it stands",
            s->space.items[i].name);
    }
    fm_free(ever);
    return code;
}

static int set_up(struct fm_search *s, struct fm_error *err)
{
    struct fm_sweep *sweep = s->sweep;
    int code = fm_space_read(&s->space, sweep, s->notes, err);
    if (code) return code;
    size_t n = s->space.count;
    bool has_parameters = sweep->parameters && sweep->parameters->count;
    s->own = sweep->method != FM_METHOD_LIST && (has_parameters || !sweep->trials || !sweep->trials->count);
    s->places = (struct fm_places){sweep->model, sweep->train, sweep->cv.seed,
                                   sweep->data.has_window ? sweep->data.window.length : NULL};
    s->drawn = fm_calloc(n, sizeof *s->drawn);
    s->values = fm_calloc(n, sizeof *s->values);
    s->used = fm_calloc(n, sizeof *s->used);
    s->digits = fm_calloc(n, sizeof *s->digits);
    s->seen = json_object();
    if (!s->drawn || !s->values || !s->used || !s->digits || !s->seen) return fm_fail_memory(err);
    code = fm_references_check(&s->space, &s->places, sweep->trials, err);
    if (!code) code = check_methods(s, err);
    return code ? code : check_used(s, err);
}

int fm_search_new(struct fm_search **search, struct fm_sweep *sweep, struct fm_notes *notes,
                  struct fm_error *err)
{
    struct fm_search *s = fm_calloc(1, sizeof *s);
    *search = NULL;
    if (!s) return fm_fail_memory(err);
    s->sweep = sweep;
    s->notes = notes;
    int code = set_up(s, err);
    if (code)
        fm_search_free(s);
    else
        *search = s;
    return code;
}

void fm_search_free(struct fm_search *search)
{
    if (!search) return;
    fm_free(search->space.items);
    fm_free(search->drawn);
    fm_free(search->values);
    fm_free(search->used);
    fm_free(search->digits);
    json_decref(search->seen);
    json_decref(search->left);
    fm_free(search);
}

void fm_trial_fini(struct fm_trial *trial)
{
    json_decref(trial->params);
    fm_free(trial->key);
    memset(trial, 0, sizeof *trial);
}

/* ---- a trial ---- */

/* Whole numbers that later floors rely on; the value's own place is blamed. */
static int check_whole(const struct fm_node *node, const char *path, int64_t min, int64_t max,
                       struct fm_error *err)
{
    int64_t value;
    if (!node) return 0;
    int code = fm_node_integer(node, path, &value, err);
    if (code || (value >= min && value <= max)) return code;
    return fm_node_fail(node, FM_EFILE, err, "%s is %s; expected %lld to %lld", path, node->text,
                        (long long)min, (long long)max);
}

/* Drawn values leave the scratch, which the next candidate overwrites. */
static int keep_drawn(struct fm_search *s, struct fm_error *err)
{
    for (size_t i = 0; i < s->space.count; i++) {
        const struct fm_node *value = s->values[i];
        if (!s->used[i] || value != &s->drawn[i].node) continue;
        s->values[i] = fm_node_new_scalar(&s->sweep->document, value->text, value->size, true, value);
        if (!s->values[i]) return fm_fail_memory(err);
    }
    return 0;
}

static int build(struct fm_search *s, struct candidate *c, struct fm_trial *trial, struct fm_error *err)
{
    struct fm_assignment a = {&s->space, s->values, s->used, NULL};
    struct fm_document *doc = &s->sweep->document;
    memset(trial, 0, sizeof *trial);
    int code = keep_drawn(s, err);
    if (!code) code = fm_substitute(&a, doc, s->places.model, &trial->model, err);
    if (!code) code = fm_substitute(&a, doc, s->places.train, &trial->train, err);
    if (!code && s->places.cv_seed) code = fm_substitute(&a, doc, s->places.cv_seed, &trial->cv_seed, err);
    if (!code && s->places.window_length) {
        code = fm_substitute(&a, doc, s->places.window_length, &trial->window_length, err);
    }
    if (!code) code = check_whole(trial->cv_seed, "cv.seed", 0, 4294967295, err);
    if (!code)
        code = check_whole(trial->window_length, "data.window.length", 1, (int64_t)FM_KEY_MAX_INTEGER, err);
    if (!code) code = set_seen(s, c, err);
    if (code) return code;
    trial->key = fm_strdup(c->key.data);
    if (!trial->key) return fm_fail_memory(err);
    trial->params = c->params;
    c->params = NULL;
    trial->origin = c->origin;
    trial->draw = c->draw;
    s->accepted++;
    s->last_random = c->origin == FM_ORIGIN_RANDOM;
    return 0;
}

/* ---- the next one ---- */

/* The next candidate's values and identity: 1, or 0 at the end. */
static int next_listed(struct fm_search *s, struct candidate *c, struct fm_error *err)
{
    const struct fm_node *trials = s->sweep->trials;
    if (!trials || s->listed == trials->count) return 0;
    const struct fm_node *entry = trials->items[s->listed];
    c->origin = FM_ORIGIN_LIST;
    c->draw = (int64_t)s->listed++;
    int code = fm_list_values(&s->space, entry, s->values, err);
    if (!code) code = identify(s, entry, c, err);
    if (!code && is_seen(s, c)) {
        fm_node_note(entry, s->notes, FM_NOTE, "this entry of trials equals an earlier one; it runs once");
    }
    return code ? code : 1;
}

static int next_on_grid(struct fm_search *s, struct candidate *c, struct fm_error *err)
{
    if (s->grid_started && !fm_grid_advance(&s->space, s->digits, s->used)) return 0;
    s->grid_started = true;
    c->origin = FM_ORIGIN_GRID;
    c->draw = s->grid_index++;
    fm_grid_values(&s->space, s->digits, s->drawn, s->values);
    int code = identify(s, NULL, c, err);
    if (code) return code;
    if (++s->barren <= FM_GRID_MAX) return 1;
    return fm_node_fail(
        fm_node_get(s->sweep->document.root, "method"), FM_EFILE, err,
        "1,000,000 combinations of this grid in a row came to trials that are there already; take "
        "parameters out that only some options of choose use");
}

static int next_random(struct fm_search *s, struct candidate *c, struct fm_error *err)
{
    if (s->left && json_object_size(s->left) == 0) return 0;
    int64_t limit = 10000 + 100 * (s->sweep->run_cap < FM_GRID_MAX ? s->sweep->run_cap : FM_GRID_MAX);
    if (s->barren >= limit) {
        fm_note(s->notes, FM_WARNING,
                "the random search ended after %lld draws in a row without a new trial that can run",
                (long long)limit);
        return 0;
    }
    s->barren++;
    c->origin = FM_ORIGIN_RANDOM;
    c->draw = s->draw++;
    fm_random_values(&s->space, s->sweep->seed, c->draw, s->drawn, s->values);
    int code = identify(s, NULL, c, err);
    return code ? code : 1;
}

static int next_candidate(struct fm_search *s, struct candidate *c, struct fm_error *err)
{
    int code = next_listed(s, c, err);
    if (code || !s->own) return code;
    return s->sweep->method == FM_METHOD_RANDOM ? next_random(s, c, err) : next_on_grid(s, c, err);
}

int fm_search_next(struct fm_search *search, struct fm_trial *trial, struct fm_error *err)
{
    struct fm_search *s = search;
    if (s->last_random) s->barren = 0; /* the trial given last was not rejected */
    s->last_random = false;
    while (!s->ended && (s->sweep->run_cap == 0 || s->accepted < s->sweep->run_cap)) {
        struct candidate c = {0};
        int code = next_candidate(s, &c, err);
        bool fresh = code == 1 && !is_seen(s, &c);
        if (fresh) {
            code = build(s, &c, trial, err);
            if (code)
                fm_trial_fini(trial);
            else if (s->sweep->method != FM_METHOD_RANDOM)
                s->barren = 0;
        }
        candidate_fini(&c);
        if (code < 0) return code;
        if (fresh) return 1;
        if (code == 0) s->ended = true;
    }
    return 0;
}

void fm_search_reject(struct fm_search *search)
{
    if (!search->last_random) return;
    search->last_random = false;
    search->accepted--;
}
