// The scenarios of the original engine's tests, as tests/peer_semantics/ has them in Rust.

#include "check.hpp"

#include <atomic>
#include <cstring>
#include <numeric>

using namespace std::chrono_literals;
using seriatim::Engine;
using seriatim::Error;
using seriatim::Settings;
using seriatim::Variable;

namespace {

void nothing() {}

void an_engine_stops_and_starts_again() {
    on_every_engine([](Engine& engine) {
        Variable x = engine.variable();
        for (std::uint64_t round = 1; round <= 3; ++round) {
            engine.start();
            engine.op("step").writes(x).run(nothing);
            engine.stop();
            CHECK(engine.version(x) == round);
            CHECK_REFUSED(engine.op("late").run(nothing), stopped);
            engine.start();
        }
    });
}

void ten_readers_run_together() {
    for (Settings settings : all_settings()) {
        Engine engine(settings.waiters_help(false));
        bool alone = engine.setting("ENGINE") == "naive" || engine.setting("CPU_WORKERS") == "1";
        Variable x = engine.variable();
        std::atomic<int> inside{0}, most{0}, readers{0};
        for (int number = 0; number < 10; ++number) {
            engine.op("read").reads(x).run([&] {
                int now = ++inside;
                auto began = std::chrono::steady_clock::now();
                auto elapsed = [began] { return std::chrono::steady_clock::now() - began; };
                do {
                    int before = most;
                    while (before < now && !most.compare_exchange_weak(before, now)) {
                    }
                    std::this_thread::yield();
                    now = inside;
                    // Long enough that it does not run inside a push again.
                } while (elapsed() < 10ms || (!alone && most < 2 && elapsed() < 2s));
                --inside;
                ++readers;
            });
        }
        engine.wait_for_all();
        CHECK(readers == 10);
        CHECK(alone ? most == 1 : most > 1);
    }
}

void ten_writers_run_one_after_another() {
    on_every_engine([](Engine& engine) {
        Variable x = engine.variable();
        bool inside = false;
        std::vector<int> order;
        for (int number = 0; number < 10; ++number) {
            engine.op("write").writes(x).run([&, number] {
                CHECK(!std::exchange(inside, true));
                order.push_back(number);
                inside = false;
            });
        }
        engine.wait_for(x);
        std::vector<int> expected(10);
        std::iota(expected.begin(), expected.end(), 0);
        CHECK(order == expected);
    });
}

void waits_and_versions() {
    on_every_engine([](Engine& engine) {
        Variable x = engine.variable(), y = engine.variable();
        engine.wait_for(x);
        engine.wait_for(x, 0s);
        engine.wait_for_all(0s);
        CHECK(engine.version(x) == 0);
        for (int count = 0; count < 10; ++count) engine.op("read").reads(x).run(nothing);
        engine.wait_for_all();
        CHECK(engine.version(x) == 0);
        for (int count = 0; count < 10; ++count) engine.op("write").writes(x).run(nothing);
        engine.wait_for(x);
        CHECK(engine.version(x) == 10);
        // The original deadlocks on itself in the second and third case.
        engine.op("twice read").reads(x, x).writes(y).run(nothing);
        engine.op("twice written").writes(x, y, x).run(nothing);
        engine.op("both").reads(x).writes(x).reads(x).run(nothing);
        engine.wait_for_all();
        CHECK(engine.version(x) == 12 && engine.version(y) == 2);
    });
}

void a_copy_is_waited_for_and_a_reader_is_not() {
    on_every_engine([](Engine& engine) {
        Variable x = engine.variable();
        bool copied = false;
        engine.op("copy").writes(x).property(seriatim::Property::copy_to_gpu).run([&] {
            std::this_thread::sleep_for(2ms);
            copied = true;
        });
        engine.wait_for(x);
        CHECK(copied);

        seriatim::Completion reader(nullptr, nullptr);
        std::atomic<bool> began{false};
        engine.op("hold").reads(x).property(seriatim::Property::async).run_async([&](seriatim::Completion done) {
            reader = std::move(done);
            began = true;
        });
        eventually([&] { return began.load(); });
        engine.wait_for(x);
        engine.op("write").writes(x).run(nothing);
        CHECK_REFUSED(engine.wait_for(x, 1ms), timed_out);
        CHECK_REFUSED(engine.wait_for_all(1ms), timed_out);
        reader.complete();
        engine.wait_for(x);
        CHECK(engine.version(x) == 2);
    });
}

/// 10,000 random operations on 100 variables, with 2 to 19 reads and 1 write each: equal to the
/// serial result, bit by bit.
void a_random_workload_is_as_if_serial() {
    constexpr std::size_t variables = 100;
    std::size_t operations = 10'000;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        std::vector<double> expected(variables);
        for (std::size_t at = 0; at < variables; ++at) expected[at] = static_cast<double>(at) + 0.5;
        std::vector<std::vector<double>> values;
        std::vector<Engine> engines;
        std::vector<std::vector<Variable>> tokens;
        for (const Settings& settings : all_settings()) {
            engines.emplace_back(settings);
            values.push_back(expected);
            tokens.emplace_back();
            for (std::size_t at = 0; at < variables; ++at) tokens.back().push_back(engines.back().variable());
        }
        auto apply = [](double* cells, const std::vector<std::size_t>& reads, std::size_t write) {
            double sum = 0;
            for (std::size_t read : reads) sum += cells[read];
            cells[write] = sum / static_cast<double>(reads.size() + 1);
        };
        Random random(seed);
        for (std::size_t operation = 0; operation < operations; ++operation) {
            std::size_t write = random.below(variables);
            std::vector<std::size_t> reads;
            for (std::size_t count = 2 + random.below(18); count > 0; --count) {
                std::size_t read = random.below(variables);
                if (read != write) reads.push_back(read);
            }
            apply(expected.data(), reads, write);
            for (std::size_t at = 0; at < engines.size(); ++at) {
                std::vector<SeriatimVariable> declared;
                for (std::size_t read : reads) declared.push_back(tokens[at][read]);
                double* cells = values[at].data();
                engines[at].op("mix").reads(declared).writes(tokens[at][write]).run([=] {
                    apply(cells, reads, write);
                });
            }
        }
        for (std::size_t at = 0; at < engines.size(); ++at) {
            engines[at].wait_for_all();
            CHECK(std::memcmp(values[at].data(), expected.data(), variables * sizeof(double)) == 0);
        }
    }
}

