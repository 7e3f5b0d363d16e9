// What the tests share: checks that say where they failed, and the engines to try everything on.

#ifndef SERIATIM_TESTS_CHECK_HPP
#define SERIATIM_TESTS_CHECK_HPP

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <seriatim/seriatim.hpp>

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
            std::exit(1);                                                                      \
        }                                                                                      \
    } while (false)

/// Checks that something throws what is of this type, and that its text contains this.
#define CHECK_THROWS(expression, type, expected)                                               \
    do {                                                                                       \
        bool has_thrown = false;                                                               \
        try {                                                                                  \
            expression;                                                                        \
        } catch (const type& error) {                                                          \
            has_thrown = true;                                                                 \
            if (std::string(error.what()).find(expected) == std::string::npos) {               \
                std::fprintf(stderr, "%s:%d: it says: %s\n", __FILE__, __LINE__, error.what()); \
                std::exit(1);                                                                  \
            }                                                                                  \
        }                                                                                      \
        CHECK(has_thrown);                                                                     \
    } while (false)

/// Checks that something throws an `Error` of this kind.
#define CHECK_REFUSED(expression, expected)                                                    \
    do {                                                                                       \
        bool has_thrown = false;                                                               \
        try {                                                                                  \
            expression;                                                                        \
        } catch (const seriatim::Error& error) {                                               \
            has_thrown = true;                                                                 \
            if (error.kind() != seriatim::ErrorKind::expected) {                               \
                std::fprintf(stderr, "%s:%d: it says: %s\n", __FILE__, __LINE__, error.what()); \
                std::exit(1);                                                                  \
            }                                                                                  \
        }                                                                                      \
        CHECK(has_thrown);                                                                     \
    } while (false)

/// The settings that everything is tried with.
inline std::vector<seriatim::Settings> all_settings() {
    auto of = [](const char* kind, std::size_t workers) {
        return seriatim::Settings().kind(kind).cpu_workers(workers).set("PIN", "off");
    };
    return {of("naive", 1),      of("pooled", 1),
            of("pooled", 3),     of("per-device", 1),
            of("per-device", 3), of("pooled", 2).inline_below(1'000'000)};
}

template <class Test>
void on_every_engine(Test test) {
    for (const seriatim::Settings& settings : all_settings()) {
        seriatim::Engine engine(settings);
        test(engine);
    }
}

/// Waits for something that must come true before long.
template <class Condition>
void eventually(Condition is_so) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_so()) {
        CHECK(std::chrono::steady_clock::now() < deadline);
        std::this_thread::yield();
    }
}

/// How often `operator new` was called. Sanitizers have their own: then it stays 0.
extern std::atomic<long> allocations;

/// Random numbers that repeat (SplitMix64).
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15u;
        mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
        return mixed ^ mixed >> 31;
    }

    std::size_t below(std::size_t end) { return next() % end; }

private:
    std::uint64_t state_;
};

/// What each file of tests has.
void run_semantics();
void run_values();
void run_failures();
void run_asynchronous();
void run_graphs();
void run_memory();
void run_modes();

#endif
