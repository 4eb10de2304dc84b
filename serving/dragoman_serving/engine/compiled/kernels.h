/* The Transformer with 8-bit matrix products.
 *
 * The Python side (library.py) has the same structures, field by field. Shape letters as in
 * training/dragoman_training/network/transformer.py: B sentences, R rows (hypotheses), S source
 * tokens, C capacity of the cache in tokens, E model size, H heads, D head size, F feed-forward
 * size, V vocabulary. Here N is rows of any kind. Sizes are in elements.
 *
 * Each row is computed by itself and in a fixed order, so its results do not depend on other rows.
 * Sums are in fp32. Nothing here allocates memory or fails: the caller checks the sizes.
 */
#pragma once

#include <stdint.h>

/* Activation function of the feed-forward layers. */
typedef enum { RELU, SILU, GELU } Activation;

enum {
    PANEL = 64, /* outputs whose largest value is stored; products have a multiple of them */
    MOST_BEST = 1024, /* tokens that can be ranked at once */
    MOST_LAYERS = 64,
    MOST_HEAD_SIZE = 256,
    BLOCK = 16, /* tokens whose keys or values are stored together */
    SCORED_TOGETHER = 48 /* steps of given translations with their scores in memory at once */
};

/* Keys and values have 8-bit codes, with one scale per token and head. A block of a head's keys has
 * codes [D / 4][BLOCK][4]: they are the weights of 16 scores. A block of values has codes
 * [D / 16][BLOCK / 4][16][4]: its tokens are the inputs of D results. After the codes come the
 * tokens' scales [BLOCK] and the sums of their keys' codes [BLOCK]. */
static inline int64_t block_bytes(int64_t head_size) { return BLOCK * (head_size + 8); }

/* y = x W^T + b with W in 8-bit codes, one scale per output. */
typedef struct {
    const int8_t *codes;    /* [outputs / 16][inputs / 4][16][4] */
    const int32_t *sums;    /* [outputs], sum of each output's codes */
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

/* A model's sizes. Its coded weights begin with them. */
typedef struct {
    int64_t model_size, feed_forward_size, heads, head_size;
    int64_t encoder_layers, decoder_layers; /* at most MOST_LAYERS each */
    int64_t longest;           /* maximum tokens of a source or target sentence */
    int64_t vocab_size;        /* V */
    int64_t src_ids;           /* number of ids that a source may contain */
    int64_t own_src_embedding; /* whether sources have a separate embedding */
    int64_t norm_first;        /* pre-norm, with a norm after the last layer */
    int64_t activation;        /* an Activation */
} Sizes;

typedef struct {
    Sizes sizes;
    const uint16_t *embedding;     /* fp16 [V, E] */
    const uint16_t *src_embedding; /* fp16 [src_ids, E]; `embedding` if the sides share it */
    const float *positions;        /* [longest, E] */
    EncoderLayer encoder[MOST_LAYERS];
    DecoderLayer decoder[MOST_LAYERS];
    Norm encoder_norm, decoder_norm;
    Product logits;
} Model;

/* Sections whose time is measured; STEP is a whole step. */
enum { PRODUCTS, LOGITS, ATTENTION, NORMS, QUANTISING, CACHE, RANKING, SEARCH, STEP, SECTIONS };

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
    int64_t *ids;               /* [R], the token that each row reads; below 0: row not computed */
    int64_t *positions;         /* [R], the position of that token */
    int64_t *src_lengths;       /* [B] */
    int64_t src_room, room;     /* S, C */
    uint8_t *const *cross;      /* per layer and kind [B, H, S, D + 8] */
    uint8_t *const *past;       /* per layer and kind [R, H, C, D + 8] */
    int64_t *ticks;             /* [SECTIONS], counters to add ticks of the processor's clock to */
    const uint8_t *aligning;    /* [decoder layers, H], 1 for alignment heads */
    float **alignments;         /* [B], each the mean of these heads [T, W, its own S], filled with
                                 * zeros at first; NULL: not requested */
    const uint64_t **shortlists; /* [B], see `multiply_listed`; NULL: all tokens */
    int64_t steps;              /* how many the last call of `dragoman_decode` took */
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
    uint8_t *keys, *values;     /* [P, H, C, D + 8], reused by each layer */
    const uint8_t *aligning;    /* see Rows */
    float **alignments;         /* [P], each [steps, its own S]; NULL: not requested */
    float *scores;              /* [SCORED_TOGETHER, V padded, panels] scratch */
    float *log_probs;           /* [N], of the targets */
    int64_t *ticks;
} Pairs;

