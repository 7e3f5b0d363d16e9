// Runs the tests of the binding: all, or those of the groups that are named. With ONLY it has one
// group alone, for builds that shall not take long.

#include "check.hpp"

#include <cstring>
#include <utility>

int main(int count, char** names) {
    const std::pair<const char*, void (*)()> groups[] = {
#ifdef ONLY
        {"only", ONLY},
#else
        {"semantics", run_semantics}, {"values", run_values}, {"failures", run_failures},
        {"asynchronous", run_asynchronous}, {"graphs", run_graphs}, {"memory", run_memory},
        {"modes", run_modes},
#endif
    };
    int ran = 0;
    for (auto [name, run] : groups) {
        bool is_named = count == 1;
        for (int at = 1; at < count; ++at) is_named = is_named || std::strcmp(names[at], name) == 0;
        if (!is_named) continue;
        run();
        ++ran;
        std::printf("%s: well\n", name);
    }
    return ran > 0 ? 0 : 2;
}
