// `Pending`: the result of an operation. `Operation::compute` makes one.
//
// A result has a variable of its own, which the operation changes. So a wait for it is a wait of
// the engine: it runs operations meanwhile, has a limit in time if asked for, and throws what the
// operation has failed with, or what it depends on.

#ifndef SERIATIM_PENDING_HPP
#define SERIATIM_PENDING_HPP

#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <type_traits>
#include <utility>

#include <seriatim/detail/core.hpp>
#include <seriatim/detail/time.hpp>

namespace seriatim {
namespace detail {

/// What an operation and its `Pending` share. The engine deletes it behind the operation.
template <class T>
class Result final : public Kept {
public:
    explicit Result(Core& core) : Kept(core) {}

    /// What the operation has returned, or thrown. Nothing if it was skipped.
    std::optional<std::conditional_t<std::is_void_v<T>, bool, T>> value;
    std::exception_ptr exception;
};

}  // namespace detail

/// The result of an operation, as a `std::future` has one: `get` waits for it, and returns it or
/// throws.
///
///     seriatim::Pending<double> sum = engine.compute(read(x), [](const std::vector<double>& x) {
///         return std::accumulate(x.begin(), x.end(), 0.0);
///     });
///     std::cout << sum.get();
///
/// It costs a variable: the push of its deletion, and an allocation. It may be destroyed at any
/// time, and the operation runs all the same; its exception is then for the next wait that meets
/// it. One thread at a time uses a `Pending`.
template <class T>
class Pending {
public:
    Pending() noexcept = default;

    /// For `Operation::compute`.
    explicit Pending(detail::Result<T>* result) noexcept : result_(result) {}

    Pending(Pending&& other) noexcept
        : result_(std::exchange(other.result_, nullptr)), is_settled_(other.is_settled_) {}
    Pending& operator=(Pending&& other) noexcept {
        std::swap(result_, other.result_);
        std::swap(is_settled_, other.is_settled_);
        return *this;
    }
    ~Pending() {
        if (result_ != nullptr) result_->retire();
    }

    /// Whether there is a result to be had: not after `get`.
    bool valid() const noexcept { return result_ != nullptr; }

    /// Whether the operation has ended. Never waits.
    bool ready() const {
        detail::Lease lease(checked().core());
        std::uint64_t version = 0;
        detail::check(seriatim_variable_version(lease.engine(), result_->variable(), &version));
        return version != 0;
    }

    /// Waits until the operation has ended. The calling thread may run operations meanwhile: hold
    /// no lock that they take. Throws an `Error` of kind `wait_inside_operation` inside an
    /// operation of the engine.
    void wait() { settle(seriatim_wait_for_variable); }

    /// Waits, but not longer, and runs no operations meanwhile.
    template <class Rep, class Period>
    std::future_status wait_for(std::chrono::duration<Rep, Period> limit) {
        bool is_over = settle([nanoseconds = detail::nanoseconds(limit)](auto* engine, SeriatimVariable variable) {
            return seriatim_wait_for_variable_timeout(engine, variable, nanoseconds);
        });
        return is_over ? std::future_status::ready : std::future_status::timeout;
    }

    /// Waits, and returns the result or throws the exception: that of the operation, or of one that
    /// it depends on, in which case it was skipped. The failure counts as taken, as by a wait for
    /// its variables. An operation that was skipped without a failure, because of a shutdown,
    /// throws an `Error` of kind `stopped`.
    T get() {
        wait();
        Pending own(std::move(*this));
        detail::Result<T>& result = *own.result_;
        if (result.exception) std::rethrow_exception(result.exception);
        if (!result.value) {
            throw Error(ErrorKind::stopped,
                        "the operation was skipped: the engine was told of the shutdown, or what it depends on has "
                        "failed and another wait was told of it");
        }
        if constexpr (!std::is_void_v<T>) return std::move(*result.value);
    }

private:
    detail::Result<T>& checked() const {
        if (result_ == nullptr) throw std::future_error(std::future_errc::no_state);
        return *result_;
    }

    /// Waits, and keeps what the wait throws of the operation; says whether that is over.
    template <class Wait>
    bool settle(Wait wait) {
        detail::Result<T>& result = checked();
        if (is_settled_) return true;
        detail::Lease lease(result.core());
        SeriatimStatus status = wait(lease.engine(), result.variable());
        detail::writes_are_seen(result.variable());
        if (status == SERIATIM_STATUS_TIMED_OUT) return false;
        if (status != SERIATIM_STATUS_OK) {
            std::exception_ptr failure = detail::last_exception(status);
            // The call may have been refused.
            if (!ready()) std::rethrow_exception(failure);
            if (!result.exception) result.exception = failure;
        }
        return is_settled_ = true;
    }

    detail::Result<T>* result_ = nullptr;
    bool is_settled_ = false;
};

}  // namespace seriatim

#endif
