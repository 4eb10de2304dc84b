/* Apply a request's constraints to a row of scores before a token is chosen. */
#include <math.h>
#include <string.h>

#include "constraints.h"
#include "best.h"
#include "bounds.h"
#include "model.h"
#include "sampling.h"
#include "vec.h"

static float *panel_of(float *scores, int64_t panels, int64_t id)
{
    return scores + panels * PANEL + id / PANEL;
}

static void set_score(float *scores, int64_t panels, int64_t id, float score)
{
    ASSERT_INDEX(id, panels * PANEL);
    scores[id] = score;
    *panel_of(scores, panels, id) = largest_of(scores + id / PANEL * PANEL, PANEL);
}

/* An id below 0 is a symbol that is not in the vocabulary. */
static void forbid(float *scores, int64_t panels, int64_t id)
{
    assert(id < panels * PANEL);
    if (id >= 0 && scores[id] > -INFINITY)
        set_score(scores, panels, id, -INFINITY);
}

/* Write the tokens of the live hypothesis at `index` to `searches->history`. Returns how
 * many. */
static int64_t read_history(const Searches *searches, int64_t slot, int64_t index)
{
    ASSERT_INDEX(slot, searches->slots);
    ASSERT_INDEX(index, searches->live[slot]);
    ASSERT_INDEX(searches->lengths[slot], searches->capacity);
    const int64_t length = searches->lengths[slot];
    const Token *const tokens = searches->tokens + slot * searches->capacity * searches->width;
    for (int64_t step = length - 1; step >= 0; step--) {
        const Token *const token = tokens + step * searches->width + index;
        searches->history[step] = token->id;
        index = token->parent;
    }
    return length;
}

/* The number to subtract from a row's scores to get log-probabilities. */
static float log_sum_of_row(const Searches *searches, const float *scores)
{
    const int64_t panels = searches->panels;
    return log_sum_of_panels(scores, panels, largest_of(scores + panels * PANEL, panels));
}

/* Multiply the log-probability of every token that occurred before, once per token.
 *
 * Source: Keskar et al. 2019, section 4.1, https://arxiv.org/abs/1909.05858, but with
 * log-probabilities: unlike scores, they do not depend on a constant added to the row. */
static void penalise(const Searches *searches, double penalty, int64_t length, float *scores,
                     float log_sum)
{
    const int32_t *const history = searches->history;
    for (int64_t i = 0; i < length; i++)
        searches->history_scores[i] = scores[history[i]];
    for (int64_t i = 0; i < length; i++) {
        int64_t first = 0;
        while (history[first] != history[i])
            first++;
        if (first == i)
            set_score(scores, searches->panels, history[i],
                      (scores[history[i]] - log_sum) * (float)penalty + log_sum);
    }
}

/* Forbid every token that would complete an n-gram that occurred before. */
static void forbid_ngrams(const Searches *searches, int64_t size, int64_t length, float *scores)
{
    const int32_t *const history = searches->history, *const last = history + length - (size - 1);
    for (int64_t i = 0; i + size <= length; i++)
        if (!memcmp(history + i, last, (size - 1) * sizeof *history))
            forbid(scores, searches->panels, history[i + size - 1]);
}

/* Whether the text of the tokens ends with the expected characters; if they begin with a letter or
 * digit, not in the middle of a word. */
static int ends_with(const Suppressed *suppressed, const int32_t *ids, int64_t length,
                     const int32_t *expected, int64_t count)
{
    const int32_t not_after = count ? expected[0] & 1 : 1;
    for (int64_t i = length - 1; i >= 0; i--) {
        const int32_t *const begin = suppressed->text + suppressed->text_begins[ids[i]];
        const int32_t *at = suppressed->text + suppressed->text_begins[ids[i] + 1];
        while (at-- > begin) {
            if (count == 0)
                return !(*at & not_after);
            if (*at != expected[--count])
                return 0;
        }
    }
    return count == 0;
}

/* Forbid every token that would complete a suppressed word. */
static void forbid_words(const Searches *searches, const Suppressed *suppressed, int64_t length,
                         float *scores)
{
    for (int64_t i = 0; i < suppressed->always; i++)
        forbid(scores, searches->panels, suppressed->always_ids[i]);
    for (int64_t i = 0; i < suppressed->beginnings; i++) {
        const int64_t begin = suppressed->beginning_begins[i];
        if (!ends_with(suppressed, searches->history, length, suppressed->beginning_text + begin,
                       suppressed->beginning_begins[i + 1] - begin))
            continue;
        for (int64_t id = suppressed->ids_begins[i]; id < suppressed->ids_begins[i + 1]; id++)
            forbid(scores, searches->panels, suppressed->ids[id]);
    }
}

