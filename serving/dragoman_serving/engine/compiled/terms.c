/* Constrained beam search: the translations contain given terms.
 *
 * Hypotheses that have begun equally many terms form a bank. The banks take rows in turn, so that
 * some hypotheses continue freely while others begin a term at every position. A term that has
 * begun is continued to its end. Its further tokens do not count in comparisons: they cost about
 * the same everywhere, and hypotheses without the term would win.
 *
 * Source: Hokamp and Liu 2017, https://aclanthology.org/P17-1141, with dynamic beam allocation as
 * in Post and Vilar 2018, https://aclanthology.org/N18-1119.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "terms.h"
#include "bounds.h"
#include "constraints.h"
#include "model.h"
#include "vec.h"

/* A live hypothesis's progress with the terms. */
typedef struct {
    int32_t term, position; /* the term that it is inside of (-1: none), and its tokens so far */
    int32_t just_met;       /* whether its last token completed a term */
    int32_t met;            /* how many are complete */
    int32_t same;           /* index of the first hypothesis with the same tokens */
    float forced;           /* sum over forced tokens */
} Progress;

typedef struct {
    Progress *progress; /* [W] */
    uint64_t *bits;     /* [W, words], complete terms */
    Progress *next_progress;
    uint64_t *next_bits;
    int32_t *turns;     /* [N + 1] */
    Continuation *list; /* [W x (2W + N)] */
    int64_t words;
} State;

static int64_t lay_out(int64_t width, int64_t terms, char *memory, State *state)
{
    int64_t used = 0;
    state->words = (terms + 63) / 64;
#define RESERVE(pointer, number) \
    (pointer) = (void *)(memory + used), used += ((number) * (int64_t)sizeof *(pointer) + 7) / 8 * 8
    RESERVE(state->progress, width);
    RESERVE(state->bits, width * state->words);
    RESERVE(state->next_progress, width);
    RESERVE(state->next_bits, width * state->words);
    RESERVE(state->turns, terms + 1);
    RESERVE(state->list, width * (2 * width + terms));
#undef RESERVE
    return used;
}

/* Bytes that a search needs for its terms. The memory must be zeros at first. */
int64_t dragoman_terms_bytes(int64_t width, int64_t terms)
{
    State state;
    assert(width > 0 && terms > 0);
    return lay_out(width, terms, 0, &state);
}

static State state_of(const Searches *searches, const Terms *terms)
{
    State state;
    lay_out(searches->width, terms->count, terms->memory, &state);
    return state;
}

static int is_met(const uint64_t *bits, int64_t term) { return bits[term / 64] >> term % 64 & 1; }

static int64_t terms_length(const Terms *terms, int64_t term)
{
    return terms->begins[term + 1] - terms->begins[term];
}

/* Set a continuation's token to the next token of a term. */
static void enter_term(const Terms *terms, int64_t term, int64_t position,
                       Continuation *continuation)
{
    ASSERT_INDEX(term, terms->count);
    ASSERT_INDEX(position, terms_length(terms, term));
    ASSERT_INDEX(terms->ids[terms->begins[term] + position], terms->vocab_size);
    const int is_last = position + 1 == terms_length(terms, term);
    continuation->id = terms->ids[terms->begins[term] + position];
    continuation->term = is_last ? -1 : term;
    continuation->position = is_last ? 0 : position + 1;
    continuation->completes = is_last ? term : -1;
    continuation->just_met = is_last;
}

/* Whether a term may begin. Of equal terms, each an occurrence of its own, the first begins
 * first. */
static int may_begin(const Terms *terms, const uint64_t *bits, int64_t term)
{
    if (is_met(bits, term) || (terms->after[term] >= 0 && !is_met(bits, terms->after[term])))
        return 0;
    for (int64_t twin = terms->twins[term]; twin < term; twin++)
        if (terms->twins[twin] == terms->twins[term] && !is_met(bits, twin))
            return 0;
    return 1;
}

static void forbid_continuing(const Terms *terms, int64_t panels, float *scores)
{
    for (int64_t i = 0; i < terms->vocab_size; i += 16) {
        const Vec penalty = v_load_first(terms->continuing + i, terms->vocab_size - i, 0.0f);
        v_store(scores + i, v_add(v_load(scores + i), penalty));
    }
    for (int64_t panel = 0; panel < panels; panel++)
        scores[panels * PANEL + panel] = largest_of(scores + panel * PANEL, PANEL);
}

