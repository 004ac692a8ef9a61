/* Kernel launches: limits, arguments that are copied, work that is queued. */
#include <string.h>

#include "emulator/core.h"
#include "emulator/device.h"

static const size_t ARGUMENTS = 4096; /* bytes, on every card */

/* NULL, or what the card does not take. */
static const char *beyond(dim3 grid, dim3 block, size_t shared, size_t bytes)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (threads == 0) return "a block without threads";
    if (threads > FM_EMULATED_THREADS || block.x > FM_EMULATED_THREADS || block.y > FM_EMULATED_THREADS)
        return "more than 1,024 threads a block";
    if (block.z > 64) return "a block deeper than 64";
    if (!grid.x || !grid.y || !grid.z) return "a grid without blocks";
    if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
        return "a grid of more than 2,147,483,647 x 65,535 x 65,535 blocks";
    if (shared > FM_EMULATED_SHARED) return "more than 48 KB of dynamic shared memory";
    if (bytes > ARGUMENTS) return "more than 4,096 bytes of arguments";
    return NULL;
}

extern "C" cudaError_t fm_emulated_launch(const char *what, const char *file, int line,
                                          void (*thread)(const void *), const void *arguments, size_t bytes,
                                          dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(what, cudaErrorLaunchOutOfResources);
    if (status) return status;
    char name[96];
    fm_emulated_short_name(name, sizeof name, what);
    if (!fm_emulated_stream_check(stream, name)) return fm_emulated_error(cudaErrorInvalidResourceHandle);
    const char *why = beyond(grid, block, shared, bytes);
    if (why) {
        fm_emulated_fault("launch of %s at %s:%d: %s", name, file, line, why);
        return fm_emulated_error(cudaErrorInvalidConfiguration);
    }
    if (stream->card != fm_emulated_card()) {
        fm_emulated_fault("launch of %s at %s:%d: in a stream of card %d while card %d is set", name, file,
                          line, stream->card, fm_emulated_card());
        return fm_emulated_error(cudaErrorInvalidResourceHandle);
    }
    if (!stream->capture) fm_emulated_counts()->launches++;
    std::shared_ptr<char> copy((char *)operator new(bytes), [](char *p) { operator delete(p); });
    memcpy(copy.get(), arguments, bytes);
    struct fm_task task = {};
    task.name = what;
    task.type = cudaGraphNodeTypeKernel;
    task.work = std::make_shared<const fm_work>([=] {
        struct fm_kernel kernel = {what, file, line, thread, copy.get(), grid, block, shared};
        fm_emulated_run_kernel(&kernel);
    });
    return fm_emulated_error(fm_emulated_task(stream, task));
}
