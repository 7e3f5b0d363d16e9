// Errors: what a call of the library failed with, and how an exception that an operation has thrown
// comes back to the one who waits. Used by all other headers.

#ifndef SERIATIM_ERROR_HPP
#define SERIATIM_ERROR_HPP

#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>

#include <seriatim.h>

#include <seriatim/detail/sanitizer.hpp>

namespace seriatim {

/// What went wrong. More kinds may be added: have a default case.
enum class ErrorKind : std::int32_t {
    operation_failed = SERIATIM_STATUS_OPERATION_FAILED,
    operation_panicked = SERIATIM_STATUS_OPERATION_PANICKED,
    completion_dropped = SERIATIM_STATUS_COMPLETION_DROPPED,
    variable_deleted = SERIATIM_STATUS_VARIABLE_DELETED,
    foreign_variable = SERIATIM_STATUS_FOREIGN_VARIABLE,
    foreign_operator = SERIATIM_STATUS_FOREIGN_OPERATOR,
    unknown_device = SERIATIM_STATUS_UNKNOWN_DEVICE,
    device_unavailable = SERIATIM_STATUS_DEVICE_UNAVAILABLE,
    engine_full = SERIATIM_STATUS_ENGINE_FULL,
    bad_setting = SERIATIM_STATUS_BAD_SETTING,
    thread_refused = SERIATIM_STATUS_THREAD_REFUSED,
    wait_inside_operation = SERIATIM_STATUS_WAIT_INSIDE_OPERATION,
    timed_out = SERIATIM_STATUS_TIMED_OUT,
    stopped = SERIATIM_STATUS_STOPPED,
    borrow_conflict = SERIATIM_STATUS_BORROW_CONFLICT,
    engines_exhausted = SERIATIM_STATUS_ENGINES_EXHAUSTED,
    undeclared_access = SERIATIM_STATUS_UNDECLARED_ACCESS,
    private_variable = SERIATIM_STATUS_PRIVATE_VARIABLE,
    priority_refused = SERIATIM_STATUS_PRIORITY_REFUSED,
    memory_lock_refused = SERIATIM_STATUS_MEMORY_LOCK_REFUSED,
    device_lost = SERIATIM_STATUS_DEVICE_LOST,
    out_of_memory = SERIATIM_STATUS_OUT_OF_MEMORY,
    buffer_mismatch = SERIATIM_STATUS_BUFFER_MISMATCH,
    stream_refused = SERIATIM_STATUS_STREAM_REFUSED,
    no_stream = SERIATIM_STATUS_NO_STREAM,
    cancelled = SERIATIM_STATUS_CANCELLED,
    deadline_exceeded = SERIATIM_STATUS_DEADLINE_EXCEEDED,
    cannot_commute = SERIATIM_STATUS_CANNOT_COMMUTE,
    other = SERIATIM_STATUS_OTHER,
    null_pointer = SERIATIM_STATUS_NULL_POINTER,
    bad_argument = SERIATIM_STATUS_BAD_ARGUMENT,
    invalid_utf8 = SERIATIM_STATUS_INVALID_UTF8,
    input_output = SERIATIM_STATUS_INPUT_OUTPUT,
    panicked = SERIATIM_STATUS_PANICKED,
};

/// What a call failed with that is no exception of an operation: `what()` says what went wrong,
/// where, and what to do.
///
///     try {
///         engine.wait_for_all(std::chrono::seconds(1));
///     } catch (const seriatim::Error& error) {
///         if (error.kind() != seriatim::ErrorKind::timed_out) throw;
///         std::puts(error.what());
///     }
class Error : public std::runtime_error {
public:
    Error(ErrorKind kind, const char* text) : std::runtime_error(text), kind_(kind) {}

    ErrorKind kind() const noexcept { return kind_; }

private:
    ErrorKind kind_;
};

namespace detail {

/// Deletes the exception that an error carries. Its address says that the object is one, so all
/// libraries of a program have the same.
[[gnu::visibility("default")]] inline void delete_exception(void* exception) noexcept {
    delete static_cast<std::exception_ptr*>(exception);
}

/// The exception that the last failure of this thread carries: that of an operation, or an `Error`.
inline std::exception_ptr last_exception(SeriatimStatus status) {
    if (void* carried = seriatim_last_error_object(delete_exception)) {
        acquire(carried);
        return *static_cast<std::exception_ptr*>(carried);
    }
    return std::make_exception_ptr(Error(static_cast<ErrorKind>(status), seriatim_last_error()));
}

[[noreturn]] inline void throw_last(SeriatimStatus status) {
    std::rethrow_exception(last_exception(status));
}

/// Throws if a call has failed.
inline void check(SeriatimStatus status) {
    if (status != SERIATIM_STATUS_OK) throw_last(status);
}

/// Calls `tell` with the text of an exception and a copy of it that `delete_exception` deletes, or
/// null if there is no memory for one.
template <class Tell>
void tell_exception(const std::exception_ptr& exception, Tell tell) noexcept {
    auto* carried = new (std::nothrow) std::exception_ptr(exception);
    if (carried != nullptr) release(carried);
    try {
        std::rethrow_exception(exception);
    } catch (const std::exception& known) {
        tell(known.what(), static_cast<void*>(carried));
    } catch (...) {
        tell("an exception that is no std::exception", static_cast<void*>(carried));
    }
}

}  // namespace detail
}  // namespace seriatim

#endif
