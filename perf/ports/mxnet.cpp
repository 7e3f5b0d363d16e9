/* Times the workload of MXNet's own test of its engine, beside examples/ports/random_sums.rs.
 * scripts/ports.sh compiles it with a part of that test, workload.inc, and with the headers of
 * MXNet's wheel, whose library it loads. Arguments: OPERATIONS MICROSECONDS ROUNDS. */
#include <dlfcn.h>

#include <cstring>
#include <functional>
#include <utility>

namespace mxnet {
struct RunContext;
namespace engine {
class CallbackOnComplete;
}
} // namespace mxnet

/* The wheel is built with GCC 4.8, whose std::function calls its invoker with arguments by value.
 * Today's takes references (perf/peers/mxnet.cpp says more). The test makes such functions of
 * lambdas, so for this one type std::function is that of 4.8. */
template <>
class std::function<void(mxnet::RunContext, mxnet::engine::CallbackOnComplete)> {
    struct Any {
        void *functor, *unused;
    };
    using Invoker = void (*)(const Any &, mxnet::RunContext, mxnet::engine::CallbackOnComplete);
    using Manager = bool (*)(Any &, const Any &, int);
    Any any{};
    Manager manager = nullptr;
    Invoker invoker = nullptr;

    /* The types are complete only where a function is made. */
    template <typename F, typename Context, typename Done>
    static void invoke(const Any &any, Context context, Done done) {
        (*static_cast<F *>(any.functor))(context, done);
    }

    template <typename F>
    static bool manage(Any &to, const Any &from, int request) {
        if (request == 1) to = from;
        if (request == 2) to.functor = new F(*static_cast<F *>(from.functor));
        if (request == 3) delete static_cast<F *>(to.functor);
        return false;
    }

public:
    function() = default;
    template <typename F, typename = std::enable_if_t<!std::is_same_v<F, function>>>
    function(F body) : any{new F(std::move(body)), nullptr}, manager(manage<F>),
        invoker(invoke<F, mxnet::RunContext, mxnet::engine::CallbackOnComplete>) {}
    function(const function &other) : invoker(other.invoker) {
        if (other.manager) other.manager(any, other.any, 2), manager = other.manager;
    }
    function(function &&other) noexcept { swap(other); }
    function &operator=(function other) noexcept {
        swap(other);
        return *this;
    }
    ~function() {
        if (manager) manager(any, any, 3);
    }
    void swap(function &other) noexcept {
        std::swap(any, other.any), std::swap(manager, other.manager), std::swap(invoker, other.invoker);
    }
    explicit operator bool() const { return manager; }
    void operator()(mxnet::RunContext context, mxnet::engine::CallbackOnComplete done) const;
};

#include <dmlc/timer.h>
#include <mxnet/engine.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "workload.inc"

void std::function<void(mxnet::RunContext, mxnet::engine::CallbackOnComplete)>::operator()(
    mxnet::RunContext context, mxnet::engine::CallbackOnComplete done) const {
    invoker(any, context, done);
}

/* The same workload as the example's. */
static std::vector<Workload> random_work(int operations, int microseconds) {
    uint64_t state = 1;
    const auto variable = [&state] {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<int>((state >> 33) % 100);
    };
    std::vector<Workload> work(operations);
    for (int at = 0; at < operations; ++at) {
        work[at].write = variable();
        work[at].reads.resize(2 + variable() % 18);
        for (int &read : work[at].reads) read = variable();
        work[at].time = microseconds ? 1 + at % std::max(microseconds - 1, 1) : 0;
    }
    return work;
}

int main(int, char **arguments) {
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    void *library = dlopen(LIBMXNET, RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    /* Which are original_pid, mp_worker_nthreads, cpu_worker_nthreads. */
    const auto settings = static_cast<size_t *>(dlsym(library, "_ZZN5mxnet18LibraryInitializer3GetEvE4inst"));
    const auto make = reinterpret_cast<mxnet::Engine *(*)()>(dlsym(library, "_ZN5mxnet6engine29CreateThreadedEnginePerDeviceEv"));
    if (!settings || !make) return std::fprintf(stderr, "libmxnet.so lacks a symbol\n"), 1;
    settings[2] = 2;
    mxnet::Engine *engine = make();
    const auto work = random_work(std::atoi(arguments[1]), std::atoi(arguments[2]));
    std::vector<double> times, data;
    for (int round = std::atoi(arguments[3]); round > 0; --round) {
        data.assign(100, 1.0);
        times.push_back(EvaluateWorkloads(work, engine, &data));
    }
    delete engine;
    std::sort(times.begin(), times.end());
    double sum = 0;
    for (double value : data) sum += value;
    std::printf("sum %.17e\nmedian %.9f s\n", sum, times[times.size() / 2]);
}
