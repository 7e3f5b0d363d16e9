// What a push allocates, and the pool that it takes memory from.

#include "check.hpp"

#include <atomic>
#include <cstring>
#include <memory>

using seriatim::Engine;
using seriatim::Settings;

namespace {

/// The least number of allocations that a thousand pushes took, of several tries.
template <class Push>
long allocations_of(Engine& engine, Push push) {
    long least = 1'000'000;
    for (int round = 0; round < 8; ++round) {
        long before = allocations;
        for (int count = 0; count < 1000; ++count) push();
        engine.wait_for_all();
        least = std::min(least, allocations - before);
    }
    return least;
}

void a_push_allocates_nothing_in_steady_state() {
    if (!seriatim::detail::is_pooled) return;
    on_every_engine([](Engine& engine) {
        auto x = engine.value(0), y = engine.value(0), z = engine.value(0);
        auto shared = std::make_shared<int>(1);
        char bytes[80] = {};
        struct {
            char bytes[200];
        } large = {};
        CHECK(allocations_of(engine, [&] { engine.run(write(x), [](int& x) { ++x; }); }) == 0);
        CHECK(allocations_of(engine, [&] {
            engine.op("typed").run(read(x), read(y), write(z), [shared](int, int, int& z) { z += *shared; });
        }) == 0);
        CHECK(allocations_of(engine, [&] { engine.run(write(x), [bytes](int& x) { x += bytes[0]; }); }) == 0);
        CHECK(allocations_of(engine, [&] { engine.run(write(x), [large](int& x) { x += large.bytes[0]; }); }) == 1000);
        CHECK(allocations_of(engine, [&] {
            engine.run_async(write(x), [](int&, seriatim::Completion done) { done.complete(); });
        }) == 0);
        auto step = engine.op("step").make_operator(write(x), [](int& x) { ++x; });
        CHECK(allocations_of(engine, [&] { engine.push(step); }) == 0);
        auto graph = engine.capture("graph", [&](auto& capture) { capture.run(write(x), [](int& x) { ++x; }); });
        CHECK(allocations_of(engine, [&] { graph.replay(); }) == 0);
    });
}

/// Cells go from thread to thread, and no one has a cell that another has. ThreadSanitizer watches
/// that what was written to a cell is seen by who takes it next.
void cells_are_given_back_by_any_thread() {
    using namespace seriatim::detail;
    struct Slot {
        std::atomic<unsigned char*> cell{nullptr};
    };
    Slot slots[64];
    std::vector<std::thread> threads;
    for (unsigned char thread = 1; thread <= 4; ++thread) {
        threads.emplace_back([&, thread] {
            Random random(thread);
            for (int step = 0; step < 20'000; ++step) {
                auto* cell = static_cast<unsigned char*>(take_cell());
                std::memset(cell, thread, cell_room);
                // Release and acquire: as the engine hands functions over.
                cell = slots[random.below(64)].cell.exchange(cell, std::memory_order_acq_rel);
                if (cell == nullptr) continue;
                for (std::size_t at = 1; at < cell_room; ++at) CHECK(cell[at] == cell[0]);
                std::memset(cell, 0, cell_room);
                put_cell(cell);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (Slot& slot : slots) {
        if (unsigned char* cell = slot.cell) put_cell(cell);
    }
}

/// A thread's objects may push when the thread ends, and its shelf is taken over.
void threads_come_and_go() {
    on_every_engine([](Engine& engine) {
        static std::atomic<int> ran;
        ran = 0;
        struct Pushes {
            Engine* engine = nullptr;
            ~Pushes() {
                std::string text(50, 'a');
                engine->run([text] { ran += text[49] == 'a'; });
            }
        };
        for (int round = 0; round < 20; ++round) {
            std::thread([&] {
                static thread_local Pushes pushes;
                pushes.engine = &engine;
                std::string text(50, 'a');
                engine.run([text] { ran += text[49] == 'a'; });
            }).join();
        }
        engine.wait_for_all();
        CHECK(ran == 40);
    });
}

}  // namespace

void run_memory() {
    a_push_allocates_nothing_in_steady_state();
    cells_are_given_back_by_any_thread();
    threads_come_and_go();
}
