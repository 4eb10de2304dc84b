/* An imitation of Triton's backend API; requests and responses are counted. */
#include "imitation.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OUTPUTS = 64, MANY_BYTES = 40 << 20 };

struct TRITONSERVER_Error {
    char text[1];
};
struct TRITONBACKEND_Response {
    int count;
    void *outputs[MOST_OUTPUTS];
};

Counts counts;
void *model_state;

TRITONBACKEND_Request *make_request(uint32_t choice)
{
    TRITONBACKEND_Request *const request = calloc(1, sizeof *request);
    request->choice = choice;
    counts.requests++;
    return request;
}

/* Read every byte of a text, so that a missing terminator is detected. */
static void look_at(const char *text)
{
    volatile size_t length = strlen(text);
    (void)length;
}

TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *message)
{
    (void)code;
    TRITONSERVER_Error *const error = malloc(sizeof *error + strlen(message));
    strcpy(error->text, message);
    return error;
}

void TRITONSERVER_ErrorDelete(TRITONSERVER_Error *error) { free(error); }

TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message *message,
                                                        const char **base, size_t *bytes)
{
    (void)message;
    *base = "{}";
    *bytes = 2;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageDelete(TRITONSERVER_Message *message)
{
    (void)message;
    return NULL;
}

TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char *name, TRITONSERVER_ParameterType type,
                                                  const void *value)
{
    (void)type;
    look_at(name);
    return (void *)strdup(value);
}

TRITONSERVER_Error *TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily **family,
                                                 TRITONSERVER_MetricKind kind, const char *name,
                                                 const char *description)
{
    (void)kind;
    look_at(name);
    look_at(description);
    *family = malloc(1);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily *family)
{
    free(family);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricNew(TRITONSERVER_Metric **metric,
                                           TRITONSERVER_MetricFamily *family,
                                           const TRITONSERVER_Parameter **labels, uint64_t number)
{
    (void)family, (void)labels, (void)number;
    *metric = malloc(1);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricDelete(TRITONSERVER_Metric *metric)
{
    free(metric);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricIncrement(TRITONSERVER_Metric *metric, double value)
{
    (void)metric, (void)value;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricSet(TRITONSERVER_Metric *metric, double value)
{
    (void)metric, (void)value;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *model, uint32_t config_version,
                                              TRITONSERVER_Message **config)
{
    (void)model, (void)config_version;
    *config = NULL;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelState(TRITONBACKEND_Model *model, void **state)
{
    (void)model;
    *state = model_state;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelSetState(TRITONBACKEND_Model *model, void *state)
{
    (void)model;
    model_state = state;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance *instance,
                                                     TRITONBACKEND_Model **model)
{
    (void)instance;
    *model = NULL;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request *request, bool *is)
{
    *is = request->choice % 3 == 0;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InferenceRequestTimeoutMicroseconds(
    TRITONBACKEND_Request *request, uint64_t *timeout_us)
{
    *timeout_us = request->choice;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestId(TRITONBACKEND_Request *request, const char **id)
{
    *id = request->choice % 2 ? "r" : "";
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestTrace(TRITONBACKEND_Request *request,
                                               TRITONSERVER_InferenceTrace **trace)
{
    if (request->choice % 5 == 0) /* as a Triton without tracing answers */
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "tracing");
    *trace = request->choice % 5 == 1 ? (void *)request : NULL;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceTraceContext(TRITONSERVER_InferenceTrace *trace,
                                                       const char **context)
{
    *context = ((const TRITONBACKEND_Request *)trace)->choice % 2 ? "{}" : NULL;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request *request,
                                                        uint32_t *count)
{
    *count = request->choice % 3;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestParameter(TRITONBACKEND_Request *request, uint32_t index,
                                                   const char **key,
                                                   TRITONSERVER_ParameterType *type,
                                                   const void **value)
{
    static const int64_t number = 1;
    *key = request->choice % 7 ? "p" : "id";
    *type = (request->choice + index) % 5; /* 4: unknown */
    *value = *type == TRITONSERVER_PARAMETER_STRING ? (const void *)"v" : &number;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request *request, uint32_t *count)
{
    *count = request->choice % 4;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request *request,
                                                      uint32_t index, TRITONBACKEND_Input **input)
{
    (void)index;
    *input = (void *)request;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request *request,
                                                     uint32_t *count)
{
    *count = request->choice % 2;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *request, uint32_t index,
                                                    const char **name)
{
    (void)request, (void)index;
    *name = "text_output";
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t flags)
{
    (void)flags;
    counts.released++;
    free(request);
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **name,
                                                  TRITONSERVER_DataType *type,
                                                  const int64_t **shape, uint32_t *dims,
                                                  uint64_t *bytes, uint32_t *buffers)
{
    static const int64_t one[2] = {1, 1};
    const TRITONBACKEND_Request *const request = (void *)input;
    const bool is_scalar = request->choice % 11 == 0;
    *name = request->choice % 3 == 0 ? "beam_width" : "text_input";
    /* As in Triton, arguments that are not requested are null. */
    if (type != NULL)
        *type = 13;
    if (shape != NULL)
        *shape = is_scalar ? NULL : one;
    if (dims != NULL)
        *dims = is_scalar ? 0 : 2;
    if (bytes != NULL)
        *bytes = request->choice % 13 == 0 ? MANY_BYTES : CONTENT_BYTES;
    if (buffers != NULL)
        *buffers = 1;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *input, uint32_t index,
                                              const void **buffer, uint64_t *bytes,
                                              TRITONSERVER_MemoryType *memory, int64_t *memory_id)
{
    const TRITONBACKEND_Request *const request = (void *)input;
    (void)index, (void)memory_id;
    *buffer = request->content;
    *bytes = CONTENT_BYTES;
    *memory = request->choice % 17 == 0 ? 2 : TRITONSERVER_MEMORY_CPU; /* 2: a GPU */
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response,
                                              TRITONBACKEND_Request *request)
{
    volatile uint32_t alive = request->choice;
    (void)alive;
    counts.responses++;
    *response = calloc(1, sizeof **response);
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response,
                                                 TRITONBACKEND_Output **output, const char *name,
                                                 TRITONSERVER_DataType type, const int64_t *shape,
                                                 uint32_t dims)
{
    (void)type;
    look_at(name);
    for (uint32_t i = 0; i < dims; i++) {
        volatile int64_t size = shape[i];
        (void)size;
    }
    if (response->count >= MOST_OUTPUTS)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "too many outputs");
    *output = (void *)response;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer,
                                               uint64_t bytes, TRITONSERVER_MemoryType *memory,
                                               int64_t *memory_id)
{
    TRITONBACKEND_Response *const response = (void *)output;
    (void)memory, (void)memory_id;
    *buffer = malloc(bytes > 0 ? bytes : 1);
    response->outputs[response->count++] = *buffer;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t flags,
                                               TRITONSERVER_Error *error)
{
    (void)flags, (void)error;
    counts.sent++;
    for (int i = 0; i < response->count; i++)
        free(response->outputs[i]);
    free(response);
    return NULL;
}
