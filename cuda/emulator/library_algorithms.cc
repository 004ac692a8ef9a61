// Which algorithms the stand-in for cuDNN has, and what it says of them.
#include "emulator/library_private.h"

// Numbers as cuDNN's: forward 0 to 7, data 0 to 5, filter 0 to 6. UNSTABLE: not deterministic, and says so;
// ATOMIC: not deterministic, and says so in some shapes only.
enum verdict { USABLE, ATOMIC, UNSTABLE, TENSOR_CORES, HUGE_SPACE, REFUSED };
static const enum verdict verdicts[3][8] = {
    {USABLE, USABLE, UNSTABLE, REFUSED, HUGE_SPACE, REFUSED, TENSOR_CORES, REFUSED},
    {ATOMIC, USABLE, HUGE_SPACE, TENSOR_CORES, REFUSED, UNSTABLE, REFUSED, REFUSED},
    {ATOMIC, USABLE, HUGE_SPACE, ATOMIC, REFUSED, UNSTABLE, TENSOR_CORES, REFUSED}};
static const int counts[3] = {8, 6, 7};

static enum verdict verdict_of(int direction, int algorithm)
{
    if (algorithm < 0 || algorithm >= counts[direction]) return REFUSED;
    const enum verdict verdict = verdicts[direction][algorithm];
    return verdict == USABLE && fm_emulated_library()->no_choice ? HUGE_SPACE : verdict;
}

bool fm_emulated_conv_usable(int direction, int algorithm)
{
    return verdict_of(direction, algorithm) == USABLE;
}

int64_t fm_emulated_conv_workspace(const struct fm_emulated_conv *conv, int direction, int algorithm)
{
    switch (verdict_of(direction, algorithm)) {
    case REFUSED: return -1;
    case HUGE_SPACE: return (int64_t)1 << 30;
    case ATOMIC: return 0;
    default:
        if (direction == FM_EMULATED_FORWARD && algorithm == 0) return 0;
        return (int64_t)1024 * algorithm + 256 * conv->taps;
    }
}

// A pure function of seed and shape: asked twice, the real one answers alike.
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

int fm_emulated_conv_answers(const struct fm_emulated_conv *conv, int direction, bool supported,
                             int requested, struct fm_dnn_answer *answers)
{
    struct fm_dnn_answer all[16] = {};
    int count = 0;
    uint64_t state = fm_emulated_settings()->seed + (uint64_t)direction;
    const int shape[] = {conv->examples, conv->x_rows,   conv->channels, conv->filters,
                         conv->taps,     conv->dilation, conv->stride,   conv->groups};
    for (int number : shape) state = mix(state ^ (uint64_t)number);
    for (int a = 0; a < counts[direction]; a++) {
        const enum verdict verdict = supported ? verdict_of(direction, a) : REFUSED;
        const int64_t need = fm_emulated_conv_workspace(conv, direction, a);
        struct fm_dnn_answer answer = {};
        answer.algorithm = a;
        answer.status = verdict == REFUSED ? FM_EMULATED_DNN_NOT_SUPPORTED : 0;
        answer.time = -1;
        answer.memory = need < 0 ? 0 : (size_t)need;
        state = mix(state);
        // Some versions call the atomic ones deterministic for some shapes.
        answer.determinism = verdict == ATOMIC ? (int)(state % 2) : verdict != UNSTABLE;
        const bool seven = fm_emulated_library()->cudnn && fm_emulated_library()->cudnn < 8000;
        answer.math = verdict == TENSOR_CORES ? FM_DNN_TENSOR_OP_MATH
                      : seven                 ? FM_DNN_DEFAULT_MATH
                                              : FM_DNN_FMA_MATH;
        all[count++] = answer;
        if (verdict != TENSOR_CORES) continue;
        answer.math = FM_DNN_TENSOR_OP_CONVERSION;
        all[count++] = answer;
    }
    for (int i = count - 1; i > 0; i--) {
        state = mix(state);
        const int j = (int)(state % (uint64_t)(i + 1));
        const struct fm_dnn_answer kept = all[i];
        all[i] = all[j];
        all[j] = kept;
    }
    if (count > requested) count = requested;
    for (int i = 0; i < count; i++) answers[i] = all[i];
    return count;
}
