/* Pinned host memory: never used twice, and locked where a queued copy uses it - the host may not read what a
 * copy will write, nor write what a copy will read. Locks count bytes; the hardware protects pages, so a
 * touch of a neighbour on the same page is seen to be innocent and opens the page. Mapped memory
 * (cudaHostAllocMapped) is what kernels and host share while both run: never locked. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <map>

#include "emulator/core.h"

static const size_t PAGE = 4096, RANGE = (size_t)16 << 30, FILL = 1 << 20;

namespace
{
struct pinned {
    size_t size, bytes;
    bool live, mapped;
};
struct lock {
    const char *at;
    size_t bytes;
    bool whole;
};
struct pinned_memory {
    char *base, *top;
    std::map<const char *, struct pinned> blocks;
    std::map<uint64_t, struct lock> locks;
    uint64_t locked; /* so far */
};
} // namespace
static struct pinned_memory *memory;

static struct pinned *find(const char *address, const char **at)
{
    if (!memory || address < memory->base || address >= memory->base + RANGE) return NULL;
    auto next = memory->blocks.upper_bound(address);
    if (next == memory->blocks.begin()) return NULL;
    --next;
    if (address >= next->first + next->second.size) return NULL;
    *at = next->first;
    return &next->second;
}

bool fm_emulated_pinned(const void *host, size_t bytes)
{
    const char *p = (const char *)host, *at;
    struct pinned *pinned = find(p, &at);
    return pinned && pinned->live && p <= at + pinned->bytes && bytes <= pinned->bytes - (size_t)(p - at);
}

/* ---- locks --------------------------------------------------------------------------------------------- */

static char *page_of(const char *p)
{
    return (char *)((uintptr_t)p / PAGE * PAGE);
}

static bool meets(const struct lock *lock, const char *from, const char *end)
{
    return lock->at < end && from < lock->at + lock->bytes;
}

/* What the locks leave of every page of the range. */
static void protect(const char *at, size_t bytes)
{
    char *end = page_of(at + bytes - 1) + PAGE, *run = page_of(at);
    int now = -1;
    for (char *page = run; page <= end; page += PAGE) {
        int allowed = PROT_READ | PROT_WRITE;
        for (const auto &lock : memory->locks)
            if (page < end && meets(&lock.second, page, page + PAGE))
                allowed &= lock.second.whole ? PROT_NONE : PROT_READ;
        if (now >= 0 && (page == end || allowed != now)) {
            mprotect(run, (size_t)(page - run), now);
            run = page;
        }
        now = allowed;
    }
}

uint64_t fm_emulated_lock(const char *host, size_t bytes, bool whole)
{
    const char *at;
    struct pinned *pinned = host && bytes ? find(host, &at) : NULL;
    if (!pinned || pinned->mapped) return 0;
    memory->locks[++memory->locked] = {host, bytes, whole};
    protect(host, bytes);
    return memory->locked;
}

void fm_emulated_unlock(uint64_t number)
{
    if (!memory || !number) return;
    auto found = memory->locks.find(number);
    if (found == memory->locks.end()) return;
    struct lock lock = found->second;
    memory->locks.erase(found);
    protect(lock.at, lock.bytes);
}

enum fm_touch fm_emulated_touch_pinned(const char *address, int running_card, char *why, size_t size)
{
    const char *at;
    if (!memory || address < memory->base || address >= memory->base + RANGE) return FM_TOUCH_ELSEWHERE;
    struct pinned *pinned = find(address, &at);
    const char *who = running_card < 0 ? "the host touches " : "touches ";
    if (!pinned || !pinned->live) {
        snprintf(why, size, "%spinned memory %s", who, pinned ? "that was freed" : "outside any allocation");
        return FM_TOUCH_BAD;
    }
    for (const auto &lock : memory->locks)
        if (running_card < 0 && meets(&lock.second, address, address + 1)) {
            snprintf(why, size, "the host %s a pinned buffer that a queued copy %s (byte %td of %zu)",
                     lock.second.whole ? "touches" : "writes to",
                     lock.second.whole ? "has yet to fill" : "has yet to read", address - at, pinned->bytes);
            return FM_TOUCH_BAD;
        }
    return mprotect(page_of(address), PAGE, PROT_READ | PROT_WRITE) ? FM_TOUCH_ELSEWHERE : FM_TOUCH_GO_ON;
}

/* ---- allocation ---------------------------------------------------------------------------------------- */

static bool ready(void)
{
    if (memory) return true;
    void *base = mmap(NULL, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return false;
    memory = new struct pinned_memory();
    memory->base = (char *)base;
    memory->top = memory->base + PAGE;
    return true;
}

extern "C" {

cudaError_t cudaHostAlloc(void **host, size_t bytes, unsigned flags)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorMemoryAllocation);
    if (status) return status;
    if (!fm_emulated_may_block(__func__)) return fm_emulated_error(cudaErrorStreamCaptureUnsupported);
    *host = NULL;
    if (bytes == 0) return cudaSuccess;
    size_t size = (bytes + PAGE - 1) / PAGE * PAGE;
    if (!ready() || size > RANGE - 2 * PAGE || memory->top > memory->base + RANGE - 2 * PAGE - size)
        return fm_emulated_error(cudaErrorMemoryAllocation);
    char *at = memory->top;
    if (mprotect(at, size, PROT_READ | PROT_WRITE)) return fm_emulated_error(cudaErrorMemoryAllocation);
    if (bytes <= FILL) memset(at, 0xff, size);
    memory->top += size + PAGE;
    memory->blocks[at] = {size, bytes, true, (flags & cudaHostAllocMapped) != 0};
    fm_emulated_counts()->allocations++;
    fm_emulated_object_add(at, "pinned memory");
    *host = at;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *host)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidValue);
    if (fm_emulated_lost() || (status && fm_emulated_settings()->no_driver)) return status;
    if (!host) return status;
    if (!fm_emulated_may_block(__func__)) return fm_emulated_error(cudaErrorStreamCaptureUnsupported);
    const char *at;
    struct pinned *pinned = find((char *)host, &at);
    if (!fm_emulated_object_remove(host, "pinned memory", __func__))
        return fm_emulated_error(cudaErrorInvalidValue);
    for (const auto &lock : memory->locks)
        if (meets(&lock.second, at, at + pinned->size)) {
            fm_emulated_fault("%s: a queued copy still uses this buffer", __func__);
            break;
        }
    pinned->live = false;
    mprotect(host, pinned->size, PROT_NONE);
    madvise(host, pinned->size, MADV_DONTNEED);
    return status;
}

/* Addresses are the same on both sides, as on every 64-bit Linux. */
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidValue);
    if (status) return status;
    const char *at;
    struct pinned *pinned = find((char *)host, &at);
    if (flags || !pinned || !pinned->live || !pinned->mapped) {
        fm_emulated_fault("%s: %p is no mapped pinned memory", __func__, host);
        return fm_emulated_error(cudaErrorInvalidValue);
    }
    *device = host;
    return cudaSuccess;
}

} /* extern "C" */

void fm_emulated_pinned_forget(void)
{
    if (memory) munmap(memory->base, RANGE);
    delete memory;
    memory = NULL;
}
