/* Greedy and beam search of a slot, step by step. */
#pragma once

#include "search_data.h"

/* The tokens that the rows read next, and the copies between rows. */
typedef struct {
    int64_t *ids;  /* [R] */
    int64_t *copy; /* position of the next copy */
} Next;

static inline void add_copy(Next *next, int64_t source, int64_t target, int64_t tokens)
{
    *next->copy++ = source;
    *next->copy++ = target;
    *next->copy++ = tokens;
}

int advance_search(const Searches *searches, int64_t slot, float *scores, Next *next);
void rank_plain(const Searches *searches, const uint64_t *const *shortlists, float *scores);
void dragoman_leave_search(Searches *searches, int64_t sentence);
void dragoman_result(const Searches *searches, int64_t slot, int64_t rank, int32_t *ids,
                     float *log_probs, int32_t *rows, SearchResult *result);