/* Words that a translation must not contain, in any tokenization. A character is stored as twice
 * its code point, plus 1 for a letter or a digit. */
typedef struct {
    const int32_t *text;         /* text of all tokens, concatenated */
    const int64_t *text_begins;  /* [V + 1] */
    int64_t always;              /* number of tokens that contain a word */
    const int32_t *always_ids;
    int64_t beginnings;          /* N, beginnings of words that some tokens complete */
    const int32_t *beginning_text;
    const int64_t *beginning_begins; /* [N + 1] */
    const int32_t *ids;          /* tokens that complete them */
    const int64_t *ids_begins;   /* [N + 1] */
} Suppressed;

/* Token sequences that a translation must contain, each as whole words. */
typedef struct {
    int64_t count;           /* N */
    const int64_t *begins;   /* [N + 1], offset of each term in `ids` */
    const int32_t *ids;
    const int64_t *after;    /* [N], the term that must come before this one; -1: none */
    const int64_t *twins;    /* [N], the first term with the same tokens */
    int64_t vocab_size;      /* V */
    const float *continuing; /* [V], -inf for tokens that continue a word, else 0 */
    char *memory;            /* dragoman_terms_bytes, the hypotheses' progress with the terms */
} Terms;

/* Constraints that a request's options put on one sentence's search. */
typedef struct {
    int64_t prefix_length;
    const int32_t *prefix;     /* forced first tokens of the translation */
    int64_t fewest;            /* minimum tokens before the end symbol */
    int64_t ngram_size;        /* no n-gram of this size may repeat; 0: off */
    int64_t enough;            /* the search ends when this many hypotheses are finished; 0: when no
                                * live hypothesis can become better than the finished ones */
    int64_t wanted;            /* hypotheses to return */
    int64_t branches;          /* searches that continue after the prefix and one more token, which
                                * differs between them; 0: the search does not branch */
    int64_t first_branch;      /* rank of the first branch's token */
    int64_t scored;            /* whether log-probabilities are needed */
    double repetition_penalty; /* factor for log-probabilities of tokens that occurred; 1: off */
    const double *numbers;     /* [limit] random numbers from 0 to 1; NULL: no sampling */
    double temperature;
    int64_t top_k;             /* 0: all */
    double top_p;              /* 1: all */
    const Suppressed *suppressed; /* or NULL */
    const Terms *terms;           /* or NULL */
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
    int32_t place;      /* index of its last token in the step */
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
    int64_t end_id, panels;         /* `panels` per row of scores */
    const Constraints *const *constraints; /* [B], NULL: none */
    int64_t *limits;    /* [B], maximum tokens */
    double *alphas;     /* [B], exponents of the length penalty */
    int64_t *lengths;   /* [B], tokens so far */
    int64_t *live;      /* [B], live hypotheses; 0: the search is over or has not begun */
    float *scores;      /* [B, W], their scores, best first */
    int64_t *rows;      /* [B, W], their rows in the slot */
    Token *tokens;      /* [B, T, W] */
    int64_t *ended;     /* [B], hypotheses finished so far */
    int64_t *kept;      /* [B], how many of them are kept */
    Finished *finished; /* [B, W], the kept ones, best first */
    float *top_scores;  /* [B x W, 2W], best scores of a step, padded with -inf */
    float *top_log_probs; /* [B x W, 2W], the model's own, if there are constraints */
    int64_t *top_ids;   /* [B x W, 2W] */
    int64_t *copies;    /* [B x W, 3], copies of a step: source, target, tokens */
    int64_t *done;      /* [B], sentences that a step completed, in ascending order */
    int32_t *history;   /* [T] scratch, tokens of one hypothesis */
    float *history_scores; /* [T] scratch, their scores before the penalty */
    float *of_panels;   /* [2, panels] scratch: sums of weights, largest remaining scores */
} Searches;

/* Result of a search. */
typedef struct {
    int64_t length;   /* tokens */
    int64_t complete; /* whether it has the end symbol */
    double log_prob;
} Found;

/* N rows of activations as codes: a value is (code - zero) times the scale of its row. Each
 * instruction set has its own form of codes, and `starts` are the initial values of a row's
 * sums. */
typedef struct {
    uint8_t *codes;
    float *scales;   /* [N] */
    int32_t *starts; /* [N] */
    int32_t zero;
} Codes;

/* What happens to a product's results [N, outputs]: they are stored, stored after ReLU, added to
 * the values in memory, or stored with the largest of each panel after the end of the row. */
