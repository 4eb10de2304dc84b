/* Operations on one row of activations at a time. Sizes are multiples of 16. */
#include <math.h>

#include "rows.h"
#include "bounds.h"
#include "vec.h"

static const float SMALLEST = 1e-30f; /* prevents division by zero */

/* The weights [inputs] of one output. */
static void weights_of_output(const Product *product, int64_t output, float *weights)
{
    const int8_t *const codes =
        product->codes + output / 16 * 16 * product->inputs + output % 16 * 4;
    for (int64_t i = 0; i < product->inputs; i++)
        weights[i] = (float)codes[i / 4 * 64 + i % 4] * product->scales[output];
}

/* The vector of an id at a position; a NULL embedding is that of the codes. */
void embed(const Model *model, const uint16_t *embedding, int64_t id, int64_t position, float *x)
{
    ASSERT_INDEX(position, model->sizes.longest);
    const int64_t e = model->sizes.model_size;
    const float *of_position = model->positions + position * e;
    const Vec scale = v_set(sqrtf((float)e));
    if (!embedding)
        weights_of_output(&model->logits, id, x);
    for (int64_t i = 0; i < e; i += 16) {
        const Vec values = embedding ? v_load_halves(embedding + id * e + i) : v_load(x + i);
        v_store(x + i, v_fma(values, scale, v_load(of_position + i)));
    }
}

void normalise(const float *x, Norm norm, int64_t size, float *y)
{
    ASSERT_MULTIPLE(size, 16);
    Vec sum = v_zero(), squares = v_zero();
    for (int64_t i = 0; i < size; i += 16)
        sum = v_add(sum, v_load(x + i));
    const Vec mean = v_set(v_sum(sum) / (float)size);
    for (int64_t i = 0; i < size; i += 16) {
        const Vec centred = v_sub(v_load(x + i), mean);
        squares = v_fma(centred, centred, squares);
    }
    const float variance = v_sum(squares) / (float)size;
    const Vec factor = v_set(1.0f / sqrtf(variance + norm.epsilon));
    for (int64_t i = 0; i < size; i += 16) {
        const Vec centred = v_sub(v_load(x + i), mean);
        const Vec normed = v_mul(centred, factor);
        const Vec scales = v_load(norm.scales + i);
        const Vec biases = v_load(norm.biases + i);
        v_store(y + i, v_fma(normed, scales, biases));
    }
}

INLINE Vec sigmoid(Vec x)
{
    const Vec one = v_set(1.0f);
    const Vec power = v_exp(v_sub(v_zero(), v_abs(x)));
    const Vec above = v_if_less(x, v_zero(), power, one);
    return v_div(above, v_add(one, power));
}

INLINE Vec silu(Vec x) { return v_mul(x, sigmoid(x)); }

/* x times the cumulative normal distribution of x, to about 1e-7.
 *
 * Source: Abramowitz and Stegun 1964, Handbook of Mathematical Functions, 7.1.26. */
INLINE Vec gelu(Vec x)
{
    const Vec one = v_set(1.0f);
    const Vec z = v_mul(v_abs(x), v_set(0.70710678118654752f));
    const Vec t = v_div(one, v_fma(v_set(0.3275911f), z, one));
    Vec sum = v_set(1.061405429f);
    sum = v_fma(sum, t, v_set(-1.453152027f));
    sum = v_fma(sum, t, v_set(1.421413741f));
    sum = v_fma(sum, t, v_set(-0.284496736f));
    sum = v_fma(sum, t, v_set(0.254829592f));
    const Vec power = v_exp(v_sub(v_zero(), v_mul(z, z)));
    /* The probability above |x|. */
    const Vec beyond = v_mul(v_set(0.5f), v_mul(v_mul(sum, t), power));
    return v_mul(x, v_if_less(x, v_zero(), beyond, v_sub(one, beyond)));
}

void activate(Activation activation, float *x, int64_t size)
{
    ASSERT_MULTIPLE(size, 16);
    for (int64_t i = 0; i < size; i += 16) {
        const Vec values = v_load(x + i);
        v_store(x + i, activation == SILU ? silu(values) : gelu(values));
    }
}

/* Read a token into the cell [E] of an SSRU, and add the result to the residual stream x [E].
 * `gates` [2E] are the forget gate before its sigmoid, and the candidate. Before the first token,
 * the cell is zero, whatever is in memory. */
void read_input(const float *gates, int64_t size, int is_first, float *cell, float *x)
{
    ASSERT_MULTIPLE(size, 16);
    for (int64_t i = 0; i < size; i += 16) {
        const Vec forget = sigmoid(v_load(gates + i)), candidate = v_load(gates + size + i);
        const Vec before = is_first ? v_zero() : v_load(cell + i);
        const Vec after = v_fma(forget, v_sub(before, candidate), candidate);
        v_store(cell + i, after);
        v_store(x + i, v_add(v_load(x + i), v_max(after, v_zero())));
    }
}

/* Code a row so that its largest magnitude becomes `most`. */
static inline void round_to_codes(const float *x, int64_t size, float largest, float most,
                                  const Codes *codes, int64_t row)
{
    const float scale = (largest > SMALLEST ? largest : SMALLEST) / most;
    const Vec factor = v_set(1.0f / scale);
    uint8_t *const to = codes->codes + row * size * CODE_BYTES;
    int32_t start = 0;
    for (int64_t i = 0; i < size; i += 16)
        start += q_store_codes(to + i * CODE_BYTES, v_mul(v_load(x + i), factor), codes->zero);
    codes->scales[row] = scale;
    codes->starts[row] = start;
}

void quantise(const float *x, int64_t rows, int64_t size, Codes *codes)
{
    ASSERT_MULTIPLE(size, 16);
    assert(rows > 0);
    codes->zero = 128 - CODE_SHIFT;
    for (int64_t row = 0; row < rows; row++, x += size) {
        Vec largest = v_zero();
        for (int64_t i = 0; i < size; i += 16)
            largest = v_max(largest, v_abs(v_load(x + i)));
        round_to_codes(x, size, v_largest(largest), 127.0f, codes, row);
    }
}

void quantise_rectified(const float *x, int64_t rows, int64_t size, Codes *codes)
{
    ASSERT_MULTIPLE(size, 16);
    assert(rows > 0);
    codes->zero = -CODE_SHIFT;
    for (int64_t row = 0; row < rows; row++, x += size) {
        Vec largest = v_zero();
        for (int64_t i = 0; i < size; i += 16)
            largest = v_max(largest, v_load(x + i));
        round_to_codes(x, size, v_largest(largest), 255.0f, codes, row);
    }
}
