/* Searches step by step, as serving/dragoman_serving/engine/search/plain_search.py has them. */
#include <string.h>

#include "exact.h"
#include "kernels.h"

typedef struct {
    float score;
    int32_t parent, token; /* `parent` is a place among the live ones */
} Candidate;

/* The `count` best continuations of a slot's live hypotheses, best first; of equal ones that which
 * comes first. */
static void rank_continuations(const Searches *searches, int64_t slot, const float *top_scores,
                               const int64_t *top_ids, int64_t top, Candidate *best, int64_t count)
{
    const int64_t width = searches->width;
    int64_t found = 0;
    for (int64_t place = 0; place < width; place++) {
        const int64_t row = slot * width + searches->rows[slot * width + place];
        const float live = searches->scores[slot * width + place];
        for (int64_t i = 0; i < count; i++) {
            const float score = live + top_scores[row * top + i];
            if (found == count && !(score > best[count - 1].score))
                break; /* and what follows in the row is not better */
            int64_t at = found < count ? found++ : count - 1;
            for (; at > 0 && score > best[at - 1].score; at--)
                best[at] = best[at - 1];
            best[at] = (Candidate){score, place, top_ids[row * top + i]};
        }
    }
}

static void finish(const Searches *searches, int64_t slot, float log_prob, int64_t place, int64_t length)
{
    const int64_t at = slot * 2 * searches->width + searches->finished[slot]++;
    searches->finished_log_probs[at] = log_prob;
    searches->finished_places[at] = place;
    searches->finished_lengths[at] = length;
}

/* Rows for hypotheses, so that few must be copied: a parent's first child stays in its row, further
 * ones take rows whose hypotheses died. */
static void place_rows(const int64_t *parents, int64_t width, int64_t *rows)
{
    int64_t children[MOST_BEST / 2] = {0}, dead = width;
    for (int64_t i = 0; i < width; i++)
        children[parents[i]]++;
    for (int64_t i = 0, known; i < width; i++) {
        for (known = 0; known < i && parents[known] != parents[i]; known++)
            ;
        if (known == i) {
            rows[i] = parents[i];
            continue;
        }
        do
            dead--;
        while (children[dead] > 0);
        rows[i] = dead;
    }
}

/* One slot's step; false once it is done. */
static int advance_slot(const Searches *searches, int64_t slot, const float *top_scores,
                        const int64_t *top_ids, int64_t top, int64_t *parents)
{
    const int64_t width = searches->width, length = ++searches->lengths[slot];
    int32_t *const said = searches->said + (slot * searches->room + length - 1) * width;
    int32_t *const came_from = searches->parents + (slot * searches->room + length - 1) * width;
    int64_t *const rows = searches->rows + slot * width;
    Candidate best[MOST_BEST];
    int64_t chosen = 0;
    rank_continuations(searches, slot, top_scores, top_ids, top, best, 2 * width);
    for (int64_t rank = 0; rank < 2 * width; rank++) {
        const Candidate *const one = &best[rank];
        if (one->token == searches->end_id) {
            if (rank < width)
                finish(searches, slot, one->score, one->parent, length - 1);
        } else if (chosen < width) {
            said[chosen] = one->token;
            came_from[chosen] = one->parent;
            parents[chosen] = rows[one->parent];
            searches->scores[slot * width + chosen++] = one->score;
        }
    }
    if (searches->finished[slot] >= width)
        return 0;
    if (length == searches->limits[slot]) {
        for (int64_t place = 0; place < width; place++)
            finish(searches, slot, searches->scores[slot * width + place], place, length);
        return 0;
    }
    place_rows(parents, width, rows);
    return 1;
}

/* One step of greedy searches: of tokens [B], the best of each, the slots that are done are found.
 * Their number is returned. */
int64_t dragoman_choose(const Searches *searches, const int64_t *tokens)
{
    int64_t done = 0;
    for (int64_t slot = 0; slot < searches->slots; slot++) {
        if (searches->guided[slot])
            continue;
        const int64_t length = searches->lengths[slot]++;
        searches->said[slot * searches->room + length] = tokens[slot];
        if (tokens[slot] == searches->end_id || length + 1 == searches->limits[slot])
            searches->done[done++] = slot;
    }
    return done;
}

/* One step of beam searches.
 *
 * `top_scores` and `top_ids` [B x W, top] are the rows' best log-probabilities, best first, at
 * least twice as many as a search is wide. Written are what each row says next, `tokens` [B x W],
 * the copies and their number, and the slots that are done, whose number is returned. */
