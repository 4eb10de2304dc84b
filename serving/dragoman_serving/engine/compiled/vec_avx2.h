/* Vectors for AVX2 with FMA and F16C, with or without AVX-VNNI; see vec.h. */
#pragma once

#include <immintrin.h>
#include <string.h>

typedef struct {
    __m256 low, high;
} Vec;

/* Apply an instruction to both halves. */
#define EACH1(name, v) ((Vec){name((v).low), name((v).high)})
#define EACH2(name, a, b) ((Vec){name((a).low, (b).low), name((a).high, (b).high)})
#define EACH3(name, a, b, c) \
    ((Vec){name((a).low, (b).low, (c).low), name((a).high, (b).high, (c).high)})

INLINE Vec v_load(const float *from)
{
    return (Vec){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}

INLINE void v_store(float *to, Vec v)
{
    _mm256_storeu_ps(to, v.low);
    _mm256_storeu_ps(to + 8, v.high);
}

INLINE Vec v_set(float value) { return (Vec){_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
INLINE Vec v_add(Vec a, Vec b) { return EACH2(_mm256_add_ps, a, b); }
INLINE Vec v_sub(Vec a, Vec b) { return EACH2(_mm256_sub_ps, a, b); }
INLINE Vec v_mul(Vec a, Vec b) { return EACH2(_mm256_mul_ps, a, b); }
INLINE Vec v_div(Vec a, Vec b) { return EACH2(_mm256_div_ps, a, b); }
INLINE Vec v_max(Vec a, Vec b) { return EACH2(_mm256_max_ps, a, b); }
INLINE Vec v_fma(Vec a, Vec b, Vec c) { return EACH3(_mm256_fmadd_ps, a, b, c); }
INLINE Vec v_fnma(Vec a, Vec b, Vec c) { return EACH3(_mm256_fnmadd_ps, a, b, c); }

INLINE Vec v_abs(Vec v)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (Vec){_mm256_andnot_ps(sign, v.low), _mm256_andnot_ps(sign, v.high)};
}

INLINE Vec v_round(Vec v)
{
#define ROUND(half) _mm256_round_ps(half, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
    return EACH1(ROUND, v);
#undef ROUND
}

INLINE Vec v_scale(Vec v, Vec n)
{
#define SCALE(half, power) \
    _mm256_mul_ps(half, \
                  _mm256_castsi256_ps(_mm256_slli_epi32( \
                      _mm256_add_epi32(_mm256_cvtps_epi32(power), _mm256_set1_epi32(127)), 23)))
    return EACH2(SCALE, v, n);
#undef SCALE
}

INLINE Vec v_if_less(Vec v, Vec limit, Vec then, Vec otherwise)
{
    const __m256 low = _mm256_cmp_ps(v.low, limit.low, _CMP_LT_OQ);
    const __m256 high = _mm256_cmp_ps(v.high, limit.high, _CMP_LT_OQ);
    return (Vec){_mm256_blendv_ps(otherwise.low, then.low, low),
                 _mm256_blendv_ps(otherwise.high, then.high, high)};
}

INLINE unsigned v_above(Vec a, Vec b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ)) |
           _mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ)) << 8;
}

/* A mask of eight lanes, with all bits set in the first `count`. */
INLINE __m256i first_lanes(int64_t count)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int32_t most = count < 0 ? 0 : count > 8 ? 8 : (int32_t)count;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(most), lanes);
}

INLINE Vec v_load_first(const float *from, int64_t count, float rest)
{
    if (count >= 16)
        return v_load(from);
    const __m256i low = first_lanes(count), high = first_lanes(count - 8);
    const __m256 others = _mm256_set1_ps(rest);
    return (Vec){
        _mm256_blendv_ps(others, _mm256_maskload_ps(from, low), _mm256_castsi256_ps(low)),
        _mm256_blendv_ps(others, _mm256_maskload_ps(from + 8, high), _mm256_castsi256_ps(high))};
}

INLINE void v_store_first(float *to, int64_t count, Vec v)
{
    if (count >= 16) {
        v_store(to, v);
        return;
    }
    _mm256_maskstore_ps(to, first_lanes(count), v.low);
    _mm256_maskstore_ps(to + 8, first_lanes(count - 8), v.high);
}

INLINE Vec v_load_halves(const uint16_t *from)
{
    return (Vec){_mm256_cvtph_ps(_mm_loadu_si128((const void *)from)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + 8)))};
}

/* The sums of the first halves of four vectors, followed by the sums of their second halves. */
INLINE __m256 sum_four(__m256 a, __m256 b, __m256 c, __m256 d)
{
    const __m256 ab = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
    const __m256 cd = _mm256_add_ps(_mm256_shuffle_ps(c, d, 0x88), _mm256_shuffle_ps(c, d, 0xdd));
    return _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x88), _mm256_shuffle_ps(ab, cd, 0xdd));
}

INLINE __m256 sum_eight(const Vec *v)
{
    const __m256 first_low = sum_four(v[0].low, v[1].low, v[2].low, v[3].low);
    const __m256 first_high = sum_four(v[0].high, v[1].high, v[2].high, v[3].high);
    const __m256 last_low = sum_four(v[4].low, v[5].low, v[6].low, v[7].low);
    const __m256 last_high = sum_four(v[4].high, v[5].high, v[6].high, v[7].high);
#define PAIRS(one, other) \
    _mm256_add_ps(_mm256_permute2f128_ps(one, other, 0x20), \
                  _mm256_permute2f128_ps(one, other, 0x31))
    return _mm256_add_ps(PAIRS(first_low, last_low), PAIRS(first_high, last_high));
#undef PAIRS
}

INLINE Vec v_sum_each(Vec v[16]) { return (Vec){sum_eight(v), sum_eight(v + 8)}; }

