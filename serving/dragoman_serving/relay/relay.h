/* The relay: sends Triton's requests to the engine processes, and returns their answers.
 *
 * It runs inside Triton's process and has no knowledge of translation. Each model has one
 * connection to each engine process, and one thread that reads from it.
 */
#ifndef DRAGOMAN_RELAY_H
#define DRAGOMAN_RELAY_H

#include <pthread.h>
#include <stdatomic.h>

#include "frames.h"
#include "triton.h"

/* A request that the engine has not yet answered. */
typedef struct {
    TRITONBACKEND_Request *request; /* NULL: the slot is free */
    TRITONBACKEND_ModelInstance *instance;
    uint64_t begin_ns;
    uint64_t expires_ns; /* when the relay answers instead of the engine; 0: never */
    size_t bytes;        /* size of its frame, a measure of its work */
    uint32_t turn;       /* how often the slot was taken; part of a request's number */
    uint32_t next_free;  /* in a free slot, 1 + index of the next free slot; 0: none */
    bool cancelled;      /* the engine was notified of the cancellation */
} Slot;

typedef struct {
    pthread_mutex_t lock;
    Slot *slots;
    uint32_t count, free; /* `free` like `next_free` */
    atomic_uint used;     /* requests in flight */
    size_t bytes;         /* of these requests */
    bool closed;
} InFlight;

/* Reserve a number for a request, with a slot that is not yet visible; 0 if memory is exhausted. */
uint64_t reserve_slot(InFlight *in_flight);
/* Put the request in flight: from now on, other threads may find and answer it. False if
 * `in_flight` is closed; the number is then free again. */
bool fill_slot(InFlight *in_flight, uint64_t number, const Slot *filled);
/* Return a number that was only reserved. */
void return_slot(InFlight *in_flight, uint64_t number);
/* Find the request with a number; false if it is not in flight. */
bool find_slot(InFlight *in_flight, uint64_t number, Slot *found);
/* The same, and remove it. */
bool take_slot(InFlight *in_flight, uint64_t number, Slot *taken);
/* Remove a request that expired before `now`, from index `*from` on; false if there is none. */
bool take_expired(InFlight *in_flight, uint64_t now, uint32_t *from, Slot *taken);
/* Close, then call `give_up(slot)` for every request. */
void close_slots(InFlight *in_flight, void (*give_up)(const Slot *slot));
/* Allow requests in flight again. */
void open_slots(InFlight *in_flight);
/* Whether requests are allowed in flight, and the bytes of those that are. */
bool slots_are_open(InFlight *in_flight, size_t *bytes);
/* Write a frame for each request that was cancelled since the last call. */
void write_cancelled(InFlight *in_flight, Written *to);

/* A request's timeout; 0 if it has none. */
uint64_t timeout_us(TRITONBACKEND_Request *request);
TRITONSERVER_Error *write_request(Written *to, uint64_t number, TRITONBACKEND_Request *request);

/* Answer with an error and release the request. Frees the error. */
void answer_error(const Slot *slot, TRITONSERVER_Error *error);
/* Pass an answer to its request if that is still in flight. */
void pass_answer(InFlight *in_flight, Reading *frame);

enum { MOST_FIGURES = 4096, MOST_LABELS = 4, MOST_ENGINES = 64 };

/* Metrics on Triton's metrics port, summed over the engine processes. Consecutive ones with the
 * same name share a family. */
typedef struct {
    pthread_mutex_t lock;
    TRITONSERVER_MetricFamily *families[MOST_FIGURES];
    TRITONSERVER_Metric *metrics[MOST_FIGURES];
    double *gauges[MOST_FIGURES]; /* the value of each engine process; NULL: a counter */
    uint32_t count;
} Figures;

/* Publish the metrics of the engine process with this index. */
void publish_figures(Figures *figures, const char *model, uint32_t engine, Reading *frame);
/* Remove the values of an engine process that has ended from the gauges. */
void forget_engine(Figures *figures, uint32_t engine);
void withdraw_figures(Figures *figures);

uint64_t now_ns(void);

/* For calls whose failure cannot be handled: Triton has stopped or is stopping. */
static inline void ignore(TRITONSERVER_Error *error)
{
    if (error != NULL)
        TRITONSERVER_ErrorDelete(error);
}

static inline TRITONSERVER_Error *unavailable(const char *message)
{
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, message);
}

static inline TRITONSERVER_Error *invalid(const char *message)
{
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, message);
}

/* Return from the function if a call has an error. */
#define TRY(call) \
    do { \
        TRITONSERVER_Error *const tried = (call); \
        if (tried != NULL) \
            return tried; \
    } while (0)

#endif
