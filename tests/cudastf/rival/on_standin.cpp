// The stand-in for CUDA's driver, and the kernel as it knows it: a function that says what it uses.

#include "device.h"

#include "../standin.h"

namespace {

constexpr uint64_t SEED = 1;
/// Of 256 calls so many run a command more, and so many at a time: work piles up meanwhile.
constexpr uint64_t PACE = 100;
constexpr uint64_t BURST = 4;
/// The number of a fault of ../../cuda-standin/src/planted.rs.
constexpr size_t WAIT_SWALLOWED = 0;
constexpr int32_t ILLEGAL_ADDRESS = 700;

uint64_t* words(uint64_t at, uint64_t count, bool write) {
    return reinterpret_cast<uint64_t*>(standin_memory(at, count * sizeof(uint64_t), write, 0));
}

/// The arguments are those of `mix` in perf/gpu/src/kernels/kernels.cu.
int32_t mix(size_t, const uint8_t* const* given, const uint32_t*, const uint32_t*) {
    const auto argument = [given](size_t at) { return *reinterpret_cast<const uint64_t*>(given[at]); };
    const uint64_t id = argument(4), spin = argument(5), count = argument(6);
    if (count == 0) {
        return 0;
    }
    const uint64_t* from[3] = {};
    for (size_t at = 0; at < 3; ++at) {
        if (argument(at + 1) != 0) {
            from[at] = words(argument(at + 1), count, false);
            if (from[at] == nullptr) {
                return ILLEGAL_ADDRESS;
            }
        }
    }
    uint64_t* out = words(argument(0), count, true);
    if (out == nullptr) {
        return ILLEGAL_ADDRESS;
    }
    for (uint64_t place = 0; place < count; ++place) {
        uint64_t values[3] = {};
        for (size_t at = 0; at < 3; ++at) {
            values[at] = from[at] == nullptr ? 0 : from[at][place];
        }
        out[place] = mixed(out[place], values, id, spin);
    }
    return 0;
}

}  // namespace

namespace device {

void begin(bool forgets) {
    standin_reset(SEED, PACE);
    standin_burst(BURST);
    standin_devices(1);
    const size_t sizes[7] = {8, 8, 8, 8, 8, 8, 8};
    standin_kernel("mix", sizes, 7, mix, 0);
    standin_plant(WAIT_SWALLOWED, forgets ? 1 : 0);
}

void rest(bool rests) {
    standin_pace(rests ? 0 : PACE);
}

std::map<std::string, uint64_t> calls() {
    std::map<std::string, uint64_t> found;
    char name[100];
    const size_t count = standin_called(SIZE_MAX, name, sizeof name);
    for (size_t at = 0; at < count; ++at) {
        standin_called(at, name, sizeof name);
        found[name] = standin_calls(name);
    }
    return found;
}

std::string report() {
    char said[300];
    return standin_report(0, said, sizeof said) > 0 ? said : std::string();
}

}  // namespace device
