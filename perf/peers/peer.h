/* What a peer implements to be measured: one function, `seriatim_peer`, in a shared library.
 *
 * The driver makes the programs, calls the clock, counts processor time and checks the results; a
 * peer only starts an engine, prepares a program for it, and runs that as often as it is told.
 * Every peer walks the same arrays and calls the same bodies. */
#ifndef SERIATIM_PEER_H
#define SERIATIM_PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SERIATIM_PEER_ABI 2

/* A program: `length` operations to push, in order, out of `distinct` different ones. */
struct perf_program {
    uint32_t variables;         /* operations name variables by number, below this */
    uint32_t distinct;
    const uint32_t *read_ends;  /* distinct + 1: operation i reads reads[read_ends[i]] up to, not including, reads[read_ends[i + 1]] */
    const uint32_t *reads;
    const uint32_t *write_ends; /* the same for what it changes; no variable is in both */
    const uint32_t *writes;
    uint64_t length;
    const uint32_t *sequence;   /* length numbers below distinct */
    void (*execute)(const void *context, uint32_t operation); /* the body; any thread may call it, in an order that the accesses allow */
    void (*pace)(const void *context, uint64_t place);        /* if not NULL: to be called before the push of each place of the sequence */
    const void *context;
};

struct peer {
    uint32_t abi;                 /* SERIATIM_PEER_ABI */
    const char *(*version)(void); /* of the library that really runs, asked of itself where it can be asked; static memory */

    /* Starts an engine that runs programs with `threads` threads in all, the one that pushes among
     * them, as `mode` says (each peer has its own modes). NULL on failure, with a line in `error`.
     * One engine lives at a time in a process. */
    void *(*start)(const char *mode, uint32_t threads, char *error, size_t room);

    /* Makes what may be made before the clock runs: variables, and reusable operations or a graph
     * where `mode` is about those. Replaces what was prepared before. The program outlives it. 0
     * when done; 1, with a line in `error`, when this peer cannot express the program. */
    int (*prepare)(void *engine, const struct perf_program *program, char *error, size_t room);

    /* What is timed: pushes the whole program and waits until all of it is complete. */
    void (*run)(void *engine);

    /* Pushes every `parts`-th operation of the prepared program, from number `part` on, and waits
     * for nothing. Several threads do so at once, each with a part of its own. NULL where only one
     * thread can push. */
    void (*push)(void *engine, uint64_t part, uint64_t parts);

    /* Waits for all that was pushed. NULL if `push` is. */
    void (*wait)(void *engine);

    /* Ends the engine; its threads are gone afterwards, where the peer can do that. */
    void (*stop)(void *engine);
};

const struct peer *seriatim_peer(void);

#ifdef __cplusplus
}
#endif
#endif
