/* Device memory: one range of addresses for each card, never used twice, closed to the host, filled with NaN.
 *
 * Addresses cost nothing, so a card has 64 GB of them. An allocation's end lies at a closed page (less than
 * 256 bytes before it). Memory is filled and opened when work first touches it, in chunks of 2 MB - which
 * Linux can give as one large page; opening and closing 16 MB then takes 3 us instead of 500 -, and closed
 * when the burst is over. Small allocations have pages of their own.
 *
 * Pinned memory lies in pinned.cc. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <map>

#include "emulator/core.h"

static const size_t PAGE = 4096, CHUNK = 2 << 20, RANGE = (size_t)64 << 30, SMALL = 512 << 10;

/* Types of a file's own are in unnamed namespaces: their functions must not meet those of other files. */
namespace
{
struct extent {
    const char *at;
    size_t bytes;
};
struct piece {
    size_t bytes;
    uint64_t opened; /* the block's, when it was taken */
    std::vector<struct extent> parts;
};
struct block {
    char *at; /* first page; the user's bytes end in the last one */
    size_t size;
    char *user;
    size_t bytes;
    bool live, large;
    std::vector<bool> filled; /* each chunk */
    char *open, *open_end;    /* what this burst opened, all in between included */
    uint64_t opened;          /* how often a burst did */
    bool dealt;               /* the program deals it out: */
    std::map<const char *, struct piece> pieces;
};
struct range {
    char *base, *top;
    std::map<const char *, struct block> blocks; /* by `at` */
    size_t used;
};
struct device_memory {
    struct range cards[FM_EMULATED_CARDS];
    std::vector<struct block *> opened;
};
} // namespace
static struct device_memory *memory;

static char *round_up(char *p, size_t to)
{
    return (char *)(((uintptr_t)p + to - 1) / to * to);
}