typedef enum { STORE, RECTIFY, ADD, RANK } Finish;

/* helpers.c */
typedef struct Helpers Helpers;
int64_t dragoman_helpers_bytes(void);
void dragoman_start_helpers(Helpers *helpers, int64_t count);
Helpers *take_helpers(Helpers *helpers);
void return_helpers(Helpers *helpers);
void share(Helpers *helpers, int64_t parts, void (*work)(const void *, int64_t), const void *argument);

/* products.c; `helpers` may be NULL */
void multiply(Helpers *helpers, const Product *product, Codes codes, int64_t rows, Finish finish,
              float *results);

/* Like RANK, for some outputs of each row. `shortlists` [N] have one bit per 16 outputs, from the
 * lowest bit of the first word; 1 means computed, and a NULL shortlist means all. Other outputs are
 * -inf. */
void multiply_listed(const Product *product, Codes codes, int64_t rows,
                     const uint64_t *const *shortlists, float *results);

/* rows.c */
void embed(const Model *model, const uint16_t *embedding, int64_t position, float *x);
void activate(Activation activation, float *x, int64_t size);
void normalise(const float *x, Norm norm, int64_t size, float *y);
void quantise(const float *x, int64_t rows, int64_t size, Codes *codes);
void quantise_rectified(const float *x, int64_t rows, int64_t size, Codes *codes);

/* attention.c: attention of one scaled query [D] over the keys and values of `length` tokens in
 * fp32, with `stride` between tokens; `weights` [2 (length + BLOCK)] is scratch. */
void attend(const float *query, const float *keys, const float *values, int64_t stride,
            int64_t length, int64_t head_size, float *weights, float *result);

/* Where to add a head's attention weights, multiplied by `share`; NULL: nowhere. */
typedef struct {
    float *sums; /* [length] */
    float share;
} Attended;

/* The same over the coded keys and values of one head. Those that will be read next are `ahead` bytes
 * after them. */
void attend_codes(const float *query, const uint8_t *keys, const uint8_t *values,
                  int64_t ahead, int64_t length, int64_t head_size, float *weights, float *result,
                  Attended attended);
void store_key(const float *key, int64_t head_size, uint8_t *keys, int64_t position);
void store_value(const float *value, int64_t head_size, uint8_t *values, int64_t position);

/* model.c */
int64_t dragoman_model_bytes(void);
int64_t dragoman_find_weights(const void *block, Model *model);

/* transformer.c */
int64_t heads_bytes(const Model *model, int64_t room);
int64_t dragoman_scratch_bytes(const Model *model, int64_t rows);
void dragoman_encode(const Model *model, const Sources *sources, char *memory, Helpers *helpers);
void dragoman_step(const Model *model, const Rows *rows, char *memory, float *scores,
                   Helpers *helpers);
void dragoman_score(const Model *model, const Pairs *pairs, char *memory);
int64_t dragoman_clock(void);
void dragoman_agreement(int64_t *numbers);

/* best.c: a value and its index in a list. */
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

/* constraints.c: a row of scores [panels x PANEL], followed by the largest of each panel. */
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
    float forced;        /* sum over forced tokens, which `score` does not contain */
    int32_t parent, id;  /* `parent` is an index of the live hypotheses */
    int32_t order;       /* order among equal scores */
    int32_t term, position; /* the term that it is inside of (-1: none), and how many of its tokens
                             * it has */
    int32_t completes;   /* a term, or -1 */
    int32_t just_met;    /* whether its last token completes a term */
    int32_t bank, turn;  /* how many terms it has begun, and its index among those with as many */
} Candidate;

int64_t dragoman_terms_bytes(int64_t width, int64_t terms);
Candidate *find_term_candidates(const Searches *searches, int64_t slot, float *scores, int64_t *count);
int64_t choose_term_candidates(const Searches *searches, int64_t slot, Candidate *list, int64_t count);
void follow_terms(const Searches *searches, int64_t slot, const Candidate *chosen, int64_t count);
int64_t terms_met(const Searches *searches, int64_t slot, int64_t place);
float forced_score(const Searches *searches, int64_t slot, int64_t place);

/* searches.c */
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

/* Tokens of a slot's hypotheses [W] at a step. */
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
int64_t dragoman_decode(const Model *model, Rows *rows, const Searches *searches, char *memory,
                        float *scores, Helpers *helpers, const int64_t *waiting, int64_t most);
void dragoman_leave(const Model *model, Rows *rows, Searches *searches, int64_t slot);
int64_t dragoman_longest(const Rows *rows);
