/* A token sampled from a row of scores, after temperature, top-k and top-p.
 *
 * Of the weights, only the sum of each panel is stored: top-k needs only the largest scores, the
 * choice of a token only one panel, and top-p only the weight of the tokens before the chosen one.
 */
#include <math.h>

#include "sampling.h"
#include "best.h"
#include "bounds.h"
#include "model.h"
#include "vec.h"

enum { FEW = 48 /* up to this many scores are taken one by one */ };

/* A row of scores in panels. A weight is proportional to the probability at a temperature. */
typedef struct {
    const float *scores;
    const float *largest; /* [panels] */
    int64_t panels;
    float most, factor; /* the largest score; 1 / temperature */
} ScoreRow;

/* A position in the order of descending scores; equal ones are in the order of their ids. Tokens before
 * it have a score above `limit`, or equal to it and an id below `end`. */
typedef struct {
    float limit, lower; /* `lower` is the number before `limit` */
    int64_t end;
} Cutoff;

static Cutoff cutoff_at(float limit, int64_t end)
{
    return (Cutoff){limit, nextafterf(limit, -INFINITY), end};
}

/* Panels with a score above a limit, as 16 bits from panel `first` on. */
static unsigned panels_above(const ScoreRow *row, int64_t first, float limit)
{
    const Vec tops = v_load_first(row->largest + first, row->panels - first, -INFINITY);
    return v_above(tops, v_set(limit));
}

/* Number of scores above a limit. */
static int64_t count_above(const ScoreRow *row, float limit)
{
    const Vec limits = v_set(limit);
    int64_t count = 0;
    for (int64_t first = 0; first < row->panels; first += 16)
        for (unsigned above = panels_above(row, first, limit); above; above &= above - 1) {
            const float *const panel = row->scores + (first + __builtin_ctz(above)) * PANEL;
            for (int64_t i = 0; i < PANEL; i += 16)
                count += __builtin_popcount(v_above(v_load(panel + i), limits));
        }
    return count;
}

/* The largest score of a panel below a limit. Counts the scores that equal the limit. */
static float find_below(const float *panel, float limit, int64_t *ties)
{
    const Vec limits = v_set(limit), none = v_set(-INFINITY);
    Vec most = none;
    *ties = 0;
    for (int64_t i = 0; i < PANEL; i += 16) {
        const Vec scores = v_load(panel + i);
        const unsigned unequal = v_above(scores, limits) | v_above(limits, scores);
        *ties += __builtin_popcount(~unequal & 0xffff);
        most = v_max(most, v_if_less(scores, limits, scores, none));
    }
    return v_largest(most);
}

/* The first panel whose top is at least `value`; there must be one. */
static int64_t find_panel(const float *tops, int64_t panels, float value)
{
    const Vec limit = v_set(value);
    int64_t first = 0;
    unsigned below;
    while ((below = v_above(limit, v_load_first(tops + first, panels - first, -INFINITY))) ==
           0xffff)
        first += 16;
    return first + __builtin_ctz(~below);
}

/* The id after the first `count` scores of a panel that equal a value. Ends with the panel, even if
 * there are fewer, because of NaN. */
static int64_t end_of(const float *scores, int64_t panel, float value, int64_t count)
{
    int64_t id = panel * PANEL;
    while (count > 0 && id < (panel + 1) * PANEL)
        count -= scores[id++] == value;
    return id;
}

/* The cutoff after the first `count` tokens, or after all above -inf. `taken` of them have a score
 * above `high`; the others are taken one by one. `tops` [panels] is scratch, for the largest
 * remaining score of each panel. */
static Cutoff descend(const ScoreRow *row, int64_t count, float high, int64_t taken, float *tops)
{
    const float limit = nextafterf(high, INFINITY);
    int64_t ties;
    for (int64_t i = 0; i < row->panels; i++)
        tops[i] = row->largest[i] > high ? find_below(row->scores + i * PANEL, limit, &ties)
                                         : row->largest[i];
    for (;;) {
        const float score = largest_of(tops, row->panels);
        if (score == -INFINITY)
            return cutoff_at(-INFINITY, 0);
        const int64_t panel = find_panel(tops, row->panels, score);
        tops[panel] = find_below(row->scores + panel * PANEL, score, &ties);
        if (taken + ties >= count)
            return cutoff_at(score, end_of(row->scores, panel, score, count - taken));
        taken += ties;
    }
}

/* A limit below another one. The step grows with the distance from the largest score. */
static float step_down(const ScoreRow *row, float limit)
{
    return limit > row->most - 1e6f ? 2.0f * limit - row->most - 1.0f : -INFINITY;
}

/* A limit between two others, by linear interpolation of the numbers of scores above them. It keeps
 * a distance from both so that the search ends. */
static float between(float high, float low, int64_t above_high, int64_t above_low, int64_t count)
{
    if (low == -INFINITY)
        return high - fabsf(high) - 1.0f;
    float part = (float)(count - above_high) / (float)(above_low - above_high);
    part = part > 0.05f ? part : 0.05f;
    part = part < 0.95f ? part : 0.95f;
    return high + (low - high) * part;
}

/* The cutoff after the first `count` tokens. If they are many, a search by limits skips most of
 * them. */
