// A random program over CUDASTF's logical data, on two devices and the host, compared with a
// sequential run. What each task uses is told to the stand-in, which finds what nothing orders.

#include "programs.h"
#include "random.h"
#include "standin.h"

#include <cuda/experimental/stf.cuh>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

using namespace cuda::experimental::stf;

namespace {

constexpr int DEVICES = 2;
constexpr size_t DATA = 8;
constexpr size_t LENGTH = 16;
constexpr int OPERATIONS = 150;
/// Contexts of CUDASTF, one after another, with the same streams.
constexpr int ROUNDS = 2;
constexpr int32_t ILLEGAL_ADDRESS = 700;

using Numbers = std::array<uint64_t, LENGTH>;
using Slice = slice<uint64_t>;

uint64_t mixed(uint64_t into, uint64_t number) {
    return (into ^ number) * 0x9e3779b97f4a7c15u + (into >> 29);
}

/// What an operation makes of what it reads: `old` is null where it does not read what it changes.
Numbers computed(uint64_t id, const Numbers* old, const std::vector<const Numbers*>& read) {
    Numbers made;
    for (size_t at = 0; at < LENGTH; ++at) {
        made[at] = mixed(id, at);
        made[at] = old == nullptr ? made[at] : mixed(made[at], (*old)[at]);
        for (const Numbers* numbers : read) {
            made[at] = mixed(made[at], (*numbers)[at]);
        }
    }
    return made;
}

/// The last operation that has found a wrong value on a stream.
std::atomic<uint64_t> wrong_in{0};

/// Memory as a function on a stream may use it; null if it may not.
Numbers* used(const uint64_t* at, bool write, uint64_t id) {
    const auto address = reinterpret_cast<uint64_t>(at);
    return reinterpret_cast<Numbers*>(standin_memory(address, sizeof(Numbers), write, id));
}

/// Memory as the host may use it, now; null if it may not.
Numbers* used_by_host(const uint64_t* at, bool write, uint64_t id) {
    const auto address = reinterpret_cast<uint64_t>(at);
    return reinterpret_cast<Numbers*>(standin_host_memory(address, sizeof(Numbers), write, id));
}

/// The work of a task. It is run once.
struct Work {
    uint64_t id;
    bool reads_old;
    uint64_t* target;
    std::vector<const uint64_t*> sources;

    int32_t run() const {
        std::vector<const Numbers*> read;
        for (const uint64_t* source : sources) {
            read.push_back(used(source, false, id));
            if (read.back() == nullptr) {
                return ILLEGAL_ADDRESS;
            }
        }
        Numbers* changed = used(target, true, id);
        if (changed == nullptr) {
            return ILLEGAL_ADDRESS;
        }
        *changed = computed(id, reads_old ? changed : nullptr, read);
        return 0;
    }
};

int32_t run_work(void* word) {
    return std::unique_ptr<Work>(static_cast<Work*>(word))->run();
}

void run_work_on_host(void* word) {
    run_work(word);
}

uint64_t* pinned() {
    void* at = nullptr;
    cuda_safe_call(cudaMallocHost(&at, sizeof(Numbers)));
    return static_cast<uint64_t*>(at);
}

/// A datum, and what it has in a sequential run.
struct Datum {
    /// Of an array of the program, or of a shape alone; or else a token.
    std::optional<logical_data<Slice>> data;
    std::optional<token> order;
    /// The program's array: that of the datum, or what the token stands for.
    uint64_t* home = nullptr;
    bool is_written = false;
    Numbers expected{};
};

class Program {
public:
    Program(uint64_t seed, async_resources_handle& resources) : random(seed), context(resources) {
        for (size_t at = 0; at < DATA; ++at) {
            data.push_back(drawn());
        }
    }

    void run() {
        for (int step = 0; step < OPERATIONS; ++step) {
            const uint64_t lot = random.below(100);
            if (lot < 8) {
                renew(data[random.below(DATA)]);
            } else if (lot < 13) {
                look(data[random.below(DATA)]);
            } else if (lot < 15) {
                wait();
            } else {
                operate();
            }
        }
        for (Datum& datum : data) {
            look(datum);
        }
        context.finalize();
        for (Datum& datum : data) {
            keep(datum);
        }
        for (const auto& [home, expected] : kept) {
            compare(home, expected);
        }
    }

    std::string said;

private:
    Random random;
    stream_ctx context;
    std::vector<Datum> data;
    /// Arrays of the program, with what they have when the context has ended.
    std::vector<std::pair<uint64_t*, Numbers>> kept;
    uint64_t id = 0;

