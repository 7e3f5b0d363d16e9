// Taskflow, as a peer, in two modes.
//
// "dynamic": dependent_async, a task that is created with the tasks before it. Taskflow knows tasks, not data: the pushing thread finds out
// which tasks precede another (order.hpp).
//
// "graph": a Taskflow graph with a task for each place of the sequence, made by `prepare`; `run` runs it and waits.
//
// The workers are the executor's threads; the calling thread only pushes and waits.
#include <taskflow/taskflow.hpp>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "order.hpp"
#include "peer.h"

namespace {

class Dynamic {
  public:
    Dynamic(tf::Executor &executor, const perf_program &program) : executor(executor), program(program), order(program) {}

    void run() {
        for (uint64_t place = 0; place < program.length; place++) {
            if (program.pace != nullptr) {
                program.pace(program.context, place);
            }
            push(program.sequence[place]);
        }
        executor.wait_for_all();
    }

  private:
    void push(uint32_t operation) {
        const perf_program *const of = &program;
        before.clear();
        order.before(operation, [&](tf::AsyncTask &earlier) { before.push_back(earlier); });
        const auto body = [of, operation] { of->execute(of->context, operation); };
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

  private:
    tf::Executor &executor;
    tf::Taskflow graph;
};

struct Engine {
    bool captures;
    tf::Executor executor;
    std::unique_ptr<Dynamic> dynamic;
    std::unique_ptr<Graph> graph;

    Engine(bool captures, uint32_t workers) : captures(captures), executor(workers) {}
};

const char *version() {
    // All of it is headers, so those that this was compiled with are what runs.
    return tf::version();
}

void *start(const char *mode, uint32_t workers, char *error, size_t room) {
    const bool captures = std::strcmp(mode, "graph") == 0;
    if (!captures && std::strcmp(mode, "dynamic") != 0) {
        std::snprintf(error, room, "Taskflow has no mode '%s'", mode);
        return nullptr;
    }
    return new Engine(captures, workers);
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
    engine.captures ? engine.graph->run() : engine.dynamic->run();
}

void stop(void *made) {
    delete static_cast<Engine *>(made);
}

} // namespace

extern "C" const peer *seriatim_peer() {
    static const peer face = {SERIATIM_PEER_ABI, version, start, prepare, run, stop};
    return &face;
}