/* Inside a term, only the next token of the term may follow. */
static Continuation *add_forced(const Terms *terms, const Progress *progress, Continuation from,
                                const float *scores, float log_sum, Continuation *end)
{
    *end = from;
    enter_term(terms, progress->term, progress->position, end);
    end->log_prob = scores[end->id] - log_sum;
    end->forced += end->log_prob;
    return end + 1;
}

/* The first token of every term that may begin. */
static Continuation *add_beginnings(const Terms *terms, const uint64_t *bits, Continuation from,
                                    const float *scores, float log_sum, Continuation *end)
{
    for (int64_t term = 0; term < terms->count; term++) {
        if (!may_begin(terms, bits, term))
            continue;
        *end = from;
        enter_term(terms, term, 0, end);
        end->order += term;
        end->log_prob = scores[end->id] - log_sum;
        end->score += end->log_prob;
        end++;
    }
    return end;
}

/* The best tokens under the other constraints. Scores are changed. */
static Continuation *add_free(const Searches *searches, int64_t slot, const Progress *progress,
                              Continuation from, int64_t length, float *scores, float log_sum,
                              Continuation *end)
{
    const Constraints *const constraints = searches->constraints[slot];
    const int64_t panels = searches->panels, count = 2 * searches->width;
    Ranked tokens[MOST_BEST];
    constrain(searches, slot, length, scores, log_sum);
    if (progress->just_met)
        forbid_continuing(constraints->terms, panels, scores);
    if (progress->met < constraints->terms->count)
        forbid(scores, panels, searches->end_id);
    best_tokens(scores, panels, count, tokens);
    for (int64_t i = 0; i < count && tokens[i].value > -INFINITY; i++) {
        *end = from;
        end->id = tokens[i].index;
        end->order += i;
        end->log_prob = model_score(searches, slot, length, tokens[i]) - log_sum;
        end->score += tokens[i].value - log_sum;
        end++;
    }
    return end;
}

