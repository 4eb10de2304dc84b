/* One step of the sentences in flight. */
#pragma once

#include "search_data.h"
#include "transformer.h"

int64_t dragoman_decode(const Model *model, Rows *rows, const Searches *searches, char *memory,
                        float *scores, Helpers *helpers, const int64_t *pending, int64_t most);
void dragoman_leave(const Model *model, Rows *rows, Searches *searches, int64_t slot);
int64_t dragoman_longest(const Rows *rows);
