/* The data of searches: constraints, hypotheses, and the arrays of all slots. */
#pragma once

#include <stdint.h>

/* Words that a translation must not contain, in any tokenization. A character is stored as twice
 * its code point, plus 1 for a letter or a digit. */
typedef struct {
    const int32_t *text;        /* text of all tokens, concatenated */
    const int64_t *text_begins; /* [V + 1] */
    int64_t always;             /* number of tokens that contain a word */
    const int32_t *always_ids;
    int64_t beginnings; /* N, beginnings of words that some tokens complete */
    const int32_t *beginning_text;
    const int64_t *beginning_begins; /* [N + 1] */
    const int32_t *ids;              /* tokens that complete them */
    const int64_t *ids_begins;       /* [N + 1] */
} Suppressed;

/* Constraints that a request's options put on one sentence's search. */
typedef struct {
    int64_t prefix_length;
    const int32_t *prefix;     /* forced first tokens of the translation */
    int64_t fewest;            /* minimum tokens before the end symbol */
    int64_t ngram_size;        /* no n-gram of this size may repeat; 0: off */
    int64_t enough;            /* the search ends when this many hypotheses are finished; 0: when no
                                * live hypothesis can become better than the finished ones */
    int64_t branches;          /* searches that continue after the prefix and one more token, which
                                * differs between them; 0: the search does not branch */
    int64_t first_branch;      /* rank of the first branch's token */
    int64_t scored;            /* whether log-probabilities are needed */
    double repetition_penalty; /* factor for log-probabilities of tokens that occurred; 1: off */
    const double *numbers;     /* [limit] random numbers from 0 to 1; NULL: no sampling */
    double temperature;
    int64_t top_k;                /* 0: all */
    double top_p;                 /* 1: all */
    const Suppressed *suppressed; /* or NULL */
    const float *not_first; /* [not_first_size], -inf for tokens that must not follow the prefix
                                   * directly, else 0; or NULL */
    int64_t not_first_size;
} Constraints;

/* A token of a hypothesis. */
typedef struct {
    int32_t id;
    int32_t parent; /* index of its hypothesis at the previous step */
    int32_t row;    /* row of its sentence with the scores that it was chosen from */
    float log_prob; /* the model's; 0 if no scores are needed */
} Token;

/* A finished hypothesis. */
typedef struct {
    double merit;       /* score divided by the length penalty */
    float log_prob;     /* sum over the tokens */
    float end_log_prob; /* of the end symbol */
    int32_t index;      /* index of its last token in the step */
    int32_t length;     /* tokens, without the end symbol */
    int32_t complete;   /* whether it has the end symbol */
    int32_t end_row;    /* row with the scores that the end symbol was chosen from */
} Finished;

/* Searches of one width; they are greedy if it is 1. Each search has a slot. A sentence has
 * `branches` consecutive slots: the first one finds the tokens from which the others continue. A
 * hypothesis is a chain of tokens: the last step holds the last tokens of the live ones, best
 * first.
 */
typedef struct {
    int64_t slots, width, branches, capacity; /* B, W, a sentence's slots, T */
    int64_t end_id, panels;                   /* `panels` per row of scores */
    const Constraints *const *constraints;    /* [B], NULL: none */
    int64_t *limits;                          /* [B], maximum tokens */
    double *alphas;                           /* [B], exponents of the length penalty */
    int64_t *lengths;                         /* [B], tokens so far */
    int64_t *live;         /* [B], live hypotheses; 0: the search is over or has not begun */
    float *scores;         /* [B, W], their scores, best first */
    int64_t *rows;         /* [B, W], their rows in the slot */
    Token *tokens;         /* [B, T, W] */
    int64_t *ended;        /* [B], hypotheses finished so far */
    int64_t *kept;         /* [B], how many of them are kept */
    Finished *finished;    /* [B, W], the kept ones, best first */
    float *top_scores;     /* [B x W, 2W], best scores of a step, padded with -inf */
    float *top_log_probs;  /* [B x W, 2W], the model's own, if there are constraints */
    int64_t *top_ids;      /* [B x W, 2W] */
    int64_t *copies;       /* [B x W, 3], copies of a step: source, target, tokens */
    int64_t *done;         /* [B], sentences that a step completed, in ascending order */
    int32_t *history;      /* [T] scratch, tokens of one hypothesis */
    float *history_scores; /* [T] scratch, their scores before the penalty */
    float *of_panels;      /* [2, panels] scratch: sums of weights, largest remaining scores */
} Searches;

/* Result of a search. */
typedef struct {
    int64_t length;   /* tokens */
    int64_t complete; /* whether it has the end symbol */
    double log_prob;
} SearchResult;

/* Tokens of a slot's hypotheses [W] at a step. */
static inline Token *tokens_of(const Searches *searches, int64_t slot, int64_t step)
{
    return searches->tokens + (slot * searches->capacity + step) * searches->width;
}

/* Whether a slot still searches for the first tokens of its sentence's branches. */
static inline int is_before_branches(const Searches *searches, int64_t slot)
{
    const Constraints *const constraints = searches->constraints[slot];
    return constraints && constraints->branches &&
           searches->lengths[slot] <= constraints->prefix_length;
}
