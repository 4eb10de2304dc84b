/* Closes requests in flight while another thread reserves a number, for which the slots grow. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "relay.h"

/* Relaxed, so that only the lock of the slots orders what the threads read and write. */
static atomic_bool closing, grown;
static int given_up;

void TRITONSERVER_ErrorDelete(TRITONSERVER_Error *error) { (void)error; }

TRITONSERVER_Error *TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request *request, bool *is)
{
    (void)request;
    *is = false;
    return NULL;
}

static void *grow(void *of)
{
    while (!atomic_load_explicit(&closing, memory_order_relaxed))
        continue;
    reserve_slot(of);
    atomic_store_explicit(&grown, true, memory_order_relaxed);
    return NULL;
}

static void wait_until_grown(const Slot *slot)
{
    (void)slot;
    given_up++;
    atomic_store_explicit(&closing, true, memory_order_relaxed);
    while (!atomic_load_explicit(&grown, memory_order_relaxed))
        continue;
}

int main(void)
{
    InFlight in_flight = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const Slot slot = {.request = (TRITONBACKEND_Request *)&in_flight};
    pthread_t thread;
    int filled = 0;
    do
        filled += fill_slot(&in_flight, reserve_slot(&in_flight), &slot);
    while (in_flight.free != 0);
    if (pthread_create(&thread, NULL, grow, &in_flight) != 0)
        return 2;
    close_slots(&in_flight, wait_until_grown);
    pthread_join(thread, NULL);
    free(in_flight.slots);
    printf("%d of %d\n", given_up, filled);
    return given_up != filled;
}
