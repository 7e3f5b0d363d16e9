// Time steps of an explicit heat equation on a ring of blocks: captured once as a graph, replayed a thousand times, with a
// parameter that is replaced on the way.
//
//   cc -std=c11 $(pkg-config --cflags --libs seriatim) replay.c -o replay

#include <seriatim.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 16, CELLS = 64, STEPS = 1000 };

// Says what went wrong, and ends the program.
static void check(SeriatimStatus status, const char *what) {
    if (status == SERIATIM_STATUS_OK) return;
    fprintf(stderr, "%s: %s (%s)\n", what, seriatim_last_error(), seriatim_status_text(status));
    exit(1);
}

typedef struct {
    double cells[CELLS];
} Block;

// What an operation needs: three blocks of the old state, one of the new one, and where to find the rate.
typedef struct {
    const Block *left, *middle, *right;
    Block *out;
    SeriatimParameter *rate;
} Stencil;

static int diffuse(void *argument, const SeriatimRunContext *run) {
    const Stencil *stencil = argument;
    void *value;
    if (seriatim_parameter_get(stencil->rate, run, &value) != SERIATIM_STATUS_OK) {
        seriatim_run_context_set_error(run, seriatim_last_error());
        return 1;
    }
    double rate = *(const double *)value;
    const double *cells = stencil->middle->cells;
    for (int i = 0; i < CELLS; i++) {
        double left = i > 0 ? cells[i - 1] : stencil->left->cells[CELLS - 1];
        double right = i < CELLS - 1 ? cells[i + 1] : stencil->right->cells[0];
        stencil->out->cells[i] = cells[i] + rate * (left - 2 * cells[i] + right);
    }
    return 0;
}

static void *number(double value) {
    double *copy = malloc(sizeof *copy);
    if (copy == NULL) abort();
    *copy = value;
    return copy;
}

int main(void) {
    // The library that was found may be newer than the header, but not older, and it must have the same interface.
    if (seriatim_abi_version() != SERIATIM_ABI_VERSION || seriatim_version_number() < SERIATIM_VERSION_NUMBER) {
        fprintf(stderr, "made for seriatim %d.%d.%d, found %s\n", SERIATIM_VERSION_MAJOR, SERIATIM_VERSION_MINOR,
                SERIATIM_VERSION_PATCH, seriatim_version());
        return 1;
    }
    SeriatimEngine *engine;
    SeriatimSetting settings[] = {{"CPU_WORKERS", "2"}, {"PIN", "off"}};
    check(seriatim_engine_new(settings, 2, &engine), "engine");

    static Block state[2][BLOCKS];
    SeriatimVariable variables[2][BLOCKS];
    for (int side = 0; side < 2; side++)
        for (int b = 0; b < BLOCKS; b++) check(seriatim_variable_new(engine, &variables[side][b]), "variable");
    state[0][0].cells[0] = 1000;

    // Two steps: from the first half of the state to the second, and back. What waits for what follows from the variables.
    SeriatimCapture *capture;
    SeriatimParameter *rate;
    check(seriatim_capture_begin(engine, "two steps", &capture), "capture");
    check(seriatim_capture_parameter(capture, number(0.25), free, &rate), "parameter");
    for (int side = 0; side < 2; side++) {
        for (int b = 0; b < BLOCKS; b++) {
            int left = (b + BLOCKS - 1) % BLOCKS, right = (b + 1) % BLOCKS;
            SeriatimVariable reads[] = {variables[side][left], variables[side][b], variables[side][right]};
            SeriatimOperation operation = {
                .name = "diffuse", .reads = reads, .read_count = 3, .writes = &variables[1 - side][b], .write_count = 1};
            Stencil *stencil = malloc(sizeof *stencil);
            if (stencil == NULL) abort();
            *stencil = (Stencil){&state[side][left], &state[side][b], &state[side][right], &state[1 - side][b], rate};
            // The graph owns the argument: `free` is called when the graph is gone.
            check(seriatim_capture_push(capture, &operation, diffuse, stencil, free), "operation");
        }
    }
    SeriatimGraph *graph;
    check(seriatim_capture_end(capture, &graph), "graph");

    for (int step = 0; step < STEPS; step++) {
        // Replays before this see the old rate, those after it the new one. Nothing waits here.
        if (step == STEPS / 2) check(seriatim_parameter_set(rate, number(0.125), free), "rate");
        check(seriatim_graph_replay(graph, 0), "replay");
    }
    for (int b = 0; b < BLOCKS; b++) check(seriatim_wait_for_variable(engine, variables[0][b]), "wait");

    double total = 0, most = 0;
    for (int b = 0; b < BLOCKS; b++) {
        for (int i = 0; i < CELLS; i++) {
            total += state[0][b].cells[i];
            if (state[0][b].cells[i] > most) most = state[0][b].cells[i];
        }
    }
    size_t operations;
    check(seriatim_graph_length(graph, &operations), "length");
    uint64_t version;
    check(seriatim_variable_version(engine, variables[0][0], &version), "version");
    printf("%zu operations, replayed %d times: version %llu, heat %.3f, at most %.3f\n", operations, STEPS,
           (unsigned long long)version, total, most);

    check(seriatim_graph_delete(graph), "graph");
    check(seriatim_engine_delete(engine), "engine");
    // Only now can no operation ask for it any more.
    check(seriatim_parameter_delete(rate), "parameter");
    return 0;
}
