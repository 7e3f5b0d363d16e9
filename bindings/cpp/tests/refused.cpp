// What must not compile. `scripts/cpp.sh` compiles this file with REFUSED as 0, which is well, and
// then with each number: that must fail, and with g++ say what stands behind the number.

#include <seriatim/seriatim.hpp>

using seriatim::Completion;
using seriatim::Engine;
using seriatim::span;

void programs(Engine& engine) {
    auto x = engine.value(1);
    auto y = engine.value(2.0);
    auto tiles = engine.tiles(std::vector<int>(10), 5);
    auto v = engine.variable();
    engine.run(read(x), write(y), [](const int& x, double& y) { y += x; });
    engine.run(read(tiles[0]), [](span<const int> tile) { return static_cast<void>(tile[0]); });

#if REFUSED == 1  // must take what the operation names
    engine.run(read(x), [](int& x) { ++x; });
#elif REFUSED == 2  // read-only
    engine.run(read(x), [](auto& x) { x = 1; });
#elif REFUSED == 3  // no match for 'operator*'
    engine.run(write(y), [&x](double& y) { y = *x; });
#elif REFUSED == 4  // before the function stands what the operation uses
    engine.run(x, [](int) {});
#elif REFUSED == 5  // must take what the operation names
    engine.run(read(x), write(y), [](const int&) {});
#elif REFUSED == 6  // must take what the operation names
    engine.run(read(tiles[0]), write(y), [](double&, span<const int>) {});
#elif REFUSED == 7  // use compute()
    engine.run(read(x), [](int x) { return x; });
#elif REFUSED == 8  // use of deleted function
    engine.run_async([](Completion done) { Completion copy = done; });
#elif REFUSED == 9  // must take what the operation names
    engine.run_async(write(x), [](int&) {});
#elif REFUSED == 10  // read-only
    engine.run(read(tiles[0]), [](span<const int> tile) { tile[0] = 1; });
#elif REFUSED == 11  // must take what the operation names
    engine.run(read(tiles[0]), [](span<int> tile) { tile[0] = 1; });
#elif REFUSED == 12  // read-only
    *x.read() = 2;
#elif REFUSED == 13  // use of deleted function
    auto guard = x.write();
    auto other = std::move(guard);
#elif REFUSED == 14  // use of deleted function
    auto copy = v;
#elif REFUSED == 15  // use of deleted function
    auto pending = engine.compute([] { return 1; });
    auto copy = pending;
#elif REFUSED == 16  // there is no function
    engine.run();
#elif REFUSED == 17  // before the function stands what the operation uses
    engine.run(v, [] {});
#elif REFUSED == 18  // base operand of '->'
    engine.run(write(y), [&tiles](double& y) { y = (*tiles[0]->begin()); });
#elif REFUSED == 19  // graphs and operators have no operations that commute or reduce
    auto step = engine.op().make_operator(commute(x), [](int& x) { ++x; });
#elif REFUSED == 20  // must take what the operation names
    engine.run(commute(x), [](double* x) { ++x; });
#elif REFUSED != 0
#error "there is no such program"
#endif
}
