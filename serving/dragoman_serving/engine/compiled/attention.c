/* Attention of one query. */
#include <math.h>
#include <string.h>

#include "attention.h"
#include "bounds.h"
#include "rows.h"
#include "vec.h"

static const float SMALLEST = 1e-30f; /* prevents division by zero */

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

/* Attention over keys and values in fp32, with `stride` between tokens. */
INLINE void attend_sized(const float *query, const float *keys, const float *values, int64_t stride,
                         int64_t length, const int64_t head_size, float *weights, float *result)
{
    Vec most = v_set(-INFINITY);
    for (int64_t begin = 0; begin < length; begin += 16) {
        Vec products[16];
        for (int64_t i = 0; i < 16; i++) {
            const int64_t token = begin + i < length ? begin + i : length - 1;
            const float *const key = keys + token * stride;
            products[i] = v_mul(v_load(query), v_load(key));
            for (int64_t d = 16; d < head_size; d += 16)
                products[i] = v_fma(v_load(query + d), v_load(key + d), products[i]);
        }
        const Vec sums = v_sum_each(products);
        v_store_first(weights + begin, length - begin, sums);
        most = v_max(most, sums); /* lanes after the end repeat the last token */
    }
    const float factor = 1.0f / exponentials(weights, length, v_largest(most));
    for (int64_t begin = 0; begin < head_size; begin += 64) {
        const int64_t vectors = head_size - begin < 64 ? (head_size - begin) / 16 : 4;
        Vec even[4], odd[4]; /* two sums each, since an addition waits for the previous one */
        for (int64_t v = 0; v < vectors; v++)
            even[v] = odd[v] = v_zero();
        int64_t token = 0;
        for (; token + 1 < length; token += 2) {
            const Vec one = v_set(weights[token]), two = v_set(weights[token + 1]);
            const float *const value = values + token * stride + begin;
            for (int64_t v = 0; v < vectors; v++) {
                even[v] = v_fma(one, v_load(value + 16 * v), even[v]);
                odd[v] = v_fma(two, v_load(value + stride + 16 * v), odd[v]);
            }
        }
        if (token < length)
            for (int64_t v = 0; v < vectors; v++)
                even[v] = v_fma(v_set(weights[token]),
                                v_load(values + token * stride + begin + 16 * v), even[v]);
        for (int64_t v = 0; v < vectors; v++)
            v_store(result + begin + 16 * v, v_mul(v_add(even[v], odd[v]), v_set(factor)));
    }
}

/* With a constant head size, the compiler keeps the query and the sums in registers. */
void attend(const float *query, const float *keys, const float *values, int64_t stride,
            int64_t length, int64_t head_size, float *weights, float *result)
{
    ASSERT_MULTIPLE(head_size, 16);
    assert(length > 0 && stride >= head_size);
    switch (head_size) {
    case 32:
        attend_sized(query, keys, values, stride, length, 32, weights, result);
        break;
    case 48:
        attend_sized(query, keys, values, stride, length, 48, weights, result);
        break;
    case 64:
        attend_sized(query, keys, values, stride, length, 64, weights, result);
        break;
    default:
        attend_sized(query, keys, values, stride, length, head_size, weights, result);
    }
}

/* Codes from -127 to 127 of a key or value [D]. Returns the scale. */
static float code_vector(const float *x, int64_t head_size, int8_t *codes)
{
    Vec largest = v_zero();
    for (int64_t i = 0; i < head_size; i += 16)
        largest = v_max(largest, v_abs(v_load(x + i)));
    const float most = v_largest(largest), scale = (most > SMALLEST ? most : SMALLEST) / 127.0f;
    const Vec factor = v_set(1.0f / scale);
    for (int64_t i = 0; i < head_size; i += 16)
        v_store_bytes(codes + i, v_mul(v_load(x + i), factor));
    return scale;
}

/* Scales of a block's tokens; the sums of their codes follow. */
INLINE float *scales_of(const uint8_t *block, int64_t head_size)
{
    return (float *)(block + BLOCK * head_size);
}

void store_key(const float *key, int64_t head_size, uint8_t *keys, int64_t position)
{
    ASSERT_MULTIPLE(head_size, 16);
    assert(head_size <= MOST_HEAD_SIZE && position >= 0);
    uint8_t *const block = keys + position / BLOCK * block_bytes(head_size);
    const int64_t lane = position % BLOCK;
    int8_t codes[MOST_HEAD_SIZE];
    int32_t sum = 0;
    float *const scales = scales_of(block, head_size);
    scales[lane] = code_vector(key, head_size, codes);
    for (int64_t i = 0; i < head_size; i++)
        sum += codes[i];
    ((int32_t *)(scales + BLOCK))[lane] = sum;
    for (int64_t i = 0; i < head_size; i += 4)
        memcpy(block + BLOCK * i + 4 * lane, codes + i, 4);
}

void store_value(const float *value, int64_t head_size, uint8_t *values, int64_t position)
{
    ASSERT_MULTIPLE(head_size, 16);
    assert(head_size <= MOST_HEAD_SIZE && position >= 0);
    uint8_t *const block = values + position / BLOCK * block_bytes(head_size);
    const int64_t lane = position % BLOCK;
    int8_t codes[MOST_HEAD_SIZE];
    scales_of(block, head_size)[lane] = code_vector(value, head_size, codes);
    /* Sixteen 32-bit words hold the codes of four tokens in 16 dimensions. */
    uint8_t *const bytes = block + lane / 4 * 64 + lane % 4;
    for (int64_t i = 0; i < head_size; i += 16)
        for (int64_t j = 0; j < 16; j++)
            bytes[BLOCK * i + 4 * j] = (uint8_t)codes[i + j];
}

