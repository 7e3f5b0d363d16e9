// Mistakes that a program could make, one for each thing that a sanitizer is to see. They show that
// a silent run of the tests means something. `scripts/cpp.sh` runs each, and looks for the report.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include <seriatim/seriatim.hpp>

using seriatim::Engine;

namespace {

Engine crowded() {
    return Engine(seriatim::Settings().kind("pooled").cpu_workers(3).waiters_help(false).set("PIN", "off"));
}

/// Stays until another operation is inside as well, if that can be had soon. Relaxed, so that
/// nothing is ordered by it.
void meet(std::atomic<int>& inside) {
    inside.fetch_add(1, std::memory_order_relaxed);
    auto began = std::chrono::steady_clock::now();
    while (inside.load(std::memory_order_relaxed) < 2 &&
           std::chrono::steady_clock::now() - began < std::chrono::milliseconds(200)) {
    }
}

/// Operations declare that they read what they change.
void race() {
    Engine engine = crowded();
    long total = 0;
    std::atomic<int> inside{0};
    auto x = engine.variable();
    for (int count = 0; count < 20; ++count) {
        engine.op("changes what it reads").reads(x).run([&] {
            meet(inside);
            ++total;
        });
    }
    engine.wait_for_all();
    std::printf("%ld\n", total);
}

/// Operations on different values change a third thing.
void undeclared() {
    Engine engine = crowded();
    long total = 0;
    std::atomic<int> inside{0};
    auto x = engine.value(0), y = engine.value(0);
    for (int count = 0; count < 20; ++count) {
        auto touch = [&](int& value) {
            meet(inside);
            total += ++value;
        };
        engine.run(write(x), touch);
        engine.run(write(y), touch);
    }
    engine.wait_for_all();
    std::printf("%ld\n", total);
}

/// The thread looks at what an operation changes, without a wait.
void no_wait() {
    Engine engine = crowded();
    auto kept = std::make_unique<int>(0);
    auto x = engine.variable();
    engine.op("changes").writes(x).run([&] { *kept = 1; });
    while (engine.version(x) == 0) std::this_thread::yield();
    std::printf("%d\n", *kept);
}

/// It waits for the writes of a variable, and changes what is still read.
void reader() {
    Engine engine = crowded();
    auto kept = std::make_unique<int>(0);
    std::atomic<bool> has_read{false};
    auto x = engine.variable();
    engine.op("reads").reads(x).run([&] {
        std::printf("%d\n", *kept);
        has_read.store(true, std::memory_order_relaxed);
    });
    while (!has_read.load(std::memory_order_relaxed)) std::this_thread::yield();
    engine.wait_for(x);
    *kept = 1;
}

/// Two operations of a graph use one thing, and declare different ones.
void graph() {
    Engine engine = crowded();
    long total = 0;
    std::atomic<int> inside{0};
    auto x = engine.value(0), y = engine.value(0);
    auto made = engine.capture("planted", [&](seriatim::Capture& capture) {
        auto touch = [&](int& value) {
            meet(inside);
            total += ++value;
        };
        // Too long to be put one behind the other.
        for (int count = 0; count < 8; ++count) {
            capture.run(write(x), touch);
            capture.run(write(y), touch);
        }
    });
    for (int round = 0; round < 20; ++round) {
        inside = 0;
        made.replay();
    }
    engine.wait_for_all();
    std::printf("%ld\n", total);
}

/// A function uses what is gone when it runs.
void use_after_free() {
    Engine engine = crowded();
    auto x = engine.variable();
    {
        auto gone = std::make_unique<int>(7);
        engine.op("late").writes(x).run([&gone = *gone] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            std::printf("%d\n", gone);
        });
    }
    engine.wait_for(x);
}

/// A value that nobody deletes.
void leak() {
    Engine engine = crowded();
    auto* value = new seriatim::Value<int>(engine.value(1));
    engine.run(write(*value), [](int& value) { ++value; });
    engine.wait_for_all();
    value = nullptr;
}

}  // namespace

int main(int, char** arguments) {
    const struct {
        const char* name;
        void (*run)();
    } mistakes[] = {{"race", race},     {"undeclared", undeclared},         {"no-wait", no_wait}, {"reader", reader},
                    {"graph", graph}, {"use-after-free", use_after_free}, {"leak", leak}};
    for (auto [name, run] : mistakes) {
        if (arguments[1] == nullptr || std::strcmp(name, arguments[1]) != 0) continue;
        run();
        std::printf("ran the mistake '%s'\n", name);
        return 0;
    }
    std::fprintf(stderr, "there is no such mistake\n");
    return 2;
}
