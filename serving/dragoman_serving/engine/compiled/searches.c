/* Greedy and beam search of a slot, step by step, with and without constraints.
 *
 * dragoman_training.oracle.search defines the results. */
#include <math.h>
#include <string.h>

#include "searches.h"
#include "best.h"
#include "bounds.h"
#include "constraints.h"
#include "exact.h"
#include "model.h"

/* A continuation of a live hypothesis by one token. */
typedef struct {
    float score, log_prob;
    int32_t parent, id; /* `parent` is an index of the live hypotheses */
} Continuation;

/* Index of a slot's first row among the rows of its sentence. */
static int64_t first_row(const Searches *searches, int64_t slot)
{
    return slot % searches->branches * searches->width;
}

/* Write the 2W best continuations of a slot's live hypotheses, best first; equal ones keep their
 * order. Returns how many there are. */
static int64_t rank_continuations(const Searches *searches, int64_t slot, Continuation *best)
{
    const int64_t width = searches->width, top = 2 * width;
    const float *const log_probs =
        searches->constraints[slot] ? searches->top_log_probs : searches->top_scores;
    int64_t count = 0;
    for (int64_t index = 0; index < searches->live[slot]; index++) {
        const int64_t row = slot * width + searches->rows[slot * width + index];
        const float live = searches->scores[slot * width + index];
        for (int64_t i = row * top; i < (row + 1) * top; i++) {
            const float score = live + searches->top_scores[i];
            if (score == -INFINITY || (count == top && !(score > best[top - 1].score)))
                break; /* the rest of the row is not better */
            int64_t at = count < top ? count++ : top - 1;
            for (; at > 0 && score > best[at - 1].score; at--)
                best[at] = best[at - 1];
            best[at] = (Continuation){score, log_probs[i], index, searches->top_ids[i]};
        }
    }
    return count;
}

/* The divisor of a score.
 *
 * Source: Wu et al. 2016, equation 14, https://arxiv.org/abs/1609.08144 */
static double length_penalty(const Searches *searches, int64_t slot, int64_t length)
{
    return exact_power((5 + length) / 6.0, searches->alphas[slot]);
}

/* Keep a finished hypothesis if it is one of the best; among equal ones, the first wins. */
static void keep(const Searches *searches, int64_t slot, Finished finished)
{
    const int64_t width = searches->width;
    Finished *const list = searches->finished + slot * width;
    int64_t at = searches->kept[slot];
    searches->ended[slot]++;
    if (at == width && !(finished.merit > list[at - 1].merit))
        return;
    if (at < width)
        searches->kept[slot]++;
    else
        at--;
    for (; at > 0 && finished.merit > list[at - 1].merit; at--)
        list[at] = list[at - 1];
    list[at] = finished;
}

static void finish(const Searches *searches, int64_t slot, const Continuation *last)
{
    const int64_t length = searches->lengths[slot];
    keep(searches, slot,
         (Finished){.merit = (double)last->score / length_penalty(searches, slot, length),
                    .log_prob = last->score,
                    .end_log_prob = last->log_prob,
                    .index = last->parent,
                    .length = length - 1,
                    .complete = 1,
                    .end_row = first_row(searches, slot) +
                               searches->rows[slot * searches->width + last->parent]});
}

/* End the live hypotheses as they are. */
static void cut(const Searches *searches, int64_t slot)
{
    const int64_t length = searches->lengths[slot];
    const double penalty = length_penalty(searches, slot, length);
    for (int64_t index = 0; index < searches->live[slot]; index++) {
        const float score = searches->scores[slot * searches->width + index];
        keep(searches, slot,
             (Finished){.merit = (double)score / penalty,
                        .log_prob = score,
                        .index = index,
                        .length = length});
    }
}

/* Whether no live hypothesis can be among the best W. More tokens only lower a score, and a longer
 * hypothesis has a larger divisor. */
static int are_beyond_reach(const Searches *searches, int64_t slot)
{
    const int64_t width = searches->width, first = slot * width;
    const double penalty = length_penalty(searches, slot, searches->limits[slot]);
    return searches->kept[slot] == width &&
           (double)searches->scores[first] / penalty <= searches->finished[first + width - 1].merit;
}

