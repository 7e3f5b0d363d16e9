/* This engine through its C interface, as a peer, to stand beside MXNet. Modes: "naive", "naive
 * async", "shipped", "shipped operators", "placement".
 *
 * What is pushed lies ready, as for MXNet: an operation with its variables, and the argument of its
 * function. It has no name, since a name is looked up at each push. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <seriatim.h>

#include "peer.h"

/* The argument of a function: which body to run. */
struct body {
    const struct perf_program *program;
    uint32_t operation;
};

struct engine {
    SeriatimEngine *engine;
    int async, reuse;
    const struct perf_program *program;
    /* All variables, and those of the operations, one operation after another. */
    SeriatimVariable *variables, *reads, *writes;
    /* Of each distinct operation. */
    SeriatimOperation *operations;
    struct body *bodies;
    SeriatimOperator **operators;
};

static int execute(void *argument, const SeriatimRunContext *run) {
    (void)run;
    const struct body *body = argument;
    body->program->execute(body->program->context, body->operation);
    return 0;
}

static void execute_async(void *argument, const SeriatimRunContext *run, SeriatimCompletion *completion) {
    execute(argument, run);
    seriatim_completion_complete(completion);
}

/* Programs of the suite do not fail: if a call does, no figure may be made of it. */
static void must(SeriatimStatus status) {
    if (status != SERIATIM_STATUS_OK) {
        fprintf(stderr, "seriatim_c: %s\n", seriatim_last_error());
        abort();
    }
}

static void clear(struct engine *engine) {
    if (engine->program == NULL) {
        return;
    }
    for (uint32_t i = 0; engine->reuse && i < engine->program->distinct; i++) {
        must(seriatim_operator_delete(engine->operators[i]));
    }
    for (uint32_t i = 0; i < engine->program->variables; i++) {
        must(seriatim_variable_delete(engine->engine, engine->variables[i], (SeriatimContext){0}, NULL, NULL, NULL));
    }
    must(seriatim_wait_for_all(engine->engine));
    void *made[] = {engine->variables, engine->reads, engine->writes, engine->operations, engine->bodies, engine->operators};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        free(made[i]);
    }
    engine->program = NULL;
}

static void *start(const char *mode, uint32_t threads, char *error, size_t room) {
    const int naive = strncmp(mode, "naive", 5) == 0;
    const int shipped = strncmp(mode, "shipped", 7) == 0;
    if ((!naive && !shipped && strcmp(mode, "placement") != 0) || naive != (threads == 1)) {
        snprintf(error, room, "no mode '%s' with %u threads in all", mode, threads);
        return NULL;
    }
    char workers[16];
    snprintf(workers, sizeof workers, "%u", naive ? 1 : threads - 1);
    const SeriatimSetting settings[] = {
        {"ENGINE", naive ? "naive" : "per-device"},
        {"CPU_WORKERS", workers},
        {"WAITERS_HELP", shipped ? "off" : "on"},
        /* In nanoseconds. */
        {"INLINE_BELOW", naive || shipped ? "0" : "300"},
    };
    struct engine *engine = calloc(1, sizeof *engine);
    engine->async = strstr(mode, "async") != NULL;
    engine->reuse = strstr(mode, "operators") != NULL;
    if (seriatim_engine_new(settings, sizeof settings / sizeof *settings, &engine->engine) != SERIATIM_STATUS_OK) {
        snprintf(error, room, "%s", seriatim_last_error());
        free(engine);
        return NULL;
    }
    return engine;
}

/* Copies the handles of the variables with these numbers. */
static SeriatimVariable *named(const struct engine *engine, const uint32_t *numbers, uint32_t count) {
    SeriatimVariable *found = calloc(count + 1, sizeof *found);
    for (uint32_t i = 0; i < count; i++) {
        found[i] = engine->variables[numbers[i]];
    }
    return found;
}

static int prepare(void *made, const struct perf_program *program, char *error, size_t room) {
    (void)error, (void)room;
    struct engine *engine = made;
    clear(engine);
    const uint32_t distinct = program->distinct;
    engine->program = program;
    engine->variables = calloc(program->variables, sizeof *engine->variables);
    engine->operations = calloc(distinct, sizeof *engine->operations);
    engine->bodies = calloc(distinct, sizeof *engine->bodies);
    engine->operators = calloc(distinct, sizeof *engine->operators);
    for (uint32_t i = 0; i < program->variables; i++) {
        must(seriatim_variable_new(engine->engine, &engine->variables[i]));
    }
    engine->reads = named(engine, program->reads, program->read_ends[distinct]);
    engine->writes = named(engine, program->writes, program->write_ends[distinct]);
    for (uint32_t i = 0; i < distinct; i++) {
        const uint32_t *read = &program->read_ends[i], *write = &program->write_ends[i];
        engine->bodies[i] = (struct body){program, i};
        engine->operations[i] = (SeriatimOperation){
            .reads = &engine->reads[read[0]],
            .read_count = read[1] - read[0],
            .writes = &engine->writes[write[0]],
            .write_count = write[1] - write[0],
        };
        if (engine->reuse) {
            must(seriatim_operator_new(engine->engine, &engine->operations[i], execute, &engine->bodies[i], NULL, &engine->operators[i]));
        }
    }
    return 0;
}

static void push(void *made, uint64_t part, uint64_t parts) {
    const struct engine *engine = made;
    const struct perf_program *program = engine->program;
    for (uint64_t place = part; place < program->length; place += parts) {
        if (program->pace != NULL) {
            program->pace(program->context, place);
        }
        const uint32_t i = program->sequence[place];
        if (engine->reuse) {
            must(seriatim_operator_push(engine->engine, engine->operators[i], (SeriatimContext){0}, 0));
        } else if (engine->async) {
            must(seriatim_push_async(engine->engine, &engine->operations[i], execute_async, &engine->bodies[i], NULL));
        } else {
            must(seriatim_push(engine->engine, &engine->operations[i], execute, &engine->bodies[i], NULL));
        }
    }
}

static void await(void *made) {
    must(seriatim_wait_for_all(((struct engine *)made)->engine));
}

static void run(void *made) {
    push(made, 0, 1);
    await(made);
}

static void stop(void *made) {
    struct engine *engine = made;
    clear(engine);
    must(seriatim_engine_delete(engine->engine));
    free(engine);
}

__attribute__((visibility("default"))) const struct peer *seriatim_peer(void) {
    static const struct peer peer = {SERIATIM_PEER_ABI, seriatim_version, start, prepare, run, push, await, stop};
    return &peer;
}
