/* IDX files, as MNIST comes in: a magic number, sizes, bytes.
 *
 * Two zero bytes, 8 for "unsigned bytes", the number of dimensions; each dimension in 32 bits, high
 * byte first; then the values, the last dimension fastest. */
#ifndef TRIDENT_ENGINE_DATA_IDX_H
#define TRIDENT_ENGINE_DATA_IDX_H

#include "base/error.h"
#include "engine/data/images.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { IDX_LABELS = 1, IDX_IMAGES = 3, IDX_MAX_SIDE = 4096 };

struct idx {
    size_t count;           /* at least 1 */
    uint32_t height, width; /* 1 to IDX_MAX_SIDE; of labels 1 */
    size_t at;              /* where the values begin: count x height x width, to the end */
};

/* Looks at the len bytes of a file of so many dimensions, 1 or 3. TRI_EINPUT, with the offset, for
 * anything else. name is for errors. */
tri_status idx_parse(const char *name, const void *bytes, size_t len, uint32_t dimensions,
                     struct idx *out, tri_error *err);

/* Reads a file of images and, unless NULL, the one of their labels, plain or gzip. `classes` of
 * them are known: labels are smaller; 0: they run from 0 or 1 to the largest, without gaps, which
 * tells how many there are. TRI_EINPUT if the files are no such or do not belong together. */
tri_status idx_load(const char *images, const char *labels, uint32_t classes, const struct mem *mem,
                    struct images *out, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