int64_t dragoman_advance(const Searches *searches, const float *top_scores, const int64_t *top_ids,
                         int64_t top, int64_t *tokens, int64_t *copied)
{
    const int64_t width = searches->width;
    int64_t done = 0, *copy = searches->copies;
    for (int64_t slot = 0; slot < searches->slots; slot++) {
        int64_t parents[MOST_BEST / 2];
        const int64_t first = slot * width;
        if (searches->guided[slot])
            continue;
        if (!advance_slot(searches, slot, top_scores, top_ids, top, parents)) {
            searches->done[done++] = slot;
            continue;
        }
        const int64_t length = searches->lengths[slot];
        const int32_t *const said = searches->said + (slot * searches->room + length - 1) * width;
        for (int64_t place = 0; place < width; place++) {
            const int64_t row = searches->rows[first + place];
            tokens[first + row] = said[place];
            if (row == parents[place])
                continue;
            *copy++ = first + parents[place];
            *copy++ = first + row;
            *copy++ = length;
        }
    }
    *copied = (copy - searches->copies) / 3;
    return done;
}

/* Forget a search; the last one takes its slot. */
void dragoman_leave_search(Searches *searches, int64_t slot)
{
    const int64_t last = --searches->slots, width = searches->width;
    if (slot == last)
        return;
    const int64_t length = searches->lengths[last], history = searches->room * width;
#define MOVE(array, size, count)                                                                 \
    memcpy(searches->array + slot * (size), searches->array + last * (size),                     \
           (count) * sizeof *searches->array)
    MOVE(guided, 1, 1);
    MOVE(limits, 1, 1);
    MOVE(alphas, 1, 1);
    MOVE(lengths, 1, 1);
    MOVE(scores, width, width);
    MOVE(rows, width, width);
    MOVE(said, history, length * width);
    MOVE(parents, history, length * width);
    MOVE(finished, 1, 1);
    MOVE(finished_log_probs, 2 * width, searches->finished[last]);
    MOVE(finished_places, 2 * width, searches->finished[last]);
    MOVE(finished_lengths, 2 * width, searches->finished[last]);
#undef MOVE
}

static Found greedy_result(const Searches *searches, int64_t slot)
{
    const int64_t length = searches->lengths[slot];
    const int32_t *const said = searches->said + slot * searches->room;
    const int64_t complete = said[length - 1] == searches->end_id;
    return (Found){length - complete, complete, 0.0};
}

/* Index of the finished hypothesis that has this rank by its log-probability over the length penalty
 * of Wu et al. 2016 (14); of equal ones the first is better. */
static int64_t ranked(const Searches *searches, int64_t slot, int64_t rank)
{
    const int64_t first = slot * 2 * searches->width, count = searches->finished[slot];
    double scores[MOST_BEST];
    for (int64_t i = 0; i < count; i++) {
        const int64_t ids = searches->finished_lengths[first + i];
        const int64_t length = ids + (ids < searches->limits[slot]); /* with the end symbol */
        scores[i] = searches->finished_log_probs[first + i] /
                    exact_power((5 + length) / 6.0, searches->alphas[slot]);
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t better = 0;
        for (int64_t other = 0; other < count; other++)
            better += scores[other] > scores[i] || (scores[other] == scores[i] && other < i);
        if (better == rank)
            return first + i;
    }
    return first;
}

/* What a search that is done has found, the best at rank 0; its tokens stand in `ids` [limit].
 * Greedy search finds one, beam search as many as it is wide or more. */
void dragoman_result(const Searches *searches, int64_t slot, int64_t rank, int32_t *ids, Found *found)
{
    const int64_t width = searches->width, history = slot * searches->room * width;
    if (width == 1) {
        *found = greedy_result(searches, slot);
        memcpy(ids, searches->said + history, found->length * sizeof *ids);
        return;
    }
    const int64_t best = ranked(searches, slot, rank);
    found->length = searches->finished_lengths[best];
    found->complete = found->length < searches->limits[slot];
    found->log_prob = searches->finished_log_probs[best];
    int64_t place = searches->finished_places[best];
    for (int64_t step = found->length - 1; step >= 0; step--) {
        ids[step] = searches->said[history + step * width + place];
        place = searches->parents[history + step * width + place];
    }
}
