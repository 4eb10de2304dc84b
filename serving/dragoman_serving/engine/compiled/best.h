/* Top-k tokens, and log-probabilities, of rows of scores.
 *
 * A row has scores [panels x PANEL], followed by the largest of each panel. A sentence's shortlist has
 * one bit per 16 tokens, from the lowest bit of the first word. Its rows have only the scores of
 * tokens whose bit is 1, padded with -inf to whole panels. */
#pragma once

#include <stdint.h>

enum { MOST_BEST = 1024 /* tokens that can be ranked at once */ };

/* A value and its index in a list. */
typedef struct {
    float value;
    int64_t index;
} Ranked;

int64_t panels_of(const uint64_t *shortlist, int64_t panels);
int64_t token_at(const uint64_t *shortlist, int64_t index);
void end_row(float *row, float *end);
void spread_listed(const uint64_t *shortlist, int64_t panels, float *row);
void best_tokens(const float *scores, int64_t panels, int64_t count, Ranked *tokens);
float largest_of(const float *values, int64_t length);
float log_sum_of(const float *scores, int64_t length, float most);
float log_sum_of_panels(const float *scores, int64_t panels, float most);
void dragoman_argmax(const float *scores, int64_t rows, int64_t panels, int64_t *ids);
void dragoman_best(const float *scores, int64_t rows, int64_t panels, int64_t count,
                   float *log_probs, int64_t *ids);
void dragoman_log_softmax(const float *scores, int64_t rows, int64_t stride, int64_t length,
                          float *log_probs);
void dragoman_lay_out(const float *scores, int64_t length, int64_t panels, float *row);
