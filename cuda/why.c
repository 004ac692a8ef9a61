/* Why CUDA cannot be used here, in one sentence that ends with what to do. */
#include "cuda.h"

#include <stdio.h>

/* The oldest drivers with which programs of a CUDA major version run (NVIDIA's compatibility tables; 10
 * is 10.2). */
static int oldest_driver(int toolkit)
{
    return toolkit >= 13 ? 580 : toolkit == 12 ? 525 : toolkit == 11 ? 450 : 440;
}

void fm_cuda_why_driver(int driver, int toolkit, char *why, size_t why_size)
{
    if (driver <= 0)
        snprintf(why, why_size,
                 "there is no NVIDIA driver: install it (Debian: apt-get install nvidia-driver, non-free), "
                 "then reboot; a container is to be started with --gpus all");
    else
        snprintf(
            why, why_size,
            "the driver supports CUDA %d.%d, this plug-in needs %d: install driver %d or newer, or build "
            "with an older toolkit (README, 'GPUs')",
            driver / 1000, driver % 1000 / 10, toolkit, oldest_driver(toolkit));
}

/* The last toolkits with code for an architecture: 10.2 for sm_30, 11 below sm_50, 12 below sm_75. */
void fm_cuda_why_no_code(int sm, int toolkit, char *why, size_t why_size)
{
    const int last = sm < 35 ? 10 : sm < 50 ? 11 : sm < 75 ? 12 : toolkit;
    if (sm <= 0)
        snprintf(why, why_size, "the driver does not tell its architecture: look whether nvidia-smi works");
    else if (toolkit <= last)
        snprintf(why, why_size,
                 "this plug-in (CUDA %d) was built without code for its architecture, sm_%d: make clean, "
                 "then make, with a toolkit that knows it",
                 toolkit, sm);
    else if (last == 10)
        snprintf(why, why_size,
                 "its architecture, sm_%d, needs a plug-in built with CUDA 10.2 (untested): make "
                 "NVCC=/path/to/nvcc; this one is of CUDA %d",
                 sm, toolkit);
    else if (last == 11)
        snprintf(why, why_size,
                 "its architecture, sm_%d, needs a plug-in built with CUDA 11 (Debian 12: apt-get install "
                 "nvidia-cuda-toolkit g++-11, then make); this one is of CUDA %d",
                 sm, toolkit);
    else
        snprintf(why, why_size,
                 "its architecture, sm_%d, needs a plug-in built with CUDA 12 or 11 (Debian: apt-get install "
                 "nvidia-cuda-toolkit, then make); this one is of CUDA %d",
                 sm, toolkit);
}

/* Numbers, because not all have a name in every version of CUDA (NVIDIA, "CUDA Runtime API", error types). */
static const struct {
    int first, last;
    const char *sentence;
} known[] = {
    {2, 2, "the card's memory is in use: end the programs that nvidia-smi shows, or take another card"},
    {3, 3, "the driver could not be started: look whether nvidia-smi works, and reboot if it does not"},
    {34, 34,
     "the stub of libcuda.so that comes with a toolkit is found before the driver's: take the folder stubs "
     "out of LD_LIBRARY_PATH"},
    {46, 46,
     "another process has the card to itself, or its compute mode forbids computing: look with nvidia-smi, "
     "end that process or set the mode (as root: nvidia-smi -c DEFAULT)"},
    {100, 100,
     "the driver sees no card: look with nvidia-smi -L; CUDA_VISIBLE_DEVICES, if set, has to name one, and a "
     "container is to be started with --gpus all"},
    {200, 200, "the plug-in's code for the card is damaged: make clean, then make"},
    {214, 214,
     "the card reports a memory error that it cannot correct: look with nvidia-smi -q -d ECC, then reboot"},
    {221, 221,
     "the plug-in has no code for the card, and the driver's compiler is missing: install "
     "libnvidia-ptxjitcompiler of the driver's version, or build on this machine: make clean, then make"},
    {223, 223,
     "the plug-in has no code for the card, and CUDA_DISABLE_PTX_JIT forbids to make some: unset it, or "
     "build "
     "on this machine: make clean, then make"},
    {304, 304,
     "the system does not let CUDA open the card: /dev/nvidia0 and /dev/nvidia-uvm have to be there (as "
     "root: "
     "modprobe nvidia-uvm) and to be yours to read and write"},
    {802, 802,
     "the system is not ready: with NVSwitch start the fabric manager of the driver's version (as root: "
     "systemctl start nvidia-fabricmanager), elsewhere wait a minute and try again"},
    {803, 803,
     "the driver's kernel module and its library are of different versions, as after an update: reboot, or "
     "unload the nvidia modules and load them again"},
    {222, 222,
     "the driver is older than the plug-in's code: install a newer driver, or build on this machine: make "
     "clean, then make"},
    {804, 804,
     "the compatibility package of CUDA works on data-centre cards only: remove cuda-compat (or its folder "
     "from LD_LIBRARY_PATH) and update the driver"},
    {805, 809,
     "the MPS server does not serve this process: start it anew (nvidia-cuda-mps-control), or unset "
     "CUDA_MPS_PIPE_DIRECTORY"},
    {999, 999,
     "the driver failed: look whether nvidia-smi works and what dmesg says; after a suspend load its module "
     "anew (as root: modprobe -r nvidia_uvm; modprobe nvidia_uvm), else reboot"},
};

static int attribute(enum cudaDeviceAttr which, int number)
{
    int value = 0;
    if (number < 0 || cudaDeviceGetAttribute(&value, which, number) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return value;
}

static int driver_version(void)
{
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
    cudaGetLastError();
    return driver;
}

void fm_cuda_why(cudaError_t status, int number, char *why, size_t why_size)
{
    switch ((int)status) {
    case 35: /* insufficient driver */
    case 36: /* call requires newer driver */
        fm_cuda_why_driver(driver_version(), FM_CUDA_MAJOR, why, why_size);
        return;
    case 98:  /* invalid device function */
    case 209: /* no kernel image for device */
    case 218: /* invalid PTX */
        fm_cuda_why_no_code(attribute(cudaDevAttrComputeCapabilityMajor, number) * 10 +
                                attribute(cudaDevAttrComputeCapabilityMinor, number),
                            FM_CUDA_MAJOR, why, why_size);
        return;
    default: break;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if ((int)status < known[i].first || (int)status > known[i].last) continue;
        snprintf(why, why_size, "%s (CUDA error %d)", known[i].sentence, (int)status);
        return;
    }
    snprintf(why, why_size,
             "CUDA says '%s' (%d): look whether nvidia-smi works and what dmesg says; if it does not, reboot",
             cudaGetErrorString(status), (int)status);
}
