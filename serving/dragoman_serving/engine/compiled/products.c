/* Products of activations and weights in codes of 8 bits.
 *
 * A tile of a few rows and a part of a panel of 64 outputs keeps its sums in registers; a panel's
 * weights lie in the order in which they are read, and all rows pass while they are in the cache.
 * The loops over a tile's rows must be unrolled: by itself Clang does not unroll those of five and
 * six rows, and keeps their sums in memory, which takes twice as long.
 */
#include <math.h>

#include "kernels.h"
#include "vec.h"

enum {
    VECTORS = PANEL / 16,
    PREFETCH_BYTES = 8192 /* how far ahead weights are prefetched */
};

INLINE void multiply_tile(const int rows, const int vectors, const Product *product, int64_t first,
                          const Codes *codes, int64_t row, Finish finish, float *results,
                          int64_t stride)
{
    const int64_t inputs = product->inputs;
    const int8_t *const weights =
        product->codes + first / PANEL * PANEL * inputs + first % PANEL * 4;
    const uint8_t *const of_rows = codes->codes + row * inputs;
    Sums sums[TILE_ROWS][VECTORS];
    #pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
        #pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sums[i][v] = q_multiply(product->sums + first + 16 * v, -codes->zero);
    for (int64_t k = 0; k < inputs; k += 4) {
        Weights weight[VECTORS];
        #pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            /* One row alone reads as fast as memory allows. Beyond the end, this reads nothing. */
            if (rows > 1)
                q_prefetch(weights + k * PANEL + 64 * v + PREFETCH_BYTES);
            weight[v] = q_load_weights(weights + k * PANEL + 64 * v);
        }
        #pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const Four four = q_load_four(of_rows + i * inputs + k);
            #pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sums[i][v] = q_add_products(sums[i][v], four, weight[v]);
        }
    }
    #pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        const Vec row_scale = v_set(codes->scales[row + i]);
        float *const result = results + (row + i) * stride + first;
        Vec largest = v_set(-INFINITY);
        #pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const Vec scale = v_load(product->scales + first + 16 * v);
            Vec y = v_mul(q_to_floats(sums[i][v]), row_scale);
            y = v_fma(y, scale, v_load(product->biases + first + 16 * v));
            if (finish == RECTIFY)
                y = v_max(y, v_zero());
            else if (finish == ADD)
                y = v_add(y, v_load(result + 16 * v));
            v_store(result + 16 * v, y);
            largest = v_max(largest, y);
        }
        if (finish == RANK) {
            float *const of_panel = results + (row + i) * stride + product->outputs + first / PANEL;
            const float found = v_largest(largest);
            *of_panel = first % PANEL && *of_panel > found ? *of_panel : found;
        }
    }
}

/* Tiles of some rows that lie beside each other, all with the same outputs. */
INLINE void multiply_tiles(const int vectors, const Product *product, int64_t first,
                           const Codes *codes, int64_t rows, Finish finish, float *results,
                           int64_t stride)
{
    const int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t most = (rows + tiles - 1) / tiles; /* tiles of like size */
    for (int64_t row = 0, count; row < rows; row += count) {
        count = rows - row < most ? rows - row : most;
#define TILE(rows_of_tile)                                                                       \
    case rows_of_tile:                                                                           \
        if (rows_of_tile <= TILE_ROWS)                                                           \
            multiply_tile(rows_of_tile, vectors, product, first, codes, row, finish, results,    \
                          stride);                                                               \
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

void multiply(const Product *product, Codes codes, int64_t rows, Finish finish, float *results)
{
    const int64_t outputs = product->outputs;
    const int64_t stride = outputs + (finish == RANK ? outputs / PANEL : 0);
    if (rows == 1)
        for (int64_t first = 0; first < outputs; first += PANEL)
            multiply_tile(1, VECTORS, product, first, &codes, 0, finish, results, stride);
    else if (rows > 1)
        for (int64_t first = 0; first < outputs; first += 16 * TILE_VECTORS)
            multiply_tiles(TILE_VECTORS, product, first, &codes, rows, finish, results, stride);
}
