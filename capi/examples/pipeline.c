// A small program on the C interface: blocks are fetched, transformed and summed up, through two buffers of each kind.
//
//   fetch      an asynchronous operation, which a reader thread of the program completes
//   transform  a prioritised operation
//   consume    one operator for each buffer, pushed again and again
//
// Then a stage that fails, operations in the order of their priorities, and a look at what the engine recorded. The program
// checks all that it says, and ends with a status of 0 only if everything was so.
//
// cc -std=c11 -pthread -I../include pipeline.c -L../../target/release -lseriatim_c -o pipeline

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seriatim.h"

enum { BLOCKS = 64, LENGTH = 256, BUFFERS = 2, URGENT = 3 };

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void require(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "pipeline.c:%d: not so: %s (%s)\n", line, what, seriatim_last_error());
        exit(1);
    }
}
#define REQUIRE(condition) require((condition), #condition, __LINE__)
#define OK(call) require((call) == SERIATIM_STATUS_OK, #call, __LINE__)

// Arguments: made on the heap, and deleted by the engine. Every one that was made must be deleted once.

static atomic_int made, deleted;

static void *make(size_t size) {
    void *argument = calloc(1, size);
    REQUIRE(argument != NULL);
    atomic_fetch_add(&made, 1);
    return argument;
}

static void delete_argument(void *argument) {
    free(argument);
    atomic_fetch_add(&deleted, 1);
}

// The buffers, and the variables that stand for them. Nothing here needs a lock: the engine keeps the order.

static struct {
    double raw[BUFFERS][LENGTH];
    double scaled[BUFFERS][LENGTH];
    double total;
    SeriatimVariable raw_variable[BUFFERS];
    SeriatimVariable scaled_variable[BUFFERS];
    SeriatimVariable total_variable;
} data;

typedef struct Task {
    int block;
    SeriatimCompletion *completion;
    struct Task *next;
} Task;

// The reader: a thread of the program's own, which stands for a disk or a network.

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    Task *first, **last;
    int closed;
} requests = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, &requests.first, 0};

static void *reader(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&requests.lock);
        while (requests.first == NULL && !requests.closed) pthread_cond_wait(&requests.changed, &requests.lock);
        Task *task = requests.first;
        if (task != NULL) requests.first = task->next;
        if (requests.first == NULL) requests.last = &requests.first;
        pthread_mutex_unlock(&requests.lock);
        if (task == NULL) return NULL;
        for (int i = 0; i < LENGTH; i++) data.raw[task->block % BUFFERS][i] = task->block + i;
        // The task is the engine's argument: it is gone once the operation is complete.
        OK(seriatim_completion_complete(task->completion));
    }
}

static void fetch(void *argument, const SeriatimRunContext *run, SeriatimCompletion *completion) {
    (void)run;
    Task *task = argument;
    task->completion = completion;
    pthread_mutex_lock(&requests.lock);
    *requests.last = task;
    requests.last = &task->next;
    pthread_cond_signal(&requests.changed);
    pthread_mutex_unlock(&requests.lock);
}

static int transform(void *argument, const SeriatimRunContext *run) {
    (void)run;
    int buffer = ((Task *)argument)->block % BUFFERS;
    for (int i = 0; i < LENGTH; i++) data.scaled[buffer][i] = 2.0 * data.raw[buffer][i];
    return 0;
}

static int consume(void *argument, const SeriatimRunContext *run) {
    (void)run;
    int buffer = ((Task *)argument)->block;
    for (int i = 0; i < LENGTH; i++) data.total += data.scaled[buffer][i];
    return 0;
}

static int drop_variable(void *argument, const SeriatimRunContext *run) {
    REQUIRE(strcmp(seriatim_run_context_name(run), "delete variable") == 0);
    atomic_fetch_add((atomic_int *)argument, 1);
    return 0;
}

