/* Threads that help another thread with its work while nothing else is in flight.
 *
 * The work is split into parts. The thread takes parts itself too, so it never waits for a helper
 * that is asleep or has no core; it waits only for parts that a helper has begun.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "helpers.h"
#include "bounds.h"

enum {
    MOST_HELPERS = 3,
    POLLS = 20000 /* how often an idle helper looks for work before it sleeps, about 0.2 ms */
};

struct Helpers {
    void (*work)(const void *argument, int64_t part);
    const void *argument;
    /* The number of the work, how many parts it has, and how many are taken. A part is taken by
     * replacing all three at once, so no part of finished work is taken. */
    _Atomic uint64_t taken;
    atomic_int finished; /* parts */
    atomic_int in_use;   /* whether a thread has the helpers */
    atomic_int awake;
    int calls; /* how often they were woken; `mutex` protects it */
    pthread_mutex_t mutex;
    pthread_cond_t called;
    int64_t count;
    pthread_t threads[MOST_HELPERS];
};

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline uint64_t parts_of(uint64_t taken) { return taken >> 16 & 0xffff; }

static inline uint64_t next_of(uint64_t taken) { return taken & 0xffff; }

/* Do one part of the current work, if one is left. */
static int do_part(Helpers *helpers)
{
    uint64_t taken = atomic_load_explicit(&helpers->taken, memory_order_acquire);
    do
        if (next_of(taken) == parts_of(taken))
            return 0;
    while (!atomic_compare_exchange_weak(&helpers->taken, &taken, taken + 1));
    helpers->work(helpers->argument, (int64_t)next_of(taken));
    atomic_fetch_add_explicit(&helpers->finished, 1, memory_order_release);
    return 1;
}

static void *help(void *argument)
{
    Helpers *const helpers = argument;
    int calls = 0;
    for (;;) {
        for (int polls = 0; polls < POLLS; polls++)
            if (do_part(helpers))
                polls = 0;
            else
                pause_briefly();
        pthread_mutex_lock(&helpers->mutex);
        atomic_fetch_sub(&helpers->awake, 1);
        while (helpers->calls == calls)
            pthread_cond_wait(&helpers->called, &helpers->mutex);
        calls = helpers->calls;
        atomic_fetch_add(&helpers->awake, 1);
        pthread_mutex_unlock(&helpers->mutex);
    }
    return NULL;
}

int64_t dragoman_helpers_bytes(void) { return sizeof(Helpers); }

/* Start threads, at most MOST_HELPERS, which run until the process ends. The memory is zeroed. */
void dragoman_start_helpers(Helpers *helpers, int64_t count)
{
    assert(count >= 0);
    if (pthread_mutex_init(&helpers->mutex, NULL) || pthread_cond_init(&helpers->called, NULL))
        return;
    count = count < MOST_HELPERS ? count : MOST_HELPERS;
    while (helpers->count < count &&
           !pthread_create(&helpers->threads[helpers->count], NULL, help, helpers)) {
        atomic_fetch_add(&helpers->awake, 1);
        helpers->count++;
    }
}

/* Wake the helpers for a thread. Returns NULL if there are none, or another thread has them. */
Helpers *take_helpers(Helpers *helpers)
{
    if (!helpers || !helpers->count || atomic_exchange(&helpers->in_use, 1))
        return NULL;
    if (atomic_load(&helpers->awake) < helpers->count) {
        pthread_mutex_lock(&helpers->mutex);
        helpers->calls++;
        pthread_cond_broadcast(&helpers->called);
        pthread_mutex_unlock(&helpers->mutex);
    }
    return helpers;
}

void return_helpers(Helpers *helpers)
{
    if (helpers)
        atomic_store(&helpers->in_use, 0);
}

/* Do all parts of some work, at most 65,535, with the help of those who are awake. */
void run_parts(Helpers *helpers, int64_t parts, void (*work)(const void *, int64_t),
               const void *argument)
{
    assert(parts > 0 && parts <= UINT16_MAX);
    if (!helpers || !atomic_load_explicit(&helpers->awake, memory_order_relaxed)) {
        for (int64_t part = 0; part < parts; part++)
            work(argument, part);
        return;
    }
    const uint64_t number = (atomic_load(&helpers->taken) >> 32) + 1;
    helpers->work = work;
    helpers->argument = argument;
    atomic_store(&helpers->finished, 0);
    atomic_store_explicit(&helpers->taken, number << 32 | (uint64_t)parts << 16,
                          memory_order_release);
    while (do_part(helpers))
        ;
    while (atomic_load_explicit(&helpers->finished, memory_order_acquire) < parts)
        pause_briefly();
}
