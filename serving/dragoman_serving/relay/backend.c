/* Triton's entry points. Each model has one connection to each engine process. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "relay.h"

enum { SWEEP_US = 20000, RECEIVE_BYTES = 1 << 18 };
/* Time after a request's timeout at which the relay answers. The engine has the same timeout, so by
 * then it must hang. */
static const uint64_t LATE_NS = 1000000000;
/* Maximum requests in flight at which answers are not gathered; the waiting time per request in
 * flight; the maximum waiting time. */
enum { FEW = 8, GATHER_US = 100, MOST_GATHER_US = 20000 };
/* Pause before the relay connects again to an engine process that ended. */
enum { RECONNECT_US = 500000 };

struct Relay;

/* The connection of a model to an engine process. */
typedef struct {
    struct Relay *relay;
    uint32_t index; /* of the engine process */
    struct sockaddr_un address;
    int socket; /* -1: none. Changed by the reader, which then holds `writing` and `replacing` */
    pthread_mutex_t writing;
    pthread_mutex_t replacing;
    pthread_mutex_t answering; /* a request is not released while another thread answers it */
    pthread_t reader;
    bool reads;
    InFlight in_flight; /* open while the engine process accepts requests for the model */
    /* Received bytes that are not read yet. */
    char *received;
    size_t count, room;
    bool damaged; /* a frame was too long: nothing after it is read */
} Link;

typedef struct Relay {
    char *name;
    pthread_t watcher;
    bool watches;
    atomic_bool stops;
    Figures figures;
    atomic_uint turn; /* the link at which the next choice begins */
    uint32_t count;
    Link links[MOST_ENGINES];
} Relay;

static TRITONSERVER_Error *broken(const char *what, const char *why)
{
    char message[512];
    snprintf(message, sizeof message, "%s: %s", what, why);
    return unavailable(message);
}

/* Send frames; the caller holds `writing`. A failure closes the connection: the reader then answers
 * every request with an error. */
static void send_all(Link *link, const Written *frames)
{
    size_t sent = 0;
    bool alive = !frames->failed;
    while (alive && sent < frames->count) {
        const ssize_t n =
            send(link->socket, frames->bytes + sent, frames->count - sent, MSG_NOSIGNAL);
        if (n > 0)
            sent += n;
        else
            alive = n < 0 && errno == EINTR;
    }
    if (!alive)
        shutdown(link->socket, SHUT_RDWR);
}

