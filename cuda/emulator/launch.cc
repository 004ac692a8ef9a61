/* Kernel launches: limits, arguments that are copied, work that is queued. */
#include <stdio.h>
#include <string.h>

#include "emulator/core.h"
#include "emulator/device.h"

/* False with a sentence about what the card does not take. What a kernel has in static shared memory is only
 * known when it has run: fibers.cc. */
static bool within(int card, dim3 grid, dim3 block, size_t shared, size_t bytes, char *why, size_t size)
{
    const struct fm_emulated_limits most = fm_emulated_limits(card);
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    why[0] = 0;
    if (threads == 0)
        snprintf(why, size, "a block without threads");
    else if (threads > most.threads || block.x > most.threads || block.y > most.threads)
        snprintf(why, size, "more than %u threads a block", most.threads);
    else if (block.z > most.depth)
        snprintf(why, size, "a block deeper than %u", most.depth);
    else if (!grid.x || !grid.y || !grid.z)
        snprintf(why, size, "a grid without blocks");
    else if (grid.x > most.width || grid.y > most.height || grid.z > most.height)
        snprintf(why, size, "a grid of more than %u x %u x %u blocks", most.width, most.height, most.height);
    else if (shared > most.shared)
        snprintf(why, size, "more than %zu bytes of dynamic shared memory", most.shared);
    else if (bytes > most.arguments)
        snprintf(why, size, "more than %zu bytes of arguments", most.arguments);
    return !why[0];
}

extern "C" cudaError_t fm_emulated_launch(const char *what, const char *file, int line,
                                          void (*thread)(const void *), const void *arguments, size_t bytes,
                                          dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(what, cudaErrorLaunchOutOfResources);
    if (status) return status;
    char name[96], why[128];
    fm_emulated_short_name(name, sizeof name, what);
    if (!fm_emulated_stream_check(stream, name)) return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (!within(stream->card, grid, block, shared, bytes, why, sizeof why)) {
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
    const size_t most = fm_emulated_limits(stream->card).shared;
    task.work = std::make_shared<const fm_work>([=] {
        struct fm_kernel kernel = {what, file, line, thread, copy.get(), grid, block, shared, most};
        fm_emulated_run_kernel(&kernel);
    });
    return fm_emulated_error(fm_emulated_task(stream, task));
}
