// Captured graphs and pipelines, and their parameters.

#include "check.hpp"

#include <atomic>
#include <memory>
#include <stdexcept>

using seriatim::Capture;
using seriatim::Engine;
using seriatim::Graph;
using seriatim::RunContext;

namespace {

void a_graph_is_replayed() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(1), y = engine.value(0), z = engine.value(0);
        int calls = 0;
        Graph graph = engine.capture("steps", [&](Capture& capture) {
            capture.op("double").run(write(x), [](int& x) { x *= 2; });
            capture.op("left").run(read(x), write(y), [](int x, int& y) { y += x; });
            // State of its own.
            capture.op("right").priority(1).run(read(x), write(z), [&, own = 0](int x, int& z) mutable {
                z += x + ++own;
                ++calls;
            });
        });
        CHECK(graph.length() == 3 && graph.dump_dot().find("left") != std::string::npos);
        for (int round = 0; round < 10; ++round) graph.replay(round % 2);
        CHECK(*x.read() == 1024 && *y.read() == 2046 && *z.read() == 2046 + 55 && calls == 10);
        CHECK(engine.version(x) == 10);
    });
}

void a_graph_keeps_what_it_uses() {
    on_every_engine([](Engine& engine) {
        auto kept = std::make_shared<int>(0);
        {
            auto x = std::make_unique<seriatim::Value<std::shared_ptr<int>>>(engine.value(kept));
            Graph graph = engine.capture("keeps", [&](Capture& capture) {
                capture.run(write(*x), [kept](std::shared_ptr<int>& x) { ++*x; });
            });
            x.reset();
            for (int round = 0; round < 5; ++round) graph.replay();
        }
        engine.wait_for_all();
        eventually([&] { return kept.use_count() == 1; });
        CHECK(*kept == 5);
    });
}

void parameters_change_between_replays() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(0);
        std::unique_ptr<seriatim::Parameter<int>> rate;
        Graph graph = engine.capture("with a parameter", [&](Capture& capture) {
            rate = std::make_unique<seriatim::Parameter<int>>(capture.parameter(1));
            capture.run(write(x), [rate = *rate](const RunContext& run, int& x) { x += rate.get(run); });
        });
        graph.replay();
        rate->set(10);
        graph.replay();
        graph.replay();
        CHECK(*x.read() == 21);
        bool refused = false;
        engine.run([&, own = *rate](const RunContext& run) {
            try {
                own.get(run);
            } catch (const seriatim::Error& error) {
                refused = error.kind() == seriatim::ErrorKind::borrow_conflict;
            }
        });
        engine.wait_for_all();
        CHECK(refused);
    });
}

void an_exception_in_a_graph_comes_out_of_a_wait() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(0), y = engine.value(0);
        std::atomic<int> ran{0};
        Graph graph = engine.capture("fails", [&](Capture& capture) {
            capture.run(write(x), [round = 0](int&) mutable {
                if (++round == 2) throw std::range_error("the second");
            });
            capture.run(read(x), write(y), [&](int, int&) { ++ran; });
        });
        graph.replay();
        graph.replay();
        CHECK_THROWS(engine.wait_for(y), std::range_error, "the second");
        graph.replay();
        engine.wait_for_all();
        CHECK(ran == 2);
        // One that is thrown while it is recorded.
        CHECK_THROWS(engine.capture("given up", [&](Capture& capture) {
            capture.run(write(x), [](int&) {});
            throw std::range_error("while recording");
        }), std::range_error, "while recording");
    });
}

void private_variables_operators_and_asynchronous_operations() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(0);
        auto step = engine.op("step").make_operator(write(x), [](int& x) { ++x; });
        int between = 0;
        Graph graph = engine.capture("mixed", [&](Capture& capture) {
            SeriatimVariable own = capture.private_variable();
            capture.op("make").writes(own).run([&] { ++between; });
            capture.op("use").reads(own).run_async(write(x), [&](int& x, seriatim::Completion done) {
                x += between;
                done.complete();
            });
            capture.push(step);
        });
        for (int round = 0; round < 4; ++round) graph.replay();
        CHECK(*x.read() == 1 + 2 + 3 + 4 + 4);
    });
}

void a_pipeline_is_replayed() {
    on_every_engine([](Engine& engine) {
        auto x = engine.value(0), y = engine.value(0);
        auto pipeline = engine.capture_pipeline("line", [&](Capture& capture) {
            capture.run(write(x), [](int& x) { ++x; });
            capture.run(read(x), write(y), [](int x, int& y) { y += x; });
        });
        CHECK(pipeline.length() == 2);
        for (int round = 0; round < 100; ++round) pipeline.replay();
        CHECK(*y.read() == 5050);
    });
}

}  // namespace

void run_graphs() {
    a_graph_is_replayed();
    a_graph_keeps_what_it_uses();
    parameters_change_between_replays();
    an_exception_in_a_graph_comes_out_of_a_wait();
    private_variables_operators_and_asynchronous_operations();
    a_pipeline_is_replayed();
}
