/* `train.optimizer`: Keras's arguments and defaults (semantics.md 3.2), clipping included (3.3). */
#include <float.h>
#include <string.h>

#include "base/error.h"
#include "config/tables.h"
#include "config/train_parts.h"

struct raw {
    double learning_rate, momentum, beta_1, beta_2, epsilon, rho, weight_decay;
    bool nesterov, amsgrad, centered;
    double clipnorm, global_clipnorm, clipvalue;
};

#define NUMBER(name, min, max, fallback, flags, help)                                                        \
    {                                                                                                        \
#name, FM_KEY_NUMBER, offsetof(struct raw, name), min, max, NULL, fallback, flags, help              \
    }
#define SWITCH(name, help)                                                                                   \
    {                                                                                                        \
#name, FM_KEY_BOOL, offsetof(struct raw, name), 0, 0, NULL, "false", 0, help                         \
    }
#define LATER(name, help)                                                                                    \
    {                                                                                                        \
#name, FM_KEY_NODE, 0, 0, 0, NULL, NULL, FM_LATER, help                                              \
    }
#define RATE(fallback) NUMBER(learning_rate, 0, FLT_MAX, fallback, 0, "length of a step; 0 is allowed")
#define MOMENTUM       NUMBER(momentum, 0, 1, "0", 0, "share of the last update that is kept")
#define EPSILON        NUMBER(epsilon, 0, FLT_MAX, "1e-7", 0, "added to the denominator")
#define BETAS                                                                                                \
    NUMBER(beta_1, 0, 1, "0.9", FM_OPEN_MAX, "decay of the first moment"),                                   \
        NUMBER(beta_2, 0, 1, "0.999", FM_OPEN_MAX, "decay of the second moment"), EPSILON,                   \
        SWITCH(amsgrad, "keep the largest second moment")
#define COMMON(decay, text)                                                                                  \
    NUMBER(weight_decay, 0, FLT_MAX, decay, FM_NULLABLE, text),                                              \
        NUMBER(clipnorm, 0, FLT_MAX, NULL, FM_NULLABLE,                                                      \
               "largest norm of each variable's gradient; 0 = off"),                                         \
        NUMBER(global_clipnorm, 0, FLT_MAX, NULL, FM_NULLABLE, "largest norm of all gradients; 0 = off"),    \
        NUMBER(clipvalue, 0, FLT_MAX, NULL, FM_NULLABLE, "largest size of a gradient's element; 0 = off"),   \
        LATER(use_ema, "moving average of the weights"), LATER(ema_momentum, "its decay"),                   \
        LATER(ema_overwrite_frequency, "when it replaces the weights"),                                      \
        LATER(gradient_accumulation_steps, "steps to an update"),                                            \
        LATER(loss_scale_factor, "scale of the loss")
#define DECAY "share of every weight taken off in a step, times the learning rate (decoupled)"

const struct fm_key fm_sgd_keys[] = {
    RATE("0.01"), MOMENTUM, SWITCH(nesterov, "Nesterov's momentum"), COMMON(NULL, DECAY), {0},
};
const struct fm_key fm_adam_keys[] = {RATE("0.001"), BETAS, COMMON(NULL, DECAY), {0}};
const struct fm_key fm_adamw_keys[] = {RATE("0.001"), BETAS, COMMON("0.004", DECAY), {0}};
const struct fm_key fm_rmsprop_keys[] = {
    RATE("0.001"),
    NUMBER(rho, 0, 1, "0.9", 0, "decay of the mean square"),
    MOMENTUM,
    EPSILON,
    SWITCH(centered, "divide by the standard deviation instead of the root mean square"),
    COMMON(NULL, DECAY),
    {0},
};

static const char *const optimizer_names[] = {"sgd", "adam", "adamw", "rmsprop", NULL};
static const char *const later_names[] = {"nadam", "adagrad", "lion", NULL};
static const struct fm_key *const optimizer_keys[] = {fm_sgd_keys, fm_adam_keys, fm_adamw_keys,
                                                      fm_rmsprop_keys};

/* Keras refuses more than one clip; one that is 0 is off and does not count. */
static int read_clip(struct fm_train_config *train, const struct raw *raw, const struct fm_node *arguments,
                     struct fm_error *err)
{
    static const char *const names[] = {"clipnorm", "global_clipnorm", "clipvalue"};
    const double values[] = {raw->clipnorm, raw->global_clipnorm, raw->clipvalue};
    const char *chosen = NULL;
    for (int i = 0; i < 3; i++) {
        if (values[i] == 0) continue;
        if (chosen) {
            return fm_node_fail(
                fm_node_key(arguments, names[i]), FM_EFILE, err,
                "%s and %s are both given; expected only one of clipnorm, global_clipnorm, clipvalue", chosen,
                names[i]);
        }
        chosen = names[i];
        train->optimizer.clip = (enum fm_clip_kind)(FM_CLIP_NORM + i);
        train->optimizer.clip_value = values[i];
    }
    return 0;
}

static void move(struct fm_train_config *train, const struct raw *raw)
{
    train->optimizer.learning_rate = raw->learning_rate;
    train->optimizer.momentum = raw->momentum;
    train->optimizer.beta_1 = raw->beta_1;
    train->optimizer.beta_2 = raw->beta_2;
    train->optimizer.epsilon = raw->epsilon;
    train->optimizer.rho = raw->rho;
    train->optimizer.weight_decay = raw->weight_decay;
    train->optimizer.nesterov = raw->nesterov;
    train->optimizer.amsgrad = raw->amsgrad;
    train->optimizer.centered = raw->centered;
}

int fm_optimizer_read(struct fm_train_config *train, const struct fm_node *node, struct fm_notes *notes,
                      struct fm_error *err)
{
    const struct fm_node *name, *arguments;
    struct raw raw = {0};
    int kind = 0;
    int code = fm_named_read(node, "train.optimizer", &name, &arguments, err);
    if (code) return code;
    for (const char *const *later = later_names; *later; later++) {
        if (strcmp(name->text, *later) == 0) {
            return fm_node_fail(name, FM_ELATER, err, "train.optimizer: %s is not available yet", *later);
        }
    }
    code = fm_choice_read(name, "train.optimizer", optimizer_names, &kind, err);
    if (code) return code;
    const struct fm_node *rate = arguments ? fm_node_get(arguments, "learning_rate") : NULL;
    if (rate && rate->kind != FM_SCALAR) {
        return fm_node_fail(rate, FM_ELATER, err, "a schedule as learning_rate is not available yet");
    }
    train->optimizer.kind = (enum fm_optimizer_kind)kind;
    code = fm_keys_read(optimizer_keys[kind], arguments, name, optimizer_names[kind], &raw, NULL, notes, err);
    if (code) return code;
    move(train, &raw);
    return read_clip(train, &raw, arguments, err);
}
