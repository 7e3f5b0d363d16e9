// Asynchronous operations and their completions, and waits that hold no thread.

#include "check.hpp"

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>

using seriatim::Completion;
using seriatim::Engine;
using seriatim::Value;
using seriatim::Variable;

namespace {

void an_operation_ends_with_its_completion() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(0);
        std::vector<std::thread> threads;
        std::mutex mutex;
        for (int step = 0; step < 50; ++step) {
            engine.op("start").run_async(write(x), [&](int& x, Completion done) {
                std::lock_guard<std::mutex> lock(mutex);
                threads.emplace_back([&x, done = std::move(done)]() mutable {
                    ++x;
                    done.complete();
                });
            });
        }
        CHECK(*x.read() == 50);
        // The last operation has ended, and its function may still be about to return.
        std::lock_guard<std::mutex> lock(mutex);
        for (std::thread& thread : threads) thread.join();
    });
}

void completions_fail_are_dropped_and_are_used_once() {
    on_every_engine([](Engine& engine) {
        Variable x = engine.variable();
        engine.op("fails").writes(x).run_async([](Completion done) { done.fail("out of paper"); });
        CHECK_THROWS(engine.wait_for(x), seriatim::Error, "out of paper");
        engine.op("throws").writes(x).run_async([](Completion done) {
            done.fail(std::make_exception_ptr(std::out_of_range("too far")));
        });
        CHECK_THROWS(engine.wait_for(x), std::out_of_range, "too far");
        engine.op("forgets").writes(x).run_async([](Completion) {});
        CHECK_REFUSED(engine.wait_for(x), completion_dropped);
        std::atomic<bool> refused{false};
        engine.op("twice").writes(x).run_async([&](Completion done) {
            done.complete();
            CHECK(!done);
            try {
                done.complete();
            } catch (const seriatim::Error& error) {
                refused = error.kind() == seriatim::ErrorKind::null_pointer;
            }
        });
        // The operation has ended, and its function may still run.
        engine.wait_for_all();
        eventually([&] { return refused.load(); });
    });
}

void a_function_that_throws_fails_its_operation() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(0);
        // The completion is a parameter, which is destroyed by the exception; or is not taken.
        engine.run_async(write(x), [](int&, Completion) { throw std::runtime_error("by value"); });
        CHECK_THROWS(engine.wait_for(x), std::runtime_error, "by value");
        engine.run_async(write(x), [](int&, Completion&&) { throw std::runtime_error("by reference"); });
        CHECK_THROWS(engine.wait_for(x), std::runtime_error, "by reference");
        // It is another thread's already.
        std::promise<Completion> given;
        auto taken = given.get_future();
        engine.run_async(write(x), [&](int&, Completion done) {
            given.set_value(std::move(done));
            throw std::runtime_error("too late");
        });
        taken.get().complete();
        engine.wait_for(x);
        bool told = false;
        eventually([&] {
            try {
                engine.wait_for_all();
            } catch (const std::runtime_error& error) {
                told = std::string(error.what()) == "too late";
            }
            return told;
        });
    });
}

void asynchronous_operators() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(0);
        auto step = engine.op("step").make_async_operator(write(x), [](int& x, Completion done) {
            ++x;
            done.complete();
        });
        for (int use = 0; use < 100; ++use) engine.push(step);
        CHECK(*x.read() == 100);
    });
}

void waits_without_a_thread() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(0);
        std::atomic<int> called{0};
        for (int round = 1; round <= 20; ++round) {
            engine.run(write(x), [](int& x) { ++x; });
            engine.when_ready(x, [&](std::exception_ptr failure) {
                CHECK(!failure);
                ++called;
            });
            engine.when_unused(x, [&](std::exception_ptr) { ++called; });
        }
        eventually([&] { return called == 40; });
        engine.run(write(x), [](int&) { throw std::out_of_range("far"); });
        std::promise<std::exception_ptr> told;
        engine.when_ready(x, [&](std::exception_ptr failure) { told.set_value(failure); });
        CHECK_THROWS(std::rethrow_exception(told.get_future().get()), std::out_of_range, "far");
        engine.wait_for_all();
        std::promise<void> ended;
        engine.when_all_ended([&](std::exception_ptr) { ended.set_value(); });
        ended.get_future().get();
    });
}

/// A chain of operations that each push the next one, from several threads.
void many_pushers() {
    on_every_engine([](Engine& engine) {
        std::vector<Value<int>> values;
        for (int at = 0; at < 4; ++at) values.push_back(engine.value(0));
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 4; ++thread) {
            threads.emplace_back([&, thread] {
                Random random(static_cast<std::uint64_t>(thread));
                for (int step = 0; step < 500; ++step) {
                    Value<int>& from = values[random.below(4)];
                    Value<int>& to = values[random.below(4)];
                    if (from.variable().place == to.variable().place) {
                        engine.run(write(to), [](int& to) { ++to; });
                    } else {
                        // Moves one: the sum stays.
                        engine.run(write(from), write(to), [](int& from, int& to) { --from, to += 2; });
                    }
                }
            });
        }
        for (std::thread& thread : threads) thread.join();
        int sum = 0;
        for (Value<int>& value : values) sum += *value.read();
        CHECK(sum == 2000);
    });
}

}  // namespace

void run_asynchronous() {
    an_operation_ends_with_its_completion();
    completions_fail_are_dropped_and_are_used_once();
    a_function_that_throws_fails_its_operation();
    asynchronous_operators();
    waits_without_a_thread();
    many_pushers();
}
