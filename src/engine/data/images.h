/* Images and their labels as files hold them: bytes. */
#ifndef TRIDENT_ENGINE_DATA_IMAGES_H
#define TRIDENT_ENGINE_DATA_IMAGES_H

#include "base/mem.h"
#include "engine/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both runs of bytes are the caller's, to be freed with images_fini(). */
struct images {
    size_t count;
    struct shape3 shape;
    uint8_t *pixels; /* count x channels x height x width */
    uint8_t *labels; /* count; NULL: none */
    uint32_t classes;
};

static inline void images_fini(struct images *images, const struct mem *mem)
{
    mem_free(mem, images->pixels);
    mem_free(mem, images->labels);
    images->pixels = images->labels = NULL;
    images->count = 0;
}

#ifdef __cplusplus
}
#endif

#endif
