// `Capture`: operations that are recorded, and the `Graph` or `Pipeline` that becomes of them,
// whose replays push them again. `Engine::capture` makes them.

#ifndef SERIATIM_CAPTURE_HPP
#define SERIATIM_CAPTURE_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <seriatim/detail/describe.hpp>
#include <seriatim/detail/text.hpp>
#include <seriatim/operation.hpp>

namespace seriatim {
namespace detail {

/// What a replay comes after, for ThreadSanitizer. The place lives as long as the graph.
class ReplayClock {
#ifdef SERIATIM_TSAN
public:
    void* place() const noexcept { return place_.get(); }

private:
    std::unique_ptr<std::uint64_t> place_ = std::make_unique<std::uint64_t>();
#else
public:
    void* place() const noexcept { return nullptr; }
#endif
};

struct Deletes {
    void operator()(SeriatimCapture* raw) const noexcept { seriatim_capture_delete(raw); }
    void operator()(SeriatimGraph* raw) const noexcept { seriatim_graph_delete(raw); }
    void operator()(SeriatimPipeline* raw) const noexcept { seriatim_pipeline_delete(raw); }
    void operator()(SeriatimParameter* raw) const noexcept { seriatim_parameter_delete(raw); }
};

}  // namespace detail

/// A captured graph. A replay is one operation of the engine: it uses all variables of the captured
/// operations, and takes its turn among other pushes as if they had all been pushed in a row at
/// that moment. Replays of one graph follow each other. It keeps the values that its operations are
/// lent.
class Graph {
public:
    /// For `Engine::capture`.
    Graph(SeriatimGraph* raw, detail::ReplayClock clock) noexcept : clock_(std::move(clock)), raw_(raw) {}

    /// Pushes one replay, and does not wait for it. Lock-free, without allocation; its time is
    /// proportional to the number of variables of the graph. Throws what a push throws.
    void replay(std::int32_t priority = 0) const {
        if (clock_.place() != nullptr) detail::release(clock_.place());
        detail::check(seriatim_graph_replay(raw_.get(), priority));
    }

    /// How many operations it has.
    std::size_t length() const {
        std::size_t length = 0;
        detail::check(seriatim_graph_length(raw_.get(), &length));
        return length;
    }

    /// The graph for Graphviz.
    std::string dump_dot() const {
        return detail::text_of([this](char** out) { return seriatim_graph_dump_dot(raw_.get(), out); });
    }

    const SeriatimGraph* raw() const noexcept { return raw_.get(); }

private:
    detail::ReplayClock clock_;
    std::unique_ptr<SeriatimGraph, detail::Deletes> raw_;
};

/// A captured pipeline. Each replay pushes the captured operations one by one, so that replays
/// overlap. Used by one thread at a time.
class Pipeline {
public:
    /// For `Engine::capture_pipeline`.
    Pipeline(SeriatimPipeline* raw, detail::ReplayClock clock) noexcept : clock_(std::move(clock)), raw_(raw) {}

    /// Pushes all operations, and does not wait for them. Throws what a push throws: the operations
    /// before the one that is refused are pushed.
    void replay() {
        if (clock_.place() != nullptr) detail::release(clock_.place());
        detail::check(seriatim_pipeline_replay(raw_.get()));
    }

    std::size_t length() const {
        std::size_t length = 0;
        detail::check(seriatim_pipeline_length(raw_.get(), &length));
        return length;
    }

private:
    detail::ReplayClock clock_;
    std::unique_ptr<SeriatimPipeline, detail::Deletes> raw_;
};

/// A value that the operations of a graph read, and that can be replaced between replays. Copies of
/// the handle are the same parameter: a captured function has one.
///
///     auto rate = capture.parameter(0.5);
///     capture.op("step").run(write(x), [rate](const seriatim::RunContext& run, X& x) {
///         x.step(rate.get(run));
///     });
template <class T>
class Parameter {
public:
    /// For `Capture::parameter`.
    explicit Parameter(SeriatimParameter* raw) : raw_(raw, detail::Deletes()) {}

    /// The value, inside an operation of the graph, until it ends. Throws an `Error` of kind
    /// `borrow_conflict` anywhere else.
    const T& get(const RunContext& run) const {
        void* value = nullptr;
        detail::check(seriatim_parameter_get(raw_.get(), run.raw(), &value));
        detail::acquire(value);
        return *static_cast<const T*>(value);
    }

    /// Replaces the value for replays that are pushed from now on. Those in flight see the old one.
    /// Throws what a push throws, and `variable_deleted` once the graph is gone.
    void set(T value) const {
        auto* held = new T(std::move(value));
        detail::release(held);
        detail::check(seriatim_parameter_set(raw_.get(), held, destroy));
    }

private:
    friend class Capture;

    static void destroy(void* value) noexcept {
        detail::InsideDeleter inside;
        detail::acquire(value);
        delete static_cast<T*>(value);
    }

