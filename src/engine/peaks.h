/* The weight gradient of a convolution whose output goes through maxima of windows and nowhere
 * else, as in the first layer of most nets.
 *
 * Then most of the output's gradient is zero: all but the largest value of each window, and of
 * those all that relu cut off. Summing up what is left takes a fraction of the time that the dense
 * sum takes, and the dense gradient need not even be written. */
#ifndef TRIDENT_ENGINE_PEAKS_H
#define TRIDENT_ENGINE_PEAKS_H

#include "engine/op.h"
#include "engine/window.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A gradient that is 0 but at the maxima of windows. As for window_max_back(). */
struct peaks {
    const struct window *window;
    const float *diff, *out; /* out NULL: no relu */
    const uint8_t *which;
};

struct peaks_sum;

/* Whether this processor can, and for images and kernels of these sizes. */
bool peaks_can(struct shape3 in, const struct op_conv *conv);

/* For a convolution over plain images; NULL: no memory. */
struct peaks_sum *peaks_new(const struct mem *mem, struct shape3 in, struct shape3 out,
                            const struct op_conv *conv);
void peaks_free(struct peaks_sum *sum); /* NULL is fine */

/* Writes param->dense and dense_bias. */
void peaks_weigh(struct peaks_sum *sum, const struct peaks *peaks, uint32_t batch, const float *in,
                 struct param *param);

#ifdef __cplusplus
}
#endif

#endif
