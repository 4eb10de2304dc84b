/* Triton's entry points. Each model has one connection to the engine process. */
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

typedef struct {
    char *name;
    int socket;
    pthread_mutex_t writing;
    pthread_mutex_t answering; /* a request is not released while another thread answers it */
    pthread_t reader, watcher;
    bool reads, watches;
    atomic_bool stops;
    InFlight in_flight;
    Figures figures;
    /* Received bytes that are not read yet. */
    char *received;
    size_t count, room;
    bool damaged; /* a frame was too long: nothing after it is read */
} Relay;

static TRITONSERVER_Error *broken(const char *what, const char *why)
{
    char message[512];
    snprintf(message, sizeof message, "%s: %s", what, why);
    return unavailable(message);
}

/* Send frames; the caller holds `writing`. A failure closes the connection: the reader then answers
 * every request with an error. */
static void send_all(Relay *relay, const Written *frames)
{
    size_t sent = 0;
    bool alive = !frames->failed;
    while (alive && sent < frames->count) {
        const ssize_t n =
            send(relay->socket, frames->bytes + sent, frames->count - sent, MSG_NOSIGNAL);
        if (n > 0)
            sent += n;
        else
            alive = n < 0 && errno == EINTR;
    }
    if (!alive)
        shutdown(relay->socket, SHUT_RDWR);
}

/* Receive more; false if the connection is closed, a frame was damaged, or memory is exhausted. */
static bool receive(Relay *relay)
{
    if (relay->damaged)
        return false;
    if (relay->room - relay->count < RECEIVE_BYTES) {
        const size_t room = 2 * relay->room + RECEIVE_BYTES;
        char *const received = realloc(relay->received, room);
        if (received == NULL)
            return false;
        relay->received = received;
        relay->room = room;
    }
    ssize_t n;
    do
        n = recv(relay->socket, relay->received + relay->count, relay->room - relay->count, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        relay->count += n;
    return n > 0;
}

/* The next complete frame in the received bytes, from `*at` on; false if there is none. */
static bool next_frame(Relay *relay, size_t *at, uint8_t *kind, Reading *frame)
{
    uint32_t bytes;
    if (relay->count - *at < 5)
        return false;
    memcpy(&bytes, relay->received + *at, 4);
    relay->damaged = bytes > MOST_FRAME_BYTES;
    if (relay->damaged || relay->count - *at - 4 < bytes)
        return false;
    const char *const begin = relay->received + *at + 4;
    *kind = bytes > 0 ? begin[0] : 0;
    *frame = (Reading){.at = begin + (bytes > 0), .end = begin + bytes};
    *at += 4 + bytes;
    return true;
}

static void drop_received(Relay *relay, size_t bytes)
{
    relay->count -= bytes;
    memmove(relay->received, relay->received + bytes, relay->count);
}

/* The message contains the status, because Triton 24.10 drops it in streams and over HTTP. */
static TRITONSERVER_Error *gone(void)
{
    return unavailable("UNAVAILABLE: the engine's process has gone");
}

static void give_up(const Slot *slot) { answer_error(slot, gone()); }

/* Gather answers if many requests are in flight. Each answer wakes threads of Triton and the client
 * while all cores are busy; several at once cost little more than one. */
static void gather(const Relay *relay)
{
    const uint32_t used = relay->in_flight.used;
    const uint32_t wait_us = used * GATHER_US;
    if (used > FEW)
        usleep(wait_us < MOST_GATHER_US ? wait_us : MOST_GATHER_US);
}

static void *read_answers(void *of)
{
    Relay *const relay = of;
    while (receive(relay)) {
        size_t at = 0;
        uint8_t kind;
        Reading frame;
        while (next_frame(relay, &at, &kind, &frame)) {
            if (kind == ANSWER) {
                pthread_mutex_lock(&relay->answering);
                pass_answer(&relay->in_flight, &frame);
                pthread_mutex_unlock(&relay->answering);
            } else if (kind == FIGURES)
                publish_figures(&relay->figures, relay->name, &frame);
        }
        drop_received(relay, at);
        gather(relay);
    }
    shutdown(relay->socket, SHUT_RDWR); /* the other side may still be connected */
    close_slots(&relay->in_flight, give_up);
    return NULL;
}

/* Answer requests whose deadline passed long ago. The engine has the same deadlines, so it must
 * hang. */
static void answer_expired(Relay *relay)
{
    uint32_t from = 0;
    Slot slot;
    pthread_mutex_lock(&relay->answering);
    while (take_expired(&relay->in_flight, now_ns(), &from, &slot))
        answer_error(&slot, TRITONSERVER_ErrorNew(
                                TRITONSERVER_ERROR_CANCELLED,
                                "CANCELLED: the deadline passed, and the engine did not answer"));
    pthread_mutex_unlock(&relay->answering);
}

static void send_cancelled(Relay *relay)
{
    struct pollfd engine = {.fd = relay->socket, .events = POLLOUT};
    Written frames = {0};
    /* Do not wait for an engine that does not read: expired requests would wait as well. */
    if (pthread_mutex_trylock(&relay->writing) != 0)
        return;
    if (poll(&engine, 1, 0) == 1)
        write_cancelled(&relay->in_flight, &frames);
    if (frames.count > 0)
        send_all(relay, &frames);
    pthread_mutex_unlock(&relay->writing);
    free(frames.bytes);
}

/* A separate thread, since the one that sends requests may have to wait for the engine. */
static void *watch(void *of)
{
    Relay *const relay = of;
    while (!relay->stops) {
        answer_expired(relay);
        send_cancelled(relay);
        usleep(SWEEP_US);
    }
    return NULL;
}

static TRITONSERVER_Error *reach_engine(Relay *relay)
{
    const char *const path = getenv("DRAGOMAN_ENGINE");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || strlen(path) >= sizeof address.sun_path)
        return unavailable(
            "DRAGOMAN_ENGINE does not name the engine's socket; dragoman serve does");
    strcpy(address.sun_path, path);
    relay->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (relay->socket < 0)
        return broken("no socket", strerror(errno));
    if (connect(relay->socket, (struct sockaddr *)&address, sizeof address) != 0)
        return broken(path, strerror(errno));
    return NULL;
}

