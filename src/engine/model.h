/* Models on disk: FILE.safetensors holds the values, FILE.json beside it what they mean.
 *
 * The first is what any reader of that format opens: "conv1.weight" (rows x cols as the framework's
 * users know them: filters x channels x height x width is written flat as rows x cols),
 * "conv1.bias", "bn1.running_mean", all F32. The second names the net, what data it takes, how
 * images are scaled, the labels and, for text, the words by number. */
#ifndef TRIDENT_ENGINE_MODEL_H
#define TRIDENT_ENGINE_MODEL_H

#include "engine/data/data.h"

#ifdef __cplusplus
extern "C" {
#endif

struct model_info {
    const char *model;       /* as net_new() takes it */
    const struct data *data; /* shape, scaling, words, labels */
    const char *data_name;   /* for people */
    double test_accuracy;    /* NaN: unknown */
    uint64_t seed, iterations;
};

/* Whether a model could be saved there, now: to be asked before training. TRI_EINPUT for a name
 * that does not end in ".safetensors" and for a folder that is missing or cannot be written to. */
tri_status model_check_path(const char *path, const struct mem *mem, tri_error *err);

/* Writes both files, whole or not at all: temporary file, sync, rename, the JSON first. Both name
 * the checksum of the values, so that a pair which a crash between the two renames left is found
 * out. Threads: the net's. */
tri_status model_save(const char *path, struct net *net, const struct model_info *info,
                      const struct mem *mem, tri_error *err);

/* Opens a saved model for a batch of `batch` samples. *data has the shape, the scaling and the
 * vocabularies, and no samples. TRI_EINPUT for files that are none or do not fit each other. */
struct model {
    struct net *net;
    struct data data;
    char name[OP_NAME]; /* of the net, "textcnn" */
    const struct mem *mem;
};
tri_status model_load(const char *path, uint32_t batch, const struct mem *mem, struct model **out,
                      tri_error *err);
void model_close(struct model *model); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
