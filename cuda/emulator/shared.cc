/* Shared memory: NaN before every block.
 *
 * Dynamic shared memory ends at a closed page. Static __shared__ variables of all kernels together lie in one
 * section; filling all of it for every block would take longer than most kernels. So the part that a kernel
 * uses is learned: after blocks of its first launches, and of every 64th one, the whole section is searched
 * for bytes that are not NaN. In between only that part is filled; the section is all NaN before any launch.
 */
#include <string.h>
#include <sys/mman.h>

#include <unordered_map>

#include "emulator/device.h"
#include "emulator/switch.h"

static const size_t PAGE = 4096;

extern "C" {
extern char __start_fm_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_fm_emulated_shared[] __attribute__((weak, visibility("hidden")));
}

namespace
{
struct used { /* by a kernel: bytes of the section */
    size_t from, end;
    uint64_t launches;
};
struct shared_state {
    unsigned char *dynamic; /* its pages */
    std::unordered_map<const void *, struct used> kernels;
    struct used *now;
    size_t dynamic_bytes;
    bool search;
};
} // namespace
static struct shared_state *the;

static size_t section(void)
{
    return __start_fm_emulated_shared ? (size_t)(__stop_fm_emulated_shared - __start_fm_emulated_shared) : 0;
}

static bool set_up(void)
{
    if (the) return true;
    void *p =
        mmap(NULL, FM_EMULATED_SHARED + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    mprotect((char *)p + FM_EMULATED_SHARED, PAGE, PROT_NONE);
    the = new struct shared_state();
    the->dynamic = (unsigned char *)p;
    if (section()) memset(__start_fm_emulated_shared, 0xff, section());
    return true;
}

/* Widens the kernel's part to all bytes that were written. */
static void search(void)
{
    const char *start = __start_fm_emulated_shared;
    size_t size = section(), i = 0;
    static const unsigned char nan[64] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                          255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                          255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                          255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                          255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    for (; i < size; i += sizeof nan) {
        size_t n = size - i < sizeof nan ? size - i : sizeof nan;
        if (memcmp(start + i, nan, n) == 0) continue;
        if (the->now->end == 0 || i < the->now->from) the->now->from = i;
        if (i + n > the->now->end) the->now->end = i + n;
    }
}

static void fill_static(void)
{
    if (the->now->end)
        memset(__start_fm_emulated_shared + the->now->from, 0xff, the->now->end - the->now->from);
}

void fm_shared_begin(const struct fm_kernel *kernel)
{
    if (!set_up()) return;
    /* A bundle of arguments begins with the kernel's address. */
    const void *function;
    memcpy(&function, kernel->arguments, sizeof function);
    the->now = &the->kernels[function];
    uint64_t before = the->now->launches++;
    the->search = section() && (before < 3 || before % 64 == 0);
    the->dynamic_bytes = (kernel->shared + 15) / 16 * 16;
    fm_emulated_dynamic = the->dynamic + FM_EMULATED_SHARED - the->dynamic_bytes;
}

void fm_shared_block(uint64_t number)
{
    if (the->search && number == 1) search();
    fill_static();
    memset(fm_emulated_dynamic, 0xff, the->dynamic_bytes);
}

void fm_shared_end(void)
{
    if (the->search) search();
    fill_static();
}
