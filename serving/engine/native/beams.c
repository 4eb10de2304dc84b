/* Beam search step by step, as serving/engine/search.py has it. */
#include <math.h>

#include "kernels.h"

typedef struct {
    float score;
    int32_t parent, token; /* `parent` is a place among the live ones */
} Candidate;

/* The `count` best continuations of a slot's live hypotheses, best first; of equal ones that which
 * comes first. */
static void rank_continuations(const Beams *beams, int64_t slot, const float *top_scores,
                               const int64_t *top_ids, int64_t top, Candidate *best, int64_t count)
{
    const int64_t width = beams->width;
    int64_t found = 0;
    for (int64_t place = 0; place < width; place++) {
        const int64_t row = slot * width + beams->rows[slot * width + place];
        const float live = beams->scores[slot * width + place];
        for (int64_t i = 0; i < count; i++) {
            const float score = live + top_scores[row * top + i];
            if (found == count && !(score > best[count - 1].score))
                break; /* and what follows in the row is not better */
            int64_t at = found < count ? found++ : count - 1;
            for (; at > 0 && score > best[at - 1].score; at--)
                best[at] = best[at - 1];
            best[at] = (Candidate){score, place, top_ids[row * top + i]};
        }
    }
}

static void finish(const Beams *beams, int64_t slot, double score, int64_t place, int64_t length)
{
    const int64_t at = slot * 2 * beams->width + beams->finished[slot]++;
    beams->finished_scores[at] = score;
    beams->finished_places[at] = place;
    beams->finished_lengths[at] = length;
}

/* Rows for hypotheses, so that few must be copied: a parent's first child stays in its row, further
 * ones take rows whose hypotheses died. */
static void place_rows(const int64_t *parents, int64_t width, int64_t *rows)
{
    int64_t children[MOST_BEST / 2] = {0}, dead = width;
    for (int64_t i = 0; i < width; i++)
        children[parents[i]]++;
    for (int64_t i = 0, known; i < width; i++) {
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

/* One slot's step; false once it is done. */
static int advance_slot(const Beams *beams, int64_t slot, const float *top_scores,
                        const int64_t *top_ids, int64_t top, int64_t *parents)
{
    const int64_t width = beams->width, length = ++beams->lengths[slot];
    const double penalty = pow((5 + length) / 6.0, beams->alphas[slot]); /* Wu et al. 2016 (14) */
    int32_t *const said = beams->said + (slot * beams->room + length - 1) * width;
    int32_t *const came_from = beams->parents + (slot * beams->room + length - 1) * width;
    int64_t *const rows = beams->rows + slot * width;
    Candidate best[MOST_BEST];
    int64_t chosen = 0;
    rank_continuations(beams, slot, top_scores, top_ids, top, best, 2 * width);
    for (int64_t rank = 0; rank < 2 * width; rank++) {
        const Candidate *const one = &best[rank];
        if (one->token == beams->end_id) {
            if (rank < width)
                finish(beams, slot, one->score / penalty, one->parent, length - 1);
        } else if (chosen < width) {
            said[chosen] = one->token;
            came_from[chosen] = one->parent;
            parents[chosen] = rows[one->parent];
            beams->scores[slot * width + chosen++] = one->score;
        }
    }
    if (beams->finished[slot] >= width)
        return 0;
    if (length == beams->limits[slot]) {
        for (int64_t place = 0; place < width; place++)
            finish(beams, slot, beams->scores[slot * width + place] / penalty, place, length);
        return 0;
    }
    place_rows(parents, width, rows);
    return 1;
}

/* One step of every slot.
 *
 * `top_scores` and `top_ids` [B x W, top] are the rows' best log-probabilities, best first, at
 * least twice as many as a search is wide. Written are what each row says next, `tokens` [B x W];
 * `done` [B]; and `copies`, source, target and length of each. Their number is returned. */
int64_t dragoman_advance(const Beams *beams, const float *top_scores, const int64_t *top_ids,
                         int64_t top, int64_t *tokens, uint8_t *done, int64_t *copies)
{
    const int64_t width = beams->width;
    int64_t copied = 0;
    for (int64_t slot = 0; slot < beams->slots; slot++) {
        int64_t parents[MOST_BEST / 2];
        const int64_t first = slot * width;
        done[slot] = !advance_slot(beams, slot, top_scores, top_ids, top, parents);
        if (done[slot])
            continue;
        const int64_t length = beams->lengths[slot];
        const int32_t *const said = beams->said + (slot * beams->room + length - 1) * width;
        for (int64_t place = 0; place < width; place++) {
            const int64_t row = beams->rows[first + place];
            tokens[first + row] = said[place];
            if (row == parents[place])
                continue;
            copies[3 * copied] = first + parents[place];
            copies[3 * copied + 1] = first + row;
            copies[3 * copied + 2] = length;
            copied++;
        }
    }
    return copied;
}
