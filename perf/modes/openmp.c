/* The workloads of perf/examples/modes.rs in OpenMP tasks, on two threads: writes are `inout`, what
 * commutes is `mutexinoutset`, and reductions are `task_reduction`. Built by perf/modes.sh. */
#include "work.h"

static uint64_t accumulate(int commutes, uint64_t steps, size_t operations, uint64_t *total) {
    uint64_t *inputs = calloc(operations * 8, sizeof *inputs), sums[SUMS * 8] = {0}, begin = now();
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        for (size_t number = 0; number < operations; number++) {
            uint64_t *input = &inputs[number * 8], *sum = &sums[number % SUMS * 8];
#pragma omp task depend(out : *input) firstprivate(input, number, steps)
            {
                work(length_of(steps, number), number);
                *input = 1;
            }
            if (commutes) {
#pragma omp task depend(in : *input) depend(mutexinoutset : *sum) firstprivate(input, sum, steps)
                {
                    work(steps, *input);
                    *sum += *input;
                }
            } else {
#pragma omp task depend(in : *input) depend(inout : *sum) firstprivate(input, sum, steps)
                {
                    work(steps, *input);
                    *sum += *input;
                }
            }
        }
#pragma omp taskwait
    }
    uint64_t took = now() - begin;
    for (int at = 0; at < SUMS; at++) *total += sums[at * 8];
    free(inputs);
    return took;
}

static uint64_t sum_of(const char *how, uint64_t steps, size_t operations, uint64_t *total) {
    uint64_t sum = 0, begin = now();
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        if (strcmp(how, "reduce") == 0) {
#pragma omp taskgroup task_reduction(+ : sum)
            for (size_t number = 0; number < operations; number++) {
#pragma omp task in_reduction(+ : sum) firstprivate(steps)
                {
                    work(steps, 1);
                    sum += 1;
                }
            }
        } else if (strcmp(how, "commute") == 0) {
            for (size_t number = 0; number < operations; number++) {
#pragma omp task depend(mutexinoutset : sum) firstprivate(steps) shared(sum)
                {
                    work(steps, 1);
                    sum += 1;
                }
            }
        } else {
            for (size_t number = 0; number < operations; number++) {
#pragma omp task depend(inout : sum) firstprivate(steps) shared(sum)
                {
                    work(steps, 1);
                    sum += 1;
                }
            }
        }
#pragma omp taskwait
    }
    *total = sum;
    return now() - begin;
}

static uint64_t run(const char *workload, uint64_t steps, size_t operations, uint64_t *total) {
    const char *how = strchr(workload, '-') + 1;
    if (strncmp(workload, "accumulate", 10) == 0)
        return accumulate(strcmp(how, "commute") == 0, steps, operations, total);
    return sum_of(how, steps, operations, total);
}

int main(int count, char **arguments) {
    return median_of(count, arguments, run);
}
