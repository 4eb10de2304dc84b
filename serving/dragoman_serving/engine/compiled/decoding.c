/* One step of the sentences in flight, from the model to the next token of each row. */
#include <string.h>

#include "decoding.h"
#include "attention.h"
#include "bounds.h"
#include "branches.h"
#include "clock.h"
#include "searches.h"

/* Copy the first tokens of each head from another row. */
static void copy_tokens(const Model *model, const uint8_t *from, uint8_t *to, int64_t room,
                        int64_t tokens)
{
    const int64_t block = block_bytes(model->sizes.head_size), size = room / BLOCK * block;
    for (int64_t head = 0; head < model->sizes.heads; head++)
        memcpy(to + head * size, from + head * size, (tokens + BLOCK - 1) / BLOCK * block);
}

static void copy_cells(const Model *model, const Rows *rows, int64_t source, int64_t target)
{
    const int64_t e = model->sizes.model_size;
    for (int64_t layer = 0; layer < model->sizes.decoder_layers; layer++)
        memcpy(rows->cells[layer] + target * e, rows->cells[layer] + source * e, e * sizeof(float));
}

static void copy_row(const Model *model, const Rows *rows, int64_t source, int64_t target,
                     int64_t tokens)
{
    assert(source >= 0 && target >= 0 && source != target);
    ASSERT_INDEX(tokens, rows->room + 1);
    if (rows->cells) {
        copy_cells(model, rows, source, target);
        return;
    }
    const int64_t size = heads_bytes(model, rows->room);
    for (int64_t part = 0; part < 2 * model->sizes.decoder_layers; part++)
        copy_tokens(model, rows->past[part] + source * size, rows->past[part] + target * size,
                    rows->room, tokens);
}

/* Copy the caches or cells of rows: `copies` [count, 3] are source, target and tokens of each
 * copy; the tokens are all that the source has read. */
static void copy_rows(const Model *model, const Rows *rows, const int64_t *copies, int64_t count)
{
    for (int64_t i = 0; i < count; i++, copies += 3) {
        ASSERT_INDEX(copies[0], rows->sentences * rows->width);
        ASSERT_INDEX(copies[1], rows->sentences * rows->width);
        copy_row(model, rows, copies[0], copies[1], copies[2]);
    }
}

static void copy_source(const Model *model, const Rows *rows, int64_t source, int64_t target)
{
    const int64_t size = heads_bytes(model, rows->src_room);
    for (int64_t part = 0; part < 2 * model->sizes.decoder_layers; part++)
        copy_tokens(model, rows->cross[part] + source * size, rows->cross[part] + target * size,
                    rows->src_room, rows->src_lengths[source]);
}

static int64_t decode_once(const Model *model, const Rows *rows, const Searches *searches,
                           char *memory, float *scores, Helpers *helpers)
{
    int64_t done, copied;
    dragoman_step(model, rows, memory, scores, helpers);
    for (int64_t row = 0; row < rows->sentences * rows->width; row++) {
        rows->positions[row]++;
        rows->ids[row] = -1; /* unless a live hypothesis has it */
    }
    COUNTED(rows->ticks, RANKING, rank_plain(searches, rows->shortlists, scores));
    COUNTED(rows->ticks, SEARCH, done = dragoman_advance(searches, scores, rows->ids, &copied));
    COUNTED(rows->ticks, CACHE, copy_rows(model, rows, searches->copies, copied));
    return done;
}

/* Add a token to every sentence, and more, up to `most`, while no sentence is complete and
 * `pending` is 0, which becomes 1 when waiting sentences may join; NULL: only one. Writes how many
 * were added to `rows->steps`, and completed sentences to `searches->done`; returns their number.
 * `helpers` may be NULL; the results do not depend on them. */
int64_t dragoman_decode(const Model *model, Rows *rows, const Searches *searches, char *memory,
                        float *scores, Helpers *helpers, const int64_t *pending, int64_t most)
{
    assert(most > 0);
    assert(rows->sentences * rows->width == searches->slots * searches->width);
    int64_t done = 0;
    Helpers *const taken = take_helpers(helpers);
    rows->steps = 0;
    do {
        COUNTED(rows->ticks, STEP,
                done = decode_once(model, rows, searches, memory, scores, taken));
        rows->steps++;
    } while (!done && pending && !__atomic_load_n(pending, __ATOMIC_RELAXED) && rows->steps < most);
    return_helpers(taken);
    return done;
}

/* Free a slot; the last sentence moves into it. */
void dragoman_leave(const Model *model, Rows *rows, Searches *searches, int64_t slot)
{
    ASSERT_INDEX(slot, rows->sentences);
    const int64_t last = --rows->sentences, width = rows->width;
    dragoman_leave_search(searches, slot);
    if (slot == last)
        return;
    copy_source(model, rows, last, slot);
    rows->src_lengths[slot] = rows->src_lengths[last];
    rows->alignments[slot] = rows->alignments[last];
    rows->shortlists[slot] = rows->shortlists[last];
    for (int64_t i = 0; i < width; i++) {
        const int64_t from = last * width + i, to = slot * width + i;
        copy_row(model, rows, from, to, rows->positions[from]);
        rows->ids[to] = rows->ids[from];
        rows->positions[to] = rows->positions[from];
    }
}

/* Length in tokens of the longest hypotheses. */
int64_t dragoman_longest(const Rows *rows)
{
    int64_t longest = 0;
    for (int64_t sentence = 0; sentence < rows->sentences; sentence++)
        if (rows->positions[sentence * rows->width] > longest)
            longest = rows->positions[sentence * rows->width];
    return longest;
}
