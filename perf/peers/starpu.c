/* StarPU 1.3, from Debian, as a peer: one task an operation, one void handle a variable,
 * dependencies by sequential consistency. */
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

struct prepared {
    const struct perf_program *program;
    starpu_data_handle_t *handles;
};

/* The program that runs: a task then needs no argument but the number of its operation. */
static const struct perf_program *running;

static void execute(void *buffers[], void *operation) {
    (void)buffers;
    running->execute(running->context, (uint32_t)(uintptr_t)operation);
}

static struct starpu_codelet codelet = {
    .where = STARPU_CPU,
    .cpu_funcs = {execute},
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .name = "benchmark",
};

static const char *version(void) {
    static char text[32];
    int major, minor, release;
    starpu_get_version(&major, &minor, &release);
    snprintf(text, sizeof text, "%d.%d.%d", major, minor, release);
    return text;
}

static void *start(const char *mode, uint32_t threads, char *error, size_t room) {
    (void)mode;
    if (threads < 2) {
        snprintf(error, room, "StarPU runs nothing on the thread that submits: it needs two");
        return NULL;
    }
    uint32_t workers = threads - 1;
    struct prepared *prepared = calloc(1, sizeof *prepared);
    /* StarPU measures the machine once and keeps what it found in this folder; by default that is
     * the user's home. */
    setenv("STARPU_HOME", STARPU_FILES, 1);
    setenv("STARPU_SILENT", "1", 1);
    /* Without a limit, 200,000 waiting tasks take some 90 MB and miss the caches. Of none, 10,000
     * and 1000, the last was the fastest, by a third or more. */
    setenv("STARPU_LIMIT_MAX_SUBMITTED_TASKS", "1000", 1);
    setenv("STARPU_LIMIT_MIN_SUBMITTED_TASKS", "900", 1);
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.precedence_over_environment_variables = 1;
    conf.ncpus = (int)workers;
    conf.ncuda = conf.nopencl = conf.nmpi_ms = 0;
#if STARPU_MAJOR_VERSION == 1 && STARPU_MINOR_VERSION < 4
    conf.nmic = 0;
#else
    conf.nhip = conf.nmax_fpga = conf.ntcpip_ms = 0;
#endif
    conf.sched_policy_name = "eager"; /* Of these and ws, lws, prio, random and dmda the fastest here, or as fast as the fastest. */
    conf.catch_signals = 0;
    int outcome = starpu_init(&conf);
    if (outcome) {
        snprintf(error, room, "starpu_init: %s", strerror(-outcome));
        free(prepared);
        return NULL;
    }
    if (starpu_cpu_worker_get_count() != workers) {
        snprintf(error, room, "StarPU started %u workers instead of %u", starpu_cpu_worker_get_count(), workers);
        starpu_shutdown();
        free(prepared);
        return NULL;
    }
    return prepared;
}

static void clear(struct prepared *prepared) {
    for (uint32_t i = 0; prepared->program && i < prepared->program->variables; i++) starpu_data_unregister(prepared->handles[i]);
    free(prepared->handles);
    prepared->handles = NULL;
    prepared->program = NULL;
}

static int prepare(void *opaque, const struct perf_program *program, char *error, size_t room) {
    (void)error, (void)room;
    struct prepared *prepared = opaque;
    clear(prepared);
    prepared->handles = malloc(program->variables * sizeof *prepared->handles);
    for (uint32_t i = 0; i < program->variables; i++) starpu_void_data_register(&prepared->handles[i]);
    prepared->program = running = program;
    return 0;
}

static void submit(const struct prepared *prepared, uint32_t operation) {
    const struct perf_program *program = prepared->program;
    const uint32_t *reads = program->reads + program->read_ends[operation];
    const uint32_t *writes = program->writes + program->write_ends[operation];
    uint32_t read_count = program->read_ends[operation + 1] - program->read_ends[operation];
    uint32_t count = read_count + program->write_ends[operation + 1] - program->write_ends[operation];
    struct starpu_task *task = starpu_task_create();
    starpu_data_handle_t *handles = task->handles;
    enum starpu_data_access_mode *modes = task->modes;
    if (count > STARPU_NMAXBUFS) { /* The task frees these when it is destroyed. */
        handles = task->dyn_handles = malloc(count * sizeof *handles);
        modes = task->dyn_modes = malloc(count * sizeof *modes);
    }
    for (uint32_t i = 0; i < count; i++) {
        int reads_it = i < read_count;
        handles[i] = prepared->handles[reads_it ? reads[i] : writes[i - read_count]];
        modes[i] = reads_it ? STARPU_R : STARPU_RW;
    }
    task->cl = &codelet;
    task->nbuffers = (int)count;
    task->cl_arg = (void *)(uintptr_t)operation;
    if (starpu_task_submit(task)) abort();
}

static void run(void *opaque) {
    const struct prepared *prepared = opaque;
    const struct perf_program *program = prepared->program;
    for (uint64_t place = 0; place < program->length; place++) {
        if (program->pace) program->pace(program->context, place);
        submit(prepared, program->sequence[place]);
    }
    starpu_task_wait_for_all();
}

static void stop(void *opaque) {
    struct prepared *prepared = opaque;
    clear(prepared);
    starpu_shutdown();
    free(prepared);
}

static const struct peer face = {SERIATIM_PEER_ABI, version, start, prepare, run, NULL, NULL, stop};

__attribute__((visibility("default"))) const struct peer *seriatim_peer(void) { return &face; }
