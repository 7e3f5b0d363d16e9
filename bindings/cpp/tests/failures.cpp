// Exceptions of operations: what they mark and skip, and who gets them.

#include "check.hpp"

#include <atomic>
#include <stdexcept>

using seriatim::Engine;
using seriatim::Error;
using seriatim::Settings;
using seriatim::Variable;

namespace {

/// An exception with something to recognise it by.
struct Broken : std::runtime_error {
    explicit Broken(int number) : std::runtime_error("broken"), number(number) {}
    int number;
};

template <class Wait>
int number_thrown_by(Wait wait) {
    try {
        wait();
    } catch (const Broken& broken) {
        return broken.number;
    }
    return 0;
}

void a_wait_throws_the_exception_once() {
    on_every_engine([](Engine& engine) {
        Variable x = engine.variable();
        for (int round = 1; round <= 3; ++round) {
            engine.op("fail").writes(x).run([round] { throw Broken(round); });
            CHECK(number_thrown_by([&] { engine.wait_for(x); }) == round);
            engine.wait_for(x);
            engine.wait_for_all();
            CHECK(engine.version(x) == static_cast<std::uint64_t>(round));
        }
    });
}

void what_depends_on_a_failure_is_skipped() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(0), y = engine.value(0);
        std::atomic<int> ran{0};
        engine.run(write(x), [](int&) { throw Broken(1); });
        engine.run(read(x), write(y), [&](int, int&) { ++ran; });
        engine.run(write(x), [&](int&) { ++ran; });
        eventually([&] { return engine.version(x) == 2 && engine.version(y) == 1; });
        CHECK(ran == 0);
        CHECK(number_thrown_by([&] { y.read(); }) == 1);
        engine.run(read(x), write(y), [&](int, int&) { ++ran; });
        engine.wait_for_all();
        CHECK(ran == 1);
        CHECK(*x.read() == 0);
        // Runs whatever has failed.
        engine.run(write(x), [](int&) { throw Broken(2); });
        engine.op("always").property(seriatim::Property::no_skip).run(write(x), [&](int&) { ++ran; });
        CHECK(number_thrown_by([&] { engine.wait_for(x); }) == 2);
        CHECK(ran == 2);
    });
}

void one_failure_marks_all_that_it_changes_and_is_taken_once() {
    on_every_engine([](Engine& engine) {
        Variable x = engine.variable(), y = engine.variable(), z = engine.variable();
        for (Variable* taker : {&x, &y, &z}) {
            engine.op("fail").writes(x, y, z).run([] { throw Broken(4); });
            CHECK(number_thrown_by([&] { engine.wait_for(*taker); }) == 4);
            for (Variable* other : {&x, &y, &z}) engine.wait_for(*other);
        }
        engine.wait_for_all();
    });
}

void a_wait_for_all_throws_the_first_and_clears_all() {
    on_every_engine([](Engine& engine) {
        Variable x = engine.variable(), y = engine.variable();
        for (int round = 0; round < 3; ++round) {
            engine.op("first").writes(x).run([] { throw Broken(1); });
            engine.op("second").writes(y).run([] { throw Broken(2); });
            CHECK(number_thrown_by([&] { engine.wait_for_all(); }) == 1);
            engine.wait_for_all();
            engine.wait_for(y);
        }
        // An operation without variables.
        engine.run([] { throw Broken(3); });
        CHECK(number_thrown_by([&] { engine.wait_for_all(); }) == 3);
    });
}

void exceptions_of_any_kind() {
    on_every_engine([](Engine& engine) {
        engine.run([] { throw 42; });
        int got = 0;
        try {
            engine.wait_for_all();
        } catch (int number) {
            got = number;
        }
        CHECK(got == 42);
        // It has the address of the one that was thrown.
        const std::exception* thrown = nullptr;
        engine.run([&] {
            try {
                throw Broken(5);
            } catch (const Broken& broken) {
                thrown = &broken;
                throw;
            }
        });
        const std::exception* caught = nullptr;
        try {
            engine.wait_for_all();
        } catch (const std::exception& broken) {
            caught = &broken;
        }
        CHECK(thrown != nullptr && caught == thrown);
    });
}

void a_result_carries_the_exception() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(1);
        auto failed = engine.compute(write(x), [](int&) -> int { throw Broken(6); });
        failed.wait();
        CHECK(failed.ready() && number_thrown_by([&] { failed.get(); }) == 6);
        engine.wait_for(x);
        // One whose failure another wait has told.
        auto told = engine.compute(write(x), [](int&) -> int { throw Broken(7); });
        CHECK(number_thrown_by([&] { engine.wait_for(x); }) == 7);
        CHECK(number_thrown_by([&] { told.get(); }) == 7);
        // One that depends on a failure.
        engine.run(write(x), [](int&) { throw Broken(8); });
        auto skipped = engine.compute(read(x), [](int x) { return x; });
        CHECK(number_thrown_by([&] { skipped.get(); }) == 8);
        engine.wait_for_all();
    });
}

void errors_that_nobody_waits_for_are_told() {
    for (Settings settings : all_settings()) {
        std::vector<std::string> told;
        {
            Engine engine(settings.on_error([&](seriatim::ErrorKind kind, const char* operation, const char* text) {
                CHECK(kind == seriatim::ErrorKind::operation_failed);
                told.push_back(std::string(operation != nullptr ? operation : "") + ": " + text);
            }));
            engine.op("lonely").run([] { throw Broken(1); });
        }
        CHECK(told.size() == 1 && told[0].find("lonely: ") == 0 && told[0].find("broken") != std::string::npos);
    }
}

/// Several workers fail at once, while waits of several threads take the failures.
void failures_in_a_crowd() {
    on_every_engine([](Engine& engine) {
        std::vector<Variable> variables;
        for (int at = 0; at < 8; ++at) variables.push_back(engine.variable());
        std::atomic<int> thrown{0}, caught{0};
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 3; ++thread) {
            threads.emplace_back([&, thread] {
                Random random(static_cast<std::uint64_t>(thread));
                for (int step = 0; step < 300; ++step) {
                    Variable& one = variables[random.below(variables.size())];
                    bool fails = random.below(3) == 0;
                    engine.op("crowd").writes(one).run([&, fails] {
                        if (!fails) return;
                        ++thrown;
                        throw Broken(9);
                    });
                    if (random.below(10) != 0) continue;
                    caught += number_thrown_by([&] { engine.wait_for(one); }) == 9;
                }
            });
        }
        for (std::thread& thread : threads) thread.join();
        for (Variable& one : variables) caught += number_thrown_by([&] { engine.wait_for(one); }) == 9;
        engine.wait_for_all();
        CHECK(thrown > 0 && caught > 0 && caught <= thrown);
    });
}

}  // namespace

void run_failures() {
    a_wait_throws_the_exception_once();
    what_depends_on_a_failure_is_skipped();
    one_failure_marks_all_that_it_changes_and_is_taken_once();
    a_wait_for_all_throws_the_first_and_clears_all();
    exceptions_of_any_kind();
    a_result_carries_the_exception();
    errors_that_nobody_waits_for_are_told();
    failures_in_a_crowd();
}
