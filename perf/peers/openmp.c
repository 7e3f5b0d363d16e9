/* OpenMP tasks with `depend`, as a peer: built with GCC it measures libgomp, with clang libomp.
 *
 * An operation is a task. Its depend clauses name an address for each variable, `in` for what it
 * reads and `inout` for what it changes. How many there are is known when it is pushed, hence the
 * iterators of OpenMP 5.0: a compiler turns them into a loop that fills an array on the stack and
 * then makes the call that it makes for a fixed list too. Against fixed lists this costs a few
 * nanoseconds at most.
 *
 * One thread of the team pushes everything and ends with a taskwait, in which it runs tasks too;
 * the others run tasks from the start, at the barrier that ends `single`. What the environment may
 * set (how threads wait, where they run) is left as each library has it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

/* What a variable's address is the address of. Nothing is stored there, but both libraries hash
 * addresses without their lowest bits, as suits objects that are larger than a byte: neighbours of
 * a byte each would collide, which no program's data would do to them. */
struct variable {
    char line[64];
};

struct engine {
    int threads;
    const struct perf_program *program;
    struct variable *variables;
};

static const char *version(void) {
    /* Neither library can be asked; the script that builds this knows the version of the one that
     * it links. */
    return LIBRARY_VERSION;
}

/* The file of the library that runs: objects of GCC can be made to run on libomp, and one process
 * may hold both libraries. */
static const char *library(void) {
    Dl_info found;
    return dladdr((void *)omp_get_num_threads, &found) != 0 ? found.dli_fname : "unknown";
}

static void stop(void *made) {
    struct engine *engine = made;
    free(engine->variables);
    free(engine);
    /* Ends the threads of the team. */
    omp_pause_resource_all(omp_pause_hard);
}

static void *start(const char *mode, uint32_t threads, char *error, size_t room) {
    if (*mode != 0) {
        snprintf(error, room, "OpenMP has no mode '%s'", mode);
        return NULL;
    }
    if (strstr(library(), LIBRARY) == NULL) {
        snprintf(error, room, "%s runs instead of " LIBRARY, library());
        return NULL;
    }
    struct engine *engine = calloc(1, sizeof *engine);
    engine->threads = (int)threads;
    int found = 0;
#pragma omp parallel num_threads(engine->threads)
#pragma omp single
    found = omp_get_num_threads();
    if (found != engine->threads) {
        snprintf(error, room, "%d threads instead of %u", found, threads);
        stop(engine);
        return NULL;
    }
    return engine;
}

static int prepare(void *made, const struct perf_program *program, char *error, size_t room) {
    struct engine *engine = made;
    engine->program = program;
    free(engine->variables);
    engine->variables = aligned_alloc(sizeof *engine->variables, program->variables * sizeof *engine->variables);
    if (engine->variables == NULL) {
        snprintf(error, room, "no memory for %u variables", program->variables);
        return 1;
    }
    return 0;
}

static void push(const struct perf_program *program, struct variable *variables, uint32_t operation) {
    const uint32_t *reads = program->reads, *writes = program->writes;
    uint32_t first_read = program->read_ends[operation], read_end = program->read_ends[operation + 1];
    uint32_t first_write = program->write_ends[operation], write_end = program->write_ends[operation + 1];
#pragma omp task firstprivate(program, operation)                                  \
    depend(iterator(uint32_t i = first_read : read_end), in : variables[reads[i]]) \
    depend(iterator(uint32_t i = first_write : write_end), inout : variables[writes[i]])
    program->execute(program->context, operation);
}

static void run(void *made) {
    struct engine *engine = made;
    const struct perf_program *program = engine->program;
    struct variable *variables = engine->variables;
#pragma omp parallel num_threads(engine->threads)
#pragma omp single
    {
        for (uint64_t place = 0; place < program->length; place++) {
            if (program->pace != NULL) {
                program->pace(program->context, place);
            }
            push(program, variables, program->sequence[place]);
        }
#pragma omp taskwait
    }
}

const struct peer *seriatim_peer(void) {
    static const struct peer peer = {SERIATIM_PEER_ABI, version, start, prepare, run, NULL, NULL, stop};
    return &peer;
}
