/* Greedy and beam search of a slot, step by step, with and without constraints.
 *
 * dragoman_training.oracle.search defines what they find. */
#include <math.h>
#include <string.h>

#include "exact.h"
#include "kernels.h"

/* The first of its sentence's rows that a slot has. */
static int64_t first_row(const Searches *searches, int64_t slot)
{
    return slot % searches->branches * searches->width;
}

/* The `most` best continuations of a slot's live hypotheses, best first; of equal ones that which
 * comes first. Returns how many there are. */
static int64_t rank_continuations(const Searches *searches, int64_t slot, Candidate *best, int64_t most)
{
    const int64_t width = searches->width, top = 2 * width;
    const float *const log_probs =
        searches->constraints[slot] ? searches->top_log_probs : searches->top_scores;
    int64_t found = 0;
    for (int64_t place = 0; place < searches->live[slot]; place++) {
        const int64_t row = slot * width + searches->rows[slot * width + place];
        const float live = searches->scores[slot * width + place];
        for (int64_t i = row * top; i < (row + 1) * top; i++) {
            const float score = live + searches->top_scores[i];
            if (score == -INFINITY || (found == most && !(score > best[most - 1].score)))
                break; /* and what follows in the row is not better */
            int64_t at = found < most ? found++ : most - 1;
            for (; at > 0 && score > best[at - 1].score; at--)
                best[at] = best[at - 1];
            best[at] = (Candidate){.score = score,
                                   .log_prob = log_probs[i],
                                   .parent = place,
                                   .id = searches->top_ids[i]};
        }
    }
    return found;
}

/* What a score is divided by.
 *
 * Source: Wu et al. 2016, equation 14, https://arxiv.org/abs/1609.08144 */
static double length_penalty(const Searches *searches, int64_t slot, int64_t length)
{
    return exact_power((5 + length) / 6.0, searches->alphas[slot]);
}

/* Keep a hypothesis that has ended if it is one of the best; of equal ones the first is better. Behind
 * those from `first` on it is only if it is worse. */
static void keep(const Searches *searches, int64_t slot, Finished one, int64_t first)
{
    const int64_t width = searches->width;
    Finished *const list = searches->finished + slot * width;
    int64_t at = searches->kept[slot];
    searches->ended[slot]++;
    if (at == width && !(at > first && one.merit > list[at - 1].merit))
        return;
    if (at < width)
        searches->kept[slot]++;
    else
        at--;
    for (; at > first && one.merit > list[at - 1].merit; at--)
        list[at] = list[at - 1];
    list[at] = one;
}

static void finish(const Searches *searches, int64_t slot, const Candidate *one)
{
    const int64_t length = searches->lengths[slot];
    keep(searches, slot,
         (Finished){.merit = (double)one->score / length_penalty(searches, slot, length),
                    .log_prob = one->score + one->forced,
                    .end_log_prob = one->log_prob,
                    .place = one->parent,
                    .length = length - 1,
                    .complete = 1,
                    .end_row = first_row(searches, slot) +
                               searches->rows[slot * searches->width + one->parent]},
         0);
}

/* Finish those of the first `width` candidates that end, of those with all terms. */
static void finish_ended(const Searches *searches, int64_t slot, const Candidate *list, int64_t count)
{
    const Constraints *const constraints = searches->constraints[slot];
    const int64_t terms = constraints && constraints->terms ? constraints->terms->count : 0;
    for (int64_t i = 0, whole = 0; i < count && whole < searches->width; i++) {
        if (terms && list[i].bank < terms)
            continue;
        if (list[i].id == searches->end_id)
            finish(searches, slot, list + i);
        whole++;
    }
}

/* End the live hypotheses as they are. With terms, those come first that have more of them, and all
 * come behind those that are whole. */
