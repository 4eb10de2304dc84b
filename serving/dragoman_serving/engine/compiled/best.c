/* Top-k tokens of a row of scores, found with the largest score of each panel. */
#include <math.h>

#include "best.h"
#include "bounds.h"
#include "exact.h"
#include "model.h"
#include "vec.h"

/* Insert a value into a list in descending order; among equal values the first comes first. */
static inline void rank(Ranked *list, int64_t count, float value, int64_t index)
{
    if (!(value > list[count - 1].value))
        return;
    int64_t at = count - 1;
    for (; at > 0 && value > list[at - 1].value; at--)
        list[at] = list[at - 1];
    list[at] = (Ranked){value, index};
}

/* At least one. */
static void clear(Ranked *list, int64_t count)
{
    int64_t i = 0;
    do
        list[i] = (Ranked){-INFINITY, 0};
    while (++i < count);
}

static void rank_all(Ranked *list, int64_t count, const float *values, int64_t length,
                     int64_t first)
{
    for (int64_t i = 0; i < length; i += 16) {
        const Vec sixteen = v_load_first(values + i, length - i, -INFINITY);
        const Vec least = v_set(list[count - 1].value);
        unsigned above = v_above(sixteen, least);
        for (; above; above &= above - 1) {
            const int64_t index = i + __builtin_ctz(above);
            rank(list, count, values[index], first + index);
        }
    }
}

/* The panels that can hold the `count` best scores: those with the largest maxima. */
static int64_t best_panels(const float *largest, int64_t panels, int64_t count, Ranked *best)
{
    int64_t number = count < panels ? count : panels;
    clear(best, number);
    rank_all(best, number, largest, panels, 0);
    while (number > 0 && best[number - 1].value == -INFINITY)
        number--;
    /* In the order of the vocabulary, so that the first of equal tokens wins. */
    for (int64_t i = 1; i < number; i++)
        for (int64_t j = i; j > 0 && best[j - 1].index > best[j].index; j--) {
            const Ranked swapped = best[j];
            best[j] = best[j - 1];
            best[j - 1] = swapped;
        }
    return number;
}

/* Ids [N] of the largest scores of rows from `dragoman_step`. */
void dragoman_argmax(const float *scores, int64_t rows, int64_t panels, int64_t *ids)
{
    assert(rows > 0 && panels > 0);
    for (int64_t row = 0; row < rows; row++, scores += panels * PANEL + panels) {
        Ranked panel, token;
        best_panels(scores + panels * PANEL, panels, 1, &panel);
        const int64_t first = panel.index * PANEL;
        clear(&token, 1);
        rank_all(&token, 1, scores + first, PANEL, first);
        ids[row] = token.index;
    }
}

float largest_of(const float *values, int64_t length)
{
    assert(length > 0);
    Vec most = v_set(-INFINITY);
    for (int64_t i = 0; i < length; i += 16)
        most = v_max(most, v_load_first(values + i, length - i, -INFINITY));
    return v_largest(most);
}

/* Logarithm of the sum of exponentials of scores [length]; `most` is the largest score. */
float log_sum_of(const float *scores, int64_t length, float most)
{
    const Vec largest = v_set(most);
    Vec sum = v_zero();
    for (int64_t i = 0; i < length; i += 16) {
        const Vec sixteen = v_load_first(scores + i, length - i, -INFINITY);
        sum = v_add(sum, v_exp(v_sub(sixteen, largest)));
    }
    return (float)exact_log(v_sum(sum)) + most;
}

/* The same for a row of scores followed by the largest of each panel. Skips panels without tokens. */
float log_sum_of_panels(const float *scores, int64_t panels, float most)
{
    const Vec largest = v_set(most);
    Vec sum = v_zero();
    for (int64_t panel = 0; panel < panels; panel++) {
        if (scores[panels * PANEL + panel] == -INFINITY)
            continue;
        for (int64_t i = panel * PANEL; i < (panel + 1) * PANEL; i += 16)
            sum = v_add(sum, v_exp(v_sub(v_load(scores + i), largest)));
    }
    return (float)exact_log(v_sum(sum)) + most;
}

/* Log-probabilities [N, length] of scores with `stride` between rows. */
void dragoman_log_softmax(const float *scores, int64_t rows, int64_t stride, int64_t length,
                          float *log_probs)
{
    assert(rows >= 0 && length > 0 && stride >= length);
    for (int64_t row = 0; row < rows; row++, scores += stride, log_probs += length) {
        const float sum = log_sum_of(scores, length, largest_of(scores, length));
        for (int64_t i = 0; i < length; i++)
            log_probs[i] = scores[i] - sum;
    }
}

