/* The encoder, and one step of the decoder. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "clock.h"
#include "kernels.h"
#include "vec.h"

enum {
    MOST_THREADS = 8,
    FEWEST_PRODUCTS = 100000000, /* minimum per thread, since starting one takes about 200 us */
    MOST_TURNS = 10000 /* how often a thread polls for the others before it yields */
};

/* A row that is computed. */
typedef struct {
    int64_t sentence, row, position;
    float *alignment; /* [S], mean of the alignment heads; NULL: not requested */
} Live;

/* Scratch for a number of rows. */
typedef struct {
    float *x;       /* [N, E], the residual stream */
    float *y;       /* [N, E] */
    float *wide;    /* [N, max(3E, F)] */
    float *weights; /* [MOST_THREADS, 2 (longest + BLOCK)] */
    Codes codes;    /* [N, max(E, F)] */
    Live *live;     /* [N] */
    const uint64_t **shortlists; /* [N] */
    int64_t *ticks; /* [SECTIONS] */
} Scratch;

#define TIMED(section, call) COUNTED(scratch->ticks, section, call)

static int64_t larger(int64_t one, int64_t other) { return one > other ? one : other; }

static int64_t count_rows(const Rows *rows) { return rows->sentences * rows->width; }

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Lay out scratch, or only count its bytes if there is no memory yet. */
static int64_t lay_out(const Model *model, int64_t rows, char *memory, Scratch *scratch)
{
    const int64_t e = model->sizes.model_size, f = model->sizes.feed_forward_size;
    int64_t used = 0;
#define PLACE(pointer, bytes) (pointer) = (void *)(memory + used), used += round_up(bytes)
    PLACE(scratch->x, 4 * rows * e);
    PLACE(scratch->y, 4 * rows * e);
    PLACE(scratch->wide, 4 * rows * larger(3 * e, f));
    PLACE(scratch->weights, 8 * MOST_THREADS * (model->sizes.longest + BLOCK));
    PLACE(scratch->codes.codes, rows * larger(e, f) * CODE_BYTES);
    PLACE(scratch->codes.scales, 4 * rows);
    PLACE(scratch->codes.starts, 4 * rows);
    PLACE(scratch->live, (int64_t)sizeof(Live) * rows);
    PLACE(scratch->shortlists, (int64_t)sizeof *scratch->shortlists * rows);
#undef PLACE
    return used;
}

/* Bytes of scratch that `rows` rows need. */
int64_t dragoman_scratch_bytes(const Model *model, int64_t rows)
{
    Scratch scratch;
    return lay_out(model, rows, 0, &scratch);
}

static void normalise_rows(const float *x, Norm norm, int64_t rows, int64_t size, float *y)
{
    for (int64_t row = 0; row < rows; row++)
        normalise(x + row * size, norm, size, y + row * size);
}

/* Quantise the residual stream as the input of a sub-layer's first product. */
static void begin_sublayer(const Model *model, Norm norm, int64_t rows, Scratch *scratch)
{
    const float *x = scratch->x;
    if (model->sizes.norm_first) {
        TIMED(NORMS, normalise_rows(x, norm, rows, model->sizes.model_size, scratch->y));
        x = scratch->y;
    }
    TIMED(QUANTISING, quantise(x, rows, model->sizes.model_size, &scratch->codes));
}

/* Add a sub-layer's last product to the residual stream; its input is quantised already. */
static void end_sublayer(const Model *model, Norm norm, const Product *product, int64_t rows,
                         Scratch *scratch)
{
    TIMED(PRODUCTS, multiply(product, scratch->codes, rows, ADD, scratch->x));
    if (!model->sizes.norm_first)
        TIMED(NORMS, normalise_rows(scratch->x, norm, rows, model->sizes.model_size, scratch->x));
}