static void cut(const Searches *searches, int64_t slot)
{
    const Constraints *const constraints = searches->constraints[slot];
    const int64_t length = searches->lengths[slot], width = searches->width;
    const int has_terms = constraints && constraints->terms;
    const double penalty = length_penalty(searches, slot, length);
    int64_t first = has_terms ? searches->kept[slot] : 0;
    for (int64_t met = has_terms ? constraints->terms->count : 0; met >= 0; met--) {
        for (int64_t place = 0; place < searches->live[slot]; place++) {
            if (has_terms && terms_met(searches, slot, place) != met)
                continue;
            const float score = searches->scores[slot * width + place];
            const float forced = has_terms ? forced_score(searches, slot, place) : 0.0f;
            keep(searches, slot,
                 (Finished){.merit = (double)score / penalty,
                            .log_prob = score + forced,
                            .place = place,
                            .length = length},
                 first);
        }
        if (has_terms)
            first = searches->kept[slot];
    }
}

/* Whether no live hypothesis, grown to a length, can be among the best `count`: a score only falls
 * with more tokens, and what it is divided by only grows. */
static int are_beyond_reach(const Searches *searches, int64_t slot, int64_t count, int64_t length)
{
    const int64_t first = slot * searches->width;
    return searches->kept[slot] >= count &&
           (double)searches->scores[first] / length_penalty(searches, slot, length) <=
               searches->finished[first + count - 1].merit;
}

static int is_over(const Searches *searches, int64_t slot)
{
    const Constraints *const constraints = searches->constraints[slot];
    if (!constraints)
        return searches->ended[slot] >= searches->width;
    if (constraints->terms) /* to wait for a full beam would be long: few of its rows may end */
        return are_beyond_reach(searches, slot, constraints->wanted, searches->lengths[slot]);
    if (constraints->enough)
        return searches->ended[slot] >= constraints->enough;
    return are_beyond_reach(searches, slot, searches->width, searches->limits[slot]);
}

/* Rows for hypotheses, so that few must be copied: a parent's first child stays in its row, further
 * ones take rows whose hypotheses died. */