    Datum drawn() {
        Datum datum;
        const uint64_t sort = random.below(3);
        if (sort != 0) {
            datum.home = pinned();
            datum.expected = computed(++id, nullptr, {});
            datum.is_written = true;
            *used_by_host(datum.home, true, id) = datum.expected;
        }
        switch (sort) {
            case 0: datum.data = context.logical_data(shape_of<Slice>(LENGTH)); break;
            case 1: datum.data = context.logical_data(datum.home, LENGTH); break;
            default: datum.order = context.token(); break;
        }
        return datum;
    }

    void keep(const Datum& datum) {
        if (datum.home != nullptr) {
            kept.emplace_back(datum.home, datum.expected);
        }
    }

    /// The old one goes while work on it is queued.
    void renew(Datum& datum) {
        keep(datum);
        datum = drawn();
    }

    /// A task on a device or on the host, which reads up to two data and changes another.
    void operate() {
        Datum& target = data[random.below(DATA)];
        std::vector<Datum*> sources;
        for (uint64_t count = random.below(3); count > 0; --count) {
            Datum* source = &data[random.below(DATA)];
            const bool is_new = sources.empty() || sources[0] != source;
            if (source != &target && source->is_written && is_new) {
                sources.push_back(source);
            }
        }
        const bool on_host = random.below(4) == 0;
        auto work = std::make_unique<Work>();
        work->id = ++id;
        // What a token stands for is changed in place.
        work->reads_old = target.is_written && (target.order || random.below(4) != 0);

        const int device = static_cast<int>(random.below(DEVICES));
        auto task = context.task(on_host ? exec_place::host() : exec_place::device(device));
        depend(task, target, work->reads_old ? access_mode::rw : access_mode::write);
        for (Datum* source : sources) {
            depend(task, *source, access_mode::read);
        }
        task.start();
        work->target = instance(task, 0, target);
        std::vector<const Numbers*> read;
        for (Datum* source : sources) {
            work->sources.push_back(instance(task, work->sources.size() + 1, *source));
            read.push_back(&source->expected);
        }
        target.expected = computed(id, work->reads_old ? &target.expected : nullptr, read);
        target.is_written = true;
        if (on_host) {
            cuda_safe_call(cudaLaunchHostFunc(task.get_stream(), run_work_on_host, work.release()));
        } else {
            const int32_t code = standin_queue(task.get_stream(), run_work, work.release());
            cuda_safe_call(static_cast<CUresult>(code));
        }
        task.end();
    }

    template <typename Task>
    void depend(Task& task, Datum& datum, access_mode mode) {
        if (datum.order) {
            task.add_deps(task_dep_untyped(*datum.order, mode));
        } else {
            task.add_deps(task_dep_untyped(*datum.data, mode));
        }
    }

    template <typename Task>
    uint64_t* instance(Task& task, size_t index, const Datum& datum) {
        return datum.order ? datum.home : task.template get<Slice>(index).data_handle();
    }

    /// A function of the host compares a datum with the sequential run.
    void look(Datum& datum) {
        if (!datum.data || !datum.is_written) {
            return;
        }
        auto looks = [id = ++id, expected = datum.expected](auto found) {
            const Numbers* numbers = used(found.data_handle(), false, id);
            if (numbers == nullptr || *numbers != expected) {
                wrong_in = id;
            }
        };
        // Of one that is not given away CUDASTF would keep a reference.
        context.host_launch(datum.data->read())->*std::move(looks);
    }

    /// The host waits for all that is queued, and looks at what it may use then.
    void wait() {
        cuda_safe_call(cudaStreamSynchronize(context.fence()));
        for (const Datum& datum : data) {
            if (datum.order) {
                compare(datum.home, datum.expected);
            }
        }
    }

    void compare(const uint64_t* home, const Numbers& expected) {
        const Numbers* found = used_by_host(home, false, ++id);
        if (said.empty() && (found == nullptr || *found != expected)) {
            said = "an array has a wrong value before operation " + std::to_string(id);
        }
    }
};

}  // namespace

std::string run_program(uint64_t seed, Planted planted) {
    Random random(seed);
    standin_reset(seed, 1 + random.below(256));
    standin_burst(1 + random.below(8));
    standin_devices(DEVICES);
    standin_plant(planted.fault, planted.every);
    async_resources_handle resources;
    for (int round = 0; round < ROUNDS; ++round) {
        Program program(random.next(), resources);
        program.run();
        if (!program.said.empty()) {
            return program.said;
        }
        if (wrong_in != 0) {
            return "operation " + std::to_string(wrong_in) + " found a wrong value";
        }
    }
    return {};
}
