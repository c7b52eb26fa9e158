/* Seeded random numbers: the same seed gives the same run, on every machine.
 *
 * The generator is xoshiro256** (Blackman and Vigna), its state filled by
 * splitmix64 (Steele, Lea and Flood). It is fast and passes the usual
 * statistical batteries; it is not for secrets. Nothing here reads the time or
 * the operating system: the caller brings the seed and owns the state. One
 * thread at a time per struct; give every thread a fork of its own. No call can
 * fail. */
#ifndef TRIDENT_BASE_RNG_H
#define TRIDENT_BASE_RNG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Plain data: copy it to remember a point of the run, and to save it in a
 * checkpoint. All zero is the one state that yields only zeros; rng_init()
 * never makes it. */
struct rng {
    uint64_t s[4];
};

/* Every seed is a good one, 0 and 1 included, and no two give the same state. */
void rng_init(struct rng *rng, uint64_t seed);

/* 64 even bits. */
uint64_t rng_u64(struct rng *rng);

/* One of 0 .. n-1, each equally likely; 0 for n = 0. Takes one number from the
 * generator as a rule, and sometimes more: it redraws what would favour the
 * small ones. */
uint64_t rng_below(struct rng *rng, uint64_t n);

/* A multiple of 2^-53 in [0, 1). */
double rng_unit(struct rng *rng);

/* Mean 0, variance 1. Bit for bit the same wherever double is IEEE 754 binary64
 * with correctly rounded + - * / and sqrt, and the compiler neither fuses nor
 * reorders them (the build passes -ffp-contract=off, and never -ffast-math).
 * It calls no libm function whose last bit differs between libraries. */
double rng_normal(struct rng *rng);

/* Makes *child an independent generator, named by `stream`: 0, 1, 2 ... for the
 * workers of a job, say. The parent does not move, so the order of forks does
 * not matter; the same parent state and stream make the same child, and two
 * streams of one parent state never make equal children. child may not be rng. */
void rng_fork(const struct rng *rng, uint64_t stream, struct rng *child);

#ifdef __cplusplus
}
#endif

#endif
