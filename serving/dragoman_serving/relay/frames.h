/* Frames that are written and read; service/frames.py says what they hold. */
#ifndef DRAGOMAN_FRAMES_H
#define DRAGOMAN_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HELLO = 1, REQUEST, CANCEL, READY, REFUSED, ANSWER, FIGURES };
/* Version of the frames, which both sides must speak. */
enum { PROTOCOL = 5 };
/* Of a frame, in both directions; service/frames.py has it too. */
enum { MOST_FRAME_BYTES = 64 << 20 };

/* Bytes that grow; begin with zeros, end with `free(bytes)`. */
typedef struct {
    char *bytes;
    size_t count, room;
    bool failed; /* no memory: what follows is lost */
} Written;

void write_bytes(Written *to, const void *from, size_t count);
void write_number(Written *to, uint64_t number, size_t bytes);
/* Write 4 bytes anew that were written at `at`. */
void overwrite_number(Written *to, size_t at, uint32_t number);
void write_text(Written *to, const char *text, size_t bytes);
/* Begin a frame; end it with where it began. */
size_t begin_frame(Written *to, uint8_t kind);
void end_frame(Written *to, size_t begin);

/* A frame that is read. */
typedef struct {
    const char *at, *end;
    bool failed; /* it is shorter than it should be: what was read last is no good */
} Reading;

const char *read_bytes(Reading *from, size_t count);
uint64_t read_number(Reading *from, size_t bytes);
/* A text, with a zero byte behind it. */
const char *read_text(Reading *from);

#endif
