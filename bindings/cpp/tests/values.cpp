// Values, tiles, guards and results: what is lent, in which order, and how long it lives.

#include "check.hpp"

#include <atomic>
#include <future>
#include <memory>
#include <numeric>

using namespace std::chrono_literals;
using seriatim::Engine;
using seriatim::Pending;
using seriatim::Settings;
using seriatim::span;
using seriatim::Value;

namespace {

/// Counts those that live.
struct Counted {
    explicit Counted(std::atomic<int>& count) : count(&count) { ++count; }
    Counted(const Counted& other) : count(other.count) { ++*count; }
    ~Counted() { --*count; }
    std::atomic<int>* count;
};

void values_are_lent_in_order() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(std::vector<double>(1000, 1.0));
        auto y = engine.value(std::vector<double>(1000, 2.0));
        auto sum = engine.value(0.0);
        for (int round = 0; round < 10; ++round) {
            engine.op("axpy").run(read(x), write(y), [](const std::vector<double>& x, std::vector<double>& y) {
                for (std::size_t at = 0; at < y.size(); ++at) y[at] += 3 * x[at];
            });
            engine.run(write(x), [](auto& x) {
                for (double& one : x) one += 1;
            });
        }
        engine.run(read(y), read(x), write(sum), [](const auto& y, const auto& x, double& sum) {
            sum = std::accumulate(y.begin(), y.end(), std::accumulate(x.begin(), x.end(), 0.0));
        });
        CHECK(*sum.read() == 1000 * (2 + 3 * 55 + 11));
        CHECK(engine.version(x) == 10 && engine.version(y.variable()) == 10);
    });
}

/// Many values, few threads: each increment takes the sum of two others, as in one thread.
void random_programs_are_as_if_serial() {
    on_every_engine([](Engine& engine) {
        constexpr std::size_t count = 16;
        std::vector<Value<std::uint64_t>> values;
        std::vector<std::uint64_t> expected;
        for (std::size_t at = 0; at < count; ++at) {
            values.push_back(engine.value(std::uint64_t{at}));
            expected.push_back(at);
        }
        Random random(7);
        for (int step = 0; step < 3000; ++step) {
            std::size_t a = random.below(count), b = random.below(count), c = random.below(count);
            if (a == c || b == c) continue;
            engine.run(read(values[a]), read(values[b]), write(values[c]),
                       [](std::uint64_t a, std::uint64_t b, std::uint64_t& c) { c = c * 31 + (a ^ b); });
            expected[c] = expected[c] * 31 + (expected[a] ^ expected[b]);
            if (step % 500 == 0) CHECK(*values[c].read() == expected[c]);
        }
        for (std::size_t at = 0; at < count; ++at) CHECK(*values[at].read() == expected[at]);
    });
}

void a_value_is_named_once_to_be_changed() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(1), y = engine.value(2);
        auto copy = x;
        CHECK_REFUSED(engine.run(read(x), write(copy), [](int, int&) {}), borrow_conflict);
        CHECK_REFUSED(engine.run(write(x), read(y), write(x), [](int&, int, int&) {}), borrow_conflict);
        engine.run(read(x), read(copy), write(y), [](int x, int copy, int& y) { y += x + copy; });
        CHECK(*y.read() == 4 && engine.version(x) == 0);
    });
}

void tiles_are_parts_of_one_array() {
    on_every_engine([](Engine& engine) {
        auto tiles = engine.tiles(std::vector<int>(1000, 1), 300);
        CHECK(tiles.size() == 4 && tiles[3].size() == 100);
        for (std::size_t at = 0; at + 1 < tiles.size(); ++at) {
            engine.run(read(tiles[at]), write(tiles[at + 1]), [](span<const int> before, span<int> tile) {
                for (int& cell : tile) cell += before[before.size() - 1];
            });
        }
        CHECK((*tiles[3].read())[99] == 4);
        auto guard = tiles[0].write();
        for (int& cell : *guard) cell = 5;
    });
}