/* Receive more; false if the connection is closed, a frame was damaged, or memory is exhausted. */
static bool receive(Link *link)
{
    if (link->damaged)
        return false;
    if (link->room - link->count < RECEIVE_BYTES) {
        const size_t room = 2 * link->room + RECEIVE_BYTES;
        char *const received = realloc(link->received, room);
        if (received == NULL)
            return false;
        link->received = received;
        link->room = room;
    }
    ssize_t n;
    do
        n = recv(link->socket, link->received + link->count, link->room - link->count, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        link->count += n;
    return n > 0;
}

/* The next complete frame in the received bytes, from `*at` on; false if there is none. */
static bool next_frame(Link *link, size_t *at, uint8_t *kind, Reading *frame)
{
    uint32_t bytes;
    if (link->count - *at < 5)
        return false;
    memcpy(&bytes, link->received + *at, 4);
    link->damaged = bytes > MOST_FRAME_BYTES;
    if (link->damaged || link->count - *at - 4 < bytes)
        return false;
    const char *const begin = link->received + *at + 4;
    *kind = bytes > 0 ? begin[0] : 0;
    *frame = (Reading){.at = begin + (bytes > 0), .end = begin + bytes};
    *at += 4 + bytes;
    return true;
}

static void drop_received(Link *link, size_t bytes)
{
    link->count -= bytes;
    memmove(link->received, link->received + bytes, link->count);
}

/* The message contains the status, because Triton 24.10 drops it in streams and over HTTP. */
static TRITONSERVER_Error *gone(void)
{
    return unavailable("UNAVAILABLE: the engine's process has gone");
}

static void give_up(const Slot *slot) { answer_error(slot, gone()); }

/* Gather answers if many requests are in flight. Each answer wakes threads of Triton and the client
 * while all cores are busy; several at once cost little more than one. */
static void gather(const Link *link)
{
    const uint32_t used = link->in_flight.used;
    const uint32_t wait_us = used * GATHER_US;
    if (used > FEW)
        usleep(wait_us < MOST_GATHER_US ? wait_us : MOST_GATHER_US);
}

static void write_hello(Written *to, const char *model)
{
    const size_t begin = begin_frame(to, HELLO);
    write_number(to, PROTOCOL, 4);
    write_number(to, true, 1); /* the engine sends its metrics to the relay */
    write_text(to, model, strlen(model));
    end_frame(to, begin);
}

/* Connect, and send the model's name. The engine process answers when it has loaded the model. */
static TRITONSERVER_Error *reach_engine(Link *link)
{
    const int connected = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    Written hello = {0};
    if (connected < 0)
        return broken("no socket", strerror(errno));
    if (connect(connected, (struct sockaddr *)&link->address, sizeof link->address) != 0) {
        const int error = errno;
        close(connected);
        return broken(link->address.sun_path, strerror(error));
    }
    pthread_mutex_lock(&link->writing);
    pthread_mutex_lock(&link->replacing);
    if (link->socket >= 0)
        close(link->socket);
    link->socket = connected;
    link->count = 0;
    link->damaged = false;
    if (link->relay->stops)
        shutdown(link->socket, SHUT_RDWR);
    pthread_mutex_unlock(&link->replacing);
    write_hello(&hello, link->relay->name);
    send_all(link, &hello);
    pthread_mutex_unlock(&link->writing);
    free(hello.bytes);
    return NULL;
}

static void read_frame(Link *link, uint8_t kind, Reading *frame)
{
    if (kind == ANSWER) {
        pthread_mutex_lock(&link->answering);
        pass_answer(&link->in_flight, frame);
        pthread_mutex_unlock(&link->answering);
    } else if (kind == FIGURES)
        publish_figures(&link->relay->figures, link->relay->name, link->index, frame);
    else if (kind == READY)
        open_slots(&link->in_flight);
}

/* Read until the connection ends, and answer the requests that are then in flight. */
static void read_answers(Link *link)
{
    while (receive(link)) {
        size_t at = 0;
        uint8_t kind;
        Reading frame;
        while (next_frame(link, &at, &kind, &frame))
            read_frame(link, kind, &frame);
        drop_received(link, at);
        gather(link);
    }
    shutdown(link->socket, SHUT_RDWR); /* the other side may still be connected */
    close_slots(&link->in_flight, give_up);
}

/* If there are other engine processes, Triton goes on without one that ended, until it has been
 * started again. The only one is started together with Triton. */
static void *serve_link(void *of)
{
    Link *const link = of;
    for (;;) {
        TRITONSERVER_Error *error;
        if (link->socket >= 0)
            read_answers(link);
        if (link->relay->count == 1 || link->relay->stops)
            return NULL;
        forget_engine(&link->relay->figures, link->index);
        do {
            usleep(RECONNECT_US);
            if (link->relay->stops)
                return NULL;
            error = reach_engine(link);
            ignore(error);
        } while (error != NULL);
    }
}

/* Answer requests whose deadline passed long ago. The engine has the same deadlines, so it must
 * hang. */
static void answer_expired(Link *link)
{
    uint32_t from = 0;
    Slot slot;
    pthread_mutex_lock(&link->answering);
    while (take_expired(&link->in_flight, now_ns(), &from, &slot))
        answer_error(&slot, TRITONSERVER_ErrorNew(
                                TRITONSERVER_ERROR_CANCELLED,
                                "CANCELLED: the deadline passed, and the engine did not answer"));
    pthread_mutex_unlock(&link->answering);
}

static void send_cancelled(Link *link)
{
    Written frames = {0};
    /* Do not wait for an engine that does not read: expired requests would wait as well. */
    if (pthread_mutex_trylock(&link->writing) != 0)
        return;
    struct pollfd engine = {.fd = link->socket, .events = POLLOUT};
    if (poll(&engine, 1, 0) == 1)
        write_cancelled(&link->in_flight, &frames);
    if (frames.count > 0)
        send_all(link, &frames);
    pthread_mutex_unlock(&link->writing);
    free(frames.bytes);
}

/* A separate thread, since the one that sends requests may have to wait for the engine. */
static void *watch(void *of)
{
    Relay *const relay = of;
    while (!relay->stops) {
        for (uint32_t i = 0; i < relay->count; i++) {
            answer_expired(&relay->links[i]);
            send_cancelled(&relay->links[i]);
        }
        usleep(SWEEP_US);
    }
    return NULL;
}

static bool add_link(Relay *relay, const char *path, size_t bytes)
{
    Link *const link = &relay->links[relay->count];
    if (relay->count == MOST_ENGINES || bytes == 0 || bytes >= sizeof link->address.sun_path)
        return false;
    if (pthread_mutex_init(&link->writing, NULL) | pthread_mutex_init(&link->replacing, NULL) |
        pthread_mutex_init(&link->answering, NULL) |
        pthread_mutex_init(&link->in_flight.lock, NULL))
        return false;
    link->relay = relay;
    link->index = relay->count++;
    link->socket = -1;
    link->in_flight.closed = true;
    link->address.sun_family = AF_UNIX;
    memcpy(link->address.sun_path, path, bytes);
    return true;
}

/* Read the paths of the sockets, one for each engine process. A comma before a slash separates
 * them, as in dragoman_options/frames.py. */
static TRITONSERVER_Error *add_links(Relay *relay)
{
    const char *path = getenv("DRAGOMAN_ENGINE_SOCKETS");
    while (path != NULL) {
        const char *const end = strstr(path, ",/");
        if (!add_link(relay, path, end != NULL ? (size_t)(end - path) : strlen(path)))
            break;
        if (end == NULL)
            return NULL;
        path = end + 1;
    }
    return unavailable(
        "DRAGOMAN_ENGINE_SOCKETS does not name sockets of an engine; dragoman serve does");
}

/* Pass the model's inputs and outputs, as JSON from the engine, to Triton. */
static TRITONSERVER_Error *declare_tensors(TRITONBACKEND_Model *model, const char *json)
{
    TRITONSERVER_Message *config;
    TRY(TRITONSERVER_MessageNewFromSerializedJson(&config, json, strlen(json)));
    TRITONSERVER_Error *const error = TRITONBACKEND_ModelSetConfig(model, 1, config);
    ignore(TRITONSERVER_MessageDelete(config));
    return error;
}

/* Read what an engine process has sent. True if it has loaded the model; its inputs and outputs are
 * then declared. Otherwise `error` says why it cannot, or is NULL: it is still loading. */
static bool greet(Link *link, TRITONBACKEND_Model *model, TRITONSERVER_Error **error)
{
    size_t at = 0;
    uint8_t kind = 0;
    Reading frame;
    *error = NULL;
    if (!receive(link)) {
        *error = gone();
        return false;
    }
    while (kind != READY && kind != REFUSED && next_frame(link, &at, &kind, &frame))
        read_frame(link, kind, &frame);
    if (kind == READY)
        *error = declare_tensors(model, read_text(&frame));
    else if (kind == REFUSED)
        *error = invalid(read_text(&frame));
    drop_received(link, at);
    return kind == READY;
}

/* Wait until an engine process has loaded the model. The others may be starting again. */
static TRITONSERVER_Error *wait_until_ready(Relay *relay, TRITONBACKEND_Model *model)
{
    struct pollfd engines[MOST_ENGINES];
    TRITONSERVER_Error *error = NULL;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < relay->count; i++) {
        ignore(error);
        error = reach_engine(&relay->links[i]);
        engines[i] = (struct pollfd){.fd = relay->links[i].socket, .events = POLLIN};
        waiting += error == NULL;
    }
    while (waiting > 0) {
        if (poll(engines, relay->count, -1) < 0)
            continue; /* interrupted by a signal */
        for (uint32_t i = 0; i < relay->count; i++) {
            if (engines[i].revents == 0)
                continue;
            ignore(error);
            if (greet(&relay->links[i], model, &error))
                return error;
            if (error == NULL)
                continue;
            engines[i].fd = -1;
            waiting--;
        }
    }
    return error;
}

