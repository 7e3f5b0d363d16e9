// Operations that commute, and reductions: what is lent, in which order, and what fails.

#include "check.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

using seriatim::Completion;
using seriatim::Engine;
using seriatim::Reduction;
using seriatim::Settings;
using seriatim::Value;

namespace {

/// A sum that finds two at once.
struct Sum {
    long sum = 0;
    std::atomic<bool> is_busy{false};

    void add(long part) {
        CHECK(!is_busy.exchange(true));
        sum += part;
        is_busy = false;
    }
};

void operations_commute_one_at_a_time() {
    on_every_engine([](Engine& engine) {
        auto x = engine.commutative(std::make_shared<Sum>()), y = engine.commutative(std::make_shared<Sum>());
        auto input = engine.value(1L);
        for (int round = 0; round < 200; ++round) {
            if (round % 10 == 0) engine.run(write(input), [](long& input) { ++input; });
            engine.run(read(input), commute(x), commute(y), [](long, auto& x, auto& y) {
                x->add(1);
                y->add(2);
            });
            engine.op("add").run(commute(y), [](auto& y) { y->add(1); });
        }
        auto seen = engine.compute(read(x), read(y), [](const auto& x, const auto& y) { return x->sum + y->sum; });
        CHECK(seen.get() == 200 + 600);
        engine.run(write(x), [](auto& x) { x->sum = 7; });
        CHECK((*x.read())->sum == 7);
    });
}

/// What is late holds nobody up, and an asynchronous operation commutes until it is complete.
void what_is_late_holds_nobody_up() {
    Engine engine(Settings().cpu_workers(2).set("PIN", "off"));
    auto late = engine.value(0), ready = engine.value(0);
    auto sum = engine.commutative(0);
    std::optional<Completion> hold;
    std::atomic<bool> has_begun{false};
    engine.run_async(write(late), [&](int&, Completion done) {
        hold.emplace(std::move(done));
        has_begun = true;
    });
    std::atomic<int> behind{0};
    engine.run(read(late), commute(sum), [&](int, int& sum) { sum += 10; });
    engine.run(read(ready), commute(sum), [&](int, int& sum) {
        sum += 1;
        behind = sum;
    });
    eventually([&] { return has_begun && behind == 1; });
    hold->complete();
    CHECK(*sum.read() == 11);

    std::optional<Completion> commuting;
    has_begun = false;
    engine.run_async(commute(sum), [&](int& sum, Completion done) {
        sum += 100;
        commuting.emplace(std::move(done));
        has_begun = true;
    });
    std::atomic<bool> is_over{false};
    engine.run(commute(sum), [&](int& sum) { sum += is_over ? 1000 : 0; });
    eventually([&] { return has_begun.load(); });
    is_over = true;
    commuting->complete();
    CHECK(*sum.read() == 1111);
}

void what_was_not_made_for_it_does_not_commute() {
    on_every_engine([](Engine& engine) {
        auto plain = engine.value(1), made = engine.commutative(1);
        CHECK_REFUSED(engine.run(commute(plain), [](int&) {}), cannot_commute);
        CHECK_REFUSED(engine.run_async(commute(plain), [](int&, Completion) {}), cannot_commute);
        CHECK_REFUSED(engine.run(commute(made), read(made), [](int&, int) {}), borrow_conflict);
        CHECK_REFUSED(engine.run(commute(made), commute(made), [](int&, int&) {}), borrow_conflict);
        engine.wait_for_all();
    });
}

/// Both sorts of reductions of a sum.
std::vector<Reduction<long>> sums(Engine& engine) {
    auto zero = [] { return 0L; };
    auto add = [](long& sum, long part) { sum += part; };
    std::vector<Reduction<long>> made{engine.reduction(zero, add)};
    for (std::size_t copies : {1, 2, 3, 7, 8}) made.push_back(engine.ordered_reduction(copies, zero, add));
    return made;
}

void reads_come_behind_all_parts() {
    on_every_engine([](Engine& engine) {
        for (const Reduction<long>& sum : sums(engine)) {
            auto seen = engine.value(0L);
            long expected = 0;
            for (long round = 0; round < 40; ++round) {
                for (long part = 0; part < round % 9; ++part) {
                    engine.run(reduce(sum), [part](long& sum) { sum += part; });
                    expected += part;
                }
                if (round % 5 == 2) {
                    engine.run(write(sum), [](long& sum) { sum *= 2; });
                    expected *= 2;
                }
                engine.run(read(sum), write(seen), [expected](long sum, long& seen) {
                    CHECK(sum == expected);
                    seen = sum;
                });
                if (round % 13 == 0) CHECK(*sum.read() == expected);
            }
            CHECK(*sum.read() == expected && *seen.read() == expected);
            CHECK(engine.compute(read(sum), [](long sum) { return sum; }).get() == expected);
        }
        engine.wait_for_all();
    });
}

void parts_are_added_at_once() {
    Engine engine(Settings().cpu_workers(2).waiters_help(false).set("PIN", "off"));
    auto add = [](long& sum, long part) { sum += part; };
    for (const auto& sum : {engine.reduction([] { return 0L; }, add), engine.ordered_reduction(2, [] { return 0L; }, add)}) {
        std::atomic<int> inside{0};
        for (int part = 0; part < 2; ++part) {
            engine.run(reduce(sum), [&](long& sum) {
                ++inside;
                eventually([&] { return inside == 2; });
                ++sum;
            });
        }
        CHECK(*sum.read() == 2);
    }
}

/// A sum of numbers whose order shows in the last bits.
double ordered_sum(const Settings& settings) {
    Engine engine(settings);
    auto sum = engine.ordered_reduction(8, [] { return 0.0; }, [](double& sum, double part) { sum += part; });
    Random random(3);
    for (int number = 0; number < 2000; ++number) {
        double part = 1.0 / static_cast<double>(random.below(1'000'000) + 1);
        engine.run(reduce(sum), [part](double& sum) { sum += part; });
        if (number % 500 == 0) engine.run(write(sum), [](double& sum) { sum /= 3; });
    }
    return *sum.read();
}

void an_ordered_reduction_has_the_same_bits() {
    double first = ordered_sum(Settings().kind("naive"));
    for (const Settings& settings : all_settings()) CHECK(ordered_sum(settings) == first);
}

void a_part_that_fails_fails_what_uses_the_value() {
    on_every_engine([](Engine& engine) {
        for (const Reduction<long>& sum : sums(engine)) {
            auto y = engine.value(1);
            engine.run(reduce(sum), [](long&) { throw std::logic_error("not told by the value"); });
            CHECK_THROWS(*sum.read(), std::logic_error, "not told by the value");
            engine.run(reduce(sum), [](long& sum) { ++sum; });
            engine.run(reduce(sum), [](long&) { throw std::runtime_error("no part today"); });
            engine.run(read(sum), write(y), [](long, int& y) { y = 2; });
            CHECK_THROWS(*sum.read(), std::runtime_error, "no part today");
            CHECK(*sum.read() == 1);
            try {
                engine.wait_for_all();
            } catch (const std::runtime_error&) {
            }
            CHECK(*y.read() == 1);
        }
    });
}

void what_cannot_be_combined_is_thrown() {
    on_every_engine([](Engine& engine) {
        auto combine = [](long& sum, long part) {
            if (part == 13) throw std::domain_error("unlucky");
            sum += part;
        };
        auto sum = engine.ordered_reduction(1, [] { return 0L; }, combine);
        engine.run(reduce(sum), [](long& sum) { sum = 13; });
        CHECK_THROWS(*sum.read(), std::domain_error, "unlucky");
        CHECK(*sum.read() == 0);
        engine.run(reduce(sum), [](long& sum) { sum = 13; });
        engine.run(read(sum), [](long) { CHECK(false); });
        CHECK_THROWS(engine.wait_for_all(), std::domain_error, "unlucky");
        CHECK_REFUSED(engine.ordered_reduction(0, [] { return 0L; }, combine), bad_setting);
        CHECK_REFUSED(engine.ordered_reduction(SIZE_MAX, [] { return 0L; }, combine), bad_setting);
    });
}

void a_reduction_is_named_once() {
    on_every_engine([](Engine& engine) {
        auto zero = [] { return 0; };
        auto add = [](int& sum, int part) { sum += part; };
        auto sum = engine.reduction(zero, add), other = engine.reduction(zero, add);
        CHECK_REFUSED(engine.run(reduce(sum), reduce(sum), [](int&, int&) {}), borrow_conflict);
        CHECK_REFUSED(engine.run(reduce(sum), read(sum), [](int&, int) {}), borrow_conflict);
        CHECK_REFUSED(engine.run(read(sum), read(sum), [](int, int) {}), borrow_conflict);
        engine.run(reduce(sum), reduce(other), [](int& sum, int& other) { sum += 1, other += 2; });
        engine.run(read(sum), write(other), [](int sum, int& other) { other += sum; });
        CHECK(*other.read() == 3);
        auto twice = engine.op().make_operator(write(other), [](int& other) { other *= 2; });
        engine.push(twice);
        auto graph = engine.capture("graph", [&](seriatim::Capture& capture) {
            capture.run(read(sum), write(other), [](int sum, int& other) { other += sum; });
        });
        graph.replay();
        CHECK(*other.read() == 7);
        auto behind = engine.value(0);
        engine.op().writes(sum.variable()).run(write(behind), [](int& behind) { behind = 1; });
        CHECK(*behind.read() == 1);
    });
}

/// Counts those that live.
struct Counted {
    explicit Counted(std::atomic<int>& count) : count(&count) { ++count; }
    Counted(Counted&& other) : count(other.count) { ++*count; }
    Counted& operator=(Counted&&) = default;
    ~Counted() { --*count; }
    std::atomic<int>* count;
};

void copies_go_with_the_reduction() {
    for (const Settings& settings : all_settings()) {
        std::atomic<int> alive{0};
        for (bool is_used_last : {false, true}) {
            Engine engine(settings);
            auto made = [&alive] { return Counted(alive); };
            auto sum = engine.ordered_reduction(5, made, [](Counted&, Counted&&) {});
            for (int part = 0; part < 7; ++part) engine.run(reduce(sum), [](Counted&) {});
            if (is_used_last) engine.run(read(sum), [](const Counted&) {});
            auto kept = sum;
            CHECK(alive > 0);
        }
        CHECK(alive == 0);
    }
}

}  // namespace

void run_modes() {
    operations_commute_one_at_a_time();
    what_is_late_holds_nobody_up();
    what_was_not_made_for_it_does_not_commute();
    reads_come_behind_all_parts();
    parts_are_added_at_once();
    an_ordered_reduction_has_the_same_bits();
    a_part_that_fails_fails_what_uses_the_value();
    what_cannot_be_combined_is_thrown();
    a_reduction_is_named_once();
    copies_go_with_the_reduction();
}
