/* A token sampled from a row of scores, after temperature, top-k and top-p.
 *
 * Nothing but sums is stored of the weights: top-k and top-p need only the largest scores, and the
 * choice of a token only one panel.
 */
#include <math.h>

#include "kernels.h"
#include "vec.h"

enum { FEW = 48 /* up to this many scores are taken one by one */ };

/* A row of scores in panels. A weight is proportional to the probability at a temperature. The
 * amount of some scores is their count or the sum of their weights. */
typedef struct {
    const float *scores;
    const float *largest; /* [panels] */
    int64_t panels;
    float most, factor; /* the largest score; 1 / temperature */
    int counts;
} Field;

/* The part of a row that is kept: scores above `limit`, and the first `ties` equal to it. */
typedef struct {
    float limit;
    int64_t ties;
} Cut;

/* Scores taken in descending order. */
typedef struct {
    float *tops;   /* [panels], the largest remaining score of each */
    Cut cut;       /* the scores taken */
    double above;  /* the amount above the cut's limit */
    double amount; /* the amount taken */
} Descent;

INLINE Vec weigh(const Field *field, Vec scores)
{
    return v_exp(v_mul(v_sub(scores, v_set(field->most)), v_set(field->factor)));
}

/* The amount of one score. */
static double amount_of(const Field *field, float score)
{
    return field->counts ? 1.0 : v_largest(weigh(field, v_set(score)));
}

/* Panels with a score above a limit, as 16 bits from panel `first` on. */
static unsigned panels_above(const Field *field, int64_t first, Vec limit)
{
    return v_above(v_load_first(field->largest + first, field->panels - first, -INFINITY), limit);
}

INLINE double count_above(const float *panel, Vec limits)
{
    int count = 0;
    for (int64_t i = 0; i < PANEL; i += 16)
        count += __builtin_popcount(v_above(v_load(panel + i), limits));
    return count;
}

