// `Operation`: an operation to be pushed; `Operator`: one that can be pushed again. `engine.hpp`
// makes them.

#ifndef SERIATIM_OPERATION_HPP
#define SERIATIM_OPERATION_HPP

#include <type_traits>
#include <utility>

#include <seriatim/detail/describe.hpp>
#include <seriatim/pending.hpp>

namespace seriatim {

/// A reusable operation, from `Operation::make_operator`. May be pushed again while earlier uses
/// are in flight. It keeps the values that its function is lent.
///
///     seriatim::Operator step = engine.op("step").make_operator(write(x), [](int& x) { ++x; });
///     for (int i = 0; i < 1000; ++i) engine.push(step);
class Operator {
public:
    /// For `Operation::make_operator`.
    Operator(SeriatimOperator* raw, detail::Trace* trace) noexcept : raw_(raw), trace_(trace) {}
    Operator(Operator&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)), trace_(other.trace_) {}
    Operator& operator=(Operator&& other) noexcept {
        std::swap(raw_, other.raw_);
        std::swap(trace_, other.trace_);
        return *this;
    }
    ~Operator() { seriatim_operator_delete(raw_); }

    const SeriatimOperator* raw() const noexcept { return raw_; }

    /// The calling thread is about to push it.
    void is_pushed() const noexcept {
        if (trace_ != nullptr) trace_->pushed();
    }

private:
    SeriatimOperator* raw_;
    detail::Trace* trace_;
};

namespace detail {

/// A body whose result somebody waits for.
template <class Body, class T>
struct Computing : Body {
    Computing(Body&& body, Result<T>* result) : Body(std::move(body)), result_(result) {}

    void operator()(const RunContext& run) {
        try {
            if constexpr (std::is_void_v<T>) {
                Body::operator()(run);
                result_->value.emplace(true);
            } else {
                result_->value.emplace(Body::operator()(run));
            }
        } catch (...) {
            result_->exception = std::current_exception();
            throw;
        }
    }

    Result<T>* result_;
};

}  // namespace detail

/// An operation, from `Engine::op`. Setters return it, so that an operation is one expression; one
/// of the methods at its end pushes it. Each of them takes any number of `read(x)` and `write(y)`,
/// also `commute(z)` and `reduce(sum)`, and then the function, which is given a `const X&` and a
/// `Y&`. It may take a `const RunContext&` before them.
///
/// The function is moved into the operation. Up to 8 bytes that can be copied as such, and up to
/// 112 bytes of any function with what it is lent (8 bytes for each value, 16 for each tile), cost
/// no allocation in steady state; a larger one costs one. So it is up to eight declared reads and
/// eight writes.
///
/// An exception of the function fails the operation: what it changes is marked, what depends on it
/// is skipped, and the first wait that meets the failure throws the very exception.
///
/// Throws `Error`: of kind `borrow_conflict` if a value is named twice, once to change it;
/// `variable_deleted`, `foreign_variable`, `private_variable`, `unknown_device`,
/// `device_unavailable`, `device_lost`, `engine_full` with `would-block`, `stopped`,
/// `thread_refused`, `priority_refused`. The function is then not called.
///
/// The name is kept for the life of the process: use few, and literals.
class Operation : public detail::Describe<Operation> {
public:
    /// For `Engine::op`.
    Operation(detail::Core& core, const char* name) : Describe(name), core_(core) {}

    /// Pushes an operation that ends when its function returns.
    ///
    ///     engine.op("axpy").priority(1).run(read(x), write(y), [](const X& x, Y& y) {
    ///         y.add(x);
    ///     });
    template <class... Given>
    void run(Given&&... given) {
        detail::with_last(
            [this](auto&& function, const auto&... accesses) {
                auto body = this->bind<detail::Shares<0>>(std::forward<decltype(function)>(function), accesses...);
                detail::check_void<decltype(body)>();
                this->push(std::move(body), detail::commuting_of(accesses...));
            },
            std::forward<Given>(given)...);
    }

    /// Pushes an operation with a result: what its function returns.
    ///
    ///     seriatim::Pending<int> size = engine.op("size").compute(read(x), [](const X& x) {
    ///         return x.size();
    ///     });
    template <class... Given>
    auto compute(Given&&... given) {
        return detail::with_last(
            [this](auto&& function, const auto&... accesses) {
                auto body = this->bind<detail::Shares<0>>(std::forward<decltype(function)>(function), accesses...);
                using Body = decltype(body);
                using T = std::decay_t<detail::ResultOf<Body>>;
                auto* result = new detail::Result<T>(core_);
                Pending<T> pending(result);
                claims_.writes.add(result->variable());
                this->push(detail::Computing<Body, T>(std::move(body), result), detail::commuting_of(accesses...));
                return pending;
            },
            std::forward<Given>(given)...);
    }

