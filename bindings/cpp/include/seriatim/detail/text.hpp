// Texts that the library makes.

#ifndef SERIATIM_DETAIL_TEXT_HPP
#define SERIATIM_DETAIL_TEXT_HPP

#include <memory>
#include <string>

#include <seriatim/error.hpp>

namespace seriatim::detail {

/// The text that a call puts into its argument.
template <class Call>
std::string text_of(Call call) {
    struct Frees {
        void operator()(char* text) const noexcept { seriatim_string_free(text); }
    };
    char* out = nullptr;
    check(call(&out));
    std::unique_ptr<char, Frees> text(out);
    return text.get();
}

}  // namespace seriatim::detail

#endif
