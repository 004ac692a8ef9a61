/* Draws the trials one by one, because a random search must know whether a network fits before it draws the
 * next. */
#include <string.h>

#include "base/memory.h"
#include "sweep/prepare_private.h"
#include "train/run.h"

/* A trial's window length; arrays cut beforehand have one. */
static int read_length(const struct fm_prepared *p, const struct fm_trial *trial, int64_t *length,
                       struct fm_error *err)
{
    *length = p->longest_length;
    if (!trial->window_length) return 0;
    int rc = fm_node_integer(trial->window_length, "data.window.length", length, err);
    if (rc) return rc;
    if (*length < 1 || *length > p->longest_length)
        return fm_node_fail(trial->window_length, FM_EFILE, err,
                            "data.window.length must be between 1 and %lld here, not %lld",
                            (long long)p->longest_length, (long long)*length);
    return 0;
}

static int read_seed(const struct fm_trial *trial, int64_t *seed, struct fm_error *err)
{
    *seed = 0;
    if (!trial->cv_seed) return 0;
    int rc = fm_node_integer(trial->cv_seed, "cv.seed", seed, err);
    if (rc) return rc;
    if (*seed < 0 || *seed > UINT32_MAX)
        return fm_node_fail(trial->cv_seed, FM_EFILE, err, "cv.seed must be between 0 and %u, not %lld",
                            UINT32_MAX, (long long)*seed);
    return 0;
}

/* All trials must read the target alike: the data are resident once. */
static int check_target(const struct fm_prepared *p, const struct fm_planned *planned, struct fm_error *err)
{
    enum fm_loss_kind kind = planned->config.loss.kind;
    bool numbers = kind == FM_LOSS_MSE || kind == FM_LOSS_MAE || kind == FM_LOSS_HUBER;
    if (numbers == (p->data.nclasses == 0 && !p->data.distribution)) return 0;
    return fm_node_fail(
        planned->config.loss.where, FM_EFILE, err,
        "trial %lld's loss wants %s as targets, the first trial's wants %s: put them into two sweeps",
        (long long)planned->number, numbers ? "numbers" : "classes", numbers ? "classes" : "numbers");
}

static int plan_trial(struct fm_compiler *compiler, struct fm_planned *planned, struct fm_error *err)
{
    struct fm_prepared *p = compiler->p;
    int rc = fm_train_read(&planned->config, planned->trial.train, p->sweep->cv.has_inner, &p->notes, err);
    if (rc) return rc;
    if (!p->has_data) rc = fm_prepare_load(p, &planned->config, err);
    if (!rc) rc = check_target(p, planned, err);
    int64_t length = 0, seed = 0;
    if (!rc) rc = read_length(p, &planned->trial, &length, err);
    if (!rc) rc = read_seed(&planned->trial, &seed, err);
    if (!rc) rc = fm_prepare_view(p, length, &planned->view, err);
    if (!rc) rc = fm_prepare_split(p, seed, &planned->split, err);
    if (!rc) rc = fm_prepare_compile(compiler, planned, err);
    return rc;
}

static int draw_all(struct fm_compiler *compiler, struct fm_search *search, struct fm_error *err)
{
    struct fm_prepared *p = compiler->p;
    for (;;) {
        struct fm_trial trial = {0};
        int got = fm_search_next(search, &trial, err);
        if (got <= 0) return got;
        size_t capacity = (size_t)p->trial_capacity;
        if (fm_grow(&p->trials, &capacity, (size_t)p->ntrials + 1, sizeof *p->trials)) {
            fm_trial_fini(&trial);
            return fm_fail_memory(err);
        }
        p->trial_capacity = (int64_t)capacity;
        struct fm_planned *planned = &p->trials[p->ntrials++];
        *planned = (struct fm_planned){.trial = trial, .number = p->ntrials, .network = -1};
        int rc = plan_trial(compiler, planned, err);
        if (rc) return rc;
        if (planned->network < 0) fm_search_reject(search);
    }
}

