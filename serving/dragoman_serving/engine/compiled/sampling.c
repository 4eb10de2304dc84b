/* A token sampled from a row of scores, after temperature, top-k and top-p. */
#include <math.h>

#include "kernels.h"
#include "vec.h"

enum { FEW = 48 /* up to this many values are sorted; more are searched again */ };

/* A row in panels. Its amount is the count of values or their sum. */
typedef struct {
    const float *values;
    const float *largest; /* [panels] */
    int64_t panels;
    int counts;
} Field;

/* The part of a row that is kept: values above `limit`, and the first `ties` equal to it. */
typedef struct {
    float limit;
    int64_t ties;
} Cut;

/* Panels with a value above a limit, as 16 bits from panel `first` on. */
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

/* Sum or count of the values above a limit. */
static double amount_above(const Field *field, float limit)
{
    const Vec limits = v_set(limit);
    double all = 0.0;
    for (int64_t first = 0; first < field->panels; first += 16) {
        Vec sums[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
        for (unsigned above = panels_above(field, first, limits); above; above &= above - 1) {
            const float *const panel = field->values + (first + __builtin_ctz(above)) * PANEL;
            if (field->counts) {
                all += count_above(panel, limits);
                continue;
            }
            #pragma GCC unroll 4
            for (int64_t i = 0; i < 4; i++) {
                const Vec values = v_load(panel + 16 * i);
                sums[i] = v_add(sums[i], v_if_less(limits, values, values, v_zero()));
            }
        }
        all += v_sum(v_add(v_add(sums[0], sums[1]), v_add(sums[2], sums[3])));
    }
    return all;
}

/* The values above `low` and up to `high`, at most FEW, in descending order. Returns how many. */
static int64_t sort_between(const Field *field, float low, float high, float *sorted)
{
    const Vec lowest = v_set(low), highest = v_set(high);
    int64_t count = 0;
    for (int64_t first = 0; first < field->panels; first += 16)
        for (unsigned above = panels_above(field, first, lowest); above; above &= above - 1) {
            const float *const panel = field->values + (first + __builtin_ctz(above)) * PANEL;
            for (int64_t i = 0; i < PANEL; i += 16) {
                const Vec values = v_load(panel + i);
                unsigned bits = v_above(values, lowest) & ~v_above(values, highest);
                for (; bits; bits &= bits - 1) {
                    const float value = panel[i + __builtin_ctz(bits)];
                    int64_t at = count++;
                    for (; at > 0 && value > sorted[at - 1]; at--)
                        sorted[at] = sorted[at - 1];
                    sorted[at] = value;
                }
            }
        }
    return count;
}

/* The cut within sorted values; `amount` is the amount above them. */
static Cut cut_sorted(const Field *field, const float *sorted, int64_t count, double amount,
                      double wanted)
{
    Cut cut = {0.0f, 0};
    for (int64_t i = 0; i < count && amount < wanted; i++) {
        const int is_tie = cut.ties && sorted[i] == cut.limit;
        cut = (Cut){sorted[i], is_tie ? cut.ties + 1 : 1};
        amount += field->counts ? 1.0 : sorted[i];
    }
    return cut;
}

/* A limit below another one. The step grows with the distance from the largest value. */
static float step_down(const Field *field, float most, float limit)
{
    if (field->counts)
        return limit > most - 1e6f ? 2.0f * limit - most - 1.0f : -INFINITY;
    return limit > 1e-30f ? 0.4f * limit * (limit / most) : 0.0f;
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

/* The highest cut that keeps the wanted amount, or everything if there is less. */
static Cut find_cut(const Field *field, double wanted)
{
    const float most = largest_of(field->largest, field->panels);
    const float lowest = field->counts ? -INFINITY : 0.0f;
    float high = most, low = most, sorted[FEW];
    double above_high = 0.0, above_low = 0.0;
    while (above_low < wanted && low > lowest) {
        high = low, above_high = above_low;
        low = step_down(field, most, low);
        above_low = amount_above(field, low);
    }
    if (above_low < wanted)
        return (Cut){lowest, 0};
    /* An upper bound of the number between, since none is smaller than the lower limit. */
    while ((above_low - above_high) / (field->counts ? 1.0 : low) > FEW) {
        const float middle = between(high, low, above_high, above_low, wanted);
        if (!(middle > low && middle < high)) { /* all are equal to the upper limit */
            const double each = field->counts ? 1.0 : high;
            return (Cut){high, (int64_t)ceil((wanted - above_high) / each)};
        }
        const double above = amount_above(field, middle);
        if (above >= wanted)
            low = middle, above_low = above;
        else
            high = middle, above_high = above;
    }
    const int64_t count = sort_between(field, low, high, sorted);
    return cut_sorted(field, sorted, count, above_high, wanted);
}

/* Set the weights of scores below a cut to zero, and those of surplus ties; `ties` is how many ties
 * may still be kept. Returns the new weights. */
INLINE Vec cut_weights(Vec values, Vec limit, float *weights, int64_t *ties)
{
    unsigned equal = ~(v_above(values, limit) | v_above(limit, values)) & 0xffff;
    for (; equal; equal &= equal - 1)
        if (--*ties < 0)
            weights[__builtin_ctz(equal)] = 0.0f;
    return v_if_less(values, limit, v_zero(), v_load(weights));
}

/* Weights of the scores that a cut keeps, proportional to probabilities at a temperature, and the
 * sum of each panel. For panels without kept scores, only the sum is written. */
static void weigh(const Field *scores, Cut cut, double temperature, float *weights, float *sums)
{
    const Vec most = v_set(largest_of(scores->largest, scores->panels));
    const Vec factor = v_set((float)(1.0 / temperature)), limit = v_set(cut.limit);
    for (int64_t first = 0; first < scores->panels; first += 16) {
        Vec of_panels[16];
        for (int64_t panel = first; panel < first + 16; panel++) {
            Vec *const sum = of_panels + (panel - first);
            *sum = v_zero();
            if (panel >= scores->panels || scores->largest[panel] < cut.limit)
                continue;
            for (int64_t i = panel * PANEL; i < (panel + 1) * PANEL; i += 16) {
                const Vec score = v_load(scores->values + i);
                Vec weight = v_exp(v_mul(v_sub(score, most), factor));
                v_store(weights + i, weight);
                if (cut.limit > -INFINITY) {
                    weight = cut_weights(score, limit, weights + i, &cut.ties);
                    v_store(weights + i, weight);
                }
                *sum = v_add(*sum, weight);
            }
        }
        v_store_first(sums + first, scores->panels - first, v_sum_each(of_panels));
    }
}

/* Upper bounds of each panel's weights. */
static void bound_weights(const Field *scores, double temperature, const float *sums, float *tops)
{
    const Vec most = v_set(largest_of(scores->largest, scores->panels));
    const Vec factor = v_set((float)(1.0 / temperature));
    for (int64_t i = 0; i < scores->panels; i += 16) {
        const int64_t left = scores->panels - i;
        const Vec score = v_load_first(scores->largest + i, left, -INFINITY);
        const Vec top = v_exp(v_mul(v_sub(score, most), factor));
        const Vec none = v_load_first(sums + i, left, 0.0f);
        v_store_first(tops + i, left, v_if_less(v_zero(), none, top, v_zero()));
    }
}

/* Set the weights that a cut removes to zero. */
static void apply_cut(Cut cut, int64_t panels, float *weights, float *sums, const float *tops)
{
    const Vec limit = v_set(cut.limit);
    for (int64_t panel = 0; panel < panels; panel++) {
        Vec sum = v_zero();
        sums[panel] = 0.0f;
        if (tops[panel] < cut.limit)
            continue;
        for (int64_t i = panel * PANEL; i < (panel + 1) * PANEL; i += 16) {
            const Vec kept = cut_weights(v_load(weights + i), limit, weights + i, &cut.ties);
            v_store(weights + i, kept);
            sum = v_add(sum, kept);
        }
        sums[panel] = v_sum(sum);
    }
}

static double sum_up(const float *sums, int64_t panels)
{
    double whole = 0.0;
    for (int64_t panel = 0; panel < panels; panel++)
        whole += sums[panel];
    return whole;
}

/* The token at which the cumulative weight, by id, exceeds the part `number` of the total. */
static int64_t pick(const float *weights, const float *sums, int64_t panels, double number)
{
    const double target = number * sum_up(sums, panels);
    double sum = 0.0;
    int64_t last = 0, found = -1;
    for (int64_t panel = 0; panel < panels; panel++) {
        if (sums[panel] > 0.0f)
            last = panel; /* needed if the target exceeds all of them by rounding */
        if (sum + sums[panel] > target)
            break;
        sum += sums[panel];
    }
    for (int64_t id = last * PANEL; id < (last + 1) * PANEL; id++) {
        sum += weights[id];
        if (weights[id] > 0.0f)
            found = id;
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
    float *const weights = searches->weights, *const sums = weights + panels * PANEL;
    float *const tops = sums + panels;
    const Field of_scores = {scores, scores + panels * PANEL, panels, 1};
    const Field of_weights = {weights, tops, panels, 0};
    Cut cut = {-INFINITY, 0};
    if (largest_of(of_scores.largest, panels) == -INFINITY)
        return -1;
    if (constraints->top_k)
        cut = find_cut(&of_scores, (double)constraints->top_k);
    weigh(&of_scores, cut, constraints->temperature, weights, sums);
    if (constraints->top_p < 1.0) {
        bound_weights(&of_scores, constraints->temperature, sums, tops);
        cut = find_cut(&of_weights, constraints->top_p * sum_up(sums, panels));
        if (cut.limit > 0.0f)
            apply_cut(cut, panels, weights, sums, tops);
    }
    return pick(weights, sums, panels, number);
}
