/* Shared memory: NaN before every block. Dynamic shared memory ends at a closed page. The static __shared__
 * variables of all kernels together lie in one section, which is filled as a whole: kernels here have few of
 * them (1 to 2 KB in all). */
#include <string.h>
#include <sys/mman.h>

#include "emulator/device.h"
#include "emulator/switch.h"

static const size_t PAGE = 4096;

extern "C" {
extern char __start_fm_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_fm_emulated_shared[] __attribute__((weak, visibility("hidden")));
}

static unsigned char *dynamic; /* FM_EMULATED_SHARED bytes */

bool fm_shared_begin(void)
{
    if (dynamic) return true;
    void *p =
        mmap(NULL, FM_EMULATED_SHARED + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    mprotect((char *)p + FM_EMULATED_SHARED, PAGE, PROT_NONE);
    dynamic = (unsigned char *)p;
    return true;
}

void fm_shared_block(size_t bytes)
{
    if (__start_fm_emulated_shared) memset(__start_fm_emulated_shared, 0xff, fm_shared_static());
    bytes = (bytes + 15) / 16 * 16;
    fm_emulated_dynamic = dynamic + FM_EMULATED_SHARED - bytes;
    memset(fm_emulated_dynamic, 0xff, bytes);
}

size_t fm_shared_static(void)
{
    return __start_fm_emulated_shared ? (size_t)(__stop_fm_emulated_shared - __start_fm_emulated_shared) : 0;
}

size_t fm_shared_written(void)
{
    size_t written = 0, all = fm_shared_static();
    for (size_t i = 0; i < all; i++) written += __start_fm_emulated_shared[i] != (char)0xff;
    return written;
}
