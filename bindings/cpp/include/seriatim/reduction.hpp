// `Reduction`: a value to which many operations add parts at once, each in one of several copies,
// which are combined before the value is next used. `engine.hpp` makes them.
//
// There is nothing of reductions in the engine: the value and each copy have a variable. An
// operation that reduces reads the value's variable, by which it keeps its place, and commutes on
// that of one copy, or writes it if the reduction is ordered. Any other use writes the value's
// variable, so it comes behind all parts before it and is alone, and reads those of the copies,
// whose marks tell of parts that have failed. The first such use combines the copies, on its
// thread.
//
// The functions of the C interface for reductions are not used: they lend memory that the library
// has asked for, which neither the types here nor ThreadSanitizer would see through.

#ifndef SERIATIM_REDUCTION_HPP
#define SERIATIM_REDUCTION_HPP

#include <atomic>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <seriatim/access.hpp>
#include <seriatim/guard.hpp>
#include <seriatim/value.hpp>

namespace seriatim {
namespace detail {

/// What the handles of one reduction share.
template <class T>
class ReductionOwner final : public Owner {
public:
    ReductionOwner(Core& core, std::size_t copies, Sort sort, std::function<T()> identity,
                   std::function<void(T&, T&&)> combine)
        : Owner(core), identity_(std::move(identity)), combine_(std::move(combine)), total_(identity_()),
          commutes_(sort == Sort::commutative) {
        copies_.reserve(copies);
        variables_.reserve(copies);
        for (std::size_t at = 0; at < copies; ++at) {
            copies_.emplace_back(new ValueOwner<T>(sort, core, identity_()));
            variables_.push_back(copies_.back().variable());
        }
    }

    bool commutes() const noexcept { return commutes_; }

    const std::vector<SeriatimVariable>& variables() const noexcept { return variables_; }

    /// The copy of the next operation that reduces. Relaxed: each gets a number of its own, in the
    /// order of the pushes of one thread.
    const Value<T>& next() noexcept {
        return copies_[pushed_.fetch_add(1, std::memory_order_relaxed) % copies_.size()];
    }

    /// Relaxed: who asks comes behind the operation that is lent it.
    void part_is_lent() noexcept { is_parted_.store(true, std::memory_order_relaxed); }

    /// The value, behind all copies. For one who has it alone.
    T& whole() {
        if (is_parted_.exchange(false, std::memory_order_relaxed)) {
            std::size_t count = copies_.size();
            for (std::size_t stride = 1; stride < count; stride *= 2) {
                for (std::size_t at = 0; at + stride < count; at += 2 * stride) add(copy(at), at + stride);
            }
            add(total_, 0);
        }
        return total_;
    }

private:
    T& copy(std::size_t at) noexcept { return *Access<Value<T>>::place(copies_[at]); }

    void add(T& into, std::size_t at) {
        T part = std::exchange(copy(at), identity_());
        combine_(into, std::move(part));
    }

    std::function<T()> identity_;
    std::function<void(T&, T&&)> combine_;
    T total_;
    bool commutes_;
    std::vector<Value<T>> copies_;
    std::vector<SeriatimVariable> variables_;
    std::atomic<std::size_t> pushed_{0};
    std::atomic<bool> is_parted_{false};
};

}  // namespace detail

/// The value of a reduction that the calling thread reads, from `Reduction::read`. Operations that
/// use the value wait until it is destroyed; otherwise it is as a `WriteGuard`.
template <class T>
class ReductionGuard {
public:
    ReductionGuard(const detail::Share& share, detail::ReductionOwner<T>* owner)
        : held_(share, true, owner->variables()), value_(&owner->whole()) {}

    const T& operator*() const noexcept { return *value_; }
    const T* operator->() const noexcept { return value_; }

private:
    detail::Held held_;
    const T* value_;
};

/// A value to which operations add at once. One that names `reduce(sum)` is lent a copy as a `T&`,
/// and adds its part to what it finds there: copies begin as what `identity()` makes. One that
/// names `read(sum)` or `write(sum)` is lent the value, into which all parts that were pushed
/// before have been combined by then; such operations run one at a time.
///
///     auto sum = engine.reduction([] { return 0L; }, [](long& sum, long part) { sum += part; });
///     for (auto& block : blocks) {
///         engine.run(read(block), reduce(sum), [](const Block& block, long& sum) {
///             for (long number : block) sum += number;
///         });
///     }
///     std::cout << *sum.read();
///
/// An operation that reduces and fails fails what uses the value, as a write does. If `identity` or
/// `combine` throws, the use that combines the copies does, and parts are missing.
///
/// Copies of a handle are the same reduction. Graphs and operators may read and write it, and do
/// not reduce: `make_operator(reduce(sum), …)` does not compile.
template <class T>
class Reduction {
public:
    /// For `Engine::reduction`.
    explicit Reduction(detail::ReductionOwner<T>* owner) noexcept : share_(owner), owner_(owner) {}

    /// The variable that stands for the value: what writes it comes behind all parts that were
    /// pushed before, what reads it behind uses of the value. A part that fails leaves no mark
    /// there.
    SeriatimVariable variable() const noexcept { return owner_->variable(); }

    /// Waits until every part that was pushed before is added, combines them, and reads the value.
    /// Throws what a part has failed with, and what `identity` or `combine` throws; otherwise as
    /// `Value::read`.
    ReductionGuard<T> read() const { return ReductionGuard<T>(share_, owner_); }

    /// Whether operations commute on the copies: not of an ordered one.
    bool commutes() const noexcept { return owner_->commutes(); }

    /// Declares what a use of the value uses. For the headers of this binding.
    template <class Claims>
    void claim(Claims& claims) const {
        claims.writes.add(variable());
        claims.reads.add_all(owner_->variables());
    }

private:
    template <class>
    friend struct Access;

    detail::Share share_;
    detail::ReductionOwner<T>* owner_;
};

template <class T>
struct Access<Reduction<T>> {
    using Place = detail::ReductionOwner<T>*;
    static Place place(const Reduction<T>& reduction) noexcept { return reduction.owner_; }
    static const detail::Share& share(const Reduction<T>& reduction) noexcept { return reduction.share_; }
    static const T& read(Place place) { return place->whole(); }
    static T& write(Place place) { return place->whole(); }
};

/// Says that an operation adds a part to a reduction: its function is given a copy, as a `T&`. Made
/// by `reduce`, which chooses the copy: for one operation each.
template <class T>
struct Reduce<Reduction<T>> {
    using Lent = T&;
    static constexpr bool changes = true;
    const Reduction<T>& handle;
    const Value<T>& copy;
};

template <class T>
Reduce<Reduction<T>> reduce(const Reduction<T>& reduction) noexcept {
    return {reduction, Access<Reduction<T>>::place(reduction)->next()};
}
template <class T>
Read<Reduction<T>> read(const Reduction<T>& reduction) noexcept {
    return {reduction};
}
template <class T>
Write<Reduction<T>> write(const Reduction<T>& reduction) noexcept {
    return {reduction};
}

namespace detail {

template <class T>
struct Lend<Reduce<Reduction<T>>> {
    using Given = T&;
    T* place;
    ReductionOwner<T>* owner;
    static Lend of(const Reduce<Reduction<T>>& access) noexcept {
        return {Access<Value<T>>::place(access.copy), Access<Reduction<T>>::place(access.handle)};
    }
    Given get() const noexcept {
        owner->part_is_lent();
        return *place;
    }
};

}  // namespace detail
}  // namespace seriatim

#endif
