/* Write and read frames. Numbers are little-endian. */
#include "frames.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void write_bytes(Written *to, const void *from, size_t count)
{
    if (to->room - to->count < count) {
        const size_t room = 2 * to->room + count + 1024;
        char *const bytes = to->failed ? NULL : realloc(to->bytes, room);
        if (bytes == NULL) {
            to->failed = true;
            return;
        }
        to->bytes = bytes;
        to->room = room;
    }
    if (count > 0)
        memcpy(to->bytes + to->count, from, count);
    to->count += count;
}

void write_number(Written *to, uint64_t number, size_t bytes)
{
    assert(bytes <= sizeof number);
    write_bytes(to, &number, bytes);
}

void write_text(Written *to, const char *text, size_t bytes)
{
    write_number(to, bytes, 4);
    write_bytes(to, text, bytes);
    write_number(to, 0, 1);
}

size_t begin_frame(Written *to, uint8_t kind)
{
    const size_t begin = to->count;
    write_number(to, 0, 4);
    write_number(to, kind, 1);
    return begin;
}

void overwrite_number(Written *to, size_t at, uint32_t number)
{
    assert(to->failed || at + 4 <= to->count);
    if (!to->failed)
        memcpy(to->bytes + at, &number, 4);
}

void end_frame(Written *to, size_t begin) { overwrite_number(to, begin, to->count - begin - 4); }

const char *read_bytes(Reading *from, size_t count)
{
    if ((size_t)(from->end - from->at) < count) {
        from->failed = true;
        return NULL;
    }
    const char *const found = from->at;
    from->at += count;
    return found;
}

uint64_t read_number(Reading *from, size_t bytes)
{
    uint64_t number = 0;
    assert(bytes <= sizeof number);
    const char *const found = read_bytes(from, bytes);
    if (found != NULL)
        memcpy(&number, found, bytes);
    return number;
}

const char *read_text(Reading *from)
{
    const uint64_t count = read_number(from, 4);
    const char *const text = read_bytes(from, count + 1);
    if (text != NULL && text[count] != 0)
        from->failed = true;
    return from->failed ? "" : text;
}
