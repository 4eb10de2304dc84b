/* See imitation.h. */
#include "imitation.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OUTPUTS = 8 };

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
    char *labels; /* as Prometheus writes them */
};

void (*on_response)(TRITONBACKEND_Request *request, uint32_t flags, const TRITONSERVER_Error *error,
                    uint32_t count, const Tensor *outputs);
void (*on_release)(TRITONBACKEND_Request *request);
void (*on_metric)(int kind, const char *name, const char *labels, double value);
bool has_metrics = true;
atomic_size_t families, unsent_responses;
size_t largest_array;

__attribute__((weak)) void *__real_realloc(void *array, size_t bytes);

/* The linker replaces realloc by this. */
void *__wrap_realloc(void *array, size_t bytes)
{
    if (bytes > largest_array)
        largest_array = bytes;
    return __real_realloc(array, bytes);
}

static void *allocate(size_t bytes)
{
    void *const memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL)
        abort();
    return memory;
}

static char *copy_text(const char *text) { return strcpy(allocate(strlen(text) + 1), text); }

/* Read every byte, so that a sanitizer detects a missing terminator. */
static void read_to_end(const char *text)
{
    const volatile size_t length = strlen(text);
    (void)length;
}

TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *message)
{
    TRITONSERVER_Error *const error = allocate(sizeof *error);
    *error = (TRITONSERVER_Error){code, copy_text(message)};
    return error;
}

void TRITONSERVER_ErrorDelete(TRITONSERVER_Error *error)
{
    free(error->message);
    free(error);
}

TRITONSERVER_Error *TRITONSERVER_MessageDelete(TRITONSERVER_Message *message)
{
    return message != NULL ? NULL : TRITONSERVER_ErrorNew(1, "no message");
}

TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char *name, TRITONSERVER_ParameterType type,
                                                  const void *value)
{
    const size_t bytes = strlen(name) + strlen(value) + 4;
    char *const label = allocate(bytes);
    snprintf(label, bytes, "%s=\"%s\"", name, (const char *)value);
    return type == TRITONSERVER_PARAMETER_STRING ? (TRITONSERVER_Parameter *)label : NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily **family,
                                                 TRITONSERVER_MetricKind kind, const char *name,
                                                 const char *description)
{
    if (!has_metrics)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "metrics are not enabled");
    *family = allocate(sizeof **family);
    **family = (TRITONSERVER_MetricFamily){kind, copy_text(name), 0};
    read_to_end(description);
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
    size_t bytes = 1;
    for (uint64_t i = 0; i < number; i++)
        bytes += strlen((const char *)labels[i]) + 1;
    *metric = allocate(sizeof **metric);
    **metric = (TRITONSERVER_Metric){family, allocate(bytes)};
    family->metrics++;
    (*metric)->labels[0] = 0;
    for (uint64_t i = 0, at = 0; i < number; i++)
        at += sprintf((*metric)->labels + at, "%s%s", i > 0 ? "," : "", (const char *)labels[i]);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricDelete(TRITONSERVER_Metric *metric)
{
    metric->family->metrics--;
    free(metric->labels);
    free(metric);
    return NULL;
}

static TRITONSERVER_Error *write_metric(const TRITONSERVER_Metric *metric, int kind, double value)
{
    if (kind != metric->family->kind)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "another kind of metric");
    if (on_metric != NULL)
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
    if (request->lacks_tracing)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "tracing is not supported");
    *trace = request->trace != NULL ? (TRITONSERVER_InferenceTrace *)request : NULL;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceTraceContext(TRITONSERVER_InferenceTrace *trace,
                                                       const char **context)
{
    const char *const text = ((const TRITONBACKEND_Request *)trace)->trace;
    *context = *text != 0 ? text : NULL;
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
    if (on_release != NULL)
        on_release(request);
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **name,
                                                  TRITONSERVER_DataType *type,
                                                  const int64_t **shape, uint32_t *dims,
                                                  uint64_t *bytes, uint32_t *buffers)
{
    const Tensor *const tensor = (const Tensor *)input;
    *name = tensor->name;
    /* As in Triton, arguments that are not requested are null. */
    if (type != NULL)
        *type = tensor->type;
    if (shape != NULL)
        *shape = tensor->shape;
    if (dims != NULL)
        *dims = tensor->dims;
    if (bytes != NULL)
        *bytes = tensor->bytes;
    if (buffers != NULL)
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
    *memory = tensor->memory;
    *memory_id = 0;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response,
                                              TRITONBACKEND_Request *request)
{
    assert(request->released == 0); /* also detects freed memory */
    *response = allocate(sizeof **response);
    **response = (TRITONBACKEND_Response){.request = request};
    unsent_responses++;
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
    int64_t *const copy = allocate(dims * sizeof *copy);
    memcpy(copy, shape, dims * sizeof *copy);
    *tensor = (Tensor){.name = copy_text(name), .type = type, .dims = dims, .shape = copy};
    *output = (TRITONBACKEND_Output *)tensor;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer,
                                               uint64_t bytes, TRITONSERVER_MemoryType *memory,
                                               int64_t *memory_id)
{
    Tensor *const tensor = (Tensor *)output;
    (void)memory, (void)memory_id;
    *buffer = allocate(bytes);
    tensor->data = *buffer;
    tensor->bytes = bytes;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t flags,
                                               TRITONSERVER_Error *error)
{
    unsent_responses--;
    if (on_response != NULL)
        on_response(response->request, flags, error, response->count, response->outputs);
    for (uint32_t i = 0; i < response->count; i++) {
        free((void *)response->outputs[i].name);
        free((void *)response->outputs[i].shape);
        free((void *)response->outputs[i].data);
    }
    free(response);
    return NULL;
}

/* Answers that no test changes. */

void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter *parameter) { free(parameter); }

TRITONSERVER_Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor)
{
    *major = API_MAJOR;
    *minor = API_MINOR;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelName(TRITONBACKEND_Model *model, const char **name)
{
    (void)model;
    *name = "translate";
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request, bool success,
    uint64_t exec_start_ns, uint64_t compute_start_ns, uint64_t compute_end_ns,
    uint64_t exec_end_ns)
{
    (void)instance, (void)request, (void)success;
    (void)exec_start_ns, (void)compute_start_ns, (void)compute_end_ns, (void)exec_end_ns;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance *instance, uint64_t batch_size, uint64_t exec_start_ns,
    uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns)
{
    (void)instance, (void)batch_size;
    (void)exec_start_ns, (void)compute_start_ns, (void)compute_end_ns, (void)exec_end_ns;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message **message,
                                                              const char *base, size_t bytes)
{
    (void)bytes;
    *message = (TRITONSERVER_Message *)base;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model *model,
                                                 uint32_t config_version,
                                                 TRITONSERVER_Message *config)
{
    (void)model;
    (void)config_version;
    (void)config;
    return NULL;
}
