// The memory of functions that do not fit into a pointer: cells of 128 bytes, which are used again
// and again, so that in steady state a push of a function of up to 112 bytes allocates nothing.
// `call.hpp` uses this.
//
// Each thread has a shelf, and takes the cells of its pushes from there. A cell goes back to the
// shelf that it came from, by any thread: the shelf's own thread puts it on a list of its own,
// others push it onto the list `returned_`. No thread waits for another. Only the whole list is
// ever taken out of `returned_`, so a push that meets a cell which was there before and has come
// again does no harm.
//
// Shelves and cells are never freed. A thread that begins takes over the shelf of one that has
// ended: there are as many shelves as there were threads at once, and each has as many cells as it
// ever had at once.

#ifndef SERIATIM_DETAIL_POOL_HPP
#define SERIATIM_DETAIL_POOL_HPP

#include <atomic>
#include <cstddef>
#include <new>

namespace seriatim::detail {

class Shelf;

/// A cell: this, and the bytes behind it.
struct alignas(16) Cell {
    Shelf* home;
    Cell* next;
};

inline constexpr std::size_t cell_size = 128;
inline constexpr std::size_t cell_room = cell_size - sizeof(Cell);
inline constexpr std::size_t cells_at_once = 64;

class Shelf {
public:
    /// A cell, for the shelf's own thread.
    Cell* take() {
        if (free_ == nullptr) fill();
        Cell* cell = free_;
        free_ = cell->next;
        return cell;
    }

    /// A cell, if one is at hand.
    Cell* take_quickly() noexcept {
        Cell* cell = free_;
        if (cell != nullptr) free_ = cell->next;
        return cell;
    }

    /// Takes a cell of its own back, on its own thread.
    void put(Cell* cell) noexcept {
        cell->next = free_;
        free_ = cell;
    }

    /// Takes a cell of its own back, on another thread.
    void put_from_elsewhere(Cell* cell) noexcept {
        Cell* first = returned_.load(std::memory_order_relaxed);
        do {
            cell->next = first;
            // Release: pairs with the acquire in `fill`, for who uses the cell next.
        } while (!returned_.compare_exchange_weak(first, cell, std::memory_order_release, std::memory_order_relaxed));
    }

    /// A shelf that no other thread has until `leave`.
    static Shelf* occupy() {
        // Acquire: pairs with the release in `make`.
        for (Shelf* shelf = newest.load(std::memory_order_acquire); shelf != nullptr; shelf = shelf->before_) {
            bool is_occupied = false;
            // Acquire: pairs with the release in `leave`, for the list of the thread before.
            if (shelf->occupied_.compare_exchange_strong(is_occupied, true, std::memory_order_acquire,
                                                         std::memory_order_relaxed)) {
                return shelf;
            }
        }
        return make();
    }

    void leave() noexcept { occupied_.store(false, std::memory_order_release); }

private:
    static Shelf* make() {
        Shelf* shelf = new Shelf;
        shelf->before_ = newest.load(std::memory_order_relaxed);
        // Release: a thread that finds the shelf finds what is in it.
        while (!newest.compare_exchange_weak(shelf->before_, shelf, std::memory_order_release,
                                             std::memory_order_relaxed)) {
        }
        return shelf;
    }

    /// Takes what has come back, or else makes cells.
    void fill() {
        free_ = returned_.exchange(nullptr, std::memory_order_acquire);
        if (free_ != nullptr) return;
        constexpr std::size_t bytes = cell_size * cells_at_once;
        auto* memory = static_cast<unsigned char*>(::operator new(bytes, std::align_val_t{64}));
        for (std::size_t at = 0; at < bytes; at += cell_size) put(new (memory + at) Cell{this, nullptr});
    }

    static inline std::atomic<Shelf*> newest{nullptr};

    Cell* free_ = nullptr;
    std::atomic<bool> occupied_{true};
    Shelf* before_ = nullptr;
    alignas(64) std::atomic<Cell*> returned_{nullptr};
};

/// The thread's shelf, once it has pushed.
inline thread_local Shelf* own_shelf = nullptr;

/// Whether the thread is at its end, and has given its shelf up.
inline thread_local bool has_left = false;

/// Gives the shelf up when the thread ends.
struct LeavesShelf {
    ~LeavesShelf() {
        own_shelf->leave();
        own_shelf = nullptr;
        has_left = true;
    }
};

[[gnu::noinline]] inline Cell* take_cell_slowly() {
    if (own_shelf != nullptr) return own_shelf->take();
    Shelf* shelf = Shelf::occupy();
    if (has_left) {
        // Destructors of the thread's other objects push: each has a shelf for a moment.
        struct Leaves {
            Shelf* shelf;
            ~Leaves() { shelf->leave(); }
        } leaves{shelf};
        return shelf->take();
    }
    own_shelf = shelf;
    static thread_local LeavesShelf leaves;
    static_cast<void>(leaves);
    return shelf->take();
}

/// Memory of `cell_room` bytes, aligned to 16. Throws `std::bad_alloc`.
inline void* take_cell() {
    Cell* cell = own_shelf != nullptr ? own_shelf->take_quickly() : nullptr;
    if (cell == nullptr) cell = take_cell_slowly();
    return cell + 1;
}

/// Gives memory of `take_cell` back, on any thread.
inline void put_cell(void* memory) noexcept {
    Cell* cell = static_cast<Cell*>(memory) - 1;
    if (cell->home == own_shelf) {
        cell->home->put(cell);
    } else {
        cell->home->put_from_elsewhere(cell);
    }
}

}  // namespace seriatim::detail

#endif
