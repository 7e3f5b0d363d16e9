// `Describe`: what `Operation` and `CapturedOperation` have in common, which is all but how they
// are pushed.

#ifndef SERIATIM_DETAIL_DESCRIBE_HPP
#define SERIATIM_DETAIL_DESCRIBE_HPP

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include <seriatim/access.hpp>
#include <seriatim/detail/call.hpp>
#include <seriatim/detail/claims.hpp>
#include <seriatim/run_context.hpp>

namespace seriatim::detail {

/// The settings of an operation, and what it uses. `Self` is what derives from it.
template <class Self>
class Describe {
public:
    Describe(const Describe&) = delete;
    Describe& operator=(const Describe&) = delete;

    /// Declares variables that the operation reads, beside what its function is lent: variables,
    /// values and tiles, and ranges of them. Repeats are harmless, and what it also changes counts
    /// as changed.
    template <class... Variables>
    Self& reads(const Variables&... variables) {
        (claims_.reads.add_all(variables), ...);
        return self();
    }

    /// Declares variables that the operation changes.
    template <class... Variables>
    Self& writes(const Variables&... variables) {
        (claims_.writes.add_all(variables), ...);
        return self();
    }

    /// Among ready operations, greater priorities run first; equal ones in push order. An operator
    /// is given it with each use.
    Self& priority(std::int32_t priority) {
        operation_.priority = priority;
        return self();
    }

    Self& property(Property property) {
        operation_.property = static_cast<std::uint32_t>(property);
        return self();
    }

    /// Where it runs. An operator is given it with each use.
    Self& context(Context context) {
        operation_.context = {context.device, context.id};
        return self();
    }

    /// Records it in the profile, if it has a name, whether the profiler is on or not.
    Self& profiled() {
        operation_.profiled = 1;
        return self();
    }

protected:
    explicit Describe(const char* name) { operation_.name = name; }
    ~Describe() = default;

    /// Enters accesses, and makes a body of them and the function.
    template <class Keeping, class Function, class... Accesses>
    auto bind(Function&& function, const Accesses&... accesses) {
        static_assert((is_access<Accesses> && ...),
                      "before the function stands what the operation uses: read(x) and write(y) of values and tiles; "
                      "variables are for reads() and writes()");
        check_aliases(accesses...);
        (claims_.add(accesses), ...);
        using Bare = std::decay_t<Function>;
        using Body = Bound<Bare, Lending<Accesses...>, Keeping>;
        if constexpr (std::is_empty_v<Keeping>) {
            return Body(Bare(std::forward<Function>(function)), Lending<Accesses...>(accesses...));
        } else {
            return Body(Bare(std::forward<Function>(function)), Lending<Accesses...>(accesses...),
                        shares_of(accesses...));
        }
    }

    /// The operation for the C interface, which points into this.
    SeriatimOperation& described() noexcept {
        claims_.enter(operation_);
        return operation_;
    }

    Claims claims_;
    SeriatimOperation operation_{};

private:
    Self& self() noexcept { return static_cast<Self&>(*this); }
};

/// Calls `call` with the last of several arguments, and then the others.
template <class Call, class Tuple, std::size_t... at>
decltype(auto) with_last_of(Call&& call, Tuple&& given, std::index_sequence<at...>) {
    return call(std::get<sizeof...(at)>(std::forward<Tuple>(given)), std::get<at>(given)...);
}

template <class Call, class... Given>
decltype(auto) with_last(Call&& call, Given&&... given) {
    static_assert(sizeof...(Given) > 0, "there is no function");
    return with_last_of(std::forward<Call>(call), std::forward_as_tuple(std::forward<Given>(given)...),
                     std::make_index_sequence<sizeof...(Given) - 1>{});
}

template <class Body>
using ResultOf = decltype(std::declval<Body&>()(std::declval<const RunContext&>()));

/// The function of an operation that has no result.
template <class Body>
constexpr void check_void() {
    static_assert(std::is_void_v<ResultOf<Body>>,
                  "the function returns a value, which nobody would get: use compute(), or return nothing; to fail, "
                  "throw an exception");
}

}  // namespace seriatim::detail

#endif
