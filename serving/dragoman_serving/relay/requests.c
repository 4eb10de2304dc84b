/* Convert Triton requests to frames. */
#include <string.h>

#include "relay.h"

uint64_t timeout_us(TRITONBACKEND_Request *request)
{
    uint64_t timeout = 0;
    uint32_t count = 0;
    ignore(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request, &timeout));
    ignore(TRITONBACKEND_RequestParameterCount(request, &count));
    for (uint32_t i = 0; i < count; i++) { /* the endpoint `generate` puts it here */
        const char *name = "";
        TRITONSERVER_ParameterType type;
        const void *value;
        ignore(TRITONBACKEND_RequestParameter(request, i, &name, &type, &value));
        if (strcmp(name, "timeout") == 0 && type == TRITONSERVER_PARAMETER_INT &&
            *(const int64_t *)value > 0)
            timeout = *(const uint64_t *)value;
    }
    return timeout;
}

static TRITONSERVER_Error *write_parameters(Written *to, TRITONBACKEND_Request *request)
{
    const size_t begin = to->count;
    uint32_t count, written = 0;
    TRY(TRITONBACKEND_RequestParameterCount(request, &count));
    write_number(to, 0, 4);
    for (uint32_t i = 0; i < count; i++) {
        const char *name;
        TRITONSERVER_ParameterType type;
        const void *value;
        TRY(TRITONBACKEND_RequestParameter(request, i, &name, &type, &value));
        /* The endpoint `generate` adds the request's id, which would make options differ. */
        if (strcmp(name, "id") == 0)
            continue;
        written++;
        write_text(to, name, strlen(name));
        write_number(to, type, 1);
        switch (type) {
        case TRITONSERVER_PARAMETER_STRING:
            write_text(to, value, strlen(value));
            break;
        case TRITONSERVER_PARAMETER_INT:
        case TRITONSERVER_PARAMETER_DOUBLE:
            write_bytes(to, value, 8);
            break;
        case TRITONSERVER_PARAMETER_BOOL:
            write_number(to, *(const bool *)value, 1);
            break;
        default:
            return invalid("a parameter of an unknown type");
        }
    }
    overwrite_number(to, begin, written);
    return NULL;
}

static TRITONSERVER_Error *write_input(Written *to, TRITONBACKEND_Input *input)
{
    const char *name;
    TRITONSERVER_DataType type;
    const int64_t *shape;
    uint32_t dims, buffers;
    uint64_t bytes;
    TRY(TRITONBACKEND_InputProperties(input, &name, &type, &shape, &dims, &bytes, &buffers));
    if (bytes > MOST_FRAME_BYTES / 2)
        return invalid("an input is larger than 32 MiB");
    write_text(to, name, strlen(name));
    write_number(to, type, 4);
    write_number(to, dims, 4);
    write_bytes(to, shape, dims * sizeof(int64_t));
    write_number(to, bytes, 8);
    for (uint32_t i = 0; i < buffers; i++) {
        const void *buffer;
        uint64_t part;
        TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
        int64_t memory_id = 0;
        TRY(TRITONBACKEND_InputBuffer(input, i, &buffer, &part, &memory, &memory_id));
        if (memory > TRITONSERVER_MEMORY_CPU + 1) /* pinned memory is CPU memory too */
            return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "an input lies on a GPU");
        write_bytes(to, buffer, part);
    }
    return NULL;
}

static bool holds_texts(const char *name)
{
    return strcmp(name, "text_input") == 0 || strcmp(name, "target_input") == 0;
}

/* Write the inputs with texts, or the others. */
static TRITONSERVER_Error *write_inputs(Written *to, TRITONBACKEND_Request *request, bool texts)
{
    const size_t begin = to->count;
    uint32_t count, written = 0;
    TRY(TRITONBACKEND_RequestInputCount(request, &count));
    write_number(to, 0, 4);
    for (uint32_t i = 0; i < count; i++) {
        TRITONBACKEND_Input *input;
        const char *name;
        TRY(TRITONBACKEND_RequestInputByIndex(request, i, &input));
        TRY(TRITONBACKEND_InputProperties(input, &name, NULL, NULL, NULL, NULL, NULL));
        if (holds_texts(name) != texts)
            continue;
        TRY(write_input(to, input));
        written++;
    }
    overwrite_number(to, begin, written);
    return NULL;
}

/* Write the trace context of a request as JSON, or an empty text if Triton does not trace it. */
static void write_trace_context(Written *to, TRITONBACKEND_Request *request)
{
    TRITONSERVER_InferenceTrace *trace = NULL;
    const char *context = NULL;
    ignore(TRITONBACKEND_RequestTrace(request, &trace));
    if (trace != NULL)
        ignore(TRITONSERVER_InferenceTraceContext(trace, &context));
    if (context == NULL)
        context = "";
    write_text(to, context, strlen(context));
}

static TRITONSERVER_Error *write_fields(Written *to, TRITONBACKEND_Request *request)
{
    uint64_t timeout_us = 0;
    uint32_t count;
    const char *id;
    TRY(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request, &timeout_us));
    TRY(TRITONBACKEND_RequestId(request, &id));
    write_number(to, timeout_us, 8);
    write_text(to, id, strlen(id));
    write_trace_context(to, request);
    const size_t begin = to->count;
    write_number(to, 0, 4);
    TRY(write_parameters(to, request));
    TRY(TRITONBACKEND_RequestOutputCount(request, &count));
    write_number(to, count, 4);
    for (uint32_t i = 0; i < count; i++) {
        const char *name;
        TRY(TRITONBACKEND_RequestOutputName(request, i, &name));
        write_text(to, name, strlen(name));
    }
    TRY(write_inputs(to, request, false));
    overwrite_number(to, begin, to->count - begin - 4);
    return write_inputs(to, request, true);
}

TRITONSERVER_Error *write_request(Written *to, uint64_t number, TRITONBACKEND_Request *request)
{
    const size_t begin = begin_frame(to, REQUEST);
    write_number(to, number, 8);
    TRITONSERVER_Error *error = write_fields(to, request);
    if (error == NULL && to->failed)
        error = unavailable("no memory for the request");
    if (error == NULL && to->count - begin > MOST_FRAME_BYTES)
        error = invalid("the request is larger than 64 MiB");
    if (error == NULL)
        end_frame(to, begin);
    else {
        to->count = begin; /* the earlier bytes are intact, even if memory is exhausted */
        to->failed = false;
    }
    return error;
}
