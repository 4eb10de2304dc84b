/* Convert the engine's answers to Triton responses. */
#define _GNU_SOURCE /* asprintf */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "relay.h"

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Send the last response and release the request. Takes ownership of the response and the error. */
static void settle(const Slot *slot, TRITONBACKEND_Response *response, TRITONSERVER_Error *error)
{
    const uint64_t begin = slot->begin_ns, end = now_ns();
    ignore(TRITONBACKEND_ModelInstanceReportStatistics(slot->instance, slot->request, error == NULL,
                                                       begin, begin, end, end));
    if (error == NULL)
        ignore(TRITONBACKEND_ModelInstanceReportBatchStatistics(slot->instance, 1, begin, begin,
                                                                end, end));
    if (response != NULL)
        ignore(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error));
    ignore(TRITONBACKEND_RequestRelease(slot->request, TRITONSERVER_REQUEST_RELEASE_ALL));
    ignore(error);
}

void answer_error(const Slot *slot, TRITONSERVER_Error *error)
{
    TRITONBACKEND_Response *response = NULL;
    ignore(TRITONBACKEND_ResponseNew(&response, slot->request));
    settle(slot, response, error);
}

static TRITONSERVER_Error *add_output(TRITONBACKEND_Response *response, Reading *frame)
{
    const char *const name = read_text(frame);
    const TRITONSERVER_DataType type = read_number(frame, 4);
    const uint32_t dims = read_number(frame, 4);
    const char *const shape = read_bytes(frame, dims * sizeof(int64_t));
    const uint64_t bytes = read_number(frame, 8);
    const char *const data = read_bytes(frame, bytes);
    int64_t aligned[8];
    if (frame->failed || dims > 8)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "the engine's answer is damaged");
    memcpy(aligned, shape, dims * sizeof(int64_t));
    TRITONBACKEND_Output *output;
    void *buffer;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t memory_id = 0;
    TRY(TRITONBACKEND_ResponseOutput(response, &output, name, type, aligned, dims));
    TRY(TRITONBACKEND_OutputBuffer(output, &buffer, bytes, &memory, &memory_id));
    if (memory > TRITONSERVER_MEMORY_CPU + 1)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED,
                                     "an output would lie on a GPU");
    memcpy(buffer, data, bytes);
    return NULL;
}

/* The details go to the end of the message: Triton passes on nothing else. */
static TRITONSERVER_Error *read_error(Reading *frame)
{
    const TRITONSERVER_Error_Code code = read_number(frame, 4);
    const char *const message = read_text(frame);
    const char *const details = read_text(frame);
    char *whole;
    if (*details == 0 || asprintf(&whole, "%s %s", message, details) < 0)
        return TRITONSERVER_ErrorNew(code, message);
    TRITONSERVER_Error *const error = TRITONSERVER_ErrorNew(code, whole);
    free(whole);
    return error;
}

static TRITONSERVER_Error *fill(TRITONBACKEND_Response *response, Reading *frame)
{
    const bool failed = read_number(frame, 1);
    if (failed)
        return read_error(frame);
    const uint32_t outputs = read_number(frame, 4);
    for (uint32_t i = 0; i < outputs; i++)
        TRY(add_output(response, frame));
    return NULL;
}

void pass_answer(InFlight *in_flight, Reading *frame)
{
    const uint64_t number = read_number(frame, 8);
    const bool last = read_number(frame, 1);
    TRITONBACKEND_Response *response = NULL;
    Slot slot;
    if (last ? !take_slot(in_flight, number, &slot) : !find_slot(in_flight, number, &slot))
        return;
    TRITONSERVER_Error *error = TRITONBACKEND_ResponseNew(&response, slot.request);
    if (error == NULL)
        error = fill(response, frame);
    if (last)
        settle(&slot, response, error);
    else if (error == NULL)
        ignore(TRITONBACKEND_ResponseSend(response, 0, NULL));
    else { /* a part cannot be sent: end the request; later parts find no slot */
        take_slot(in_flight, number, &slot);
        settle(&slot, response, error);
    }
}
