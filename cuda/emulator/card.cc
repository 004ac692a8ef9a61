/* The simulated cards: what they are called, their limits, versions. */
#include <stdio.h>
#include <string.h>

#include "emulator/core.h"

namespace
{
struct card {
    const char *key, *name;
    int major, minor, sms, watchdog;
    int l2, shared_optin, shared_of_sm, threads_of_sm;
};
} // namespace
static const struct card cards[] = {
    {"gtx1060", "NVIDIA GeForce GTX 1060 6GB", 6, 1, 10, 0, 1536 << 10, 48 << 10, 96 << 10, 2048},
    {"gtx1660ti", "NVIDIA GeForce GTX 1660 Ti", 7, 5, 24, 0, 1536 << 10, 64 << 10, 64 << 10, 1024},
    {"rtx3060", "NVIDIA GeForce RTX 3060", 8, 6, 28, 0, 3 << 20, 99 << 10, 100 << 10, 1536},
    {"h200", "NVIDIA H200", 9, 0, 132, 0, 60 << 20, 227 << 10, 228 << 10, 2048},
    {"gtx760", "GeForce GTX 760", 3, 0, 6, 1, 512 << 10, 48 << 10, 48 << 10, 2048},
    {"gtx780", "GeForce GTX 780", 3, 5, 12, 1, 1536 << 10, 48 << 10, 48 << 10, 2048},
    {"gtx1080", "NVIDIA GeForce GTX 1080", 6, 1, 20, 0, 2 << 20, 48 << 10, 96 << 10, 2048},
    {"gtx970", "NVIDIA GeForce GTX 970", 5, 2, 13, 1, 1792 << 10, 48 << 10, 96 << 10, 2048},
};
static const char *const keys[] = {"gtx1060", "gtx1660ti", "rtx3060", "h200", "gtx760",
                                   "gtx780",  "gtx1080",   "gtx970",  NULL};
static int current;

extern "C" const char *const *fm_emulator_cards(void)
{
    return keys;
}

void fm_emulated_use_card(int card)
{
    current = card;
}

int fm_emulated_card(void)
{
    return current;
}

static int count_of_cards(void)
{
    int cards = fm_emulated_settings()->cards;
    return cards < 0 ? 0 : cards > FM_EMULATED_CARDS ? FM_EMULATED_CARDS : cards;
}

/* Of that card: the first is of the kind `card`, the rest of the kind `others`. */
static const struct card *kind(int device)
{
    const struct fm_emulator_settings *settings = fm_emulated_settings();
    const char *key = device > 0 ? settings->others : settings->card;
    for (const struct card &card : cards)
        if (strcmp(card.key, key) == 0) return &card;
    return &cards[0];
}

/* All but two are the same from sm_30 to sm_90, and those two are where a card has less in all. */
struct fm_emulated_limits fm_emulated_limits(int device)
{
    const struct card *card = kind(device);
    const int threads = card->threads_of_sm, shared = card->shared_optin;
    return {threads < FM_EMULATED_THREADS ? (unsigned)threads : FM_EMULATED_THREADS, 64,  0x7fffffff, 65535,
            (size_t)(shared < FM_EMULATED_SHARED ? shared : FM_EMULATED_SHARED),     4096};
}

static cudaError_t enter_card(const char *call, int device)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(call, cudaErrorDevicesUnavailable);
    if (status) return status;
    if (count_of_cards() == 0) return fm_emulated_error(cudaErrorNoDevice);
    if (device < 0 || device >= count_of_cards()) return fm_emulated_error(cudaErrorInvalidDevice);
    return cudaSuccess;
}

extern "C" {

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 0;
    if (fm_emulated_settings()->no_driver) return cudaSuccess;
    /* The one call that an old driver answers. */
    if (fm_emulated_driver_old()) return *version = fm_emulated_settings()->driver, cudaSuccess;
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorUnknown);
    if (!status) *version = fm_emulated_settings()->driver;
    return status;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (fm_emulated_settings()->no_driver || fm_emulated_driver_old())
        return *version = CUDART_VERSION, cudaSuccess;
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorUnknown);
    if (!status) *version = CUDART_VERSION;
    return status;
}

/* As the real one, it leaves *count alone on failure. */
cudaError_t cudaGetDeviceCount(int *count)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorInitializationError);
    if (status) return status;
    if (count_of_cards() == 0) return fm_emulated_error(cudaErrorNoDevice);
    *count = count_of_cards();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t status = enter_card(__func__, device);
    if (!status) current = device;
    return status;
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t status = enter_card(__func__, current);
    if (!status) *device = current;
    return status;
}

cudaError_t cudaSetDeviceFlags(unsigned)
{
    return enter_card(__func__, current);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t status = enter_card(__func__, device);
    if (!status) snprintf(properties->name, sizeof properties->name, "%s", kind(device)->name);
    return status;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
    cudaError_t status = enter_card(__func__, device);
    if (status) return status;
    if (size < 13) return fm_emulated_error(cudaErrorInvalidValue);
    snprintf(id, (size_t)size, "0000:%02X:00.0", (unsigned)(1 + device) & 0xff);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    cudaError_t status = enter_card(__func__, current);
    if (!status) *least = 0, *greatest = -5;
    return status;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t status = enter_card(__func__, device);
    if (status) return status;
    const struct card *card = kind(device);
    const struct fm_emulated_limits limits = fm_emulated_limits(device);
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: *value = (int)limits.threads; break;
    case cudaDevAttrMaxBlockDimZ: *value = (int)limits.depth; break;
    case cudaDevAttrMaxGridDimX: *value = (int)limits.width; break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: *value = (int)limits.height; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)limits.shared; break;
    case cudaDevAttrTotalConstantMemory: *value = 65536; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = 65536; break;
    case cudaDevAttrMultiProcessorCount: *value = card->sms; break;
    case cudaDevAttrKernelExecTimeout: *value = card->watchdog; break;
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing: *value = 1; break;
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrPciDeviceId: *value = 0; break;
    case cudaDevAttrPciBusId: *value = 1 + device; break;
    case cudaDevAttrL2CacheSize: *value = card->l2; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = card->threads_of_sm; break;
    case cudaDevAttrAsyncEngineCount: *value = 2; break;
    case cudaDevAttrComputeCapabilityMajor: *value = card->major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = card->minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = card->shared_of_sm; break;
    case cudaDevAttrComputePreemptionSupported: *value = card->major >= 6; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = card->shared_optin; break;
    default: return fm_emulated_error(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    struct fm_emulated_clock clock;
    cudaError_t status = fm_emulated_enter(__func__, cudaErrorNoKernelImageForDevice);
    if (status) return status;
    if (!kernel) return fm_emulated_error(cudaErrorInvalidDeviceFunction);
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = (int)fm_emulated_limits(current).threads;
    const struct card *card = kind(current);
    attributes->binaryVersion = attributes->ptxVersion = card->major * 10 + card->minor;
    return cudaSuccess;
}

} /* extern "C" */
