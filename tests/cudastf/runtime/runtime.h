// What the files of the runtime share: errors, and the context of the calling thread.

#pragma once

#include "../standin.h"

#include <cuda_runtime.h>

namespace runtime {

/// The same error as the runtime calls it, by the same number. It is kept for cudaGetLastError.
cudaError_t outcome(CUresult result);

/// The context of a device, which is retained once and for all; null if there is no such device.
CUcontext context_of(int device);

/// The device of a context, or -1.
int device_of(CUcontext context);

/// Makes the first device current if the thread has none, as the runtime does in every call.
void begin();

/// Waits for all streams of all devices.
CUresult synchronize();

/// The device of a stream, or -1.
int device_of_stream(CUstream stream);

}  // namespace runtime
