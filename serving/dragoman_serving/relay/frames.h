/* Write and read frames; dragoman_options/frames.py documents their contents. */
#ifndef DRAGOMAN_FRAMES_H
#define DRAGOMAN_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HELLO = 1, REQUEST, CANCEL, READY, REFUSED, ANSWER, FIGURES };
/* Version of the frames; both sides must have the same. */
enum { PROTOCOL = 8 };
/* Maximum size of a frame in both directions, the same as in dragoman_options/frames.py. */
enum { MOST_FRAME_BYTES = 64 << 20 };

/* A growing buffer. Initialize it with zeros; release it with `free(bytes)`. */
typedef struct {
    char *bytes;
    size_t count, room;
    bool failed; /* no memory: later writes are lost */
} Written;

void write_bytes(Written *to, const void *from, size_t count);
void write_number(Written *to, uint64_t number, size_t bytes);
/* Overwrite the 4 bytes at `at`. */
void overwrite_number(Written *to, size_t at, uint32_t number);
void write_text(Written *to, const char *text, size_t bytes);
/* Begin a frame. Returns its position, for `end_frame`. */
size_t begin_frame(Written *to, uint8_t kind);
void end_frame(Written *to, size_t begin);

/* A frame to read. */
typedef struct {
    const char *at, *end;
    bool failed; /* the frame is too short: the values read last are invalid */
} Reading;

const char *read_bytes(Reading *from, size_t count);
uint64_t read_number(Reading *from, size_t bytes);
/* A zero-terminated text. */
const char *read_text(Reading *from);

#endif
