// `Completion`: ends an asynchronous operation. `detail/call.hpp` makes one for each call.

#ifndef SERIATIM_COMPLETION_HPP
#define SERIATIM_COMPLETION_HPP

#include <exception>
#include <string>
#include <utility>

#include <seriatim/detail/sanitizer.hpp>
#include <seriatim/error.hpp>

namespace seriatim {
namespace detail {

/// An asynchronous function that is being called on this thread, for its completion: if that is
/// destroyed because the function throws, the operation fails with the exception.
class StartFrame {
public:
    explicit StartFrame(SeriatimCompletion* handle) noexcept
        : handle_(handle), exceptions_(std::uncaught_exceptions()), outer_(innermost) {
        innermost = this;
    }

    ~StartFrame() { innermost = outer_; }

    StartFrame(const StartFrame&) = delete;
    StartFrame& operator=(const StartFrame&) = delete;

    /// Takes a completion back that is destroyed because of an exception; says whether it did.
    static bool takes_back(SeriatimCompletion* handle) noexcept {
        for (StartFrame* frame = innermost; frame != nullptr; frame = frame->outer_) {
            if (frame->handle_ == handle && std::uncaught_exceptions() > frame->exceptions_) {
                return frame->came_back_ = true;
            }
        }
        return false;
    }

    bool came_back() const noexcept { return came_back_; }

private:
    static inline thread_local StartFrame* innermost = nullptr;

    SeriatimCompletion* handle_;
    int exceptions_;
    bool came_back_ = false;
    StartFrame* outer_;
};

}  // namespace detail

/// Ends an asynchronous operation, once, on any thread. It can be moved and not copied. If it is
/// destroyed without being used, the operation fails with `ErrorKind::completion_dropped`, so that
/// nothing waits for ever.
///
///     engine.op("read").writes(x).run_async([&](seriatim::Completion done) {
///         loop.read(file, [done = std::move(done)]() mutable { done.complete(); });
///     });
///
/// A second use throws an `Error` of kind `null_pointer`.
class Completion {
public:
    Completion(SeriatimCompletion* handle, detail::Trace* trace) noexcept : handle_(handle), trace_(trace) {}

    Completion(Completion&& other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)), trace_(other.trace_) {}

    Completion& operator=(Completion&& other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(trace_, other.trace_);
        return *this;
    }

    ~Completion() {
        if (handle_ != nullptr && !detail::StartFrame::takes_back(handle_)) seriatim_completion_drop(take());
    }

    /// Whether it can still be used.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// Ends the operation well.
    void complete() { detail::check(seriatim_completion_complete(take())); }

    /// Ends the operation when its GPU has done what is on a stream by now.
    void complete_after(void* stream) { detail::check(seriatim_completion_complete_after(take(), stream)); }

    /// Ends the operation with an error, which waits throw as an `Error`.
    void fail(const char* text) { detail::check(seriatim_completion_fail(take(), text)); }
    void fail(const std::string& text) { fail(text.c_str()); }

    /// Ends the operation with an exception, which waits throw.
    void fail(const std::exception_ptr& exception) {
        SeriatimStatus status = SERIATIM_STATUS_OK;
        SeriatimCompletion* handle = take();
        detail::tell_exception(exception, [&](const char* text, void* carried) {
            status = seriatim_completion_fail_object(handle, text, carried, detail::delete_exception);
        });
        detail::check(status);
    }

private:
    SeriatimCompletion* take() noexcept {
        if (handle_ != nullptr) trace_->ends();
        return std::exchange(handle_, nullptr);
    }

    SeriatimCompletion* handle_;
    detail::Trace* trace_;
};

}  // namespace seriatim

#endif