static TRITONSERVER_Error *start(Relay *relay, TRITONBACKEND_Model *model)
{
    const char *name;
    TRY(TRITONBACKEND_ModelName(model, &name));
    relay->name = strdup(name);
    if (relay->name == NULL)
        return unavailable("no memory");
    TRY(add_links(relay));
    TRY(wait_until_ready(relay, model));
    int failed = 0;
    for (uint32_t i = 0; i < relay->count && !failed; i++) {
        failed = pthread_create(&relay->links[i].reader, NULL, serve_link, &relay->links[i]);
        relay->links[i].reads = !failed;
    }
    if (!failed) {
        failed = pthread_create(&relay->watcher, NULL, watch, relay);
        relay->watches = !failed;
    }
    return failed ? broken("no thread", strerror(failed)) : NULL;
}

static void hang_up(Link *link)
{
    pthread_mutex_lock(&link->replacing);
    if (link->socket >= 0)
        shutdown(link->socket, SHUT_RDWR);
    pthread_mutex_unlock(&link->replacing);
}

static void stop(Relay *relay)
{
    relay->stops = true;
    for (uint32_t i = 0; i < relay->count; i++)
        hang_up(&relay->links[i]);
    for (uint32_t i = 0; i < relay->count; i++)
        if (relay->links[i].reads)
            pthread_join(relay->links[i].reader, NULL);
    if (relay->watches)
        pthread_join(relay->watcher, NULL);
    for (uint32_t i = 0; i < relay->count; i++) {
        Link *const link = &relay->links[i];
        if (link->socket >= 0)
            close(link->socket);
        free(link->in_flight.slots);
        free(link->received);
    }
    withdraw_figures(&relay->figures);
    free(relay->name);
    free(relay);
}

