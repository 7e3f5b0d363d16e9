// NVIDIA's CUDASTF as the rival of perf/gpu/README.md: the programs of that protocol, each with the
// kernel that the engine's own rows launch, and with its values checked.
//
//   rival            reads lines, answers each by a line of JSON
//   rival --forgets  over the stand-in: the driver forgets waits, so that answers are not right
//
// Order is told by CUDASTF's tokens, which cost it least; the numbers are memory of the program.
// `replay` is not there: CUDASTF's graph, once recorded, is one of the driver, and the row measures
// that itself.

#include "device.h"

#include <cuda/experimental/stf.cuh>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace cuda::experimental::stf;
using Clock = std::chrono::steady_clock;

namespace {

/// The kernels as text, with the zero at the end that the driver asks for.
const char KERNELS[] =
#include "kernels.inc"
    ;

constexpr size_t WORDS = 72;
/// Bytes from word to word, as of two buffers of the engine's smallest size.
constexpr size_t APART = 512;
/// Steps of a branch of a fan (perf/gpu/src/rows/fan.rs).
constexpr uint64_t SPIN = 2000;
constexpr auto PAUSE = std::chrono::milliseconds(5);

void check(CUresult code, const char* call) {
    if (code != CUDA_SUCCESS) {
        throw std::runtime_error(std::string(call) + " returned " + std::to_string(code));
    }
}

/// A number on the device, what stands for it in a context, and what it should be.
struct Word {
    CUdeviceptr at = 0;
    std::optional<token> order;
    uint64_t expected = 0;
};

/// A program of the protocol, which can be asked for again.
class Rival {
public:
    Rival() {
        cuda_safe_call(cudaSetDevice(0));
        cuda_safe_call(cudaFree(nullptr));
        CUmodule module = nullptr;
        check(cuModuleLoadData(&module, KERNELS), "cuModuleLoadData");
        check(cuModuleGetFunction(&mix, module, "mix"), "cuModuleGetFunction");
        check(cuMemAlloc(&memory, WORDS * APART), "cuMemAlloc");
        void* pinned = nullptr;
        check(cuMemHostAlloc(&pinned, WORDS * APART, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
        back = static_cast<const char*>(pinned);
        for (CUstream& stream : streams) {
            check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        }
        check(cuMemsetD8Async(memory, 0, WORDS * APART, streams[0]), "cuMemsetD8Async");
        check(cuStreamSynchronize(streams[0]), "cuStreamSynchronize");
        for (size_t at = 0; at < WORDS; ++at) {
            words[at].at = memory + at * APART;
        }
    }

    /// Answers a line.
    std::string answer(const std::string& program, size_t count) {
        calls.clear();
        context.emplace(resources);
        for (Word& word : words) {
            word.order.emplace(context->token());
        }
        const double micros = run(program, count);
        context->finalize();
        for (Word& word : words) {
            word.order.reset();
        }
        context.reset();
        if (micros < 0) {
            return "{\"error\":\"there is no " + program + " here\"}";
        }
        return said(program, micros / static_cast<double>(count), count);
    }

private:
    async_resources_handle resources;
    std::optional<stream_ctx> context;
    std::array<Word, WORDS> words;
    std::array<CUstream, 2> streams{};
    CUfunction mix = nullptr;
    CUdeviceptr memory = 0;
    /// Where numbers come back to.
    const char* back = nullptr;
    /// The calls of the driver from the first submission to the last.
    std::map<std::string, uint64_t> calls;

    /// Launches the kernel as the engine's closures do.
    void launch(cudaStream_t stream, const Word& out, const std::array<const Word*, 3>& from, uint64_t id,
                uint64_t spin, uint64_t count) {
        uint64_t values[7] = {out.at, 0, 0, 0, id, spin, count};
        for (size_t at = 0; at < from.size(); ++at) {
            values[at + 1] = from[at] == nullptr ? 0 : from[at]->at;
        }
        void* places[7];
        for (size_t at = 0; at < 7; ++at) {
            places[at] = &values[at];
        }
        check(cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, stream, places, nullptr), "cuLaunchKernel");
    }

    /// A task that changes a number by up to three others, on a stream of CUDASTF's choice or on
    /// the one that is named.
    void push(Word& out, const std::array<const Word*, 3>& from, uint64_t id, uint64_t spin,
              cudaStream_t stream = nullptr) {
        uint64_t values[3] = {};
        for (size_t at = 0; at < from.size(); ++at) {
            values[at] = from[at] == nullptr ? 0 : from[at]->expected;
        }
        out.expected = mixed(out.expected, values, id, spin);
        auto task = context->task();
        task.add_deps(task_dep_untyped(*out.order, access_mode::rw));
        for (const Word* word : from) {
            if (word != nullptr) {
                task.add_deps(task_dep_untyped(*word->order, access_mode::read));
            }
        }
        if (stream != nullptr) {
            task.set_stream(stream);
        }
        task.start();
        launch(task.get_stream(), out, from, id, spin, 1);
        task.end();
    }

    /// A task that only reads a number, and does nothing.
    void push_reader(const Word& word) {
        auto task = context->task();
        task.add_deps(task_dep_untyped(*word.order, access_mode::read));
        task.start();
        launch(task.get_stream(), word, {}, 0, 0, 0);
        task.end();
    }

    void wait() { cuda_safe_call(cudaStreamSynchronize(context->fence())); }

    /// Runs what submits; returns the microseconds until all is done.
    template <typename Submit>
    double timed(Submit submit) {
        const auto before = device::calls();
        device::rest(true);
        const auto began = Clock::now();
        submit();
        calls = device::calls();
        for (const auto& [name, count] : before) {
            calls[name] -= count;
        }
        device::rest(false);
        wait();
        return std::chrono::duration<double, std::micro>(Clock::now() - began).count();
    }

    /// Runs a program so often; returns the microseconds of all, or less than 0 if there is no such
    /// program.
    double run(const std::string& program, size_t count) {
        if (program == "chain") {
            return timed([&] {
                for (size_t at = 0; at < count; ++at) {
                    push(words[0], {}, at, 0);
                }
            });
        }
        if (program == "two-streams") {
            return timed([&] {
                for (size_t at = 0; at < count; ++at) {
                    push(words[0], {}, at, 0, streams[at % 2]);
                }
            });
        }
        for (const size_t width : {1, 4, 16, 64}) {
            if (program == "fan-" + std::to_string(width)) {
                return timed([&] { fans(width, count); });
            }
        }
        if (program == "random") {
            return timed([&] { random(count); });
        }
        if (program == "readers") {
            return timed([&] {
                for (size_t at = 0; at < count; ++at) {
                    push_reader(words[0]);
                }
                push(words[0], {}, 1, 0);
            });
        }
        for (const size_t threads : {2, 4}) {
            if (program == "pushers-" + std::to_string(threads)) {
                return timed([&] { pushers(threads, count); });
            }
        }
        return program == "asleep" ? asleep(count) : -1;
    }

    /// The first words are the first and the last of a fan. A kernel takes three numbers, so the
    /// join is as many tasks as that needs.
    void fans(size_t width, size_t repeats) {
        for (uint64_t id = 0; id < repeats; ++id) {
            push(words[0], {}, id, 0);
            for (size_t at = 0; at < width; ++at) {
                push(words[2 + at], {&words[0]}, id, SPIN);
            }
            for (size_t at = 0; at < width; at += 3) {
                std::array<const Word*, 3> part{};
                for (size_t of = 0; of < 3 && at + of < width; ++of) {
                    part[of] = &words[2 + at + of];
                }
                push(words[1], part, id, 0);
            }
        }
    }

    /// The draws are those of perf/gpu/src/rows/chains.rs.
    void random(size_t count) {
        uint64_t state = 1;
        const auto below = [&state](uint64_t bound) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            return static_cast<size_t>((state >> 33) % bound);
        };
        for (uint64_t id = 0; id < count; ++id) {
            const size_t out = below(10);
            const size_t first = (out + 1 + below(9)) % 10, second = (out + 1 + below(9)) % 10;
            push(words[out], {&words[first], first == second ? nullptr : &words[second]}, id, 0);
        }
    }

