/* Translates with quantized weights and without Python, for emulated CPUs.
 *
 *     decode WEIGHTS SOURCES WIDTH BEGIN END [NUMBERS TEMPERATURE TOP_K TOP_P]
 *
 * SOURCES has 64-bit numbers: for each sentence its length, its limit and its ids. The output line
 * of a sentence has its index, whether it ended by itself, its log-probability and its tokens; lines
 * are in the order in which sentences end. With NUMBERS, random numbers from 0 to 1, CAPACITY of them
 * for each sentence, it samples. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "decoding.h"
#include "model.h"
#include "searches.h"

enum { MOST_SENTENCES = 16, CAPACITY = 512 };

typedef struct {
    int64_t index, length, limit;
    const int64_t *ids;
    const Constraints *constraints; /* or NULL */
} Sentence;

typedef struct {
    const Model *model;
    Rows rows;
    Searches searches;
    int64_t sentences[MOST_SENTENCES]; /* index of each slot's sentence */
    char *memory;
    float *scores;
} Batch;

static const void *map(const char *path, int64_t *bytes)
{
    const int file = open(path, O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status)) {
        perror(path);
        exit(2);
    }
    const void *const memory = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    *bytes = status.st_size;
    return memory;
}

static void *zeros(int64_t count, int64_t size)
{
    void *const memory = calloc(count, size);
    if (!memory)
        exit(3);
    return memory;
}

static uint8_t **open_parts(const Model *model, int64_t rows)
{
    const int64_t parts = 2 * model->sizes.decoder_layers;
    uint8_t **const found = zeros(parts, sizeof *found);
    for (int64_t i = 0; i < parts; i++)
        found[i] = zeros(rows * heads_bytes(model, CAPACITY), 1);
    return found;
}

static Searches open_searches(int64_t width, int64_t end_id, int64_t panels)
{
    const int64_t slots = MOST_SENTENCES, rows = slots * width;
    return (Searches){
        .width = width,
        .branches = 1,
        .capacity = CAPACITY,
        .end_id = end_id,
        .panels = panels,
        .constraints = zeros(slots, sizeof(Constraints *)),
        .limits = zeros(slots, 8),
        .alphas = zeros(slots, 8),
        .lengths = zeros(slots, 8),
        .live = zeros(slots, 8),
        .scores = zeros(rows, 4),
        .rows = zeros(rows, 8),
        .tokens = zeros(rows * CAPACITY, sizeof(Token)),
        .ended = zeros(slots, 8),
        .kept = zeros(slots, 8),
        .finished = zeros(rows, sizeof(Finished)),
        .top_scores = zeros(2 * rows * width, 4),
        .top_log_probs = zeros(2 * rows * width, 4),
        .top_ids = zeros(2 * rows * width, 8),
        .copies = zeros(3 * rows, 8),
        .done = zeros(slots, 8),
        .history = zeros(CAPACITY, 4),
        .history_scores = zeros(CAPACITY, 4),
        .of_panels = zeros(2 * panels, 4),
    };
}

static Batch open_batch(const Model *model, int64_t width, int64_t end_id)
{
    const int64_t rows = MOST_SENTENCES * width, panels = model->logits.outputs / PANEL;
    return (Batch){
        .model = model,
        .searches = open_searches(width, end_id, panels),
        .memory = zeros(dragoman_scratch_bytes(model, MOST_SENTENCES * CAPACITY), 1),
        .scores = zeros(rows * panels * (PANEL + 1), sizeof(float)),
        .rows =
            {
                .width = width,
                .ids = zeros(rows, 8),
                .positions = zeros(rows, 8),
                .src_lengths = zeros(MOST_SENTENCES, 8),
                .src_room = CAPACITY,
                .room = CAPACITY,
                .cross = open_parts(model, MOST_SENTENCES),
                .past = open_parts(model, rows),
                .ticks = zeros(SECTIONS, 8),
                .aligning = zeros(model->sizes.decoder_layers, model->sizes.heads),
                .alignments = zeros(MOST_SENTENCES, sizeof(float *)),
                .shortlists = zeros(MOST_SENTENCES, sizeof(uint64_t *)),
            },
    };
}

