// oneTBB, as a peer, in three modes.
//
// "dynamic": its preview of dynamic task dependencies. A task is deferred, made a successor of
// tasks that were pushed before it, and handed over. oneTBB knows tasks, not data: the pushing
// thread finds out which tasks precede another (order.hpp). Release 2023.2 loses memory in this
// mode: of the edges to a task only the last to fall is freed
// (notify_successor_node::notify_common), and each has 256 bytes. That is part of what it costs,
// page faults and all; a process that measures it must not run for long.
//
// "graph": a flow graph with a continue_node for each place of the sequence, made by `prepare`;
// `run` starts those without predecessors and waits. Its nodes keep the default policy: lightweight
// ones run their successors inside themselves, which no stack survives in a chain of 200,000.
//
// In these the calling thread is one of the threads: it runs tasks while it waits.
//
// "shipped": as "dynamic", but the tasks go to an arena in which the calling thread has no place;
// it only pushes and waits.
#define TBB_PREVIEW_TASK_GROUP_EXTENSIONS 1
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/version.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <vector>

#include "order.hpp"
#include "peer.h"

namespace {

class Dynamic {
  public:
    // Tasks are run in `arena`, or if there is none in that of the calling thread.
    Dynamic(const perf_program &program, tbb::task_arena *arena) : program(program), arena(arena), order(program) {}

    void run() {
        for (uint64_t place = 0; place < program.length; place++) {
            if (program.pace != nullptr) {
                program.pace(program.context, place);
            }
            push(program.sequence[place]);
        }
        group.wait();
    }

  private:
    void push(uint32_t operation) {
        const perf_program *const of = &program;
        tbb::task_handle task = group.defer([of, operation] { of->execute(of->context, operation); });
        order.before(operation, [&](tbb::task_completion_handle &earlier) { tbb::task_group::set_task_order(earlier, task); });
        order.add(operation, task);
        if (arena != nullptr) {
            arena->enqueue(std::move(task));
        } else {
            group.run(std::move(task));
        }
    }

    const perf_program &program;
    tbb::task_arena *arena;
    tbb::task_group group;
    Order<tbb::task_completion_handle> order;
};

class Graph {
  public:
    explicit Graph(const perf_program &program) {
        Order<Node *> order(program);
        for (uint64_t place = 0; place < program.length; place++) {
            const perf_program *const of = &program;
            const uint32_t operation = program.sequence[place];
            nodes.emplace_back(graph, [of, operation](const tbb::flow::continue_msg &) { of->execute(of->context, operation); });
            Node *const node = &nodes.back();
            bool source = true;
            order.before(operation, [&](Node *earlier) {
                tbb::flow::make_edge(*earlier, *node);
                source = false;
            });
            order.add(operation, node);
            if (source) {
                sources.push_back(node);
            }
        }
    }

    void run() {
        for (Node *source : sources) {
            source->try_put(tbb::flow::continue_msg());
        }
        graph.wait_for_all();
    }

  private:
    using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

    tbb::flow::graph graph;
    std::deque<Node> nodes; // They cannot be moved.
    std::vector<Node *> sources;
};

struct Engine {
    bool captures, ships;
    tbb::task_scheduler_handle scheduler;
    tbb::global_control limit; // For more threads than there are cores; an arena alone does not get them.
    tbb::task_arena arena;
    std::unique_ptr<Dynamic> dynamic;
    std::unique_ptr<Graph> graph;

    // When it ships, the calling thread is one of the threads and none of the arena's.
    Engine(bool captures, bool ships, uint32_t threads)
        : captures(captures), ships(ships), scheduler(tbb::attach{}), limit(tbb::global_control::max_allowed_parallelism, threads),
          arena(static_cast<int>(ships ? threads - 1 : threads), ships ? 0 : 1) {}
};

const char *version() {
    return TBB_runtime_version();
}

void *start(const char *mode, uint32_t threads, char *error, size_t room) {
    const bool captures = std::strcmp(mode, "graph") == 0, ships = std::strcmp(mode, "shipped") == 0;
    if (!captures && !ships && std::strcmp(mode, "dynamic") != 0) {
        std::snprintf(error, room, "oneTBB has no mode '%s'", mode);
        return nullptr;
    }
    if (ships && threads < 2) {
        std::snprintf(error, room, "oneTBB cannot ship with %u thread", threads);
        return nullptr;
    }
    return new Engine(captures, ships, threads);
}

int prepare(void *made, const perf_program *program, char *error, size_t room) {
    Engine &engine = *static_cast<Engine *>(made);
    if (engine.captures && program->pace != nullptr) {
        std::snprintf(error, room, "a graph starts as a whole: it has no pushes to pace");
        return 1;
    }
    engine.dynamic.reset();
    engine.graph.reset();
    if (engine.ships) {
        engine.dynamic = std::make_unique<Dynamic>(*program, &engine.arena);
        return 0;
    }
    // A graph belongs to the arena in which it is made.
    engine.arena.execute([&] {
        if (engine.captures) {
            engine.graph = std::make_unique<Graph>(*program);
        } else {
            engine.dynamic = std::make_unique<Dynamic>(*program, nullptr);
        }
    });
    return 0;
}

void run(void *made) {
    Engine &engine = *static_cast<Engine *>(made);
    if (engine.ships) {
        engine.dynamic->run();
        return;
    }
    engine.arena.execute([&] { engine.captures ? engine.graph->run() : engine.dynamic->run(); });
}

void stop(void *made) {
    Engine *engine = static_cast<Engine *>(made);
    tbb::task_scheduler_handle scheduler = std::move(engine->scheduler);
    delete engine;
    // Waits until its threads have ended.
    tbb::finalize(scheduler, std::nothrow);
}

} // namespace

extern "C" const peer *seriatim_peer() {
    static const peer face = {SERIATIM_PEER_ABI, version, start, prepare, run, nullptr, nullptr, stop};
    return &face;
}
