#include "support/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

const struct fm_backend *const inside_backends[3] = {&fm_backend_reference, &fm_backend_reference64,
                                                     &fm_backend_cpu};

bool inside_is_single(const struct fm_backend *backend)
{
    return backend != &fm_backend_reference64;
}

static struct fm_cpu_lane *cpu_lane(const struct fm_lane *lane)
{
    return lane->executor == &fm_cpu_executor ? lane->engine : NULL;
}

static bool is_shared(const struct fm_tensor *t)
{
    return t->kind == FM_TENSOR_PARAMETER || t->kind == FM_TENSOR_STATE || t->kind == FM_TENSOR_GRADIENT ||
           t->kind == FM_TENSOR_BATCH;
}

static size_t elements(const struct fm_lane *lane, int tensor)
{
    const struct fm_tensor *t = &lane->program->tensors[tensor];
    return (size_t)(t->rows * t->channels * (is_shared(t) ? 1 : lane->n));
}

/* Where the CPU engine keeps element i of a tensor: a turned kernel lies [units][in]. */
static size_t cpu_place(const struct fm_cpu_lane *lane, int tensor, size_t i)
{
    const struct fm_program *p = lane->plan.program;
    const struct fm_tensor *t = &p->tensors[tensor];
    const size_t each = (size_t)(t->rows * t->channels);
    if (!is_shared(t)) return i / each * (size_t)fm_cpu_stride(lane, tensor) + i % each;
    for (int v = 0; v < p->nvariables; v++) {
        const struct fm_variable *variable = &p->variables[v];
        if ((variable->tensor != tensor && variable->gradient != tensor) || !lane->plan.variables[v].turned)
            continue;
        const size_t in = (size_t)variable->shape[0], units = (size_t)variable->shape[1];
        return i % units * in + i / units;
    }
    return i;
}

static double element(const struct fm_lane *lane, int tensor, size_t i)
{
    const struct fm_cpu_lane *cpu = cpu_lane(lane);
    const void *data = cpu ? (const void *)cpu->tensor[tensor] : fm_loops(lane)->tensor[tensor];
    if (cpu) i = cpu_place(cpu, tensor, i);
    if (lane->program->tensors[tensor].type == FM_U8) return ((const uint8_t *)data)[i];
    if (cpu || fm_loops(lane)->size == sizeof(float)) return (double)((const float *)data)[i];
    return ((const double *)data)[i];
}

double *inside_tensor(const struct fm_lane *lane, int tensor, size_t *count)
{
    *count = elements(lane, tensor);
    if (cpu_lane(lane) && !cpu_lane(lane)->tensor[tensor]) return NULL;
    double *out = malloc((*count + 1) * sizeof *out);
    for (size_t i = 0; out && i < *count; i++) out[i] = element(lane, tensor, i);
    return out;
}

double *inside_losses(const struct fm_lane *lane, size_t *count)
{
    const struct fm_cpu_lane *cpu = cpu_lane(lane);
    if (!cpu) return inside_tensor(lane, inside_find(lane, FM_SECTION_FORWARD, FM_OP_LOSS)->out[0], count);
    *count = (size_t)lane->n;
    double *out = malloc((*count + 1) * sizeof *out);
    if (out) memcpy(out, cpu->loss, *count * sizeof *out);
    return out;
}

void inside_set(struct fm_lane *lane, int tensor, const double *values)
{
    const size_t count = elements(lane, tensor);
    struct fm_cpu_lane *cpu = cpu_lane(lane);
    void *data = cpu ? (void *)cpu->tensor[tensor] : fm_loops(lane)->tensor[tensor];
    for (size_t i = 0; i < count; i++) {
        if (cpu)
            ((float *)data)[cpu_place(cpu, tensor, i)] = (float)values[i];
        else if (fm_loops(lane)->size == sizeof(float))
            ((float *)data)[i] = (float)values[i];
        else
            ((double *)data)[i] = values[i];
    }
    /* The norm that clips is worked out with the gradients. */
    if (cpu && lane->program->tensors[tensor].kind == FM_TENSOR_GRADIENT) cpu->square = fm_cpu_square(cpu);
}

void inside_backward(struct fm_lane *lane, const struct fm_op *head, const double *dy)
{
    const struct fm_program *p = lane->program;
    struct fm_cpu_lane *cpu = cpu_lane(lane);
    inside_set(lane, head->out[0], dy);
    if (!cpu) {
        for (const struct fm_op *op = head + 1; op < p->ops + p->section_first[FM_SECTION_BACKWARD + 1]; op++)
            lane->executor->operation(lane, op);
        return;
    }
    const struct fm_cpu_plan *plan = &cpu->plan;
    for (int v = 0; v < p->nvariables; v++)
        if (plan->variables[v].cleared)
            memset(cpu->gradients + plan->variables[v].offset, 0,
                   (size_t)p->variables[v].count * sizeof *cpu->gradients);
    int at = plan->train_first;
    while (plan->tasks[at].op != head) at++;
    cpu->place = 0;
    if (plan->tasks[at].act) fm_cpu_activate_grad(plan->tasks[at].act, cpu, 0, lane->n);
    while (++at < plan->evaluate_first) plan->tasks[at].run(&plan->tasks[at], cpu, 0, lane->n);
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
