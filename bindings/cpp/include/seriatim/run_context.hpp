// `RunContext`: what an operation is told when it runs; `Context` and `Property`: where an
// operation runs, and what kind of work it is.

#ifndef SERIATIM_RUN_CONTEXT_HPP
#define SERIATIM_RUN_CONTEXT_HPP

#include <cstddef>
#include <cstdint>

#include <seriatim.h>

namespace seriatim {

/// Where an operation runs.
struct Context {
    std::uint32_t device = SERIATIM_DEVICE_CPU;
    std::uint32_t id = 0;

    /// Any worker of the processor; a number of 1 and more prefers one worker.
    static constexpr Context cpu(std::uint32_t id = 0) { return {SERIATIM_DEVICE_CPU, id}; }
    static constexpr Context gpu(std::uint32_t id) { return {SERIATIM_DEVICE_GPU, id}; }
};

/// What kind of work an operation is, which decides where it runs: see `SeriatimProperty`.
enum class Property : std::uint32_t {
    normal = SERIATIM_PROPERTY_NORMAL,
    copy_from_gpu = SERIATIM_PROPERTY_COPY_FROM_GPU,
    copy_to_gpu = SERIATIM_PROPERTY_COPY_TO_GPU,
    cpu_prioritized = SERIATIM_PROPERTY_CPU_PRIORITIZED,
    gpu_prioritized = SERIATIM_PROPERTY_GPU_PRIORITIZED,
    async = SERIATIM_PROPERTY_ASYNC,
    delete_var = SERIATIM_PROPERTY_DELETE_VAR,
    no_skip = SERIATIM_PROPERTY_NO_SKIP,
    /// Well under a microsecond, and waits for nothing: its push may run it.
    short_ = SERIATIM_PROPERTY_SHORT,
    /// Reads or writes a file, or blocks otherwise: runs on the engine's I/O worker.
    io = SERIATIM_PROPERTY_IO,
};

/// What an operation is told when it runs. It belongs to the thread that the function was called
/// on, and is valid until it returns.
class RunContext {
public:
    explicit RunContext(const SeriatimRunContext* raw) noexcept : raw_(raw) {}
    RunContext(const RunContext&) = delete;
    RunContext& operator=(const RunContext&) = delete;

    /// The name of the operation, empty if it has none.
    const char* name() const noexcept { return seriatim_run_context_name(raw_); }

    Context context() const noexcept {
        SeriatimContext context = seriatim_run_context_context(raw_);
        return {context.device, context.id};
    }

    /// The number of the worker within its group, or -1 on a thread that is not the engine's.
    std::int64_t worker() const noexcept { return seriatim_run_context_worker(raw_); }

    /// The stream of an operation of a GPU, such as a `CUstream`, or null.
    void* stream() const noexcept { return seriatim_run_context_stream(raw_); }

    /// How many threads the operation may use itself.
    std::size_t nested_threads() const noexcept { return seriatim_run_context_nested_threads(raw_); }

    /// For functions of the C interface.
    const SeriatimRunContext* raw() const noexcept { return raw_; }

private:
    const SeriatimRunContext* raw_;
};

}  // namespace seriatim

#endif
