/* Attention of one query. */
#include <immintrin.h>
#include <math.h>

#include "kernels.h"
#include "vectors.h"

/* Turn values into e^(value - largest), and return their sum. */
static float exponentials(float *values, int64_t length, float largest)
{
    const __m512 most = _mm512_set1_ps(largest);
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < length; i += 16) {
        const __mmask16 rest = length - i < 16 ? (__mmask16)((1 << (length - i)) - 1) : 0xffff;
        const __m512 value = _mm512_maskz_loadu_ps(rest, values + i);
        const __m512 power = exponential(_mm512_sub_ps(value, most));
        _mm512_mask_storeu_ps(values + i, rest, power);
        sum = _mm512_mask_add_ps(sum, rest, sum, power);
    }
    return _mm512_reduce_add_ps(sum);
}

/* The sum of each of 16 vectors, in their order. */
static inline __m512 sum_each(__m512 v[16])
{
    for (int i = 0; i < 8; i++)
        v[i] = _mm512_add_ps(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]),
                             _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
    for (int i = 0; i < 4; i++) {
        const __m512d one = _mm512_castps_pd(v[2 * i]), two = _mm512_castps_pd(v[2 * i + 1]);
        v[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(one, two)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(one, two)));
    }
    for (int number = 2; number >= 1; number--)
        for (int i = 0; i < number; i++)
            v[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x88),
                                 _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xdd));
    return v[0];
}

/* 16 of fp32 or of fp16, from an index on. */
static inline __m512 load(const void *from, int64_t index, const int halves)
{
    if (halves)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((const uint16_t *)from + index)));
    return _mm512_loadu_ps((const float *)from + index);
}

static inline __attribute__((always_inline)) void attend_sized(
    const float *query, const void *keys, const void *values, const int halves, int64_t stride,
    int64_t length, const int64_t head_size, float *weights, float *result)
{
    __m512 most = _mm512_set1_ps(-INFINITY);
    for (int64_t begin = 0; begin < length; begin += 16) {
        __m512 products[16];
        for (int64_t i = 0; i < 16; i++) {
            const int64_t token = begin + i < length ? begin + i : length - 1;
            const int64_t key = token * stride;
            products[i] = _mm512_mul_ps(_mm512_loadu_ps(query), load(keys, key, halves));
            for (int64_t d = 16; d < head_size; d += 16)
                products[i] = _mm512_fmadd_ps(_mm512_loadu_ps(query + d),
                                              load(keys, key + d, halves), products[i]);
        }
        const __m512 sums = sum_each(products);
        const __mmask16 rest = length - begin < 16 ? (1 << (length - begin)) - 1 : 0xffff;
        _mm512_mask_storeu_ps(weights + begin, rest, sums);
        most = _mm512_max_ps(most, sums); /* what is beyond the end repeats the last */
    }
    const float share = 1.0f / exponentials(weights, length, _mm512_reduce_max_ps(most));
    for (int64_t begin = 0; begin < head_size; begin += 64) {
        const int64_t vectors = head_size - begin < 64 ? (head_size - begin) / 16 : 4;
        __m512 even[4], odd[4]; /* two sums each, since an addition waits for the one before it */
        for (int64_t v = 0; v < vectors; v++)
            even[v] = odd[v] = _mm512_setzero_ps();
        int64_t token = 0;
        for (; token + 1 < length; token += 2) {
            const __m512 one = _mm512_set1_ps(weights[token]);
            const __m512 two = _mm512_set1_ps(weights[token + 1]);
            const int64_t value = token * stride + begin;
            for (int64_t v = 0; v < vectors; v++) {
                even[v] = _mm512_fmadd_ps(one, load(values, value + 16 * v, halves), even[v]);
                odd[v] = _mm512_fmadd_ps(two, load(values, value + stride + 16 * v, halves),
                                         odd[v]);
            }
        }
        if (token < length)
            for (int64_t v = 0; v < vectors; v++)
                even[v] = _mm512_fmadd_ps(_mm512_set1_ps(weights[token]),
                                          load(values, token * stride + begin + 16 * v, halves),
                                          even[v]);
        for (int64_t v = 0; v < vectors; v++)
            _mm512_storeu_ps(result + begin + 16 * v, _mm512_mul_ps(_mm512_add_ps(even[v], odd[v]),
                                                                    _mm512_set1_ps(share)));
    }
}

/* With the head size known, the compiler keeps the query and the sums in registers. */
static inline __attribute__((always_inline)) void attend_any(
    const float *query, const void *keys, const void *values, const int halves, int64_t stride,
    int64_t length, int64_t head_size, float *weights, float *result)
{
    switch (head_size) {
    case 32:
        attend_sized(query, keys, values, halves, stride, length, 32, weights, result);
        break;
    case 64:
        attend_sized(query, keys, values, halves, stride, length, 64, weights, result);
        break;
    default:
        attend_sized(query, keys, values, halves, stride, length, head_size, weights, result);
    }
}

void attend(const float *query, const float *keys, const float *values, int64_t stride,
            int64_t length, int64_t head_size, float *weights, float *result)
{
    attend_any(query, keys, values, 0, stride, length, head_size, weights, result);
}

void attend_halves(const float *query, const uint16_t *keys, const uint16_t *values,
                   int64_t stride, int64_t length, int64_t head_size, float *weights,
                   float *result)
{
    attend_any(query, keys, values, 1, stride, length, head_size, weights, result);
}