void a_value_lives_as_long_as_it_is_used() {
    std::atomic<int> count{0};
    on_every_engine([&](Engine& engine) {
        {
            auto x = engine.emplace<Counted>(count);
            for (int use = 0; use < 100; ++use) {
                engine.run(write(x), [](Counted& x) { CHECK(*x.count >= 1); });
            }
            auto copy = x;
            x = engine.emplace<Counted>(count);
        }
        engine.wait_for_all();
        eventually([&] { return count == 0; });
        // Its constructor throws: nothing is left.
        struct Throws {
            Throws() { throw std::runtime_error("no value"); }
        };
        CHECK_THROWS(engine.emplace<Throws>(), std::runtime_error, "no value");
    });
    // A value that outlives its engine is destroyed with its last handle, or with the engine.
    for (const Settings& settings : all_settings()) {
        auto engine = std::make_unique<Engine>(settings);
        auto x = engine->emplace<Counted>(count);
        auto y = engine->emplace<Counted>(count);
        engine->run(write(x), [](Counted&) { std::this_thread::sleep_for(1ms); });
        engine.reset();
        CHECK(count == 2);
        CHECK_REFUSED(x.read(), stopped);
    }
    CHECK(count == 0);
    // So is one whose deletion is refused.
    {
        Engine engine;
        {
            auto x = engine.emplace<Counted>(count);
            engine.stop();
        }
        CHECK(count == 1);
    }
    CHECK(count == 0);
}

/// Destructors do not wait for room, and what is refused for want of it is deleted later.
void values_go_under_a_bound() {
    for (const char* when_full : {"would-block", "block", "help"}) {
        std::atomic<int> count{0};
        Engine engine(Settings().cpu_workers(1).bound(1).set("WHEN_FULL", when_full).set("PIN", "off"));
        std::promise<seriatim::Completion> given;
        engine.op("hold").run_async([&](seriatim::Completion done) { given.set_value(std::move(done)); });
        seriatim::Completion done = given.get_future().get();
        if (std::string(when_full) == "would-block") {
            for (int number = 0; number < 10; ++number) engine.emplace<Counted>(count);
            CHECK(count == 10);
        }
        done.complete();
        eventually([&] {
            engine.emplace<Counted>(count);
            engine.wait_for_all();
            return count == 0;
        });
    }
}

void guards_hold_operations_off() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(1);
        engine.run(write(x), [](int& x) { x = 10; });
        {
            auto guard = x.write();
            CHECK(*guard == 10);
            CHECK_REFUSED(x.read(), borrow_conflict);
            CHECK_REFUSED(engine.wait_for(x), borrow_conflict);
            CHECK_REFUSED(engine.wait_for_all(), borrow_conflict);
            CHECK_REFUSED(engine.stop(), borrow_conflict);
            engine.run(write(x), [](int& x) { x *= 2; });
            std::this_thread::sleep_for(1ms);
            *guard += 1;
        }
        CHECK(*x.read() == 22 && engine.version(x) == 3);
        // Guards of several threads, which take turns.
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 4; ++thread) {
            threads.emplace_back([&] {
                for (int turn = 0; turn < 100; ++turn) {
                    *x.write() += 1;
                    CHECK(*x.read() > 22);
                }
            });
        }
        for (std::thread& thread : threads) thread.join();
        CHECK(*x.read() == 422);
        bool refused = false;
        engine.run([&] {
            try {
                x.read();
            } catch (const seriatim::Error& error) {
                refused = error.kind() == seriatim::ErrorKind::wait_inside_operation;
            }
        });
        engine.wait_for_all();
        CHECK(refused);
    });
}

