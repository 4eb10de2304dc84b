/* The encoder, and one step of the decoder. */

#include "transformer.h"
#include "attention.h"
#include "best.h"
#include "bounds.h"
#include "clock.h"
#include "rows.h"
#include "vec.h"

enum { MOST_PARTS = 8 /* of a source's attention */ };

/* A row that is computed. */
typedef struct {
    int64_t sentence, row, position;
    float *alignment; /* [S], mean of the alignment heads; NULL: not requested */
} Live;

/* Scratch for a number of rows. */
typedef struct {
    float *x;                    /* [N, E], the residual stream */
    float *y;                    /* [N, E] */
    float *wide;                 /* [N, max(3E, F)] */
    float *weights;              /* [MOST_PARTS, 2 (longest + BLOCK)] */
    Codes codes;                 /* [N, max(E, F)] */
    Live *live;                  /* [N] */
    int64_t *places;             /* [N], the rows of the live ones' scores */
    const uint64_t **shortlists; /* [N] */
    int64_t *ticks;              /* [SECTIONS] */
    Helpers *helpers;            /* or NULL */
} Scratch;

#define TIMED(section, call) COUNTED(scratch->ticks, section, call)

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t count_rows(const Rows *rows) { return rows->sentences * rows->width; }

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Lay out scratch, or only count its bytes if there is no memory yet. */
static int64_t lay_out(const Model *model, int64_t rows, char *memory, Scratch *scratch)
{
    const int64_t e = model->sizes.model_size, f = model->sizes.feed_forward_size;
    int64_t used = 0;
#define RESERVE(pointer, bytes) (pointer) = (void *)(memory + used), used += round_up(bytes)
    RESERVE(scratch->x, 4 * rows * e);
    RESERVE(scratch->y, 4 * rows * e);
    RESERVE(scratch->wide, 4 * rows * larger(3 * e, f));
    RESERVE(scratch->weights, 8 * MOST_PARTS * (model->sizes.longest + BLOCK));
    RESERVE(scratch->codes.codes, rows * larger(e, f) * CODE_BYTES);
    RESERVE(scratch->codes.scales, 4 * rows);
    RESERVE(scratch->codes.starts, 4 * rows);
    RESERVE(scratch->live, (int64_t)sizeof(Live) * rows);
    RESERVE(scratch->places, (int64_t)sizeof *scratch->places * rows);
    RESERVE(scratch->shortlists, (int64_t)sizeof *scratch->shortlists * rows);
#undef RESERVE
    return used;
}

/* Bytes of scratch that `rows` rows need. */
int64_t dragoman_scratch_bytes(const Model *model, int64_t rows)
{
    Scratch scratch;
    assert(rows >= 0);
    return lay_out(model, rows, 0, &scratch);
}

/* The product of the quantised rows. */
static void project(const Scratch *scratch, const Product *product, int64_t rows, Finish finish,
                    float *results)
{
    multiply(scratch->helpers, product, scratch->codes, rows, finish, results);
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
    TIMED(PRODUCTS, project(scratch, product, rows, ADD, scratch->x));
    if (!model->sizes.norm_first)
        TIMED(NORMS, normalise_rows(scratch->x, norm, rows, model->sizes.model_size, scratch->x));
}

