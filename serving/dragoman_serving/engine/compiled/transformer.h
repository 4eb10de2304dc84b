/* The encoder, and steps of the decoder. */
#pragma once

#include "helpers.h"
#include "model.h"

enum {
    ENCODED_TOGETHER = 128, /* tokens of an encoder run, unless a sentence has more */
    SCORED_TOGETHER = 48    /* steps of given translations with their scores in memory at once */
};

/* Sentences to encode. Their tokens are concatenated without padding. */
typedef struct {
    int64_t sentences, tokens;
    const int64_t *ids;     /* [tokens] */
    const int64_t *lengths; /* [B] */
    int64_t first, room;    /* index of the first one's results, and S of the results */
    uint8_t *const *cross;  /* per layer and kind [first + B or more, H, S, D + 8] */
} Sources;

/* Sentences in flight, and their keys and values. A sentence has a slot with one row per hypothesis
 * of its search: R = B x W. Slots have no gaps: when a sentence leaves, the last one moves into its
 * slot. */
typedef struct {
    int64_t sentences, width;
    int64_t *ids;                /* [R], the token that each row reads; below 0: row not computed */
    int64_t *positions;          /* [R], the position of that token */
    int64_t *src_lengths;        /* [B] */
    int64_t src_room, room;      /* S, C */
    uint8_t *const *cross;       /* per layer and kind [B, H, S, D + 8] */
    uint8_t *const *past;        /* per layer and kind [R, H, C, D + 8]; NULL with an SSRU */
    float *const *cells;         /* per layer [R, E] of an SSRU; else NULL */
    int64_t *ticks;              /* [SECTIONS], counters to add ticks of the processor's clock to */
    const uint8_t *aligning;     /* [decoder layers, H], 1 for alignment heads */
    float **alignments;          /* [B], each the mean of these heads [T, W, its own S], filled with
                                 * zeros at first; NULL: not requested */
    const uint64_t **shortlists; /* [B], see best.h; NULL: all tokens */
    int64_t steps;               /* how many the last call of `dragoman_decode` took */
} Rows;

/* Given translations. Their tokens are concatenated without padding. */
typedef struct {
    int64_t pairs, steps;       /* P, N */
    const int64_t *lengths;     /* [P], steps of each */
    const int64_t *ids;         /* [N], the token that each step reads, first the start token */
    const int64_t *targets;     /* [N], the token that each step should generate */
    const int64_t *src_lengths; /* [P] */
    int64_t src_room, room;     /* S, C */
    uint8_t *const *cross;      /* per layer and kind [P, H, S, D + 8] */
    uint8_t *keys, *values;     /* [P, H, C, D + 8], reused by each layer; NULL with an SSRU */
    float *cells;               /* [P, E] of an SSRU, reused by each layer; else NULL */
    const uint8_t *aligning;    /* see Rows */
    float **alignments;         /* [P], each [steps, its own S]; NULL: not requested */
    float *scores;              /* [SCORED_TOGETHER, V padded, panels] scratch */
    float *log_probs;           /* [N], of the targets */
    int64_t *ticks;
} Pairs;

int64_t heads_bytes(const Model *model, int64_t room);
int64_t dragoman_scratch_bytes(const Model *model, int64_t rows);
void dragoman_encode(const Model *model, const Sources *sources, char *memory, Helpers *helpers);
void dragoman_step(const Model *model, const Rows *rows, char *memory, float *scores,
                   Helpers *helpers);
void dragoman_score(const Model *model, const Pairs *pairs, char *memory);
