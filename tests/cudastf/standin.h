// What the programs and the runtime ask of the stand-in driver, beside the driver's own functions:
// its control functions (../cuda-standin/src/control.rs, which says what each does), for C++.

#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

extern "C" {
void standin_reset(uint64_t seed, uint64_t pace);
void standin_burst(uint64_t burst);
void standin_devices(size_t count);
bool standin_stream(CUstream stream, size_t* device, uint32_t* flags, int32_t* priority);

/// A function on a stream. It returns 0, or the error by which the device is lost.
int32_t standin_queue(CUstream stream, int32_t (*body)(void*), void* word);
/// Inside such a function or a host function: it uses memory. Null if it may not.
uint8_t* standin_memory(uint64_t at, size_t bytes, bool write, uint64_t label);
/// The host uses memory, now. Null if it may not.
uint8_t* standin_host_memory(uint64_t at, size_t bytes, bool write, uint64_t label);

void standin_plant(size_t fault, uint64_t every);
uint64_t standin_planted();
size_t standin_report(size_t index, char* to, size_t room);
}

/// Addresses of device memory have this bit.
constexpr uint64_t DEVICE_MEMORY = uint64_t(1) << 62;