static void note_own(struct fm_prepared *p)
{
    if (p->own_plans)
        fm_note(&p->notes, FM_WARNING,
                "the device was lost earlier when libraries were tried for %lld network%s (each batch_size "
                "counts): own kernels compute %s, as --kernels own does for all",
                (long long)p->own_plans, p->own_plans == 1 ? "" : "s", p->own_plans == 1 ? "it" : "them");
}

int fm_prepare_trials(struct fm_prepared *p, struct fm_sweep *sweep, const struct fm_backend *backend,
                      struct fm_device *device, struct fm_error *err)
{
    struct fm_search *search = NULL;
    struct fm_compiler compiler = {.p = p, .backend = backend, .device = device};
    int rc = fm_search_new(&search, sweep, &p->notes, err);
    if (!rc) rc = draw_all(&compiler, search, err);
    fm_compiler_fini(&compiler);
    fm_search_free(search);
    note_own(p);
    if (!rc && !p->ntrials) rc = fm_fail(err, FM_EFILE, "%s: the search gives no trial at all", sweep->path);
    return rc;
}

/* The place of a key of the file, for messages about what the data do not allow. */
static const struct fm_node *place(const struct fm_prepared *p, const char *section, const char *key)
{
    const struct fm_node *root = p->sweep->document.root, *node = fm_node_get(root, section);
    const struct fm_node *inner = node && key && node->kind == FM_MAP ? fm_node_get(node, key) : NULL;
    return inner ? inner : node ? node : root;
}

static int check_metric(const struct fm_prepared *p, enum fm_metric metric, const struct fm_node *where,
                        struct fm_error *err)
{
    int64_t classes = fm_metrics_classes(&p->data);
    uint32_t fitting = fm_metrics_fitting(classes);
    if (fitting & 1u << metric) return 0;
    return fm_node_fail(where, FM_EFILE, err, "%s does not fit %s: choose %s", fm_metric_names[metric],
                        classes ? classes > 2 ? "more than two classes" : "classes" : "numbers",
                        !classes ? "loss, mse, mae or r2"
                        : classes > 2
                            ? "loss, accuracy, balanced_accuracy, auc, pr_auc, macro_f1 or mcc"
                            : "loss, accuracy, balanced_accuracy, auc, pr_auc, precision, recall, f1, "
                              "macro_f1 or mcc");
}

int fm_prepare_checks(struct fm_prepared *p, struct fm_error *err)
{
    int rc = check_metric(p, p->sweep->metric.metric, place(p, "metric", "name"), err);
    float *weights = fm_malloc((size_t)p->data.nclasses, sizeof *weights);
    if (!weights) return fm_fail_memory(err);
    for (int64_t i = 0; !rc && i < p->ntrials; i++) {
        const struct fm_planned *planned = &p->trials[i];
        const struct fm_train_config *config = &planned->config;
        for (int m = 0; !rc && config->metrics_given && m < FM_METRICS; m++)
            if (config->metrics & 1u << m)
                rc = check_metric(p, (enum fm_metric)m, place(p, "train", "metrics"), err);
        if (!rc && config->early_stopping.rule != FM_STOP_NONE)
            rc = check_metric(p, config->early_stopping.monitor.metric, place(p, "train", "early_stopping"),
                              err);
        if (!rc && config->class_weight != FM_CLASS_WEIGHT_NONE) {
            if (!p->data.nclasses)
                rc = fm_node_fail(place(p, "train", "class_weight"), FM_EFILE, err,
                                  "train.class_weight needs classes, and this target is read as numbers");
            else
                rc = fm_class_weights(config, &p->data, &p->splits[planned->split].fold[0], weights, err);
        }
    }
    fm_free(weights);
    if (!rc && p->sweep->metric.part == FM_PART_INNER && !p->sweep->cv.has_inner)
        rc = fm_node_fail(place(p, "metric", "name"), FM_EFILE, err, "an inner_ metric needs cv.inner");
    return rc;
}
