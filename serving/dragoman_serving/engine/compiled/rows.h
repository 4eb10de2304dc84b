/* Operations on one row of activations at a time. */
#pragma once

#include "products.h"

void embed(const Model *model, const uint16_t *embedding, int64_t id, int64_t position, float *x);
void activate(Activation activation, float *x, int64_t size);
void normalise(const float *x, Norm norm, int64_t size, float *y);
void read_input(const float *gates, int64_t size, int is_first, float *cell, float *x);
void quantise(const float *x, int64_t rows, int64_t size, Codes *codes);
void quantise_rectified(const float *x, int64_t rows, int64_t size, Codes *codes);
