/* Attention of one query. */
#pragma once

#include "model.h"

enum { BLOCK = 16 /* tokens whose keys or values are stored together */ };

/* Keys and values have 8-bit codes, with one scale per token and head. A block of a head's keys has
 * codes [D / 4][BLOCK][4]: they are the weights of 16 scores. A block of values has codes
 * [D / 16][BLOCK / 4][16][4]: its tokens are the inputs of D results. After the codes come the
 * tokens' scales [BLOCK] and the sums of their keys' codes [BLOCK]. */
static inline int64_t block_bytes(int64_t head_size) { return BLOCK * (head_size + 8); }

/* Attention of one scaled query [D] over the keys and values of `length` tokens in fp32, with
 * `stride` between tokens; `weights` [2 (length + BLOCK)] is scratch. */
void attend(const float *query, const float *keys, const float *values, int64_t stride,
            int64_t length, int64_t head_size, float *weights, float *result);

/* Where to add a head's attention weights, multiplied by `factor`; NULL: nowhere. */
typedef struct {
    float *sums; /* [length] */
    float factor;
} Attended;

/* The same over the coded keys and values of one head. Those that will be read next are `ahead` bytes
 * after them. */
void attend_codes(const float *query, const uint8_t *keys, const uint8_t *values, int64_t ahead,
                  int64_t length, int64_t head_size, float *weights, float *result,
                  Attended attended);
void store_key(const float *key, int64_t head_size, uint8_t *keys, int64_t position);
void store_value(const float *value, int64_t head_size, uint8_t *values, int64_t position);
