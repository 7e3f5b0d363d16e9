// From data to tasks: what a peer needs that orders tasks by naming others, and knows nothing of
// the variables that they use.
#ifndef SERIATIM_ORDER_HPP
#define SERIATIM_ORDER_HPP

#include <cstdint>
#include <vector>

#include "peer.h"

// Finds what an operation has to come after, as who writes such tasks by hand would: the writer
// before precedes the readers since, so the next writer follows only those; and one that precedes
// by several variables is named once. `Operation` is what names one.
template <typename Operation> class Order {
  public:
    explicit Order(const perf_program &program) : program(program), variables(program.variables) {}

    // Calls `precede` with each one that comes right before `operation`, which is the next to be
    // added.
    template <typename Precede> void before(uint32_t operation, Precede precede) {
        place++;
        const auto once = [&](Past &past) {
            Edge &known = edges[past.place % (sizeof edges / sizeof *edges)];
            if (past.place == 0 || (known.before == past.place && known.after == place)) {
                return;
            }
            known = {past.place, place};
            precede(past.operation);
        };
        for (uint32_t read : reads(operation)) {
            once(variables[read].writer);
        }
        for (uint32_t written : writes(operation)) {
            Variable &variable = variables[written];
            if (variable.readers.empty()) {
                once(variable.writer);
            }
            for (Past &reader : variable.readers) {
                once(reader);
            }
        }
    }

    // Keeps `name` for those that come after `operation`.
    template <typename Name> void add(uint32_t operation, const Name &name) {
        for (uint32_t read : reads(operation)) {
            variables[read].readers.emplace_back(name, place);
        }
        for (uint32_t written : writes(operation)) {
            Variable &variable = variables[written];
            variable.readers.clear(); // That keeps the memory.
            variable.writer.operation = name;
            variable.writer.place = place;
        }
    }

  private:
    struct Past {
        Operation operation{};
        uint64_t place = 0; // Counted from 1; 0 if there is none.

        Past() = default;
        template <typename Name> Past(const Name &name, uint64_t place) : operation(name), place(place) {}
    };

    struct Variable {
        Past writer;
        std::vector<Past> readers; // Those since the writer.
    };

    struct Edge {
        uint64_t before, after;
    };

    struct Slice {
        const uint32_t *first, *last;
        const uint32_t *begin() const { return first; }
        const uint32_t *end() const { return last; }
    };

    Slice reads(uint32_t operation) const {
        return {program.reads + program.read_ends[operation], program.reads + program.read_ends[operation + 1]};
    }

    Slice writes(uint32_t operation) const {
        return {program.writes + program.write_ends[operation], program.writes + program.write_ends[operation + 1]};
    }

    const perf_program &program;
    std::vector<Variable> variables;
    uint64_t place = 0;
    Edge edges[64] = {}; // The latest, to know them again. One that was overwritten is made twice, which does no harm.
};

#endif
