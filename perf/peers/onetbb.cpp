// oneTBB, as a peer, in two modes.
//
// "dynamic": its preview of dynamic task dependencies. A task is deferred, made a successor of tasks that were pushed before it, and
// handed over. oneTBB knows tasks, not data: which tasks precede another is found here, by the pushing thread, from the last writer of
// each variable and the readers since.
//
// "graph": a flow graph with a continue_node for each place of the sequence, made by `prepare`; `run` starts those without predecessors
// and waits. Its nodes keep the default policy: lightweight ones run their successors inside themselves, which no stack survives in a
// chain of 200,000.
//
// The calling thread is one of the workers: it runs tasks while it waits.
#define TBB_PREVIEW_TASK_GROUP_EXTENSIONS 1
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/version.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "peer.h"

namespace {

// A part of a program's list of accesses.
struct Slice {
    const uint32_t *first, *last;
    const uint32_t *begin() const { return first; }
    const uint32_t *end() const { return last; }
};

Slice reads(const perf_program &program, uint32_t operation) {
    return {program.reads + program.read_ends[operation], program.reads + program.read_ends[operation + 1]};
}

Slice writes(const perf_program &program, uint32_t operation) {
    return {program.writes + program.write_ends[operation], program.writes + program.write_ends[operation + 1]};
}

// What a variable knows of the operations before: `Operation` names one, and is empty at first.
template <typename Operation> struct Variable {
    Operation writer{};
    std::vector<Operation> readers; // Those since the writer. Its memory is kept when it empties.
};

// Calls `precede` with each operation that `operation` has to come after, and leaves what later ones need: `name` turns into the name.
// The writer before precedes the readers since, so a later writer needs to follow only those.
template <typename Operation, typename Name, typename Precede>
void follow(std::vector<Variable<Operation>> &variables, const perf_program &program, uint32_t operation, const Name &name, Precede precede) {
    for (uint32_t read : reads(program, operation)) {
        Variable<Operation> &variable = variables[read];
        if (variable.writer) {
            precede(variable.writer);
        }
        variable.readers.emplace_back(name);
    }
    for (uint32_t written : writes(program, operation)) {
        Variable<Operation> &variable = variables[written];
        for (Operation &reader : variable.readers) {
            precede(reader);
        }
        if (variable.readers.empty() && variable.writer) {
            precede(variable.writer);
        }
        variable.readers.clear();
        variable.writer = name;
    }
}

class Dynamic {
  public:
    explicit Dynamic(const perf_program &program) : program(program), variables(program.variables) {}

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
        follow(variables, program, operation, task,
               [&](tbb::task_completion_handle &before) { tbb::task_group::set_task_order(before, task); });
        group.run(std::move(task));
    }

    const perf_program &program;
    tbb::task_group group;
    std::vector<Variable<tbb::task_completion_handle>> variables;
};

class Graph {
  public:
    explicit Graph(const perf_program &program) {
        std::vector<Variable<Node *>> variables(program.variables);
        std::vector<Node *> before;
        for (uint64_t place = 0; place < program.length; place++) {
            const uint32_t operation = program.sequence[place];
            const perf_program *const of = &program;
            nodes.emplace_back(graph, [of, operation](const tbb::flow::continue_msg &) { of->execute(of->context, operation); });
            Node &node = nodes.back();
            before.clear();
            follow(variables, program, operation, &node, [&](Node *other) { before.push_back(other); });
            // An operation that comes after another for two reasons needs one edge.
            std::sort(before.begin(), before.end());
            before.erase(std::unique(before.begin(), before.end()), before.end());
            for (Node *other : before) {
                tbb::flow::make_edge(*other, node);
            }
            if (before.empty()) {
                sources.push_back(&node);
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
    bool captures;
    tbb::task_scheduler_handle scheduler;
    tbb::global_control limit; // For more threads than there are cores; an arena alone does not get them.
    tbb::task_arena arena;
    std::unique_ptr<Dynamic> dynamic;
    std::unique_ptr<Graph> graph;

    Engine(bool captures, uint32_t workers)
        : captures(captures), scheduler(tbb::attach{}), limit(tbb::global_control::max_allowed_parallelism, workers),
          arena(static_cast<int>(workers)) {}
};

const char *version() {
    return TBB_runtime_version();
}

void *start(const char *mode, uint32_t workers, char *error, size_t room) {
    const bool captures = std::strcmp(mode, "graph") == 0;
    if (!captures && std::strcmp(mode, "dynamic") != 0) {
        std::snprintf(error, room, "oneTBB has no mode '%s'", mode);
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
    engine.dynamic.reset();
    engine.graph.reset();
    // A graph belongs to the arena in which it is made.
    engine.arena.execute([&] {
        if (engine.captures) {
            engine.graph = std::make_unique<Graph>(*program);
        } else {
            engine.dynamic = std::make_unique<Dynamic>(*program);
        }
    });
    return 0;
}

void run(void *made) {
    Engine &engine = *static_cast<Engine *>(made);
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
    static const peer face = {SERIATIM_PEER_ABI, version, start, prepare, run, stop};
    return &face;
}