static void write_hello(Written *to, const char *model)
{
    const size_t begin = begin_frame(to, HELLO);
    write_number(to, PROTOCOL, 4);
    write_number(to, true, 1); /* the engine sends its metrics to the relay */
    write_text(to, model, strlen(model));
    end_frame(to, begin);
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

/* Wait until the engine has loaded the model or reports an error. */
static TRITONSERVER_Error *wait_until_ready(Relay *relay, TRITONBACKEND_Model *model)
{
    for (;;) {
        size_t at = 0;
        uint8_t kind;
        Reading frame;
        if (!receive(relay))
            return gone();
        while (next_frame(relay, &at, &kind, &frame)) {
            if (kind == FIGURES)
                publish_figures(&relay->figures, relay->name, &frame);
            if (kind != READY && kind != REFUSED)
                continue;
            const char *const text = read_text(&frame);
            TRITONSERVER_Error *const error =
                kind == READY ? declare_tensors(model, text) : invalid(text);
            drop_received(relay, at);
            return error;
        }
        drop_received(relay, at);
    }
}

static TRITONSERVER_Error *introduce(Relay *relay, TRITONBACKEND_Model *model)
{
    Written hello = {0};
    write_hello(&hello, relay->name);
    send_all(relay, &hello);
    free(hello.bytes);
    return wait_until_ready(relay, model);
}

static TRITONSERVER_Error *start(Relay *relay, TRITONBACKEND_Model *model)
{
    const char *name;
    TRY(TRITONBACKEND_ModelName(model, &name));
    relay->name = strdup(name);
    if (relay->name == NULL)
        return unavailable("no memory");
    TRY(reach_engine(relay));
    TRY(introduce(relay, model));
    int failed = pthread_create(&relay->reader, NULL, read_answers, relay);
    relay->reads = !failed;
    if (!failed)
        failed = pthread_create(&relay->watcher, NULL, watch, relay);
    relay->watches = relay->reads && !failed;
    return failed ? broken("no thread", strerror(failed)) : NULL;
}

static void stop(Relay *relay)
{
    relay->stops = true;
    if (relay->socket >= 0)
        shutdown(relay->socket, SHUT_RDWR);
    if (relay->reads)
        pthread_join(relay->reader, NULL);
    if (relay->watches)
        pthread_join(relay->watcher, NULL);
    if (relay->socket >= 0)
        close(relay->socket);
    withdraw_figures(&relay->figures);
    free(relay->in_flight.slots);
    free(relay->received);
    free(relay->name);
    free(relay);
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
    relay->socket = -1;
    const int failed = pthread_mutex_init(&relay->writing, NULL) |
                       pthread_mutex_init(&relay->answering, NULL) |
                       pthread_mutex_init(&relay->in_flight.lock, NULL);
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
    Relay *const relay = state;
    Written frames = {0};
    /* Held until all is sent: no request may be cancelled before the engine has received it. */
    pthread_mutex_lock(&relay->writing);
    for (uint32_t i = 0; i < count; i++) {
        Slot slot = {.request = requests[i], .instance = instance, .begin_ns = now_ns()};
        const uint64_t timeout = timeout_us(requests[i]);
        if (timeout != 0 && timeout < UINT64_MAX / 2000)
            slot.expires_ns = slot.begin_ns + timeout * 1000 + LATE_NS;
        const uint64_t number = reserve_slot(&relay->in_flight);
        TRITONSERVER_Error *const error = number == 0 ? unavailable("no memory for the request")
                                                      : write_request(&frames, number, requests[i]);
        if (error != NULL) {
            if (number != 0)
                return_slot(&relay->in_flight, number);
            answer_error(&slot, error);
        } else if (!fill_slot(&relay->in_flight, number, &slot))
            give_up(&slot);
    }
    send_all(relay, &frames);
    pthread_mutex_unlock(&relay->writing);
    free(frames.bytes);
    return NULL;
}
