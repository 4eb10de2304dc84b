/* Damaged frames for the relay, with sanitizers: usage: fuzz ROUNDS SEED FOLDER
 *
 * First single frames, each in a heap block of its exact size, so that a read beyond its end is
 * detected. Then whole models, which connect to a socket in FOLDER and get damaged frames from it.
 * Every request must be released, and every response sent. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "imitation.h"
#include "relay.h"

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model);
TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       uint32_t count);

enum { MOST_REQUESTS = 40, MOST_ANSWERS = 12, FRAMES_A_MODEL = 200, ROUNDS_A_MODEL = 500 };
enum { MOST_PARAMETERS = 2, MOST_INPUTS = 3, CONTENT_BYTES = 64, TOO_MANY_BYTES = 40 << 20 };

static atomic_long requests, released, sent;

/* A request with all that it points to, in one heap block, so that a use after its release is
 * detected. */
typedef struct {
    TRITONBACKEND_Request request;
    Parameter parameters[MOST_PARAMETERS];
    Tensor inputs[MOST_INPUTS];
    const char *outputs[1];
    int64_t number, shape[2];
    char content[CONTENT_BYTES];
} Request;

static void release(TRITONBACKEND_Request *request)
{
    released++;
    free(request);
}

static void count_response(TRITONBACKEND_Request *request, uint32_t flags,
                           const TRITONSERVER_Error *error, uint32_t count, const Tensor *outputs)
{
    (void)request, (void)flags, (void)error, (void)count, (void)outputs;
    sent++;
}

/* A request whose properties follow from a random number. */
static TRITONBACKEND_Request *make_request(uint32_t choice)
{
    Request *const made = calloc(1, sizeof *made);
    if (made == NULL)
        abort();
    made->number = made->shape[0] = made->shape[1] = 1;
    for (uint32_t i = 0; i < MOST_PARAMETERS; i++) {
        const int type = (choice + i) % 5; /* 4: unknown */
        made->parameters[i] = (Parameter){
            .name = choice % 7 ? "p" : "id",
            .type = type,
            .value = type == TRITONSERVER_PARAMETER_STRING ? (const void *)"v" : &made->number,
        };
    }
    for (uint32_t i = 0; i < MOST_INPUTS; i++)
        made->inputs[i] = (Tensor){
            .name = choice % 3 == 0 ? "beam_width" : "text_input",
            .type = 13,
            .dims = choice % 11 == 0 ? 0 : 2,
            .shape = choice % 11 == 0 ? NULL : made->shape,
            .bytes = choice % 13 == 0 ? TOO_MANY_BYTES : CONTENT_BYTES,
            .data = made->content,
            .memory = choice % 17 == 0 ? GPU_MEMORY : TRITONSERVER_MEMORY_CPU,
        };
    made->outputs[0] = "text_output";
    made->request = (TRITONBACKEND_Request){
        .timeout_us = choice,
        .parameter_count = choice % (MOST_PARAMETERS + 1),
        .input_count = choice % (MOST_INPUTS + 1),
        .output_count = choice % 2,
        .parameters = made->parameters,
        .inputs = made->inputs,
        .outputs = made->outputs,
        .trace = choice % 5 != 1 ? NULL
                 : choice % 2    ? "{}"
                                 : "",
        .id = choice % 2 ? "r" : "",
        .lacks_tracing = choice % 5 == 0,
        .cancelled = choice % 3 == 0,
    };
    requests++;
    return &made->request;
}

/* Each thread has its own generator. */
typedef struct {
    unsigned state;
} Chance;

static unsigned below(Chance *chance, unsigned most)
{
    return (unsigned)rand_r(&chance->state) % most;
}

static uint64_t odd_number(Chance *chance)
{
    static const uint64_t odd[] = {0,          1,
                                   7,          8,
                                   9,          255,
                                   65535,      1u << 31,
                                   UINT32_MAX, UINT32_MAX - 4,
                                   1ull << 32, 1ull << 61,
                                   1ull << 62, 1ull << 63,
                                   UINT64_MAX, UINT64_MAX - 8};
    return odd[below(chance, sizeof odd / sizeof *odd)];
}

static void write_random(Written *to, Chance *chance, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        write_number(to, below(chance, 256), 1);
}

static void write_random_text(Written *to, Chance *chance)
{
    char text[40];
    const size_t bytes = below(chance, sizeof text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)below(chance, 256);
    write_text(to, text, bytes);
}

