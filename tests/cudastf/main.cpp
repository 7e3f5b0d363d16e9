// Runs random programs (program.cpp), each in a process of its own, and says what was found.
//
//   programs FIRST COUNT               silent: no report of the stand-in, and no wrong value
//   programs FIRST COUNT FAULT EVERY   the same with a fault of the driver at each so many-th
//                                      occasion: four of five programs that met one are found
//
// FAULT is a number of ../cuda-standin/src/planted.rs, as `FAULTS` has them.
//
// Exit status: 0 if it is so; 1 if not; 2 wrong arguments.

#include "programs.h"
#include "standin.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>

namespace {

/// Seconds that a program may take.
constexpr unsigned LIMIT = 60;

const char* const FAULTS[] = {
    "waits are swallowed",
    "events are recorded too early",
    "events are said to be done too early",
    "streams are not waited for",
};

/// What a process that has run a program ends with.
enum Outcome { SILENT = 10, FOUND, WITHOUT_FAULT };

/// What this process has run, for `end`.
struct {
    uint64_t seed;
    Planted planted;
    bool is_to_be_said;
} own;

void say(uint64_t seed, const std::string& said) {
    printf("the first that is found, %llu: %s\n", static_cast<unsigned long long>(seed), said.c_str());
    fflush(stdout);
}

/// Ends the process of a program, and says what was found if that is asked for.
[[noreturn]] void end(std::string said) {
    // What the checker says explains what comes of it.
    char report[300];
    if (standin_report(0, report, sizeof report) > 0) {
        said = report;
    }
    const bool is_without_fault = own.planted.every > 0 && standin_planted() == 0;
    if (!said.empty() && own.is_to_be_said) {
        say(own.seed, said);
    }
    _exit(!said.empty() ? FOUND : is_without_fault ? WITHOUT_FAULT : SILENT);
}

/// In a process of its own: runs a program.
[[noreturn]] void run(uint64_t seed, Planted planted, bool is_to_be_said) {
    own = {seed, planted, is_to_be_said};
    alarm(LIMIT);
    // CUDASTF says why it ends a process, for each call that fails.
    if (planted.every > 0 && freopen("/dev/null", "w", stderr) == nullptr) {
        _exit(1);
    }
    signal(SIGABRT, [](int) { end("a call has failed, by which CUDASTF ends its process"); });
    try {
        end(run_program(seed, planted));
    } catch (const std::exception& thrown) {
        end(thrown.what());
    }
}

/// Runs a program in a process of its own.
Outcome run_apart(uint64_t seed, Planted planted, bool is_to_be_said) {
    const pid_t child = fork();
    if (child == 0) {
        run(seed, planted, is_to_be_said);
    }
    int status = 0;
    waitpid(child, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (code == SILENT || code == FOUND || code == WITHOUT_FAULT) {
        return static_cast<Outcome>(code);
    }
    if (is_to_be_said) {
        const bool by_signal = WIFSIGNALED(status);
        say(seed, by_signal ? "ended by signal " + std::to_string(WTERMSIG(status))
                            : "ended with status " + std::to_string(code));
    }
    return FOUND;
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3 && count != 5) {
        fputs("programs: wants FIRST COUNT, or FIRST COUNT FAULT EVERY\n", stderr);
        return 2;
    }
    const uint64_t first = strtoull(arguments[1], nullptr, 10);
    const uint64_t programs = strtoull(arguments[2], nullptr, 10);
    Planted planted{};
    if (count == 5) {
        planted = {strtoull(arguments[3], nullptr, 10), strtoull(arguments[4], nullptr, 10)};
        if (planted.fault >= std::size(FAULTS) || planted.every == 0) {
            fputs("programs: there is no such fault\n", stderr);
            return 2;
        }
    }
    uint64_t of[3] = {};
    for (uint64_t seed = first; seed < first + programs; ++seed) {
        const Outcome outcome = run_apart(seed, planted, of[FOUND - SILENT] == 0);
        ++of[outcome - SILENT];
    }
    const auto silent = static_cast<unsigned long long>(of[0]), found = static_cast<unsigned long long>(of[1]);
    if (count == 3) {
        printf("%llu programs: %llu silent, %llu not\n", static_cast<unsigned long long>(programs), silent, found);
        return silent > 0 && silent == programs ? 0 : 1;
    }
    printf("%s, one in %llu: %llu of %llu faulty programs are found\n", FAULTS[planted.fault],
           static_cast<unsigned long long>(planted.every), found, found + silent);
    // With fewer than half the programs nothing would be shown.
    const bool is_enough = 2 * (found + silent) >= programs;
    return is_enough && found > 0 && found >= 4 * silent ? 0 : 1;
}
