// Functions of the program, as the C interface calls them: where they lie (`Argument`), and what
// catches their exceptions (`SyncCall`, `AsyncCall`). `operation.hpp` and `capture.hpp` push them.
//
// A function with what it is lent is a body. One of at most a pointer's size that can be copied as
// bytes lies in the argument of the C interface, one of up to 112 bytes in a cell of the pool
// (`pool.hpp`), a larger one in memory that is allocated for it.

#ifndef SERIATIM_DETAIL_CALL_HPP
#define SERIATIM_DETAIL_CALL_HPP

#include <cstring>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <seriatim/completion.hpp>
#include <seriatim/detail/core.hpp>
#include <seriatim/detail/pool.hpp>
#include <seriatim/detail/sanitizer.hpp>
#include <seriatim/error.hpp>
#include <seriatim/run_context.hpp>

namespace seriatim::detail {

/// How often a body is called.
enum class Calls {
    /// Once.
    once,
    /// Any number of times, by several threads at once if it changes no variable: an operator.
    many,
    /// Once in each replay, one after another.
    replayed,
};

template <class Body>
struct Payload : Trace {
    explicit Payload(Body&& given) : body(std::move(given)) {}

    Body body;
};

#ifdef SERIATIM_TSAN
template <class Body>
inline constexpr bool is_packed = false;  // A trace needs a place.
#else
template <class Body>
inline constexpr bool is_packed = sizeof(Body) <= sizeof(void*) && alignof(Body) <= alignof(void*) &&
                                  std::is_trivially_copyable_v<Body> && std::is_trivially_destructible_v<Body>;
#endif

template <class Type>
inline constexpr bool is_in_cell = is_pooled && sizeof(Type) <= cell_room && alignof(Type) <= alignof(Cell);

/// Makes what `remove` deletes.
template <class Type, class... Arguments>
Type* make(Arguments&&... arguments) {
    if constexpr (is_in_cell<Type>) {
        void* memory = take_cell();
        if constexpr (std::is_nothrow_constructible_v<Type, Arguments...>) {
            return new (memory) Type(std::forward<Arguments>(arguments)...);
        } else {
            try {
                return new (memory) Type(std::forward<Arguments>(arguments)...);
            } catch (...) {
                put_cell(memory);
                throw;
            }
        }
    } else {
        return new Type(std::forward<Arguments>(arguments)...);
    }
}

template <class Type>
void remove(Type* made) noexcept {
    if constexpr (is_in_cell<Type>) {
        made->~Type();
        put_cell(made);
    } else {
        delete made;
    }
}

/// Deletes a payload, for the engine.
template <class Type>
void delete_payload(void* argument) noexcept {
    auto* payload = static_cast<Type*>(argument);
    if constexpr (!std::is_trivially_destructible_v<Type>) {
        InsideDeleter inside;
        payload->deleted();
        remove(payload);
    } else {
        remove(payload);
    }
}

/// Says the exception that is being handled as the error of a synchronous operation.
inline void fail_with_current(const SeriatimRunContext* run) noexcept {
    tell_exception(std::current_exception(), [run](const char* text, void* carried) {
        seriatim_run_context_set_error_object(run, text, carried, delete_exception);
    });
}

/// A body that is called with a run context, and ends its operation when it returns.
template <class Body, Calls calls>
struct SyncCall {
    using Held = Payload<Body>;

    static int run(void* argument, const SeriatimRunContext* raw) noexcept {
        if constexpr (is_packed<Body>) {
            alignas(void*) unsigned char bytes[sizeof(void*)];
            std::memcpy(bytes, &argument, sizeof bytes);
            return call(*std::launder(reinterpret_cast<Body*>(bytes)), raw);
        } else {
            auto& held = *static_cast<Held*>(argument);
            held.begins();
            if constexpr (calls == Calls::replayed) held.begins_again();
            int code = call(held.body, raw);
            held.ends();
            return code;
        }
    }

    static void discard(void* argument) noexcept { delete_payload<Held>(argument); }

private:
    static int call(Body& body, const SeriatimRunContext* raw) noexcept {
        try {
            body(RunContext(raw));
            return 0;
        } catch (...) {
            fail_with_current(raw);
            return 1;
        }
    }
};

/// A body of an asynchronous operation. One that is called once is destroyed when it has returned,
/// on the thread of its call: so it may have the last handle of the engine.
template <class Body>
struct AsyncPayload : Trace {
    AsyncPayload(Body&& given, Core& engine) : body(std::move(given)), core(engine) {}

    std::optional<Body> body;
    Core& core;
};

/// A body that is called with a run context and a completion, which ends its operation.
template <class Body, Calls calls>
struct AsyncCall {
    using Held = AsyncPayload<Body>;

    static void run(void* argument, const SeriatimRunContext* raw, SeriatimCompletion* handle) noexcept {
        auto& held = *static_cast<Held*>(argument);
        held.begins();
        if constexpr (calls == Calls::replayed) held.begins_again();
        StartFrame frame(handle);
        Completion completion(handle, &held);
        try {
            (*held.body)(RunContext(raw), std::move(completion));
        } catch (...) {
            if (frame.came_back()) completion = Completion(handle, &held);
            if (completion) {
                completion.fail(std::current_exception());
            } else {
                held.core.report(std::current_exception());
            }
        }
        if constexpr (calls == Calls::once) {
            held.body.reset();
            held.returned();
        }
    }

    static void discard(void* argument) noexcept { delete_payload<Held>(argument); }
};

/// What the C interface is given.
struct Argument {
    void* pointer;
    SeriatimDeleter deleter;
    /// Null if nothing is traced.
    Trace* trace;
};

/// The argument of a synchronous body. `commuting` is what its operation commutes on.
template <class Call, class Body, class Commuting>
Argument sync_argument(Body&& body, [[maybe_unused]] const SeriatimOperation& operation,
                       [[maybe_unused]] const Commuting& commuting, [[maybe_unused]] void* engine,
                       [[maybe_unused]] void* graph = nullptr) {
    using Bare = std::decay_t<Body>;
    if constexpr (is_packed<Bare>) {
        void* pointer = nullptr;
        if constexpr (!std::is_empty_v<Bare>) std::memcpy(&pointer, &body, sizeof body);
        return {pointer, nullptr, nullptr};
    } else {
        auto* held = make<typename Call::Held>(std::move(body));
        held->uses(operation, engine, graph);
        held->commutes(commuting.data(), commuting.count);
        held->pushed();
        return {held, Call::discard, held};
    }
}

/// The argument of an asynchronous body.
template <class Call, class Body, class Commuting>
Argument async_argument(Body&& body, const SeriatimOperation& operation, const Commuting& commuting, Core& core,
                        void* graph = nullptr) {
    auto* held = make<typename Call::Held>(std::move(body), core);
    held->uses(operation, &core, graph);
    held->commutes(commuting.data(), commuting.count);
    held->pushed();
    return {held, Call::discard, held};
}

}  // namespace seriatim::detail

#endif
