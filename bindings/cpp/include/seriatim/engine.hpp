// `Engine`: where everything begins.

#ifndef SERIATIM_ENGINE_HPP
#define SERIATIM_ENGINE_HPP

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <seriatim/capture.hpp>
#include <seriatim/detail/call.hpp>
#include <seriatim/detail/text.hpp>
#include <seriatim/detail/time.hpp>
#include <seriatim/guard.hpp>
#include <seriatim/operation.hpp>
#include <seriatim/pending.hpp>
#include <seriatim/reduction.hpp>
#include <seriatim/settings.hpp>
#include <seriatim/value.hpp>
#include <seriatim/variable.hpp>

namespace seriatim {

/// An engine. Copies are the same engine, and any thread may use them. When the last one is
/// destroyed, the engine runs what is in flight and ends; inside one of its own operations, or in
/// the destructor of a function, that does not wait. Values, variables, operators and graphs do not
/// keep it.
///
///     seriatim::Engine engine;
///     auto x = engine.value(20);
///     engine.run(write(x), [](int& x) { x *= 2; });
///     assert(*x.read() == 40);
///
/// All that waits may run operations meanwhile on the calling thread: hold no lock that they take.
class Engine {
public:
    /// Throws an `Error` of kind `bad_setting`, whose text lists what is valid.
    explicit Engine(const Settings& settings = Settings()) : core_(Settings::make(settings)) {}

    /// The engine of the process, made from the environment when it is first asked for. It never
    /// ends: wait for it before `main` returns.
    static Engine global() {
        static detail::Core* core = [] {
            SeriatimEngine* engine = nullptr;
            detail::check(seriatim_engine_global(&engine));
            auto* made = new detail::Core(detail::ErrorHook());
            made->begin(engine);
            return made;
        }();
        return Engine(*core);
    }

