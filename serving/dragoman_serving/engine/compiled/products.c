/* Products of activations and weights in 8-bit codes.
 *
 * A tile of a few rows and some vectors of 16 outputs keeps its sums in registers. The weights of
 * 16 outputs are stored in the order in which they are read, and all rows use them while they are
 * in the cache. The loops over a tile must be unrolled explicitly: Clang does not unroll those of
 * five and six rows, and then keeps their sums in memory, which takes twice as long.
 */
#include <math.h>

#include "products.h"
#include "best.h"
#include "bounds.h"
#include "vec.h"

enum {
    CHAINS = 4,       /* sums of one row, since an addition waits for the previous one */
    ROW_AHEAD = 2048, /* how many bytes ahead a single row prefetches weights */
    LISTED_ROWS = TILE_ROWS * TILE_VECTORS < 8 ? TILE_ROWS * TILE_VECTORS : 8,
    MOST_ROWS = 8,           /* of a tile */
    MOST_SUMS = 4,           /* of a row in it */
    LISTED_TOGETHER = 64,    /* rows whose shortlists are read at once */
    PART_PRODUCTS = 1 << 16, /* fewest products that are worth passing to a helper */
    MOST_PARTS = 32,
    WORD_OUTPUTS = 64 * 16 /* outputs per word of a shortlist */
};

INLINE const int8_t *weights_of(const Product *product, int64_t first)
{
    return product->codes + first * product->inputs;
}

INLINE const uint8_t *codes_of(const Product *product, const Codes *codes, int64_t row)
{
    return codes->codes + row * product->inputs * CODE_BYTES;
}

INLINE float *results_of(const Codes *codes, int64_t row, float *results, int64_t stride)
{
    return results + (codes->places ? codes->places[row] : row) * stride;
}

/* Begin several sums of a row; `add_chains` adds them up. */
INLINE void start_chains(const int chains, const Product *product, int64_t first,
                         const Codes *codes, int64_t row, Sums *sums)
{
    sums[0] = q_start(product->sums + first, -codes->zero, codes->starts[row]);
#pragma GCC unroll 4
    for (int i = 1; i < chains; i++)
        sums[i] = q_start(product->sums + first, 0, 0);
}

INLINE Sums add_chains(const int chains, const Sums *sums)
{
    Sums sum = sums[0];
#pragma GCC unroll 4
    for (int i = 1; i < chains; i++)
        sum = q_add(sum, sums[i]);
    return sum;
}

/* Convert a row's sums of 16 outputs to results, at `to`. Returns them for ranking. */
INLINE Vec finish_sums(const Product *product, int64_t first, Sums sums, Vec row_scale,
                       Finish finish, float *to)
{
    const Vec scale = v_load(product->scales + first);
    Vec y = v_mul(q_to_floats(sums), row_scale);
    y = v_fma(y, scale, v_load(product->biases + first));
    if (finish == RECTIFY)
        y = v_max(y, v_zero());
    else if (finish == ADD)
        y = v_add(y, v_load(to));
    v_store(to, y);
    return y;
}

/* Update the largest result of a panel, stored after the row's results. */
INLINE void note_largest(const Product *product, int64_t first, Vec results, float *result)
{
    float *const of_panel = result + product->outputs + first / PANEL;
    const float largest = v_largest(results);
    *of_panel = first % PANEL && *of_panel > largest ? *of_panel : largest;
}

/* Add the products of some rows with consecutive vectors of 16 outputs to their sums
 * [rows][vectors x chains]. Prefetches the weights at `next` if `prefetches` is set. */
INLINE void add_products(const int rows, const int vectors, const int chains, const int prefetches,
                         const uint8_t *const codes[MOST_ROWS], const int8_t *weights,
                         const int8_t *next, int64_t inputs, Sums sums[MOST_ROWS][MOST_SUMS])
{
    for (int64_t k = 0; k < inputs; k += 4 * chains)
#pragma GCC unroll 4
        for (int chain = 0; chain < chains; chain++) {
            const int64_t at = k + 4 * chain;
            Weights weight[MOST_SUMS];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                if (prefetches)
                    prefetch(next + 16 * (v * inputs + at));
                weight[v] = q_load_weights(weights + 16 * (v * inputs + at));
            }
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++) {
                const Four four = q_load_four(codes[i] + at * CODE_BYTES);
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++)
                    sums[i][v * chains + chain] =
                        q_add_products(sums[i][v * chains + chain], four, weight[v]);
            }
        }
}

