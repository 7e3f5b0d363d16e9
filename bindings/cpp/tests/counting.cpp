// Counts what the binding and the tests allocate. What the library allocates is not of this
// allocator: its own tests count that.

#include <atomic>
#include <cstdlib>
#include <new>

#include <seriatim/detail/sanitizer.hpp>

std::atomic<long> allocations{0};

#if !defined(SERIATIM_TSAN) && !defined(SERIATIM_ASAN)

void* operator new(std::size_t size) {
    ++allocations;
    if (void* memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    ++allocations;
    std::size_t unit = static_cast<std::size_t>(alignment);
    if (void* memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
