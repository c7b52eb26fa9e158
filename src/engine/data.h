/* Data sets: samples with labels, read from files into memory.
 *
 * A data set is images (bytes, scaled to floats when a batch is made) or text (tokens). It does not
 * change once it is open, and any number of threads may read it. */
#ifndef TRIDENT_ENGINE_DATA_H
#define TRIDENT_ENGINE_DATA_H

#include "engine/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Words and labels by number. Of the training set; the test set is read with the same ones. */
struct vocabulary;

struct data {
    size_t samples;
    struct net_data shape;
    bool text;
    const uint8_t *images;  /* samples x channels x height x width; NULL: text */
    const uint32_t *tokens; /* samples x shape.length; NULL: images */
    const uint32_t *labels;
    float mean[3],
        scale[3]; /* by channel (of the training set): float = (byte / 255 - mean) x scale */
    struct vocabulary *words;   /* text: shared by both sets */
    struct vocabulary *classes; /* names of labels */
};

struct data_options {
    const char
        *data; /* "fashion-mnist", "mnist", "idx:DIR", "cifar10:DIR", "csv:FILE", "tsv:FILE" */
    const char *test;      /* NULL: files of the data set, or a tenth held out */
    uint32_t label_column; /* of CSV, from 1; 0: the first */
    uint32_t text_column;  /* 0: the second */
    uint32_t max_length;   /* tokens of a sample, at most; 0: the longest there is, at most 256 */
    uint64_t seed;         /* of what is held out */
};

struct data_set {
    struct data train, test;
    char name[80]; /* for people */
};

/* Reads both parts. TRI_EINPUT names the file and the line or offset of what is wrong with it. */
tri_status data_open(const struct data_options *options, const struct mem *mem,
                     struct data_set **out, tri_error *err);
void data_close(struct data_set *set); /* NULL is fine */

/* For a trained model: files without being asked for labels are read with the model's words. */

size_t vocabulary_size(const struct vocabulary *vocabulary);
const char *vocabulary_at(const struct vocabulary *vocabulary,
                          uint32_t number); /* "" past the end */

/* Writes samples numbers[0 .. count) of the set into a batch, plain and scaled. */
void data_batch(const struct data *data, const uint64_t *numbers, uint32_t count,
                const struct net_batch *out);

/* The order of samples: position s of the endless stream of epochs is sample stream_at(s), epoch
 * s / samples; each epoch is a permutation of its own, by seed. Worker r of P with batches of K
 * takes, in iteration i, positions (i P + r) K to (i P + r) K + K - 1: so P workers with batches of
 * K see what one with batches of P K sees, in the same order. Not for several threads. */
struct stream;
struct stream *stream_new(const struct mem *mem, size_t samples,
                          uint64_t seed); /* NULL: no memory */
void stream_free(struct stream *stream);
uint64_t stream_at(struct stream *stream, uint64_t position);

/* A thread that makes batches ahead, so that reading never stalls compute. */
struct loader;
struct loader_options {
    const struct data *data;
    uint32_t batch, rank, workers;
    uint64_t seed;
    uint64_t first; /* iteration to begin with */
};
tri_status loader_open(const struct loader_options *options, const struct mem *mem,
                       struct loader **out, tri_error *err);
void loader_close(struct loader *loader);
/* Copies the next batch (of iteration first, first + 1, ...) into it, waiting if need be. */
void loader_next(struct loader *loader, const struct net_batch *out);

#ifdef __cplusplus
}
#endif

#endif
