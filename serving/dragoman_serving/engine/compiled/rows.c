/* What is done to one row of activations at a time. Sizes are multiples of 16. */
#include <immintrin.h>
#include <math.h>

#include "kernels.h"
#include "vectors.h"

static const float NORM_EPSILON = 1e-5f;
static const float SMALLEST = 1e-30f; /* keeps a row of zeros from dividing by zero */

void embed(const Model *model, const uint16_t *embedding, int64_t position, float *x)
{
    const float *place = model->positions + position * model->model_size;
    const __m512 scale = _mm512_set1_ps(sqrtf((float)model->model_size));
    for (int64_t i = 0; i < model->model_size; i += 16) {
        const __m512 values = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(embedding + i)));
        _mm512_storeu_ps(x + i, _mm512_fmadd_ps(values, scale, _mm512_loadu_ps(place + i)));
    }
}

void normalise(const float *x, Norm norm, int64_t size, float *y)
{
    __m512 sum = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
    for (int64_t i = 0; i < size; i += 16)
        sum = _mm512_add_ps(sum, _mm512_loadu_ps(x + i));
    const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / (float)size);
    for (int64_t i = 0; i < size; i += 16) {
        const __m512 centred = _mm512_sub_ps(_mm512_loadu_ps(x + i), mean);
        squares = _mm512_fmadd_ps(centred, centred, squares);
    }
    const float variance = _mm512_reduce_add_ps(squares) / (float)size;
    const __m512 factor = _mm512_set1_ps(1.0f / sqrtf(variance + NORM_EPSILON));
    for (int64_t i = 0; i < size; i += 16) {
        const __m512 centred = _mm512_sub_ps(_mm512_loadu_ps(x + i), mean);
        const __m512 normed = _mm512_mul_ps(centred, factor);
        const __m512 scales = _mm512_loadu_ps(norm.scales + i);
        const __m512 biases = _mm512_loadu_ps(norm.biases + i);
        _mm512_storeu_ps(y + i, _mm512_fmadd_ps(normed, scales, biases));
    }
}

/* x times the logistic function of x. */
static inline __m512 silu(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 power = exponential(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_abs_ps(x)));
    const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    const __m512 above = _mm512_mask_mov_ps(one, negative, power);
    return _mm512_mul_ps(x, _mm512_div_ps(above, _mm512_add_ps(one, power)));
}

/* x times the normal distribution's share below x, to about 1e-7.
 *
 * Source: Abramowitz and Stegun 1964, Handbook of Mathematical Functions, 7.1.26. */
static inline __m512 gelu(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 z = _mm512_mul_ps(_mm512_abs_ps(x), _mm512_set1_ps(0.70710678118654752f));
    const __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(_mm512_set1_ps(0.3275911f), z, one));
    __m512 sum = _mm512_set1_ps(1.061405429f);
    sum = _mm512_fmadd_ps(sum, t, _mm512_set1_ps(-1.453152027f));
    sum = _mm512_fmadd_ps(sum, t, _mm512_set1_ps(1.421413741f));
    sum = _mm512_fmadd_ps(sum, t, _mm512_set1_ps(-0.284496736f));
    sum = _mm512_fmadd_ps(sum, t, _mm512_set1_ps(0.254829592f));
    const __m512 power = exponential(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(z, z)));
    /* The share beyond |x|. */
    const __m512 beyond = _mm512_mul_ps(_mm512_set1_ps(0.5f), _mm512_mul_ps(_mm512_mul_ps(sum, t), power));
    const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_mul_ps(x, _mm512_mask_mov_ps(_mm512_sub_ps(one, beyond), negative, beyond));
}

void activate(Activation activation, float *x, int64_t size)
{
    for (int64_t i = 0; i < size; i += 16) {
        const __m512 values = _mm512_loadu_ps(x + i);
        _mm512_storeu_ps(x + i, activation == SILU ? silu(values) : gelu(values));
    }
}

static inline void round_to_codes(const float *x, int64_t size, float largest, float most,
                                  int zero_point, uint8_t *codes, float *scale)
{
    *scale = (largest > SMALLEST ? largest : SMALLEST) / most;
    const __m512 factor = _mm512_set1_ps(1.0f / *scale);
    const __m512i zero = _mm512_set1_epi32(zero_point);
    for (int64_t i = 0; i < size; i += 16) {
        const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + i), factor);
        const __m512i code = _mm512_add_epi32(_mm512_cvtps_epi32(scaled), zero);
        _mm_storeu_si128((void *)(codes + i), _mm512_cvtusepi32_epi8(code));
    }
}

void quantise(const float *x, int64_t size, uint8_t *codes, float *scale)
{
    __m512 largest = _mm512_setzero_ps();
    for (int64_t i = 0; i < size; i += 16)
        largest = _mm512_max_ps(largest, _mm512_abs_ps(_mm512_loadu_ps(x + i)));
    round_to_codes(x, size, _mm512_reduce_max_ps(largest), 127.0f, 128, codes, scale);
}

void quantise_rectified(const float *x, int64_t size, uint8_t *codes, float *scale)
{
    __m512 largest = _mm512_setzero_ps();
    for (int64_t i = 0; i < size; i += 16)
        largest = _mm512_max_ps(largest, _mm512_loadu_ps(x + i));
    round_to_codes(x, size, _mm512_reduce_max_ps(largest), 255.0f, 0, codes, scale);
}