/* The link with the least work in flight, of those that accept requests. Equal ones take turns. */
static Link *choose_link(Relay *relay)
{
    const uint32_t turn = relay->turn++;
    Link *least = NULL;
    size_t least_bytes = 0;
    for (uint32_t i = 0; i < relay->count; i++) {
        Link *const link = &relay->links[(turn + i) % relay->count];
        size_t bytes;
        if (slots_are_open(&link->in_flight, &bytes) && (least == NULL || bytes < least_bytes)) {
            least = link;
            least_bytes = bytes;
        }
    }
    return least != NULL ? least : &relay->links[0]; /* which fails the requests */
}

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend)
{
    uint32_t major, minor;
    (void)backend;
    TRY(TRITONBACKEND_ApiVersion(&major, &minor));
    if (major != API_MAJOR || minor < API_MINOR)
        return TRITONSERVER_ErrorNew(
            TRITONSERVER_ERROR_UNSUPPORTED,
            "this Triton is older than release 24.10: install a newer one");
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model)
{
    Relay *const relay = calloc(1, sizeof(Relay));
    if (relay == NULL)
        return unavailable("no memory");
    const int failed = pthread_mutex_init(&relay->figures.lock, NULL);
    TRITONSERVER_Error *error = failed ? unavailable("no memory") : start(relay, model);
    if (error == NULL)
        error = TRITONBACKEND_ModelSetState(model, relay);
    if (error != NULL)
        stop(relay);
    return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model)
{
    void *relay;
    TRY(TRITONBACKEND_ModelState(model, &relay));
    if (relay != NULL)
        stop(relay);
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       uint32_t count)
{
    TRITONBACKEND_Model *model;
    void *state;
    TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
    TRY(TRITONBACKEND_ModelState(model, &state));
    Link *const link = choose_link(state);
    Written frames = {0};
    /* Held until all is sent: no request may be cancelled before the engine has received it. */
    pthread_mutex_lock(&link->writing);
    for (uint32_t i = 0; i < count; i++) {
        Slot slot = {.request = requests[i], .instance = instance, .begin_ns = now_ns()};
        const uint64_t timeout = timeout_us(requests[i]);
        if (timeout != 0 && timeout < UINT64_MAX / 2000)
            slot.expires_ns = slot.begin_ns + timeout * 1000 + LATE_NS;
        const uint64_t number = reserve_slot(&link->in_flight);
        const size_t begin = frames.count;
        TRITONSERVER_Error *const error = number == 0 ? unavailable("no memory for the request")
                                                      : write_request(&frames, number, requests[i]);
        if (error != NULL) {
            if (number != 0)
                return_slot(&link->in_flight, number);
            answer_error(&slot, error);
            continue;
        }
        slot.bytes = frames.count - begin;
        if (!fill_slot(&link->in_flight, number, &slot)) {
            frames.count = begin;
            give_up(&slot);
        }
    }
    send_all(link, &frames);
    pthread_mutex_unlock(&link->writing);
    free(frames.bytes);
    return NULL;
}