static void feed_forward(const Model *model, Norm norm, const Product *inner,
                         const Product *outer, int64_t rows, Scratch *scratch)
{
    const int64_t f = model->sizes.feed_forward_size;
    begin_sublayer(model, norm, rows, scratch);
    if (model->sizes.activation == RELU) {
        TIMED(PRODUCTS, multiply(inner, scratch->codes, rows, RECTIFY, scratch->wide));
        TIMED(QUANTISING, quantise_rectified(scratch->wide, rows, f, &scratch->codes));
    } else {
        TIMED(PRODUCTS, multiply(inner, scratch->codes, rows, STORE, scratch->wide);
              activate((Activation)model->sizes.activation, scratch->wide, rows * f));
        TIMED(QUANTISING, quantise(scratch->wide, rows, f, &scratch->codes));
    }
    end_sublayer(model, norm, outer, rows, scratch);
}

static void final_norm(const Model *model, Norm norm, int64_t rows, Scratch *scratch)
{
    if (model->sizes.norm_first)
        TIMED(NORMS, normalise_rows(scratch->x, norm, rows, model->sizes.model_size, scratch->x));
    TIMED(QUANTISING, quantise(scratch->x, rows, model->sizes.model_size, &scratch->codes));
}

/* Bytes of a row's keys or values with a capacity of `room` tokens. */
int64_t heads_bytes(const Model *model, int64_t room)
{
    return model->sizes.heads * (room / BLOCK) * block_bytes(model->sizes.head_size);
}

/* Store a token's key and value, each [H, D], in the keys and values of a row or a source. */
static void store_heads(const Model *model, const float *key, const float *value, uint8_t *keys,
                        uint8_t *values, int64_t room, int64_t position)
{
    const int64_t d = model->sizes.head_size, size = room / BLOCK * block_bytes(d);
    for (int64_t head = 0; head < model->sizes.heads; head++) {
        store_key(key + head * d, d, keys + head * size, position);
        store_value(value + head * d, d, values + head * size, position);
    }
}

/* Encoding of the same sentences by several threads, each with a part of the tokens. */
typedef struct {
    const Model *model;
    const Sources *sources;
    Scratch scratch;    /* for all tokens */
    atomic_int threads; /* 0 until all are started */
    atomic_int arrived;
} Encoding;

typedef struct {
    Encoding *encoding;
    int64_t index;
} Part;

/* Barrier: wait for every thread. Yields only if one takes long. */
static void wait_for_all(Encoding *encoding)
{
    const int threads = atomic_load(&encoding->threads), here = atomic_fetch_add(&encoding->arrived, 1);
    const int all = here - here % threads + threads;
    for (int turns = 0; atomic_load(&encoding->arrived) < all; turns++)
        if (turns > MOST_TURNS)
            sched_yield();
}

/* Attention of the tokens from `begin` to `end` over the keys and values of all tokens. */
static void encoder_attention(const Model *model, const Sources *sources, const float *parts,
                              int64_t begin, int64_t end, float *weights, float *results)
{
    const int64_t e = model->sizes.model_size, d = model->sizes.head_size;
    for (int64_t sentence = 0, first = 0; sentence < sources->sentences && first < end; sentence++) {
        const int64_t length = sources->lengths[sentence], next = first + length;
        const int64_t from = larger(first, begin), to = next < end ? next : end;
        const float *const keys = parts + first * 3 * e + e, *const values = keys + e;
        for (int64_t head = 0; head < model->sizes.heads; head++)
            for (int64_t token = from; token < to; token++)
                attend(parts + token * 3 * e + head * d, keys + head * d, values + head * d, 3 * e,
                       length, d, weights, results + token * e + head * d);
        first = next;
    }
}

