/* The workloads of perf/examples/modes.rs in StarPU, on two workers: writes are STARPU_RW, what
 * commutes is STARPU_RW | STARPU_COMMUTE, and reductions are STARPU_REDUX. Built by perf/modes.sh. */
#include "work.h"

#include <starpu.h>

struct made {
    uint64_t steps, number;
};

static void make(void *buffers[], void *argument) {
    const struct made *made = argument;
    work(length_of(made->steps, made->number), made->number);
    *(uint64_t *)STARPU_VARIABLE_GET_PTR(buffers[0]) = 1;
}

static void add(void *buffers[], void *argument) {
    uint64_t *input = (uint64_t *)STARPU_VARIABLE_GET_PTR(buffers[0]);
    uint64_t *sum = (uint64_t *)STARPU_VARIABLE_GET_PTR(buffers[1]);
    work(((const struct made *)argument)->steps, *input);
    *sum += *input;
}

static void add_one(void *buffers[], void *argument) {
    work(((const struct made *)argument)->steps, 1);
    *(uint64_t *)STARPU_VARIABLE_GET_PTR(buffers[0]) += 1;
}

static void begin_part(void *buffers[], void *argument) {
    (void)argument;
    *(uint64_t *)STARPU_VARIABLE_GET_PTR(buffers[0]) = 0;
}

static void combine(void *buffers[], void *argument) {
    (void)argument;
    *(uint64_t *)STARPU_VARIABLE_GET_PTR(buffers[0]) += *(uint64_t *)STARPU_VARIABLE_GET_PTR(buffers[1]);
}

static struct starpu_codelet begin_codelet = {.cpu_funcs = {begin_part}, .nbuffers = 1, .modes = {STARPU_W}};
static struct starpu_codelet combine_codelet = {
    .cpu_funcs = {combine}, .nbuffers = 2, .modes = {STARPU_RW, STARPU_R}};
static struct starpu_codelet make_codelet = {.cpu_funcs = {make}, .nbuffers = 1, .modes = {STARPU_W}};
static struct starpu_codelet add_codelet = {.cpu_funcs = {add}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}};
static struct starpu_codelet add_commuting = {
    .cpu_funcs = {add}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW | STARPU_COMMUTE}};
static struct starpu_codelet one_codelet = {.cpu_funcs = {add_one}, .nbuffers = 1, .modes = {STARPU_RW}};
static struct starpu_codelet one_commuting = {
    .cpu_funcs = {add_one}, .nbuffers = 1, .modes = {STARPU_RW | STARPU_COMMUTE}};
static struct starpu_codelet one_reducing = {.cpu_funcs = {add_one}, .nbuffers = 1, .modes = {STARPU_REDUX}};

static void submit(struct starpu_codelet *codelet, struct made *made, starpu_data_handle_t first,
                   starpu_data_handle_t second) {
    struct starpu_task *task = starpu_task_create();
    task->cl = codelet;
    task->cl_arg = made;
    task->cl_arg_size = sizeof *made;
    task->handles[0] = first;
    if (second != NULL) task->handles[1] = second;
    if (starpu_task_submit(task) != 0) abort();
}

static uint64_t accumulate(int commutes, uint64_t steps, size_t operations, uint64_t *total) {
    uint64_t *inputs = calloc(operations * 8, sizeof *inputs), sums[SUMS * 8] = {0};
    struct made *made = malloc(operations * sizeof *made);
    starpu_data_handle_t *handles = malloc(operations * sizeof *handles), of_sums[SUMS];
    for (size_t number = 0; number < operations; number++) {
        made[number] = (struct made){steps, number};
        starpu_variable_data_register(&handles[number], STARPU_MAIN_RAM, (uintptr_t)&inputs[number * 8], 8);
    }
    for (int at = 0; at < SUMS; at++)
        starpu_variable_data_register(&of_sums[at], STARPU_MAIN_RAM, (uintptr_t)&sums[at * 8], 8);
    uint64_t begin = now();
    for (size_t number = 0; number < operations; number++) {
        submit(&make_codelet, &made[number], handles[number], NULL);
        submit(commutes ? &add_commuting : &add_codelet, &made[number], handles[number], of_sums[number % SUMS]);
    }
    starpu_task_wait_for_all();
    uint64_t took = now() - begin;
    for (size_t number = 0; number < operations; number++) starpu_data_unregister(handles[number]);
    for (int at = 0; at < SUMS; at++) starpu_data_unregister(of_sums[at]), *total += sums[at * 8];
    free(inputs), free(made), free(handles);
    return took;
}

static uint64_t sum_of(const char *how, uint64_t steps, size_t operations, uint64_t *total) {
    uint64_t sum = 0;
    struct made made = {steps, 0};
    starpu_data_handle_t handle;
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&sum, 8);
    starpu_data_set_reduction_methods(handle, &combine_codelet, &begin_codelet);
    int reduces = strcmp(how, "reduce") == 0;
    struct starpu_codelet *codelet = reduces ? &one_reducing : &one_codelet;
    if (strcmp(how, "commute") == 0) codelet = &one_commuting;
    uint64_t begin = now();
    for (size_t number = 0; number < operations; number++) submit(codelet, &made, handle, NULL);
    /* Combines the parts. */
    starpu_data_acquire(handle, STARPU_R);
    starpu_data_release(handle);
    uint64_t took = now() - begin;
    starpu_data_unregister(handle);
    *total = sum;
    return took;
}

static uint64_t run(const char *workload, uint64_t steps, size_t operations, uint64_t *total) {
    const char *how = strchr(workload, '-') + 1;
    if (strncmp(workload, "accumulate", 10) == 0)
        return accumulate(strcmp(how, "commute") == 0, steps, operations, total);
    return sum_of(how, steps, operations, total);
}

int main(int count, char **arguments) {
    setenv("STARPU_NCPU", "2", 0);
    setenv("STARPU_SILENT", "1", 0);
    if (starpu_init(NULL) != 0) return 1;
    int status = median_of(count, arguments, run);
    starpu_shutdown();
    return status;
}
