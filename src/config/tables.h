/* Private to config: the key tables, and the readers of the sections that fm_sweep_parse puts together. */
#ifndef FM_CONFIG_TABLES_H
#define FM_CONFIG_TABLES_H

#include "config/sweep.h"

extern const struct fm_key fm_sweep_keys[], fm_metric_keys[], fm_keep_keys[];
extern const struct fm_key fm_data_keys[], fm_window_keys[], fm_target_keys[], fm_sequence_keys[],
    fm_mask_keys[];
extern const struct fm_key fm_cv_keys[], fm_inner_keys[];
extern const struct fm_key fm_train_keys[], fm_stop_keys[], fm_rule_keys[];
extern const struct fm_key fm_sgd_keys[], fm_adam_keys[], fm_adamw_keys[], fm_rmsprop_keys[];
extern const struct fm_key fm_crossentropy_keys[], fm_sparse_keys[], fm_no_keys[], fm_huber_keys[];

/* Fills `data` from its mapping. Made nodes go to `doc`. */
int fm_data_read(struct fm_data_config *data, struct fm_document *doc, const struct fm_node *map,
                 struct fm_notes *notes, struct fm_error *err);

/* The parts of `data` that are more than one value. `series`: csv, sine, or arrays with a window. */
int fm_window_read(struct fm_window_config *window, const struct fm_node *map, enum fm_source source,
                   struct fm_notes *notes, struct fm_error *err);
int fm_target_read(struct fm_data_config *data, const struct fm_node *node, struct fm_notes *notes,
                   struct fm_error *err);
int fm_sequence_read(struct fm_data_config *data, const struct fm_node *map, struct fm_notes *notes,
                     struct fm_error *err);
int fm_mask_read(struct fm_data_config *data, const struct fm_node *map, struct fm_notes *notes,
                 struct fm_error *err);
int fm_missing_read(struct fm_data_config *data, struct fm_document *doc, const struct fm_node *node,
                    struct fm_error *err);
int fm_scale_read(struct fm_data_config *data, struct fm_document *doc, const struct fm_node *node,
                  struct fm_error *err);

/* A scalar that names something (a column, an array), or an error; and a scalar or a list of them. */
int fm_name_check(const struct fm_node *node, const char *path, struct fm_error *err);
int fm_names_check(const struct fm_node *node, const char *path, struct fm_error *err);

/* Fills `cv`; `data` is read already. */
int fm_cv_read(struct fm_cv_config *cv, const struct fm_data_config *data, const struct fm_node *map,
               struct fm_notes *notes, struct fm_error *err);

/* True when the loss works on numbers, so that targets are read as numbers. */
bool fm_loss_is_regression(enum fm_loss_kind kind);
/* True for metrics of numbers (mse, mae, r2); the loss is neither. */
bool fm_metric_is_regression(enum fm_metric metric);
/* Refuses a metric that a loss's targets cannot define. */
int fm_metric_fits(enum fm_metric metric, enum fm_loss_kind loss, const struct fm_node *node,
                   const char *path, struct fm_error *err);

#endif
