/* The plan as a person reads it, for `plan --explain`. */
#include "plan/calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "library/library.h"

static void add_details(struct fm_text *text, const struct fm_cuda_call *call)
{
    if (call->splits > 1) fm_text_add(text, ", %d partial sums", call->splits);
    if (call->kind == FM_CALL_DNN) fm_text_add(text, ", algorithm %d", fm_dnn_call_algorithm(call->dnn));
    if (call->conv.taps > 1) fm_text_add(text, ", %d taps", call->conv.taps);
}

static void add_calls(struct fm_text *text, const struct fm_cuda_plan *plan, int first, int end)
{
    int width = 0;
    for (int i = first; i < end; i++) {
        const int size = (int)strlen(plan->calls[i].name);
        if (size > width) width = size;
    }
    for (int i = first; i < end; i++) {
        const struct fm_cuda_call *call = &plan->calls[i];
        fm_text_add(text, "    %2d  %-*s  %s", i - first + 1, width, call->name, call->shape);
        add_details(text, call);
        fm_text_add_string(text, "\n");
    }
}

static void add_indented(struct fm_text *text, const char *lines)
{
    for (const char *end; (end = strchr(lines, '\n')); lines = end + 1)
        fm_text_add(text, "    %.*s\n", (int)(end - lines), lines);
}

int fm_cuda_explain(const struct fm_device *device, const struct fm_program *program, int64_t batch,
                    struct fm_text *text, struct fm_error *err)
{
    const struct fm_cuda_plan *plan = NULL;
    char bytes[FM_BYTES_TEXT];
    const int status = fm_cuda_plan_get((struct fm_device *)device, program, batch, &plan, err);
    if (status) return status;
    fm_text_add(text, "  %s, %s of device memory a lane\n", device->numbers,
                fm_show_bytes(plan->layout.bytes, bytes));
    if (device->kind.kernels != FM_KERNELS_OWN && device->why_no_library[0])
        fm_text_add(text, "  %s\n", device->why_no_library);
    fm_text_add(text, "  a step of %" PRId64 " example%s, %d calls:\n", batch, batch == 1 ? "" : "s",
                plan->nstep);
    add_calls(text, plan, 0, plan->nstep);
    fm_text_add(text, "  an evaluation, %" PRId64 " examples at a time, %d calls:\n", plan->layout.chunk,
                plan->ncalls - plan->nstep);
    add_calls(text, plan, plan->nstep, plan->ncalls);
    if (plan->refused.size) {
        fm_text_add_string(text, "  own kernels where a library's call is refused:\n");
        add_indented(text, plan->refused.data);
    }
    return text->failed ? fm_fail_memory(err) : 0;
}
