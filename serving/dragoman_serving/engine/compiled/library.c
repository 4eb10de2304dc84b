/* What library.py asks of a library. */
#include <string.h>

#include "attention.h"
#include "best.h"
#include "clock.h"
#include "search_data.h"
#include "transformer.h"

/* The clock of the sections' ticks. */
int64_t dragoman_clock(void) { return read_clock(); }

/* Sizes and constants that library.py compares, to find a library compiled from other sources. */
void dragoman_agreement(int64_t *numbers)
{
    const int64_t ours[] = {
        sizeof(Sizes),       sizeof(Product),      sizeof(Sources), sizeof(Rows),
        sizeof(Searches),    sizeof(SearchResult), sizeof(Token),   sizeof(Finished),
        sizeof(Constraints), sizeof(Suppressed),   sizeof(Pairs),   PANEL,
        MOST_BEST,           MOST_LAYERS,          MOST_HEAD_SIZE,  BLOCK,
        ENCODED_TOGETHER,    SCORED_TOGETHER,      SECTIONS};
    memcpy(numbers, ours, sizeof ours);
}
