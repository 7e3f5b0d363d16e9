// `Claims`: the variables that an operation declares, on their way to the C interface. Up to eight
// reads and eight writes cost no allocation.

#ifndef SERIATIM_DETAIL_CLAIMS_HPP
#define SERIATIM_DETAIL_CLAIMS_HPP

#include <cstddef>
#include <type_traits>
#include <vector>

#include <seriatim.h>

#include <seriatim/access.hpp>

namespace seriatim::detail {

class VariableList {
public:
    void add(SeriatimVariable variable) {
        if (count_ < room && many_.empty()) {
            few_[count_] = variable;
        } else {
            if (many_.empty()) many_.assign(few_, few_ + count_);
            many_.push_back(variable);
        }
        ++count_;
    }

    /// A variable, or what has one, or a range of them.
    template <class Variables>
    void add_all(const Variables& variables) {
        if constexpr (std::is_convertible_v<const Variables&, SeriatimVariable>) {
            add(variables);
        } else {
            for (const auto& variable : variables) add(variable);
        }
    }

    const SeriatimVariable* data() const noexcept { return count_ <= room ? few_ : many_.data(); }
    std::size_t size() const noexcept { return count_; }

private:
    static constexpr std::size_t room = 8;

    // Not initialised: most operations have one or two.
    SeriatimVariable few_[room];
    std::size_t count_ = 0;
    std::vector<SeriatimVariable> many_;
};

struct Claims {
    VariableList reads, writes;

    template <class Handle>
    void add(const Read<Handle>& access) {
        reads.add(access.handle.variable());
    }
    template <class Handle>
    void add(const Write<Handle>& access) {
        writes.add(access.handle.variable());
    }
    /// Those have a list of their own: `Commuting`.
    template <class Handle>
    void add(const Commute<Handle>&) noexcept {}

    template <class T>
    void add(const Read<Reduction<T>>& access) {
        access.handle.claim(*this);
    }
    template <class T>
    void add(const Write<Reduction<T>>& access) {
        access.handle.claim(*this);
    }
    template <class T>
    void add(const Reduce<Reduction<T>>& access) {
        reads.add(access.handle.variable());
        if (!access.handle.commutes()) writes.add(access.copy.variable());
    }

    /// Puts the lists into an operation, which points into this then.
    void enter(SeriatimOperation& operation) const noexcept {
        operation.reads = reads.data();
        operation.read_count = reads.size();
        operation.writes = writes.data();
        operation.write_count = writes.size();
    }
};

}  // namespace seriatim::detail

#endif
