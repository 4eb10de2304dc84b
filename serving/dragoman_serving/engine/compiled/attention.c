/* Attention of one query. */
#include <math.h>

#include "kernels.h"
#include "vec.h"

/* Turn values into e^(value - largest), and return their sum. */
static float exponentials(float *values, int64_t length, float largest)
{
    const Vec most = v_set(largest);
    Vec sum = v_zero();
    for (int64_t i = 0; i < length; i += 16) {
        const Vec value = v_load_first(values + i, length - i, -INFINITY);
        const Vec power = v_exp(v_sub(value, most));
        v_store_first(values + i, length - i, power);
        sum = v_add(sum, power);
    }
    return v_sum(sum);
}

INLINE void prefetch(const void *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 64)
        __builtin_prefetch((const char *)from + i);
}

/* 16 of fp32 or of fp16, from an index on. */
INLINE Vec load(const void *from, int64_t index, const int halves)
{
    if (halves)
        return v_load_halves((const uint16_t *)from + index);
    return v_load((const float *)from + index);
}

INLINE void attend_sized(
    const float *query, const void *keys, const void *values, const void *next, const int halves, int64_t stride,
    int64_t length, const int64_t head_size, float *weights, float *result)
{
    Vec most = v_set(-INFINITY);
    for (int64_t begin = 0; begin < length; begin += 16) {
        Vec products[16];
        for (int64_t i = 0; i < 16; i++) {
            const int64_t token = begin + i < length ? begin + i : length - 1;
            const int64_t key = token * stride;
            if (halves)
                prefetch((const uint16_t *)values + key, head_size * 2);
            products[i] = v_mul(v_load(query), load(keys, key, halves));
            for (int64_t d = 16; d < head_size; d += 16)
                products[i] = v_fma(v_load(query + d),
                                              load(keys, key + d, halves), products[i]);
        }
        const Vec sums = v_sum_each(products);
        v_store_first(weights + begin, length - begin, sums);
        most = v_max(most, sums); /* what is beyond the end repeats the last */
    }
    const float share = 1.0f / exponentials(weights, length, v_largest(most));
    for (int64_t begin = 0; begin < head_size; begin += 64) {
        const int64_t vectors = head_size - begin < 64 ? (head_size - begin) / 16 : 4;
        Vec even[4], odd[4]; /* two sums each, since an addition waits for the one before it */
        for (int64_t v = 0; v < vectors; v++)
            even[v] = odd[v] = v_zero();
        int64_t token = 0;
        for (; token + 1 < length; token += 2) {
            const Vec one = v_set(weights[token]);
            const Vec two = v_set(weights[token + 1]);
            const int64_t value = token * stride + begin;
            if (halves && begin == 0)
                prefetch((const uint16_t *)next + value, head_size * 4);
            for (int64_t v = 0; v < vectors; v++) {
                even[v] = v_fma(one, load(values, value + 16 * v, halves), even[v]);
                odd[v] = v_fma(two, load(values, value + stride + 16 * v, halves),
                                         odd[v]);
            }
        }
        if (token < length)
            for (int64_t v = 0; v < vectors; v++)
                even[v] = v_fma(v_set(weights[token]),
                                          load(values, token * stride + begin + 16 * v, halves),
                                          even[v]);
        for (int64_t v = 0; v < vectors; v++)
            v_store(result + begin + 16 * v, v_mul(v_add(even[v], odd[v]),
                                                                    v_set(share)));
    }
}

/* With the head size known, the compiler keeps the query and the sums in registers. */
INLINE void attend_any(
    const float *query, const void *keys, const void *values, const void *next, const int halves, int64_t stride,
    int64_t length, int64_t head_size, float *weights, float *result)
{
    switch (head_size) {
    case 32:
        attend_sized(query, keys, values, next, halves, stride, length, 32, weights, result);
        break;
    case 64:
        attend_sized(query, keys, values, next, halves, stride, length, 64, weights, result);
        break;
    default:
        attend_sized(query, keys, values, next, halves, stride, length, head_size, weights, result);
    }
}

void attend(const float *query, const float *keys, const float *values, int64_t stride,
            int64_t length, int64_t head_size, float *weights, float *result)
{
    attend_any(query, keys, values, keys, 0, stride, length, head_size, weights, result);
}

void attend_halves(const float *query, const uint16_t *keys, const uint16_t *values,
                   const uint16_t *next, int64_t stride, int64_t length, int64_t head_size, float *weights,
                   float *result)
{
    attend_any(query, keys, values, next, 1, stride, length, head_size, weights, result);
}
