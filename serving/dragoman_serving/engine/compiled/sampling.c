/* A token sampled from a row of scores, after temperature, top-k and top-p. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "vec.h"

/* Of the scores above a limit: how many there are, and the sum of their weights. */
typedef struct {
    int64_t count;
    double weight;
} Above;

/* What stays of a row: scores above `limit`, and the first `ties` that are equal to it. */
typedef struct {
    float limit;
    int64_t ties;
} Cut;

/* What the scores above a cut must have: so many of them, or so much weight. */
typedef struct {
    int64_t count;
    double weight;
} Wanted;

/* Weights are exponentials of scores: in proportion to probabilities at a temperature. */
static void weigh(const float *scores, int64_t panels, float most, double temperature, float *weights)
{
    const Vec largest = v_set(most), factor = v_set((float)(1.0 / temperature));
    for (int64_t i = 0; i < panels * PANEL; i += 16)
        v_store(weights + i, v_exp(v_mul(v_sub(v_load(scores + i), largest), factor)));
}

/* The weights of a panel's scores above a limit, summed. */
static Above panel_above(const float *scores, const float *weights, float limit)
{
    const Vec limits = v_set(limit);
    Vec sum = v_zero();
    int64_t count = 0;
    for (int64_t i = 0; i < PANEL; i += 16) {
        const Vec score = v_load(scores + i);
        count += __builtin_popcount(v_above(score, limits));
        sum = v_add(sum, v_if_less(limits, score, v_load(weights + i), v_zero()));
    }
    return (Above){count, v_sum(sum)};
}

static Above all_above(const float *scores, int64_t panels, const float *weights, float limit)
{
    const float *const largest = scores + panels * PANEL;
    Above all = {0, 0.0};
    for (int64_t panel = 0; panel < panels; panel++) {
        if (!(largest[panel] > limit))
            continue;
        const Above found = panel_above(scores + panel * PANEL, weights + panel * PANEL, limit);
        all.count += found.count;
        all.weight += found.weight;
    }
    return all;
}

static int is_enough(Above above, Wanted wanted)
{
    return above.count >= wanted.count && above.weight >= wanted.weight;
}

/* The ties at a limit that are needed beside what is above it. */
static int64_t count_ties(Above above, Wanted wanted, double weight)
{
    int64_t ties = wanted.count > above.count ? wanted.count - above.count : 0;
    while (weight > 0.0 && above.weight + (double)ties * weight < wanted.weight)
        ties++;
    return ties;
}

/* The highest cut that keeps what is wanted. Bisection: each look at a limit passes over panels whose
 * largest score is not above it. */
static Cut find_cut(const float *scores, int64_t panels, const float *weights, float most,
                    double temperature, Wanted wanted)
{
    float high = most, low = most, step = 1.0f;
    Above above_high = {0, 0.0}, above_low = {0, 0.0};
    while (!is_enough(above_low, wanted)) {
        high = low, above_high = above_low;
        low = step < 1e6f ? most - step * (float)temperature : -INFINITY;
        above_low = all_above(scores, panels, weights, low);
        if (low == -INFINITY)
            break;
        step *= 2.0f;
    }
    if (!is_enough(above_low, wanted))
        return (Cut){-INFINITY, 0}; /* all that is allowed is not too much */
    while (above_low.count > above_high.count + 1 && above_low.count != wanted.count) {
        const float middle =
            low == -INFINITY ? high - fabsf(high) - 1.0f : low + (high - low) * 0.5f;
        if (!(middle > low && middle < high))
            return (Cut){high, count_ties(above_high, wanted,
                                          (above_low.weight - above_high.weight) /
                                              (double)(above_low.count - above_high.count))};
        const Above above = all_above(scores, panels, weights, middle);
        if (is_enough(above, wanted))
            low = middle, above_low = above;
        else
            high = middle, above_high = above;
    }
    return (Cut){low, 0};
}

/* Take the weight from what a cut leaves out. */
static void apply_cut(const float *scores, int64_t panels, Cut cut, float *weights)
{
    const Vec limit = v_set(cut.limit);
    for (int64_t panel = 0; panel < panels; panel++) {
        float *const of_panel = weights + panel * PANEL;
        const float *const scored = scores + panel * PANEL;
        float ties[PANEL] = {0};
        for (int64_t i = 0; cut.ties > 0 && i < PANEL; i++)
            if (scored[i] == cut.limit)
                ties[i] = of_panel[i], cut.ties--;
        for (int64_t i = 0; i < PANEL; i += 16)
            v_store(of_panel + i, v_if_less(limit, v_load(scored + i), v_load(of_panel + i),
                                            v_load(ties + i)));
    }
}

static double sum_panel(const float *weights)
{
    Vec sum = v_zero();
    for (int64_t i = 0; i < PANEL; i += 16)
        sum = v_add(sum, v_load(weights + i));
    return v_sum(sum);
}

/* The token at which the cumulative weight, by id, passes a part of the whole. */
static int64_t pick(const float *weights, int64_t panels, double number)
{
    double whole = 0.0, sum = 0.0;
    int64_t last = -1;
    for (int64_t panel = 0; panel < panels; panel++)
        whole += sum_panel(weights + panel * PANEL);
    const double target = number * whole;
    for (int64_t panel = 0; panel < panels; panel++) {
        const double of_panel = sum_panel(weights + panel * PANEL);
        if (sum + of_panel > target) {
            double within = sum;
            for (int64_t i = 0; i < PANEL; i++) {
                const int64_t id = panel * PANEL + i;
                within += weights[id];
                if (weights[id] > 0.0f)
                    last = id;
                if (within > target)
                    return id;
            }
            return last; /* the panel's sum was rounded up */
        }
        sum += of_panel;
        for (int64_t i = 0; i < PANEL; i++)
            if (weights[panel * PANEL + i] > 0.0f)
                last = panel * PANEL + i;
    }
    return last;
}

/* Sample a token: that at which the cumulative probability, by id, passes `number`; -1 if all are
 * forbidden. */
int64_t sample(const Searches *searches, const Constraints *constraints, double number,
               const float *scores)
{
    const int64_t panels = searches->panels;
    const float most = largest_of(scores + panels * PANEL, panels);
    float *const weights = searches->weights;
    if (most == -INFINITY)
        return -1;
    weigh(scores, panels, most, constraints->temperature, weights);
    if (constraints->top_k)
        apply_cut(scores, panels,
                  find_cut(scores, panels, weights, most, constraints->temperature,
                           (Wanted){constraints->top_k, 0.0}),
                  weights);
    if (constraints->top_p < 1.0) {
        const double whole = all_above(scores, panels, weights, -INFINITY).weight;
        apply_cut(scores, panels,
                  find_cut(scores, panels, weights, most, constraints->temperature,
                           (Wanted){0, constraints->top_p * whole}),
                  weights);
    }
    return pick(weights, panels, number);
}
