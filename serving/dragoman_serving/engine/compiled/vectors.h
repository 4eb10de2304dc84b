/* What several files do with vectors of 16 floats. */
#pragma once

#include <immintrin.h>

/* e^x to about 2 units in the last place; 0 far below. x must not be above 0 by much.
 *
 * 2^n e^r with r within half of ln 2, and Taylor's series, whose seventh power's term is about 1e-7. */
static inline __m512 exponential(__m512 x)
{
    const __m512 log2_e = _mm512_set1_ps(1.44269504088896341f);
    const __m512 ln2_high = _mm512_set1_ps(0.693359375f);
    const __m512 ln2_low = _mm512_set1_ps(-2.12194440e-4f);
    x = _mm512_max_ps(x, _mm512_set1_ps(-100.0f));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, log2_e), _MM_FROUND_TO_NEAREST_INT);
    __m512 r = _mm512_fnmadd_ps(n, ln2_high, x);
    r = _mm512_fnmadd_ps(n, ln2_low, r);
    __m512 sum = _mm512_set1_ps(1.0f / 720);
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 120));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 24));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 6));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(0.5f));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(sum, n);
}
