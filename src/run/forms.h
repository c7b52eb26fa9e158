/* Updates in a form that a layer's scheme does not take, made dense. */
#ifndef TRIDENT_RUN_FORMS_H
#define TRIDENT_RUN_FORMS_H

#include "core/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a caller has for a layer: one of three forms, as in tri_update_info. */
struct update {
    const float *dense, *dense_bias;
    const float *u, *v;
    uint32_t factor_rows;
    const uint32_t *at; /* windows; local = replicas only */
    const float *row_values;
    const uint32_t *row_numbers;
    uint32_t row_count;
    uint64_t count;
    float lr;
    bool params_busy;
};

/* Memory for dense gradients, taken when a layer first needs it, and for products: one for each of
 * some threads that make them at once. */
enum { FORMS_SPARES = 8 };
struct forms {
    const struct mem *mem;
    const struct layout *layout; /* borrowed */
    float **dense;               /* [layers] */
    void *spares[FORMS_SPARES];  /* that no product uses now; exchanged */
};

tri_status forms_init(struct forms *forms, const struct layout *layout, const struct mem *mem,
                      tri_error *err);
void forms_fini(struct forms *forms); /* zeroed is fine */

/* Makes the update dense, if it is not, in memory of the layer's that stays until the next call
 * for it. Different layers may be in different threads. TRI_EARG for rows that the layer does not
 * have, TRI_ENOMEM. */
tri_status forms_make_dense(struct forms *forms, uint32_t layer, struct update *update,
                            tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
