// The first program: an operation that runs behind those that it depends on, a result, and an
// exception that comes back.

#include <iostream>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <seriatim/seriatim.hpp>

int main() {
    seriatim::Engine engine;
    auto x = engine.value(std::vector<double>(1000, 1.0));
    auto y = engine.value(std::vector<double>(1000, 2.0));

    // y += 3 x: runs on a worker, after everything pushed before that uses x or y.
    engine.op("axpy").run(read(x), write(y), [](const std::vector<double>& x, std::vector<double>& y) {
        for (std::size_t at = 0; at < y.size(); ++at) y[at] += 3 * x[at];
    });
    auto sum = engine.op("sum").compute(read(y), [](const std::vector<double>& y) {
        return std::accumulate(y.begin(), y.end(), 0.0);
    });
    std::cout << "sum " << sum.get() << '\n';

    engine.op("fails").run(write(x), [](std::vector<double>& x) { x.at(1000) = 0; });
    try {
        engine.wait_for(x);
    } catch (const std::out_of_range&) {
        std::cout << "out of range\n";
    }

    auto step = engine.capture("step", [&](seriatim::Capture& capture) {
        capture.op("scale").run(write(x), [](std::vector<double>& x) {
            for (double& one : x) one *= 2;
        });
    });
    for (int round = 0; round < 10; ++round) step.replay();
    std::cout << "x " << x.read()->front() << '\n';
}
