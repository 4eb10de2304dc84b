/* Constrained beam search: the translations contain given terms. */
#pragma once

#include "search_data.h"

/* A continuation of a live hypothesis by one token. */
typedef struct {
    float score, log_prob;
    float forced;           /* sum over forced tokens, which `score` does not contain */
    int32_t parent, id;     /* `parent` is an index of the live hypotheses */
    int32_t order;          /* order among equal scores */
    int32_t term, position; /* the term that it is inside of (-1: none), and how many of its tokens
                             * it has */
    int32_t completes;      /* a term, or -1 */
    int32_t just_met;       /* whether its last token completes a term */
    int32_t bank, turn; /* how many terms it has begun, and its index among those with as many */
} Continuation;

int64_t dragoman_terms_bytes(int64_t width, int64_t terms);
Continuation *find_term_continuations(const Searches *searches, int64_t slot, float *scores,
                                      int64_t *count);
int64_t choose_term_continuations(const Searches *searches, int64_t slot, Continuation *list,
                                  int64_t count);
void follow_terms(const Searches *searches, int64_t slot, const Continuation *chosen,
                  int64_t count);
int64_t terms_met(const Searches *searches, int64_t slot, int64_t index);
float forced_score(const Searches *searches, int64_t slot, int64_t index);