    /// Pushes an operation that ends when its completion is used. The function takes a `Completion`
    /// last. What it is lent stays the operation's until then; the function itself is destroyed
    /// when it has returned. If it throws before it has given the completion away, the operation
    /// fails with the exception; after that, the exception comes out of the next wait for
    /// everything.
    ///
    ///     engine.op("read").run_async(write(x), [&](Buffer& x, seriatim::Completion done) {
    ///         file.read_into(x, [done = std::move(done)]() mutable { done.complete(); });
    ///     });
    template <class... Given>
    void run_async(Given&&... given) {
        detail::with_last(
            [this](auto&& function, const auto&... accesses) {
                auto body = this->bind<detail::Shares<0>>(std::forward<decltype(function)>(function), accesses...);
                using Call = detail::AsyncCall<decltype(body), detail::Calls::once>;
                SeriatimOperation& operation = described();
                auto commuting = detail::commuting_of(accesses...);
                auto argument = detail::async_argument<Call>(std::move(body), operation, commuting, core_);
                if (commuting.count == 0) {
                    detail::check(seriatim_push_async(core_.engine(), &operation, Call::run, argument.pointer,
                                                      argument.deleter));
                } else {
                    detail::check(seriatim_push_async_commuting(core_.engine(), &operation, commuting.data(),
                                                                commuting.count, Call::run, argument.pointer,
                                                                argument.deleter));
                }
            },
            std::forward<Given>(given)...);
    }

    /// Makes a reusable operator. If it changes no variable, several of its uses may run at the
    /// same time, so its function must be good for that.
    template <class... Given>
    Operator make_operator(Given&&... given) {
        return detail::with_last(
            [this](auto&& function, const auto&... accesses) {
                auto body = this->bind<detail::Shares<sizeof...(accesses)>>(std::forward<decltype(function)>(function),
                                                                      accesses...);
                detail::check_void<decltype(body)>();
                detail::check_order<std::decay_t<decltype(accesses)>...>();
                using Call = detail::SyncCall<decltype(body), detail::Calls::many>;
                SeriatimOperation& operation = described();
                auto argument = detail::sync_argument<Call>(std::move(body), operation, detail::Commuting<0>(), &core_);
                SeriatimOperator* made = nullptr;
                detail::check(seriatim_operator_new(core_.engine(), &operation, Call::run, argument.pointer,
                                                    argument.deleter, &made));
                return Operator(made, argument.trace);
            },
            std::forward<Given>(given)...);
    }

    /// Makes a reusable operator whose uses end when their completions are used.
    template <class... Given>
    Operator make_async_operator(Given&&... given) {
        return detail::with_last(
            [this](auto&& function, const auto&... accesses) {
                auto body = this->bind<detail::Shares<sizeof...(accesses)>>(std::forward<decltype(function)>(function),
                                                                      accesses...);
                detail::check_order<std::decay_t<decltype(accesses)>...>();
                using Call = detail::AsyncCall<decltype(body), detail::Calls::many>;
                SeriatimOperation& operation = described();
                auto argument = detail::async_argument<Call>(std::move(body), operation, detail::Commuting<0>(), core_);
                SeriatimOperator* made = nullptr;
                detail::check(seriatim_operator_new_async(core_.engine(), &operation, Call::run, argument.pointer,
                                                          argument.deleter, &made));
                return Operator(made, argument.trace);
            },
            std::forward<Given>(given)...);
    }

private:
    template <class Body, class Commuting>
    void push(Body&& body, const Commuting& commuting) {
        using Call = detail::SyncCall<std::decay_t<Body>, detail::Calls::once>;
        SeriatimOperation& operation = described();
        auto argument = detail::sync_argument<Call>(std::move(body), operation, commuting, &core_);
        if (commuting.count == 0) {
            detail::check(seriatim_push(core_.engine(), &operation, Call::run, argument.pointer, argument.deleter));
        } else {
            detail::check(seriatim_push_commuting(core_.engine(), &operation, commuting.data(), commuting.count,
                                                  Call::run, argument.pointer, argument.deleter));
        }
    }

    detail::Core& core_;
};

}  // namespace seriatim

#endif
