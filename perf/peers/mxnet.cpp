/* MXNet 1.9.1's dependency engine, from the wheel on PyPI, as a peer. Modes: "naive", "per-device",
 * "per-device operators".
 *
 * Engines are made by the two functions that Engine::Get() chooses from by MXNET_ENGINE_TYPE.
 * Engine::Get() keeps its engine until the process ends, and destroys it among the static objects
 * of a library of 150 MB; an engine made here can be deleted, which joins its threads, and the next
 * one can be of another kind.
 *
 * Operations are pushed by Engine::PushAsync, as MXNet's own operators are, with vectors of
 * variables that lie ready. The C function MXEnginePushAsync does the same after it has made two
 * vectors. */
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include <mxnet/engine.h>

#include "peer.h"

namespace {

using mxnet::Context;
using mxnet::Engine;
using mxnet::RunContext;

/* A std::function as GCC 4.8 makes it, with which the wheel is built, and which calls them: see the
 * .comment section of libmxnet.so, and its symbols std::_Function_handler<void (mxnet::RunContext,
 * ...)>::_M_invoke(std::_Any_data const&, mxnet::RunContext, ...).
 *
 * What a std::function is has not changed since: 16 bytes for a small body, a manager, an invoker;
 * nor has what a manager is asked. So today's compiler may copy, move and destroy one for the
 * wheel, and the wheel one of ours. What has changed is the invoker's signature: since GCC 5 it
 * takes its arguments as rvalue references, and 4.8's takes them by value. A function that today's
 * compiler makes would read its arguments from wrong places when the wheel calls it. This one has
 * an invoker of 4.8's signature. It is never called from here, because then it would be the wrong
 * one. */
template <typename... Arguments>
class Function48 {
public:
    using Function = std::function<void(Arguments...)>;
    struct Body {
        const perf_program *program;
        uint32_t operation;
    };
    using Invoker = void (*)(const Body &, Arguments...);

    static Function make(Invoker invoker, Body body) {
        const Function48 made{body, manage, invoker};
        Function function;
        static_assert(sizeof function == sizeof made && alignof(Function) == alignof(Function48) && sizeof(Body) == 16, "another layout");
        std::memcpy(static_cast<void *>(&function), &made, sizeof made);
        return function;
    }

private:
    Function48(Body body, bool (*manager)(Body &, const Body &, int), Invoker invoker) : body(body), manager(manager), invoker(invoker) {}

    /* A body is copied as bytes and needs no destruction; its type and address, the other two
     * requests, are asked for by target() only. */
    static bool manage(Body &to, const Body &from, int request) {
        if (request == std::__clone_functor) to = from;
        return false;
    }

