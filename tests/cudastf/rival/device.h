// What the rival asks of the device that it runs on: a GPU (on_gpu.cpp), or the stand-in for CUDA's
// driver (on_standin.cpp).

#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace device {

/// Makes the device ready. `forgets`: the driver forgets every wait for an event, so that a program
/// whose order needs one has to be found.
void begin(bool forgets);

/// Over the stand-in nothing runs from here on, or things run again. A GPU does what it likes.
void rest(bool rests);

/// How often each function of the driver was called. A GPU does not tell.
std::map<std::string, uint64_t> calls();

/// What the stand-in's checker of order has found first; empty if that is nothing.
std::string report();

}  // namespace device

/// What the kernel makes of one number (perf/gpu/src/kernels/kernels.cu).
uint64_t mixed(uint64_t value, const uint64_t (&from)[3], uint64_t id, uint64_t spin);
