// The CUDA runtime over the stand-in driver: memory, and copies.

#include "runtime.h"

#include <cstring>

using runtime::outcome;

namespace {

CUdeviceptr address(const void* at) {
    return reinterpret_cast<CUdeviceptr>(at);
}

bool is_on_device(const void* at) {
    return (address(at) & DEVICE_MEMORY) != 0;
}

}  // namespace

extern "C" {

cudaError_t cudaMallocAsync(void** at, size_t bytes, cudaStream_t stream) {
    return outcome(cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(at), bytes, stream));
}

cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) {
    return outcome(cuMemFreeAsync(address(at), stream));
}

/// CUDASTF frees null, so that the device is made ready, and nothing else.
cudaError_t cudaFree(void* at) {
    runtime::begin();
    return outcome(at == nullptr ? CUDA_SUCCESS : cuMemFree(address(at)));
}

cudaError_t cudaMallocHost(void** at, size_t bytes) {
    runtime::begin();
    return outcome(cuMemHostAlloc(at, bytes, CU_MEMHOSTALLOC_PORTABLE));
}

/// The devices end what is queued first, on which CUDASTF relies (../README.md).
cudaError_t cudaFreeHost(void* at) {
    CUresult result = runtime::synchronize();
    if (result == CUDA_SUCCESS) {
        result = cuMemFreeHost(at);
    }
    return outcome(result);
}

/// The programs have no memory of the host that is not pinned.
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* at) {
    std::memset(attributes, 0, sizeof *attributes);
    attributes->type = is_on_device(at) ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    if (is_on_device(to) && is_on_device(from)) {
        return outcome(cuMemcpyDtoDAsync(address(to), address(from), bytes, stream));
    }
    if (is_on_device(to)) {
        return outcome(cuMemcpyHtoDAsync(address(to), from, bytes, stream));
    }
    if (is_on_device(from)) {
        return outcome(cuMemcpyDtoHAsync(to, address(from), bytes, stream));
    }
    return outcome(CUDA_ERROR_INVALID_VALUE);
}

/// A device's pool of memory has nothing to set.
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    *pool = reinterpret_cast<cudaMemPool_t>(runtime::context_of(device));
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) {
    return cudaSuccess;
}

}  // extern "C"
