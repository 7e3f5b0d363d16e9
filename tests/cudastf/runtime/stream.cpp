// The CUDA runtime over the stand-in driver: streams, events, and functions of the host in the
// order of a stream.

#include "runtime.h"

using runtime::outcome;

namespace {

struct Callback {
    cudaStreamCallback_t function;
    cudaStream_t stream;
    void* argument;
};

void call_back(void* word) {
    auto* callback = static_cast<Callback*>(word);
    callback->function(callback->stream, cudaSuccess, callback->argument);
    delete callback;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    runtime::begin();
    return outcome(cuStreamCreate(stream, flags));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    runtime::begin();
    return outcome(cuStreamDestroy(stream));
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
    *device = runtime::device_of_stream(stream);
    return outcome(*device < 0 ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    return outcome(cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    runtime::begin();
    return outcome(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    runtime::begin();
    return outcome(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
    return outcome(cuLaunchHostFunc(stream, function, argument));
}

cudaError_t cudaStreamAddCallback(
    cudaStream_t stream, cudaStreamCallback_t function, void* argument, unsigned) {
    auto* callback = new Callback{function, stream, argument};
    return outcome(cuLaunchHostFunc(stream, call_back, callback));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    runtime::begin();
    return outcome(cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    runtime::begin();
    return outcome(cuEventDestroy(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    runtime::begin();
    return outcome(cuEventRecord(event, stream));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    runtime::begin();
    return outcome(cuEventSynchronize(event));
}

}  // extern "C"
