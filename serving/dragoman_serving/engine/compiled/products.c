/* Products of activations and weights in codes of 8 bits.
 *
 * A tile of up to six rows and one panel of 64 outputs keeps its 24 vectors of sums in registers;
 * a panel's weights lie in the order in which they are read, and all rows pass while they are in
 * the cache. The loops over a tile's rows must be unrolled: by itself Clang does not unroll those
 * of five and six rows, and keeps their sums in memory, which takes twice as long.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels.h"

enum {
    TILE_ROWS = 6,
    VECTORS = PANEL / 16,
    PREFETCH_BYTES = 8192 /* how far ahead weights are prefetched */
};

/* Add the products of unsigned and signed bytes, four by four. With the compiler's own name for the
 * instruction, GCC 12 copies every vector of sums twice a turn, which halves the speed. */
static inline __m512i add_products(__m512i sums, __m512i codes, __m512i weights)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(codes), "v"(weights));
    return sums;
}

static inline __attribute__((always_inline)) void multiply_tile(
    const int rows, const Product *product, int64_t panel, const uint8_t *codes,
    const float *row_scales, Finish finish, float *results, int64_t stride)
{
    const int64_t inputs = product->inputs, first = panel * PANEL;
    const int8_t *weights = product->codes + first * inputs;
    __m512i sums[TILE_ROWS][VECTORS];
    #pragma GCC unroll TILE_ROWS
    for (int row = 0; row < rows; row++)
        for (int v = 0; v < VECTORS; v++)
            sums[row][v] = _mm512_loadu_si512(product->starts + first + 16 * v);
    for (int64_t k = 0; k < inputs; k += 4) {
        __m512i weight[VECTORS];
        for (int v = 0; v < VECTORS; v++) {
            /* One row alone reads as fast as memory allows. Beyond the end, this reads nothing. */
            if (rows > 1)
                _mm_prefetch(weights + k * PANEL + 64 * v + PREFETCH_BYTES, _MM_HINT_T0);
            weight[v] = _mm512_loadu_si512(weights + k * PANEL + 64 * v);
        }
        #pragma GCC unroll TILE_ROWS
        for (int row = 0; row < rows; row++) {
            int32_t four;
            memcpy(&four, codes + row * inputs + k, 4);
            const __m512i code = _mm512_set1_epi32(four);
            for (int v = 0; v < VECTORS; v++)
                sums[row][v] = add_products(sums[row][v], code, weight[v]);
        }
    }
    #pragma GCC unroll TILE_ROWS
    for (int row = 0; row < rows; row++) {
        const __m512 row_scale = _mm512_set1_ps(row_scales[row]);
        float *result = results + row * stride + first;
        __m512 most = _mm512_set1_ps(-INFINITY);
        for (int v = 0; v < VECTORS; v++) {
            const __m512 scale = _mm512_loadu_ps(product->scales + first + 16 * v);
            __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[row][v]), row_scale);
            y = _mm512_fmadd_ps(y, scale, _mm512_loadu_ps(product->biases + first + 16 * v));
            if (finish == RECTIFY)
                y = _mm512_max_ps(y, _mm512_setzero_ps());
            else if (finish == ADD)
                y = _mm512_add_ps(y, _mm512_loadu_ps(result + 16 * v));
            _mm512_storeu_ps(result + 16 * v, y);
            most = _mm512_max_ps(most, y);
        }
        if (finish == RANK)
            results[row * stride + product->outputs + panel] = _mm512_reduce_max_ps(most);
    }
}

void multiply(const Product *product, Codes codes, int64_t rows, Finish finish, float *results)
{
    const int64_t panels = product->outputs / PANEL;
    const int64_t stride = product->outputs + (finish == RANK ? panels : 0);
    const int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t most = tiles ? (rows + tiles - 1) / tiles : 0; /* tiles of like size */
    for (int64_t panel = 0; panel < panels; panel++) {
        for (int64_t row = 0, count; row < rows; row += count) {
            count = rows - row < most ? rows - row : most;
#define TILE(rows_of_tile)                                                                       \
    case rows_of_tile:                                                                           \
        multiply_tile(rows_of_tile, product, panel, codes.codes + row * product->inputs,         \
                      codes.scales + row, finish, results + row * stride, stride);               \
        break
            switch (count) {
                TILE(1);
                TILE(2);
                TILE(3);
                TILE(4);
                TILE(5);
                TILE(6);
            }
#undef TILE
        }
    }
}
