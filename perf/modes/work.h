/* What the peers of perf/examples/modes.rs share: the work, the clock and the arguments. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUMS = 8, RUNS = 9 };

static inline uint64_t work(uint64_t steps, uint64_t seed) {
    uint64_t x = seed | 1;
    for (uint64_t step = 0; step < steps; step++) {
        x = (x ^ x >> 29) * 6364136223846793005u;
    }
    __asm__ volatile("" : "+r"(x));
    return x;
}

static inline uint64_t length_of(uint64_t steps, size_t number) {
    return number % 64 == 63 ? 100 * steps : steps;
}

static inline uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int compare(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* Runs a workload nine times, each of which returns the time that it took and leaves the total. */
static inline int median_of(int count, char **arguments,
                            uint64_t (*run)(const char *, uint64_t, size_t, uint64_t *)) {
    if (count != 4) return fprintf(stderr, "WORKLOAD WORK OPERATIONS\n"), 2;
    size_t operations = strtoull(arguments[3], NULL, 10);
    uint64_t took[RUNS];
    for (int turn = 0; turn < RUNS; turn++) {
        uint64_t total = 0;
        took[turn] = run(arguments[1], strtoull(arguments[2], NULL, 10), operations, &total);
        if (total != operations) return fprintf(stderr, "the sum is wrong: %llu\n", (unsigned long long)total), 1;
    }
    qsort(took, RUNS, sizeof *took, compare);
    printf("%.0f\n", (double)took[RUNS / 2] / (double)operations);
    return 0;
}
