/* Logarithms and powers in double precision, identical on every machine.
 *
 * libm's results differ in the last bit between releases and CPUs. These are accurate to a few
 * units in the last place.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#define LN2_HIGH 6.93147180369123816490e-01 /* 33 bits, so that small multiples are exact */
#define LN2_LOW 1.90821492927058770002e-10

static inline double from_bits(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The natural logarithm of a positive normal number.
 *
 * x = 2^n m with m within a factor of the square root of 2 of 1, and the series of the inverse
 * hyperbolic tangent. */
static inline double exact_log(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int64_t n = (bits - 0x3fe6a09e667f3bcd) >> 52;
    const double m = from_bits(bits - n * (1LL << 52));
    const double f = (m - 1.0) / (m + 1.0), square = f * f;
    double sum = 0.0;
    for (int term = 23; term >= 3; term -= 2)
        sum = (sum + 1.0 / term) * square;
    return n * LN2_HIGH + (n * LN2_LOW + (2.0 * f + 2.0 * f * sum));
}

/* e^x of x from -700 to 700. */
static inline double exact_exp(double x)
{
    const double large = 6755399441055744.0; /* 1.5 x 2^52: sums with it are integers */
    const double n = (x * 1.44269504088896340736 + large) - large;
    const double r = (x - n * LN2_HIGH) - n * LN2_LOW;
    double sum = 1.0;
    for (int term = 14; term >= 1; term--)
        sum = 1.0 + sum * r / term;
    return sum * from_bits(((int64_t)n + 1023) << 52);
}

/* A positive number to the power of another number. */
static inline double exact_power(double base, double exponent)
{
    return exact_exp(exponent * exact_log(base));
}