static void feed_forward(const Model *model, Norm norm, const Product *inner, const Product *outer,
                         int64_t rows, Scratch *scratch)
{
    const int64_t f = model->sizes.feed_forward_size;
    begin_sublayer(model, norm, rows, scratch);
    if (model->sizes.activation == RELU) {
        TIMED(PRODUCTS, project(scratch, inner, rows, RECTIFY, scratch->wide));
        TIMED(QUANTISING, quantise_rectified(scratch->wide, rows, f, &scratch->codes));
    } else {
        TIMED(PRODUCTS, project(scratch, inner, rows, STORE, scratch->wide);
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
    ASSERT_MULTIPLE(room, BLOCK);
    return model->sizes.heads * (room / BLOCK) * block_bytes(model->sizes.head_size);
}

/* Store a token's key and value, each [H, D], in the keys and values of a row or a source. */
static void store_heads(const Model *model, const float *key, const float *value, uint8_t *keys,
                        uint8_t *values, int64_t room, int64_t position)
{
    ASSERT_INDEX(position, room);
    const int64_t d = model->sizes.head_size, size = room / BLOCK * block_bytes(d);
    for (int64_t head = 0; head < model->sizes.heads; head++) {
        store_key(key + head * d, d, keys + head * size, position);
        store_value(value + head * d, d, values + head * size, position);
    }
}

/* Attention of the encoder over parts [tokens, 3E]: each token's query, key and value. */
typedef struct {
    const Model *model;
    const Sources *sources;
    const Scratch *scratch;
    int64_t parts;
} SourceAttention;

/* Attention of some tokens over the keys and values of all tokens of their sentences. */
static void attend_part(const void *argument, int64_t part)
{
    const SourceAttention *const all = argument;
    const Sources *const sources = all->sources;
    const Sizes *const sizes = &all->model->sizes;
    const int64_t e = sizes->model_size, d = sizes->head_size;
    const int64_t begin = sources->tokens * part / all->parts;
    const int64_t end = sources->tokens * (part + 1) / all->parts;
    const float *const parts = all->scratch->wide;
    float *const weights = all->scratch->weights + part * 2 * (sizes->longest + BLOCK);
    for (int64_t sentence = 0, first = 0; sentence < sources->sentences && first < end;
         sentence++) {
        const int64_t length = sources->lengths[sentence], next = first + length;
        const int64_t from = larger(first, begin), to = next < end ? next : end;
        const float *const keys = parts + first * 3 * e + e, *const values = keys + e;
        for (int64_t head = 0; head < sizes->heads; head++)
            for (int64_t token = from; token < to; token++)
                attend(parts + token * 3 * e + head * d, keys + head * d, values + head * d, 3 * e,
                       length, d, weights, all->scratch->y + token * e + head * d);
        first = next;
    }
}

static void encoder_layer(const Model *model, const EncoderLayer *layer, const Sources *sources,
                          Scratch *scratch)
{
    const int64_t tokens = sources->tokens;
    const SourceAttention attention = {model, sources, scratch, scratch->helpers ? MOST_PARTS : 1};
    begin_sublayer(model, layer->attention_norm, tokens, scratch);
    project(scratch, &layer->query_key_value, tokens, STORE, scratch->wide);
    run_parts(scratch->helpers, attention.parts, attend_part, &attention);
    quantise(scratch->y, tokens, model->sizes.model_size, &scratch->codes);
    end_sublayer(model, layer->attention_norm, &layer->attention_output, tokens, scratch);
    feed_forward(model, layer->feed_forward_norm, &layer->inner, &layer->outer, tokens, scratch);
}

/* Project encoded tokens into a decoder layer's keys and values [H, room, D] of their sentences. */
static void project_source(const Model *model, const Sources *sources, int64_t layer,
                           const Scratch *scratch)
{
    const int64_t e = model->sizes.model_size, size = heads_bytes(model, sources->room);
    const float *key = scratch->wide;
    project(scratch, &model->decoder[layer].cross_key_value, sources->tokens, STORE, scratch->wide);
    for (int64_t sentence = 0; sentence < sources->sentences; sentence++) {
        const int64_t offset = (sources->first + sentence) * size;
        for (int64_t position = 0; position < sources->lengths[sentence]; position++, key += 2 * e)
            store_heads(model, key, key + e, sources->cross[2 * layer] + offset,
                        sources->cross[2 * layer + 1] + offset, sources->room, position);
    }
}

#ifndef NDEBUG
static void check_sources(const Model *model, const Sources *sources)
{
    int64_t tokens = 0;
    ASSERT_MULTIPLE(sources->room, BLOCK);
    assert(sources->sentences > 0 && sources->first >= 0);
    for (int64_t sentence = 0; sentence < sources->sentences; sentence++) {
        const int64_t length = sources->lengths[sentence];
        assert(length > 0 && length <= sources->room && length <= model->sizes.longest);
        tokens += length;
    }
    assert(tokens == sources->tokens);
    for (int64_t token = 0; token < tokens; token++)
        ASSERT_INDEX(sources->ids[token], model->sizes.src_ids);
}
#endif

/* Encode sentences that are in the caches together. */
static void encode_part(const Model *model, const Sources *sources, char *memory, Scratch *scratch)
{
    const int64_t e = model->sizes.model_size;
    lay_out(model, sources->tokens, memory, scratch);
    for (int64_t sentence = 0, token = 0; sentence < sources->sentences; sentence++)
        for (int64_t position = 0; position < sources->lengths[sentence]; position++, token++)
            embed(model, model->src_embedding, sources->ids[token], position,
                  scratch->x + token * e);
    for (int64_t i = 0; i < model->sizes.encoder_layers; i++)
        encoder_layer(model, model->encoder + i, sources, scratch);
    final_norm(model, model->encoder_norm, sources->tokens, scratch);
    for (int64_t i = 0; i < model->sizes.decoder_layers; i++)
        project_source(model, sources, i, scratch);
}

/* The sentences from `sentence` on, whose first token is `token`: at most ENCODED_TOGETHER tokens, or
 * one sentence. */
static Sources part_of(const Sources *sources, int64_t sentence, int64_t token)
{
    Sources part = *sources;
    part.ids += token;
    part.lengths += sentence;
    part.first += sentence;
    part.sentences = part.tokens = 0;
    do
        part.tokens += part.lengths[part.sentences++];
    while (sentence + part.sentences < sources->sentences &&
           part.tokens + part.lengths[part.sentences] <= ENCODED_TOGETHER);
    return part;
}

/* Encode sentences, and project the results into the keys and values of every cross-attention.
 * `memory` is scratch for ENCODED_TOGETHER rows, or for the longest sentence. `helpers` may be NULL;
 * the results do not depend on them. */
void dragoman_encode(const Model *model, const Sources *sources, char *memory, Helpers *helpers)
{
    CHECK(check_sources(model, sources));
    int64_t ticks[SECTIONS] = {0};
    Scratch scratch = {.ticks = ticks, .helpers = take_helpers(helpers)};
    Sources part;
    for (int64_t sentence = 0, token = 0; sentence < sources->sentences;
         sentence += part.sentences, token += part.tokens) {
        part = part_of(sources, sentence, token);
        encode_part(model, &part, memory, &scratch);
    }
    return_helpers(scratch.helpers);
}

/* Sizes of the keys and values of a step, and the alignment heads. With an SSRU, `room` is only the
 * largest number of tokens. */
typedef struct {
    int64_t src_room, room;     /* S, C */
    const int64_t *src_lengths; /* [B] */
    const uint8_t *aligning;    /* [decoder layers, H] */
    float factor;               /* 1 / number of alignment heads */
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
        attend_codes(queries + head * d, keys + head * size, values + head * size, size, length, d,
                     weights, result + head * d, attended);
    }
}

static void self_attention(const Model *model, const DecoderLayer *layer, const Caches *caches,
                           uint8_t *keys, uint8_t *values, int64_t count, Scratch *scratch)
{
    const int64_t e = model->sizes.model_size, size = heads_bytes(model, caches->room);
    begin_sublayer(model, layer->self_norm, count, scratch);
    TIMED(PRODUCTS, project(scratch, &layer->query_key_value, count, STORE, scratch->wide));
    for (int64_t i = 0; i < count; i++) {
        const Live *const live = scratch->live + i;
        const float *parts = scratch->wide + i * 3 * e;
        TIMED(CACHE, store_heads(model, parts + e, parts + 2 * e, keys + live->row * size,
                                 values + live->row * size, caches->room, live->position));
        TIMED(ATTENTION,
              attend_heads(model, parts, keys + live->row * size, values + live->row * size,
                           caches->room, live->position + 1, scratch->weights, scratch->y + i * e,
                           NULL, (Attended){NULL, 0.0f}));
    }
    TIMED(QUANTISING, quantise(scratch->y, count, e, &scratch->codes));
    end_sublayer(model, layer->self_norm, &layer->self_output, count, scratch);
}

/* Read the projected tokens [count, 2E] into the cells. The live rows of a sentence are in the order
 * of its tokens. */
static void read_inputs(const Scratch *scratch, int64_t e, float *cells, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const Live *const live = scratch->live + i;
        read_input(scratch->wide + i * 2 * e, e, live->position == 0, cells + live->row * e,
                   scratch->x + i * e);
    }
}

