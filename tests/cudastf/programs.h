// A random program over CUDASTF's logical data (program.cpp), which main.cpp runs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// A fault of the driver (../cuda-standin/src/planted.rs), at each so many-th occasion, or none at 0.
struct Planted {
    size_t fault = 0;
    uint64_t every = 0;
};

/// Runs the program of a seed. Returns the first value that is not that of a sequential run, in
/// words; nothing if there is none. What the stand-in has to report is for the caller to ask.
std::string run_program(uint64_t seed, Planted planted);