/* Forbid all tokens except one. */
static void force(const Searches *searches, int64_t id, float *scores)
{
    ASSERT_INDEX(id, searches->panels * PANEL);
    const float score = scores[id];
    for (int64_t i = 0; i < searches->panels * (PANEL + 1); i++)
        scores[i] = -INFINITY;
    scores[id] = *panel_of(scores, searches->panels, id) = score;
}

/* Forbid the tokens that must not follow the prefix directly. */
static void forbid_first(const Searches *searches, const Constraints *constraints, float *scores)
{
    const int64_t panels = searches->panels, size = constraints->not_first_size;
    assert(size <= panels * PANEL);
    for (int64_t i = 0; i < size; i += 16) {
        const Vec penalty = v_load_first(constraints->not_first + i, size - i, 0.0f);
        v_store(scores + i, v_add(v_load(scores + i), penalty));
    }
    for (int64_t panel = 0; panel < panels; panel++)
        scores[panels * PANEL + panel] = largest_of(scores + panel * PANEL, PANEL);
}

/* Change the scores of the token after `searches->history` [length]. */
static void constrain(const Searches *searches, int64_t slot, int64_t length, float *scores,
                      float log_sum)
{
    ASSERT_INDEX(slot, searches->slots);
    ASSERT_INDEX(length, searches->capacity);
    const Constraints *const constraints = searches->constraints[slot];
    if (length < constraints->prefix_length) {
        force(searches, constraints->prefix[length], scores);
        return;
    }
    if (constraints->repetition_penalty != 1.0)
        penalise(searches, constraints->repetition_penalty, length, scores, log_sum);
    if (constraints->ngram_size && length >= constraints->ngram_size)
        forbid_ngrams(searches, constraints->ngram_size, length, scores);
    if (constraints->suppressed)
        forbid_words(searches, constraints->suppressed, length, scores);
    if (constraints->not_first && length == constraints->prefix_length)
        forbid_first(searches, constraints, scores);
    if (length < constraints->fewest)
        forbid(scores, searches->panels, searches->end_id);
}

/* The best tokens by the changed scores of a row, or the sampled one. */
static void choose_tokens(const Searches *searches, const Constraints *constraints, int64_t length,
                          const float *scores, Ranked *tokens, int64_t count)
{
    if (!constraints->numbers) {
        best_tokens(scores, searches->panels, count, tokens);
        return;
    }
    const int64_t id = sample(searches, constraints, constraints->numbers[length], scores);
    tokens[0] = (Ranked){id < 0 ? -INFINITY : scores[id], id};
    for (int64_t i = 1; i < count; i++)
        tokens[i] = (Ranked){-INFINITY, 0};
}

/* The model's own score of a token, before `constrain` multiplied it. */
static float model_score(const Searches *searches, int64_t slot, int64_t length, Ranked token)
{
    const Constraints *const constraints = searches->constraints[slot];
    if (constraints->repetition_penalty == 1.0 || length < constraints->prefix_length)
        return token.value;
    for (int64_t i = 0; i < length; i++)
        if (searches->history[i] == token.index)
            return searches->history_scores[i];
    return token.value;
}

/* Write the best continuations of a slot's live hypotheses under its constraints to `top_*` of its
 * rows. */
void rank_constrained(const Searches *searches, int64_t slot, float *scores)
{
    const Constraints *const constraints = searches->constraints[slot];
    const int64_t panels = searches->panels, count = 2 * searches->width;
    for (int64_t index = 0; index < searches->live[slot]; index++) {
        const int64_t row = slot * searches->width + searches->rows[slot * searches->width + index];
        float *const of_row = scores + row * panels * (PANEL + 1);
        const int64_t length = read_history(searches, slot, index);
        Ranked tokens[MOST_BEST];
        const float log_sum = constraints->scored ? log_sum_of_row(searches, of_row) : 0.0f;
        constrain(searches, slot, length, of_row, log_sum);
        choose_tokens(searches, constraints, length, of_row, tokens, count);
        for (int64_t i = 0; i < count; i++) {
            searches->top_scores[row * count + i] = tokens[i].value - log_sum;
            searches->top_ids[row * count + i] = tokens[i].index;
            searches->top_log_probs[row * count + i] =
                model_score(searches, slot, length, tokens[i]) - log_sum;
        }
    }
}
