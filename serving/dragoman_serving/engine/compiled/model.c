/* Coded weights in one block of memory, which weights.py writes. The block may be a mapped file.
 *
 * The block begins with the model's sizes. Its arrays follow in the order of the structures' fields,
 * each at a multiple of 64 bytes. */
#include <string.h>

#include "model.h"
#include "bounds.h"

/* Position of the next array, as an offset into the block. */
typedef struct {
    const char *block;
    int64_t offset;
    float norm_epsilon;
} Cursor;

static const void *take(Cursor *cursor, int64_t bytes)
{
    const void *const array = cursor->block + cursor->offset;
    cursor->offset += (bytes + 63) / 64 * 64;
    return array;
}

static Norm take_norm(Cursor *cursor, int64_t size)
{
    Norm norm;
    norm.scales = take(cursor, 4 * size);
    norm.biases = take(cursor, 4 * size);
    norm.epsilon = cursor->norm_epsilon;
    return norm;
}

static Product take_product(Cursor *cursor, int64_t inputs, int64_t outputs)
{
    Product product = {.inputs = inputs, .outputs = (outputs + PANEL - 1) / PANEL * PANEL};
    product.codes = take(cursor, inputs * product.outputs);
    product.sums = take(cursor, 4 * product.outputs);
    product.scales = take(cursor, 4 * product.outputs);
    product.biases = take(cursor, 4 * product.outputs);
    return product;
}

static EncoderLayer take_encoder_layer(Cursor *cursor, int64_t e, int64_t f)
{
    EncoderLayer layer;
    layer.attention_norm = take_norm(cursor, e);
    layer.feed_forward_norm = take_norm(cursor, e);
    layer.query_key_value = take_product(cursor, e, 3 * e);
    layer.attention_output = take_product(cursor, e, e);
    layer.inner = take_product(cursor, e, f);
    layer.outer = take_product(cursor, f, e);
    return layer;
}

static DecoderLayer take_decoder_layer(Cursor *cursor, int64_t e, int64_t f, int64_t has_ssru)
{
    DecoderLayer layer = {0};
    layer.self_norm = take_norm(cursor, e);
    layer.cross_norm = take_norm(cursor, e);
    layer.feed_forward_norm = take_norm(cursor, e);
    if (has_ssru) {
        layer.forget_candidate = take_product(cursor, e, 2 * e);
    } else {
        layer.query_key_value = take_product(cursor, e, 3 * e);
        layer.self_output = take_product(cursor, e, e);
    }
    layer.cross_query = take_product(cursor, e, e);
    layer.cross_key_value = take_product(cursor, e, 2 * e);
    layer.cross_output = take_product(cursor, e, e);
    layer.inner = take_product(cursor, e, f);
    layer.outer = take_product(cursor, f, e);
    return layer;
}

#ifndef NDEBUG
static void check_sizes(const Sizes *sizes)
{
    ASSERT_MULTIPLE(sizes->model_size, PANEL);
    ASSERT_MULTIPLE(sizes->feed_forward_size, PANEL);
    ASSERT_MULTIPLE(sizes->head_size, 16);
    assert(sizes->heads * sizes->head_size == sizes->model_size);
    assert(sizes->head_size <= MOST_HEAD_SIZE);
    ASSERT_INDEX(sizes->encoder_layers, MOST_LAYERS + 1);
    ASSERT_INDEX(sizes->decoder_layers, MOST_LAYERS + 1);
    assert(sizes->longest > 0 && sizes->vocab_size > 0 && sizes->src_ids > 0);
    ASSERT_INDEX(sizes->activation, GELU + 1);
    assert(sizes->norm_epsilon > 0);
}
#endif

int64_t dragoman_model_bytes(void) { return sizeof(Model); }

/* Find the arrays of a block; reads only its sizes. Returns how many bytes the block must have. */
int64_t dragoman_find_weights(const void *block, Model *model)
{
    Cursor cursor = {.block = block};
    memcpy(&model->sizes, take(&cursor, sizeof(Sizes)), sizeof(Sizes));
    const Sizes *const sizes = &model->sizes;
    CHECK(check_sizes(sizes));
    cursor.norm_epsilon = (float)sizes->norm_epsilon;
    const int64_t e = sizes->model_size, f = sizes->feed_forward_size;
    model->embedding = NULL;
    if (!sizes->embedding_in_codes)
        model->embedding = take(&cursor, 2 * sizes->vocab_size * e);
    model->src_embedding = model->embedding;
    if (sizes->own_src_embedding)
        model->src_embedding = take(&cursor, 2 * sizes->src_ids * e);
    model->positions = take(&cursor, 4 * sizes->longest * e);
    for (int64_t i = 0; i < sizes->encoder_layers; i++)
        model->encoder[i] = take_encoder_layer(&cursor, e, f);
    for (int64_t i = 0; i < sizes->decoder_layers; i++)
        model->decoder[i] = take_decoder_layer(&cursor, e, f, sizes->has_ssru);
    model->encoder_norm = take_norm(&cursor, e);
    model->decoder_norm = take_norm(&cursor, e);
    model->logits = take_product(&cursor, e, sizes->vocab_size);
    return cursor.offset;
}
