/* Vectors for AVX-512 with VNNI; see vec.h. */
#pragma once

#include <immintrin.h>
#include <string.h>

#define INSTRUCTION_SET "avx512vnni"

typedef __m512 Vec;

INLINE Vec v_load(const float *from) { return _mm512_loadu_ps(from); }
INLINE void v_store(float *to, Vec v) { _mm512_storeu_ps(to, v); }
INLINE Vec v_set(float value) { return _mm512_set1_ps(value); }
INLINE Vec v_add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
INLINE Vec v_sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
INLINE Vec v_mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
INLINE Vec v_div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
INLINE Vec v_max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
INLINE Vec v_abs(Vec v) { return _mm512_abs_ps(v); }

/* a b + c and c - a b, rounded once. */
INLINE Vec v_fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
INLINE Vec v_fnma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }

/* Round to the nearest integer, ties to even. */
INLINE Vec v_round(Vec v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* v 2^n for integers from -126 to 127. */
INLINE Vec v_scale(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }

/* `then` where v < limit, else `otherwise`. */
INLINE Vec v_if_less(Vec v, Vec limit, Vec then, Vec otherwise)
{
    return _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask(v, limit, _CMP_LT_OQ), then);
}

/* One bit per lane, set where a > b. */
INLINE unsigned v_above(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }

/* The first `count` lanes from memory (all if 16 or more), `rest` in the others. */
INLINE Vec v_load_first(const float *from, int64_t count, float rest)
{
    const __mmask16 mask = count < 16 ? (__mmask16)((1 << count) - 1) : 0xffff;
    return _mm512_mask_loadu_ps(v_set(rest), mask, from);
}

INLINE void v_store_first(float *to, int64_t count, Vec v)
{
    _mm512_mask_storeu_ps(to, count < 16 ? (__mmask16)((1 << count) - 1) : 0xffff, v);
}

INLINE Vec v_load_halves(const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
}

/* Store the nearest integers, which must be from -128 to 127. */
INLINE void v_store_bytes(int8_t *to, Vec v)
{
    _mm_storeu_si128((void *)to, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

/* The sum of each of 16 vectors. */
INLINE Vec v_sum_each(Vec v[16])
{
    for (int number = 8; number >= 4; number /= 2)
        for (int i = 0; i < number; i++)
            v[i] = _mm512_add_ps(_mm512_shuffle_ps(v[2 * i], v[2 * i + 1], 0x88),
                                 _mm512_shuffle_ps(v[2 * i], v[2 * i + 1], 0xdd));
    for (int number = 2; number >= 1; number /= 2)
        for (int i = 0; i < number; i++)
            v[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x88),
                                 _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xdd));
    return v[0];
}

INLINE float v_sum(Vec v)
{
    v = _mm512_add_ps(v, _mm512_permute_ps(v, 0xb1));
    v = _mm512_add_ps(v, _mm512_permute_ps(v, 0x4e));
    v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0xb1));
    v = _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0x4e));
    return _mm512_cvtss_f32(v);
}

INLINE float v_largest(Vec v) { return _mm512_reduce_max_ps(v); }

/* 8-bit products: codes of activations are unsigned, around a zero point or from 0. */

enum {
    TILE_ROWS = 6,
    TILE_VECTORS = 4,
    CODE_BYTES = 1,
    CODE_SHIFT = 0,    /* subtracted from each code of 0 to 255 */
    ROW_PREFETCHES = 1 /* whether a single row prefetches weights */
};

typedef __m512i Sums; /* 16 int32 */
typedef __m512i Four; /* four codes of a row, repeated for 16 outputs */
typedef __m512i Weights;

/* Weights [16, 4] of 16 outputs. */
INLINE Weights q_load_weights(const int8_t *from) { return _mm512_loadu_si512(from); }

/* 16 integers times a factor, plus a number. */
INLINE Sums q_start(const int32_t *from, int32_t factor, int32_t number)
{
    const Sums product = _mm512_mullo_epi32(_mm512_loadu_si512(from), _mm512_set1_epi32(factor));
    return _mm512_add_epi32(product, _mm512_set1_epi32(number));
}

INLINE Sums q_zero(void) { return _mm512_setzero_si512(); }
INLINE Sums q_add(Sums a, Sums b) { return _mm512_add_epi32(a, b); }
INLINE Vec q_to_floats(Sums sums) { return _mm512_cvtepi32_ps(sums); }

INLINE Four q_load_four(const uint8_t *from)
{
    int32_t four;
    memcpy(&four, from, 4);
    return _mm512_set1_epi32(four);
}

/* Assembly, because with the intrinsic GCC 12 copies every vector of sums twice per iteration,
 * which halves the speed. */
INLINE Sums q_add_products(Sums sums, Four codes, Weights weights)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(codes), "v"(weights));
    return sums;
}

/* Store codes of values that are between -zero and 255 - zero after rounding. Returns the number to
 * add to each sum of their products. */
INLINE int32_t q_store_codes(uint8_t *to, Vec v, int32_t zero)
{
    const __m512i code = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(zero));
    _mm_storeu_si128((void *)to, _mm512_cvtepi32_epi8(code));
    return 0;
}
