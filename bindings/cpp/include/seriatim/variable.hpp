// `Variable`: a token for anything that operations read or change. `engine.hpp` makes one.

#ifndef SERIATIM_VARIABLE_HPP
#define SERIATIM_VARIABLE_HPP

#include <utility>

#include <seriatim/detail/core.hpp>

namespace seriatim {
namespace detail {

/// A variable, and nothing that lies behind it.
class Token final : public Kept {
public:
    explicit Token(Core& core) : Kept(core) {}
};

}  // namespace detail

/// A variable. When it is destroyed the engine deletes it behind its last use. It can be moved and
/// not copied; `raw()` is a plain copy of the handle, for declarations and for the C interface.
///
///     seriatim::Variable x = engine.variable();
///     engine.op("fill").writes(x).run([&buffer] { fill(buffer); });
///     engine.wait_for(x);
///
/// What it stands for, nothing checks: a `Value` (`value.hpp`) is lent to those who declare it.
class Variable {
public:
    /// For `Engine::variable`.
    explicit Variable(detail::Core& core) : token_(new detail::Token(core)) {}

    Variable(Variable&& other) noexcept : token_(std::exchange(other.token_, nullptr)) {}

    Variable& operator=(Variable&& other) noexcept {
        std::swap(token_, other.token_);
        return *this;
    }

    ~Variable() {
        if (token_ != nullptr) token_->retire();
    }

    SeriatimVariable raw() const noexcept { return token_->variable(); }
    operator SeriatimVariable() const noexcept { return raw(); }

private:
    detail::Token* token_;
};

}  // namespace seriatim

#endif