static void encoder_layer(Encoding *encoding, const EncoderLayer *layer, int64_t begin,
                          int64_t end, Scratch *scratch)
{
    const Model *const model = encoding->model;
    const int64_t e = model->sizes.model_size, tokens = end - begin;
    float *const parts = encoding->scratch.wide;
    begin_sublayer(model, layer->attention_norm, tokens, scratch);
    multiply(&layer->query_key_value, scratch->codes, tokens, STORE, parts + begin * 3 * e);
    wait_for_all(encoding);
    encoder_attention(model, encoding->sources, parts, begin, end, scratch->weights,
                      encoding->scratch.y);
    wait_for_all(encoding);
    quantise(scratch->y, tokens, e, &scratch->codes);
    end_sublayer(model, layer->attention_norm, &layer->attention_output, tokens, scratch);
    feed_forward(model, layer->feed_forward_norm, &layer->inner, &layer->outer, tokens, scratch);
    wait_for_all(encoding);
}

/* Project encoded tokens into a decoder layer's keys and values [H, room, D] of their sentences. */
static void project_source(const Model *model, const Sources *sources, int64_t layer,
                           int64_t begin, int64_t end, const Scratch *scratch)
{
    const int64_t e = model->sizes.model_size;
    multiply(&model->decoder[layer].cross_key_value, scratch->codes, end - begin, STORE,
             scratch->wide);
    for (int64_t sentence = 0, token = 0; sentence < sources->sentences; sentence++)
        for (int64_t place = 0; place < sources->lengths[sentence]; place++, token++) {
            if (token < begin || token >= end)
                continue;
            const int64_t offset =
                (sources->first + sentence) * heads_bytes(model, sources->room);
            const float *const key = scratch->wide + (token - begin) * 2 * e;
            store_heads(model, key, key + e, sources->cross[2 * layer] + offset,
                        sources->cross[2 * layer + 1] + offset, sources->room, place);
        }
}

/* Encode a thread's part of the tokens in its part of the scratch. */
static void *encode_part(void *argument)
{
    const Part *const part = argument;
    Encoding *const encoding = part->encoding;
    const Model *const model = encoding->model;
    const Sources *const sources = encoding->sources;
    const int64_t e = model->sizes.model_size, f = model->sizes.feed_forward_size;
    int64_t threads;
    while (!(threads = atomic_load(&encoding->threads)))
        sched_yield();
    const int64_t begin = sources->tokens * part->index / threads;
    const int64_t end = sources->tokens * (part->index + 1) / threads;
    int64_t ticks[SECTIONS] = {0};
    Scratch scratch = encoding->scratch;
    scratch.ticks = ticks;
    scratch.x += begin * e;
    scratch.y += begin * e;
    scratch.wide += begin * larger(3 * e, f);
    scratch.weights += part->index * 2 * (model->sizes.longest + BLOCK);
    scratch.codes.codes += begin * larger(e, f) * CODE_BYTES;
    scratch.codes.scales += begin;
    scratch.codes.starts += begin;
    for (int64_t sentence = 0, token = 0; sentence < sources->sentences; sentence++)
        for (int64_t place = 0; place < sources->lengths[sentence]; place++, token++)
            if (token >= begin && token < end)
                embed(model, model->src_embedding + sources->ids[token] * e, place,
                      scratch.x + (token - begin) * e);
    for (int64_t i = 0; i < model->sizes.encoder_layers; i++)
        encoder_layer(encoding, model->encoder + i, begin, end, &scratch);
    final_norm(model, model->encoder_norm, end - begin, &scratch);
    for (int64_t i = 0; i < model->sizes.decoder_layers; i++)
        project_source(model, sources, i, begin, end, &scratch);
    return NULL;
}

/* How many threads are worth starting. */
static int64_t count_threads(const Sizes *sizes, int64_t tokens, int64_t most)
{
    const int64_t e = sizes->model_size, f = sizes->feed_forward_size;
    const int64_t products = tokens * sizes->encoder_layers * (4 * e * e + 2 * e * f);
    const int64_t worth = larger(products / FEWEST_PRODUCTS, 1);
    most = most < MOST_THREADS ? most : MOST_THREADS;
    return worth < most ? worth : most;
}

