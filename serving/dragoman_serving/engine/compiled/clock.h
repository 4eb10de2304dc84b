/* Clock for the time of a step's sections. */
#pragma once

#include <stdint.h>

/* Sections whose time is measured; STEP is a whole step. */
enum { PRODUCTS, LOGITS, ATTENTION, NORMS, QUANTISING, CACHE, RANKING, SEARCH, STEP, SECTIONS };

#if defined(__x86_64__)
#include <x86intrin.h>

static inline int64_t read_clock(void) { return __rdtsc(); }
#elif defined(__aarch64__)
static inline int64_t read_clock(void)
{
    int64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}
#else
#include <time.h>

static inline int64_t read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}
#endif

#define COUNTED(counts, section, call) \
    do { \
        const int64_t begin_ticks = read_clock(); \
        call; \
        (counts)[section] += read_clock() - begin_ticks; \
    } while (0)
