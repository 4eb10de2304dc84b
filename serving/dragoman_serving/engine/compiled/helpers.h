/* Threads that help another thread with its work. */
#pragma once

#include <stdint.h>

typedef struct Helpers Helpers;

int64_t dragoman_helpers_bytes(void);
void dragoman_start_helpers(Helpers *helpers, int64_t count);
Helpers *take_helpers(Helpers *helpers);
void return_helpers(Helpers *helpers);
void run_parts(Helpers *helpers, int64_t parts, void (*work)(const void *, int64_t),
               const void *argument);