/* Words of a shortlist for all tokens of a number of panels. */
static int64_t words_of(int64_t panels) { return (panels * (PANEL / 16) + 63) / 64; }

static int64_t listed_vectors(const uint64_t *shortlist, int64_t panels)
{
    int64_t vectors = 0;
    for (int64_t word = 0; word < words_of(panels); word++)
        vectors += __builtin_popcountll(shortlist[word]);
    return vectors;
}

/* How many panels a row has, of `panels` for all tokens. */
int64_t panels_of(const uint64_t *shortlist, int64_t panels)
{
    if (!shortlist)
        return panels;
    return (16 * listed_vectors(shortlist, panels) + PANEL - 1) / PANEL;
}

/* The token whose score has an index in a row. */
int64_t token_at(const uint64_t *shortlist, int64_t index)
{
    if (!shortlist)
        return index;
    int64_t before = index / 16, word = 0;
    for (; before >= __builtin_popcountll(shortlist[word]); word++)
        before -= __builtin_popcountll(shortlist[word]);
    uint64_t left = shortlist[word];
    for (; before > 0; before--)
        left &= left - 1;
    return (word * 64 + __builtin_ctzll(left)) * 16 + index % 16;
}

/* Complete a row whose scores are followed by `end`. */
void end_row(float *row, float *end)
{
    for (; (end - row) % PANEL; end += 16)
        v_store(end, v_set(-INFINITY));
    for (int64_t panel = 0; row + panel * PANEL < end; panel++)
        end[panel] = largest_of(row + panel * PANEL, PANEL);
}

/* Give a row of listed scores those of all tokens, -inf for the others. */
void spread_listed(const uint64_t *shortlist, int64_t panels, float *row)
{
    const int64_t vectors = panels * PANEL / 16;
    int64_t listed = listed_vectors(shortlist, panels);
    for (int64_t vector = vectors - 1; vector >= 0; vector--) {
        const int is_listed = shortlist[vector / 64] >> vector % 64 & 1;
        listed -= is_listed;
        v_store(row + 16 * vector, is_listed ? v_load(row + 16 * listed) : v_set(-INFINITY));
    }
    end_row(row, row + 16 * vectors);
}

/* Write scores [length] in the layout of a step: padded with -inf to whole panels, followed by the
 * largest of each panel. */
void dragoman_lay_out(const float *scores, int64_t length, int64_t panels, float *row)
{
    ASSERT_INDEX(length - 1, panels * PANEL);
    for (int64_t i = 0; i < panels * PANEL; i += 16)
        v_store(row + i,
                i < length ? v_load_first(scores + i, length - i, -INFINITY) : v_set(-INFINITY));
    end_row(row, row + panels * PANEL);
}

/* The `count` best tokens of a row, best first; among equal ones the first. If fewer are above
 * -inf, the rest has -inf. */
void best_tokens(const float *scores, int64_t panels, int64_t count, Ranked *tokens)
{
    ASSERT_INDEX(count - 1, MOST_BEST);
    assert(panels > 0);
    Ranked chosen[MOST_BEST];
    const int64_t number = best_panels(scores + panels * PANEL, panels, count, chosen);
    clear(tokens, count);
    for (int64_t i = 0; i < number; i++) {
        const int64_t first = chosen[i].index * PANEL;
        rank_all(tokens, count, scores + first, PANEL, first);
    }
}

/* Log-probabilities [N, count] and ids [N, count] of the best tokens, best first, of rows from
 * `dragoman_step`; `count` is at most MOST_BEST and at most the size of the vocabulary. */
void dragoman_best(const float *scores, int64_t rows, int64_t panels, int64_t count,
                   float *log_probs, int64_t *ids)
{
    assert(rows > 0);
    for (int64_t row = 0; row < rows; row++, scores += panels * PANEL + panels) {
        Ranked tokens[MOST_BEST];
        best_tokens(scores, panels, count, tokens);
        const float log_sum = log_sum_of_panels(scores, panels, tokens[0].value);
        for (int64_t i = 0; i < count; i++) {
            log_probs[row * count + i] = tokens[i].value - log_sum;
            ids[row * count + i] = tokens[i].index;
        }
    }
}
