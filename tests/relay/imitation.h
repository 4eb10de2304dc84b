/* An imitation of Triton's backend API for one test process, enough to run the relay without Triton.
 *
 * A test fills models and requests, and sets the functions that it is called with. Only the tests
 * under tests/unit/serving/relay, in Python, and the fuzzer in tests/campaigns/relay use it. */
#ifndef DRAGOMAN_IMITATION_H
#define DRAGOMAN_IMITATION_H

#include <stdatomic.h>

#include "triton.h"

enum { GPU_MEMORY = 2 };

typedef struct {
    const char *name;
    int type;
    uint32_t dims;
    const int64_t *shape;
    uint64_t bytes;
    const void *data;
    int memory; /* a TRITONSERVER_MemoryType, or GPU_MEMORY */
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
};
struct TRITONBACKEND_Request {
    uint64_t timeout_us;
    uint32_t parameter_count, input_count, output_count;
    const Parameter *parameters;
    Tensor *inputs;
    const char **outputs;
    const char
        *trace; /* its context, "" for a trace without one; NULL: the request is not traced */
    const char *id;
    bool lacks_tracing; /* Triton was built without tracing */
    bool cancelled;
    volatile int released;
};

/* Called for what the relay sends, or NULL. */
extern void (*on_response)(TRITONBACKEND_Request *request, uint32_t flags,
                           const TRITONSERVER_Error *error, uint32_t count, const Tensor *outputs);
extern void (*on_release)(TRITONBACKEND_Request *request);
extern void (*on_metric)(int kind, const char *name, const char *labels, double value);

extern bool has_metrics;
/* Numbers of existing metric families and of responses that are not sent. */
extern atomic_size_t families, unsent_responses;
/* Largest size in bytes of an array that the relay has grown, if linked with --wrap=realloc. */
extern size_t largest_array;

#endif