    void pushers(size_t threads, size_t count) {
        std::vector<std::thread> started;
        for (size_t thread = 0; thread < threads; ++thread) {
            started.emplace_back([this, thread, each = count / threads] {
                cuda_safe_call(cudaSetDevice(0));
                for (uint64_t id = 0; id < each; ++id) {
                    push(words[1 + thread], {&words[0]}, id, 0);
                }
            });
        }
        for (std::thread& thread : started) {
            thread.join();
        }
    }

    /// The pauses are no part of the figure.
    double asleep(size_t count) {
        double micros = 0;
        for (uint64_t id = 0; id < count; ++id) {
            std::this_thread::sleep_for(PAUSE);
            const auto began = Clock::now();
            push(words[0], {}, id, 0);
            wait();
            micros += std::chrono::duration<double, std::micro>(Clock::now() - began).count();
        }
        return micros;
    }

    /// Whether each number is what it should be. All is done.
    bool is_right() {
        const CUstream stream = streams[0];
        check(cuMemcpyDtoHAsync(const_cast<char*>(back), memory, WORDS * APART, stream), "cuMemcpyDtoHAsync");
        check(cuStreamSynchronize(stream), "cuStreamSynchronize");
        bool is_right = device::report().empty();
        for (size_t at = 0; at < WORDS; ++at) {
            uint64_t found = 0;
            std::memcpy(&found, back + at * APART, sizeof found);
            is_right &= found == words[at].expected;
            // What is wrong in one answer is not in the next.
            words[at].expected = found;
        }
        return is_right;
    }

