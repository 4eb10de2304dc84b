/* Searches that may branch. */
#pragma once

#include "search_data.h"

int64_t dragoman_advance(const Searches *searches, float *scores, int64_t *next_ids,
                         int64_t *copied);
