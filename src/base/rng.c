/* xoshiro256** and what is drawn from it. */
#include "base/rng.h"

#include <float.h>
#include <math.h>

/* Excess precision, as on x87, would break the promise of rng_normal(). */
_Static_assert(FLT_EVAL_METHOD == 0 && DBL_MANT_DIG == 53, "double must be plain binary64");

/* One step of splitmix64. For one *x before the step, one result: the map is a
 * bijection, which is what keeps distinct seeds and streams distinct. */
static uint64_t split_mix(uint64_t *x)
{
    uint64_t z = *x += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

static uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

void rng_init(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->s[i] = split_mix(&seed);
}

uint64_t rng_u64(struct rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t out = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return out;
}

uint64_t rng_below(struct rng *rng, uint64_t n)
{
    if (n == 0)
        return 0;
    /* 2^64 mod n numbers too many: without them n divides what is left. Two
     * divisions; a 128-bit product would save them, but is not standard C. */
    uint64_t spare = (0 - n) % n;
    uint64_t x = rng_u64(rng);
    while (x < spare)
        x = rng_u64(rng);
    return x % n;
}

double rng_unit(struct rng *rng)
{
    return (double)(rng_u64(rng) >> 11) * 0x1p-53;
}

/* ln x for 0 < x < 1. libm's is better and faster but rounds the last bit as
 * each version sees fit. frexp is exact; m is brought to [sqrt 1/2, sqrt 2)
 * and ln m = 2 atanh s, s = (m-1)/(m+1), |s| < 0.172. The first term left out
 * is below 2^-65 of the sum. */
static double natural_log(double x)
{
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        exponent--;
    }
    double s = (m - 1) / (m + 1);
    double sum = 0;
    for (int odd = 23; odd >= 1; odd -= 2)
        sum = sum * (s * s) + 1.0 / odd;
    return exponent * 0x1.62e42fefa39efp-1 + 2 * s * sum;
}

double rng_normal(struct rng *rng)
{
    /* Marsaglia's polar method. It makes two numbers at a time; the second is
     * dropped, because keeping it would put hidden state beside the four words. */
    double x, y, r;
    do {
        x = 2 * rng_unit(rng) - 1;
        y = 2 * rng_unit(rng) - 1;
        r = x * x + y * y;
    } while (r >= 1 || r == 0);
    return x * sqrt(-2 * natural_log(r) / r);
}

void rng_fork(const struct rng *rng, uint64_t stream, struct rng *child)
{
    uint64_t seed = stream;
    for (int i = 0; i < 4; i++) {
        seed ^= rng->s[i];
        seed = split_mix(&seed);
    }
    rng_init(child, seed);
}
