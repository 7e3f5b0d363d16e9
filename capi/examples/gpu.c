// Bytes go to a GPU, are changed there, and come back. The GPU is the processor, so that this runs anywhere; with a library
// that was built for CUDA, leave out seriatim_builder_immediate_gpus() and launch a kernel where `scale` has its loop.
//
//   cc -std=c11 $(pkg-config --cflags --libs seriatim) gpu.c -o gpu

#include <seriatim.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000 };

// Says what went wrong, and ends the program.
static void check(SeriatimStatus status, const char *what) {
    if (status == SERIATIM_STATUS_OK) return;
    fprintf(stderr, "%s: %s (%s)\n", what, seriatim_last_error(), seriatim_status_text(status));
    exit(1);
}

// An operation of the GPU: a kernel would be launched on seriatim_run_context_stream(run), with this address.
static int scale(void *argument, const SeriatimRunContext *run) {
    void *address;
    if (seriatim_array_write_on(argument, run, &address) != SERIATIM_STATUS_OK) {
        seriatim_run_context_set_error(run, seriatim_last_error());
        return 1;
    }
    double *values = address;
    for (int i = 0; i < COUNT; i++) values[i] *= 2;
    return 0;
}

// As a library with streams of its own: the operation ends when what is on the stream is done.
static void shift(void *argument, const SeriatimRunContext *run, SeriatimCompletion *completion) {
    void *address;
    if (seriatim_array_write_on(argument, run, &address) != SERIATIM_STATUS_OK) {
        seriatim_completion_fail(completion, seriatim_last_error());
        return;
    }
    double *values = address;
    for (int i = 0; i < COUNT; i++) values[i] += 1;
    seriatim_completion_complete_after(completion, seriatim_run_context_stream(run));
}

int main(void) {
    SeriatimBuilder *builder;
    SeriatimEngine *engine;
    check(seriatim_builder_new(&builder), "builder");
    check(seriatim_builder_immediate_gpus(builder, 1), "GPUs");
    check(seriatim_builder_build(builder, &engine), "engine");

    static double values[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = i;
    SeriatimGpu *gpu;
    SeriatimArray *there, *back;
    check(seriatim_gpu_open(engine, 0, &gpu), "GPU");
    check(seriatim_array_new(gpu, SERIATIM_MEMORY_DEVICE, sizeof values, values, &there), "array");
    check(seriatim_array_new(gpu, SERIATIM_MEMORY_PINNED, sizeof values, NULL, &back), "pinned array");

    SeriatimVariable variable = seriatim_array_variable(there);
    SeriatimOperation operation = {
        .name = "scale", .context = {SERIATIM_DEVICE_GPU, 0}, .writes = &variable, .write_count = 1};
    check(seriatim_push(engine, &operation, scale, there, NULL), "push");
    operation.name = "shift";
    check(seriatim_push_async(engine, &operation, shift, there, NULL), "asynchronous push");

    // A stream of the program's own: work on it stands between the two calls.
    SeriatimAdoptedStream *own;
    check(seriatim_gpu_adopt(gpu, NULL, &own), "adopt");
    check(seriatim_adopted_stream_wait_to_write(own, variable), "wait to write");
    check(seriatim_adopted_stream_has_written(own, variable), "has written");

    check(seriatim_copy(there, back), "copy");
    check(seriatim_wait_for_variable(engine, seriatim_array_variable(back)), "wait");
    check(seriatim_array_get(back, 0, values, sizeof values), "get");
    double sum = 0;
    for (int i = 0; i < COUNT; i++) sum += values[i];
    SeriatimMemoryUsage usage;
    check(seriatim_gpu_memory(gpu, SERIATIM_MEMORY_DEVICE, &usage), "memory");
    printf("sum %.0f, %zu bytes in use\n", sum, usage.in_use);

    check(seriatim_adopted_stream_delete(own), "delete");
    check(seriatim_array_delete(there), "delete");
    check(seriatim_array_delete(back), "delete");
    check(seriatim_gpu_delete(gpu), "delete");
    check(seriatim_engine_delete(engine), "delete");
    return 0;
}
