/* Figures on Triton's metrics port. */
#include <string.h>

#include "relay.h"

static void declare(Figures *figures, uint32_t index, const char *model,
                    TRITONSERVER_MetricKind kind, const char *name, const char *description)
{
    TRITONSERVER_Parameter *const label =
        TRITONSERVER_ParameterNew("model", TRITONSERVER_PARAMETER_STRING, model);
    const TRITONSERVER_Parameter *labels[] = {label};
    ignore(TRITONSERVER_MetricFamilyNew(&figures->families[index], kind, name, description));
    if (figures->families[index] != NULL)
        ignore(TRITONSERVER_MetricNew(&figures->metrics[index], figures->families[index], labels, 1));
    TRITONSERVER_ParameterDelete(label);
}

/* Each frame names the same figures in the same order: a counter's growth, a gauge's value. */
void publish_figures(Figures *figures, const char *model, Reading *frame)
{
    const uint32_t count = read_number(frame, 4);
    for (uint32_t i = 0; i < count && i < MOST_FIGURES; i++) {
        const TRITONSERVER_MetricKind kind = read_number(frame, 1);
        const char *const name = read_text(frame), *const description = read_text(frame);
        const uint64_t bits = read_number(frame, 8);
        double value;
        memcpy(&value, &bits, 8);
        if (frame->failed)
            return;
        if (i == figures->count) {
            declare(figures, i, model, kind, name, description);
            figures->count++;
        }
        if (figures->metrics[i] == NULL)
            continue; /* the server was started without metrics */
        if (kind == TRITONSERVER_METRIC_KIND_GAUGE)
            ignore(TRITONSERVER_MetricSet(figures->metrics[i], value));
        else if (value > 0)
            ignore(TRITONSERVER_MetricIncrement(figures->metrics[i], value));
    }
}

void withdraw_figures(Figures *figures)
{
    for (uint32_t i = 0; i < figures->count; i++) {
        if (figures->metrics[i] != NULL)
            ignore(TRITONSERVER_MetricDelete(figures->metrics[i]));
        if (figures->families[i] != NULL)
            ignore(TRITONSERVER_MetricFamilyDelete(figures->families[i]));
    }
}
