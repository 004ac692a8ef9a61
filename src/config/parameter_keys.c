/* One entry of `parameters`: W&B's keys. What they mean together is search/space.c's. */
#include "config/parameter.h"

const char *const fm_distribution_names[] = {
    "constant",
    "categorical",
    "int_uniform",
    "uniform",
    "q_uniform",
    "log_uniform",
    "q_log_uniform",
    "log_uniform_values",
    "q_log_uniform_values",
    "inv_log_uniform_values",
    "normal",
    "q_normal",
    "log_normal",
    "q_log_normal",
    NULL,
};

#define NODE(name, flags, help)                                                                              \
    {                                                                                                        \
#name, FM_KEY_NODE, offsetof(struct fm_parameter_spec, name), 0, 0, NULL, NULL, flags, help          \
    }

const struct fm_key fm_parameter_keys[] = {
    NODE(value, 0, "a single value of any kind"),
    NODE(values, FM_NULLABLE, "a list of values of any kind"),
    NODE(probabilities, FM_NULLABLE, "how likely each of values is (random); they add up to 1"),
    {"distribution", FM_KEY_CHOICE, offsetof(struct fm_parameter_spec, distribution), 0, 0,
     fm_distribution_names, NULL, FM_NULLABLE, "default int_uniform for whole min and max, else uniform"},
    NODE(min, FM_NULLABLE, "smallest value (log_uniform, q_log_uniform: exponent of e)"),
    NODE(max, FM_NULLABLE, "largest value (log_uniform, q_log_uniform: exponent of e)"),
    NODE(mu, FM_NULLABLE, "mean of normal, or of the logarithm for log_normal; default 0"),
    NODE(sigma, FM_NULLABLE, "standard deviation, likewise; default 1"),
    NODE(q, FM_NULLABLE, "step of the q_ distributions; default 1"),
    NODE(parameters, FM_NULLABLE, "nested parameters, named a.b"),
    {0},
};
