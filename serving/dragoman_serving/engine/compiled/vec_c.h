/* Vectors in plain C, for any CPU; see vec.h. Parts have 16 bytes: most CPUs have registers of this
 * size, and GCC and Clang lower it to what is available. */
#pragma once

#include <string.h>

#define INSTRUCTION_SET "c"

typedef float Floats __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));

typedef struct {
    Floats part[4];
} Vec;

#define EACH(expression) \
    Vec result; \
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) result.part[i] = expression; \
    return result

INLINE Vec v_load(const float *from)
{
    Vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void v_store(float *to, Vec v) { memcpy(to, &v, sizeof v); }
INLINE Vec v_set(float value) { EACH(((Floats){value, value, value, value})); }
INLINE Vec v_add(Vec a, Vec b) { EACH(a.part[i] + b.part[i]); }
INLINE Vec v_sub(Vec a, Vec b) { EACH(a.part[i] - b.part[i]); }
INLINE Vec v_mul(Vec a, Vec b) { EACH(a.part[i] * b.part[i]); }
INLINE Vec v_div(Vec a, Vec b) { EACH(a.part[i] / b.part[i]); }
INLINE Vec v_abs(Vec v) { EACH((Floats)((Ints)v.part[i] & 0x7fffffff)); }

/* `then` in lanes with a mask of -1, `otherwise` in lanes with a mask of 0. */
INLINE Floats choose(Ints mask, Floats then, Floats otherwise)
{
    return (Floats)(((Ints)then & mask) | ((Ints)otherwise & ~mask));
}

INLINE Vec v_max(Vec a, Vec b) { EACH(choose(a.part[i] > b.part[i], a.part[i], b.part[i])); }

INLINE Vec v_if_less(Vec v, Vec limit, Vec then, Vec otherwise)
{
    EACH(choose(v.part[i] < limit.part[i], then.part[i], otherwise.part[i]));
}

#ifdef __FP_FAST_FMAF

INLINE Floats fused(Floats a, Floats b, Floats c)
{
    Floats result;
    for (int i = 0; i < 4; i++)
        result[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return result;
}

#else

typedef double Doubles __attribute__((vector_size(32)));
typedef int64_t Longs __attribute__((vector_size(32)));

/* The product is exact in double precision. The sum is rounded to odd, which keeps the information
 * on which side of a float, or of the middle between two floats, the exact sum is.
 *
 * Source: Boldo and Melquiond 2008, Emulation of FMA and correctly rounded sums,
 * https://doi.org/10.1109/TC.2007.70819 */
INLINE Floats fused(Floats a, Floats b, Floats c)
{
    const Doubles addend = __builtin_convertvector(c, Doubles);
    const Doubles product =
        __builtin_convertvector(a, Doubles) * __builtin_convertvector(b, Doubles);
    const Doubles sum = product + addend, added = sum - product;
    const Doubles error = (product - (sum - added)) + (addend - added);
    const Longs below = error < 0.0, above = error > 0.0; /* neither for infinities */
    const Longs is_odd = -((Longs)sum & 1);
    /* One unit in the last place, away from zero or towards it. */
    const Longs step = (below ^ (sum < 0.0)) | 1;
    const Longs odd = (Longs)sum + (step & (below | above) & ~is_odd);
    return __builtin_convertvector((Doubles)odd, Floats);
}

#endif

INLINE Vec v_fma(Vec a, Vec b, Vec c) { EACH(fused(a.part[i], b.part[i], c.part[i])); }
INLINE Vec v_fnma(Vec a, Vec b, Vec c) { EACH(fused(-a.part[i], b.part[i], c.part[i])); }

/* For values below 2^22: the sum is so large that a float has no fraction bits left. */
INLINE Vec v_round(Vec v)
{
    const Floats large = {12582912.0f, 12582912.0f, 12582912.0f, 12582912.0f};
    EACH((v.part[i] + large) - large);
}

INLINE Vec v_scale(Vec v, Vec n)
{
    EACH(v.part[i] * (Floats)((__builtin_convertvector(n.part[i], Ints) + 127) << 23));
}

INLINE unsigned v_above(Vec a, Vec b)
{
    unsigned bits = 0;
    for (int i = 0; i < 4; i++) {
        const Ints above = (a.part[i] > b.part[i]) & (Ints){1, 2, 4, 8};
        bits |= (unsigned)(above[0] | above[1] | above[2] | above[3]) << 4 * i;
    }
    return bits;
}

INLINE Vec v_load_first(const float *from, int64_t count, float rest)
{
    Vec v = v_set(rest);
    memcpy(&v, from, (count < 16 ? count : 16) * sizeof *from);
    return v;
}

INLINE void v_store_first(float *to, int64_t count, Vec v)
{
    memcpy(to, &v, (count < 16 ? count : 16) * sizeof *to);
}

/* Half-precision exponents are 112 less than a float's. A multiplication adds this, also for
 * subnormal numbers. */
INLINE Vec v_load_halves(const uint16_t *from)
{
    typedef uint16_t Halves __attribute__((vector_size(8)));
    Halves halves[4];
    memcpy(halves, from, sizeof halves);
    Vec v;
    for (int i = 0; i < 4; i++) {
        const Ints half = __builtin_convertvector(halves[i], Ints);
        Ints bits = (Ints)((Floats)((half & 0x7fff) << 13) * 0x1p112f);
        bits |= ((half & 0x7c00) == 0x7c00) & 0x7f800000;
        v.part[i] = (Floats)(bits | (half & 0x8000) << 16);
    }
    return v;
}

INLINE float v_sum(Vec v)
{
    float lanes[16];
    memcpy(lanes, &v, sizeof lanes);
    for (int number = 8; number; number /= 2)
        for (int i = 0; i < number; i++)
            lanes[i] = lanes[2 * i] + lanes[2 * i + 1];
    return lanes[0];
}

INLINE Vec v_sum_each(Vec v[16])
{
    float sums[16];
    for (int i = 0; i < 16; i++)
        sums[i] = v_sum(v[i]);
    return v_load(sums);
}

INLINE float v_largest(Vec v)
{
    float lanes[16];
    memcpy(lanes, &v, sizeof lanes);
    float largest = lanes[0];
    for (int i = 1; i < 16; i++)
        largest = lanes[i] > largest ? lanes[i] : largest;
    return largest;
}

/* 8-bit products of signed codes, added in pairs in 16 bits: 2 x 128 x 127 is 32,512. */

enum { TILE_ROWS = 1, TILE_VECTORS = 4, CODE_BYTES = 1, CODE_SHIFT = 128, ROW_PREFETCHES = 0 };

typedef int16_t Words __attribute__((vector_size(16)));

typedef struct {
    Ints part[4];
} Sums;

typedef struct {
    Words even, odd; /* of each pair of codes */
} Four;

typedef struct {
    Four part[4];
} Weights;

INLINE Four split(Words both) { return (Four){(both << 8) >> 8, both >> 8}; }

INLINE Weights q_load_weights(const int8_t *from)
{
    Weights weights;
    Words both[4];
    memcpy(both, from, sizeof both);
    for (int i = 0; i < 4; i++)
        weights.part[i] = split(both[i]);
    return weights;
}

INLINE Sums q_start(const int32_t *from, int32_t factor, int32_t number)
{
    Sums sums;
    memcpy(&sums, from, sizeof sums);
    for (int i = 0; i < 4; i++)
        sums.part[i] = sums.part[i] * factor + number;
    return sums;
}

INLINE Sums q_zero(void) { return (Sums){0}; }

INLINE Sums q_add(Sums a, Sums b)
{
    for (int i = 0; i < 4; i++)
        a.part[i] += b.part[i];
    return a;
}

INLINE Vec q_to_floats(Sums sums) { EACH(__builtin_convertvector(sums.part[i], Floats)); }

INLINE Four q_load_four(const uint8_t *from)
{
    int32_t four;
    memcpy(&four, from, 4);
    return split((Words)(Ints){four, four, four, four});
}

INLINE Sums q_add_products(Sums sums, Four codes, Weights weights)
{
    for (int i = 0; i < 4; i++) {
        const Ints pairs =
            (Ints)(codes.even * weights.part[i].even + codes.odd * weights.part[i].odd);
        sums.part[i] += ((pairs << 16) >> 16) + (pairs >> 16);
    }
    return sums;
}

INLINE int32_t q_store_codes(uint8_t *to, Vec v, int32_t zero)
{
    const Vec rounded = v_round(v);
    for (int i = 0; i < 16; i++)
        to[i] = (int32_t)rounded.part[i / 4][i % 4] + zero;
    return 0;
}

INLINE void v_store_bytes(int8_t *to, Vec v) { q_store_codes((uint8_t *)to, v, 0); }

#undef EACH
