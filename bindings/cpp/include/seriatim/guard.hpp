// `ReadGuard` and `WriteGuard`: a thread outside of operations reaches a value. `Value::read` and
// `write` make them.
//
// A guard is an asynchronous operation whose completion it uses when it is destroyed. The thread
// first waits for the variable, which throws the failure that it is marked with, and then until the
// operation has begun: for that it sleeps only if another thread has pushed something in between.

#ifndef SERIATIM_GUARD_HPP
#define SERIATIM_GUARD_HPP

#include <atomic>
#include <vector>

// Semaphores of POSIX wake a thread without a lock. macOS has none without a name.
#if defined(__unix__) && !defined(__APPLE__)
#include <semaphore.h>
#define SERIATIM_HAS_SEMAPHORES 1
#else
#include <condition_variable>
#include <mutex>
#endif

#include <seriatim/value.hpp>

namespace seriatim {
namespace detail {

/// Says that a guard's operation has begun, or was skipped.
#ifdef SERIATIM_HAS_SEMAPHORES

class Began {
public:
    Began() noexcept { sem_init(&semaphore_, 0, 0); }
    ~Began() { sem_destroy(&semaphore_); }
    Began(const Began&) = delete;
    Began& operator=(const Began&) = delete;

    void say() noexcept { sem_post(&semaphore_); }

    void wait() noexcept {
        while (sem_wait(&semaphore_) != 0) {
        }
    }

private:
    sem_t semaphore_;
};

#else

class Began {
public:
    void say() noexcept {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            has_begun_ = true;
        }
        condition_.notify_one();
    }

    void wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        condition_.wait(lock, [this] { return has_begun_; });
    }

private:
    std::mutex mutex_;
    std::condition_variable condition_;
    bool has_begun_ = false;
};

#endif

/// What a guard and its operation share.
struct Hold {
    Began began;
    SeriatimCompletion* completion = nullptr;
    std::atomic<int> shares{2};

    void let_go() noexcept {
        if (shares.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }
};

/// An access that a thread has.
class Held {
public:
    /// `parts` are variables that the access also reads, for a reduction.
    Held(const Share& share, bool changes, const std::vector<SeriatimVariable>& parts = {})
        : share_(share), changes_(changes), lease_(share.owner()->core()) {
        SeriatimVariable variable = share.owner()->variable();
        for (Held* held = own; held != nullptr; held = held->outer_) {
            if (held->share_.owner() == share.owner()) {
                throw Error(ErrorKind::borrow_conflict, "this thread has a guard of the value already: destroy it");
            }
        }
        auto wait = changes ? seriatim_wait_until_unused : seriatim_wait_for_variable;
        check(wait(lease_.engine(), variable));
        for (SeriatimVariable part : parts) check(seriatim_wait_for_variable(lease_.engine(), part));
        push(variable, parts);
        changes ? uses_are_seen(variable) : writes_are_seen(variable);
        outer_ = own;
        own = this;
    }

    ~Held() {
        Held** place = &own;
        while (*place != this) place = &(*place)->outer_;
        *place = outer_;
        SeriatimVariable variable = share_.owner()->variable();
        gives_up(variable, changes_);
        release(&share_.owner()->core());
        seriatim_completion_complete(hold_->completion);
        hold_->let_go();
    }

    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    /// Throws if this thread has a guard of what it is about to wait for: of a variable, or of any
    /// of an engine.
    static void check_none(SeriatimVariable variable) {
        for (const Held* held = own; held != nullptr; held = held->outer_) {
            SeriatimVariable other = held->share_.owner()->variable();
            if (other.place == variable.place && other.generation == variable.generation) {
                throw Error(ErrorKind::borrow_conflict,
                            "this thread waits for a value of which it has a guard: destroy the guard first");
            }
        }
    }