static struct range *range_of(int card)
{
    if (!memory) memory = new struct device_memory();
    struct range *range = &memory->cards[card];
    if (!range->base) {
        void *p = mmap(NULL, RANGE + CHUNK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return NULL;
        range->base = round_up((char *)p, CHUNK);
        range->top = range->base + CHUNK;
    }
    return range;
}

/* The block that an address lies in, dead ones included. */
static struct block *find(const char *address, int *card)
{
    for (int c = 0; memory && c < FM_EMULATED_CARDS; c++) {
        struct range *range = &memory->cards[c];
        if (!range->base || address < range->base || address >= range->base + RANGE) continue;
        *card = c;
        auto next = range->blocks.upper_bound(address);
        if (next == range->blocks.begin()) return NULL;
        struct block *block = &(--next)->second;
        return address < block->at + block->size ? block : NULL;
    }
    *card = -1;
    return NULL;
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

static bool chunk_open(struct block *block, const char *address)
{
    size_t unit = block->large ? CHUNK : block->size, chunks = block->filled.size();
    size_t i = (size_t)(address - block->at) / unit, end = i + 1;
    if (block->open && address >= block->open && address < block->open_end && block->filled[i] &&
        !block->large)
        return false; /* it is open: no page fault that we know */
    bool fresh = !block->filled[i];
    /* Neighbours that hold something are opened with it. */
    while (!fresh && i > 0 && block->filled[i - 1]) i--;
    while (!fresh && end < chunks && block->filled[end]) end++;
    char *from = block->at + i * unit;
    size_t size = (end - i) * unit;
    if (mprotect(from, size, PROT_READ | PROT_WRITE) != 0) return false;
    if (fresh) {
        memset(from, 0xff, size);
        block->filled[i] = true;
    }
    if (!block->open) {
        memory->opened.push_back(block);
        block->opened++;
        block->open = from;
        block->open_end = from + size;
    }
    if (from < block->open) block->open = from;
    if (from + size > block->open_end) block->open_end = from + size;
    return true;
}

void fm_emulated_close(void)
{
    if (!memory) return;
    for (struct block *block : memory->opened) {
        mprotect(block->open, (size_t)(block->open_end - block->open), PROT_NONE);
        block->open = block->open_end = NULL;
    }
    memory->opened.clear();
}

enum fm_touch fm_emulated_touch(const char *address, int running_card, char *why, size_t size)
{
    int card;
    struct block *block = find(address, &card);
    if (card < 0) return fm_emulated_touch_pinned(address, running_card, why, size);
    const char *who = running_card < 0 ? "the host touches " : "touches ";
    if (!block)
        snprintf(why, size, "%sdevice memory of card %d outside any allocation", who, card);
    else if (!block->live)
        snprintf(why, size, "%sdevice memory that was freed (%zu bytes at %p)", who, block->bytes,
                 (void *)block->user);
    else if (running_card < 0)
        snprintf(why, size, "the host touches device memory (byte %td of %zu at %p)", address - block->user,
                 block->bytes, (void *)block->user);
    else if (card != running_card)
        snprintf(why, size, "touches memory of card %d but runs on card %d", card, running_card);
    else if (chunk_open(block, address))
        return FM_TOUCH_GO_ON;
    else
        snprintf(why, size, "touches device memory that cannot be had: this machine's memory is full");
    return FM_TOUCH_BAD;
}

/* ---- questions ----------------------------------------------------------------------------------------- */

bool fm_emulated_range_find(const void *address, char **base, size_t *bytes)
{
    int card;
    struct block *block = find((const char *)address, &card);
    if (!block || !block->live || (const char *)address < block->user) return false;
    *base = block->user;
    *bytes = block->bytes;
    return true;
}

bool fm_emulated_range_live(const void *address, size_t bytes, int card)
{
    int at;
    const char *p = (const char *)address;
    struct block *block = find(p, &at);
    return block && block->live && (card < 0 || at == card) && p >= block->user &&
           p <= block->user + block->bytes && bytes <= block->bytes - (size_t)(p - block->user);
}

/* The taken piece that an address lies in. */
static struct piece *find_piece(struct block *block, const char *address, const char **at)
{
    auto next = block->pieces.upper_bound(address);
    if (next == block->pieces.begin()) return NULL;
    --next;
    *at = next->first;
    return address < next->first + next->second.bytes ? &next->second : NULL;
}

static bool in_piece(struct block *block, const char *address, size_t bytes, const char *call,
                     const char *argument)
{
    const char *at;
    if (!block->dealt) return true;
    const struct piece *piece = find_piece(block, address, &at);
    if (piece && bytes <= piece->bytes - (size_t)(address - at)) return true;
    if (piece)
        fm_emulated_fault("%s: %s, %zu bytes from byte %td, does not lie in its piece of %zu bytes", call,
                          argument, bytes, address - at, piece->bytes);
    else
        fm_emulated_fault("%s: %s (%p) is in no piece of its allocation that is taken", call, argument,
                          (const void *)address);
    return false;
}

bool fm_emulated_range_check(const void *address, size_t bytes, int card, const char *call,
                             const char *argument)
{
    int at;
    struct block *block = find((const char *)address, &at);
    if (fm_emulated_range_live(address, bytes, card))
        return in_piece(block, (const char *)address, bytes, call, argument);
    if (block && block->live && card >= 0 && at != card)
        fm_emulated_fault("%s: %s is memory of card %d, not %d", call, argument, at, card);
    else if (block && block->live)
        fm_emulated_fault("%s: %s, %zu bytes from byte %td, does not lie in its allocation of %zu bytes",
                          call, argument, bytes, (const char *)address - block->user, block->bytes);
    else
        fm_emulated_fault("%s: %s (%p) is %s", call, argument, address,
                          block ? "device memory that was freed" : "no device memory");
    return false;
}

bool fm_emulated_operand_check(const void *address, size_t bytes, int card, const char *call,
                               const char *argument)
{
    const char *p = (const char *)address, *at;
    int on;
    if (!fm_emulated_range_check(address, bytes, card, call, argument)) return false;
    struct block *block = find(p, &on);
    const struct piece *piece = find_piece(block, p, &at);
    if (!piece || piece->parts.empty()) return true;
    for (const struct extent &part : piece->parts)
        if (p >= part.at && p < part.at + part.bytes && bytes <= part.bytes - (size_t)(p - part.at))
            return true;
    fm_emulated_fault("%s: %s, %zu bytes from byte %td of its piece, runs out of its tensor or variable",
                      call, argument, bytes, p - at);
    return false;
}

/* ---- pieces -------------------------------------------------------------------------------------------- */

extern "C" void fm_emulator_piece_take(const void *piece, size_t bytes)
{
    int card;
    struct block *block = find((const char *)piece, &card);
    if (!block || !block->live) return;
    block->dealt = true;
    block->pieces[(const char *)piece] = {bytes, block->opened, {}};
}

extern "C" void fm_emulator_piece_part(const void *part, size_t bytes)
{
    int card;
    const char *at;
    struct block *block = find((const char *)part, &card);
    struct piece *piece = block && block->live ? find_piece(block, (const char *)part, &at) : NULL;
    if (piece && bytes) piece->parts.push_back({(const char *)part, bytes});
}

/* What was never touched is NaN already. */
static void poison(struct block *block, char *from, char *end)
{
    size_t unit = block->large ? CHUNK : block->size;
    for (size_t i = 0; i < block->filled.size(); i++) {
        char *low = block->at + i * unit, *high = low + unit;
        if (!block->filled[i] || high <= from || low >= end) continue;
        char *begin = low > from ? low : from;
        if (mprotect(low, unit, PROT_READ | PROT_WRITE) != 0) return;
        memset(begin, 0xff, (size_t)((high < end ? high : end) - begin));
        mprotect(low, unit, PROT_NONE);
    }
}

extern "C" void fm_emulator_piece_give(const void *piece)
{
    int card;
    char *at = (char *)(uintptr_t)piece;
    struct block *block = find(at, &card);
    auto found = block ? block->pieces.find(at) : decltype(block->pieces.end())();
    if (!block || found == block->pieces.end()) return;
    if (block->live && block->opened != found->second.opened && !fm_emulated_lost())
        poison(block, at, at + found->second.bytes);
    block->pieces.erase(found);
}

/* ---- allocation ---------------------------------------------------------------------------------------- */

static size_t accounted(size_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

static char *deal_out(struct range *range, size_t bytes)
{
    struct block block = {};
    block.live = true;
    block.bytes = bytes;
    block.large = bytes > SMALL;
    size_t unit = block.large ? CHUNK : PAGE;
    block.size = (bytes + unit - 1) / unit * unit;
    block.at = round_up(range->top, unit);
    if (block.size > RANGE - CHUNK || block.at > range->base + RANGE - CHUNK - block.size) return NULL;
    block.filled.resize(block.large ? block.size / CHUNK : 1);
    block.user = block.at + (block.size - bytes) / 256 * 256;
    range->top = block.at + block.size + PAGE;
    if (block.large) madvise(block.at, block.size, MADV_HUGEPAGE);
    char *user = block.user;
    range->blocks[block.at] = std::move(block);
    return user;
}

extern "C" {

cudaError_t cudaMalloc(void **device, size_t bytes)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorMemoryAllocation);
    if (status) return status;
    if (!fm_emulated_may_block(__func__)) return fm_emulated_error(cudaErrorStreamCaptureUnsupported);
    *device = NULL;
    if (bytes == 0) return cudaSuccess;
    struct range *range = range_of(fm_emulated_card());
    size_t all = (size_t)fm_emulated_settings()->memory;
    if (!range || bytes > all || accounted(bytes) > all - range->used)
        return fm_emulated_error(cudaErrorMemoryAllocation);
    char *user = deal_out(range, bytes);
    if (!user) return fm_emulated_error(cudaErrorMemoryAllocation);
    range->used += accounted(bytes);
    fm_emulated_counts()->allocations++;
    fm_emulated_object_add(user, "device memory");
    *device = user;
    return cudaSuccess;
}

/* Waits for all work of the card, as the real one does; counted. */
cudaError_t cudaFree(void *device)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidValue);
    if (fm_emulated_lost() || (status && fm_emulated_settings()->no_driver)) return status;
    if (!device) return status;
    if (!fm_emulated_may_block(__func__)) return fm_emulated_error(cudaErrorStreamCaptureUnsupported);
    int card;
    struct block *block = find((char *)device, &card);
    if (!fm_emulated_object_remove(device, "device memory", __func__))
        return fm_emulated_error(cudaErrorInvalidValue);
    fm_emulated_counts()->synchronisations++;
    cudaError_t late = fm_emulated_drain(NULL);
    fm_emulated_close();
    mprotect(block->at, block->size, PROT_NONE);
    madvise(block->at, block->size, MADV_DONTNEED);
    block->live = false;
    memory->cards[card].used -= accounted(block->bytes);
    return status ? status : fm_emulated_error(late);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorUnknown);
    if (status) return status;
    struct range *range = range_of(fm_emulated_card());
    *total_bytes = (size_t)fm_emulated_settings()->memory;
    *free_bytes = *total_bytes - (range ? range->used : 0);
    return cudaSuccess;
}

} /* extern "C" */

void fm_emulated_memory_forget(void)
{
    fm_emulated_close();
    for (int c = 0; memory && c < FM_EMULATED_CARDS; c++)
        if (memory->cards[c].base) munmap(memory->cards[c].base, RANGE);
    delete memory;
    memory = NULL;
    fm_emulated_pinned_forget();
}
