// What the stand-ins share: settings, checks of operands.
#include "emulator/library_private.h"

#include <math.h>

static struct fm_emulator_library settings;

void fm_emulator_library_set(const struct fm_emulator_library *set)
{
    settings = *set;
}

const struct fm_emulator_library *fm_emulated_library(void)
{
    return &settings;
}

static bool overlap(const struct fm_emulated_operand *a, const struct fm_emulated_operand *b)
{
    const uintptr_t x = (uintptr_t)a->at, y = (uintptr_t)b->at;
    return a->bytes && b->bytes && x < y + b->bytes && y < x + a->bytes;
}

bool fm_emulated_operands_check(const struct fm_emulated_operand *operands, int count, int card,
                                const char *call)
{
    const struct fm_emulated_operand *out = &operands[count - 1];
    for (int i = 0; i < count; i++) {
        if (!fm_emulated_operand_check(operands[i].at, operands[i].bytes, card, call, operands[i].name))
            return false;
        if ((uintptr_t)operands[i].at % operands[i].alignment) {
            fm_emulated_fault("%s: %s is not at a multiple of %zu bytes", call, operands[i].name,
                              operands[i].alignment);
            return false;
        }
        if (i < count - 1 && overlap(&operands[i], out)) {
            fm_emulated_fault("%s: %s overlaps the output %s", call, operands[i].name, out->name);
            return false;
        }
    }
    return true;
}

bool fm_emulated_handle_ready(int card, cudaStream_t stream, const char *call)
{
    if (card != fm_emulated_card()) {
        fm_emulated_fault("%s: the handle is card %d's, but card %d is current", call, card,
                          fm_emulated_card());
        return false;
    }
    if (!stream) {
        fm_emulated_fault("%s: no stream was set, this would run in the default stream", call);
        return false;
    }
    if (!fm_emulated_stream_check(stream, call)) return false;
    if (fm_emulated_stream_card(stream) != card) {
        fm_emulated_fault("%s: the stream is card %d's, the handle card %d's", call,
                          fm_emulated_stream_card(stream), card);
        return false;
    }
    return true;
}

void fm_emulated_scribble(void *workspace, size_t bytes)
{
    float *at = (float *)workspace;
    for (size_t i = 0; i < bytes / sizeof *at; i++) at[i] = NAN;
}