    static void check_none(const Core& core) {
        for (const Held* held = own; held != nullptr; held = held->outer_) {
            if (&held->share_.owner()->core() == &core) {
                throw Error(ErrorKind::borrow_conflict,
                            "this thread waits for an engine of which it has a guard: destroy the guard first");
            }
        }
    }

private:
    void push(SeriatimVariable variable, const std::vector<SeriatimVariable>& parts) {
        SeriatimOperation operation{};
        operation.name = "guard";
        operation.reads = parts.data();
        operation.read_count = parts.size();
        (changes_ ? operation.writes : operation.reads) = &variable;
        (changes_ ? operation.write_count : operation.read_count) = 1;
        // A failure is the wait's to tell.
        operation.property = SERIATIM_PROPERTY_NO_SKIP;
        hold_ = new Hold;
        release(hold_);
        auto begin = [](void* hold, const SeriatimRunContext*, SeriatimCompletion* completion) noexcept {
            acquire(hold);
            static_cast<Hold*>(hold)->completion = completion;
            static_cast<Hold*>(hold)->began.say();
        };
        auto end = [](void* hold) noexcept {
            acquire(hold);
            static_cast<Hold*>(hold)->began.say();
            static_cast<Hold*>(hold)->let_go();
        };
        SeriatimStatus status = seriatim_push_async(lease_.engine(), &operation, begin, hold_, end);
        if (status == SERIATIM_STATUS_OK) {
            hold_->began.wait();
            if (hold_->completion != nullptr) return;
        }
        hold_->let_go();
        check(status);
        throw Error(ErrorKind::stopped, "the engine was told of the shutdown: no guard is given any more");
    }

    static inline thread_local Held* own = nullptr;

    Share share_;
    bool changes_;
    Lease lease_;
    Hold* hold_ = nullptr;
    Held* outer_ = nullptr;
};

}  // namespace detail

/// A value that the calling thread reads, from `Value::read`. Operations that change the value and
/// were pushed after it wait until it is destroyed: so do waits for everything, stops and forks. It
/// stays on its thread.
///
/// `Value::read` throws the failure that the value is marked with, and clears it: a second call
/// finds what the failed operation has left. It throws an `Error` of kind `borrow_conflict` if the
/// thread has a guard of the value already, `wait_inside_operation`, and those of a push: a guard
/// counts under a bound. Two threads that each have a guard and ask for the other's value wait for
/// ever.
template <class T>
class ReadGuard {
public:
    ReadGuard(const detail::Share& share, const T* place) : held_(share, false), place_(place) {}

    const T& operator*() const noexcept { return *place_; }
    const T* operator->() const noexcept { return place_; }

private:
    detail::Held held_;
    const T* place_;
};

/// A value that the calling thread changes, from `Value::write`. The variable's version steps when
/// it is destroyed. Otherwise it is as a `ReadGuard`.
template <class T>
class WriteGuard {
public:
    WriteGuard(const detail::Share& share, T* place) : held_(share, true), place_(place) {}

    T& operator*() const noexcept { return *place_; }
    T* operator->() const noexcept { return place_; }

private:
    detail::Held held_;
    T* place_;
};

/// The guards of a tile have the span.
template <class T>
class ReadGuard<span<T>> {
public:
    ReadGuard(const detail::Share& share, span<T> part) : held_(share, false), part_(part) {}

    span<const T> operator*() const noexcept { return part_; }

private:
    detail::Held held_;
    span<const T> part_;
};

template <class T>
class WriteGuard<span<T>> {
public:
    WriteGuard(const detail::Share& share, span<T> part) : held_(share, true), part_(part) {}

    span<T> operator*() const noexcept { return part_; }

private:
    detail::Held held_;
    span<T> part_;
};

template <class T>
ReadGuard<T> Value<T>::read() const {
    return ReadGuard<T>(share_, place_);
}
template <class T>
WriteGuard<T> Value<T>::write() const {
    return WriteGuard<T>(share_, place_);
}
template <class T>
ReadGuard<span<T>> Tile<T>::read() const {
    return ReadGuard<span<T>>(share_, part_);
}
template <class T>
WriteGuard<span<T>> Tile<T>::write() const {
    return WriteGuard<span<T>>(share_, part_);
}

}  // namespace seriatim

#endif
