/* Factors or windows of one layer from several gradients, and the steps that they make (mode
 * replicas). Nothing here knows of other learners. */
#ifndef TRIDENT_LOCAL_PILE_H
#define TRIDENT_LOCAL_PILE_H

#include "local/inside.h"
#include "math/inplace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Windows of a sample, where they lie: in a slot of the region. */
struct pile_window {
    const float *u, *v;
    const uint32_t *at;
    float rate;
};

/* Factors are copied, one behind the other. Windows are not: they stay where they are until the
 * learner has taken their gradient, and are stepped before that. */
struct pile {
    size_t count, cap;           /* of samples */
    float *u, *v;                /* factors: cap x rows, scaled; cap x cols */
    struct pile_window *windows; /* or cap of these */
};

/* The largest layer that a pile is for. */
struct pile_size {
    size_t cap, rows, cols; /* rows, cols: of layers that give factors */
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
    float *u;          /* of the rows that are stepped */
    float *by;         /* of one row */
    const float **met; /* likewise: what it has met */
    float *scratch;
    void *product;
};
bool stepper_make(const struct local_job *job, const struct pile_size *size, struct stepper *out);
void stepper_free(const struct mem *mem, struct stepper *stepper); /* zeroed is fine */

/* Steps rows `row` to `end` - 1 of a layer, and their bias. The pile stays. */
void pile_step(const struct pile *pile, const struct stepper *stepper,
               const struct local_layer *layer, float *weights, size_t row, size_t end);
/* The same of all rows by a product of two matrices, for many samples: those at `from`, which may
 * be `weights` or stay as they are, and all of a bias. */
void pile_product(const struct pile *pile, const struct stepper *stepper,
                  const struct local_layer *layer, const float *from, float *weights);
void pile_product_bias(const struct pile *pile, const struct local_layer *layer, float *bias);
/* All rows; then it is empty. */
void pile_step_all(struct pile *pile, const struct stepper *stepper,
                   const struct local_layer *layer, float *weights);

#ifdef __cplusplus
}
#endif

#endif