/* Encode sentences with at most `most_threads` threads, and project the results into the keys and
 * values of every cross-attention. The results do not depend on the number of threads. */
void dragoman_encode(const Model *model, const Sources *sources, char *memory, int64_t most_threads)
{
    const int64_t threads = count_threads(&model->sizes, sources->tokens, most_threads);
    Encoding encoding = {.model = model, .sources = sources};
    Part parts[MOST_THREADS];
    pthread_t started[MOST_THREADS];
    int64_t running = 1;
    lay_out(model, sources->tokens, memory, &encoding.scratch);
    for (int64_t i = 0; i < threads; i++)
        parts[i] = (Part){&encoding, i};
    while (running < threads &&
           !pthread_create(&started[running], NULL, encode_part, &parts[running]))
        running++;
    atomic_store(&encoding.threads, running);
    encode_part(&parts[0]);
    while (--running)
        pthread_join(started[running], NULL);
}

/* Sizes of the keys and values of a step, and the alignment heads. */
typedef struct {
    int64_t src_room, room;     /* S, C */
    const int64_t *src_lengths; /* [B] */
    const uint8_t *aligning;    /* [decoder layers, H] */
    float share;                /* 1 / number of alignment heads */
} Caches;

/* Attention of one row's heads [H, D] over its keys and values. Adds the weights of the heads in
 * `aligning` to `alignment`. */
static void attend_heads(const Model *model, const float *queries, const uint8_t *keys,
                         const uint8_t *values, int64_t room, int64_t length, float *weights,
                         float *result, const uint8_t *aligning, Attended alignment)
{
    const int64_t d = model->sizes.head_size, size = room / BLOCK * block_bytes(d);
    for (int64_t head = 0; head < model->sizes.heads; head++) {
        const Attended attended =
            alignment.sums && aligning[head] ? alignment : (Attended){NULL, 0.0f};
        attend_codes(queries + head * d, keys + head * size, values + head * size,
                     keys + (head + 1) * size, length, d, weights, result + head * d, attended);
    }
}

static void self_attention(const Model *model, const DecoderLayer *layer, const Caches *caches,
                           uint8_t *keys, uint8_t *values, int64_t count, Scratch *scratch)
{
    const int64_t e = model->sizes.model_size, size = heads_bytes(model, caches->room);
    begin_sublayer(model, layer->self_norm, count, scratch);
    TIMED(PRODUCTS, multiply(&layer->query_key_value, scratch->codes, count, STORE, scratch->wide));
    for (int64_t i = 0; i < count; i++) {
        const Live *const live = scratch->live + i;
        const float *parts = scratch->wide + i * 3 * e;
        TIMED(CACHE, store_heads(model, parts + e, parts + 2 * e, keys + live->row * size,
                                 values + live->row * size, caches->room, live->position));
        TIMED(ATTENTION,
              attend_heads(model, parts, keys + live->row * size, values + live->row * size,
                           caches->room, live->position + 1, scratch->weights,
                           scratch->y + i * e, NULL, (Attended){NULL, 0.0f}));
    }
    TIMED(QUANTISING, quantise(scratch->y, count, e, &scratch->codes));
    end_sublayer(model, layer->self_norm, &layer->self_output, count, scratch);
}

static void cross_attention(const Model *model, const DecoderLayer *layer, const Caches *caches,
                            const uint8_t *keys, const uint8_t *values, const uint8_t *aligning,
                            int64_t count, Scratch *scratch)
{
    const int64_t e = model->sizes.model_size, size = heads_bytes(model, caches->src_room);
    begin_sublayer(model, layer->cross_norm, count, scratch);
    TIMED(PRODUCTS, multiply(&layer->cross_query, scratch->codes, count, STORE, scratch->wide));
    for (int64_t i = 0; i < count; i++) {
        const Live *const live = scratch->live + i;
        const int64_t begin = live->sentence * size;
        TIMED(ATTENTION,
              attend_heads(model, scratch->wide + i * e, keys + begin, values + begin,
                           caches->src_room, caches->src_lengths[live->sentence],
                           scratch->weights, scratch->y + i * e, aligning,
                           (Attended){live->alignment, caches->share}));
    }
    TIMED(QUANTISING, quantise(scratch->y, count, e, &scratch->codes));
    end_sublayer(model, layer->cross_norm, &layer->cross_output, count, scratch);
}