static Cutoff cutoff_after(const ScoreRow *row, int64_t count, float *tops)
{
    float high = row->most, low = high;
    int64_t above_high = 0, above_low = 0;
    while (count > FEW && above_low < count && low > -INFINITY) {
        high = low, above_high = above_low;
        low = step_down(row, low);
        above_low = count_above(row, low);
    }
    while (above_low - above_high > FEW) {
        const float middle = between(high, low, above_high, above_low, count);
        if (!(middle > low && middle < high))
            break; /* all are equal to the upper limit */
        const int64_t above = count_above(row, middle);
        if (above >= count)
            low = middle, above_low = above;
        else
            high = middle, above_high = above;
    }
    return descend(row, count, high, above_high, tops);
}

/* Weights of 16 scores, zero for those that are not before a cutoff. */
INLINE Vec weigh(const ScoreRow *row, Cutoff cutoff, int64_t first)
{
    const Vec scores = v_load(row->scores + first);
    const Vec above_most = v_sub(scores, v_set(row->most));
    const Vec weights = v_exp(v_mul(above_most, v_set(row->factor)));
    Vec limits = v_set(first < cutoff.end ? cutoff.lower : cutoff.limit);
    if (first < cutoff.end && cutoff.end < first + 16) {
        float each[16];
        for (int64_t i = 0; i < 16; i++)
            each[i] = first + i < cutoff.end ? cutoff.lower : cutoff.limit;
        limits = v_load(each);
    }
    return v_if_less(limits, scores, weights, v_zero());
}

/* Sum of each panel's weights before a cutoff. Returns the sum of all. */
static double sum_panels(const ScoreRow *row, Cutoff cutoff, float *sums)
{
    double whole = 0.0;
    for (int64_t first = 0; first < row->panels; first += 16) {
        Vec of_panels[16];
        for (int64_t i = 0; i < 16; i++)
            of_panels[i] = v_zero();
        for (unsigned above = panels_above(row, first, cutoff.lower); above; above &= above - 1) {
            const int64_t panel = __builtin_ctz(above);
            Vec sum = v_zero();
            for (int64_t i = 0; i < PANEL; i += 16)
                sum = v_add(sum, weigh(row, cutoff, (first + panel) * PANEL + i));
            of_panels[panel] = sum;
        }
        v_store_first(sums + first, row->panels - first, v_sum_each(of_panels));
    }
    for (int64_t panel = 0; panel < row->panels; panel++)
        whole += sums[panel];
    return whole;
}

/* The token before a cutoff at which the cumulative weight, by id, exceeds a target. */
static int64_t pick(const ScoreRow *row, Cutoff cutoff, const float *sums, double target)
{
    double sum = 0.0;
    int64_t last = 0, token = 0;
    float weights[PANEL];
    for (int64_t panel = 0; panel < row->panels; panel++) {
        if (sums[panel] > 0.0f)
            last = panel; /* needed if the target exceeds all of them by rounding */
        if (sum + sums[panel] > target)
            break;
        sum += sums[panel];
    }
    for (int64_t i = 0; i < PANEL; i += 16)
        v_store(weights + i, weigh(row, cutoff, last * PANEL + i));
    for (int64_t i = 0; i < PANEL; i++) {
        sum += weights[i];
        if (weights[i] > 0.0f)
            token = last * PANEL + i;
        if (sum > target)
            break;
    }
    return token;
}

/* The next random number after one, which is a multiple of 2^-53. Source: SplitMix64, Steele et al.
 * 2014, https://doi.org/10.1145/2660193.2660195. */
static double next_number(double number)
{
    uint64_t bits = (uint64_t)(number * 0x1p53) + 0x9e3779b97f4a7c15;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return (double)((bits ^ bits >> 31) >> 11) * 0x1p-53;
}

/* Sample a token: the one at which the cumulative probability, by id, exceeds `number`. Returns -1
 * if all are forbidden.
 *
 * Top-p needs no search for its smallest set: a token is in it if the tokens before it have less
 * than p. If not, the next one is sampled from those, which contain the set. */
int64_t sample(const Searches *searches, const Constraints *constraints, double number,
               const float *scores)
{
    assert(number >= 0.0 && number < 1.0);
    assert(constraints->temperature > 0.0 && constraints->top_k >= 0);
    assert(constraints->top_p > 0.0 && constraints->top_p <= 1.0);
    const int64_t panels = searches->panels;
    float *const sums = searches->of_panels, *const tops = sums + panels;
    ScoreRow row = {.scores = scores, .largest = scores + panels * PANEL, .panels = panels};
    row.most = largest_of(row.largest, panels);
    row.factor = (float)(1.0 / constraints->temperature);
    if (!(row.most > -INFINITY)) /* a broken model may give NaN */
        return -1;
    Cutoff end = cutoff_at(-INFINITY, 0);
    if (constraints->top_k)
        end = cutoff_after(&row, constraints->top_k, tops);
    double whole = sum_panels(&row, end, sums);
    const double least = constraints->top_p * whole;
    for (;;) {
        const int64_t token = pick(&row, end, sums, number * whole);
        if (constraints->top_p == 1.0)
            return token;
        end = cutoff_at(scores[token], token);
        whole = sum_panels(&row, end, sums);
        if (!(whole >= least)) /* the sums may be NaN */
            return token;
        number = next_number(number);
    }
}
