/* What an instruction set brings to the product: packing, and strips of tiles.
 *
 * W is computed in tiles of rows x cols elements, as many as the registers hold.
 * A strip is a row of neighbouring tiles. The factors are first copied ("packed")
 * into the order in which a tile reads them:
 *
 *     u: for each strip of W, depth times the `rows` floats of that strip
 *     v: for each tile column, depth times the `cols` floats of that tile
 *
 * so that a tile reads two runs of memory from front to back, whatever the shape
 * of the matrices. What sticks out over the edge of W is packed as zeros, and the
 * elements it leads to are computed and dropped.
 *
 * product.c cuts the work and calls these; math/product_tile.h is their body. */
#ifndef TRIDENT_MATH_PRODUCT_KERNEL_H
#define TRIDENT_MATH_PRODUCT_KERNEL_H

#include <stdbool.h>

#include "math/product.h"
#include "math/sparse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Part of some rows of a factor. */
struct product_rows {
    const float *at;
    size_t count, len, stride;
};

struct product_strip {
    const float *u, *v; /* packed */
    size_t depth;       /* how many k are packed there */
    size_t rows, cols;  /* of W in this strip; rows is at most that of a tile */
    /* The chains s between two runs over parts of k, a tile after the other.
     * Storing a float and loading it again changes no bit. */
    float *chains;
    bool starts;          /* chains begin at 0, not at what is stored */
    bool ends;            /* chains go on to W, not back to where they are stored */
    enum product_end end; /* what to do with them then */
    float alpha;
    float *w;          /* first element of the strip */
    const float *from; /* likewise of what is added to */
    size_t stride;
};

struct product_kernel {
    const char *name;
    size_t rows, cols; /* of a tile */
    bool (*here)(void);
    /* Packs rows of u or v: each is dealt out in runs of a tile's rows or columns,
     * the run of the next row behind that of the last, and the runs of one row
     * `apart` floats from each other. The last run is filled up with zeros. */
    void (*pack_u)(const struct product_rows *from, float *to, size_t apart);
    void (*pack_v)(const struct product_rows *from, float *to, size_t apart);
    void (*strip)(const struct product_strip *strip);
    const struct sparse_kernel *sparse; /* where many of u are zero; may be NULL */
};

#ifdef __cplusplus
}
#endif

#endif