static int is_over(const Searches *searches, int64_t slot)
{
    const Constraints *const constraints = searches->constraints[slot];
    const int64_t enough = constraints ? constraints->enough : searches->width;
    return enough ? searches->ended[slot] >= enough : are_beyond_reach(searches, slot);
}

/* Assign rows to hypotheses with few copies: a parent's first child keeps its row, further children
 * take the rows of dropped hypotheses. */
static void place_rows(const int64_t *parents, int64_t count, int64_t width, int64_t *rows)
{
    int64_t children[MOST_BEST / 2] = {0}, dead = width;
    assert(count <= width && width <= MOST_BEST / 2);
    for (int64_t i = 0; i < count; i++) {
        ASSERT_INDEX(parents[i], width);
        children[parents[i]]++;
    }
    for (int64_t i = 0, known; i < count; i++) {
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

/* Finish the continuations with the end symbol, among the first W. Make the first W others the live
 * hypotheses, and find their current rows. */
static void follow(const Searches *searches, int64_t slot, const Continuation *best, int64_t count,
                   int64_t *parents)
{
    const int64_t width = searches->width;
    Token *const tokens = tokens_of(searches, slot, searches->lengths[slot] - 1);
    int64_t live = 0;
    for (int64_t i = 0; i < count; i++) {
        const Continuation *const continuation = best + i;
        if (continuation->id == searches->end_id) {
            if (i < width)
                finish(searches, slot, continuation);
        } else if (live < width) {
            parents[live] = searches->rows[slot * width + continuation->parent];
            tokens[live] =
                (Token){continuation->id, continuation->parent,
                        first_row(searches, slot) + parents[live], continuation->log_prob};
            searches->scores[slot * width + live++] = continuation->score;
        }
    }
    searches->live[slot] = live;
}

/* One step of a slot; false if its search is over. */
static int advance_slot(const Searches *searches, int64_t slot, float *scores, int64_t *parents)
{
    const int is_before = is_before_branches(searches, slot);
    Continuation best[MOST_BEST];
    if (searches->constraints[slot])
        rank_constrained(searches, slot, scores);
    const int64_t count = rank_continuations(searches, slot, best);
    if (!count && !searches->ended[slot]) { /* all tokens are forbidden */
        cut(searches, slot);
        return 0;
    }
    searches->lengths[slot]++;
    follow(searches, slot, best, count, parents);
    if (!searches->live[slot] || (!is_before && is_over(searches, slot)))
        return 0;
    if (searches->lengths[slot] == searches->limits[slot] ||
        (is_before && !is_before_branches(searches, slot))) {
        cut(searches, slot);
        return 0;
    }
    place_rows(parents, searches->live[slot], searches->width,
               searches->rows + slot * searches->width);
    return 1;
}

/* One greedy step: take the best token; false if the search is over. */
static int choose(const Searches *searches, int64_t slot)
{
    const int64_t id = searches->top_ids[slot * 2], length = ++searches->lengths[slot];
    *tokens_of(searches, slot, length - 1) = (Token){.id = id};
    return id != searches->end_id && length < searches->limits[slot];
}

/* The best continuations of a row without constraints. */
static void rank_row(const Searches *searches, const uint64_t *shortlist, int64_t row,
                     const float *scores)
{
    const int64_t panels = panels_of(shortlist, searches->panels), top = 2 * searches->width;
    int64_t *const ids = searches->top_ids + row * top, count = searches->width == 1 ? 1 : top;
    if (searches->width == 1)
        dragoman_argmax(scores, 1, panels, ids);
    else
        dragoman_best(scores, 1, panels, top, searches->top_scores + row * top, ids);
    for (int64_t i = 0; i < count; i++)
        ids[i] = token_at(shortlist, ids[i]);
}

/* Write the best continuations of slots without constraints to `top_*` of their rows, from the
 * scores of a step and the sentences' shortlists. For greedy searches, write only the best tokens.
 * The rows of other slots get the scores of all tokens. */
void rank_plain(const Searches *searches, const uint64_t *const *shortlists, float *scores)
{
    const int64_t width = searches->width, panels = searches->panels;
    ASSERT_INDEX(width - 1, MOST_BEST / 2);
    for (int64_t slot = 0; slot < searches->slots; slot++) {
        const uint64_t *const shortlist = shortlists[slot / searches->branches];
        for (int64_t index = 0; index < searches->live[slot]; index++) {
            const int64_t row = slot * width + searches->rows[slot * width + index];
            float *const of_row = scores + row * panels * (PANEL + 1);
            if (!searches->constraints[slot])
                rank_row(searches, shortlist, row, of_row);
            else if (shortlist)
                spread_listed(shortlist, panels, of_row);
        }
    }
}

/* One step of a slot, and the tokens that its rows read next; false if its search is over. */
int advance_search(const Searches *searches, int64_t slot, float *scores, Next *next)
{
    ASSERT_INDEX(slot, searches->slots);
    ASSERT_INDEX(searches->width - 1, MOST_BEST / 2);
    ASSERT_INDEX(searches->live[slot] - 1, searches->width);
    ASSERT_INDEX(searches->limits[slot] - 1, searches->capacity);
    ASSERT_INDEX(searches->lengths[slot], searches->limits[slot]);
    int64_t parents[MOST_BEST / 2];
    const int64_t first = slot * searches->width;
    const int is_greedy = searches->width == 1 && !searches->constraints[slot];
    if (!(is_greedy ? choose(searches, slot) : advance_slot(searches, slot, scores, parents)))
        return 0;
    const int64_t length = searches->lengths[slot];
    const Token *const tokens = tokens_of(searches, slot, length - 1);
    for (int64_t index = 0; index < searches->live[slot]; index++) {
        const int64_t row = searches->rows[first + index];
        next->ids[first + row] = tokens[index].id;
        if (!is_greedy && row != parents[index])
            add_copy(next, first + parents[index], first + row, length);
    }
    return 1;
}

/* Move the search of slot `last` to another slot. */
static void move_search(Searches *searches, int64_t last, int64_t slot)
{
    const int64_t width = searches->width, length = searches->lengths[last];
    const int64_t history = searches->capacity * width;
#define MOVE(array, size, count) \
    memcpy((void *)(searches->array + slot * (size)), searches->array + last * (size), \
           (count) * sizeof *searches->array)
    MOVE(constraints, 1, 1);
    MOVE(limits, 1, 1);
    MOVE(alphas, 1, 1);
    MOVE(lengths, 1, 1);
    MOVE(live, 1, 1);
    MOVE(scores, width, width);
    MOVE(rows, width, width);
    MOVE(tokens, history, length * width);
    MOVE(ended, 1, 1);
    MOVE(kept, 1, 1);
    MOVE(finished, width, searches->kept[last]);
#undef MOVE
}

/* Remove a sentence's searches; those of the last sentence move into their slots. */
void dragoman_leave_search(Searches *searches, int64_t sentence)
{
    const int64_t branches = searches->branches;
    ASSERT_INDEX(sentence, searches->slots / branches);
    const int64_t slot = sentence * branches, last = searches->slots - branches;
    searches->slots = last;
    for (int64_t i = 0; slot != last && i < branches; i++)
        move_search(searches, last + i, slot + i);
}

/* A result of a completed search, the best at rank 0: the ids of its tokens [limit], and their
 * log-probabilities and rows, followed by those of the end symbol. Greedy search has one result,
 * other searches have `kept`. */
void dragoman_result(const Searches *searches, int64_t slot, int64_t rank, int32_t *ids,
                     float *log_probs, int32_t *rows, SearchResult *result)
{
    ASSERT_INDEX(slot, searches->slots);
    const int64_t width = searches->width;
    Finished best;
    if (width == 1 && !searches->constraints[slot]) {
        const int64_t length = searches->lengths[slot];
        const int complete = tokens_of(searches, slot, length - 1)->id == searches->end_id;
        best = (Finished){.length = length - complete, .complete = complete};
    } else {
        ASSERT_INDEX(rank, searches->kept[slot]);
        best = searches->finished[slot * width + rank];
    }
    *result = (SearchResult){best.length, best.complete, best.log_prob};
    log_probs[best.length] = best.end_log_prob;
    rows[best.length] = best.end_row;
    for (int64_t step = best.length - 1, index = best.index; step >= 0; step--) {
        const Token *const token = tokens_of(searches, slot, step) + index;
        ids[step] = token->id;
        log_probs[step] = token->log_prob;
        rows[step] = token->row;
        index = token->parent;
    }
}
