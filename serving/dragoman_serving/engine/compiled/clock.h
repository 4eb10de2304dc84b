/* Time, as steps count it. */
#pragma once

#include <x86intrin.h>

#define COUNTED(counts, section, call)                                                           \
    do {                                                                                         \
        const int64_t begin_ticks = __rdtsc();                                                   \
        call;                                                                                    \
        (counts)[section] += __rdtsc() - begin_ticks;                                            \
    } while (0)
