/* What a CUDA status means for the device and for the user. */
#include "cuda.h"

/* Errors after which the context answers every call with the same error (cudart's documentation of the
 * statuses: "the process must be terminated and relaunched"). */
static bool is_sticky(cudaError_t status)
{
    switch ((int)status) {
    case 214: /* uncorrectable ECC error */
    case 220: /* NVLink */
    case 226: /* contained and uncontained memory errors */
    case 700: /* illegal address */
    case 702: /* launch timeout */
    case 710: /* assert */
    case 714: /* hardware stack */
    case 715: /* illegal instruction */
    case 716: /* misaligned address */
    case 717: /* invalid address space */
    case 718: /* invalid program counter */
    case 719: /* launch failure */
    case 999: /* unknown */ return true;
    default: return false;
    }
}

int fm_cuda_check(struct fm_device *device, cudaError_t status, struct fm_error *err, const char *what)
{
    if (status == cudaSuccess) return 0;
    cudaGetLastError();
    if (status == cudaErrorMemoryAllocation)
        return fm_fail(err, FM_ENOMEM, "could not %s: CUDA found no memory for it", what);
    struct fm_error why = {0};
    fm_fail(&why, FM_EDEVICE, "could not %s: CUDA says '%s' (%d)%s", what, cudaGetErrorString(status),
            (int)status, is_sticky(status) ? "; a new process can use the card again" : "");
    if (!device->lost) device->why = why;
    device->lost = true;
    device->dead = device->dead || is_sticky(status);
    if (err && !err->code) *err = why;
    return FM_EDEVICE;
}

bool fm_cuda_noted(struct fm_device *device, cudaError_t status)
{
    if (status == cudaSuccess) return true;
    if (is_sticky(status))
        fm_cuda_check(device, status, NULL, "go on");
    else
        cudaGetLastError();
    return false;
}

int fm_cuda_alive(const struct fm_device *device, struct fm_error *err)
{
    if (!device->lost) return 0;
    if (err && !err->code) *err = device->why;
    return FM_EDEVICE;
}

int fm_card_use(struct fm_device *device, const struct fm_card *card, struct fm_error *err)
{
    const int status = fm_cuda_alive(device, err);
    return status ? status : fm_cuda_check(device, cudaSetDevice(card->number), err, "choose the card");
}
