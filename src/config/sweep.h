/* The sweep file as structs: what sweep-file.md says, typed, with its defaults.
 *
 * `data`, `cv`, search and results are read once. `model` and `train` may hold "${parameters}", so they stay
 * trees here and are read for each trial after substitution (fm_train_read; net/layers.h). Texts and nodes
 * belong to the document, which belongs to the sweep.
 */
#ifndef FM_CONFIG_SWEEP_H
#define FM_CONFIG_SWEEP_H

#include "config/keys.h"

/* ---- data ---- */

enum fm_source { FM_SOURCE_CSV, FM_SOURCE_SEQUENCES, FM_SOURCE_NPZ, FM_SOURCE_NPY, FM_SOURCE_SINE };
enum fm_header { FM_HEADER_AUTO, FM_HEADER_YES, FM_HEADER_NO };
enum fm_disorder { FM_DISORDER_ERROR, FM_DISORDER_SPLIT };
enum fm_unknown { FM_UNKNOWN_ZERO, FM_UNKNOWN_ERROR, FM_UNKNOWN_LETTER };
enum fm_other { FM_OTHER_ERROR, FM_OTHER_SKIP };
enum fm_missing {
    FM_MISSING_ERROR,
    FM_MISSING_DROP,
    FM_MISSING_INTERPOLATE,
    FM_MISSING_FFILL,
    FM_MISSING_VALUE
};
enum fm_align { FM_ALIGN_START, FM_ALIGN_CENTER, FM_ALIGN_END };
enum fm_edge { FM_EDGE_DROP, FM_EDGE_ZERO, FM_EDGE_WRAP };
enum fm_label {
    FM_LABEL_ANY,
    FM_LABEL_ALL,
    FM_LABEL_MAJORITY,
    FM_LABEL_MEAN,
    FM_LABEL_MAX,
    FM_LABEL_ANCHOR,
    FM_LABEL_FIRST,
    FM_LABEL_CENTER,
    FM_LABEL_LAST
};
enum fm_scale { FM_SCALE_NONE, FM_SCALE_STANDARD, FM_SCALE_MINMAX, FM_SCALE_ROBUST };

struct fm_missing_rule {
    enum fm_missing kind;
    int64_t limit; /* at most so many in a row; 0 = any number */
    double value;  /* FM_MISSING_VALUE */
};
/* A per-column exception to the default rule; `column` may end in '*'. */
struct fm_missing_column {
    const struct fm_node *column;
    struct fm_missing_rule rule;
};
struct fm_scale_column {
    const struct fm_node *column;
    enum fm_scale scale;
};

struct fm_window_config {
    const struct fm_node *length; /* a number, or a parameter "${name}" */
    int64_t stride;
    enum fm_align align;
    enum fm_edge edge;
    enum fm_label label;
    bool label_given;
    bool horizon_range;                  /* horizon: [a, b] */
    int64_t horizon_first, horizon_last; /* a plain h: both are h */
    const struct fm_node *where;         /* the mapping, for messages */
};

struct fm_data_config {
    enum fm_source source;
    const struct fm_node *where; /* the `data` mapping */
    const struct fm_node *path;  /* a text or a list of texts; NULL if absent */
    const char *folder;          /* folder of the sweep file: paths are relative to it */
    enum fm_header header;
    char delimiter;                                       /* 0 = auto */
    char decimal;                                         /* '.' or ',' */
    const struct fm_node *record, *group, *time, *weight; /* column names (scalars) or NULL */
    double gap;
    bool gap_given;
    enum fm_disorder disorder;
    const struct fm_node *features; /* a text or a list of texts, or NULL */
    struct {
        const struct fm_node *column, *alphabet; /* scalars */
        enum fm_unknown unknown;
    } sequence;
    struct {
        const struct fm_node *column; /* scalar, or NULL */
        const struct fm_node
            *classes; /* list of scalars, or a scalar whose characters are the classes; or NULL */
        enum fm_other other;
    } target;
    struct {
        const struct fm_node *column, *keep;
    } mask;
    struct fm_missing_rule missing;
    struct fm_missing_column *missing_columns;
    size_t missing_count;
    bool has_window;
    struct fm_window_config window;
    enum fm_scale scale;
    struct fm_scale_column *scale_columns;
    size_t scale_count;
    bool scale_fit_all;
    const struct fm_node *x, *y, *array_group, *array_weight, *array_fold, *array_mask,
        *lengths; /* names or paths */
    struct {
        int64_t samples, anomalies, seed;
        double noise, height;
    } sine;
};

