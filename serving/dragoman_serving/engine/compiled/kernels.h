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
    BLOCK = 16 /* tokens whose keys or values lie together */
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
    int64_t *ids;               /* [R], what each row says next */
    int64_t *positions;         /* [R], and where */
    int64_t *src_lengths;       /* [B] */
    int64_t src_room, room;     /* S, C */
    uint8_t *const *cross;      /* by layer and kind [B, H, S, D + 8] */
    uint8_t *const *past;       /* by layer and kind [R, H, C, D + 8] */
    int64_t *ticks;             /* [SECTIONS], of the processor's clock, are added to */
} Rows;

/* Searches of one width, greedy ones where it is 1. What each has said is kept, at every step, as the
 * tokens of its live hypotheses and the places that these had before, which lead back. */
typedef struct {
    int64_t slots, width, room; /* B, W, T */
    int64_t end_id;
    int64_t *guided;  /* [B], 1 where a search is made elsewhere, and nothing here is its own */
    int64_t *limits;  /* [B], most tokens */
    double *alphas;   /* [B], exponents of the length penalty */
    int64_t *lengths; /* [B], tokens said */
    float *scores;    /* [B, W] of the live hypotheses, best first */
    int64_t *rows;    /* [B, W], the row in its slot that each of them has */
    int32_t *said;    /* [B, T, W] */
    int32_t *parents; /* [B, T, W], the place that each had before */
    int64_t *finished;         /* [B], how many */
    float *finished_log_probs; /* [B, 2W] */
    int32_t *finished_places;  /* [B, 2W], where what they have said ends */
    int32_t *finished_lengths; /* [B, 2W], tokens said */
    float *top_scores;         /* [B x W, 2W], of a step */
    int64_t *top_ids;          /* [B x W, 2W] */
    int64_t *copies;           /* [B x W, 3], of a step: source, target, tokens of each */
    int64_t *done;             /* [B], slots that were done with a step, in rising order */
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

/* The same over keys and values of one head in codes; `next` are those that will be read next. */
void attend_codes(const float *query, const uint8_t *keys, const uint8_t *values,
                  const uint8_t *next, int64_t length, int64_t head_size, float *weights,
                  float *result);
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
int64_t dragoman_clock(void);
void dragoman_agreement(int64_t *numbers);

/* best.c */
void dragoman_likeliest(const float *scores, int64_t rows, int64_t panels, int64_t *ids);
void dragoman_best(const float *scores, int64_t rows, int64_t panels, int64_t count,
                   float *log_probs, int64_t *ids);
void dragoman_log_softmax(const float *scores, int64_t rows, int64_t stride, int64_t length,
                          float *log_probs);
int64_t dragoman_rank(const float *scores, int64_t length, int64_t count, int64_t *places);

/* searches.c */
int64_t dragoman_choose(const Searches *searches, const int64_t *tokens);
int64_t dragoman_advance(const Searches *searches, const float *top_scores, const int64_t *top_ids,
                         int64_t top, int64_t *tokens, int64_t *copied);
void dragoman_leave_search(Searches *searches, int64_t slot);
void dragoman_result(const Searches *searches, int64_t slot, int64_t rank, int32_t *ids,
                     Found *found);

/* decoding.c */
void dragoman_copy_rows(const Model *model, const Rows *rows, const int64_t *copies, int64_t count);
int64_t dragoman_decode(const Model *model, const Rows *rows, const Searches *searches, char *memory,
                        float *scores);
void dragoman_leave(const Model *model, Rows *rows, Searches *searches, int64_t slot);
int64_t dragoman_longest(const Rows *rows);
