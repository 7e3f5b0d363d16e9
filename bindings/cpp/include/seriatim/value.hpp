// `Value` and `Tile`: values that operations are lent. `access.hpp` lends them, `guard.hpp` lends
// them to a thread outside of operations. `engine.hpp` makes them.
//
// A value lies in an owner, which its handles share. Operations count nothing: the last handle has
// the engine delete the variable, and the owner behind the last use. If the engine refuses that, it
// keeps the owner until it has ended (`detail/core.hpp`). Operations of graphs and operators may
// come at any time, so they have handles.

#ifndef SERIATIM_VALUE_HPP
#define SERIATIM_VALUE_HPP

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <seriatim/detail/core.hpp>
#include <seriatim/span.hpp>

namespace seriatim {

template <class T>
class ReadGuard;
template <class T>
class WriteGuard;

namespace detail {

/// What the handles of one value share.
class Owner : public Kept {
public:
    void share() noexcept { handles_.fetch_add(1, std::memory_order_relaxed); }

    void let_go() noexcept {
        // AcqRel: who retires it has seen what was done by the other handles.
        if (handles_.fetch_sub(1, std::memory_order_acq_rel) == 1) retire();
    }

protected:
    explicit Owner(Core& core, Sort sort = Sort::plain) : Kept(core, sort) {}

private:
    std::atomic<std::size_t> handles_{1};
};

template <class T>
class ValueOwner final : public Owner {
public:
    template <class... Arguments>
    explicit ValueOwner(Sort sort, Core& core, Arguments&&... arguments)
        : Owner(core, sort), value(std::forward<Arguments>(arguments)...) {}

    T value;
};

/// A part of an array, whose memory its other parts share.
template <class T>
class TileOwner final : public Owner {
public:
    TileOwner(Core& core, std::shared_ptr<std::vector<T>> array) : Owner(core), array_(std::move(array)) {}

private:
    std::shared_ptr<std::vector<T>> array_;
};

/// A share of an owner.
class Share {
public:
    /// Takes over one that the owner counts already.
    explicit Share(Owner* owner) noexcept : owner_(owner) {}
    Share(const Share& other) noexcept : owner_(other.owner_) {
        if (owner_ != nullptr) owner_->share();
    }
    Share(Share&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    Share& operator=(Share other) noexcept {
        std::swap(owner_, other.owner_);
        return *this;
    }
    ~Share() {
        if (owner_ != nullptr) owner_->let_go();
    }

    Owner* owner() const noexcept { return owner_; }

private:
    Owner* owner_;
};

}  // namespace detail

/// A value that operations are lent: a `const T&` where an operation reads it, a `T&` where it
/// changes it.
///
///     auto x = engine.value(std::vector<double>(1000, 1.0));
///     auto y = engine.value(std::vector<double>(1000, 2.0));
///     engine.run(read(x), write(y), [](const std::vector<double>& x, std::vector<double>& y) {
///         for (std::size_t at = 0; at < y.size(); ++at) y[at] += 3 * x[at];
///     });
///     std::cout << (*y.read())[0];
///
/// A handle reaches nothing by itself, so what an operation has not declared it cannot touch; to
/// change what was declared to be read does not compile. A reference that a function is given is
/// valid until its operation ends: do not keep it.
///
/// Copies of a handle are the same value. When the last one is gone, the value lives until the last
/// operation that uses it has ended, and is destroyed on any thread. A value may outlive its
/// engine: then only its handles keep it.
template <class T>
class Value {
public:
    /// For `Engine::value`.
    explicit Value(detail::ValueOwner<T>* owner) noexcept : share_(owner), place_(&owner->value) {}

    /// The variable that stands for the value: to order operations that do not use it with those
    /// that do, and to wait for it. It reaches no value.
    SeriatimVariable variable() const noexcept { return share_.owner()->variable(); }
    operator SeriatimVariable() const noexcept { return variable(); }

    /// Waits until the operations that change the value and were pushed before have ended, and
    /// reads it: see `guard.hpp`.
    ReadGuard<T> read() const;

    /// Waits until the operations that use the value and were pushed before have ended, and changes
    /// it.
    WriteGuard<T> write() const;

private:
    template <class>
    friend struct Access;

    detail::Share share_;
    T* place_;
};

/// A part of an array that operations are lent as a `span<const T>` or a `span<T>`. Tiles do not
/// overlap, and the array lives as long as one of them. `Engine::tiles` makes them. Otherwise it is
/// as a `Value`.
template <class T>
class Tile {
public:
    /// For `Engine::tiles`.
    Tile(detail::TileOwner<T>* owner, span<T> part) noexcept : share_(owner), part_(part) {}

    SeriatimVariable variable() const noexcept { return share_.owner()->variable(); }
    operator SeriatimVariable() const noexcept { return variable(); }

    std::size_t size() const noexcept { return part_.size(); }

    ReadGuard<span<T>> read() const;
    WriteGuard<span<T>> write() const;

private:
    template <class>
    friend struct Access;

    detail::Share share_;
    span<T> part_;
};

/// How a handle's value is reached. For the headers of this binding.
template <class Handle>
struct Access;

template <class T>
struct Access<Value<T>> {
    using Place = T*;
    static Place place(const Value<T>& value) noexcept { return value.place_; }
    static const detail::Share& share(const Value<T>& value) noexcept { return value.share_; }
    static const T& read(Place place) noexcept { return *place; }
    static T& write(Place place) noexcept { return *place; }
};

template <class T>
struct Access<Tile<T>> {
    using Place = span<T>;
    static Place place(const Tile<T>& tile) noexcept { return tile.part_; }
    static const detail::Share& share(const Tile<T>& tile) noexcept { return tile.share_; }
    static span<const T> read(Place place) noexcept { return place; }
    static span<T> write(Place place) noexcept { return place; }
};

}  // namespace seriatim

#endif
