/* Constraints of a request, applied to rows of scores as in best.h. */
#pragma once

#include "best.h"
#include "search_data.h"

void forbid(float *scores, int64_t panels, int64_t id);
int64_t read_history(const Searches *searches, int64_t slot, int64_t index);
float log_sum_of_row(const Searches *searches, const float *scores);
void constrain(const Searches *searches, int64_t slot, int64_t length, float *scores,
               float log_sum);
float model_score(const Searches *searches, int64_t slot, int64_t length, Ranked token);
void rank_constrained(const Searches *searches, int64_t slot, float *scores);