/* Start sentences; nothing is in flight. */
static void join(Batch *batch, const Sentence *sentences, int64_t count, int64_t begin_id)
{
    const int64_t width = batch->rows.width;
    int64_t ids[MOST_SENTENCES * CAPACITY], tokens = 0;
    for (int64_t i = 0; i < count; i++) {
        batch->sentences[i] = sentences[i].index;
        batch->rows.src_lengths[i] = sentences[i].length;
        batch->searches.limits[i] = sentences[i].limit;
        batch->searches.alphas[i] = 1.0;
        batch->searches.lengths[i] = batch->searches.ended[i] = batch->searches.kept[i] = 0;
        batch->searches.live[i] = 1;
        batch->searches.scores[i * width] = 0.0f;
        batch->searches.rows[i * width] = 0;
        if (sentences[i].constraints)
            ((const Constraints **)batch->searches.constraints)[i] = sentences[i].constraints;
        memcpy(ids + tokens, sentences[i].ids, sentences[i].length * sizeof *ids);
        tokens += sentences[i].length;
        for (int64_t j = 0; j < width; j++) {
            const int64_t row = i * width + j;
            batch->rows.ids[row] = j ? -1 : begin_id;
            batch->rows.positions[row] = 0;
        }
    }
    batch->rows.sentences = batch->searches.slots = count;
    const Sources sources = {.sentences = count,
                             .tokens = tokens,
                             .ids = ids,
                             .lengths = batch->rows.src_lengths,
                             .room = CAPACITY,
                             .cross = batch->rows.cross};
    dragoman_encode(batch->model, &sources, batch->memory, NULL);
}

/* Print the result of a slot, and free the slot. */
static void leave(Batch *batch, int64_t slot)
{
    int32_t ids[CAPACITY + 1], rows[CAPACITY + 1];
    float log_probs[CAPACITY + 1];
    SearchResult result;
    dragoman_result(&batch->searches, slot, 0, ids, log_probs, rows, &result);
    printf("%lld %lld %a", (long long)batch->sentences[slot], (long long)result.complete,
           result.log_prob);
    for (int64_t i = 0; i < result.length; i++)
        printf(" %d", ids[i]);
    printf("\n");
    dragoman_leave(batch->model, &batch->rows, &batch->searches, slot);
    batch->sentences[slot] = batch->sentences[batch->rows.sentences];
}

int main(int count, char **words)
{
    if (count != 6 && count != 10) {
        fprintf(stderr, "usage: decode WEIGHTS SOURCES WIDTH BEGIN END "
                        "[NUMBERS TEMPERATURE TOP_K TOP_P]\n");
        return 2;
    }
    int64_t weights_bytes, sources_bytes, read = 0;
    const void *const weights = map(words[1], &weights_bytes);
    const int64_t *const sources = map(words[2], &sources_bytes);
    Model *const model = zeros(1, sizeof *model);
    if (dragoman_find_weights(weights, model) != weights_bytes) {
        fprintf(stderr, "%s: of another size than its model\n", words[1]);
        return 2;
    }
    Batch batch = open_batch(model, atoll(words[3]), atoll(words[5]));
    int64_t numbers_bytes;
    const double *const numbers = count == 10 ? map(words[6], &numbers_bytes) : NULL;
    for (int64_t index = 0; read < sources_bytes / 8;) {
        Sentence sentences[MOST_SENTENCES];
        Constraints constraints[MOST_SENTENCES];
        int64_t joined = 0;
        for (; joined < MOST_SENTENCES && read < sources_bytes / 8; joined++, index++) {
            const int64_t length = sources[read];
            if (numbers)
                constraints[joined] = (Constraints){.enough = 1,
                                                    .scored = 1,
                                                    .repetition_penalty = 1.0,
                                                    .numbers = numbers + index * CAPACITY,
                                                    .temperature = atof(words[7]),
                                                    .top_k = atoll(words[8]),
                                                    .top_p = atof(words[9])};
            sentences[joined] = (Sentence){index, length, sources[read + 1], sources + read + 2,
                                           numbers ? constraints + joined : NULL};
            read += 2 + length;
        }
        join(&batch, sentences, joined, atoll(words[4]));
        while (batch.rows.sentences)
            for (int64_t done = dragoman_decode(model, &batch.rows, &batch.searches, batch.memory,
                                                batch.scores, NULL, NULL, 1);
                 done--;)
                leave(&batch, batch.searches.done[done]);
    }
    return 0;
}
