/* The names of errors, and what they mean in one line. */
#include "emulator/include/cuda_runtime_api.h"

static const struct {
    cudaError_t error;
    const char *name, *text;
} names[] = {
#define NAME(name, text)                                                                                     \
    {                                                                                                        \
        name, #name, text                                                                                    \
    }
    NAME(cudaSuccess, "no error"),
    NAME(cudaErrorInvalidValue, "invalid argument"),
    NAME(cudaErrorMemoryAllocation, "out of memory"),
    NAME(cudaErrorInitializationError, "initialization error"),
    NAME(cudaErrorCudartUnloading, "driver shutting down"),
    NAME(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    NAME(cudaErrorInvalidSymbol, "invalid device symbol"),
    NAME(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    NAME(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    NAME(cudaErrorStubLibrary, "CUDA driver is a stub library"),
    NAME(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    NAME(cudaErrorCallRequiresNewerDriver, "API call is not supported in the installed CUDA driver"),
    NAME(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    NAME(cudaErrorInvalidDeviceFunction, "invalid device function"),
    NAME(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    NAME(cudaErrorInvalidDevice, "invalid device ordinal"),
    NAME(cudaErrorStartupFailure, "startup failure in cuda runtime"),
    NAME(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    NAME(cudaErrorDeviceUninitialized, "invalid device context"),
    NAME(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    NAME(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    NAME(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
    NAME(cudaErrorNvlinkUncorrectable, "uncorrectable NVLink error detected during the execution"),
    NAME(cudaErrorJitCompilerNotFound, "PTX JIT compiler library not found"),
    NAME(cudaErrorUnsupportedPtxVersion, "the provided PTX was compiled with an unsupported toolchain"),
    NAME(cudaErrorJitCompilationDisabled, "PTX JIT compilation was disabled"),
    NAME(cudaErrorContained, "invalid access of peer GPU memory or contained error"),
    NAME(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    NAME(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    NAME(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    NAME(cudaErrorSymbolNotFound, "named symbol not found"),
    NAME(cudaErrorNotReady, "device not ready"),
    NAME(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    NAME(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    NAME(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    NAME(cudaErrorContextIsDestroyed, "context is destroyed"),
    NAME(cudaErrorAssert, "device-side assert triggered"),
    NAME(cudaErrorHardwareStackError, "hardware stack error"),
    NAME(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    NAME(cudaErrorMisalignedAddress, "misaligned address"),
    NAME(cudaErrorInvalidAddressSpace, "operation not supported on global/shared address space"),
    NAME(cudaErrorInvalidPc, "invalid program counter"),
    NAME(cudaErrorLaunchFailure, "unspecified launch failure"),
    NAME(cudaErrorNotPermitted, "operation not permitted"),
    NAME(cudaErrorNotSupported, "operation not supported"),
    NAME(cudaErrorSystemNotReady, "system not yet initialized"),
    NAME(cudaErrorSystemDriverMismatch, "system has unsupported display driver / cuda driver combination"),
    NAME(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    NAME(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    NAME(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    NAME(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    NAME(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    NAME(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    NAME(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing one"),
    NAME(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    NAME(cudaErrorStreamCaptureWrongThread,
         "attempt to terminate a thread-local capture from another thread"),
    NAME(cudaErrorTimeout, "wait operation timed out"),
    NAME(cudaErrorUnknown, "unknown error"),
#undef NAME
};

extern "C" const char *cudaGetErrorName(cudaError_t error)
{
    for (const auto &name : names)
        if (name.error == error) return name.name;
    return "unrecognized error code";
}

extern "C" const char *cudaGetErrorString(cudaError_t error)
{
    for (const auto &name : names)
        if (name.error == error) return name.text;
    return "unrecognized error code";
}
