/* Factors of one layer from several gradients, one behind the other, and the steps that they make
 * (mode replicas). Nothing here knows of other learners. */
#ifndef TRIDENT_LOCAL_PILE_H
#define TRIDENT_LOCAL_PILE_H

#include "local/inside.h"
#include "math/inplace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pile {
    size_t count, cap; /* of samples */
    float *u, *v;      /* cap x rows, scaled; cap x width */
    uint32_t *at;      /* cap x rows; NULL: no windows */
};

/* The largest layer that a pile is for. */
struct pile_size {
    size_t cap, rows, width;
    bool windows;
};
/* Makes it large enough for this layer, too. */
void pile_size_add(const struct local_layer *layer, size_t cap, struct pile_size *size);
bool pile_make(const struct mem *mem, const struct pile_size *size, struct pile *pile);
void pile_free(const struct mem *mem, struct pile *pile); /* zeroed is fine */

/* There is room for `count` more samples, which are times `rate`. */
void pile_add(struct pile *pile, const struct local_layer *layer, const struct local_factors *from,
              size_t count, float rate);

/* Memory that steps need; one serves any number of piles. */
struct stepper {
    const struct inplace_kernel *kernel;
    float *u;       /* of the rows that are stepped */
    float *by;      /* of one row */
    size_t *begins; /* likewise */
    float *scratch;
    void *product;
};
bool stepper_make(const struct local_job *job, const struct pile_size *size, struct stepper *out);
void stepper_free(const struct mem *mem, struct stepper *stepper); /* zeroed is fine */

/* Steps rows `row` to `end` - 1 of a layer, and their bias. The pile stays. */
void pile_step(const struct pile *pile, const struct stepper *stepper,
               const struct local_layer *layer, float *weights, size_t row, size_t end);
/* All rows; then it is empty. */
void pile_step_all(struct pile *pile, const struct stepper *stepper,
                   const struct local_layer *layer, float *weights);

#ifdef __cplusplus
}
#endif

#endif
