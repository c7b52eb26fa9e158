/* The passes over weights that other processes may be writing to.
 *
 * Without a lock a reader may see one weight from before a step and its neighbour from after, and
 * two writers (direct mode) may lose one of two steps of a weight: that is Hogwild, and SGD stands
 * it. A float itself is never torn: they are aligned. To the letter of C this is a data race, and
 * ThreadSanitizer would say so; therefore the weights are touched by these functions alone, which
 * it does not look into. */
#ifndef TRIDENT_LOCAL_UPDATE_H
#define TRIDENT_LOCAL_UPDATE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* weights -= rate * values, each product rounded: the same bits from every kernel. */
typedef void update_sgd(float *weights, const float *values, size_t n, float rate);

/* Two such steps, one after the other for each weight: the same bits as one pass after the other,
 * and weights that no cache holds are read and written once. */
struct update_two {
    const float *first, *second;
    float first_rate, second_rate;
};
typedef void update_sgd_two(float *weights, const struct update_two *values, size_t n);

/* The fastest that this machine has; i from 0, NULL past the end. */
struct update_kernel {
    const char *name;
    update_sgd *sgd;
    update_sgd_two *two;
};
const struct update_kernel *update_kernel_at(size_t i);

/* Asks for a row's lines for writing, before they are needed: two learners that step the same rows
 * otherwise wait for each other's lines one by one. */
void update_prefetch(const float *row, size_t n);

void update_copy(float *to, const float *from, size_t n);

#ifdef __cplusplus
}
#endif

#endif