static void write_output(Written *to, Chance *chance)
{
    const unsigned dims = below(chance, 11), bytes = below(chance, 30);
    write_random_text(to, chance);
    write_number(to, 13, 4);
    write_number(to, dims, 4);
    for (unsigned i = 0; i < dims; i++)
        write_number(to, odd_number(chance), 8);
    write_number(to, bytes, 8);
    write_random(to, chance, bytes);
}

static void write_answer(Written *to, Chance *chance, uint64_t number)
{
    const bool failed = below(chance, 4) == 0;
    const size_t begin = begin_frame(to, ANSWER);
    write_number(to, number, 8);
    write_number(to, below(chance, 2), 1);
    write_number(to, failed, 1);
    if (failed) {
        write_number(to, below(chance, 9), 4);
        write_random_text(to, chance);
    } else {
        const unsigned outputs = below(chance, 4);
        write_number(to, outputs, 4);
        for (unsigned i = 0; i < outputs; i++)
            write_output(to, chance);
    }
    end_frame(to, begin);
}

static void write_figures(Written *to, Chance *chance, uint8_t kind)
{
    const unsigned few = 140; /* usually few, since many take long */
    const unsigned count = below(chance, below(chance, 32) ? few : MOST_FIGURES + 6);
    const size_t begin = begin_frame(to, kind);
    write_number(to, count, 4);
    for (unsigned i = 0; i < count; i++) {
        const unsigned labels = below(chance, MOST_LABELS + 3);
        write_number(to, below(chance, 3), 1);
        if (below(chance, 2))
            write_text(to, "shared", 6); /* several metrics of one family */
        else
            write_random_text(to, chance);
        write_random_text(to, chance);
        write_number(to, labels, 4);
        for (unsigned l = 0; l < 2 * labels; l++)
            write_random_text(to, chance);
        write_number(to, odd_number(chance), 8);
    }
    end_frame(to, begin);
}

/* Change some of the bytes written from `begin` on. */
static void damage(Written *written, size_t begin, Chance *chance)
{
    for (unsigned i = below(chance, 6); i > 0 && written->count > begin; i--) {
        const size_t at = begin + below(chance, written->count - begin);
        const uint64_t number = odd_number(chance);
        const size_t bytes = written->count - at < 8 ? written->count - at : 8;
        if (below(chance, 2))
            written->bytes[at] = (char)below(chance, 256);
        else
            memcpy(written->bytes + at, &number, bytes);
    }
}

/* A frame without its header, in a heap block of its exact size. */
static char *exact_copy(const Written *written, size_t begin, Reading *frame)
{
    const size_t head = begin + 5, bytes = written->count - head;
    char *const copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL)
        abort();
    memcpy(copy, written->bytes + head, bytes);
    *frame = (Reading){.at = copy, .end = copy + bytes};
    return copy;
}

static void drop(const Slot *slot) { answer_error(slot, unavailable("the round is over")); }

/* Requests in flight, damaged frames for them, then the end of all requests. */
static long fuzz_frames(Chance *chance)
{
    InFlight in_flight = {.lock = PTHREAD_MUTEX_INITIALIZER};
    Figures figures = {.lock = PTHREAD_MUTEX_INITIALIZER};
    uint64_t numbers[MOST_REQUESTS];
    unsigned live = 0;
    for (unsigned i = below(chance, MOST_REQUESTS); i > 0; i--) {
        const Slot slot = {.request = make_request(rand_r(&chance->state)), .begin_ns = now_ns()};
        const uint64_t number = reserve_slot(&in_flight);
        Written request = {0};
        TRITONSERVER_Error *const error = write_request(&request, number, slot.request);
        free(request.bytes);
        if (error != NULL) {
            return_slot(&in_flight, number);
            answer_error(&slot, error);
        } else if (fill_slot(&in_flight, number, &slot))
            numbers[live++] = number;
    }
    long frames = 0;
    for (unsigned i = below(chance, MOST_ANSWERS); i > 0; i--, frames++) {
        const bool is_answer = below(chance, 6) > 0;
        const bool is_known = live > 0 && below(chance, 8) > 0;
        Written written = {0};
        Reading frame;
        if (is_answer)
            write_answer(&written, chance,
                         is_known ? numbers[below(chance, live)] : odd_number(chance));
        else
            write_figures(&written, chance, FIGURES);
        if (below(chance, 2))
            damage(&written, 5, chance);
        char *const copy = exact_copy(&written, 0, &frame);
        if (is_answer)
            pass_answer(&in_flight, &frame);
        else
            publish_figures(&figures, "translate", below(chance, MOST_ENGINES), &frame);
        free(copy);
        free(written.bytes);
    }
    Written cancelled = {0};
    write_cancelled(&in_flight, &cancelled);
    free(cancelled.bytes);
    close_slots(&in_flight, drop);
    forget_engine(&figures, below(chance, MOST_ENGINES));
    withdraw_figures(&figures);
    free(in_flight.slots);
    return frames;
}

