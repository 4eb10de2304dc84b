/* Searches that may branch: a sentence's first slot finds tokens after the prefix, then each slot
 * of the sentence continues one of them. */
#include <string.h>

#include "branches.h"
#include "best.h"
#include "bounds.h"
#include "searches.h"

/* Continue a hypothesis of the sentence's first slot in another slot, or end the search there if
 * the hypothesis is complete. All of its tokens but the last are the prefix, in row 0. */
static int begin_branch(const Searches *searches, int64_t first, int64_t slot, Finished kept,
                        Next *next)
{
    const int64_t width = searches->width, length = kept.length;
    const int goes_on = !kept.complete && length > searches->constraints[first]->prefix_length &&
                        length < searches->limits[slot];
    float score = 0.0f; /* the model's score: constraints do not change a prefix */
    for (int64_t step = 0; step < length; step++) {
        const Token *const token =
            tokens_of(searches, first, step) + (step == length - 1 ? kept.index : 0);
        *tokens_of(searches, slot, step) = *token;
        score += token->log_prob;
    }
    kept.index = 0;
    searches->finished[slot * width] = kept;
    searches->ended[slot] = searches->kept[slot] = !goes_on;
    searches->live[slot] = goes_on;
    searches->lengths[slot] = length;
    searches->scores[slot * width] = score;
    searches->rows[slot * width] = 0;
    if (!goes_on)
        return 0;
    next->ids[slot * width] = tokens_of(searches, slot, length - 1)->id;
    if (slot != first)
        add_copy(next, first * width, slot * width, length);
    return 1;
}

/* Continue a different hypothesis of the sentence's first slot in each of its slots. */
static int begin_branches(const Searches *searches, int64_t first, Next *next)
{
    const int64_t kept = searches->kept[first];
    ASSERT_INDEX(kept - 1, MOST_BEST / 2);
    assert(searches->constraints[first]->first_branch >= 0);
    Finished all[MOST_BEST / 2];
    int goes_on = 0;
    memcpy(all, searches->finished + first * searches->width, kept * sizeof *all);
    /* The first slot's tokens last: all need them. */
    for (int64_t i = searches->branches - 1; i >= 0; i--) {
        const int64_t rank = searches->constraints[first]->first_branch + i;
        goes_on |=
            begin_branch(searches, first, first + i, all[rank < kept ? rank : kept - 1], next);
    }
    return goes_on;
}

/* One step of a sentence's searches; false if all are over. */
static int advance_sentence(const Searches *searches, int64_t first, float *scores, Next *next)
{
    int goes_on = 0;
    for (int64_t slot = first; slot < first + searches->branches; slot++) {
        if (!searches->live[slot])
            continue;
        const int is_before = is_before_branches(searches, slot);
        if (advance_search(searches, slot, scores, next)) {
            goes_on = 1;
            continue;
        }
        searches->live[slot] = 0;
        if (is_before)
            return begin_branches(searches, first, next);
    }
    return goes_on;
}

/* One step of all searches.
 *
 * Slots without constraints use `top_*`. Slots with constraints use the scores of their rows and
 * change them. Writes the token that each row with a live hypothesis reads next (`next_ids` [B x
 * W]), the copies and their number, and the completed sentences. Returns the number of these. */
int64_t dragoman_advance(const Searches *searches, float *scores, int64_t *next_ids,
                         int64_t *copied)
{
    ASSERT_MULTIPLE(searches->slots, searches->branches);
    int64_t done = 0;
    Next next = {next_ids, searches->copies};
    for (int64_t first = 0; first < searches->slots; first += searches->branches)
        if (!advance_sentence(searches, first, scores, &next))
            searches->done[done++] = first / searches->branches;
    *copied = (next.copy - searches->copies) / 3;
    return done;
}
