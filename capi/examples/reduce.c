// A histogram to which many operations add at once, each in a copy of its own, and a sum whose bits
// do not depend on the number of workers. The copies are combined before somebody looks.
//
//   cc -std=c11 -pthread $(pkg-config --cflags --libs seriatim) reduce.c -o reduce

#include <seriatim.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 64, LENGTH = 1000, BINS = 10 };

typedef struct {
    uint64_t bins[BINS];
} Histogram;

static double blocks[BLOCKS][LENGTH];

// Says what went wrong, and ends the program.
static void check(SeriatimStatus status, const char *what) {
    if (status == SERIATIM_STATUS_OK) return;
    fprintf(stderr, "%s: %s (%s)\n", what, seriatim_last_error(), seriatim_status_text(status));
    exit(1);
}

static void *no_counts(void *unused) {
    (void)unused;
    return calloc(1, sizeof(Histogram));
}

static int add_counts(void *unused, void *into, void *part) {
    (void)unused;
    for (int bin = 0; bin < BINS; bin++) ((Histogram *)into)->bins[bin] += ((Histogram *)part)->bins[bin];
    return 0;
}

static void *zero(void *unused) {
    (void)unused;
    return calloc(1, sizeof(double));
}

static int add(void *unused, void *into, void *part) {
    (void)unused;
    *(double *)into += *(double *)part;
    return 0;
}

// Adds the numbers of one block to a copy of the histogram and to a copy of the sum.
static int count(void *block, void *const *parts, const SeriatimRunContext *run) {
    (void)run;
    Histogram *histogram = parts[0];
    double *sum = parts[1];
    for (int at = 0; at < LENGTH; at++) {
        double number = ((double *)block)[at];
        histogram->bins[(int)(number * BINS)]++;
        *sum += number;
    }
    return 0;
}

static void keep_histogram(void *out, const void *value) { *(Histogram *)out = *(const Histogram *)value; }
static void keep_sum(void *out, const void *value) { *(double *)out = *(const double *)value; }

static void measure(const char *workers, Histogram *histogram, double *total) {
    SeriatimEngine *engine;
    SeriatimSetting settings[] = {{"CPU_WORKERS", workers}};
    check(seriatim_engine_new(settings, 1, &engine), "the engine");

    SeriatimReduction *counts, *sum;
    SeriatimReducer counting = {.identity = no_counts, .combine = add_counts, .delete_part = free};
    SeriatimReducer adding = {.identity = zero, .combine = add, .delete_part = free};
    check(seriatim_reduction_new(engine, &counting, &counts), "the histogram");
    check(seriatim_reduction_new_ordered(engine, 8, &adding, &sum), "the sum");

    const SeriatimReduction *both[] = {counts, sum};
    SeriatimReducing reducing = {.reduces = both, .reduce_count = 2};
    SeriatimOperation operation = {.name = "count"};
    for (int block = 0; block < BLOCKS; block++) {
        check(seriatim_push_reducing(engine, &operation, &reducing, count, blocks[block], NULL), "a push");
    }
    check(seriatim_reduction_read(counts, keep_histogram, histogram), "a read");
    check(seriatim_reduction_read(sum, keep_sum, total), "a read");
    seriatim_reduction_delete(counts);
    seriatim_reduction_delete(sum);
    check(seriatim_engine_delete(engine), "the end");
}

int main(void) {
    uint32_t random = 1;
    for (int at = 0; at < BLOCKS * LENGTH; at++) {
        random = random * 1664525u + 1013904223u;
        blocks[at / LENGTH][at % LENGTH] = random / 4294967296.0;
    }
    Histogram by_one, by_four;
    double one, four;
    measure("1", &by_one, &one);
    measure("4", &by_four, &four);

    uint64_t counted = 0, different = 0;
    for (int bin = 0; bin < BINS; bin++) {
        counted += by_four.bins[bin];
        different += by_one.bins[bin] != by_four.bins[bin];
    }
    printf("%llu numbers, %s bins and %s sums on 1 and 4 workers\n", (unsigned long long)counted,
           different == 0 ? "equal" : "different", one == four ? "equal" : "different");
    return 0;
}