INLINE void prefetch_block(const uint8_t *block, int64_t head_size)
{
    for (int64_t i = 0; i < block_bytes(head_size); i += 64)
        prefetch(block + i);
}

/* Add the products of codes and weights, in groups of four values, four groups at a time. */
INLINE Sums add_products(Sums sum, const uint8_t *codes, const int8_t *weights, int64_t groups)
{
    Sums sums[4] = {sum, q_zero(), q_zero(), q_zero()};
    for (int64_t i = 0; i < groups; i += 4)
#pragma GCC unroll 4
        for (int64_t j = 0; j < 4; j++)
            sums[j] = q_add_products(sums[j], q_load_four(codes + 4 * (i + j) * CODE_BYTES),
                                     q_load_weights(weights + 64 * (i + j)));
    return q_add(q_add(sums[0], sums[1]), q_add(sums[2], sums[3]));
}

/* Scores of a coded query against all keys. Returns the largest. */
INLINE float score_keys(const Codes *query, const uint8_t *keys, int64_t ahead, int64_t length,
                        const int64_t head_size, float *scores)
{
    const Vec scale = v_set(*query->scales);
    Vec most = v_set(-INFINITY);
    for (int64_t begin = 0; begin < length; begin += BLOCK) {
        const uint8_t *const block = keys + begin / BLOCK * block_bytes(head_size);
        const float *const scales = scales_of(block, head_size);
        prefetch_block(block + ahead, head_size);
        const Sums start = q_start((const int32_t *)(scales + BLOCK), -query->zero, *query->starts);
        const Sums sums = add_products(start, query->codes, (const int8_t *)block, head_size / 4);
        v_store(scores + begin, v_mul(v_mul(q_to_floats(sums), scale), v_load(scales)));
        most = v_max(most, v_load_first(scores + begin, length - begin, -INFINITY));
    }
    return v_largest(most);
}

/* Add attention weights, multiplied by a factor, to the sums of other heads. */
INLINE void add_weighted(const float *weights, int64_t length, float factor, float *sums)
{
    for (int64_t i = 0; i < length; i += 16) {
        const Vec sum = v_load_first(sums + i, length - i, 0.0f);
        const Vec weight = v_load_first(weights + i, length - i, 0.0f);
        v_store_first(sums + i, length - i, v_fma(weight, v_set(factor), sum));
    }
}

/* Multiply weights by the scales of their values, and code them from 0 to 127. Returns their
 * scale. */
INLINE float code_weights(float *weights, const uint8_t *values, int64_t length,
                          const int64_t head_size, uint8_t *codes)
{
    Vec most = v_zero();
    for (int64_t begin = 0; begin < length; begin += BLOCK) {
        const uint8_t *const block = values + begin / BLOCK * block_bytes(head_size);
        v_store(weights + begin,
                v_mul(v_load(weights + begin), v_load(scales_of(block, head_size))));
        /* Memory after the last token is undefined. */
        const Vec scaled = v_load_first(weights + begin, length - begin, 0.0f);
        v_store(weights + begin, scaled);
        most = v_max(most, scaled);
    }
    const float largest = v_largest(most);
    const float scale = (largest > SMALLEST ? largest : SMALLEST) / 127.0f;
    const Vec factor = v_set(1.0f / scale);
    for (int64_t begin = 0; begin < length; begin += BLOCK)
        q_store_codes(codes + begin * CODE_BYTES, v_mul(v_load(weights + begin), factor), 0);
    return scale;
}

INLINE void attend_codes_sized(const float *query, const uint8_t *keys, const uint8_t *values,
                               int64_t ahead, int64_t length, const int64_t head_size,
                               float *weights, float *result, Attended attended)
{
    uint8_t query_codes[MOST_HEAD_SIZE * CODE_BYTES];
    float query_scale;
    int32_t query_start;
    Codes coded = {query_codes, &query_scale, &query_start, 0, NULL};
    quantise(query, 1, head_size, &coded);
    const float most = score_keys(&coded, keys, ahead, length, head_size, weights);
    const float factor = 1.0f / exponentials(weights, length, most);
    if (attended.sums)
        add_weighted(weights, length, factor * attended.factor, attended.sums);
    uint8_t *const codes = (uint8_t *)(weights + (length + BLOCK - 1) / BLOCK * BLOCK);
    const float scale = code_weights(weights, values, length, head_size, codes);
    for (int64_t i = 0; i < head_size; i += 16) {
        Sums sum = q_zero();
        for (int64_t begin = 0; begin < length; begin += BLOCK) {
            const int64_t offset = begin / BLOCK * block_bytes(head_size);
            if (i == 0)
                prefetch_block(values + offset + ahead, head_size);
            sum = add_products(sum, codes + begin * CODE_BYTES,
                               (const int8_t *)values + offset + BLOCK * i, 4);
        }
        v_store(result + i, v_mul(q_to_floats(sum), v_set(scale * factor)));
    }
}

void attend_codes(const float *query, const uint8_t *keys, const uint8_t *values, int64_t ahead,
                  int64_t length, int64_t head_size, float *weights, float *result,
                  Attended attended)
{
    ASSERT_MULTIPLE(head_size, 16);
    assert(head_size <= MOST_HEAD_SIZE && length > 0 && ahead >= 0);
    switch (head_size) {
    case 32:
        attend_codes_sized(query, keys, values, ahead, length, 32, weights, result, attended);
        break;
    case 48:
        attend_codes_sized(query, keys, values, ahead, length, 48, weights, result, attended);
        break;
    case 64:
        attend_codes_sized(query, keys, values, ahead, length, 64, weights, result, attended);
        break;
    default:
        attend_codes_sized(query, keys, values, ahead, length, head_size, weights, result,
                           attended);
    }
}
