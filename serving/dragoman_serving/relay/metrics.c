/* Metrics on Triton's metrics port. */
#include <stdlib.h>
#include <string.h>

#include "relay.h"

/* Labels of a metric, besides its model's name. */
typedef struct {
    const char *names[MOST_LABELS], *values[MOST_LABELS];
    uint32_t count;
} Labels;

/* Reads all labels and keeps the first MOST_LABELS. */
static Labels read_labels(Reading *frame)
{
    Labels labels = {.count = 0};
    const uint32_t count = read_number(frame, 4);
    for (uint32_t i = 0; i < count && !frame->failed; i++) {
        const char *const name = read_text(frame), *const value = read_text(frame);
        if (i >= MOST_LABELS)
            continue;
        labels.names[i] = name;
        labels.values[i] = value;
        labels.count++;
    }
    return labels;
}

static void declare(Figures *figures, uint32_t index, TRITONSERVER_MetricKind kind,
                    const char *model, const Labels *labels)
{
    if (kind == TRITONSERVER_METRIC_KIND_GAUGE) {
        figures->gauges[index] = calloc(MOST_ENGINES, sizeof(double));
        if (figures->gauges[index] == NULL)
            return;
    }
    TRITONSERVER_Parameter *parameters[1 + MOST_LABELS];
    parameters[0] = TRITONSERVER_ParameterNew("model", TRITONSERVER_PARAMETER_STRING, model);
    for (uint32_t i = 0; i < labels->count; i++)
        parameters[1 + i] = TRITONSERVER_ParameterNew(
            labels->names[i], TRITONSERVER_PARAMETER_STRING, labels->values[i]);
    ignore(TRITONSERVER_MetricNew(&figures->metrics[index], figures->families[index],
                                  (const TRITONSERVER_Parameter **)parameters, 1 + labels->count));
    for (uint32_t i = 0; i < 1 + labels->count; i++)
        TRITONSERVER_ParameterDelete(parameters[i]);
}

/* Set a gauge to the sum of the engines' values. */
static void set_gauge(const Figures *figures, uint32_t index)
{
    double sum = 0;
    for (uint32_t engine = 0; engine < MOST_ENGINES; engine++)
        sum += figures->gauges[index][engine];
    ignore(TRITONSERVER_MetricSet(figures->metrics[index], sum));
}

static void publish(Figures *figures, const char *model, uint32_t engine, Reading *frame)
{
    const uint32_t count = read_number(frame, 4);
    const char *last_name = NULL;
    for (uint32_t i = 0; i < count && i < MOST_FIGURES; i++) {
        const TRITONSERVER_MetricKind kind = read_number(frame, 1);
        const char *const name = read_text(frame), *const description = read_text(frame);
        const Labels labels = read_labels(frame);
        const uint64_t bits = read_number(frame, 8);
        double value;
        memcpy(&value, &bits, 8);
        if (frame->failed)
            return;
        if (i == figures->count) {
            if (last_name != NULL && strcmp(name, last_name) == 0)
                figures->families[i] = figures->families[i - 1];
            else
                ignore(
                    TRITONSERVER_MetricFamilyNew(&figures->families[i], kind, name, description));
            if (figures->families[i] != NULL)
                declare(figures, i, kind, model, &labels);
            figures->count++;
        }
        last_name = name;
        if (figures->metrics[i] == NULL)
            continue; /* the server was started without metrics, or memory is exhausted */
        if (figures->gauges[i] != NULL) {
            figures->gauges[i][engine] = value;
            set_gauge(figures, i);
        } else if (value > 0)
            ignore(TRITONSERVER_MetricIncrement(figures->metrics[i], value));
    }
}

/* Every frame has the same metrics in the same order: increments of counters, values of gauges. */
void publish_figures(Figures *figures, const char *model, uint32_t engine, Reading *frame)
{
    pthread_mutex_lock(&figures->lock);
    publish(figures, model, engine, frame);
    pthread_mutex_unlock(&figures->lock);
}

void forget_engine(Figures *figures, uint32_t engine)
{
    pthread_mutex_lock(&figures->lock);
    for (uint32_t i = 0; i < figures->count; i++) {
        if (figures->metrics[i] == NULL || figures->gauges[i] == NULL)
            continue;
        figures->gauges[i][engine] = 0;
        set_gauge(figures, i);
    }
    pthread_mutex_unlock(&figures->lock);
}

void withdraw_figures(Figures *figures)
{
    for (uint32_t i = 0; i < figures->count; i++) {
        const bool is_last_of_family =
            i + 1 == figures->count || figures->families[i + 1] != figures->families[i];
        if (figures->metrics[i] != NULL)
            ignore(TRITONSERVER_MetricDelete(figures->metrics[i]));
        if (figures->families[i] != NULL && is_last_of_family)
            ignore(TRITONSERVER_MetricFamilyDelete(figures->families[i]));
        free(figures->gauges[i]);
    }
}