/* The recurrence that a layer has instead of self-attention. */
static void ssru(const Model *model, const DecoderLayer *layer, float *cells, int64_t count,
                 Scratch *scratch)
{
    const int64_t e = model->sizes.model_size;
    begin_sublayer(model, layer->self_norm, count, scratch);
    TIMED(PRODUCTS, project(scratch, &layer->forget_candidate, count, STORE, scratch->wide));
    TIMED(ATTENTION, read_inputs(scratch, e, cells, count));
    if (!model->sizes.norm_first)
        TIMED(NORMS, normalise_rows(scratch->x, layer->self_norm, count, e, scratch->x));
}

static void cross_attention(const Model *model, const DecoderLayer *layer, const Caches *caches,
                            const uint8_t *keys, const uint8_t *values, const uint8_t *aligning,
                            int64_t count, Scratch *scratch)
{
    const int64_t e = model->sizes.model_size, size = heads_bytes(model, caches->src_room);
    begin_sublayer(model, layer->cross_norm, count, scratch);
    TIMED(PRODUCTS, project(scratch, &layer->cross_query, count, STORE, scratch->wide));
    for (int64_t i = 0; i < count; i++) {
        const Live *const live = scratch->live + i;
        const int64_t begin = live->sentence * size;
        TIMED(ATTENTION, attend_heads(model, scratch->wide + i * e, keys + begin, values + begin,
                                      caches->src_room, caches->src_lengths[live->sentence],
                                      scratch->weights, scratch->y + i * e, aligning,
                                      (Attended){live->alignment, caches->factor}));
    }
    TIMED(QUANTISING, quantise(scratch->y, count, e, &scratch->codes));
    end_sublayer(model, layer->cross_norm, &layer->cross_output, count, scratch);
}

