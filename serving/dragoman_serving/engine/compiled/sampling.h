/* Sampling of a token. */
#pragma once

#include "search_data.h"

int64_t sample(const Searches *searches, const Constraints *constraints, double number,
               const float *scores);
