// What ThreadSanitizer is told. The library is not built with it, so the sanitizer does not see how
// operations are ordered. The header says it: each operation, at its beginning, has seen what the
// uses of its variables before it have done, and a wait has seen what it waited for. Nothing else
// is said, so what the engine does not order stays a race. `call.hpp` and `core.hpp` call this;
// without the sanitizer nothing is left of it.
//
// A variable has two clocks, one of its writes and one of its reads. They are places of an array,
// found by a hash: two variables may share them, and a race can then be missed, but none made up.
// An operation has one clock for its push and one for its end, which its deletion comes after.

#ifndef SERIATIM_DETAIL_SANITIZER_HPP
#define SERIATIM_DETAIL_SANITIZER_HPP

#include <cstddef>
#include <cstdint>

#include <seriatim.h>

#if defined(__SANITIZE_THREAD__)
#define SERIATIM_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define SERIATIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SERIATIM_TSAN 1
#elif __has_feature(address_sanitizer)
#define SERIATIM_ASAN 1
#endif
#endif

#ifdef SERIATIM_TSAN
#include <vector>
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#endif

namespace seriatim::detail {

#ifdef SERIATIM_TSAN

inline constexpr std::size_t clocks = 1 << 16;
/// One for all libraries of a program.
[[gnu::visibility("default")]] alignas(16) inline unsigned char clock_places[clocks * 16];

inline void* write_clock(SeriatimVariable variable) {
    std::uint64_t mixed = (variable.place + variable.generation * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    return clock_places + (mixed >> 32) % clocks * 16;
}

inline void* read_clock(SeriatimVariable variable) {
    return static_cast<unsigned char*>(write_clock(variable)) + 8;
}

inline void acquire(void* clock) {
    __tsan_acquire(clock);
}

inline void release(void* clock) {
    __tsan_release(clock);
}

/// A wait for the writes of a variable has returned.
inline void writes_are_seen(SeriatimVariable variable) {
    acquire(write_clock(variable));
}

/// A wait for all uses of a variable has returned.
inline void uses_are_seen(SeriatimVariable variable) {
    acquire(write_clock(variable));
    acquire(read_clock(variable));
}

/// A thread gives up an access that it has outside of operations.
inline void gives_up(SeriatimVariable variable, bool changes) {
    release(changes ? write_clock(variable) : read_clock(variable));
}

/// What an operation uses.
class Trace {
public:
    /// What it uses. `engine` is the clock of all operations, `graph` that of the replays of its
    /// graph, if it belongs to one.
    void uses(const SeriatimOperation& operation, void* engine, void* graph = nullptr) {
        engine_ = engine;
        graph_ = graph;
        reads_.assign(operation.reads, operation.reads + operation.read_count);
        writes_.assign(operation.writes, operation.writes + operation.write_count);
    }

    /// What it commutes on, which it changes alone.
    void commutes(const SeriatimVariable* list, std::size_t count) { writes_.insert(writes_.end(), list, list + count); }

    void pushed() { release(&clock_[0]); }

    void begins() {
        acquire(&clock_[0]);
        if (graph_ != nullptr) acquire(graph_);
        for (SeriatimVariable variable : reads_) acquire(write_clock(variable));
        for (SeriatimVariable variable : writes_) uses_are_seen(variable);
    }

    void ends() {
        for (SeriatimVariable variable : reads_) release(read_clock(variable));
        for (SeriatimVariable variable : writes_) release(write_clock(variable));
        release(&clock_[1]);
        release(engine_);
    }

    /// Its asynchronous function has returned.
    void returned() { release(&clock_[1]); }

    /// Its function is about to be deleted.
    void deleted() { uses_of_itself_are_seen(); }

    /// For an operation of a graph, whose function no two replays call at once.
    void begins_again() { uses_of_itself_are_seen(); }

private:
    void uses_of_itself_are_seen() {
        acquire(&clock_[0]);
        acquire(&clock_[1]);
    }

    std::uint64_t clock_[2] = {};
    std::vector<SeriatimVariable> reads_, writes_;
    void* engine_ = nullptr;
    void* graph_ = nullptr;
};

#else

inline void acquire(void*) {}
inline void release(void*) {}
inline void writes_are_seen(SeriatimVariable) {}
inline void uses_are_seen(SeriatimVariable) {}
inline void gives_up(SeriatimVariable, bool) {}

class Trace {
public:
    void uses(const SeriatimOperation&, void*, void* = nullptr) {}
    void commutes(const SeriatimVariable*, std::size_t) {}
    void pushed() {}
    void begins() {}
    void ends() {}
    void returned() {}
    void deleted() {}
    void begins_again() {}
};

#endif

#if defined(SERIATIM_TSAN) || defined(SERIATIM_ASAN)
/// Memory that a pool uses again would look alive to a sanitizer.
inline constexpr bool is_pooled = false;
#else
inline constexpr bool is_pooled = true;
#endif

}  // namespace seriatim::detail

#endif