    std::shared_ptr<SeriatimParameter> raw_;
};

/// An operation to be recorded, from `Capture::op`: as an `Operation`, but its function is called
/// once for each replay, and never by two replays at once.
class CapturedOperation : public detail::Describe<CapturedOperation> {
public:
    /// For `Capture::op`.
    CapturedOperation(SeriatimCapture* capture, detail::Core& core, void* clock, const char* name)
        : Describe(name), capture_(capture), core_(core), clock_(clock) {}

    /// Records an operation that ends when its function returns.
    template <class... Given>
    void run(Given&&... given) {
        detail::with_last(
            [this](auto&& function, const auto&... accesses) {
                auto body = this->bind<detail::Shares<sizeof...(accesses)>>(std::forward<decltype(function)>(function),
                                                                      accesses...);
                detail::check_void<decltype(body)>();
                detail::check_order<std::decay_t<decltype(accesses)>...>();
                using Call = detail::SyncCall<decltype(body), detail::Calls::replayed>;
                SeriatimOperation& operation = described();
                auto argument = detail::sync_argument<Call>(std::move(body), operation, detail::Commuting<0>(), &core_,
                                                            clock_);
                detail::check(seriatim_capture_push(capture_, &operation, Call::run, argument.pointer,
                                                    argument.deleter));
            },
            std::forward<Given>(given)...);
    }

    /// Records an operation that ends when its completion is used: each call gets one of its own.
    template <class... Given>
    void run_async(Given&&... given) {
        detail::with_last(
            [this](auto&& function, const auto&... accesses) {
                auto body = this->bind<detail::Shares<sizeof...(accesses)>>(std::forward<decltype(function)>(function),
                                                                      accesses...);
                detail::check_order<std::decay_t<decltype(accesses)>...>();
                using Call = detail::AsyncCall<decltype(body), detail::Calls::replayed>;
                SeriatimOperation& operation = described();
                auto argument = detail::async_argument<Call>(std::move(body), operation, detail::Commuting<0>(), core_,
                                                             clock_);
                detail::check(seriatim_capture_push_async(capture_, &operation, Call::run, argument.pointer,
                                                          argument.deleter));
            },
            std::forward<Given>(given)...);
    }

private:
    SeriatimCapture* capture_;
    detail::Core& core_;
    void* clock_;
};

/// A graph that is being captured. What is recorded is not run. Used by one thread at a time.
class Capture {
public:
    /// For `Engine::capture`.
    Capture(detail::Core& core, const char* name) : core_(core) {
        SeriatimCapture* raw = nullptr;
        detail::check(seriatim_capture_begin(core.engine(), name, &raw));
        raw_.reset(raw);
    }

    /// An operation to be recorded.
    CapturedOperation op(const char* name = nullptr) {
        return CapturedOperation(raw_.get(), core_, clock_.place(), name);
    }

    /// Records an operation without a name: `op().run(...)`.
    template <class... Given>
    void run(Given&&... given) {
        op().run(std::forward<Given>(given)...);
    }

    /// Records a use of an operator. The graph keeps the operator alive.
    void push(const Operator& use, Context context = {}, std::int32_t priority = 0) {
        use.is_pushed();
        detail::check(
            seriatim_capture_push_operator(raw_.get(), use.raw(), {context.device, context.id}, priority));
    }

    template <class T>
    Parameter<T> parameter(T value) {
        auto* held = new T(std::move(value));
        detail::release(held);
        SeriatimParameter* made = nullptr;
        detail::check(seriatim_capture_parameter(raw_.get(), held, Parameter<T>::destroy, &made));
        return Parameter<T>(made);
    }

    /// Makes a variable that only operations of this graph can name: replays do not claim it. It
    /// ends with the graph.
    SeriatimVariable private_variable() {
        SeriatimVariable made{};
        detail::check(seriatim_capture_private_variable(raw_.get(), &made));
        return made;
    }

    /// Makes a variable private to this graph, such as that of a value. It is refused everywhere
    /// else from then on.
    void make_private(SeriatimVariable variable) {
        detail::check(seriatim_capture_make_private(raw_.get(), variable));
    }

    /// Ends the capture. For `Engine::capture` and `capture_pipeline`.
    Graph end() {
        SeriatimGraph* made = nullptr;
        detail::check(seriatim_capture_end(raw_.release(), &made));
        return Graph(made, std::move(clock_));
    }

    Pipeline end_pipeline() {
        SeriatimPipeline* made = nullptr;
        detail::check(seriatim_capture_end_pipeline(raw_.release(), &made));
        return Pipeline(made, std::move(clock_));
    }

private:
    detail::Core& core_;
    detail::ReplayClock clock_;
    std::unique_ptr<SeriatimCapture, detail::Deletes> raw_;
};

}  // namespace seriatim

#endif