static void place_rows(const int64_t *parents, int64_t count, int64_t width, int64_t *rows)
{
    int64_t children[MOST_BEST / 2] = {0}, dead = width;
    for (int64_t i = 0; i < count; i++)
        children[parents[i]]++;
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

/* Let the first `width` candidates that do not end be the live hypotheses, and find the rows that
 * these have now. */
static void follow(const Searches *searches, int64_t slot, const Candidate *list, int64_t count,
                   int64_t *parents)
{
    const int64_t width = searches->width;
    Token *const tokens = tokens_of(searches, slot, searches->lengths[slot] - 1);
    int64_t live = 0;
    for (int64_t i = 0; i < count && live < width; i++) {
        const Candidate *const one = list + i;
        if (one->id == searches->end_id)
            continue;
        parents[live] = searches->rows[slot * width + one->parent];
        tokens[live] = (Token){one->id, one->parent, first_row(searches, slot) + parents[live],
                               one->log_prob};
        live++;
    }
    for (int64_t i = 0, place = 0; place < live; i++)
        if (list[i].id != searches->end_id)
            searches->scores[slot * width + place++] = list[i].score;
    searches->live[slot] = live;
}

/* One slot's step; false once its search is over. */
static int advance_slot(const Searches *searches, int64_t slot, float *scores, int64_t *parents)
{
    const Constraints *const constraints = searches->constraints[slot];
    const int has_terms = constraints && constraints->terms;
    const int is_before = is_before_branches(searches, slot);
    Candidate best[MOST_BEST], *list = best;
    int64_t count;
    if (has_terms) {
        list = find_term_candidates(searches, slot, scores, &count);
    } else {
        if (constraints)
            rank_constrained(searches, slot, scores);
        count = rank_continuations(searches, slot, list, 2 * searches->width);
    }
    searches->lengths[slot]++;
    finish_ended(searches, slot, list, count);
    if (has_terms)
        count = choose_term_candidates(searches, slot, list, count);
    const int64_t before = searches->live[slot];
    follow(searches, slot, list, count, parents);
    if (!searches->live[slot] && !searches->ended[slot]) { /* all is forbidden */
        searches->lengths[slot]--;
        searches->live[slot] = before;
        cut(searches, slot);
        return 0;
    }
    if (has_terms)
        follow_terms(searches, slot, list, searches->live[slot]);
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

/* One greedy step: the best token. False once the search is done. */
static int choose(const Searches *searches, int64_t slot)
{
    const int64_t id = searches->top_ids[slot * 2], length = ++searches->lengths[slot];
    *tokens_of(searches, slot, length - 1) = (Token){.id = id};
    return id != searches->end_id && length < searches->limits[slot];
}

/* The best continuations of slots without constraints, of a step's scores: `top_*` of their rows. Of
 * greedy searches, the best tokens. */
void dragoman_rank_plain(const Searches *searches, const float *scores)
{
    const int64_t width = searches->width, panels = searches->panels, top = 2 * width;
    for (int64_t slot = 0; slot < searches->slots; slot++) {
        if (searches->constraints[slot])
            continue;
        for (int64_t place = 0; place < searches->live[slot]; place++) {
            const int64_t row = slot * width + searches->rows[slot * width + place];
            const float *const of_row = scores + row * panels * (PANEL + 1);
            if (width == 1)
                dragoman_argmax(of_row, 1, panels, searches->top_ids + row * top);
            else
                dragoman_best(of_row, 1, panels, top, searches->top_scores + row * top,
                              searches->top_ids + row * top);
        }
    }
}

/* One slot's step, and what its rows read next; false once its search is over. */
int advance_search(const Searches *searches, int64_t slot, float *scores, Next *next)
{
    int64_t parents[MOST_BEST / 2];
    const int64_t first = slot * searches->width;
    const int is_greedy = searches->width == 1 && !searches->constraints[slot];
    if (!(is_greedy ? choose(searches, slot) : advance_slot(searches, slot, scores, parents)))
        return 0;
    const int64_t length = searches->lengths[slot];
    const Token *const tokens = tokens_of(searches, slot, length - 1);
    for (int64_t place = 0; place < searches->live[slot]; place++) {
        const int64_t row = searches->rows[first + place];
        next->ids[first + row] = tokens[place].id;
        if (!is_greedy && row != parents[place])
            add_copy(next, first + parents[place], first + row, length);
    }
    return 1;
}

/* Let a slot have another one's search. */
static void move_search(Searches *searches, int64_t last, int64_t slot)
{
    const int64_t width = searches->width, length = searches->lengths[last];
    const int64_t history = searches->capacity * width;
#define MOVE(array, size, count)                                                                 \
    memcpy((void *)(searches->array + slot * (size)), searches->array + last * (size),           \
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

/* Forget a sentence's searches; the last one's take their slots. */
void dragoman_leave_search(Searches *searches, int64_t sentence)
{
    const int64_t branches = searches->branches;
    const int64_t slot = sentence * branches, last = searches->slots - branches;
    searches->slots = last;
    for (int64_t i = 0; slot != last && i < branches; i++)
        move_search(searches, last + i, slot + i);
}

/* What a search that is done has found, the best at rank 0; of its tokens [limit] the ids, the
 * log-probabilities and the rows from whose scores they were chosen, behind them those of the end
 * symbol. Greedy search finds one, other searches `kept`. */
void dragoman_result(const Searches *searches, int64_t slot, int64_t rank, int32_t *ids,
                     float *log_probs, int32_t *rows, Found *found)
{
    const int64_t width = searches->width;
    Finished best;
    if (width == 1 && !searches->constraints[slot]) {
        const int64_t length = searches->lengths[slot];
        const int complete = tokens_of(searches, slot, length - 1)->id == searches->end_id;
        best = (Finished){.length = length - complete, .complete = complete};
    } else {
        best = searches->finished[slot * width + rank];
    }
    *found = (Found){best.length, best.complete, best.log_prob};
    log_probs[best.length] = best.end_log_prob;
    rows[best.length] = best.end_row;
    for (int64_t step = best.length - 1, place = best.place; step >= 0; step--) {
        const Token *const token = tokens_of(searches, slot, step) + place;
        ids[step] = token->id;
        log_probs[step] = token->log_prob;
        rows[step] = token->row;
        place = token->parent;
    }
}
