/* The Transformer in 8-bit products.
 *
 * The Python side (library.py) holds the same structures, field by field. Shape letters as in
 * training/dragoman_training/network/transformer.py: B sentences, R rows (hypotheses), S source
 * tokens, C tokens of room in the cache, E model size, H heads, D head size, F feed-forward size, V
 * vocabulary; here N is rows of any kind, and sizes are counted in elements.
 *
 * Every row is computed by itself, in the same order whatever its neighbours are, so that results
 * do not depend on them. Sums are in fp32. Nothing here allocates memory or fails: sizes are checked
 * by the caller. Only the encoder starts threads.
 */
#pragma once

#include <stdint.h>

/* Inside of the feed-forward layers. */
typedef enum { RELU, SILU, GELU } Activation;

enum {
    PANEL = 64, /* outputs whose largest is noted; a product has a multiple of them */
    MOST_BEST = 1024, /* tokens that can be ranked at once */
    MOST_LAYERS = 64,
    MOST_HEAD_SIZE = 256,
    BLOCK = 16, /* tokens whose keys or values lie together */
    SCORED_TOGETHER = 48 /* steps of given translations whose scores are in memory at once */
};

/* Keys and values have codes of 8 bits, with one scale a token and head. A block of a head's keys has
 * codes [D / 4][BLOCK][4], so that it is the weights of 16 scores; one of values has codes
 * [D / 16][BLOCK / 4][16][4], so that its tokens are the inputs of D results. Behind the codes stand
 * the tokens' scales [BLOCK] and the sums of their keys' codes [BLOCK]. */
static inline int64_t block_bytes(int64_t head_size) { return BLOCK * (head_size + 8); }

/* y = x W^T + b with W in codes of 8 bits, one scale an output. */
typedef struct {
    const int8_t *codes;    /* [outputs / 16][inputs / 4][16][4] */
    const int32_t *sums;    /* [outputs], of the codes of each */
    const float *scales;    /* [outputs] */
    const float *biases;    /* [outputs] */
    int64_t inputs;         /* a multiple of 16 */
    int64_t outputs;        /* padded to a multiple of PANEL */
} Product;

typedef struct {
    const float *scales;
    const float *biases;
} Norm;

typedef struct {
    Norm attention_norm, feed_forward_norm;
    Product query_key_value, attention_output, inner, outer;
} EncoderLayer;

typedef struct {
    Norm self_norm, cross_norm, feed_forward_norm;
    Product query_key_value, self_output, cross_query, cross_key_value, cross_output, inner, outer;
} DecoderLayer;

/* A model's sizes, with which its coded weights begin. */
typedef struct {
    int64_t model_size, feed_forward_size, heads, head_size;
    int64_t encoder_layers, decoder_layers; /* MOST_LAYERS each, or fewer */
    int64_t longest;           /* tokens that a sentence may have, on either side */
    int64_t vocab_size;        /* V */
    int64_t src_ids;           /* how many ids a source may be made of */
    int64_t own_src_embedding; /* whether sources have an embedding of their own */
    int64_t norm_first;        /* pre-norm, and a norm after the last layer */
    int64_t activation;        /* an Activation */
} Sizes;

typedef struct {
    Sizes sizes;
    const uint16_t *embedding;     /* fp16 [V, E] */
    const uint16_t *src_embedding; /* fp16 [src_ids, E]; the same one where the sides share it */
    const float *positions;        /* [longest, E] */
    EncoderLayer encoder[MOST_LAYERS];
    DecoderLayer decoder[MOST_LAYERS];
    Norm encoder_norm, decoder_norm;
    Product logits;
} Model;

/* What time is counted for; the last is all of a step. */
enum { PRODUCTS, LOGITS, ATTENTION, NORMS, QUANTISING, CACHE, RANKING, SEARCH, STEP, SECTIONS };

/* Sentences to encode: their tokens follow each other without padding. */
typedef struct {
    int64_t sentences, tokens;
    const int64_t *ids;     /* [tokens] */
    const int64_t *lengths; /* [B] */
    int64_t first, room;    /* where the results of the first one go, and their S */
    uint8_t *const *cross;  /* by layer and kind [first + B or more, H, S, D + 8] */
} Sources;

/* Sentences in flight, and where their keys and values lie. A sentence has a slot, and in it as many
 * rows as its search is wide: R = B x W. Slots are without gaps: when one leaves, the last one takes
 * its place. */
