// Pushes the same operations by the C interface and by this binding, on the naive engine, which
// runs each in its push: `scripts/cpp.sh --cost` counts the instructions of both.
//
//     cost CASE c|cpp COUNT

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <seriatim/seriatim.hpp>

using seriatim::Engine;

namespace {

struct Sum {
    const long *a, *b;
    long *c, factor, more;
};

void check(SeriatimStatus status) {
    if (status != SERIATIM_STATUS_OK) std::abort();
}

/// No variables and no argument.
void empty(Engine& engine, bool plain, long count) {
    auto function = [](void*, const SeriatimRunContext*) { return 0; };
    SeriatimOperation operation{};
    for (long at = 0; at < count; ++at) {
        if (plain) {
            check(seriatim_push(engine.raw(), &operation, function, nullptr, nullptr));
        } else {
            engine.run([] {});
        }
    }
}

/// Changes one value.
void one(Engine& engine, bool plain, long count) {
    auto x = engine.value(0L);
    static long own;
    auto function = [](void* value, const SeriatimRunContext*) { return ++*static_cast<long*>(value), 0; };
    SeriatimVariable variable = x.variable();
    SeriatimOperation operation{};
    operation.writes = &variable;
    operation.write_count = 1;
    for (long at = 0; at < count; ++at) {
        if (plain) {
            check(seriatim_push(engine.raw(), &operation, function, &own, nullptr));
        } else {
            engine.run(write(x), [](long& x) { ++x; });
        }
    }
}

/// Reads two values and changes one, with two numbers: in C an argument that is allocated.
void three(Engine& engine, bool plain, long count) {
    auto a = engine.value(1L), b = engine.value(2L), c = engine.value(0L);
    static long own[3] = {1, 2, 0};
    auto function = [](void* argument, const SeriatimRunContext*) {
        auto* sum = static_cast<Sum*>(argument);
        return *sum->c += (*sum->a + *sum->b) * sum->factor + sum->more, 0;
    };
    SeriatimVariable reads[] = {a, b}, writes[] = {c};
    SeriatimOperation operation{};
    operation.reads = reads;
    operation.read_count = 2;
    operation.writes = writes;
    operation.write_count = 1;
    for (long at = 0; at < count; ++at) {
        long factor = at, more = at + 1;
        if (plain) {
            auto* sum = static_cast<Sum*>(std::malloc(sizeof(Sum)));
            *sum = {&own[0], &own[1], &own[2], factor, more};
            check(seriatim_push(engine.raw(), &operation, function, sum, std::free));
        } else {
            engine.run(read(a), read(b), write(c), [factor, more](const long& a, const long& b, long& c) {
                c += (a + b) * factor + more;
            });
        }
    }
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 4) return 2;
    Engine engine(seriatim::Settings().kind("naive"));
    bool plain = std::strcmp(arguments[2], "c") == 0;
    long pushes = std::atol(arguments[3]);
    if (std::strcmp(arguments[1], "empty") == 0) empty(engine, plain, pushes);
    if (std::strcmp(arguments[1], "one") == 0) one(engine, plain, pushes);
    if (std::strcmp(arguments[1], "three") == 0) three(engine, plain, pushes);
    engine.wait_for_all();
}