    Engine(const Engine& other) noexcept : Engine(*other.core_) {}
    Engine(Engine&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
    Engine& operator=(Engine other) noexcept {
        std::swap(core_, other.core_);
        return *this;
    }
    ~Engine() {
        if (core_ == nullptr) return;
        core_->exit();
        core_->let_go();
    }

    /// A new variable, at version 0.
    Variable variable() const { return Variable(*core_); }

    /// A value that operations are lent, with a new variable.
    template <class T>
    Value<std::decay_t<T>> value(T&& value) const {
        return emplace<std::decay_t<T>>(std::forward<T>(value));
    }

    /// A value that is made where it stays.
    template <class T, class... Arguments>
    Value<T> emplace(Arguments&&... arguments) const {
        return Value<T>(
            new detail::ValueOwner<T>(detail::Sort::plain, *core_, std::forward<Arguments>(arguments)...));
    }

    /// A value on which operations may commute, by `commute(x)`; otherwise as any value.
    template <class T>
    Value<std::decay_t<T>> commutative(T&& value) const {
        using Bare = std::decay_t<T>;
        return Value<Bare>(
            new detail::ValueOwner<Bare>(detail::Sort::commutative, *core_, std::forward<T>(value)));
    }

    /// A reduction whose parts are combined in any order: see `Reduction`. `identity()` makes a
    /// part that adds nothing, and `combine(into, part)` adds one to another: a `T&` and a `T&&`.
    /// It has four copies for each worker. `combine` is associative and commutative; `identity` is
    /// called on any thread.
    template <class Identity, class Combine>
    auto reduction(Identity identity, Combine combine) const {
        std::size_t workers = std::stoul(setting("CPU_WORKERS"));
        return reduce_in(4 * std::max<std::size_t>(workers, 1), detail::Sort::commutative, std::move(identity),
                         std::move(combine));
    }

    /// A reduction whose value has the same bits on any number of workers: the i-th operation that
    /// reduces has copy i mod `copies`, in push order, and copies are combined in a fixed tree. So
    /// many operations run at once. Throws an `Error` of kind `bad_setting` unless there are 1 to
    /// 65,536 copies.
    template <class Identity, class Combine>
    auto ordered_reduction(std::size_t copies, Identity identity, Combine combine) const {
        if (copies < 1 || copies > 65'536) {
            throw Error(ErrorKind::bad_setting, "an ordered reduction has 1 to 65536 copies: give four for each worker");
        }
        return reduce_in(copies, detail::Sort::plain, std::move(identity), std::move(combine));
    }

    /// A value of each part of `length` elements of an array, in order; the last one may be
    /// shorter.
    template <class T>
    std::vector<Tile<T>> tiles(std::vector<T> array, std::size_t length) const {
        if (length == 0) length = 1;
        auto shared = std::make_shared<std::vector<T>>(std::move(array));
        std::vector<Tile<T>> made;
        for (std::size_t from = 0; from < shared->size(); from += length) {
            std::size_t count = std::min(length, shared->size() - from);
            made.emplace_back(new detail::TileOwner<T>(*core_, shared), span<T>(shared->data() + from, count));
        }
        return made;
    }

    /// An operation with settings: `engine.op("name").priority(1).run(write(x), function)`.
    Operation op(const char* name = nullptr) const { return Operation(*core_, name); }

    /// An operation without a name and without settings: see `Operation::run`.
    template <class... Given>
    void run(Given&&... given) const {
        op().run(std::forward<Given>(given)...);
    }

    /// See `Operation::compute`.
    template <class... Given>
    auto compute(Given&&... given) const {
        return op().compute(std::forward<Given>(given)...);
    }

    /// See `Operation::run_async`.
    template <class... Given>
    void run_async(Given&&... given) const {
        op().run_async(std::forward<Given>(given)...);
    }

    /// Pushes an operator once more.
    void push(const Operator& use, Context context = {}, std::int32_t priority = 0) const {
        use.is_pushed();
        detail::check(seriatim_operator_push(raw(), use.raw(), {context.device, context.id}, priority));
    }

    /// Captures a graph: `record` is given a `Capture&`, and records operations.
    ///
    ///     seriatim::Graph graph = engine.capture("step", [&](seriatim::Capture& capture) {
    ///         capture.op("a").run(write(x), [](X& x) { x.step(); });
    ///         capture.op("b").run(read(x), write(y), [](const X& x, Y& y) { y.add(x); });
    ///     });
    ///     for (int i = 0; i < 1000; ++i) graph.replay();
    template <class Record>
    Graph capture(const char* name, Record&& record) const {
        Capture capture(*core_, name);
        record(capture);
        return capture.end();
    }

    /// Captures a pipeline, whose replays overlap. It has no private variables.
    template <class Record>
    Pipeline capture_pipeline(const char* name, Record&& record) const {
        Capture capture(*core_, name);
        record(capture);
        return capture.end_pipeline();
    }

    /// The number of operations completed that change the variable.
    std::uint64_t version(SeriatimVariable variable) const {
        std::uint64_t version = 0;
        detail::check(seriatim_variable_version(raw(), variable, &version));
        return version;
    }

    /// Waits until the operations that change the variable and were pushed before are complete.
    /// Throws the failure that it is marked with, and clears it everywhere: an exception of an
    /// operation as it was thrown, others as an `Error`. Inside an operation of the engine it
    /// throws an `Error` of kind `wait_inside_operation`.
    void wait_for(SeriatimVariable variable) const {
        detail::Held::check_none(variable);
        SeriatimStatus status = seriatim_wait_for_variable(raw(), variable);
        detail::writes_are_seen(variable);
        detail::check(status);
    }

    /// As above, but not longer: throws an `Error` of kind `timed_out`, whose text says what is
    /// pending and behind what. Runs no operations meanwhile.
    template <class Rep, class Period>
    void wait_for(SeriatimVariable variable, std::chrono::duration<Rep, Period> limit) const {
        detail::Held::check_none(variable);
        SeriatimStatus status = seriatim_wait_for_variable_timeout(raw(), variable, detail::nanoseconds(limit));
        if (status != SERIATIM_STATUS_TIMED_OUT) detail::writes_are_seen(variable);
        detail::check(status);
    }

    /// Waits until every operation that uses the variable and was pushed before is complete,
    /// readers included.
    void wait_until_unused(SeriatimVariable variable) const {
        detail::Held::check_none(variable);
        SeriatimStatus status = seriatim_wait_until_unused(raw(), variable);
        detail::uses_are_seen(variable);
        detail::check(status);
    }

    /// Waits until every operation that was pushed before is complete. Throws the failure of the
    /// first of them in push order that nobody has taken, and clears all.
    void wait_for_all() const {
        detail::Held::check_none(*core_);
        SeriatimStatus status = seriatim_wait_for_all(raw());
        detail::acquire(core_);
        detail::check(status);
    }

    template <class Rep, class Period>
    void wait_for_all(std::chrono::duration<Rep, Period> limit) const {
        detail::Held::check_none(*core_);
        SeriatimStatus status = seriatim_wait_for_all_timeout(raw(), detail::nanoseconds(limit));
        if (status != SERIATIM_STATUS_TIMED_OUT) detail::acquire(core_);
        detail::check(status);
    }

    /// Calls a function when the operations that change the variable and were pushed before are
    /// complete, and waits for nobody. It is given the failure, or null; that is thereby taken. It
    /// runs on a thread of the engine, or on one that pushes, waits or completes, or inside this
    /// call: it should be short, must not wait, and must not throw.
    template <class Function>
    void when_ready(SeriatimVariable variable, Function&& function) const {
        auto seen = [variable] { detail::writes_are_seen(variable); };
        begin_wait(std::forward<Function>(function), seen, [&](auto call, void* told, SeriatimDeleter deleter) {
            return seriatim_when_ready(raw(), variable, call, told, deleter);
        });
    }

    /// As `when_ready`, but also behind the operations that read the variable.
    template <class Function>
    void when_unused(SeriatimVariable variable, Function&& function) const {
        auto seen = [variable] { detail::uses_are_seen(variable); };
        begin_wait(std::forward<Function>(function), seen, [&](auto call, void* told, SeriatimDeleter deleter) {
            return seriatim_when_unused(raw(), variable, call, told, deleter);
        });
    }

    /// Calls a function when nothing is in flight.
    template <class Function>
    void when_all_ended(Function&& function) const {
        auto seen = [core = core_] { detail::acquire(core); };
        begin_wait(std::forward<Function>(function), seen, [&](auto call, void* told, SeriatimDeleter deleter) {
            return seriatim_when_all_ended(raw(), call, told, deleter);
        });
    }

    /// Brings all threads up, and gives the calling one memory: its first push then takes about as
    /// long as a later one.
    void prepare() const { detail::check(seriatim_engine_prepare(raw())); }

    /// Runs what is in flight, then ends the threads. Pushes are refused until `start`.
    void stop() const {
        detail::Held::check_none(*core_);
        detail::check(seriatim_engine_stop(raw()));
        detail::acquire(core_);
    }

    void start() const { detail::check(seriatim_engine_start(raw())); }

    /// The process is about to end: from now on operations complete without running.
    void notify_shutdown() const { detail::check(seriatim_engine_notify_shutdown(raw())); }

    /// Changes how many threads one operation may use itself.
    void set_nested_threads(std::size_t threads) const {
        detail::check(seriatim_engine_set_nested_threads(raw(), threads));
    }

    /// The value of a setting, such as `setting("ENGINE")`.
    std::string setting(const char* key) const {
        return detail::text_of([&](char** out) { return seriatim_engine_setting(raw(), key, out); });
    }

    /// What did not go as the settings asked, a line each.
    std::string warnings() const {
        return detail::text_of([&](char** out) { return seriatim_engine_warnings(raw(), out); });
    }

    void start_profiling() const { detail::check(seriatim_profile_start(raw())); }
    void stop_profiling() const { detail::check(seriatim_profile_stop(raw())); }

    /// Writes what was recorded as a trace in Chrome's format, which Perfetto opens.
    void write_trace(const char* path) const { detail::check(seriatim_profile_write_trace(raw(), path)); }

    /// The statistics of what was recorded, as a table for people.
    std::string profile_table() const {
        return detail::text_of([&](char** out) { return seriatim_profile_table(raw(), out); });
    }

    /// The operations in flight, for Graphviz.
    std::string dump_dot() const {
        return detail::text_of([&](char** out) { return seriatim_dump_dot(raw(), out); });
    }

    /// For functions of the C interface that this binding does not have, such as those of GPUs.
    SeriatimEngine* raw() const noexcept { return core_->engine(); }

private:
    template <class Identity, class Combine>
    auto reduce_in(std::size_t copies, detail::Sort sort, Identity identity, Combine combine) const {
        using T = std::decay_t<std::invoke_result_t<Identity&>>;
        static_assert(std::is_invocable_v<Combine&, T&, T&&>, "combine must take a T& and a T&&, of what identity makes");
        return Reduction<T>(
            new detail::ReductionOwner<T>(*core_, copies, sort, std::move(identity), std::move(combine)));
    }

    explicit Engine(detail::Core& core) noexcept : core_(&core) {
        core.hold();
        core.enter();
    }

    template <class Function, class Seen>
    struct Told {
        Function function;
        /// Says what the wait has seen.
        Seen seen;
    };

    template <class Function, class Seen, class Begin>
    void begin_wait(Function&& function, Seen seen, Begin begin) const {
        using Held = Told<std::decay_t<Function>, Seen>;
        auto call = [](void* told, SeriatimStatus status) noexcept {
            auto& held = *static_cast<Held*>(told);
            detail::acquire(&held);
            held.seen();
            std::exception_ptr failure;
            if (status != SERIATIM_STATUS_OK) failure = detail::last_exception(status);
            held.function(failure);
        };
        auto deleter = [](void* told) noexcept {
            detail::InsideDeleter inside;
            delete static_cast<Held*>(told);
        };
        auto* held = new Held{std::forward<Function>(function), seen};
        detail::release(held);
        detail::check(begin(+call, held, +deleter));
    }

    detail::Core* core_;
};

}  // namespace seriatim

#endif