typedef struct {
    int64_t sentences, width;
    int64_t *ids;               /* [R], the token that each row reads; below 0: it is not computed */
    int64_t *positions;         /* [R], and its position */
    int64_t *src_lengths;       /* [B] */
    int64_t src_room, room;     /* S, C */
    uint8_t *const *cross;      /* by layer and kind [B, H, S, D + 8] */
    uint8_t *const *past;       /* by layer and kind [R, H, C, D + 8] */
    int64_t *ticks;             /* [SECTIONS], of the processor's clock, are added to */
    const uint8_t *aligning;    /* [decoder layers, H], 1 for heads whose cross-attention aligns */
    float **alignments;         /* [B], of each the mean of theirs [T, W, S of its own]; NULL: not
                                 * requested. It begins as zeros */
    const uint64_t **shortlists; /* [B], see `multiply_listed`; NULL: all tokens */
} Rows;

/* Given translations, whose tokens follow each other without padding. */
typedef struct {
    int64_t pairs, steps;       /* P, N */
    const int64_t *lengths;     /* [P], steps of each */
    const int64_t *ids;         /* [N], the token that each step reads, first the start token */
    const int64_t *targets;     /* [N], and the one that it is to generate */
    const int64_t *src_lengths; /* [P] */
    int64_t src_room, room;     /* S, C */
    uint8_t *const *cross;      /* by layer and kind [P, H, S, D + 8] */
    uint8_t *keys, *values;     /* [P, H, C, D + 8], used for one layer after the other */
    const uint8_t *aligning;    /* see Rows */
    float **alignments;         /* [P], of each [steps, S of its own]; NULL: not requested */
    float *scores;              /* [SCORED_TOGETHER, V padded, panels] scratch */
    float *log_probs;           /* [N], of the targets */
    int64_t *ticks;
} Pairs;

/* Words that a translation must not contain, whatever tokens spell them. Each character is twice its
 * code point, plus 1 for a letter or a digit. */
typedef struct {
    const int32_t *text;         /* of all tokens, one after the other */
    const int64_t *text_begins;  /* [V + 1] */
    int64_t always;              /* tokens that contain a word, how many */
    const int32_t *always_ids;
    int64_t beginnings;          /* N of words, which some tokens complete */
    const int32_t *beginning_text;
    const int64_t *beginning_begins; /* [N + 1] */
    const int32_t *ids;          /* of tokens that complete them */
    const int64_t *ids_begins;   /* [N + 1] */
} Suppressed;

/* Sequences of tokens that a translation must contain, each as words of their own. */
typedef struct {
    int64_t count;           /* N */
    const int64_t *begins;   /* [N + 1] of each in `ids` */
    const int32_t *ids;
    const int64_t *after;    /* [N], the term that must come before each; -1: none */
    const int64_t *twins;    /* [N], the first term with the same tokens */
    int64_t vocab_size;      /* V */
    const float *continuing; /* [V], -inf for a token that continues a word, else 0 */
    char *memory;            /* of dragoman_terms_bytes, for what hypotheses have of them */
} Terms;

/* What a request's options change in one sentence's search. */
typedef struct {
    int64_t prefix_length;
    const int32_t *prefix;     /* tokens with which a translation begins */
    int64_t fewest;            /* tokens before the end symbol may come */
    int64_t ngram_size;        /* no n-gram of this size occurs twice; 0: they may */
    int64_t enough;            /* the search ends when so many have ended; 0: when no live hypothesis
                                * can become better than those that have */
    int64_t wanted;            /* hypotheses to be returned */
    int64_t branches;          /* searches that go on behind the prefix and one token, each behind
                                * another one; 0: the search stays one */
    int64_t first_branch;      /* rank of the token of the first of them */
    int64_t scored;            /* whether log-probabilities are needed */
    double repetition_penalty; /* multiplies log-probabilities of tokens that occurred; 1: none */
    const double *numbers;     /* [limit] random, from 0 to 1; NULL: the search does not sample */
    double temperature;
    int64_t top_k;             /* 0: all */
    double top_p;              /* 1: all */
    const Suppressed *suppressed; /* or NULL */
    const Terms *terms;           /* or NULL */
} Constraints;

/* A token of a hypothesis. */
typedef struct {
    int32_t id;
    int32_t parent; /* place of the hypothesis that it continues, of the step before */
    int32_t row;    /* row of its sentence from whose scores it was chosen */
    float log_prob; /* the model's; 0 where no scores are needed */
} Token;

