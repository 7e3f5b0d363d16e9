// Times, as the C interface has them.

#ifndef SERIATIM_DETAIL_TIME_HPP
#define SERIATIM_DETAIL_TIME_HPP

#include <chrono>
#include <cstdint>
#include <limits>

namespace seriatim::detail {

/// Nanoseconds: none for a time that is over, and the most there are for one that is longer.
template <class Rep, class Period>
std::uint64_t nanoseconds(std::chrono::duration<Rep, Period> time) noexcept {
    if (time <= time.zero()) return 0;
    constexpr double most = static_cast<double>(std::numeric_limits<std::int64_t>::max());
    double about = std::chrono::duration<double, std::nano>(time).count();
    if (about >= most) return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

}  // namespace seriatim::detail

#endif
