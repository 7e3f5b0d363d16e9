/* Times StarPU's own basic example mult.c, beside examples/ports/mult.rs. scripts/ports.sh compiles
 * it with the file of a clone. Arguments: ROWS COLUMNS INNER SLICES ROUNDS. */
#define main main_of_mult
#include "mult.c"
#undef main

static int by_size(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int count, char **arguments) {
    (void)count;
    ydim = atoi(arguments[1]), xdim = atoi(arguments[2]), zdim = atoi(arguments[3]);
    nslicesx = nslicesy = atoi(arguments[4]);
    int rounds = atoi(arguments[5]);
    double times[rounds], sum = 0;
    if (starpu_init(NULL)) return 1;
    init_problem_data();
    for (int round = 0; round < rounds; ++round) {
        double start = starpu_timing_now();
        partition_mult_data();
        if (launch_tasks()) return 1;
        starpu_task_wait_for_all();
        times[round] = (starpu_timing_now() - start) * 1e-6;
        starpu_data_handle_t handles[] = {A_handle, B_handle, C_handle};
        for (int i = 0; i < 3; ++i) {
            starpu_data_unpartition(handles[i], STARPU_MAIN_RAM);
            starpu_data_unregister(handles[i]);
        }
        sum = 0;
        for (size_t i = 0; i < xdim * ydim; ++i) sum += C[i];
    }
    starpu_shutdown();
    qsort(times, rounds, sizeof times[0], by_size);
    printf("sum %.9e\nmedian %.9f s\n", sum, times[rounds / 2]);
    return 0;
}
