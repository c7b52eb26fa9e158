/* What a virtual machine's host gave to others while something was measured. */
#ifndef TRIDENT_BENCH_STEAL_H
#define TRIDENT_BENCH_STEAL_H

struct steal {
    unsigned long long all, taken; /* ticks of all processors since the machine started */
};

struct steal steal_now(void);
/* The part of all processors' time that the host took from then to now; NAN where it cannot be
 * known. */
double steal_part(struct steal then, struct steal now);

#endif