INLINE void multiply_tile(const int rows, const int vectors, const Product *product, int64_t first,
                          const Codes *codes, int64_t row, Finish finish, float *results,
                          int64_t stride)
{
    const int8_t *const weights = weights_of(product, first);
    const uint8_t *of_rows[MOST_ROWS];
    Sums sums[MOST_ROWS][MOST_SUMS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        of_rows[i] = codes_of(product, codes, row + i);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sums[i][v] =
                q_start(product->sums + first + 16 * v, -codes->zero, codes->starts[row + i]);
    }
    /* The same outputs of the next panel. After the last one, a prefetch is harmless. */
    add_products(rows, vectors, 1, 1, of_rows, weights, weights + PANEL * product->inputs,
                 product->inputs, sums);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        const Vec row_scale = v_set(codes->scales[row + i]);
        float *const result = results_of(codes, row + i, results, stride);
        Vec largest = v_set(-INFINITY);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            largest = v_max(largest, finish_sums(product, first + 16 * v, sums[i][v], row_scale,
                                                 finish, result + first + 16 * v));
        if (finish == RANK)
            note_largest(product, first, largest, result);
    }
}

/* One row reads each weight once, in the order of memory. */
INLINE void multiply_row(const Product *product, int64_t begin, int64_t end, const Codes *codes,
                         Finish finish, float *result)
{
    const uint8_t *const of_rows[MOST_ROWS] = {codes->codes};
    const Vec row_scale = v_set(codes->scales[0]);
    for (int64_t first = begin; first < end; first += 16) {
        Sums sums[MOST_ROWS][MOST_SUMS];
        const int8_t *const weights = weights_of(product, first);
        start_chains(CHAINS, product, first, codes, 0, sums[0]);
        add_products(1, 1, CHAINS, ROW_PREFETCHES, of_rows, weights, weights + ROW_AHEAD,
                     product->inputs, sums);
        const Vec results = finish_sums(product, first, add_chains(CHAINS, sums[0]), row_scale,
                                        finish, result + first);
        if (finish == RANK)
            note_largest(product, first, results, result);
    }
}

