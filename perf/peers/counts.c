/* Counts what a process allocates, frees and locks; to be preloaded. The driver reads the counters
 * through `seriatim_counts`.
 *
 * Rust's and C++'s allocations end in malloc and free, so this sees those of every engine, unless
 * it has pools of its own: what such an engine takes from its pools is no allocation here, as it is
 * none for ours. Locks are those of POSIX threads, which the C++ standard library uses; engines
 * that build their locks on futexes or spinning themselves are not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* glibc's own names for what is replaced here. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_uint_fast64_t allocated, freed, locked;

static void count(atomic_uint_fast64_t *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

void *malloc(size_t size) { count(&allocated); return __libc_malloc(size); }
void *calloc(size_t number, size_t size) { count(&allocated); return __libc_calloc(number, size); }
void *memalign(size_t alignment, size_t size) { count(&allocated); return __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

void *realloc(void *block, size_t size) {
    count(&allocated);
    if (block) count(&freed);
    return __libc_realloc(block, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

void free(void *block) {
    if (block) count(&freed);
    __libc_free(block);
}

/* The function of that name behind this one. */
#define NEXT(name, type)                                              \
    int name(type *it) {                                              \
        static int (*next)(type *);                                   \
        if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name);         \
        count(&locked);                                               \
        return next(it);                                              \
    }
NEXT(pthread_mutex_lock, pthread_mutex_t)
NEXT(pthread_mutex_trylock, pthread_mutex_t)
NEXT(pthread_spin_lock, pthread_spinlock_t)

/* Writes allocations, deallocations and locks so far. */
void seriatim_counts(uint64_t counts[3]) {
    counts[0] = atomic_load(&allocated);
    counts[1] = atomic_load(&freed);
    counts[2] = atomic_load(&locked);
}