static int by_score(const void *first, const void *second)
{
    const Continuation *const a = first, *const b = second;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static int by_turn(const void *first, const void *second)
{
    const Continuation *const a = first, *const b = second;
    if (a->turn != b->turn)
        return a->turn < b->turn ? -1 : 1;
    return a->bank > b->bank ? -1 : a->bank < b->bank;
}

static int has_met(const State *state, const Continuation *continuation, int64_t term)
{
    return continuation->completes == term ||
           is_met(state->bits + continuation->parent * state->words, term);
}

/* Whether two continuations have the same tokens and the same terms. */
static int is_same(const State *state, int64_t terms, const Continuation *continuation,
                   const Continuation *other)
{
    if (continuation->id != other->id || continuation->term != other->term ||
        continuation->position != other->position ||
        state->progress[continuation->parent].same != state->progress[other->parent].same)
        return 0;
    for (int64_t term = 0; term < terms; term++)
        if (has_met(state, continuation, term) != has_met(state, other, term))
            return 0;
    return 1;
}

/* Keep the best of equal continuations. They occur because the same tokens may be a term, or free
 * tokens. A word may continue after the kept continuation if it may after any of them. Returns how many are
 * left. */
static int64_t merge(const State *state, int64_t terms, int64_t count)
{
    int64_t left = 0;
    for (int64_t i = 0; i < count; i++) {
        const Continuation *const continuation = state->list + i;
        int64_t known = 0;
        while (known < left && !is_same(state, terms, state->list + known, continuation))
            known++;
        if (known < left)
            state->list[known].just_met &= continuation->just_met;
        else
            state->list[left++] = *continuation;
    }
    return left;
}

/* The continuations of a slot's live hypotheses, best first. */
Continuation *find_term_continuations(const Searches *searches, int64_t slot, float *scores,
                                      int64_t *count)
{
    ASSERT_INDEX(slot, searches->slots);
    const Constraints *const constraints = searches->constraints[slot];
    const Terms *const terms = constraints->terms;
    const State state = state_of(searches, terms);
    assert(terms->vocab_size <= searches->panels * PANEL);
    const int64_t width = searches->width, panels = searches->panels;
    Continuation *end = state.list;
    if (searches->lengths[slot] == 0)
        state.progress[0].term = -1; /* the memory begins as zeros */
    for (int64_t index = 0; index < searches->live[slot]; index++) {
        const Progress *const progress = state.progress + index;
        const uint64_t *const bits = state.bits + index * state.words;
        const int64_t row = slot * width + searches->rows[slot * width + index];
        float *const of_row = scores + row * panels * (PANEL + 1);
        const int64_t length = read_history(searches, slot, index);
        Continuation from = {.score = searches->scores[slot * width + index],
                             .forced = progress->forced,
                             .parent = index,
                             .order = index * (2 * width + terms->count),
                             .term = -1,
                             .completes = -1};
        const float log_sum = log_sum_of_row(searches, of_row);
        if (progress->term >= 0) {
            end = add_forced(terms, progress, from, of_row, log_sum, end);
            continue;
        }
        if (length >= constraints->prefix_length) {
            from.order += 2 * width; /* after the free ones */
            end = add_beginnings(terms, bits, from, of_row, log_sum, end);
            from.order -= 2 * width;
        }
        end = add_free(searches, slot, progress, from, length, of_row, log_sum, end);
    }
    *count = end - state.list;
    qsort(state.list, *count, sizeof *state.list, by_score);
    *count = merge(&state, terms->count, *count);
    for (int64_t i = 0; i < *count; i++) {
        Continuation *const continuation = state.list + i;
        continuation->bank = state.progress[continuation->parent].met +
                             (continuation->completes >= 0) + (continuation->term >= 0);
    }
    return state.list;
}

/* Move the continuations that stay in the beam to the front, best first. Returns how many. */
int64_t choose_term_continuations(const Searches *searches, int64_t slot, Continuation *list,
                                  int64_t count)
{
    const State state = state_of(searches, searches->constraints[slot]->terms);
    int64_t going_on = 0;
    memset(state.turns, 0, (searches->constraints[slot]->terms->count + 1) * sizeof *state.turns);
    for (int64_t i = 0; i < count; i++)
        if (list[i].id != searches->end_id) {
            ASSERT_INDEX(list[i].bank, searches->constraints[slot]->terms->count + 1);
            list[going_on] = list[i];
            list[going_on].turn = state.turns[list[i].bank]++;
            going_on++;
        }
    qsort(list, going_on, sizeof *list, by_turn);
    const int64_t chosen = going_on < searches->width ? going_on : searches->width;
    for (int64_t i = 0; i < chosen; i++)
        list[i].order = i;
    qsort(list, chosen, sizeof *list, by_score);
    return chosen;
}

/* Make the chosen continuations the live hypotheses. */
void follow_terms(const Searches *searches, int64_t slot, const Continuation *chosen, int64_t count)
{
    const State state = state_of(searches, searches->constraints[slot]->terms);
    for (int64_t i = 0; i < count; i++) {
        const Continuation *const continuation = chosen + i;
        const Progress *const parent = state.progress + continuation->parent;
        uint64_t *const bits = state.next_bits + i * state.words;
        memcpy(bits, state.bits + continuation->parent * state.words, state.words * sizeof *bits);
        if (continuation->completes >= 0)
            bits[continuation->completes / 64] |= 1ull << continuation->completes % 64;
        int32_t same = 0;
        while (chosen[same].id != continuation->id ||
               state.progress[chosen[same].parent].same != parent->same)
            same++;
        state.next_progress[i] = (Progress){
            .term = continuation->term,
            .position = continuation->position,
            .just_met = continuation->just_met,
            .met = parent->met + (continuation->completes >= 0),
            .same = same,
            .forced = continuation->forced,
        };
    }
    memcpy(state.progress, state.next_progress, count * sizeof *state.progress);
    memcpy(state.bits, state.next_bits, count * state.words * sizeof *state.bits);
}

/* Number of terms that the live hypothesis at `index` has completed. */
int64_t terms_met(const Searches *searches, int64_t slot, int64_t index)
{
    return state_of(searches, searches->constraints[slot]->terms).progress[index].met;
}

/* Sum over its forced tokens. */
float forced_score(const Searches *searches, int64_t slot, int64_t index)
{
    return state_of(searches, searches->constraints[slot]->terms).progress[index].forced;
}
