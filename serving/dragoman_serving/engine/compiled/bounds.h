/* Checks of the sizes and indices that a kernel takes from its caller. A test build stops where a
 * caller breaks its promise. A release is compiled with NDEBUG: it has no checks. */
#pragma once

#include <assert.h>

#define ASSERT_INDEX(index, size) assert((index) >= 0 && (index) < (size))
#define ASSERT_MULTIPLE(size, unit) assert((size) > 0 && (size) % (unit) == 0)

/* A call of a function that only test builds have. */
#ifdef NDEBUG
#define CHECK(call) ((void)0)
#else
#define CHECK(call) call
#endif
