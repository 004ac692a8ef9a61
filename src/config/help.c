/* The list of all tables, which `foldmill help keys` prints: the same that the readers use. */
#include "config/parameter.h"
#include "config/tables.h"

const struct fm_key_section *fm_sweep_sections(void)
{
    static const struct fm_key_section sections[] = {
        {"sweep", "the top level of a sweep file", fm_sweep_keys},
        {"data", "what is learnt from", fm_data_keys},
        {"data.window", "which positions make an example", fm_window_keys},
        {"data.target", "the labels, when a column's name is not enough", fm_target_keys},
        {"data.sequence", "strings of letters (source sequences)", fm_sequence_keys},
        {"data.mask", "which positions may be anchors", fm_mask_keys},
        {"cv", "how folds are made", fm_cv_keys},
        {"cv.inner", "a part of the training set that early stopping watches", fm_inner_keys},
        {"train", "how is trained", fm_train_keys},
        {"loss categorical_crossentropy", "classes; one output a class", fm_crossentropy_keys},
        {"loss sparse_categorical_crossentropy", "the same with class numbers", fm_sparse_keys},
        {"loss binary_crossentropy", "two classes; one output", fm_crossentropy_keys},
        {"loss mse", "numbers: mean squared error; takes no keys", fm_no_keys},
        {"loss mae", "numbers: mean absolute error; takes no keys", fm_no_keys},
        {"loss huber", "numbers: quadratic near 0, linear beyond delta", fm_huber_keys},
        {"optimizer sgd", "stochastic gradient descent", fm_sgd_keys},
        {"optimizer adam", "Adam", fm_adam_keys},
        {"optimizer adamw", "Adam with weight decay", fm_adamw_keys},
        {"optimizer rmsprop", "RMSprop", fm_rmsprop_keys},
        {"train.early_stopping", "Keras's early stopping", fm_stop_keys},
        {"train.early_stopping with rule", "Prechelt's early stopping; restores the best weights",
         fm_rule_keys},
        {"metric", "what trials are ranked by", fm_metric_keys},
        {"parameter", "one parameter's values or distribution, as in W&B's sweep files", fm_parameter_keys},
        {"keep", "what is kept of the best trials", fm_keep_keys},
        {0},
    };
    return sections;
}
