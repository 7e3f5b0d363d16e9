// Random numbers by a seed, the same everywhere.

#pragma once

#include <cstdint>

class Random {
public:
    explicit Random(uint64_t seed) : state(seed) {}

    uint64_t next() {
        state += 0x9e3779b97f4a7c15u;
        uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
        return mixed ^ (mixed >> 31);
    }

    /// A number below a bound.
    uint64_t below(uint64_t bound) { return next() % bound; }

private:
    uint64_t state;
};