/* Tiles of consecutive rows, all with the same outputs. */
INLINE void multiply_tiles(const int vectors, const Product *product, int64_t first,
                           const Codes *codes, int64_t rows, Finish finish, float *results,
                           int64_t stride)
{
    const int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t most = (rows + tiles - 1) / tiles; /* tiles of similar size */
    for (int64_t row = 0, count; row < rows; row += count) {
        count = rows - row < most ? rows - row : most;
#define TILE(rows_of_tile) \
    case rows_of_tile: \
        if (rows_of_tile <= TILE_ROWS) \
            multiply_tile(rows_of_tile, vectors, product, first, codes, row, finish, results, \
                          stride); \
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

/* A product of some rows, and how many of its outputs are computed together. */
typedef struct {
    const Product *product;
    Codes codes;
    int64_t rows;
    Finish finish;
    float *results;
    int64_t of_part;
} Multiplication;

static void multiply_part(const void *argument, int64_t part)
{
    const Multiplication *const all = argument;
    const int64_t outputs = all->product->outputs, begin = part * all->of_part;
    const int64_t end = begin + all->of_part < outputs ? begin + all->of_part : outputs;
    const int64_t stride = outputs + (all->finish == RANK ? outputs / PANEL : 0);
    if (all->rows == 1)
        multiply_row(all->product, begin, end, &all->codes, all->finish,
                     results_of(&all->codes, 0, all->results, stride));
    else
        for (int64_t first = begin; first < end; first += 16 * TILE_VECTORS)
            multiply_tiles(TILE_VECTORS, all->product, first, &all->codes, all->rows, all->finish,
                           all->results, stride);
}

void multiply(Helpers *helpers, const Product *product, Codes codes, int64_t rows, Finish finish,
              float *results)
{
    ASSERT_MULTIPLE(product->inputs, 4 * CHAINS);
    ASSERT_MULTIPLE(product->outputs, PANEL);
    assert(rows > 0);
    const int64_t panels = product->outputs / PANEL;
    int64_t parts = rows * product->inputs * product->outputs / PART_PRODUCTS, of_part = panels;
    parts = parts < MOST_PARTS ? parts : MOST_PARTS;
    if (helpers && parts > 1)
        of_part = (panels + parts - 1) / parts;
    const Multiplication all = {product, codes, rows, finish, results, of_part * PANEL};
    run_parts(helpers, (panels + of_part - 1) / of_part, multiply_part, &all);
}

/* A row that needs some of a product's outputs, and where the next of its results go. */
typedef struct {
    int64_t row;
    const uint64_t *shortlist;
    float *results;
} ListedRow;

/* One vector of outputs for the first `rows` rows in `chosen`, with `chains` sums per row as in
 * `multiply_row`. The weights at `next` are those of the vector after it. */
INLINE void multiply_listed_tile(const int rows, const int chains, const Product *product,
                                 int64_t first, const int8_t *next, const Codes *codes,
                                 ListedRow *const *chosen)
{
    const uint8_t *of_rows[MOST_ROWS];
    Sums sums[MOST_ROWS][MOST_SUMS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        of_rows[i] = codes_of(product, codes, chosen[i]->row);
        start_chains(chains, product, first, codes, chosen[i]->row, sums[i]);
    }
    add_products(rows, 1, chains, 1, of_rows, weights_of(product, first), next, product->inputs,
                 sums);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        const Vec row_scale = v_set(codes->scales[chosen[i]->row]);
        finish_sums(product, first, add_chains(chains, sums[i]), row_scale, STORE,
                    chosen[i]->results);
        chosen[i]->results += 16;
    }
}

/* How many sums a row of a tile has, so that all fit into registers. */
INLINE int chains_of(const int rows)
{
    return rows == 1 ? CHAINS : 2 * rows <= TILE_ROWS * TILE_VECTORS ? 2 : 1;
}

/* One vector of outputs for all rows in `chosen`. */
static void multiply_listed_vector(const Product *product, int64_t first, const int8_t *next,
                                   const Codes *codes, ListedRow *const *chosen, int64_t rows)
{
    const int64_t tiles = (rows + LISTED_ROWS - 1) / LISTED_ROWS;
    const int64_t most = tiles ? (rows + tiles - 1) / tiles : 0;
    for (int64_t row = 0, count; row < rows; row += count) {
        count = rows - row < most ? rows - row : most;
#define TILE(rows_of_tile) \
    case rows_of_tile: \
        if (rows_of_tile <= LISTED_ROWS) \
            multiply_listed_tile(rows_of_tile, chains_of(rows_of_tile), product, first, next, \
                                 codes, chosen + row); \
        break
        switch (count) {
            TILE(1);
            TILE(2);
            TILE(3);
            TILE(4);
            TILE(5);
            TILE(6);
            TILE(7);
            TILE(8);
        }
#undef TILE
    }
}

/* The vectors of one word of the shortlists, for at most LISTED_TOGETHER rows. */
static void multiply_listed_word(const Product *product, int64_t word, const Codes *codes,
                                 ListedRow *rows, int64_t count)
{
    const int64_t begin = word * WORD_OUTPUTS, vectors = (product->outputs - begin) / 16;
    const uint64_t all = vectors < 64 ? ((uint64_t)1 << vectors) - 1 : ~(uint64_t)0;
    uint64_t listed[LISTED_TOGETHER], any = 0;
    ListedRow *chosen[LISTED_TOGETHER];
    for (int64_t i = 0; i < count; i++) {
        listed[i] = rows[i].shortlist ? rows[i].shortlist[word] : all;
        assert(!(listed[i] & ~all));
        any |= listed[i];
    }
    while (any) {
        const int vector = __builtin_ctzll(any);
        int64_t number = 0;
        any &= any - 1;
        for (int64_t i = 0; i < count; i++) {
            chosen[number] = rows + i;
            number += listed[i] >> vector & 1;
        }
        const int64_t next = any ? __builtin_ctzll(any) : vector + 1;
        multiply_listed_vector(product, begin + 16 * vector, weights_of(product, begin + 16 * next),
                               codes, chosen, number);
    }
}

void multiply_listed(const Product *product, Codes codes, int64_t rows,
                     const uint64_t *const *shortlists, float *results)
{
    ASSERT_MULTIPLE(product->inputs, 4 * CHAINS);
    ASSERT_MULTIPLE(product->outputs, PANEL);
    assert(rows > 0);
    const int64_t outputs = product->outputs, stride = outputs + outputs / PANEL;
    const int64_t words = (outputs + WORD_OUTPUTS - 1) / WORD_OUTPUTS;
    ListedRow listed[LISTED_TOGETHER];
    for (int64_t begin = 0; begin < rows; begin += LISTED_TOGETHER) {
        const int64_t left = rows - begin;
        const int64_t count = left < LISTED_TOGETHER ? left : LISTED_TOGETHER;
        for (int64_t i = 0; i < count; i++)
            listed[i] = (ListedRow){begin + i, shortlists[begin + i],
                                    results_of(&codes, begin + i, results, stride)};
        for (int64_t word = 0; word < words; word++)
            multiply_listed_word(product, word, &codes, listed, count);
        for (int64_t i = 0; i < count; i++)
            end_row(results_of(&codes, begin + i, results, stride), listed[i].results);
    }
}