    Body body;
    bool (*manager)(Body &, const Body &, int);
    Invoker invoker;
};

using Operation = Function48<RunContext, Engine::CallbackOnComplete>;
using Deletion = Function48<RunContext>;

void execute(const Operation::Body &body, RunContext, Engine::CallbackOnComplete complete) {
    body.program->execute(body.program->context, body.operation);
    complete();
}

void nothing(const Deletion::Body &, RunContext) {}

/* The head of mxnet::LibraryInitializer, whose header is not in the wheel. Its constructor reads
 * MXNET_CPU_WORKER_NTHREADS, once in a process, and every engine that starts looks here. */
struct Initializer {
    size_t original_pid, mp_worker_nthreads, cpu_worker_nthreads;
};

/* What is used of libmxnet.so. */
struct Library {
    int (*version)(int *);
    Engine *(*naive)();
    Engine *(*per_device)();
    Initializer *initializer;
};
Library library;

bool load(char *error, size_t room) {
    if (library.version) return true;
    /* OpenBLAS would start a thread for each core when it is loaded. */
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    void *handle = dlopen(LIBMXNET, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        std::snprintf(error, room, "%s", dlerror());
        return false;
    }
    const auto symbol = [handle](const char *name) { return dlsym(handle, name); };
    Library found;
    found.version = reinterpret_cast<int (*)(int *)>(symbol("MXGetVersion"));
    found.naive = reinterpret_cast<Engine *(*)()>(symbol("_ZN5mxnet6engine17CreateNaiveEngineEv"));
    found.per_device = reinterpret_cast<Engine *(*)()>(symbol("_ZN5mxnet6engine29CreateThreadedEnginePerDeviceEv"));
    found.initializer = static_cast<Initializer *>(symbol("_ZZN5mxnet18LibraryInitializer3GetEvE4inst"));
    if (!found.version || !found.naive || !found.per_device || !found.initializer) {
        std::snprintf(error, room, "libmxnet.so lacks a symbol");
        return false;
    }
    library = found;
    return true;
}

const char *version() {
    static char text[32];
    int number = 0;
    library.version(&number);
    std::snprintf(text, sizeof text, "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
    return text;
}

using Variables = std::vector<Engine::VarHandle>;

/* An engine, and what was prepared on it. */
struct Prepared {
    Engine *engine;
    bool reuse;
    const perf_program *program;
    Variables variables;
    std::vector<Variables> reads, writes; /* of each distinct operation */
    std::vector<Engine::OprHandle> operators;

    void clear() {
        for (auto made : operators) engine->DeleteOperator(made);
        for (auto variable : variables) engine->DeleteVariable(Deletion::make(nothing, {}), Context(), variable);
        engine->WaitForAll();
        operators.clear(), variables.clear(), reads.clear(), writes.clear();
    }

    Variables named(const uint32_t *numbers, uint32_t from, uint32_t to) const {
        Variables result;
        for (uint32_t i = from; i < to; ++i) result.push_back(variables[numbers[i]]);
        return result;
    }
};

void *start(const char *mode, uint32_t threads, char *error, size_t room) {
    if (!load(error, room)) return nullptr;
    const bool naive = !std::strcmp(mode, "naive");
    const bool reuse = !std::strcmp(mode, "per-device operators");
    if (!naive && !reuse && std::strcmp(mode, "per-device")) {
        std::snprintf(error, room, "no mode '%s'", mode);
        return nullptr;
    }
    if (naive != (threads == 1)) {
        std::snprintf(error, room, "MXNet's mode '%s' cannot have %u threads in all", mode, threads);
        return nullptr;
    }
    /* The thread that pushes runs nothing, but in the naive engine, which has no workers. */
    library.initializer->cpu_worker_nthreads = naive ? 1 : threads - 1;
    try {
        return new Prepared{naive ? library.naive() : library.per_device(), reuse, nullptr, {}, {}, {}, {}};
    } catch (const std::exception &failure) {
        std::snprintf(error, room, "%s", failure.what());
        return nullptr;
    }
}

int prepare(void *opaque, const perf_program *program, char *, size_t) {
    auto &prepared = *static_cast<Prepared *>(opaque);
    prepared.clear();
    prepared.program = program;
    for (uint32_t i = 0; i < program->variables; ++i) prepared.variables.push_back(prepared.engine->NewVariable());
    for (uint32_t i = 0; i < program->distinct; ++i) {
        prepared.reads.push_back(prepared.named(program->reads, program->read_ends[i], program->read_ends[i + 1]));
        prepared.writes.push_back(prepared.named(program->writes, program->write_ends[i], program->write_ends[i + 1]));
        if (!prepared.reuse) continue;
        auto function = Operation::make(execute, {program, i});
        prepared.operators.push_back(prepared.engine->NewOperator(std::move(function), prepared.reads[i], prepared.writes[i]));
    }
    return 0;
}

void push(void *opaque, uint64_t part, uint64_t parts) {
    const auto &prepared = *static_cast<Prepared *>(opaque);
    const auto *program = prepared.program;
    for (uint64_t place = part; place < program->length; place += parts) {
        if (program->pace) program->pace(program->context, place);
        const uint32_t i = program->sequence[place];
        if (prepared.reuse) {
            prepared.engine->Push(prepared.operators[i], Context());
        } else {
            prepared.engine->PushAsync(Operation::make(execute, {program, i}), Context(), prepared.reads[i], prepared.writes[i]);
        }
    }
}

void wait(void *opaque) {
    static_cast<Prepared *>(opaque)->engine->WaitForAll();
}

void run(void *opaque) {
    push(opaque, 0, 1);
    wait(opaque);
}

void stop(void *opaque) {
    auto *prepared = static_cast<Prepared *>(opaque);
    prepared->clear();
    delete prepared->engine;
    delete prepared;
}

const peer face = {SERIATIM_PEER_ABI, version, start, prepare, run, push, wait, stop};

} // namespace

extern "C" __attribute__((visibility("default"))) const peer *seriatim_peer(void) { return &face; }