static float factor_of_heads(const Model *model, const uint8_t *aligning)
{
    int64_t heads = 0;
    for (int64_t i = 0; i < model->sizes.decoder_layers * model->sizes.heads; i++)
        heads += aligning[i];
    return heads ? 1.0f / (float)heads : 0.0f;
}

/* What a layer keeps of the tokens that its rows have read. */
typedef struct {
    uint8_t *keys, *values; /* of self-attention */
    float *cells;           /* of an SSRU */
} Past;

/* One layer of the decoder, over `count` live rows. */
static void decoder_layer(const Model *model, int64_t i, const Caches *caches, Past past,
                          uint8_t *const cross[2], int64_t count, Scratch *scratch)
{
    const DecoderLayer *const layer = model->decoder + i;
    if (model->sizes.has_ssru)
        ssru(model, layer, past.cells, count, scratch);
    else
        self_attention(model, layer, caches, past.keys, past.values, count, scratch);
    cross_attention(model, layer, caches, cross[0], cross[1],
                    caches->aligning + i * model->sizes.heads, count, scratch);
    feed_forward(model, layer->feed_forward_norm, &layer->inner, &layer->outer, count, scratch);
}

static Past past_of(const Rows *rows, int64_t layer)
{
    if (rows->cells)
        return (Past){.cells = rows->cells[layer]};
    return (Past){rows->past[2 * layer], rows->past[2 * layer + 1], NULL};
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

/* Scores of the tokens in the shortlists of `count` live rows. */
static void multiply_logits(const Model *model, const Rows *rows, int64_t count, Scratch *scratch,
                            float *scores)
{
    int any = 0;
    Codes codes = scratch->codes;
    codes.places = scratch->places;
    for (int64_t i = 0; i < count; i++) {
        scratch->places[i] = scratch->live[i].row;
        scratch->shortlists[i] = rows->shortlists[scratch->live[i].sentence];
        any |= scratch->shortlists[i] != NULL;
    }
    if (any)
        multiply_listed(&model->logits, codes, count, scratch->shortlists, scores);
    else
        multiply(scratch->helpers, &model->logits, codes, count, RANK, scores);
}

#ifndef NDEBUG
static void check_rows(const Model *model, const Rows *rows)
{
    ASSERT_MULTIPLE(rows->src_room, BLOCK);
    assert(model->sizes.has_ssru ? rows->cells && !rows->past : rows->past && !rows->cells);
    if (!model->sizes.has_ssru)
        ASSERT_MULTIPLE(rows->room, BLOCK);
    assert(rows->sentences > 0 && rows->width > 0);
    for (int64_t row = 0; row < count_rows(rows); row++) {
        ASSERT_INDEX(rows->src_lengths[row / rows->width] - 1, rows->src_room);
        if (rows->ids[row] < 0)
            continue;
        ASSERT_INDEX(rows->ids[row], model->sizes.vocab_size);
        ASSERT_INDEX(rows->positions[row], rows->room);
    }
}
#endif

/* One step: the scores of every row, see best.h. */
void dragoman_step(const Model *model, const Rows *rows, char *memory, float *scores,
                   Helpers *helpers)
{
    const int64_t e = model->sizes.model_size;
    CHECK(check_rows(model, rows));
    Scratch laid_out = {.ticks = rows->ticks, .helpers = helpers};
    Scratch *const scratch = &laid_out;
    const Caches caches = {rows->src_room, rows->room, rows->src_lengths, rows->aligning,
                           factor_of_heads(model, rows->aligning)};
    lay_out(model, count_rows(rows), memory, scratch);
    const int64_t count = find_live(rows, scratch->live);
    for (int64_t i = 0; i < count; i++)
        embed(model, model->embedding, rows->ids[scratch->live[i].row], scratch->live[i].position,
              scratch->x + i * e);
    for (int64_t i = 0; i < model->sizes.decoder_layers; i++)
        decoder_layer(model, i, &caches, past_of(rows, i), rows->cross + 2 * i, count, scratch);
    final_norm(model, model->decoder_norm, count, scratch);
    TIMED(LOGITS, multiply_logits(model, rows, count, scratch, scores));
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
                             scratch->codes.zero, NULL};
        const float *scores = pairs->scores;
        TIMED(LOGITS, multiply(NULL, &model->logits, codes, count, RANK, pairs->scores));
        for (int64_t i = begin; i < begin + count; i++, scores += outputs + panels)
            TIMED(RANKING,
                  pairs->log_probs[i] =
                      scores[pairs->targets[i]] -
                      log_sum_of_panels(scores, panels, largest_of(scores + outputs, panels)));
    }
}