typedef struct {
    int listening;
    Chance chance;
    long frames;
} Engine;

/* The other side of one model's connection: damaged frames, until all are sent or it is closed. */
static void *imitate_engine(void *of)
{
    Engine *const engine = of;
    Chance *const chance = &engine->chance;
    char ignored[1 << 16];
    const int client = accept(engine->listening, NULL, NULL);
    Written frames = {0};
    end_frame(&frames, begin_frame(&frames, below(chance, 20) ? READY : REFUSED));
    for (int i = 0; i < FRAMES_A_MODEL; i++, engine->frames++) {
        const size_t begin = frames.count;
        const uint64_t number = (uint64_t)(1 + below(chance, 4)) << 32 | (1 + below(chance, 64));
        if (below(chance, 8) > 0)
            write_answer(&frames, chance, number);
        else
            write_figures(&frames, chance, below(chance, 3) ? FIGURES : below(chance, 256));
        /* A damaged header makes the rest unreadable, so most frames keep theirs. */
        damage(&frames, begin + (below(chance, 50) ? 5 : 0), chance);
        while (recv(client, ignored, sizeof ignored, MSG_DONTWAIT) > 0)
            continue;
        if (below(chance, 4) == 0) {
            if (send(client, frames.bytes, frames.count, MSG_NOSIGNAL) < 0)
                break;
            frames.count = 0;
        }
    }
    free(frames.bytes);
    shutdown(client, SHUT_RDWR);
    close(client);
    return NULL;
}

static long fuzz_model(int listening, Chance *chance)
{
    Engine engine = {.listening = listening, .chance = {rand_r(&chance->state)}};
    pthread_t thread;
    if (pthread_create(&thread, NULL, imitate_engine, &engine) != 0)
        abort();
    TRITONBACKEND_Model model = {0};
    TRITONBACKEND_ModelInstance *const instance = (void *)&model;
    TRITONSERVER_Error *const error = TRITONBACKEND_ModelInitialize(&model);
    for (unsigned i = below(chance, 8); error == NULL && i > 0; i--) {
        TRITONBACKEND_Request *batch[MOST_REQUESTS];
        const uint32_t count = 1 + below(chance, MOST_REQUESTS - 1);
        for (uint32_t k = 0; k < count; k++)
            batch[k] = make_request(rand_r(&chance->state));
        ignore(TRITONBACKEND_ModelInstanceExecute(instance, batch, count));
        usleep(below(chance, 2000));
    }
    if (error == NULL)
        ignore(TRITONBACKEND_ModelFinalize(&model));
    ignore(error);
    pthread_join(thread, NULL);
    return engine.frames;
}

static int listen_in(const char *folder)
{
    static char path[108];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(path, sizeof path, "%s/engine", folder);
    strcpy(address.sun_path, path);
    const int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    listen(listening, 8);
    setenv("DRAGOMAN_ENGINE_SOCKETS", path, 1);
    return listening;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const long rounds = atol(argv[1]);
    Chance chance = {(unsigned)atol(argv[2])};
    const int listening = listen_in(argv[3]);
    if (listening < 0)
        return 2;
    on_release = release;
    on_response = count_response;
    long frames = 0;
    for (long i = 0; i < rounds; i++) {
        frames += fuzz_frames(&chance);
        if (i % ROUNDS_A_MODEL == 0)
            frames += fuzz_model(listening, &chance);
    }
    const long responses = sent + (long)unsent_responses;
    printf("{\"frames\": %ld, \"requests\": %ld, \"released\": %ld, \"responses\": %ld, \"sent\": "
           "%ld}\n",
           frames, requests, released, responses, sent);
    return requests == released && responses == sent ? 0 : 1;
}
