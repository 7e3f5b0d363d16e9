// The CUDA runtime over the stand-in driver: errors, devices, and which device is current.

#include "runtime.h"

#include <cstring>
#include <mutex>
#include <vector>

namespace {

thread_local cudaError_t last = cudaSuccess;

struct Devices {
    std::vector<CUcontext> contexts;

    Devices() {
        int count = 0;
        cuInit(0);
        cuDeviceGetCount(&count);
        contexts.resize(count);
        for (int device = 0; device < count; ++device) {
            cuDevicePrimaryCtxRetain(&contexts[device], device);
        }
    }
};

/// Found at the first call, after the program has said how many there are.
const std::vector<CUcontext>& contexts() {
    static const Devices devices;
    return devices.contexts;
}

}  // namespace

namespace runtime {

cudaError_t outcome(CUresult result) {
    if (result != CUDA_SUCCESS) {
        last = static_cast<cudaError_t>(result);
    }
    return static_cast<cudaError_t>(result);
}

CUcontext context_of(int device) {
    return device >= 0 && device < static_cast<int>(contexts().size()) ? contexts()[device] : nullptr;
}

int device_of(CUcontext context) {
    for (size_t device = 0; device < contexts().size(); ++device) {
        if (contexts()[device] == context) {
            return static_cast<int>(device);
        }
    }
    return -1;
}

void begin() {
    CUcontext current = nullptr;
    cuCtxGetCurrent(&current);
    if (current == nullptr) {
        cuCtxSetCurrent(context_of(0));
    }
}

CUresult synchronize() {
    begin();
    CUcontext before = nullptr;
    cuCtxGetCurrent(&before);
    CUresult result = CUDA_SUCCESS;
    for (const CUcontext context : contexts()) {
        cuCtxSetCurrent(context);
        const CUresult one = cuCtxSynchronize();
        result = result == CUDA_SUCCESS ? one : result;
    }
    cuCtxSetCurrent(before);
    return result;
}

int device_of_stream(CUstream stream) {
    size_t device = 0;
    uint32_t flags = 0;
    int32_t priority = 0;
    return standin_stream(stream, &device, &flags, &priority) ? static_cast<int>(device) : -1;
}

}  // namespace runtime

extern "C" {

cudaError_t cudaGetLastError() {
    const cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

const char* cudaGetErrorName(cudaError_t error) {
    const char* name = nullptr;
    cuGetErrorName(static_cast<CUresult>(error), &name);
    return name == nullptr ? "an error without a name" : name;
}

const char* cudaGetErrorString(cudaError_t error) {
    const char* text = nullptr;
    cuGetErrorString(static_cast<CUresult>(error), &text);
    return text == nullptr ? "an error without a text" : text;
}

cudaError_t cudaGetDeviceCount(int* count) {
    return runtime::outcome(cuDeviceGetCount(count));
}

cudaError_t cudaSetDevice(int device) {
    const CUcontext context = runtime::context_of(device);
    return runtime::outcome(context == nullptr ? CUDA_ERROR_INVALID_DEVICE : cuCtxSetCurrent(context));
}

cudaError_t cudaGetDevice(int* device) {
    CUcontext context = nullptr;
    runtime::begin();
    cuCtxGetCurrent(&context);
    *device = runtime::device_of(context);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    std::memset(properties, 0, sizeof *properties);
    properties->major = 9;
    CUresult result = cuDeviceTotalMem(&properties->totalGlobalMem, device);
    if (result == CUDA_SUCCESS) {
        const auto multiprocessors = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        result = cuDeviceGetAttribute(&properties->multiProcessorCount, multiprocessors, device);
    }
    return runtime::outcome(result);
}

/// The stand-in lets every device use the memory of every other.
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
    *can = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
    return cudaSuccess;
}

}  // extern "C"
