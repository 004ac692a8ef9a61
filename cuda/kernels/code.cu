/* Is there code for this card in this build? Asked of the smallest of kernels, because all are built alike. */
#include "kernels/device.h"

static __global__ void nothing(int)
{
}

cudaError_t fm_cuda_code(void)
{
    cudaFuncAttributes attributes;
    const cudaError_t status = cudaFuncGetAttributes(&attributes, (const void *)nothing);
    if (status != cudaSuccess) cudaGetLastError();
    return status;
}
