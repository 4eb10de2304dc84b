/* The best tokens of a row of scores, found through the largest score of each panel. */
#include <immintrin.h>
#include <math.h>

#include "kernels.h"
#include "vectors.h"

typedef struct {
    float value;
    int64_t index;
} Ranked;

/* Put a value into a list in falling order; of equal ones the first to come stays first. */
static inline void rank(Ranked *list, int64_t count, float value, int64_t index)
{
    if (!(value > list[count - 1].value))
        return;
    int64_t place = count - 1;
    for (; place > 0 && value > list[place - 1].value; place--)
        list[place] = list[place - 1];
    list[place] = (Ranked){value, index};
}

static void clear(Ranked *list, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        list[i] = (Ranked){-INFINITY, 0};
}

static void rank_all(Ranked *list, int64_t count, const float *values, int64_t length,
                     int64_t first)
{
    for (int64_t i = 0; i < length; i += 16) {
        const __mmask16 rest = length - i < 16 ? (__mmask16)((1 << (length - i)) - 1) : 0xffff;
        const __m512 sixteen = _mm512_mask_loadu_ps(_mm512_set1_ps(-INFINITY), rest, values + i);
        const __m512 least = _mm512_set1_ps(list[count - 1].value);
        unsigned above = _mm512_cmp_ps_mask(sixteen, least, _CMP_GT_OQ);
        for (; above; above &= above - 1) {
            const int64_t place = i + __builtin_ctz(above);
            rank(list, count, values[place], first + place);
        }
    }
}

/* The panels that hold the `count` best scores: no more than those with the largest maxima. */
static int64_t best_panels(const float *largest, int64_t panels, int64_t count, Ranked *found)
{
    const int64_t wanted = count < panels ? count : panels;
    clear(found, wanted);
    rank_all(found, wanted, largest, panels, 0);
    /* In their order in the vocabulary, so that of equal scores the first token wins. */
    for (int64_t i = 1; i < wanted; i++)
        for (int64_t j = i; j > 0 && found[j - 1].index > found[j].index; j--) {
            const Ranked swapped = found[j];
            found[j] = found[j - 1];
            found[j - 1] = swapped;
        }
    return wanted;
}

/* Ids [N] of the largest of scores that `dragoman_step` made. */
void dragoman_likeliest(const float *scores, int64_t rows, int64_t panels, int64_t *ids)
{
    for (int64_t row = 0; row < rows; row++, scores += panels * PANEL + panels) {
        Ranked panel, token;
        best_panels(scores + panels * PANEL, panels, 1, &panel);
        const int64_t first = panel.index * PANEL;
        clear(&token, 1);
        rank_all(&token, 1, scores + first, PANEL, first);
        ids[row] = token.index;
    }
}

/* Log-probabilities [N, count] of the best tokens, best first, and their ids [N, count], of scores
 * that `dragoman_step` made; `count` is at most MOST_BEST, and at most the size of the vocabulary. */
void dragoman_best(const float *scores, int64_t rows, int64_t panels, int64_t count,
                   float *log_probs, int64_t *ids)
{
    for (int64_t row = 0; row < rows; row++, scores += panels * PANEL + panels) {
        Ranked chosen[MOST_BEST], tokens[MOST_BEST];
        const int64_t number = best_panels(scores + panels * PANEL, panels, count, chosen);
        clear(tokens, count);
        for (int64_t i = 0; i < number; i++) {
            const int64_t first = chosen[i].index * PANEL;
            rank_all(tokens, count, scores + first, PANEL, first);
        }
        const __m512 most = _mm512_set1_ps(tokens[0].value);
        __m512 sum = _mm512_setzero_ps();
        for (int64_t i = 0; i < panels * PANEL; i += 16)
            sum = _mm512_add_ps(sum,
                                exponential(_mm512_sub_ps(_mm512_loadu_ps(scores + i), most)));
        const float log_sum = logf(_mm512_reduce_add_ps(sum)) + tokens[0].value;
        for (int64_t i = 0; i < count; i++) {
            log_probs[row * count + i] = tokens[i].value - log_sum;
            ids[row * count + i] = tokens[i].index;
        }
    }
}
