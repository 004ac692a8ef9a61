/* Private to config: the parts of `train` that are mappings of their own. */
#ifndef FM_CONFIG_TRAIN_PARTS_H
#define FM_CONFIG_TRAIN_PARTS_H

#include "config/sweep.h"

/* *known becomes false when the loss is a parameter. */
int fm_loss_read(struct fm_train_config *train, const struct fm_node *node, bool *known,
                 struct fm_notes *notes, struct fm_error *err);
int fm_optimizer_read(struct fm_train_config *train, const struct fm_node *node, struct fm_notes *notes,
                      struct fm_error *err);
/* `node` NULL: no early stopping. */
int fm_stopping_read(struct fm_train_config *train, const struct fm_node *node, bool inner, bool loss_known,
                     struct fm_notes *notes, struct fm_error *err);

#endif