/* Amount of the scores above a limit. */
static double amount_above(const Field *field, float limit)
{
    const Vec limits = v_set(limit);
    double all = 0.0;
    for (int64_t first = 0; first < field->panels; first += 16) {
        Vec sums[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
        for (unsigned above = panels_above(field, first, limits); above; above &= above - 1) {
            const float *const panel = field->scores + (first + __builtin_ctz(above)) * PANEL;
            if (field->counts) {
                all += count_above(panel, limits);
                continue;
            }
            #pragma GCC unroll 4
            for (int64_t i = 0; i < 4; i++) {
                const Vec scores = v_load(panel + 16 * i);
                sums[i] = v_add(sums[i], v_if_less(limits, scores, weigh(field, scores), v_zero()));
            }
        }
        all += v_sum(v_add(v_add(sums[0], sums[1]), v_add(sums[2], sums[3])));
    }
    return all;
}

/* One bit per lane, set where both are equal. */
INLINE unsigned equal_lanes(Vec a, Vec b) { return ~(v_above(a, b) | v_above(b, a)) & 0xffff; }

/* The largest score of a panel below a limit. Counts the scores that equal the limit. */
static float find_below(const float *panel, float limit, int64_t *ties)
{
    const Vec limits = v_set(limit), none = v_set(-INFINITY);
    Vec most = none;
    *ties = 0;
    for (int64_t i = 0; i < PANEL; i += 16) {
        const Vec scores = v_load(panel + i);
        *ties += __builtin_popcount(equal_lanes(scores, limits));
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

/* Start with the scores up to `high`; `above` is the amount above it. */
static void start_descent(const Field *field, float high, double above, Descent *descent)
{
    const float limit = nextafterf(high, INFINITY);
    int64_t ties;
    for (int64_t i = 0; i < field->panels; i++)
        descent->tops[i] = field->largest[i] > high
                               ? find_below(field->scores + i * PANEL, limit, &ties)
                               : field->largest[i];
    descent->cut = (Cut){high, 0};
    descent->above = descent->amount = above;
}

/* Take the largest remaining scores above `low` until they have the wanted amount, at most `steps`
 * times those of one panel that are equal. Returns whether there are enough steps. */
static int descend(const Field *field, double wanted, float low, int64_t steps, Descent *descent)
{
    for (int64_t ties; steps > 0; steps--) {
        const float score = largest_of(descent->tops, field->panels);
        if (score <= low)
            return 1;
        if (score < descent->cut.limit) {
            descent->cut = (Cut){score, 0};
            descent->above = descent->amount;
        }
        const int64_t panel = find_panel(descent->tops, field->panels, score);
        descent->tops[panel] = find_below(field->scores + panel * PANEL, score, &ties);
        const double each = amount_of(field, score);
        const double needed = ceil((wanted - descent->amount) / each);
        if (needed <= (double)ties) {
            descent->cut.ties += needed > 0.0 ? (int64_t)needed : 0;
            return 1;
        }
        descent->cut.ties += ties;
        descent->amount += (double)ties * each;
    }
    return 0;
}

/* A limit below another one. The step grows with the distance from the largest score. */
static float step_down(const Field *field, float limit)
{
    return limit > field->most - 1e6f ? 2.0f * limit - field->most - 1.0f : -INFINITY;
}

/* A limit between two others, by linear interpolation of their amounts. It keeps a distance from
 * both so that the search ends. */
static float between(float high, float low, double above_high, double above_low, double wanted)
{
    if (low == -INFINITY)
        return high - fabsf(high) - 1.0f;
    double part = (wanted - above_high) / (above_low - above_high);
    part = part > 0.05 ? part : 0.05;
    part = part < 0.95 ? part : 0.95;
    return high + (low - high) * (float)part;
}

/* The highest cut that keeps the wanted amount, or everything if there is less. The largest scores
 * are taken one by one; if many are needed, a search by limits skips most of them. */
static Cut find_cut(const Field *field, double wanted, float *tops)
{
    Descent descent = {.tops = tops};
    start_descent(field, field->most, 0.0, &descent);
    if (!(field->counts && wanted > FEW) && descend(field, wanted, -INFINITY, FEW, &descent))
        return descent.cut;
    float high = descent.cut.limit, low = high;
    double above_high = descent.above, above_low = above_high;
    while (above_low < wanted && low > -INFINITY) {
        high = low, above_high = above_low;
        low = step_down(field, low);
        above_low = amount_above(field, low);
    }
    if (above_low < wanted)
        return (Cut){-INFINITY, 0};
    /* An upper bound of the number between, since none has a smaller amount than the lower limit. */
    while ((above_low - above_high) / amount_of(field, low) > FEW) {
        const float middle = between(high, low, above_high, above_low, wanted);
        if (!(middle > low && middle < high))
            break; /* all are equal to the upper limit */
        const double above = amount_above(field, middle);
        if (above >= wanted)
            low = middle, above_low = above;
        else
            high = middle, above_high = above;
    }
    start_descent(field, high, above_high, &descent);
    descend(field, wanted, low, INT64_MAX, &descent);
    return descent.cut;
}

/* Weights of 16 scores, zero for those that a cut removes. `ties` is how many scores equal to its
 * limit may still be kept. */
INLINE Vec weigh_kept(const Field *field, Vec scores, Cut cut, int64_t *ties)
{
    const Vec limit = v_set(cut.limit), weights = weigh(field, scores);
    if (cut.limit == -INFINITY)
        return weights;
    const Vec kept = v_if_less(scores, limit, v_zero(), weights);
    unsigned equal = equal_lanes(scores, limit);
    if (!equal)
        return kept;
    float each[16];
    v_store(each, kept);
    for (; equal; equal &= equal - 1)
        if (--*ties < 0)
            each[__builtin_ctz(equal)] = 0.0f;
    return v_load(each);
}

/* Sum of the kept weights of each panel. */
static void sum_panels(const Field *field, Cut cut, float *sums)
{
    int64_t ties = cut.ties;
    for (int64_t first = 0; first < field->panels; first += 16) {
        Vec of_panels[16];
        for (int64_t panel = first; panel < first + 16; panel++) {
            Vec *const sum = of_panels + (panel - first);
            *sum = v_zero();
            if (panel >= field->panels || field->largest[panel] < cut.limit)
                continue;
            for (int64_t i = panel * PANEL; i < (panel + 1) * PANEL; i += 16)
                *sum = v_add(*sum, weigh_kept(field, v_load(field->scores + i), cut, &ties));
        }
        v_store_first(sums + first, field->panels - first, v_sum_each(of_panels));
    }
}

static double sum_up(const float *sums, int64_t panels)
{
    double whole = 0.0;
    for (int64_t panel = 0; panel < panels; panel++)
        whole += sums[panel];
    return whole;
}

/* How many scores in the panels before `end` equal a limit. */
static int64_t ties_before(const Field *field, float limit, int64_t end)
{
    int64_t all = 0, ties;
    for (int64_t panel = 0; panel < end; panel++)
        if (field->largest[panel] >= limit) {
            find_below(field->scores + panel * PANEL, limit, &ties);
            all += ties;
        }
    return all;
}

/* The token at which the cumulative weight, by id, exceeds the part `number` of the total. */
static int64_t pick(const Field *field, Cut cut, const float *sums, double number)
{
    const double target = number * sum_up(sums, field->panels);
    double sum = 0.0;
    int64_t last = 0, found = -1;
    float weights[PANEL];
    for (int64_t panel = 0; panel < field->panels; panel++) {
        if (sums[panel] > 0.0f)
            last = panel; /* needed if the target exceeds all of them by rounding */
        if (sum + sums[panel] > target)
            break;
        sum += sums[panel];
    }
    if (cut.ties)
        cut.ties -= ties_before(field, cut.limit, last);
    for (int64_t i = 0; i < PANEL; i += 16)
        v_store(weights + i,
                weigh_kept(field, v_load(field->scores + last * PANEL + i), cut, &cut.ties));
    for (int64_t i = 0; i < PANEL; i++) {
        sum += weights[i];
        if (weights[i] > 0.0f)
            found = last * PANEL + i;
        if (sum > target)
            break;
    }
    return found;
}

/* Sample a token: the one at which the cumulative probability, by id, exceeds `number`. Returns -1
 * if all are forbidden. */
int64_t sample(const Searches *searches, const Constraints *constraints, double number,
               const float *scores)
{
    const int64_t panels = searches->panels;
    float *const sums = searches->of_panels, *const tops = sums + panels;
    Field field = {.scores = scores, .largest = scores + panels * PANEL, .panels = panels};
    field.most = largest_of(field.largest, panels);
    field.factor = (float)(1.0 / constraints->temperature);
    Cut cut = {-INFINITY, 0};
    if (field.most == -INFINITY)
        return -1;
    if (constraints->top_k) {
        field.counts = 1;
        cut = find_cut(&field, (double)constraints->top_k, tops);
        field.counts = 0;
    }
    sum_panels(&field, cut, sums);
    if (constraints->top_p < 1.0) {
        const Cut smaller = find_cut(&field, constraints->top_p * sum_up(sums, panels), tops);
        if (smaller.limit > cut.limit || (smaller.limit == cut.limit && smaller.ties < cut.ties)) {
            cut = smaller;
            sum_panels(&field, cut, sums);
        }
    }
    return pick(&field, cut, sums, number);
}
