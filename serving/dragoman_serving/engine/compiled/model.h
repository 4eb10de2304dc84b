/* A Transformer's sizes and weights.
 *
 * library.py has the same structures as this header and the others. Shape letters as in
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
    MOST_LAYERS = 64,
    MOST_HEAD_SIZE = 256
};

/* y = x W^T + b with W in 8-bit codes, one scale per output. */
typedef struct {
    const int8_t *codes; /* [outputs / 16][inputs / 4][16][4] */
    const int32_t *sums; /* [outputs], sum of each output's codes */
    const float *scales; /* [outputs] */
    const float *biases; /* [outputs] */
    int64_t inputs;      /* a multiple of 16 */
    int64_t outputs;     /* padded to a multiple of PANEL */
} Product;

typedef struct {
    const float *scales;
    const float *biases;
    float epsilon; /* added to the variance */
} Norm;

typedef struct {
    Norm attention_norm, feed_forward_norm;
    Product query_key_value, attention_output, inner, outer;
} EncoderLayer;

/* Either with self-attention, or with an SSRU instead: c = f c + (1 - f) W x, with a gate f that
 * forgets, and the cell c [E] as its state. The other kind's products are not set. `self_norm` is of
 * either kind. */
typedef struct {
    Norm self_norm, cross_norm, feed_forward_norm;
    Product query_key_value, self_output;
    Product forget_candidate; /* gate before its sigmoid, and W x */
    Product cross_query, cross_key_value, cross_output, inner, outer;
} DecoderLayer;

/* A model's sizes. Its coded weights begin with them. */
typedef struct {
    int64_t model_size, feed_forward_size, heads, head_size;
    int64_t encoder_layers, decoder_layers; /* at most MOST_LAYERS each */
    int64_t longest;                        /* maximum tokens of a source or target sentence */
    int64_t vocab_size;                     /* V */
    int64_t src_ids;                        /* number of ids that a source may contain */
    int64_t own_src_embedding;              /* whether sources have a separate embedding */
    int64_t embedding_in_codes;             /* whether the embedding is the codes of the logits */
    int64_t norm_first;                     /* pre-norm, with a norm after the last layer */
    int64_t activation;                     /* an Activation */
    int64_t has_ssru;                       /* in place of the decoder's self-attention */
    int64_t inclusive_rates;                /* of the position encodings, see positions.py */
    double norm_epsilon;
} Sizes;

typedef struct {
    Sizes sizes;
    const uint16_t *embedding;     /* fp16 [V, E]; NULL: the codes of `logits` */
    const uint16_t *src_embedding; /* fp16 [src_ids, E]; `embedding` if the sides share it */
    const float *positions;        /* [longest, E] */
    EncoderLayer encoder[MOST_LAYERS];
    DecoderLayer decoder[MOST_LAYERS];
    Norm encoder_norm, decoder_norm;
    Product logits;
} Model;

int64_t dragoman_model_bytes(void);
int64_t dragoman_find_weights(const void *block, Model *model);
