/* Device memory dealt out by arithmetic: first fit over a list of pieces in order of their offsets. Lanes are
 * few and large, so a list is enough. */
#include "cuda.h"

#include "base/memory.h"
#ifdef FM_EMULATED
#include "emulator/emulator.h"
#define TAKEN(at, bytes) fm_emulator_piece_take(at, (size_t)(bytes))
#define GIVEN(at)        fm_emulator_piece_give(at)
#else
#define TAKEN(at, bytes) ((void)0)
#define GIVEN(at)        ((void)0)
#endif

struct fm_arena_piece {
    int64_t offset, size;
    bool taken;
    struct fm_arena_piece *next;
};

static struct fm_arena_piece *piece_new(int64_t offset, int64_t size, struct fm_arena_piece *next)
{
    struct fm_arena_piece *piece = fm_calloc(1, sizeof *piece);
    if (piece) *piece = (struct fm_arena_piece){offset, size, false, next};
    return piece;
}

int fm_arena_init(struct fm_arena *arena, void *base, int64_t size)
{
    size -= size % FM_CUDA_ALIGN;
    *arena = (struct fm_arena){.base = base, .size = size, .first = piece_new(0, size, NULL)};
    if (arena->first) return 0;
    *arena = (struct fm_arena){0};
    return FM_ENOMEM;
}

void fm_arena_fini(struct fm_arena *arena)
{
    while (arena->first) {
        struct fm_arena_piece *next = arena->first->next;
        fm_free(arena->first);
        arena->first = next;
    }
    *arena = (struct fm_arena){0};
}

void *fm_arena_take(struct fm_arena *arena, int64_t bytes)
{
    const int64_t need = fm_cuda_round_up(bytes, FM_CUDA_ALIGN);
    for (struct fm_arena_piece *piece = arena->first; piece; piece = piece->next) {
        if (piece->taken || piece->size < need || need <= 0) continue;
        if (piece->size > need) {
            struct fm_arena_piece *rest = piece_new(piece->offset + need, piece->size - need, piece->next);
            if (!rest) return NULL;
            piece->next = rest;
            piece->size = need;
        }
        piece->taken = true;
        arena->used += need;
        TAKEN(arena->base + piece->offset, bytes);
        return arena->base + piece->offset;
    }
    return NULL;
}

static void join_next(struct fm_arena_piece *piece)
{
    struct fm_arena_piece *next = piece->next;
    if (piece->taken || !next || next->taken) return;
    piece->size += next->size;
    piece->next = next->next;
    fm_free(next);
}

void fm_arena_give(struct fm_arena *arena, void *memory)
{
    struct fm_arena_piece *before = NULL;
    if (!memory) return;
    for (struct fm_arena_piece *piece = arena->first; piece; before = piece, piece = piece->next) {
        if (!piece->taken || arena->base + piece->offset != (char *)memory) continue;
        GIVEN(memory);
        piece->taken = false;
        arena->used -= piece->size;
        join_next(piece);
        if (before) join_next(before);
        return;
    }
}

int64_t fm_arena_largest(const struct fm_arena *arena)
{
    int64_t largest = 0;
    for (const struct fm_arena_piece *piece = arena->first; piece; piece = piece->next)
        if (!piece->taken && piece->size > largest) largest = piece->size;
    return largest;
}
