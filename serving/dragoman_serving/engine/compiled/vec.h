/* Vectors of 16 floats, with bit-identical results on every instruction set.
 *
 * One of the headers below defines `Vec` and its operations. Each operation rounds once, as in IEEE
 * 754. Lanes are summed in a fixed order: neighbours first, then neighbouring pairs, and so on.
 * Products of 8-bit codes are exact. The code must be compiled with -ffp-contract=off, so that only
 * v_fma and v_fnma are fused.
 */
#pragma once

#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512VNNI__)
#include "vec_avx512.h"
#elif defined(__AVX2__)
#include "vec_avx2.h"
#elif defined(__ARM_FEATURE_DOTPROD)
#include "vec_neon.h"
#else
#include "vec_c.h"
#endif

/* Operations built from those of an instruction set. */

INLINE Vec v_zero(void) { return v_set(0.0f); }

/* Prefetch a cache line into the second-level cache. The first level is too small for what is needed
 * next, and can wait for fewer lines at a time. */
INLINE void prefetch(const void *from) { __builtin_prefetch(from, 0, 2); }

/* e^x to about 2 units in the last place; 0 below -86. x must not be far above 0.
 *
 * Computed as 2^n e^r with |r| up to half of ln 2, and a Taylor series; the term of the seventh
 * power would be about 1e-7. */
INLINE Vec v_exp(Vec x)
{
    const Vec least = v_set(-86.0f), one = v_set(1.0f);
    const Vec clamped = v_max(x, least);
    const Vec n = v_round(v_mul(clamped, v_set(1.44269504088896341f)));
    Vec r = v_fnma(n, v_set(0.693359375f), clamped);
    r = v_fnma(n, v_set(-2.12194440e-4f), r);
    Vec sum = v_fma(v_set(1.0f / 720), r, v_set(1.0f / 120));
    sum = v_fma(sum, r, v_set(1.0f / 24));
    sum = v_fma(sum, r, v_set(1.0f / 6));
    sum = v_fma(sum, r, v_set(0.5f));
    sum = v_fma(sum, r, one);
    sum = v_fma(sum, r, one);
    return v_if_less(x, least, v_zero(), v_scale(sum, n));
}