static float share_of_heads(const Model *model, const uint8_t *aligning)
{
    int64_t heads = 0;
    for (int64_t i = 0; i < model->sizes.decoder_layers * model->sizes.heads; i++)
        heads += aligning[i];
    return heads ? 1.0f / (float)heads : 0.0f;
}

/* One layer of the decoder, over `count` live rows. */
static void decoder_layer(const Model *model, int64_t i, const Caches *caches,
                          uint8_t *const past[2], uint8_t *const cross[2], int64_t count,
                          Scratch *scratch)
{
    const DecoderLayer *const layer = model->decoder + i;
    self_attention(model, layer, caches, past[0], past[1], count, scratch);
    cross_attention(model, layer, caches, cross[0], cross[1],
                    caches->aligning + i * model->sizes.heads, count, scratch);
    feed_forward(model, layer->feed_forward_norm, &layer->inner, &layer->outer, count, scratch);
}

/* The alignment of a row's step, within [T, W, S]. */
static float *alignment_of(const Rows *rows, int64_t row)
{
    const int64_t sentence = row / rows->width;
    float *const all = rows->alignments[sentence];
    const int64_t step = rows->positions[row] * rows->width + row % rows->width;
    return all ? all + step * rows->src_lengths[sentence] : NULL;
}

/* Rows that have a hypothesis. At a search's first step, only one has. */
static int64_t find_live(const Rows *rows, Live *live)
{
    int64_t count = 0;
    for (int64_t row = 0; row < count_rows(rows); row++) {
        if (rows->ids[row] < 0)
            continue;
        live[count++] = (Live){.sentence = row / rows->width,
                               .row = row,
                               .position = rows->positions[row],
                               .alignment = alignment_of(rows, row)};
    }
    return count;
}

/* Move computed scores to their rows. */
static void spread(const Live *live, int64_t count, int64_t stride, float *scores)
{
    for (int64_t i = count - 1; i >= 0 && live[i].row > i; i--)
        memcpy(scores + live[i].row * stride, scores + i * stride, stride * sizeof(float));
}

/* Scores of the tokens in the shortlists of `count` live rows. */
static void multiply_logits(const Model *model, const Rows *rows, int64_t count, Scratch *scratch,
                            float *scores)
{
    int any = 0;
    for (int64_t i = 0; i < count; i++) {
        scratch->shortlists[i] = rows->shortlists[scratch->live[i].sentence];
        any |= scratch->shortlists[i] != NULL;
    }
    if (any)
        multiply_listed(&model->logits, scratch->codes, count, scratch->shortlists, scores);
    else
        multiply(&model->logits, scratch->codes, count, RANK, scores);
}

/* One step: scores [R, V padded] of every token; each row is followed by the largest of each
 * panel. */
void dragoman_step(const Model *model, const Rows *rows, char *memory, float *scores)
{
    const int64_t e = model->sizes.model_size;
    Scratch laid_out = {.ticks = rows->ticks}, *const scratch = &laid_out;
    const Caches caches = {rows->src_room, rows->room, rows->src_lengths, rows->aligning,
                           share_of_heads(model, rows->aligning)};
    lay_out(model, count_rows(rows), memory, scratch);
    const int64_t count = find_live(rows, scratch->live);
    for (int64_t i = 0; i < count; i++)
        embed(model, model->embedding + rows->ids[scratch->live[i].row] * e,
              scratch->live[i].position, scratch->x + i * e);
    for (int64_t i = 0; i < model->sizes.decoder_layers; i++)
        decoder_layer(model, i, &caches, rows->past + 2 * i, rows->cross + 2 * i, count, scratch);
    final_norm(model, model->decoder_norm, count, scratch);
    TIMED(LOGITS, multiply_logits(model, rows, count, scratch, scores));
    spread(scratch->live, count, model->logits.outputs + model->logits.outputs / PANEL, scores);
}