/* A hypothesis that has ended. */
typedef struct {
    double merit;       /* its score over its length penalty */
    float log_prob;     /* sum over its tokens */
    float end_log_prob; /* of the end symbol */
    int32_t place;      /* of its last token */
    int32_t length;     /* tokens, without the end symbol */
    int32_t complete;   /* whether it has the end symbol */
    int32_t end_row;    /* row from whose scores the end symbol was chosen */
} Finished;

/* Searches of one width, greedy ones where it is 1. Each has a slot, and a sentence has `branches` slots,
 * which follow each other: the first one searches until its tokens are known from which the others go
 * on. Each hypothesis is kept as a chain of tokens: the live ones have their last tokens at places 0
 * and on of the last step, best first. */
typedef struct {
    int64_t slots, width, branches, capacity; /* B, W, a sentence's slots, T */
    int64_t end_id, panels;         /* `panels` of a row of scores */
    const Constraints *const *constraints; /* [B], NULL: none */
    int64_t *limits;    /* [B], most tokens */
    double *alphas;     /* [B], exponents of the length penalty */
    int64_t *lengths;   /* [B], tokens so far */
    int64_t *live;      /* [B], hypotheses that go on; 0: the search is over or has not begun */
    float *scores;      /* [B, W] of them, best first */
    int64_t *rows;      /* [B, W], the row in its slot that each of them has */
    Token *tokens;      /* [B, T, W] */
    int64_t *ended;     /* [B], how many have ended so far */
    int64_t *kept;      /* [B], how many of them are kept */
    Finished *finished; /* [B, W], the best of them, best first */
    float *top_scores;  /* [B x W, 2W], of a step; fewer end with -inf */
    float *top_log_probs; /* [B x W, 2W], the model's own, where there are constraints */
    int64_t *top_ids;   /* [B x W, 2W] */
    int64_t *copies;    /* [B x W, 3], of a step: source, target, tokens of each */
    int64_t *done;      /* [B], sentences that were done with a step, in rising order */
    int32_t *history;   /* [T] scratch, tokens of one hypothesis */
    float *history_scores; /* [T] scratch, what they have before a penalty */
    float *weights;     /* [panels x PANEL + 2 panels] scratch */
} Searches;

/* What a search has found. */
typedef struct {
    int64_t length;   /* tokens */
    int64_t complete; /* ended by itself */
    double log_prob;
} Found;

/* N rows of activations as codes: their values are (code - zero) times their row's scale. An
 * instruction set has them in its own form, with a number that each sum of a row starts with. */
typedef struct {
    uint8_t *codes;
    float *scales;   /* [N] */
    int32_t *starts; /* [N] */
    int32_t zero;
} Codes;

/* What becomes of a product's results [N, outputs]: they are stored, stored if positive, added to
 * what lies there, or stored with the largest of each panel behind the row's last. */
typedef enum { STORE, RECTIFY, ADD, RANK } Finish;

/* products.c */
void multiply(const Product *product, Codes codes, int64_t rows, Finish finish, float *results);

/* As with RANK, of a few outputs of each row. `shortlists` [N] have a bit for each 16 outputs, from
 * the lowest of the first word on, that is 1 if they are computed; NULL: all are. Others are -inf. */
void multiply_listed(const Product *product, Codes codes, int64_t rows,
                     const uint64_t *const *shortlists, float *results);

/* rows.c */
void embed(const Model *model, const uint16_t *embedding, int64_t position, float *x);
void activate(Activation activation, float *x, int64_t size);
void normalise(const float *x, Norm norm, int64_t size, float *y);
void quantise(const float *x, int64_t rows, int64_t size, Codes *codes);
void quantise_rectified(const float *x, int64_t rows, int64_t size, Codes *codes);

/* attention.c: one scaled query [D] over the keys and values of `length` tokens, in fp32, `stride`
 * apart; `weights` [2 (length + BLOCK)] is scratch. */
void attend(const float *query, const float *keys, const float *values, int64_t stride,
            int64_t length, int64_t head_size, float *weights, float *result);

/* Where a head's attention is added, times a share; NULL: nowhere. */
typedef struct {
    float *sums; /* [length] */
    float share;
} Attended;

