/* An imitation of Triton's backend API, enough to run the relay without Triton. */
#ifndef DRAGOMAN_IMITATION_H
#define DRAGOMAN_IMITATION_H

#include <stdatomic.h>

#include "relay.h"

enum { CONTENT_BYTES = 64 };

/* The properties of a request follow from its `choice`, a random number. It is on the heap, so that
 * a use after its release is detected. */
struct TRITONBACKEND_Request {
    uint32_t choice;
    char content[CONTENT_BYTES];
};

typedef struct {
    atomic_long requests, released, responses, sent;
} Counts;

extern Counts counts;
extern void *model_state;

TRITONBACKEND_Request *make_request(uint32_t choice);

#endif