/* ---- cv ---- */

enum fm_split_kind {
    FM_SPLIT_KFOLD,
    FM_SPLIT_STRATIFIED,
    FM_SPLIT_GROUP,
    FM_SPLIT_STRATIFIED_GROUP,
    FM_SPLIT_BLOCKED,
    FM_SPLIT_TIME_SERIES,
    FM_SPLIT_LEAVE_ONE_GROUP_OUT,
    FM_SPLIT_HOLDOUT,
    FM_SPLIT_PREDEFINED
};
enum fm_leak { FM_LEAK_WARN, FM_LEAK_ERROR };

struct fm_cv_config {
    enum fm_split_kind split;
    const struct fm_node *where;
    int64_t folds;              /* 0: as many as the data say (predefined, leave_one_group_out) */
    const struct fm_node *seed; /* a number or a parameter; NULL = 0 */
    bool shuffle;               /* with the split's own default applied */
    int64_t blocks;             /* 0 = folds */
    int64_t repeats;
    double test_size;       /* a share in (0, 1), or 0 = not given */
    int64_t test_count;     /* the same as a count of examples, or 0 */
    int64_t max_train_size; /* 0 = no limit */
    int64_t gap;
    bool purge; /* with the default applied */
    int64_t embargo;
    enum fm_leak leak;
    const struct fm_node *file, *column; /* scalars */
    bool has_inner;
    double inner_test_size;
};

/* ---- train: read for each trial ---- */

enum fm_loss_kind {
    FM_LOSS_CATEGORICAL_CROSSENTROPY,
    FM_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
    FM_LOSS_BINARY_CROSSENTROPY,
    FM_LOSS_MSE,
    FM_LOSS_MAE,
    FM_LOSS_HUBER
};
enum fm_optimizer_kind { FM_OPTIMIZER_SGD, FM_OPTIMIZER_ADAM, FM_OPTIMIZER_ADAMW, FM_OPTIMIZER_RMSPROP };
enum fm_clip_kind { FM_CLIP_NONE, FM_CLIP_NORM, FM_CLIP_GLOBAL_NORM, FM_CLIP_VALUE };
enum fm_on_nan { FM_ON_NAN_STOP, FM_ON_NAN_SKIP, FM_ON_NAN_ROLLBACK, FM_ON_NAN_KERAS };
enum fm_stop_rule { FM_STOP_NONE, FM_STOP_KERAS, FM_STOP_GL, FM_STOP_PQ, FM_STOP_UP };
enum fm_mode { FM_MODE_AUTO, FM_MODE_MIN, FM_MODE_MAX };
enum fm_class_weight { FM_CLASS_WEIGHT_NONE, FM_CLASS_WEIGHT_BALANCED, FM_CLASS_WEIGHT_MAP };

/* Everything a run can be measured by. Loss comes first; the others are scikit-learn's. */
enum fm_metric {
    FM_METRIC_LOSS,
    FM_METRIC_ACCURACY,
    FM_METRIC_BALANCED_ACCURACY,
    FM_METRIC_AUC,
    FM_METRIC_PR_AUC,
    FM_METRIC_PRECISION,
    FM_METRIC_RECALL,
    FM_METRIC_F1,
    FM_METRIC_MACRO_F1,
    FM_METRIC_MCC,
    FM_METRIC_MSE,
    FM_METRIC_MAE,
    FM_METRIC_R2,
    FM_METRICS
};
extern const char *const fm_metric_names[FM_METRICS + 1]; /* NULL-terminated */
bool fm_metric_maximize(enum fm_metric metric);

