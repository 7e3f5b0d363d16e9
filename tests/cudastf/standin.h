// What the programs and the runtime ask of the stand-in driver, beside the driver's own functions:
// its control functions (../cuda-standin/src/control.rs, which says what each does), for C++.

#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

extern "C" {
void standin_reset(uint64_t seed, uint64_t pace);
void standin_pace(uint64_t pace);
void standin_burst(uint64_t burst);
void standin_devices(size_t count);
bool standin_stream(CUstream stream, size_t* device, uint32_t* flags, int32_t* priority);

/// A kernel for cuModuleGetFunction: its arguments' sizes, and the function that is called with
/// where they lie, the grid and the block.
void standin_kernel(
    const char* name, const size_t* sizes, size_t count,
    int32_t (*run)(size_t word, const uint8_t* const* arguments, const uint32_t* grid, const uint32_t* block),
    size_t word);
/// A function on a stream. It returns 0, or the error by which the device is lost.
int32_t standin_queue(CUstream stream, int32_t (*body)(void*), void* word);
/// Inside such a function or a host function: it uses memory. Null if it may not.
uint8_t* standin_memory(uint64_t at, size_t bytes, bool write, uint64_t label);
/// The host uses memory, now. Null if it may not.
uint8_t* standin_host_memory(uint64_t at, size_t bytes, bool write, uint64_t label);

void standin_plant(size_t fault, uint64_t every);
uint64_t standin_planted();
size_t standin_report(size_t index, char* to, size_t room);

/// How often a function of the driver was called; how many were, and the name of one.
uint64_t standin_calls(const char* function);
size_t standin_called(size_t index, char* to, size_t room);
}

/// Addresses of device memory have this bit.
constexpr uint64_t DEVICE_MEMORY = uint64_t(1) << 62;