#ifndef NDEBUG
static void check_pairs(const Model *model, const Pairs *pairs)
{
    int64_t steps = 0;
    ASSERT_MULTIPLE(pairs->src_room, BLOCK);
    ASSERT_MULTIPLE(pairs->room, BLOCK);
    assert(model->sizes.has_ssru ? pairs->cells != NULL : pairs->keys && pairs->values);
    assert(pairs->pairs > 0);
    for (int64_t pair = 0; pair < pairs->pairs; pair++) {
        ASSERT_INDEX(pairs->src_lengths[pair] - 1, pairs->src_room);
        ASSERT_INDEX(pairs->lengths[pair] - 1, pairs->room);
        steps += pairs->lengths[pair];
    }
    assert(steps == pairs->steps);
    for (int64_t step = 0; step < steps; step++) {
        ASSERT_INDEX(pairs->ids[step], model->sizes.vocab_size);
        ASSERT_INDEX(pairs->targets[step], model->sizes.vocab_size);
    }
}
#endif

/* Score given translations, all steps at once. The products and their order are those of
 * step-by-step decoding, so the results are the same. */
void dragoman_score(const Model *model, const Pairs *pairs, char *memory)
{
    const int64_t e = model->sizes.model_size, count = pairs->steps;
    const Past past = {pairs->keys, pairs->values, pairs->cells};
    CHECK(check_pairs(model, pairs));
    Scratch laid_out = {.ticks = pairs->ticks};
    Scratch *const scratch = &laid_out;
    const Caches caches = {pairs->src_room, pairs->room, pairs->src_lengths, pairs->aligning,
                           factor_of_heads(model, pairs->aligning)};
    lay_out(model, count, memory, scratch);
    find_steps(pairs, scratch->live);
    for (int64_t i = 0; i < count; i++)
        embed(model, model->embedding, pairs->ids[i], scratch->live[i].position,
              scratch->x + i * e);
    for (int64_t i = 0; i < model->sizes.decoder_layers; i++)
        decoder_layer(model, i, &caches, past, pairs->cross + 2 * i, count, scratch);
    final_norm(model, model->decoder_norm, count, scratch);
    score_targets(model, pairs, scratch);
}
