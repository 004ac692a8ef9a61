/* Copies and memsets, and the tests' way into device memory. Only pinned memory may be copied to and from:
 * with any other a real copy waits, or reads the bytes some time later. */
#include <string.h>

#include "emulator/core.h"

static bool on_device(const void *address)
{
    char *base;
    size_t bytes;
    return fm_emulated_range_find(address, &base, &bytes);
}

static bool pinned(const void *host, size_t bytes, const char *argument)
{
    if (fm_emulated_pinned(host, bytes)) return true;
    fm_emulated_fault("cudaMemcpyAsync: %s (%p, %zu bytes) is %s", argument, host, bytes,
                      on_device(host) ? "device memory, not host memory" : "memory that is not pinned");
    return false;
}

static bool check_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, int card)
{
    const char *call = "cudaMemcpyAsync";
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return fm_emulated_range_check(to, bytes, card, call, "to") && pinned(from, bytes, "from");
    case cudaMemcpyDeviceToHost:
        return pinned(to, bytes, "to") && fm_emulated_range_check(from, bytes, card, call, "from");
    case cudaMemcpyDeviceToDevice:
        return fm_emulated_range_check(to, bytes, card, call, "to") &&
               fm_emulated_range_check(from, bytes, card, call, "from");
    default: fm_emulated_fault("%s: a copy of kind %d", call, (int)kind); return false;
    }
}

extern "C" {

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidValue);
    if (status) return status;
    if (!fm_emulated_stream_check(stream, __func__)) return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (bytes == 0) return cudaSuccess;
    if (kind == cudaMemcpyDefault)
        kind = on_device(to) ? on_device(from) ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice
                             : cudaMemcpyDeviceToHost;
    if (!check_copy(to, from, bytes, kind, stream->card)) return fm_emulated_error(cudaErrorInvalidValue);
    struct fm_task task = {};
    task.type = cudaGraphNodeTypeMemcpy;
    task.name = "copy on the device";
    if (kind == cudaMemcpyHostToDevice) {
        task.name = "copy to the device";
        task.locked = (const char *)from;
    }
    if (kind == cudaMemcpyDeviceToHost) {
        task.name = "copy to the host";
        task.locked = (const char *)to;
        task.locked_whole = true;
    }
    task.locked_bytes = bytes;
    if (task.locked) fm_emulated_counts()->host_copies++;
    task.work = std::make_shared<const fm_work>([=] {
        memmove(to, from, bytes);
        if (kind == cudaMemcpyHostToDevice) fm_emulated_counts()->to_device += (int64_t)bytes;
        if (kind == cudaMemcpyDeviceToHost) fm_emulated_counts()->to_host += (int64_t)bytes;
    });
    return fm_emulated_error(fm_emulated_task(stream, task));
}

cudaError_t cudaMemsetAsync(void *device, int value, size_t bytes, cudaStream_t stream)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInvalidValue);
    if (status) return status;
    if (!fm_emulated_stream_check(stream, __func__)) return fm_emulated_error(cudaErrorInvalidResourceHandle);
    if (bytes == 0) return cudaSuccess;
    if (!fm_emulated_range_check(device, bytes, stream->card, __func__, "device"))
        return fm_emulated_error(cudaErrorInvalidValue);
    struct fm_task task = {};
    task.name = "memset";
    task.type = cudaGraphNodeTypeMemset;
    task.work = std::make_shared<const fm_work>([=] { memset(device, value, bytes); });
    return fm_emulated_error(fm_emulated_task(stream, task));
}

/* ---- for tests ----------------------------------------------------------------------------------------- */

static void look(void *to, const void *from, const void *device, size_t bytes, const char *call)
{
    fm_emulated_drain_all();
    if (!fm_emulated_range_check(device, bytes, -1, call, "device")) return;
    struct fm_burst burst;
    struct fm_task task = {};
    task.name = call;
    task.work = std::make_shared<const fm_work>([=] { memcpy(to, from, bytes); });
    int card = 0;
    while (!fm_emulated_range_live(device, bytes, card)) card++;
    fm_emulated_guarded(&task, card);
}

void fm_emulator_peek(void *to, const void *device, size_t bytes)
{
    look(to, device, device, bytes, __func__);
}

void fm_emulator_poke(void *device, const void *from, size_t bytes)
{
    look(device, from, device, bytes, __func__);
}

} /* extern "C" */
