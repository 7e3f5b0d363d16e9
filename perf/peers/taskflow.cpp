// Taskflow, as a peer, in four modes.
//
// "dynamic": dependent_async, a task that is created with the tasks before it. Taskflow knows
// tasks, not data: the pushing thread finds out which tasks precede another (order.hpp).
//
// "graph": a Taskflow graph with a task for each place of the sequence, made by `prepare`; `run`
// runs it and waits.
//
// "dynamic alone", "graph alone": the same on one thread. The executor's only worker pushes, and
// runs what it has pushed; the calling thread sleeps meanwhile.
//
// Otherwise the calling thread pushes and waits, and is one of the threads that `start` is asked
// for: the executor has one worker fewer.
#include <taskflow/taskflow.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "order.hpp"
#include "peer.h"

namespace {

class Dynamic {
  public:
    Dynamic(tf::Executor &executor, const perf_program &program) : executor(executor), program(program), order(program) {}

    void run() {
        for (uint64_t place = 0; place < program.length; place++) {
            pushed(place, [this, operation = program.sequence[place]] { program.execute(program.context, operation); });
        }
        executor.wait_for_all();
    }

    // To be called by the only worker.
    void run_alone() {
        uint64_t ran = 0;
        for (uint64_t place = 0; place < program.length; place++) {
            pushed(place, [this, &ran, operation = program.sequence[place]] {
                program.execute(program.context, operation);
                ran++;
            });
        }
        executor.corun_until([&] { return ran == program.length; });
    }

  private:
    template <typename Body> void pushed(uint64_t place, Body body) {
        if (program.pace != nullptr) {
            program.pace(program.context, place);
        }
        const uint32_t operation = program.sequence[place];
        before.clear();
        order.before(operation, [&](tf::AsyncTask &earlier) { before.push_back(earlier); });
        order.add(operation, executor.silent_dependent_async(body, before.begin(), before.end()));
    }

    tf::Executor &executor;
    const perf_program &program;
    Order<tf::AsyncTask> order;
    std::vector<std::reference_wrapper<tf::AsyncTask>> before; // A copy of a task would count its owners.
};

class Graph {
  public:
    Graph(tf::Executor &executor, const perf_program &program) : executor(executor) {
        Order<tf::Task> order(program);
        for (uint64_t place = 0; place < program.length; place++) {
            const perf_program *const of = &program;
            const uint32_t operation = program.sequence[place];
            tf::Task task = graph.emplace([of, operation] { of->execute(of->context, operation); });
            order.before(operation, [&](tf::Task &earlier) { earlier.precede(task); });
            order.add(operation, task);
        }
    }

    void run() { executor.run(graph).wait(); }

    // To be called by the only worker.
    void run_alone() { executor.corun(graph); }

  private:
    tf::Executor &executor;
    tf::Taskflow graph;
};

struct Engine {
    bool captures, alone;
    tf::Executor executor;
    std::unique_ptr<Dynamic> dynamic;
    std::unique_ptr<Graph> graph;

    Engine(bool captures, bool alone, uint32_t threads)
        : captures(captures), alone(alone), executor(alone ? 1 : std::max<uint32_t>(threads, 2) - 1) {}

    template <typename What> void run(What &what) {
        if (alone) {
            executor.async([&] { what.run_alone(); }).wait();
        } else {
            what.run();
        }
    }
};

const char *version() {
    // All of it is headers, so those that this was compiled with are what runs.
    return tf::version();
}

void *start(const char *mode, uint32_t threads, char *error, size_t room) {
    std::string what = mode;
    const std::string suffix = " alone";
    const bool alone = what.size() > suffix.size() && what.compare(what.size() - suffix.size(), suffix.size(), suffix) == 0;
    if (alone) {
        what.resize(what.size() - suffix.size());
    }
    if (what != "graph" && what != "dynamic") {
        std::snprintf(error, room, "Taskflow has no mode '%s'", mode);
        return nullptr;
    }
    if (alone != (threads == 1)) {
        std::snprintf(error, room, "Taskflow's mode '%s' cannot have %u threads in all", mode, threads);
        return nullptr;
    }
    return new Engine(what == "graph", alone, threads);
}

int prepare(void *made, const perf_program *program, char *error, size_t room) {
    Engine &engine = *static_cast<Engine *>(made);
    if (engine.captures && program->pace != nullptr) {
        std::snprintf(error, room, "a graph starts as a whole: it has no pushes to pace");
        return 1;
    }
    if (engine.captures) {
        engine.graph.reset();
        engine.graph = std::make_unique<Graph>(engine.executor, *program);
    } else {
        engine.dynamic = std::make_unique<Dynamic>(engine.executor, *program);
    }
    return 0;
}

void run(void *made) {
    Engine &engine = *static_cast<Engine *>(made);
    if (engine.captures) {
        engine.run(*engine.graph);
    } else {
        engine.run(*engine.dynamic);
    }
}

void stop(void *made) {
    delete static_cast<Engine *>(made);
}

} // namespace

extern "C" const peer *seriatim_peer() {
    static const peer face = {SERIATIM_PEER_ABI, version, start, prepare, run, nullptr, nullptr, stop};
    return &face;
}
