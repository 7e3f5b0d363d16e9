// `read(x)`, `write(x)` and `commute(x)`: what an operation uses, and what its function is given
// for it. `reduction.hpp` has `reduce(x)`.
//
// `operation.hpp`, `capture.hpp` and `engine.hpp` enter accesses into an operation, and bind them
// with its function to a body (`detail/call.hpp`).

#ifndef SERIATIM_ACCESS_HPP
#define SERIATIM_ACCESS_HPP

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <seriatim/completion.hpp>
#include <seriatim/error.hpp>
#include <seriatim/run_context.hpp>
#include <seriatim/value.hpp>

namespace seriatim {

template <class T>
class Reduction;
template <class Handle>
struct Reduce;

namespace detail {

/// Whether operations that read it run one at a time, as if they changed it.
template <class Handle>
inline constexpr bool reads_alone = false;
template <class T>
inline constexpr bool reads_alone<Reduction<T>> = true;

}  // namespace detail

/// Says that an operation reads a value: its function is given a `const T&`, or a `span<const T>`
/// of a tile. Made by `read`.
template <class Handle>
struct Read {
    using Lent = decltype(Access<Handle>::read(std::declval<typename Access<Handle>::Place>()));
    static constexpr bool changes = detail::reads_alone<Handle>;
    const Handle& handle;
};

/// Says that an operation changes a value: its function is given a `T&`, or a `span<T>` of a tile.
/// Made by `write`.
template <class Handle>
struct Write {
    using Lent = decltype(Access<Handle>::write(std::declval<typename Access<Handle>::Place>()));
    static constexpr bool changes = true;
    const Handle& handle;
};

/// Says that an operation changes a value of `Engine::commutative` in any order with others that
/// do, one at a time: its function is given a `T&`. Made by `commute`. No thread waits for another:
/// what finds the value taken is put aside, and one whose other values are late holds nobody up.
///
/// For `run`, `compute` and `run_async`, which throw an `Error` of kind `cannot_commute` for a
/// value that was not made so, and on a GPU.
template <class Handle>
struct Commute {
    using Lent = decltype(Access<Handle>::write(std::declval<typename Access<Handle>::Place>()));
    static constexpr bool changes = true;
    const Handle& handle;
};

template <class T>
Commute<Value<T>> commute(const Value<T>& value) noexcept {
    return {value};
}
template <class T>
Read<Value<T>> read(const Value<T>& value) noexcept {
    return {value};
}
template <class T>
Read<Tile<T>> read(const Tile<T>& tile) noexcept {
    return {tile};
}
template <class T>
Write<Value<T>> write(const Value<T>& value) noexcept {
    return {value};
}
template <class T>
Write<Tile<T>> write(const Tile<T>& tile) noexcept {
    return {tile};
}

namespace detail {

template <class Type>
inline constexpr bool is_access = false;
template <class Handle>
inline constexpr bool is_access<Read<Handle>> = true;
template <class Handle>
inline constexpr bool is_access<Write<Handle>> = true;
template <class Handle>
inline constexpr bool is_access<Commute<Handle>> = true;
template <class Handle>
inline constexpr bool is_access<Reduce<Handle>> = true;

/// On how many variables an access commutes, at most.
template <class Type>
inline constexpr std::size_t commuting = 0;
template <class Handle>
inline constexpr std::size_t commuting<Commute<Handle>> = 1;
template <class Handle>
inline constexpr std::size_t commuting<Reduce<Handle>> = 1;

/// The variables that an operation commutes on. Most commute on none, and have no list.
template <std::size_t most>
struct Commuting {
    SeriatimVariable list[most];
    std::size_t count = 0;

    template <class Access>
    void add(const Access&) noexcept {}
    template <class Handle>
    void add(const Commute<Handle>& access) noexcept {
        list[count++] = access.handle.variable();
    }
    template <class Handle>
    void add(const Reduce<Handle>& access) noexcept {
        if (access.handle.commutes()) list[count++] = access.copy.variable();
    }
    const SeriatimVariable* data() const noexcept { return list; }
};

template <>
struct Commuting<0> {
    static constexpr std::size_t count = 0;