/* The same over keys and values of one head in codes; `next` are those that will be read next. */
void attend_codes(const float *query, const uint8_t *keys, const uint8_t *values,
                  const uint8_t *next, int64_t length, int64_t head_size, float *weights,
                  float *result, Attended attended);
void store_key(const float *key, int64_t head_size, uint8_t *keys, int64_t position);
void store_value(const float *value, int64_t head_size, uint8_t *values, int64_t position);

/* model.c */
int64_t dragoman_model_bytes(void);
int64_t dragoman_find_weights(const void *block, Model *model);

/* transformer.c */
int64_t heads_bytes(const Model *model, int64_t room);
int64_t dragoman_scratch_bytes(const Model *model, int64_t rows);
void dragoman_encode(const Model *model, const Sources *sources, char *memory, int64_t most_threads);
void dragoman_step(const Model *model, const Rows *rows, char *memory, float *scores);
void dragoman_score(const Model *model, const Pairs *pairs, char *memory);
int64_t dragoman_clock(void);
void dragoman_agreement(int64_t *numbers);

/* best.c: a value of a list, and where it stands. */
typedef struct {
    float value;
    int64_t index;
} Ranked;

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

/* constraints.c: a row of scores [panels x PANEL], with the largest of each panel behind them. */
void forbid(float *scores, int64_t panels, int64_t id);
int64_t read_history(const Searches *searches, int64_t slot, int64_t place);
float log_sum_of_row(const Searches *searches, const float *scores);
void constrain(const Searches *searches, int64_t slot, int64_t length, float *scores, float log_sum);
float model_score(const Searches *searches, int64_t slot, int64_t length, Ranked token);
void rank_constrained(const Searches *searches, int64_t slot, float *scores);

/* sampling.c */
int64_t sample(const Searches *searches, const Constraints *constraints, double number,
               const float *scores);

/* terms.c: a continuation of a live hypothesis. */
typedef struct {
    float score, log_prob;
    float forced;        /* sum over tokens without a choice, which `score` leaves out */
    int32_t parent, id;  /* `parent` is a place among the live ones */
    int32_t order;       /* of those with equal scores */
    int32_t term, position; /* the term that it is within, -1: none, and the tokens it has of it */
    int32_t completes;   /* a term, or -1 */
    int32_t just_met;    /* whether its last token completed a term */
    int32_t bank, turn;  /* how many terms it has begun, and its index among those with as many */
} Candidate;

int64_t dragoman_terms_bytes(int64_t width, int64_t terms);
Candidate *find_term_candidates(const Searches *searches, int64_t slot, float *scores, int64_t *count);
int64_t choose_term_candidates(const Searches *searches, int64_t slot, Candidate *list, int64_t count);
void follow_terms(const Searches *searches, int64_t slot, const Candidate *chosen, int64_t count);
int64_t terms_met(const Searches *searches, int64_t slot, int64_t place);
float forced_score(const Searches *searches, int64_t slot, int64_t place);

/* searches.c */
/* What the rows of a step read next, and the copies between them. */
typedef struct {
    int64_t *ids;  /* [R] */
    int64_t *copy; /* where the next one goes */
} Next;

static inline void add_copy(Next *next, int64_t source, int64_t target, int64_t tokens)
{
    *next->copy++ = source;
    *next->copy++ = target;
    *next->copy++ = tokens;
}

/* The tokens of a slot's hypotheses [W] at a step. */
static inline Token *tokens_of(const Searches *searches, int64_t slot, int64_t step)
{
    return searches->tokens + (slot * searches->capacity + step) * searches->width;
}

int advance_search(const Searches *searches, int64_t slot, float *scores, Next *next);
void dragoman_rank_plain(const Searches *searches, const float *scores);
void dragoman_leave_search(Searches *searches, int64_t sentence);
void dragoman_result(const Searches *searches, int64_t slot, int64_t rank, int32_t *ids,
                     float *log_probs, int32_t *rows, Found *found);

/* branches.c */
int is_before_branches(const Searches *searches, int64_t slot);
int64_t dragoman_advance(const Searches *searches, float *scores, int64_t *next_ids, int64_t *copied);

/* decoding.c */
int64_t dragoman_decode(const Model *model, const Rows *rows, const Searches *searches, char *memory,
                        float *scores);
void dragoman_leave(const Model *model, Rows *rows, Searches *searches, int64_t slot);
int64_t dragoman_longest(const Rows *rows);
