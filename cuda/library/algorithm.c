/* Which of cuDNN's algorithms computes a convolution. Never by timing: the answers of the getter are rules of
 * the library, so that the same versions on the same kind of card choose alike. */
#include <stdio.h>

#include "library/private.h"

static int ask_algorithms(const struct fm_dnn_table *dnn, struct fm_dnn_handle *handle,
                          const struct fm_dnn_call *call, int *count, struct fm_dnn_answer *answers)
{
    switch (call->direction) {
    case FM_DNN_FORWARD:
        return dnn->forward_algorithms(handle, call->x, call->w, call->convolution, call->y,
                                       FM_DNN_ALGORITHMS, count, answers);
    case FM_DNN_INPUT_GRAD:
        return dnn->data_algorithms(handle, call->w, call->y, call->convolution, call->x, FM_DNN_ALGORITHMS,
                                    count, answers);
    default:
        return dnn->filter_algorithms(handle, call->x, call->y, call->convolution, call->w, FM_DNN_ALGORITHMS,
                                      count, answers);
    }
}

static int ask_workspace(const struct fm_dnn_table *dnn, struct fm_dnn_handle *handle,
                         const struct fm_dnn_call *call, int algorithm, size_t *bytes)
{
    switch (call->direction) {
    case FM_DNN_FORWARD:
        return dnn->forward_workspace(handle, call->x, call->w, call->convolution, call->y, algorithm, bytes);
    case FM_DNN_INPUT_GRAD:
        return dnn->data_workspace(handle, call->w, call->y, call->convolution, call->x, algorithm, bytes);
    default:
        return dnn->filter_workspace(handle, call->x, call->y, call->convolution, call->w, algorithm, bytes);
    }
}

/* Those that add with atomics, whatever an answer says of them. */
static bool adds_with_atomics(enum fm_dnn_direction direction, int algorithm)
{
    if (direction == FM_DNN_INPUT_GRAD) return algorithm == FM_DNN_DATA_ALGO_0;
    if (direction == FM_DNN_WEIGHT_GRAD)
        return algorithm == FM_DNN_FILTER_ALGO_0 || algorithm == FM_DNN_FILTER_ALGO_3;
    return false;
}

/* The descriptor asks for FMA; an answer that says default will run with that. */
static bool acceptable(const struct fm_dnn_answer *answer, enum fm_dnn_direction direction)
{
    return answer->status == FM_DNN_SUCCESS && answer->determinism == FM_DNN_DETERMINISTIC &&
           (answer->math == FM_DNN_FMA_MATH || answer->math == FM_DNN_DEFAULT_MATH) &&
           answer->memory <= FM_LIBRARY_WORKSPACE && answer->algorithm >= 0 &&
           !adds_with_atomics(direction, answer->algorithm);
}

int fm_dnn_choose(struct fm_device *device, struct fm_dnn_handle *handle, struct fm_dnn_call *call,
                  int algorithm, char *why, size_t why_size, struct fm_error *err)
{
    const struct fm_dnn_table *dnn = device->libraries->dnn;
    struct fm_dnn_answer answers[FM_DNN_ALGORITHMS];
    int count = 0;
    int status = fm_dnn_judge(device, ask_algorithms(dnn, handle, call, &count, answers),
                              "cudnnGetConvolution...Algorithm_v7", why, why_size, err);
    if (status) return status;
    if (count > FM_DNN_ALGORITHMS) count = FM_DNN_ALGORITHMS;
    for (int i = 0; i < count; i++) {
        if (!acceptable(&answers[i], call->direction)) continue;
        if (algorithm >= 0 && answers[i].algorithm != algorithm) continue;
        /* An answer is a guess of the heuristics in cuDNN 7; this call looks at the descriptors. */
        size_t bytes = 0;
        status = fm_dnn_judge(device, ask_workspace(dnn, handle, call, answers[i].algorithm, &bytes),
                              "cudnnGetConvolution...WorkspaceSize", why, why_size, err);
        if (status < 0) return status;
        if (status == 1 || bytes > FM_LIBRARY_WORKSPACE) continue;
        call->algorithm = answers[i].algorithm;
        call->workspace = bytes;
        return 0;
    }
    if (algorithm >= 0)
        snprintf(why, why_size, "cuDNN does not offer algorithm %d for this convolution now", algorithm);
    else
        snprintf(why, why_size,
                 "none of cuDNN's %d algorithms is deterministic fp32 within %d MB of workspace", count,
                 FM_LIBRARY_WORKSPACE >> 20);
    return 1;
}