static void run_pipeline(SeriatimEngine *engine) {
    SeriatimContext anywhere = {SERIATIM_DEVICE_CPU, 0};
    SeriatimOperator *consumers[BUFFERS];
    OK(seriatim_variable_new(engine, &data.total_variable));
    for (int buffer = 0; buffer < BUFFERS; buffer++) {
        OK(seriatim_variable_new(engine, &data.raw_variable[buffer]));
        OK(seriatim_variable_new(engine, &data.scaled_variable[buffer]));
        SeriatimOperation operation = {
            .name = "consume",
            .reads = &data.scaled_variable[buffer],
            .read_count = 1,
            .writes = &data.total_variable,
            .write_count = 1,
        };
        Task *task = make(sizeof *task);
        task->block = buffer;
        OK(seriatim_operator_new(engine, &operation, consume, task, delete_argument, &consumers[buffer]));
    }
    for (int block = 0; block < BLOCKS; block++) {
        int buffer = block % BUFFERS;
        SeriatimOperation fetching = {
            .name = "fetch",
            .writes = &data.raw_variable[buffer],
            .write_count = 1,
            .property = SERIATIM_PROPERTY_ASYNC,
        };
        SeriatimOperation transforming = {
            .name = "transform",
            .reads = &data.raw_variable[buffer],
            .read_count = 1,
            .writes = &data.scaled_variable[buffer],
            .write_count = 1,
            .priority = 1,
        };
        Task *task = make(sizeof *task);
        task->block = block;
        OK(seriatim_push_async(engine, &fetching, fetch, task, delete_argument));
        task = make(sizeof *task);
        task->block = block;
        OK(seriatim_push(engine, &transforming, transform, task, delete_argument));
        OK(seriatim_operator_push(engine, consumers[buffer], anywhere, 0));
    }
    // Their uses go on; the operators are gone after the last.
    for (int buffer = 0; buffer < BUFFERS; buffer++) OK(seriatim_operator_delete(consumers[buffer]));
    OK(seriatim_wait_for_variable(engine, data.total_variable));

    double expected = 0;
    for (int block = 0; block < BLOCKS; block++)
        for (int i = 0; i < LENGTH; i++) expected += 2.0 * (block + i);
    uint64_t version = 0;
    OK(seriatim_variable_version(engine, data.total_variable, &version));
    REQUIRE(version == BLOCKS);
    REQUIRE(data.total == expected);
    printf("total %.0f after %d blocks\n", data.total, (int)version);
}

// A stage that fails: what depends on it is skipped, and the first wait says why. The wait is for the last stage: an error that
// was taken is gone, and a stage that had not come to its turn by then would run.

static int check(void *argument, const SeriatimRunContext *run) {
    seriatim_run_context_set_error(run, argument);
    return 1;
}

static int never(void *argument, const SeriatimRunContext *run) {
    (void)argument, (void)run;
    REQUIRE(!"this operation is skipped");
    return 0;
}

static void fail_once(SeriatimEngine *engine) {
    SeriatimVariable report, printed;
    OK(seriatim_variable_new(engine, &report));
    OK(seriatim_variable_new(engine, &printed));
    SeriatimOperation checking = {
        .name = "check", .reads = &data.total_variable, .read_count = 1, .writes = &report, .write_count = 1};
    SeriatimOperation printing = {
        .name = "print", .reads = &report, .read_count = 1, .writes = &printed, .write_count = 1};
    char *text = make(32);
    strcpy(text, "the total is not prime");
    OK(seriatim_push(engine, &checking, check, text, delete_argument));
    OK(seriatim_push(engine, &printing, never, make(1), delete_argument));
    REQUIRE(seriatim_wait_for_variable(engine, printed) == SERIATIM_STATUS_OPERATION_FAILED);
    REQUIRE(strcmp(seriatim_last_error(), "operation 'check' failed: the total is not prime") == 0);
    printf("as expected: %s\n", seriatim_last_error());
    OK(seriatim_wait_for_all(engine));
    OK(seriatim_variable_delete(engine, report, checking.context, NULL, make(1), delete_argument));
    OK(seriatim_variable_delete(engine, printed, checking.context, NULL, make(1), delete_argument));
    REQUIRE(seriatim_wait_for_variable(engine, report) == SERIATIM_STATUS_VARIABLE_DELETED);
}

// Priorities: while the only worker for prioritised operations is busy, others queue up behind it.

