/* Products of activations and weights in 8-bit codes. */
#pragma once

#include "helpers.h"
#include "model.h"

/* N rows of activations as codes: a value is (code - zero) times the scale of its row. Each
 * instruction set has its own form of codes, and `starts` are the initial values of a row's
 * sums. */
typedef struct {
    uint8_t *codes;
    float *scales;   /* [N] */
    int32_t *starts; /* [N] */
    int32_t zero;
    const int64_t *places; /* [N], rows of the results; NULL: the same rows */
} Codes;

/* What happens to a product's results [N, outputs]: they are stored, stored after ReLU, added to
 * the values in memory, or stored with the largest of each panel after the end of the row. */
typedef enum { STORE, RECTIFY, ADD, RANK } Finish;

/* `helpers` may be NULL. */
void multiply(Helpers *helpers, const Product *product, Codes codes, int64_t rows, Finish finish,
              float *results);

/* Like RANK, for some outputs of each row: only those are stored, see best.h. `shortlists` [N]; a NULL
 * shortlist means all outputs. */
void multiply_listed(const Product *product, Codes codes, int64_t rows,
                     const uint64_t *const *shortlists, float *results);