    std::string said(const std::string& program, double micros, size_t count) {
        std::ostringstream line;
        line << "{\"program\":\"" << program << "\",\"micros\":" << micros
             << ",\"right\":" << (is_right() ? "true" : "false");
        if (!calls.empty()) {
            line << ",\"calls\":{";
            const char* between = "";
            for (const auto& [name, of_all] : calls) {
                if (of_all > 0) {
                    line << between << '"' << name << "\":" << static_cast<double>(of_all) / static_cast<double>(count);
                    between = ",";
                }
            }
            line << '}';
        }
        line << '}';
        return line.str();
    }
};

}  // namespace

uint64_t mixed(uint64_t value, const uint64_t (&from)[3], uint64_t id, uint64_t spin) {
    uint64_t made = value * 6364136223846793005u + id + from[0] + 3 * from[1] + 5 * from[2];
    // The steps are v ← v·a + c, so many at once as there are bits in their number.
    uint64_t a = 2862933555777941757u, c = 3037000493u, factor = 1, term = 0;
    for (uint64_t left = spin; left > 0; left >>= 1) {
        if (left & 1) {
            factor *= a;
            term = term * a + c;
        }
        c = c * a + c;
        a *= a;
    }
    return made * factor + term;
}

int main(int count, char** arguments) {
    const bool forgets = count == 2 && std::string(arguments[1]) == "--forgets";
    if (count > 1 && !forgets) {
        fputs("rival: takes no arguments but --forgets; lines tell it what to do\n", stderr);
        return 2;
    }
    try {
        device::begin(forgets);
        Rival rival;
        std::string line;
        while (std::getline(std::cin, line)) {
            std::istringstream words(line);
            std::string program;
            size_t operations = 0;
            if (!(words >> program >> operations) || operations == 0) {
                std::cout << "{\"error\":\"a line has a program and a number of operations\"}" << std::endl;
                continue;
            }
            std::cout << rival.answer(program, operations) << std::endl;
        }
        return 0;
    } catch (const std::exception& thrown) {
        // The text of an exception may have what JSON does not take.
        std::string text = thrown.what();
        for (char& letter : text) {
            letter = letter < ' ' || letter == '"' || letter == '\\' ? ' ' : letter;
        }
        std::cout << "{\"error\":\"" << text << "\"}" << std::endl;
        return 1;
    }
}