void results_are_waited_for() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(std::vector<int>{1, 2, 3});
        Pending<int> sum = engine.compute(read(x), [](const auto& x) { return std::accumulate(x.begin(), x.end(), 0); });
        CHECK(sum.valid() && sum.get() == 6 && !sum.valid());
        CHECK_THROWS(sum.get(), std::future_error, "");
        Pending<void> done = engine.op("grow").compute(write(x), [](auto& x) { x.push_back(4); });
        done.wait();
        CHECK(done.ready());
        done.get();
        CHECK(x.read()->size() == 4);
        auto unique = engine.compute([] { return std::make_unique<int>(7); });
        CHECK(*unique.get() == 7);
        // Dropped: it runs all the same.
        { auto dropped = engine.compute(write(x), [](auto& x) { return x.emplace_back(5); }); }
        CHECK(x.read()->size() == 5);
        if (engine.setting("ENGINE") == "naive") return;
        std::atomic<bool> open{false};
        auto late = engine.compute([&] {
            eventually([&] { return open.load(); });
            return 1;
        });
        // Unless it runs inside its push.
        CHECK(!late.ready() && late.wait_for(1ms) == std::future_status::timeout);
        open = true;
        CHECK(late.wait_for(60s) == std::future_status::ready && late.get() == 1);
    });
}

void functions_of_any_size_and_kind() {
    on_every_engine([](Engine& engine) {
        auto count = engine.value(std::uint64_t{0});
        std::uint64_t plain = 0;
        auto text = std::make_shared<std::string>("a text that is longer than a small string can be");
        std::vector<char> bytes(100, 1);
        struct alignas(64) Wide {
            unsigned char bytes[300] = {1};
        } wide;
        for (int round = 0; round < 200; ++round) {
            engine.run(write(count), [](std::uint64_t& count) { ++count; });
            engine.run(write(count), [&plain](std::uint64_t& count) { count += ++plain > 0; });
            engine.run(write(count), [text](std::uint64_t& count) { count += text->size() > 10; });
            engine.run(write(count), [text, bytes](std::uint64_t& count) { count += bytes[99] == 1 && !text->empty(); });
            engine.run(write(count), [wide](std::uint64_t& count) {
                count += wide.bytes[0] == 1 && reinterpret_cast<std::uintptr_t>(&wide) % 64 == 0;
            });
            auto only = std::make_unique<int>(1);
            engine.run(write(count), [only = std::move(only)](std::uint64_t& count) { count += *only == 1; });
        }
        CHECK(*count.read() == 1200);
        CHECK(text.use_count() == 1);
    });
}

void operators_are_pushed_again() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(0);
        auto kept = std::make_shared<int>(1);
        {
            auto step = engine.op("step").make_operator(write(x), [kept](int& x) { x += *kept; });
            for (int use = 0; use < 100; ++use) engine.push(step, {}, use % 3);
        }
        CHECK(*x.read() == 100);
        eventually([&] { return kept.use_count() == 1; });
        Engine other;
        auto step = engine.op("step").make_operator([] {});
        CHECK_REFUSED(other.push(step), foreign_operator);
    });
}

/// What an operation's function has may be the engine's last handle.
void an_operation_may_have_the_last_handle() {
    for (const Settings& settings : all_settings()) {
        std::atomic<int> ran{0};
        {
            Engine engine(settings);
            auto x = engine.value(0);
            engine.run(write(x), [engine, x, &ran](int&) mutable {
                std::this_thread::sleep_for(1ms);
                ++ran;
            });
            engine.run_async([engine, &ran](seriatim::Completion done) {
                ++ran;
                done.complete();
            });
        }
        eventually([&] { return ran == 2; });
    }
}

}  // namespace

void run_values() {
    values_are_lent_in_order();
    random_programs_are_as_if_serial();
    a_value_is_named_once_to_be_changed();
    tiles_are_parts_of_one_array();
    a_value_lives_as_long_as_it_is_used();
    values_go_under_a_bound();
    guards_hold_operations_off();
    results_are_waited_for();
    functions_of_any_size_and_kind();
    operators_are_pushed_again();
    an_operation_may_have_the_last_handle();
}
