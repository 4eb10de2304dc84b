/* A token sampled from a row of scores, after temperature, top-k and top-p.
 *
 * Of the weights, only the sum of each panel is stored: top-k needs only the largest scores, the
 * choice of a token only one panel, and top-p only the weight of the tokens before the chosen one.
 */
#include <math.h>

#include "kernels.h"
#include "vec.h"

enum { FEW = 48 /* up to this many scores are taken one by one */ };

/* A row of scores in panels. A weight is proportional to the probability at a temperature. */
typedef struct {
    const float *scores;
    const float *largest; /* [panels] */
    int64_t panels;
    float most, factor; /* the largest score; 1 / temperature */
} Field;

/* A place in the order of descending scores; equal ones are in the order of their ids. Tokens before
 * it have a score above `limit`, or equal to it and an id below `end`. */
typedef struct {
    float limit, lower; /* `lower` is the number before `limit` */
    int64_t end;
} Place;

static Place place_at(float limit, int64_t end)
{
    return (Place){limit, nextafterf(limit, -INFINITY), end};
}

/* Panels with a score above a limit, as 16 bits from panel `first` on. */
static unsigned panels_above(const Field *field, int64_t first, float limit)
{
    const Vec tops = v_load_first(field->largest + first, field->panels - first, -INFINITY);
    return v_above(tops, v_set(limit));
}

