// Waits that hold no thread: a loop of events sleeps in poll(), and is told by a pipe when a variable is ready. A function
// is called for what failed, and another one when everything has ended. On Linux an eventfd does as well as the pipe.
//
//   cc -std=c11 -pthread $(pkg-config --cflags --libs seriatim) notify.c -o notify

#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <seriatim.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 100 };

// Says what went wrong, and ends the program.
static void check(SeriatimStatus status, const char *what) {
    if (status == SERIATIM_STATUS_OK) return;
    fprintf(stderr, "%s: %s (%s)\n", what, seriatim_last_error(), seriatim_status_text(status));
    exit(1);
}

static int add(void *total, const SeriatimRunContext *run) {
    (void)run;
    *(long *)total += 1;
    return 0;
}

static int fail(void *unused, const SeriatimRunContext *run) {
    (void)unused;
    seriatim_run_context_set_error(run, "out of paper");
    return 1;
}

// What a wait has told: how often, its status and its text; and how often its argument was deleted.
typedef struct {
    atomic_int calls, deletions;
    SeriatimStatus status;
    char text[200];
} Told;

static void note(void *argument, SeriatimStatus status) {
    Told *told = argument;
    told->status = status;
    if (status != SERIATIM_STATUS_OK) snprintf(told->text, sizeof told->text, "%s", seriatim_last_error());
    atomic_fetch_add(&told->calls, 1);
}

static void count_deletion(void *argument) { atomic_fetch_add(&((Told *)argument)->deletions, 1); }

static void until_deleted(Told *told) {
    while (atomic_load(&told->deletions) == 0) nanosleep(&(struct timespec){0, 100000}, NULL);
}

int main(void) {
    SeriatimEngine *engine;
    SeriatimVariable x;
    check(seriatim_engine_new(NULL, 0, &engine), "engine");
    check(seriatim_variable_new(engine, &x), "variable");
    SeriatimOperation change = {.writes = &x, .write_count = 1, .name = "change"};

    int ends[2];
    if (pipe(ends) != 0) return 1;
    long total = 0;
    for (int round = 0; round < ROUNDS; round++) {
        check(seriatim_push(engine, &change, add, &total, NULL), "push");
        check(seriatim_when_ready_write(engine, x, ends[1]), "when ready");
        struct pollfd waits = {.fd = ends[0], .events = POLLIN};
        uint64_t one = 0;
        if (poll(&waits, 1, 60000) != 1 || read(ends[0], &one, sizeof one) != sizeof one || one != 1) return 2;
        if (total != round + 1) return 3;
    }

    // The function gets the failure, which is thereby told.
    static Told failed, ready, unused, all, gone;
    check(seriatim_push(engine, &change, fail, NULL, NULL), "push");
    check(seriatim_when_ready(engine, x, note, &failed, count_deletion), "when ready");
    until_deleted(&failed);
    if (failed.status != SERIATIM_STATUS_OPERATION_FAILED || !strstr(failed.text, "out of paper")) return 4;
    check(seriatim_wait_for_variable(engine, x), "wait");

    check(seriatim_when_ready(engine, x, note, &ready, count_deletion), "when ready");
    check(seriatim_when_unused(engine, x, note, &unused, count_deletion), "when unused");
    check(seriatim_when_all_ended(engine, note, &all, count_deletion), "when all ended");
    until_deleted(&ready), until_deleted(&unused), until_deleted(&all);
    if (ready.status || unused.status || all.status) return 5;

    // The descriptor takes no failure: a wait has it.
    check(seriatim_push(engine, &change, fail, NULL, NULL), "push");
    check(seriatim_when_ready_write(engine, x, ends[1]), "when ready");
    uint64_t one;
    if (read(ends[0], &one, sizeof one) != sizeof one) return 6;
    if (seriatim_wait_for_variable(engine, x) != SERIATIM_STATUS_OPERATION_FAILED) return 7;

    check(seriatim_variable_delete(engine, x, (SeriatimContext){0}, NULL, NULL, NULL), "delete");
    check(seriatim_when_ready(engine, x, note, &gone, count_deletion), "when ready");
    if (gone.status != SERIATIM_STATUS_VARIABLE_DELETED || gone.calls != 1) return 8;
    if (seriatim_when_ready(engine, x, NULL, &gone, count_deletion) != SERIATIM_STATUS_NULL_POINTER) return 9;
    if (seriatim_when_ready_write(engine, x, -1) != SERIATIM_STATUS_BAD_ARGUMENT) return 10;

    check(seriatim_engine_delete(engine), "engine");
    printf("total %ld by %d wake-ups; '%s'; %d calls, %d deletions\n", total, ROUNDS, strstr(failed.text, "out"),
           failed.calls + ready.calls + unused.calls + all.calls + gone.calls,
           failed.deletions + ready.deletions + unused.deletions + all.deletions + gone.deletions);
    return 0;
}
