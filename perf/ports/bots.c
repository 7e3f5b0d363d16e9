/* Times the sparselu of the Barcelona OpenMP Tasks Suite, beside examples/ports/sparselu.rs.
 * scripts/ports.sh compiles it with the files of a clone. Arguments: BLOCKS SIZE ROUNDS. */
#include "sparselu.c"

#include <time.h>

int bots_arg_size, bots_arg_size_1;
bots_verbose_mode_t bots_verbose_mode = BOTS_VERBOSE_NONE;

static int by_size(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + 1e-9 * at.tv_nsec;
}

int main(int count, char **arguments) {
    (void)count;
    bots_arg_size = atoi(arguments[1]), bots_arg_size_1 = atoi(arguments[2]);
    int rounds = atoi(arguments[3]), cells = bots_arg_size_1 * bots_arg_size_1;
    double times[rounds], sum = 0;
    for (int round = 0; round < rounds; ++round) {
        float **blocks;
        sparselu_init(&blocks, "benchmark");
        double start = now();
        sparselu_par_call(blocks);
        times[round] = now() - start;
        sum = 0;
        for (int i = 0; i < bots_arg_size * bots_arg_size; ++i) {
            for (int cell = 0; blocks[i] && cell < cells; ++cell) sum += fabs((double)blocks[i][cell]);
            free(blocks[i]);
        }
        free(blocks);
    }
    qsort(times, rounds, sizeof times[0], by_size);
    printf("sum %.9e\nmedian %.9f s\n", sum, times[rounds / 2]);
    return 0;
}
