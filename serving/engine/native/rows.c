/* What is done to one row of activations at a time. Sizes are multiples of 16. */
#include <immintrin.h>
#include <math.h>

#include "kernels.h"

static const float NORM_EPSILON = 1e-5f;
static const float SMALLEST = 1e-30f; /* keeps a row of zeros from dividing by zero */

void embed(const Model *model, int64_t id, int64_t position, float *x)
{
    const uint16_t *embedding = model->embedding + id * model->model_size;
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