static struct {
    atomic_int busy, released, count;
    int order[URGENT];
} urgent;

static int keep_busy(void *argument, const SeriatimRunContext *run) {
    (void)argument, (void)run;
    atomic_store(&urgent.busy, 1);
    while (!atomic_load(&urgent.released)) sched_yield();
    return 0;
}

static int note_priority(void *argument, const SeriatimRunContext *run) {
    (void)run;
    urgent.order[atomic_fetch_add(&urgent.count, 1)] = *(int *)argument;
    return 0;
}

static void run_by_priority(SeriatimEngine *engine) {
    SeriatimOperation operation = {.name = "urgent", .property = SERIATIM_PROPERTY_CPU_PRIORITIZED};
    OK(seriatim_push(engine, &operation, keep_busy, NULL, NULL));
    while (!atomic_load(&urgent.busy)) sched_yield();
    static const int priorities[URGENT] = {1, 3, 2};
    for (int i = 0; i < URGENT; i++) {
        int *priority = make(sizeof *priority);
        *priority = operation.priority = priorities[i];
        OK(seriatim_push(engine, &operation, note_priority, priority, delete_argument));
    }
    REQUIRE(seriatim_wait_for_all_timeout(engine, 1000000) == SERIATIM_STATUS_TIMED_OUT);
    REQUIRE(strstr(seriatim_last_error(), "'urgent'") != NULL);
    atomic_store(&urgent.released, 1);
    OK(seriatim_wait_for_all(engine));
    printf("order of priorities: %d %d %d\n", urgent.order[0], urgent.order[1], urgent.order[2]);
    REQUIRE(urgent.order[0] == 3 && urgent.order[1] == 2 && urgent.order[2] == 1);
}

int main(void) {
    REQUIRE(seriatim_abi_version() == SERIATIM_ABI_VERSION);
    SeriatimSetting settings[] = {
        {"ENGINE", "per-device"},
        {"CPU_WORKERS", "2"},
        {"SERIATIM_PRIORITY_WORKERS", "1"},
        {"WAITERS_HELP", "off"},
        {"PIN", "off"},
    };
    SeriatimEngine *engine;
    OK(seriatim_engine_new(settings, COUNT(settings), &engine));
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, reader, NULL) == 0);

    OK(seriatim_profile_start(engine));
    run_pipeline(engine);
    OK(seriatim_profile_stop(engine));
    char *table;
    OK(seriatim_profile_table(engine, &table));
    REQUIRE(strstr(table, "transform") != NULL && strstr(table, "fetch") != NULL);
    fputs(table, stdout);
    OK(seriatim_string_free(table));

    fail_once(engine);
    run_by_priority(engine);

    // A push that is refused deletes its argument all the same. This variable is of no engine.
    SeriatimVariable none = {0, 0};
    SeriatimOperation nowhere = {.writes = &none, .write_count = 1};
    REQUIRE(seriatim_push(engine, &nowhere, never, make(1), delete_argument) == SERIATIM_STATUS_FOREIGN_VARIABLE);

    atomic_int dropped = 0;
    SeriatimContext anywhere = {SERIATIM_DEVICE_CPU, 0};
    OK(seriatim_variable_delete(engine, data.total_variable, anywhere, drop_variable, &dropped, NULL));
    for (int buffer = 0; buffer < BUFFERS; buffer++) {
        OK(seriatim_variable_delete(engine, data.raw_variable[buffer], anywhere, drop_variable, &dropped, NULL));
        OK(seriatim_variable_delete(engine, data.scaled_variable[buffer], anywhere, drop_variable, &dropped, NULL));
    }
    OK(seriatim_engine_delete(engine));
    REQUIRE(atomic_load(&dropped) == 1 + 2 * BUFFERS);
    REQUIRE(atomic_load(&deleted) == atomic_load(&made));
    printf("%d arguments, each deleted once\n", atomic_load(&deleted));

    pthread_mutex_lock(&requests.lock);
    requests.closed = 1;
    pthread_cond_signal(&requests.changed);
    pthread_mutex_unlock(&requests.lock);
    REQUIRE(pthread_join(thread, NULL) == 0);
    return 0;
}