/* Sums neighbours, then pairs, in each half of the vector separately, and adds the halves last. */
INLINE float v_sum(Vec v)
{
    v.low = _mm256_add_ps(v.low, _mm256_permute_ps(v.low, 0xb1));
    v.high = _mm256_add_ps(v.high, _mm256_permute_ps(v.high, 0xb1));
    v.low = _mm256_add_ps(v.low, _mm256_permute_ps(v.low, 0x4e));
    v.high = _mm256_add_ps(v.high, _mm256_permute_ps(v.high, 0x4e));
    const __m128 low = _mm_add_ss(_mm256_castps256_ps128(v.low), _mm256_extractf128_ps(v.low, 1));
    const __m128 high =
        _mm_add_ss(_mm256_castps256_ps128(v.high), _mm256_extractf128_ps(v.high, 1));
    return _mm_cvtss_f32(_mm_add_ss(low, high));
}

INLINE float v_largest(Vec v)
{
    const __m256 eight = _mm256_max_ps(v.low, v.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_permute_ps(four, 0x4e));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_permute_ps(four, 0xb1)));
}

/* 8-bit products. */

typedef struct {
    __m256i low, high;
} Sums;

typedef struct {
    __m256i low, high;
} Weights;

INLINE Weights q_load_weights(const int8_t *from)
{
    return (Weights){_mm256_loadu_si256((const void *)from),
                     _mm256_loadu_si256((const void *)(from + 32))};
}

INLINE Sums q_start(const int32_t *from, int32_t factor, int32_t number)
{
    const __m256i factors = _mm256_set1_epi32(factor), numbers = _mm256_set1_epi32(number);
#define START(half) \
    _mm256_add_epi32(_mm256_mullo_epi32(_mm256_loadu_si256((const void *)(half)), factors), numbers)
    return (Sums){START(from), START(from + 8)};
#undef START
}

INLINE Sums q_zero(void) { return (Sums){_mm256_setzero_si256(), _mm256_setzero_si256()}; }

INLINE Sums q_add(Sums a, Sums b)
{
    return (Sums){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

INLINE Vec q_to_floats(Sums sums) { return EACH1(_mm256_cvtepi32_ps, sums); }

INLINE int32_t load_four(const uint8_t *from)
{
    int32_t four;
    memcpy(&four, from, 4);
    return four;
}

/* The lowest bytes of rounded values plus `zero`. */
INLINE __m128i round_codes(Vec v, int32_t zero)
{
    const __m256i zeros = _mm256_set1_epi32(zero), low_bytes = _mm256_set1_epi32(0xff);
    const __m256i low = _mm256_add_epi32(_mm256_cvtps_epi32(v.low), zeros);
    const __m256i high = _mm256_add_epi32(_mm256_cvtps_epi32(v.high), zeros);
    __m256i words =
        _mm256_packs_epi32(_mm256_and_si256(low, low_bytes), _mm256_and_si256(high, low_bytes));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

INLINE void v_store_bytes(int8_t *to, Vec v) { _mm_storeu_si128((void *)to, round_codes(v, 0)); }

#ifdef __AVXVNNI__

#define INSTRUCTION_SET "avxvnni"

enum { TILE_ROWS = 6, TILE_VECTORS = 1, CODE_BYTES = 1, CODE_SHIFT = 0, ROW_PREFETCHES = 0 };

typedef __m256i Four;

INLINE int32_t q_store_codes(uint8_t *to, Vec v, int32_t zero)
{
    _mm_storeu_si128((void *)to, round_codes(v, zero));
    return 0;
}

INLINE Four q_load_four(const uint8_t *from) { return _mm256_set1_epi32(load_four(from)); }

INLINE Sums q_add_products(Sums sums, Four codes, Weights weights)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums.low) : "x"(codes), "x"(weights.low));
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums.high) : "x"(codes), "x"(weights.high));
    return sums;
}

#else

#define INSTRUCTION_SET "avx2"

/* Codes are signed, from -128 to 127. Four codes are stored as their magnitudes m and as masks of
 * the negative ones. The product of a negative code and a weight w is m (~w + 1): the weights are
 * inverted under the mask, and a row's sums start with the sum of these m. Products are added in
 * pairs in 16 bits, which is wide enough: from 2 x 128 x -128 to 2 x 128 x 127. */

enum { TILE_ROWS = 2, TILE_VECTORS = 2, CODE_BYTES = 2, CODE_SHIFT = 128, ROW_PREFETCHES = 0 };

typedef struct {
    __m256i magnitudes, masks;
} Four;

INLINE int32_t q_store_codes(uint8_t *to, Vec v, int32_t zero)
{
    const __m128i codes = round_codes(v, zero), magnitudes = _mm_abs_epi8(codes);
    const __m128i masks = _mm_cmpgt_epi8(_mm_setzero_si128(), codes);
    _mm_storeu_si128((void *)to, _mm_unpacklo_epi32(magnitudes, masks));
    _mm_storeu_si128((void *)(to + 16), _mm_unpackhi_epi32(magnitudes, masks));
    const __m128i sums = _mm_sad_epu8(_mm_and_si128(magnitudes, masks), _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4);
}

INLINE Four q_load_four(const uint8_t *from)
{
    return (Four){_mm256_set1_epi32(load_four(from)), _mm256_set1_epi32(load_four(from + 4))};
}

INLINE __m256i add_half(__m256i sums, Four four, __m256i weights)
{
    const __m256i pairs =
        _mm256_maddubs_epi16(four.magnitudes, _mm256_xor_si256(weights, four.masks));
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

INLINE Sums q_add_products(Sums sums, Four codes, Weights weights)
{
    return (Sums){add_half(sums.low, codes, weights.low), add_half(sums.high, codes, weights.high)};
}

#endif
