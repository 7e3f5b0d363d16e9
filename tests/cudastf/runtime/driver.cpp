// Functions of the CUDA driver that CUDASTF calls itself and the stand-in does not have: they say
// which context and which device something belongs to.

#include "runtime.h"

#include <vector>

namespace {

thread_local std::vector<CUcontext> below;

}  // namespace

extern "C" {

CUresult cuCtxPushCurrent(CUcontext context) {
    CUcontext current = nullptr;
    cuCtxGetCurrent(&current);
    below.push_back(current);
    return cuCtxSetCurrent(context);
}

CUresult cuCtxPopCurrent(CUcontext* context) {
    if (below.empty()) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    cuCtxGetCurrent(context);
    const CUresult result = cuCtxSetCurrent(below.back());
    below.pop_back();
    return result;
}

CUresult cuCtxGetDevice(CUdevice* device) {
    CUcontext context = nullptr;
    cuCtxGetCurrent(&context);
    *device = runtime::device_of(context);
    return *device < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
    *context = runtime::context_of(runtime::device_of_stream(stream));
    return *context == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

/// A handle of the stand-in names one stream for as long as the process lives.
CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
    *id = reinterpret_cast<unsigned long long>(stream);
    return CUDA_SUCCESS;
}

}  // extern "C"