    template <class Access>
    void add(const Access&) noexcept {}
    const SeriatimVariable* data() const noexcept { return nullptr; }
};

template <class... Accesses>
auto commuting_of(const Accesses&... accesses) noexcept {
    Commuting<(commuting<Accesses> + ... + 0)> made;
    (made.add(accesses), ...);
    return made;
}

/// An operation that is recorded, or of an operator.
template <class... Accesses>
constexpr void check_order() {
    static_assert((commuting<Accesses> + ... + 0) == 0,
                  "graphs and operators have no operations that commute or reduce: push those by run()");
}

/// The place of a value in a body, without a share of it.
template <class Declared>
struct Lend;

template <class Handle>
struct Lend<Read<Handle>> {
    using Given = typename Read<Handle>::Lent;
    typename Access<Handle>::Place place;
    static Lend of(const Read<Handle>& access) noexcept { return {Access<Handle>::place(access.handle)}; }
    Given get() const noexcept(noexcept(Access<Handle>::read(place))) { return Access<Handle>::read(place); }
};

template <class Handle>
struct Lend<Write<Handle>> {
    using Given = typename Write<Handle>::Lent;
    typename Access<Handle>::Place place;
    static Lend of(const Write<Handle>& access) noexcept { return {Access<Handle>::place(access.handle)}; }
    Given get() const noexcept(noexcept(Access<Handle>::write(place))) { return Access<Handle>::write(place); }
};

template <class Handle>
struct Lend<Commute<Handle>> {
    using Given = typename Commute<Handle>::Lent;
    typename Access<Handle>::Place place;
    static Lend of(const Commute<Handle>& access) noexcept { return {Access<Handle>::place(access.handle)}; }
    Given get() const noexcept { return Access<Handle>::write(place); }
};

template <std::size_t at, class Lent>
struct Slot {
    Lent lent;
};

/// The places of a body, one behind another. Other than a tuple it can be copied as bytes.
template <class Indices, class... Accesses>
struct Slots;

template <std::size_t... at, class... Accesses>
struct Slots<std::index_sequence<at...>, Accesses...> : Slot<at, Lend<Accesses>>... {
    explicit Slots(const Accesses&... accesses) noexcept : Slot<at, Lend<Accesses>>{Lend<Accesses>::of(accesses)}... {}

    template <class Call>
    decltype(auto) lend(Call&& call) const {
        return call(static_cast<const Slot<at, Lend<Accesses>>&>(*this).lent.get()...);
    }
};

template <class... Accesses>
using Lending = Slots<std::index_sequence_for<Accesses...>, Accesses...>;

/// Shares of the values of a body that is called more than once.
template <std::size_t count>
struct Shares {
    std::array<Share, count> shares;
};

template <>
struct Shares<0> {};

/// Calls a function with what it takes: the run context first, if it asks for it.
template <class Function, class... Given>
decltype(auto) call_with(Function& function, const RunContext& run, Given&&... given) {
    constexpr bool plain = std::is_invocable_v<Function&, Given...>;
    constexpr bool with_run = std::is_invocable_v<Function&, const RunContext&, Given...>;
    static_assert(plain || with_run,
                  "the function must take what the operation names, in the same order: const T& for read(x), T& for "
                  "write(x), commute(x) and reduce(x), span<const T> and span<T> for tiles; before it a const "
                  "RunContext& if it likes, behind it a Completion if it is asynchronous");
    if constexpr (plain) {
        return function(std::forward<Given>(given)...);
    } else {
        return function(run, std::forward<Given>(given)...);
    }
}

/// A function as a base, which takes no room if it is empty.
template <class Function, bool is_base = std::is_empty_v<Function> && !std::is_final_v<Function>>
struct Callable : Function {
    explicit Callable(Function&& given) : Function(std::move(given)) {}
    Function& function() noexcept { return *this; }
};

template <class Function>
struct Callable<Function, false> {
    explicit Callable(Function&& given) : given(std::move(given)) {}
    Function& function() noexcept { return given; }
    Function given;
};

/// A function with the places that it is lent.
template <class Function, class Lending, class Keeping = Shares<0>>
struct Bound : Keeping, Callable<Function>, Lending {
    Bound(Function&& given, const Lending& places, Keeping&& kept = {})
        : Keeping(std::move(kept)), Callable<Function>(std::move(given)), Lending(places) {}

    decltype(auto) operator()(const RunContext& run) {
        return Lending::lend([&](auto&&... given) -> decltype(auto) {
            return call_with(Callable<Function>::function(), run, std::forward<decltype(given)>(given)...);
        });
    }

    void operator()(const RunContext& run, Completion&& completion) {
        Lending::lend([&](auto&&... given) {
            call_with(Callable<Function>::function(), run, std::forward<decltype(given)>(given)...,
                      std::move(completion));
        });
    }
};

[[noreturn]] inline void refuse_twice() {
    throw Error(ErrorKind::borrow_conflict,
                "an operation names a value twice, once to change it: its function would have two references to one "
                "value; name it once, with write()");
}

/// Throws if a value is named twice, once to be changed.
template <class... Accesses>
void check_aliases(const Accesses&... accesses) {
    constexpr std::size_t count = sizeof...(Accesses);
    if constexpr (count > 1 && (Accesses::changes || ...)) {
        const Owner* owners[] = {Access<std::decay_t<decltype(accesses.handle)>>::share(accesses.handle).owner()...};
        constexpr bool changes[] = {Accesses::changes...};
        for (std::size_t one = 0; one + 1 < count; ++one) {
            for (std::size_t other = one + 1; other < count; ++other) {
                if ((changes[one] || changes[other]) && owners[one] == owners[other]) refuse_twice();
            }
        }
    }
}

/// Shares of the values of accesses.
template <class... Accesses>
Shares<sizeof...(Accesses)> shares_of(const Accesses&... accesses) {
    if constexpr (sizeof...(Accesses) == 0) {
        return {};
    } else {
        return {{Access<std::decay_t<decltype(accesses.handle)>>::share(accesses.handle)...}};
    }
}

}  // namespace detail
}  // namespace seriatim

#endif