/* A live row for each step of given translations. */
static void find_steps(const Pairs *pairs, Live *live)
{
    for (int64_t pair = 0; pair < pairs->pairs; pair++)
        for (int64_t step = 0; step < pairs->lengths[pair]; step++) {
            float *const all = pairs->alignments[pair];
            *live++ = (Live){.sentence = pair,
                             .row = pair,
                             .position = step,
                             .alignment = all ? all + step * pairs->src_lengths[pair] : NULL};
        }
}

/* Log-probabilities of the targets, a few steps at a time. */
static void score_targets(const Model *model, const Pairs *pairs, Scratch *scratch)
{
    const int64_t outputs = model->logits.outputs, panels = outputs / PANEL;
    const int64_t e = model->sizes.model_size;
    for (int64_t begin = 0; begin < pairs->steps; begin += SCORED_TOGETHER) {
        const int64_t left = pairs->steps - begin;
        const int64_t count = left < SCORED_TOGETHER ? left : SCORED_TOGETHER;
        const Codes codes = {scratch->codes.codes + begin * e * CODE_BYTES,
                             scratch->codes.scales + begin, scratch->codes.starts + begin,
                             scratch->codes.zero};
        const float *scores = pairs->scores;
        TIMED(LOGITS, multiply(&model->logits, codes, count, RANK, pairs->scores));
        for (int64_t i = begin; i < begin + count; i++, scores += outputs + panels)
            TIMED(RANKING, pairs->log_probs[i] =
                               scores[pairs->targets[i]] -
                               log_sum_of_panels(scores, panels,
                                                 largest_of(scores + outputs, panels)));
    }
}

/* Score given translations, all steps at once. The products and their order are those of
 * step-by-step decoding, so the results are the same. */
void dragoman_score(const Model *model, const Pairs *pairs, char *memory)
{
    const int64_t e = model->sizes.model_size, count = pairs->steps;
    uint8_t *const past[2] = {pairs->keys, pairs->values};
    Scratch laid_out = {.ticks = pairs->ticks}, *const scratch = &laid_out;
    const Caches caches = {pairs->src_room, pairs->room, pairs->src_lengths, pairs->aligning,
                           share_of_heads(model, pairs->aligning)};
    lay_out(model, count, memory, scratch);
    find_steps(pairs, scratch->live);
    for (int64_t i = 0; i < count; i++)
        embed(model, model->embedding + pairs->ids[i] * e, scratch->live[i].position,
              scratch->x + i * e);
    for (int64_t i = 0; i < model->sizes.decoder_layers; i++)
        decoder_layer(model, i, &caches, past, pairs->cross + 2 * i, count, scratch);
    final_norm(model, model->decoder_norm, count, scratch);
    score_targets(model, pairs, scratch);
}

/* The clock of the sections' ticks. */
int64_t dragoman_clock(void) { return read_clock(); }

/* Sizes and constants that library.py compares, to find a library compiled from other sources. */
void dragoman_agreement(int64_t *numbers)
{
    const int64_t ours[] = {sizeof(Sizes), sizeof(Product), sizeof(Sources), sizeof(Rows),
                            sizeof(Searches), sizeof(Found), sizeof(Token), sizeof(Finished),
                            sizeof(Constraints), sizeof(Suppressed), sizeof(Terms),
                            sizeof(Pairs), PANEL, MOST_BEST, MOST_LAYERS, MOST_HEAD_SIZE, BLOCK,
                            SCORED_TOGETHER, SECTIONS};
    memcpy(numbers, ours, sizeof ours);
}