void priorities_names_and_contexts() {
    Engine engine(Settings().cpu_workers(1).waiters_help(false).set("PIN", "off"));
    Variable gate = engine.variable();
    std::atomic<bool> open{false}, began{false};
    std::vector<int> order;
    engine.op("gate").writes(gate).run([&] {
        began = true;
        eventually([&] { return open.load(); });
    });
    eventually([&] { return began.load(); });
    for (int priority : {1, 3, 2}) {
        engine.op("ordered").priority(priority).run([&, priority](const seriatim::RunContext& run) {
            CHECK(std::strcmp(run.name(), "ordered") == 0);
            CHECK(run.context().device == SERIATIM_DEVICE_CPU && run.stream() == nullptr);
            order.push_back(priority);
        });
    }
    open = true;
    engine.wait_for_all();
    CHECK((order == std::vector<int>{3, 2, 1}));
    CHECK_REFUSED(engine.op("nowhere").context(seriatim::Context::gpu(7)).run(nothing), device_unavailable);
    CHECK_REFUSED(engine.op("nowhere").context(seriatim::Context::cpu(5000)).run(nothing), unknown_device);
}

void settings_and_engines() {
    CHECK_REFUSED(Engine(Settings().kind("sideways")), bad_setting);
    CHECK_THROWS(Engine(Settings().kind("sideways")), Error, "per-device");
    Engine engine(Settings().kind("pooled").cpu_workers(2).bound(50));
    CHECK(engine.setting("CPU_WORKERS") == "2" && engine.setting("BOUND") == "50");
    Variable x = engine.variable();
    for (int count = 0; count < 1000; ++count) engine.op("step").writes(x).run(nothing);
    engine.wait_for(x);
    CHECK(engine.version(x) == 1000);
    Engine copy = engine, moved = std::move(copy);
    Engine other;
    CHECK_REFUSED(other.op("foreign").writes(x).run(nothing), foreign_variable);
    Engine global = Engine::global();
    int ran = 0;
    global.run([&] { ++ran; });
    global.wait_for_all();
    CHECK(ran == 1);
    engine.prepare();
    engine.start_profiling();
    engine.op("profiled").writes(x).run(nothing);
    engine.wait_for_all();
    CHECK(engine.profile_table().find("profiled") != std::string::npos);
    engine.stop_profiling();
    engine.notify_shutdown();
    bool is_run = false;
    engine.op("skipped").writes(x).run([&] { is_run = true; });
    engine.wait_for_all();
    CHECK(!is_run);
}

/// Operations may push operations, and a wait inside one is refused.
void nested() {
    on_every_engine([](Engine& engine) {
        Variable x = engine.variable();
        int depth = 0;
        bool refused = false;
        engine.op("outer").writes(x).run([&] {
            ++depth;
            engine.op("inner").writes(x).run([&] { ++depth; });
            try {
                engine.wait_for(x);
            } catch (const Error& error) {
                refused = error.kind() == seriatim::ErrorKind::wait_inside_operation;
            }
        });
        engine.wait_for_all();
        CHECK(depth == 2 && refused);
    });
}

}  // namespace

void run_semantics() {
    an_engine_stops_and_starts_again();
    ten_readers_run_together();
    ten_writers_run_one_after_another();
    waits_and_versions();
    a_copy_is_waited_for_and_a_reader_is_not();
    a_random_workload_is_as_if_serial();
    priorities_names_and_contexts();
    settings_and_engines();
    nested();
}
