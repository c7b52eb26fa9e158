/* What the files of models share: model.c writes, model_load.c reads, meaning.c is the JSON. */
#ifndef TRIDENT_ENGINE_MODEL_INSIDE_H
#define TRIDENT_ENGINE_MODEL_INSIDE_H

#include "base/buf.h"
#include "engine/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MODEL_FORMAT     "trident-model"
#define MODEL_VALUES_KEY "values" /* of the checksum, in both files */
enum { MODEL_VERSION = 1, MODEL_VALUES_TEXT = 9 };

/* A tensor of the file, and where its values are in the net. */
struct model_value {
    char name[OP_NAME + 24];
    float *at;
    size_t floats;
    uint32_t dims;
    uint64_t shape[2];
};

/* All of a net, in the order of the file; to be freed with mem_free(). NULL: no memory. */
struct model_value *model_values(struct net *net, const struct mem *mem, size_t *count);

/* Replaces ".safetensors" at the end of path. TRI_EINPUT if it does not end so. */
tri_status model_json_path(const char *path, struct buf *out, tri_error *err);

/* ---- the JSON ---- */

struct meaning {
    struct buf net;
    struct data data; /* without samples; its vocabularies are its own */
    char values[MODEL_VALUES_TEXT];
};

void meaning_write(const struct model_info *info, const char *values, struct buf *out);

/* On failure *out is as meaning_fini() leaves it. */
tri_status meaning_read(const char *path, const struct buf *text, const struct mem *mem,
                        struct meaning *out, tri_error *err);
void meaning_fini(struct meaning *meaning);

#ifdef __cplusplus
}
#endif

#endif
