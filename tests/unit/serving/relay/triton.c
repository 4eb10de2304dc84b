/* Triton's backend API for one test process; Python can read requests and responses. */
#include "triton.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OUTPUTS = 8 };

typedef struct {
    const char *name;
    int type;
    uint32_t dims;
    const int64_t *shape;
    uint64_t bytes;
    const void *data;
} Tensor;
typedef struct {
    const char *name;
    int type;
    const void *value;
} Parameter;
struct TRITONSERVER_Error {
    int code;
    char *message;
};
struct TRITONBACKEND_Model {
    void *state;
    const char *config;
};
struct TRITONBACKEND_Request {
    uint64_t timeout_us;
    uint32_t parameter_count, input_count, output_count;
    const Parameter *parameters;
    Tensor *inputs;
    const char **outputs;
    const char *trace; /* its context; NULL: the request is not traced */
    const char *id;
    bool cancelled;
    volatile int released;
};
struct TRITONBACKEND_Response {
    TRITONBACKEND_Request *request;
    uint32_t count;
    Tensor outputs[MOST_OUTPUTS];
};
struct TRITONSERVER_MetricFamily {
    int kind;
    char *name;
    size_t metrics;
};
struct TRITONSERVER_Metric {
    TRITONSERVER_MetricFamily *family;
    char labels[128]; /* as Prometheus writes them */
};

/* Set by Python. */
void (*on_response)(TRITONBACKEND_Request *request, uint32_t flags,
                    const TRITONSERVER_Error *error, uint32_t count, const Tensor *outputs);
void (*on_metric)(int kind, const char *name, const char *labels, double value);
bool has_metrics = true;

/* Number of existing metric families. */
size_t families = 0;

/* Largest size in bytes of an array that the relay has grown; read and reset by Python. */
size_t largest_array = 0;

void *__real_realloc(void *array, size_t bytes);

/* The linker replaces realloc by this. */
void *__wrap_realloc(void *array, size_t bytes)
{
    if (bytes > largest_array)
        largest_array = bytes;
    return __real_realloc(array, bytes);
}

TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *message)
{
    TRITONSERVER_Error *const error = malloc(sizeof *error);
    *error = (TRITONSERVER_Error){code, strdup(message)};
    return error;
}

void TRITONSERVER_ErrorDelete(TRITONSERVER_Error *error)
{
    free(error->message);
    free(error);
}

TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message *message,
                                                        const char **base, size_t *bytes)
{
    *base = (const char *)message;
    *bytes = strlen(*base);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageDelete(TRITONSERVER_Message *message)
{
    return message != NULL ? NULL : TRITONSERVER_ErrorNew(1, "no message");
}

TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char *name, TRITONSERVER_ParameterType type,
                                                  const void *value)
{
    const size_t bytes = strlen(name) + strlen(value) + 4;
    char *const label = malloc(bytes);
    snprintf(label, bytes, "%s=\"%s\"", name, (const char *)value);
    return type == TRITONSERVER_PARAMETER_STRING ? (TRITONSERVER_Parameter *)label : NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily **family,
                                                 TRITONSERVER_MetricKind kind, const char *name,
                                                 const char *description)
{
    (void)description;
    if (!has_metrics)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "metrics are not enabled");
    *family = malloc(sizeof **family);
    **family = (TRITONSERVER_MetricFamily){kind, strdup(name), 0};
    families++;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily *family)
{
    assert(family->metrics == 0);
    families--;
    free(family->name);
    free(family);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricNew(TRITONSERVER_Metric **metric,
                                           TRITONSERVER_MetricFamily *family,
                                           const TRITONSERVER_Parameter **labels, uint64_t number)
{
    *metric = malloc(sizeof **metric);
    **metric = (TRITONSERVER_Metric){family, ""};
    family->metrics++;
    for (uint64_t i = 0, at = 0; i < number; i++)
        at += sprintf((*metric)->labels + at, "%s%s", i > 0 ? "," : "", (const char *)labels[i]);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricDelete(TRITONSERVER_Metric *metric)
{
    metric->family->metrics--;
    free(metric);
    return NULL;
}

static TRITONSERVER_Error *write_metric(const TRITONSERVER_Metric *metric, int kind, double value)
{
    if (kind != metric->family->kind)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "another kind of metric");
    on_metric(kind, metric->family->name, metric->labels, value);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricIncrement(TRITONSERVER_Metric *metric, double value)
{
    return write_metric(metric, TRITONSERVER_METRIC_KIND_COUNTER, value);
}

TRITONSERVER_Error *TRITONSERVER_MetricSet(TRITONSERVER_Metric *metric, double value)
{
    return write_metric(metric, TRITONSERVER_METRIC_KIND_GAUGE, value);
}

TRITONSERVER_Error *TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *model, uint32_t config_version,
                                              TRITONSERVER_Message **config)
{
    (void)config_version;
    *config = (TRITONSERVER_Message *)model->config;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelState(TRITONBACKEND_Model *model, void **state)
{
    *state = model->state;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelSetState(TRITONBACKEND_Model *model, void *state)
{
    model->state = state;
    return NULL;
}

/* The model is its own instance. */
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance *instance,
                                                     TRITONBACKEND_Model **model)
{
    *model = (TRITONBACKEND_Model *)instance;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request *request, bool *is)
{
    *is = request->cancelled;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InferenceRequestTimeoutMicroseconds(
    TRITONBACKEND_Request *request, uint64_t *timeout_us)
{
    *timeout_us = request->timeout_us;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestId(TRITONBACKEND_Request *request, const char **id)
{
    *id = request->id;
    return NULL;
}

/* A request is its own trace. */
TRITONSERVER_Error *TRITONBACKEND_RequestTrace(TRITONBACKEND_Request *request,
                                               TRITONSERVER_InferenceTrace **trace)
{
    *trace = request->trace != NULL ? (TRITONSERVER_InferenceTrace *)request : NULL;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceTraceContext(TRITONSERVER_InferenceTrace *trace,
                                                       const char **context)
{
    *context = ((const TRITONBACKEND_Request *)trace)->trace;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request *request,
                                                        uint32_t *count)
{
    *count = request->parameter_count;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestParameter(TRITONBACKEND_Request *request, uint32_t index,
                                                   const char **key,
                                                   TRITONSERVER_ParameterType *type,
                                                   const void **value)
{
    *key = request->parameters[index].name;
    *type = request->parameters[index].type;
    *value = request->parameters[index].value;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request *request, uint32_t *count)
{
    *count = request->input_count;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request *request,
                                                      uint32_t index, TRITONBACKEND_Input **input)
{
    *input = (TRITONBACKEND_Input *)&request->inputs[index];
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request *request,
                                                     uint32_t *count)
{
    *count = request->output_count;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *request, uint32_t index,
                                                    const char **name)
{
    *name = request->outputs[index];
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t flags)
{
    (void)flags;
    request->released++;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **name,
                                                  TRITONSERVER_DataType *type,
                                                  const int64_t **shape, uint32_t *dims,
                                                  uint64_t *bytes, uint32_t *buffers)
{
    const Tensor *const tensor = (const Tensor *)input;
    *name = tensor->name;
    if (type == NULL) /* only the name is requested */
        return NULL;
    *type = tensor->type;
    *shape = tensor->shape;
    *dims = tensor->dims;
    *bytes = tensor->bytes;
    *buffers = 2;
    return NULL;
}

/* In two parts, as Triton may do. */
TRITONSERVER_Error *TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *input, uint32_t index,
                                              const void **buffer, uint64_t *bytes,
                                              TRITONSERVER_MemoryType *memory, int64_t *memory_id)
{
    const Tensor *const tensor = (const Tensor *)input;
    const uint64_t first = tensor->bytes / 2;
    *buffer = (const char *)tensor->data + (index == 0 ? 0 : first);
    *bytes = index == 0 ? first : tensor->bytes - first;
    *memory = TRITONSERVER_MEMORY_CPU;
    *memory_id = 0;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response,
                                              TRITONBACKEND_Request *request)
{
    *response = calloc(1, sizeof **response);
    (*response)->request = request;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response,
                                                 TRITONBACKEND_Output **output, const char *name,
                                                 TRITONSERVER_DataType type, const int64_t *shape,
                                                 uint32_t dims)
{
    if (response->count == MOST_OUTPUTS)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "too many outputs");
    Tensor *const tensor = &response->outputs[response->count++];
    int64_t *const copy = malloc((dims + 1) * sizeof *copy);
    memcpy(copy, shape, dims * sizeof *copy);
    *tensor = (Tensor){.name = strdup(name), .type = type, .dims = dims, .shape = copy};
    *output = (TRITONBACKEND_Output *)tensor;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer,
                                               uint64_t bytes, TRITONSERVER_MemoryType *memory,
                                               int64_t *memory_id)
{
    Tensor *const tensor = (Tensor *)output;
    (void)memory, (void)memory_id;
    *buffer = malloc(bytes + 1);
    tensor->data = *buffer;
    tensor->bytes = bytes;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t flags,
                                               TRITONSERVER_Error *error)
{
    on_response(response->request, flags, error, response->count, response->outputs);
    for (uint32_t i = 0; i < response->count; i++) {
        free((void *)response->outputs[i].name);
        free((void *)response->outputs[i].shape);
        free((void *)response->outputs[i].data);
    }
    free(response);
    return NULL;
}
