/* Vectors for NEON with dot products (ARMv8.2-A and later); see vec.h. */
#pragma once

#include <arm_neon.h>
#include <string.h>

#define INSTRUCTION_SET "neon"

typedef struct {
    float32x4_t part[4];
} Vec;

#define EACH(expression) \
    Vec result; \
    for (int i = 0; i < 4; i++) \
        result.part[i] = (expression); \
    return result

INLINE Vec v_load(const float *from) { EACH(vld1q_f32(from + 4 * i)); }

INLINE void v_store(float *to, Vec v)
{
    for (int i = 0; i < 4; i++)
        vst1q_f32(to + 4 * i, v.part[i]);
}

INLINE Vec v_set(float value) { EACH(vdupq_n_f32(value)); }
INLINE Vec v_add(Vec a, Vec b) { EACH(vaddq_f32(a.part[i], b.part[i])); }
INLINE Vec v_sub(Vec a, Vec b) { EACH(vsubq_f32(a.part[i], b.part[i])); }
INLINE Vec v_mul(Vec a, Vec b) { EACH(vmulq_f32(a.part[i], b.part[i])); }
INLINE Vec v_div(Vec a, Vec b) { EACH(vdivq_f32(a.part[i], b.part[i])); }
INLINE Vec v_abs(Vec v) { EACH(vabsq_f32(v.part[i])); }
INLINE Vec v_round(Vec v) { EACH(vrndnq_f32(v.part[i])); }
INLINE Vec v_fma(Vec a, Vec b, Vec c) { EACH(vfmaq_f32(c.part[i], a.part[i], b.part[i])); }
INLINE Vec v_fnma(Vec a, Vec b, Vec c) { EACH(vfmsq_f32(c.part[i], a.part[i], b.part[i])); }

/* As on x86, returns the second of two zeros with different signs. */
INLINE Vec v_max(Vec a, Vec b)
{
    EACH(vbslq_f32(vcgtq_f32(a.part[i], b.part[i]), a.part[i], b.part[i]));
}

INLINE Vec v_scale(Vec v, Vec n)
{
    EACH(vmulq_f32(v.part[i], vreinterpretq_f32_s32(vshlq_n_s32(
                                  vaddq_s32(vcvtnq_s32_f32(n.part[i]), vdupq_n_s32(127)), 23))));
}

INLINE Vec v_if_less(Vec v, Vec limit, Vec then, Vec otherwise)
{
    EACH(vbslq_f32(vcltq_f32(v.part[i], limit.part[i]), then.part[i], otherwise.part[i]));
}

INLINE unsigned v_above(Vec a, Vec b)
{
    const uint32x4_t bits = {1, 2, 4, 8};
    unsigned above = 0;
    for (int i = 0; i < 4; i++)
        above |= vaddvq_u32(vandq_u32(vcgtq_f32(a.part[i], b.part[i]), bits)) << 4 * i;
    return above;
}

INLINE Vec v_load_first(const float *from, int64_t count, float rest)
{
    float all[16];
    for (int i = 0; i < 16; i++)
        all[i] = i < count ? from[i] : rest;
    return v_load(all);
}

INLINE void v_store_first(float *to, int64_t count, Vec v)
{
    float all[16];
    v_store(all, v);
    memcpy(to, all, (count < 16 ? count : 16) * sizeof *to);
}

INLINE Vec v_load_halves(const uint16_t *from)
{
    EACH(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + 4 * i))));
}

/* The sums of four parts with four lanes each. */
INLINE float32x4_t sum_parts(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d)
{
    return vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));
}

INLINE Vec v_sum_each(Vec v[16])
{
    EACH(
        sum_parts(sum_parts(v[4 * i].part[0], v[4 * i].part[1], v[4 * i].part[2], v[4 * i].part[3]),
                  sum_parts(v[4 * i + 1].part[0], v[4 * i + 1].part[1], v[4 * i + 1].part[2],
                            v[4 * i + 1].part[3]),
                  sum_parts(v[4 * i + 2].part[0], v[4 * i + 2].part[1], v[4 * i + 2].part[2],
                            v[4 * i + 2].part[3]),
                  sum_parts(v[4 * i + 3].part[0], v[4 * i + 3].part[1], v[4 * i + 3].part[2],
                            v[4 * i + 3].part[3])));
}

INLINE float v_sum(Vec v)
{
    return vaddvq_f32(sum_parts(v.part[0], v.part[1], v.part[2], v.part[3]));
}

INLINE float v_largest(Vec v)
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v.part[0], v.part[1]), vmaxq_f32(v.part[2], v.part[3])));
}

/* 8-bit products of signed codes. */

enum { TILE_ROWS = 4, TILE_VECTORS = 1, CODE_BYTES = 1, CODE_SHIFT = 128, ROW_PREFETCHES = 0 };

typedef struct {
    int32x4_t part[4];
} Sums;

typedef struct {
    int8x16_t part[4];
} Weights;

typedef int8x16_t Four;

INLINE Weights q_load_weights(const int8_t *from)
{
    Weights weights;
    for (int i = 0; i < 4; i++)
        weights.part[i] = vld1q_s8(from + 16 * i);
    return weights;
}

INLINE Sums q_start(const int32_t *from, int32_t factor, int32_t number)
{
    Sums sums;
    for (int i = 0; i < 4; i++)
        sums.part[i] = vmlaq_n_s32(vdupq_n_s32(number), vld1q_s32(from + 4 * i), factor);
    return sums;
}

INLINE Sums q_zero(void)
{
    const int32x4_t zero = vdupq_n_s32(0);
    return (Sums){{zero, zero, zero, zero}};
}

INLINE Sums q_add(Sums a, Sums b)
{
    for (int i = 0; i < 4; i++)
        a.part[i] = vaddq_s32(a.part[i], b.part[i]);
    return a;
}

INLINE Vec q_to_floats(Sums sums) { EACH(vcvtq_f32_s32(sums.part[i])); }

INLINE Four q_load_four(const uint8_t *from)
{
    int32_t four;
    memcpy(&four, from, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

INLINE Sums q_add_products(Sums sums, Four codes, Weights weights)
{
    for (int i = 0; i < 4; i++)
        sums.part[i] = vdotq_s32(sums.part[i], weights.part[i], codes);
    return sums;
}

INLINE int8x16_t round_codes(Vec v, int32_t zero)
{
    int16x4_t words[4];
    for (int i = 0; i < 4; i++)
        words[i] = vmovn_s32(vaddq_s32(vcvtnq_s32_f32(v.part[i]), vdupq_n_s32(zero)));
    return vcombine_s8(vmovn_s16(vcombine_s16(words[0], words[1])),
                       vmovn_s16(vcombine_s16(words[2], words[3])));
}

INLINE void v_store_bytes(int8_t *to, Vec v) { vst1q_s8(to, round_codes(v, 0)); }

INLINE int32_t q_store_codes(uint8_t *to, Vec v, int32_t zero)
{
    vst1q_u8(to, vreinterpretq_u8_s8(round_codes(v, zero)));
    return 0;
}

#undef EACH
