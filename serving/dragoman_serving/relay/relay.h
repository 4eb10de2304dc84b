/* The relay: what Triton's requests hold goes to the engine's process, whose answers come back.
 *
 * It stands in Triton's own process and knows nothing of translation. One connection a model, and
 * one thread that reads from it.
 */
#ifndef DRAGOMAN_RELAY_H
#define DRAGOMAN_RELAY_H

#include <pthread.h>
#include <stdatomic.h>

#include "frames.h"
#include "triton.h"

/* A request that the engine has not yet answered. */
typedef struct {
    TRITONBACKEND_Request *request; /* none: the slot is free */
    TRITONBACKEND_ModelInstance *instance;
    uint64_t begin_ns;
    uint64_t expires_ns; /* when the relay answers in the engine's place; 0: never */
    uint32_t turn;      /* how often the slot was taken: part of a request's number */
    uint32_t next_free; /* of a free slot, one more than the number of the next one; 0: none */
    bool cancelled;     /* and the engine knows */
} Slot;

typedef struct {
    pthread_mutex_t lock;
    Slot *slots;
    uint32_t count, free; /* `free` as `next_free` */
    atomic_uint used;     /* requests in flight */
    bool closed;
} InFlight;

/* A number for a request, whose slot is not yet to be seen; 0 if there is no memory for it. */
uint64_t reserve_slot(InFlight *in_flight);
/* From now on the request is in flight, and belongs to whoever finds it. False if it is closed: then
 * the number is free again. */
bool fill_slot(InFlight *in_flight, uint64_t number, const Slot *filled);
/* Give a number back that was reserved only. */
void return_slot(InFlight *in_flight, uint64_t number);
/* The request of a number, if it is in flight. */
bool find_slot(InFlight *in_flight, uint64_t number, Slot *found);
/* The same, and it is not in flight any more. */
bool take_slot(InFlight *in_flight, uint64_t number, Slot *taken);
/* Take a request, from index `*from` on, that expired before `now`; false if there is none. */
bool take_expired(InFlight *in_flight, uint64_t now, uint32_t *from, Slot *taken);
/* Close, then give up every request, with `give_up(slot)`. */
void close_slots(InFlight *in_flight, void (*give_up)(const Slot *slot));
/* Write a frame for each request whose client has gone since the last time. */
void write_cancelled(InFlight *in_flight, Written *to);

/* The time that a request allows for its answer; 0 if it names none. */
uint64_t timeout_us(TRITONBACKEND_Request *request);
TRITONSERVER_Error *write_request(Written *to, uint64_t number, TRITONBACKEND_Request *request);

/* Answer with an error, which is freed, and let go of the request. */
void answer_error(const Slot *slot, TRITONSERVER_Error *error);
/* Pass an answer on to its request, if that is still in flight. */
void pass_answer(InFlight *in_flight, Reading *frame);

enum { MOST_FIGURES = 4096, MOST_LABELS = 4 };

/* Figures on Triton's metrics port. Consecutive ones of one name share a family. */
typedef struct {
    TRITONSERVER_MetricFamily *families[MOST_FIGURES];
    TRITONSERVER_Metric *metrics[MOST_FIGURES];
    uint32_t count;
} Figures;

void publish_figures(Figures *figures, const char *model, Reading *frame);
void withdraw_figures(Figures *figures);

uint64_t now_ns(void);

/* For calls whose failure leaves nothing to be done: Triton has gone, or is about to. */
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

/* Return an error, if there is one. */
#define TRY(call)                                     \
    do {                                              \
        TRITONSERVER_Error *const tried = (call);     \
        if (tried != NULL)                            \
            return tried;                             \
    } while (0)

#endif
