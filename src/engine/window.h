/* Windows over images: maxima and averages, and the way back.
 *
 * An image is planes of height x width positions of `lanes` floats: a lane is a channel. Plain
 * values have one lane, oneDNN's blocks have 8 or 16. The shared memory of large images is what
 * takes time, so each call passes over it once, with whatever else is to be done there. Results
 * do not depend on the processor. */
#ifndef TRIDENT_ENGINE_WINDOW_H
#define TRIDENT_ENGINE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WINDOW_MAX_KERNEL = 15 }; /* of maxima, whose place in the window fits a byte */

struct window {
    size_t planes, lanes;
    uint32_t in_height, in_width, out_height, out_width;
    uint32_t kernel, stride, pad;
    bool plain; /* do without this processor's vector instructions */
};

/* `which`: one byte for each float of out, the place of the maximum (of the first, if several). */
void window_max(const struct window *window, const float *in, float *out, uint8_t *which);

/* Gives each diff to the maximum of its window. out not NULL: only where out is above 0, as if a
 * relu had made `in`. add: to what in_diff holds. */
void window_max_back(const struct window *window, const float *diff, const uint8_t *which,
                     const float *out, float *in_diff, bool add);

/* Of the positions of a window that lie inside the image. */
void window_average(const struct window *window, const float *in, float *out);

/* in not NULL: leaves in_diff 0 where `in` is not above 0, as relu does. */
void window_average_back(const struct window *window, const float *diff, const float *in,
                         float *in_diff, bool add);

#ifdef __cplusplus
}
#endif

#endif
