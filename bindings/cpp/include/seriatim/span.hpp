// `seriatim::span`: that of the standard library from C++20 on, and before that the part of it that
// this binding needs.

#ifndef SERIATIM_SPAN_HPP
#define SERIATIM_SPAN_HPP

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

#if __cplusplus >= 202002L && defined(__has_include)
#if __has_include(<span>)
#include <span>
#define SERIATIM_HAS_SPAN 1
#endif
#endif

namespace seriatim {

#ifdef SERIATIM_HAS_SPAN

using std::span;

#else

/// A view of elements that lie one after another.
template <class T>
class span {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using size_type = std::size_t;
    using iterator = T*;

    constexpr span() noexcept = default;
    constexpr span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}

    template <std::size_t Size>
    constexpr span(T (&array)[Size]) noexcept : data_(array), size_(Size) {}

    /// Of anything that has `data()` and `size()`, such as a vector or another span.
    template <class Range, class Data = decltype(std::data(std::declval<Range&>())),
              class = std::enable_if_t<std::is_convertible_v<std::remove_pointer_t<Data> (*)[], T (*)[]>>>
    constexpr span(Range&& range) noexcept : data_(std::data(range)), size_(std::size(range)) {}

    constexpr T* data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T* begin() const noexcept { return data_; }
    constexpr T* end() const noexcept { return data_ + size_; }
    constexpr T& operator[](std::size_t at) const { return data_[at]; }
    constexpr T& front() const { return data_[0]; }
    constexpr T& back() const { return data_[size_ - 1]; }
    constexpr span first(std::size_t count) const { return {data_, count}; }
    constexpr span last(std::size_t count) const { return {data_ + (size_ - count), count}; }
    constexpr span subspan(std::size_t from, std::size_t count) const { return {data_ + from, count}; }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

#endif

}  // namespace seriatim

#endif
