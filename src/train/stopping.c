/* Early stopping: Keras's callback (Keras 3.15: restores at the end whether or not the stop fired; the first
 * value is an improvement) and Prechelt's GL, PQ and UP (1998), both as semantics.md 4.3 and 4.4 write them
 * down. Where they leave a value that is not finite open, it is as bad as can be: it never improves and
 * exceeds every finite one. */
#include "train/stopping.h"

#include <math.h>
#include <string.h>

void fm_stopping_init(struct fm_stopping *s, const struct fm_train_config *config)
{
    memset(s, 0, sizeof *s);
    s->config = config;
    s->best = NAN;
    s->strip_end = NAN;
    if (config->early_stopping.rule == FM_STOP_KERAS) {
        enum fm_mode mode = config->early_stopping.mode;
        s->maximize = mode == FM_MODE_MAX ||
                      (mode == FM_MODE_AUTO && fm_metric_maximize(config->early_stopping.monitor.metric));
    }
}

bool fm_stopping_restores(const struct fm_stopping *s)
{
    if (s->off || s->config->early_stopping.rule == FM_STOP_NONE) return false;
    return s->config->early_stopping.rule != FM_STOP_KERAS || s->config->early_stopping.restore_best_weights;
}

/* Better than `reference` by more than min_delta; a missing reference (NaN) is beaten by every finite value.
 */
static bool keras_better(const struct fm_stopping *s, double value, double reference)
{
    double delta = fabs(s->config->early_stopping.min_delta);
    if (!isfinite(value)) return false;
    if (isnan(reference)) return true;
    return s->maximize ? value - delta > reference : value + delta < reference;
}

static struct fm_verdict keras_epoch(struct fm_stopping *s, double value)
{
    struct fm_verdict verdict = {false, false};
    if (s->epoch <= s->config->early_stopping.start_from_epoch) return verdict;
    if (s->best_epoch == 0) { /* weights to restore exist from the first epoch that counts */
        s->best_epoch = s->epoch;
        verdict.improved = true;
    }
    s->wait++;
    if (keras_better(s, value, s->best)) {
        s->best = value;
        s->best_epoch = s->epoch;
        verdict.improved = true;
        if (!s->config->early_stopping.has_baseline ||
            keras_better(s, value, s->config->early_stopping.baseline))
            s->wait = 0;
        return verdict;
    }
    verdict.stop = s->wait >= s->config->early_stopping.patience && s->epoch > 1;
    return verdict;
}

/* Generalisation loss in percent: how far the value lies over the lowest so far. */
static double generalisation_loss(const struct fm_stopping *s, double value)
{
    if (isnan(s->best) || value == s->best) return 0;
    if (isnan(value) || value == INFINITY) return INFINITY;
    if (s->best <= 0) return value > s->best ? INFINITY : 0;
    return 100 * (value / s->best - 1);
}

/* Training progress in per mille over the strip that ends now; 0 where it is not defined. */
static double progress(const struct fm_stopping *s, int64_t k)
{
    double sum = 0, low = INFINITY;
    for (int64_t i = 0; i < k; i++) {
        sum += s->strip[i];
        low = s->strip[i] < low ? s->strip[i] : low;
    }
    if (!isfinite(sum) || low <= 0) return 0;
    return 1000 * (sum / ((double)k * low) - 1);
}

static bool quotient_stops(const struct fm_stopping *s, double value, int64_t k)
{
    double loss = generalisation_loss(s, value), p = progress(s, k);
    if (p <= 0) return loss > 0;
    return loss / p > s->config->early_stopping.alpha;
}

static bool strips_stop(struct fm_stopping *s, double value, int64_t k)
{
    double as_bad = isfinite(value) ? value : INFINITY;
    s->rises = s->epoch > k && as_bad > s->strip_end ? s->rises + 1 : 0;
    s->strip_end = as_bad;
    return s->rises >= s->config->early_stopping.strips;
}

static struct fm_verdict prechelt_epoch(struct fm_stopping *s, double train_loss, double value)
{
    struct fm_verdict verdict = {false, false};
    int64_t k = s->config->early_stopping.strip;
    if (k < 1) k = 1;
    if (k > FM_MAX_STRIP) k = FM_MAX_STRIP;
    s->strip[(s->epoch - 1) % k] = train_loss;
    if (s->best_epoch == 0) {
        s->best_epoch = s->epoch;
        verdict.improved = true;
    }
    if (isfinite(value) && (isnan(s->best) || value < s->best)) {
        s->best = value;
        s->best_epoch = s->epoch;
        verdict.improved = true;
    }
    bool strip_ends = s->epoch % k == 0;
    switch (s->config->early_stopping.rule) {
    case FM_STOP_GL: verdict.stop = generalisation_loss(s, value) > s->config->early_stopping.alpha; break;
    case FM_STOP_PQ: verdict.stop = strip_ends && quotient_stops(s, value, k); break;
    case FM_STOP_UP: verdict.stop = strip_ends && strips_stop(s, value, k); break;
    default: break;
    }
    return verdict;
}

struct fm_verdict fm_stopping_epoch(struct fm_stopping *s, double train_loss, double monitored)
{
    struct fm_verdict verdict = {false, false};
    s->epoch++;
    if (s->off) return verdict;
    switch (s->config->early_stopping.rule) {
    case FM_STOP_NONE: return verdict;
    case FM_STOP_KERAS: return keras_epoch(s, monitored);
    default: return prechelt_epoch(s, train_loss, monitored);
    }
}