/* Number of scores above a limit. */
static int64_t count_above(const Field *field, float limit)
{
    const Vec limits = v_set(limit);
    int64_t count = 0;
    for (int64_t first = 0; first < field->panels; first += 16)
        for (unsigned above = panels_above(field, first, limit); above; above &= above - 1) {
            const float *const panel = field->scores + (first + __builtin_ctz(above)) * PANEL;
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
    while ((below = v_above(limit, v_load_first(tops + first, panels - first, -INFINITY))) == 0xffff)
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

/* The place after the first `wanted` tokens, or after all above -inf. `taken` of them have a score
 * above `high`; the others are taken one by one. `tops` [panels] is scratch, for the largest
 * remaining score of each panel. */
static Place descend(const Field *field, int64_t wanted, float high, int64_t taken, float *tops)
{
    const float limit = nextafterf(high, INFINITY);
    int64_t ties;
    for (int64_t i = 0; i < field->panels; i++)
        tops[i] = field->largest[i] > high ? find_below(field->scores + i * PANEL, limit, &ties)
                                           : field->largest[i];
    for (;;) {
        const float score = largest_of(tops, field->panels);
        if (score == -INFINITY)
            return place_at(-INFINITY, 0);
        const int64_t panel = find_panel(tops, field->panels, score);
        tops[panel] = find_below(field->scores + panel * PANEL, score, &ties);
        if (taken + ties >= wanted)
            return place_at(score, end_of(field->scores, panel, score, wanted - taken));
        taken += ties;
    }
}

/* A limit below another one. The step grows with the distance from the largest score. */
static float step_down(const Field *field, float limit)
{
    return limit > field->most - 1e6f ? 2.0f * limit - field->most - 1.0f : -INFINITY;
}

/* A limit between two others, by linear interpolation of the numbers of scores above them. It keeps
 * a distance from both so that the search ends. */
static float between(float high, float low, int64_t above_high, int64_t above_low, int64_t wanted)
{
    if (low == -INFINITY)
        return high - fabsf(high) - 1.0f;
    float part = (float)(wanted - above_high) / (float)(above_low - above_high);
    part = part > 0.05f ? part : 0.05f;
    part = part < 0.95f ? part : 0.95f;
    return high + (low - high) * part;
}

/* The place after the first `wanted` tokens. If they are many, a search by limits skips most of
 * them. */
static Place place_after(const Field *field, int64_t wanted, float *tops)
{
    float high = field->most, low = high;
    int64_t above_high = 0, above_low = 0;
    while (wanted > FEW && above_low < wanted && low > -INFINITY) {
        high = low, above_high = above_low;
        low = step_down(field, low);
        above_low = count_above(field, low);
    }
    while (above_low - above_high > FEW) {
        const float middle = between(high, low, above_high, above_low, wanted);
        if (!(middle > low && middle < high))
            break; /* all are equal to the upper limit */
        const int64_t above = count_above(field, middle);
        if (above >= wanted)
            low = middle, above_low = above;
        else
            high = middle, above_high = above;
    }
    return descend(field, wanted, high, above_high, tops);
}

/* Weights of 16 scores, zero for those that are not before a place. */
INLINE Vec weigh(const Field *field, Place place, int64_t first)
{
    const Vec scores = v_load(field->scores + first);
    const Vec above_most = v_sub(scores, v_set(field->most));
    const Vec weights = v_exp(v_mul(above_most, v_set(field->factor)));
    Vec limits = v_set(first < place.end ? place.lower : place.limit);
    if (first < place.end && place.end < first + 16) {
        float each[16];
        for (int64_t i = 0; i < 16; i++)
            each[i] = first + i < place.end ? place.lower : place.limit;
        limits = v_load(each);
    }
    return v_if_less(limits, scores, weights, v_zero());
}

/* Sum of each panel's weights before a place. Returns the sum of all. */
static double sum_panels(const Field *field, Place place, float *sums)
{
    double whole = 0.0;
    for (int64_t first = 0; first < field->panels; first += 16) {
        Vec of_panels[16];
        for (int64_t i = 0; i < 16; i++)
            of_panels[i] = v_zero();
        for (unsigned above = panels_above(field, first, place.lower); above; above &= above - 1) {
            const int64_t panel = __builtin_ctz(above);
            Vec sum = v_zero();
            for (int64_t i = 0; i < PANEL; i += 16)
                sum = v_add(sum, weigh(field, place, (first + panel) * PANEL + i));
            of_panels[panel] = sum;
        }
        v_store_first(sums + first, field->panels - first, v_sum_each(of_panels));
    }
    for (int64_t panel = 0; panel < field->panels; panel++)
        whole += sums[panel];
    return whole;
}

/* The token before a place at which the cumulative weight, by id, exceeds a target. */
static int64_t pick(const Field *field, Place place, const float *sums, double target)
{
    double sum = 0.0;
    int64_t last = 0, found = 0;
    float weights[PANEL];
    for (int64_t panel = 0; panel < field->panels; panel++) {
        if (sums[panel] > 0.0f)
            last = panel; /* needed if the target exceeds all of them by rounding */
        if (sum + sums[panel] > target)
            break;
        sum += sums[panel];
    }
    for (int64_t i = 0; i < PANEL; i += 16)
        v_store(weights + i, weigh(field, place, last * PANEL + i));
    for (int64_t i = 0; i < PANEL; i++) {
        sum += weights[i];
        if (weights[i] > 0.0f)
            found = last * PANEL + i;
        if (sum > target)
            break;
    }
    return found;
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
 * than p. If not, the next one is drawn from those, which contain the set. */
int64_t sample(const Searches *searches, const Constraints *constraints, double number,
               const float *scores)
{
    const int64_t panels = searches->panels;
    float *const sums = searches->of_panels, *const tops = sums + panels;
    Field field = {.scores = scores, .largest = scores + panels * PANEL, .panels = panels};
    field.most = largest_of(field.largest, panels);
    field.factor = (float)(1.0 / constraints->temperature);
    if (!(field.most > -INFINITY)) /* a broken model may give NaN */
        return -1;
    Place end = place_at(-INFINITY, 0);
    if (constraints->top_k)
        end = place_after(&field, constraints->top_k, tops);
    double whole = sum_panels(&field, end, sums);
    const double wanted = constraints->top_p * whole;
    for (;;) {
        const int64_t token = pick(&field, end, sums, number * whole);
        if (constraints->top_p == 1.0)
            return token;
        end = place_at(scores[token], token);
        whole = sum_panels(&field, end, sums);
        if (!(whole >= wanted)) /* the sums may be NaN */
            return token;
        number = next_number(number);
    }
}
