/* Requests in flight, by number. */
#include <assert.h>
#include <stdlib.h>

#include "relay.h"

static uint32_t index_of(uint64_t number) { return (uint32_t)number - 1; }

static void add_slots(InFlight *in_flight)
{
    const uint32_t count = 2 * in_flight->count + 64;
    Slot *const slots = realloc(in_flight->slots, count * sizeof(Slot));
    if (slots == NULL)
        return;
    for (uint32_t i = in_flight->count; i < count; i++)
        slots[i] = (Slot){.next_free = i + 1 < count ? i + 2 : 0};
    in_flight->free = in_flight->count + 1;
    in_flight->slots = slots;
    in_flight->count = count;
}

static void release(InFlight *in_flight, uint32_t index)
{
    assert(index < in_flight->count);
    in_flight->slots[index].request = NULL;
    in_flight->slots[index].next_free = in_flight->free;
    in_flight->free = index + 1;
}

uint64_t reserve_slot(InFlight *in_flight)
{
    uint64_t number = 0;
    pthread_mutex_lock(&in_flight->lock);
    if (in_flight->free == 0)
        add_slots(in_flight);
    if (in_flight->free != 0) {
        Slot *const slot = &in_flight->slots[in_flight->free - 1];
        number = (uint64_t)++slot->turn << 32 | in_flight->free;
        in_flight->free = slot->next_free;
    }
    pthread_mutex_unlock(&in_flight->lock);
    return number;
}

bool fill_slot(InFlight *in_flight, uint64_t number, const Slot *filled)
{
    pthread_mutex_lock(&in_flight->lock);
    const bool open = !in_flight->closed;
    if (open) {
        assert(index_of(number) < in_flight->count);
        Slot *const slot = &in_flight->slots[index_of(number)];
        const uint32_t turn = slot->turn;
        *slot = *filled;
        slot->turn = turn;
        in_flight->used++;
        in_flight->bytes += slot->bytes;
    } else
        release(in_flight, index_of(number));
    pthread_mutex_unlock(&in_flight->lock);
    return open;
}

void return_slot(InFlight *in_flight, uint64_t number)
{
    pthread_mutex_lock(&in_flight->lock);
    release(in_flight, index_of(number));
    pthread_mutex_unlock(&in_flight->lock);
}

/* Remove a request from those in flight. */
static void remove_slot(InFlight *in_flight, uint32_t index)
{
    in_flight->used--;
    in_flight->bytes -= in_flight->slots[index].bytes;
    release(in_flight, index);
}

static bool look_up(InFlight *in_flight, uint64_t number, bool take, Slot *found)
{
    bool is_there = false;
    const uint32_t index = index_of(number);
    pthread_mutex_lock(&in_flight->lock);
    if (index < in_flight->count) {
        const Slot *const slot = &in_flight->slots[index];
        is_there = slot->request != NULL && slot->turn == number >> 32;
        if (is_there)
            *found = *slot;
        if (is_there && take)
            remove_slot(in_flight, index);
    }
    pthread_mutex_unlock(&in_flight->lock);
    return is_there;
}

bool find_slot(InFlight *in_flight, uint64_t number, Slot *found)
{
    return look_up(in_flight, number, false, found);
}

bool take_slot(InFlight *in_flight, uint64_t number, Slot *taken)
{
    return look_up(in_flight, number, true, taken);
}

/* Remove a request that expired before `now`, or any if that is NULL, from index `*from` on. */
static bool take_next(InFlight *in_flight, const uint64_t *now, uint32_t *from, Slot *taken)
{
    bool found = false;
    pthread_mutex_lock(&in_flight->lock);
    for (; *from < in_flight->count && !found; ++*from) {
        const Slot *const slot = &in_flight->slots[*from];
        const bool expired = now == NULL || (slot->expires_ns != 0 && slot->expires_ns < *now);
        found = slot->request != NULL && expired;
        if (found) {
            *taken = *slot;
            remove_slot(in_flight, *from);
        }
    }
    pthread_mutex_unlock(&in_flight->lock);
    return found;
}

bool take_expired(InFlight *in_flight, uint64_t now, uint32_t *from, Slot *taken)
{
    return take_next(in_flight, &now, from, taken);
}

void close_slots(InFlight *in_flight, void (*give_up)(const Slot *slot))
{
    uint32_t from = 0;
    Slot slot;
    pthread_mutex_lock(&in_flight->lock);
    in_flight->closed = true;
    pthread_mutex_unlock(&in_flight->lock);
    /* No new request can become visible, so each one is found once without holding the lock. */
    while (take_next(in_flight, NULL, &from, &slot))
        give_up(&slot);
}

void open_slots(InFlight *in_flight)
{
    pthread_mutex_lock(&in_flight->lock);
    in_flight->closed = false;
    pthread_mutex_unlock(&in_flight->lock);
}

bool slots_are_open(InFlight *in_flight, size_t *bytes)
{
    pthread_mutex_lock(&in_flight->lock);
    const bool open = !in_flight->closed;
    *bytes = in_flight->bytes;
    pthread_mutex_unlock(&in_flight->lock);
    return open;
}

void write_cancelled(InFlight *in_flight, Written *to)
{
    pthread_mutex_lock(&in_flight->lock);
    for (uint32_t i = 0; i < in_flight->count; i++) {
        Slot *const slot = &in_flight->slots[i];
        bool cancelled = false;
        if (slot->request == NULL || slot->cancelled)
            continue;
        ignore(TRITONBACKEND_RequestIsCancelled(slot->request, &cancelled));
        if (!cancelled)
            continue;
        slot->cancelled = true;
        const size_t begin = begin_frame(to, CANCEL);
        write_number(to, (uint64_t)slot->turn << 32 | (i + 1), 8);
        end_frame(to, begin);
    }
    pthread_mutex_unlock(&in_flight->lock);
}