/* "val_auc", "inner_loss", "loss": which part it is measured on, and what. */
enum fm_part { FM_PART_TRAIN, FM_PART_INNER, FM_PART_VAL };
struct fm_monitor {
    enum fm_part part;
    enum fm_metric metric;
};
int fm_monitor_read(const struct fm_node *node, const char *path, struct fm_monitor *monitor,
                    struct fm_error *err);
const char *fm_monitor_name(struct fm_monitor monitor, char buffer[48]);

struct fm_train_config {
    struct {
        enum fm_loss_kind kind;
        bool from_logits;
        double label_smoothing, delta;
        const struct fm_node *where;
    } loss;
    struct {
        enum fm_optimizer_kind kind;
        double learning_rate, momentum, beta_1, beta_2, epsilon, rho,
            weight_decay; /* weight_decay 0 = none */
        bool nesterov, amsgrad, centered;
        enum fm_clip_kind clip;
        double clip_value;
    } optimizer;
    int64_t batch_size, epochs, steps_per_epoch /* 0 = a whole pass */, seed;
    bool shuffle;
    struct {
        enum fm_stop_rule rule;
        struct fm_monitor monitor;
        enum fm_mode mode;
        double min_delta, baseline, alpha;
        bool has_baseline, restore_best_weights;
        int64_t patience, start_from_epoch, strips, strip;
    } early_stopping;
    enum fm_on_nan on_nan;
    enum fm_class_weight class_weight;
    const struct fm_node *class_weight_map; /* class name -> weight */
    uint32_t metrics;                       /* bit 1 << enum fm_metric: measured each epoch */
    bool metrics_given;
};

/* ---- the rest ---- */

enum fm_method { FM_METHOD_GRID, FM_METHOD_RANDOM, FM_METHOD_LIST };

struct fm_sweep {
    struct fm_document document;
    char *path;       /* of the sweep file, as given */
    char *folder;     /* of the sweep file, "." at least */
    const char *name; /* default: the file's stem */
    const char *description;
    const struct fm_node *tags;
    struct fm_data_config data;
    struct fm_cv_config cv;
    const struct fm_node *model, *train;
    enum fm_method method;
    struct fm_monitor metric; /* what trials are ranked by */
    bool maximize;
    bool metric_given;
    const struct fm_node *parameters; /* map or NULL */
    const struct fm_node *trials;     /* list or NULL */
    int64_t run_cap;                  /* 0 = no cap */
    int64_t seed;
    struct {
        int64_t trials;
        bool predictions, weights;
    } keep;
};

/* Reads and checks the file; `settings` are `--set` texts. Everything that can be refused without the data
 * and without parameter values is refused here. On failure nothing is kept. */
int fm_sweep_read(struct fm_sweep *sweep, const char *path, const char *const *settings, size_t count,
                  struct fm_notes *notes, struct fm_error *err);
/* The same from memory; `path` is used in messages and for the folder, and need not exist. */
int fm_sweep_parse(struct fm_sweep *sweep, const char *path, const char *bytes, size_t size,
                   const char *const *settings, size_t count, struct fm_notes *notes, struct fm_error *err);
void fm_sweep_fini(struct fm_sweep *sweep);

/* Reads a `train` tree in which no parameter is left. `inner`: cv.inner is given, so early stopping watches
 * inner_loss by default, and watching val_* is refused (without it, watching inner_* is). */
int fm_train_read(struct fm_train_config *train, const struct fm_node *tree, bool inner,
                  struct fm_notes *notes, struct fm_error *err);

/* All tables, ended by title == NULL, for `foldmill help keys` (layer tables are net/layers.h's). */
const struct fm_key_section *fm_sweep_sections(void);

#endif
