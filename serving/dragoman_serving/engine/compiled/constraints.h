/* Constraints of a request, applied to rows of scores as in best.h. */
#pragma once

#include "search_data.h"

void rank_constrained(const Searches *searches, int64_t slot, float *scores);
