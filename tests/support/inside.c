#include "support/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

static size_t elements(const struct fm_lane *lane, int tensor)
{
    const struct fm_tensor *t = &lane->program->tensors[tensor];
    const bool shared = t->kind == FM_TENSOR_PARAMETER || t->kind == FM_TENSOR_STATE ||
                        t->kind == FM_TENSOR_GRADIENT || t->kind == FM_TENSOR_BATCH;
    return (size_t)(t->rows * t->channels * (shared ? 1 : lane->n));
}

double *inside_tensor(const struct fm_lane *lane, int tensor, size_t *count)
{
    *count = elements(lane, tensor);
    double *out = malloc((*count + 1) * sizeof *out);
    for (size_t i = 0; out && i < *count; i++)
        out[i] = fm_loops(lane)->size == sizeof(float)
                     ? (double)((const float *)fm_loops(lane)->tensor[tensor])[i]
                     : ((const double *)fm_loops(lane)->tensor[tensor])[i];
    return out;
}

void inside_set(struct fm_lane *lane, int tensor, const double *values)
{
    const size_t count = elements(lane, tensor);
    for (size_t i = 0; i < count; i++) {
        if (fm_loops(lane)->size == sizeof(float))
            ((float *)fm_loops(lane)->tensor[tensor])[i] = (float)values[i];
        else
            ((double *)fm_loops(lane)->tensor[tensor])[i] = values[i];
    }
}

const struct fm_op *inside_find(const struct fm_lane *lane, enum fm_section section, enum fm_opcode code)
{
    const struct fm_program *p = lane->program;
    for (int i = p->section_first[section]; i < p->section_first[section + 1]; i++)
        if (p->ops[i].code == code) return &p->ops[i];
    return NULL;
}

const struct fm_op *inside_find_last(const struct fm_lane *lane, enum fm_section section, enum fm_opcode code)
{
    const struct fm_program *p = lane->program;
    for (int i = p->section_first[section + 1] - 1; i >= p->section_first[section]; i--)
        if (p->ops[i].code == code) return &p->ops[i];
    return NULL;
}

float *inside_floats(const json_t *tensor, int64_t shape[3], size_t *count)
{
    const json_t *sizes = json_object_get(tensor, "shape");
    for (size_t i = 0; i < 3; i++)
        shape[i] = i < json_array_size(sizes) ? json_integer_value(json_array_get(sizes, i)) : 1;
    double *numbers = ts_golden_numbers(json_object_get(tensor, "data"), count);
    float *out = numbers ? malloc((*count + 1) * sizeof *out) : NULL;
    for (size_t i = 0; out && i < *count; i++) out[i] = (float)numbers[i];
    free(numbers);
    return out;
}

char *inside_yaml(const json_t *layers, const char *loss, const json_t *optimizer, int64_t batch,
                  const char *more)
{
    char *model = json_dumps(layers, 0);
    char *rule = optimizer ? json_dumps(optimizer, 0) : NULL;
    char *yaml = NULL;
    if (model && (rule || !optimizer) &&
        asprintf(&yaml, "model: %s\ntrain:\n  loss: %s\n  optimizer: %s\n  batch_size: %lld\n  epochs: 1\n%s",
                 model, loss, rule ? rule : "{sgd: {learning_rate: 0}}", (long long)batch,
                 more ? more : "") < 0)
        yaml = NULL;
    free(model);
    free(rule);
    return yaml;
}
