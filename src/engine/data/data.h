/* Data sets: samples with labels, read from files into memory.
 *
 * A data set is images (bytes, scaled to floats when a batch is made) or text (tokens). It does not
 * change once it is open, and any number of threads may read it.
 *
 * Where data comes from, as users write it:
 *
 *   fashion-mnist      the files of Debian's package dataset-fashion-mnist
 *   fashion-mnist:DIR  the same files elsewhere
 *   mnist:DIR, mnist   MNIST; without DIR the folder mnist of $TRIDENT_DATA
 *   idx:DIR            other images in the same four files (idx.h)
 *   cifar10:DIR        data_batch_*.bin and test_batch.bin (cifar.h)
 *   csv:FILE           a table with a column of labels and one of texts (table.h)
 *   tsv:FILE           the same with tabs; usually "label<TAB>text"
 *
 * All of these may be gzip. Fashion-MNIST, MNIST and CIFAR-10 have ten classes; those of other IDX
 * files are numbers up to the largest label of the training files; those of tables are what stands
 * in the label column, numbered as they appear. Words (words.h) are numbered as they appear in the
 * training part. */
#ifndef TRIDENT_ENGINE_DATA_DATA_H
#define TRIDENT_ENGINE_DATA_DATA_H

#include "engine/data/vocabulary.h"
#include "engine/net.h"

#ifdef __cplusplus
extern "C" {
#endif

struct data {
    size_t samples;
    struct net_data shape;
    bool text;
    const uint8_t *images;  /* samples x channels x height x width; NULL: text */
    const uint32_t *tokens; /* of all samples, one after the other, not padded; NULL: images */
    const size_t *starts;   /* samples + 1: where each one's tokens begin, and the last one's end */
    const uint32_t *labels; /* NULL: data_read() found none */
    /* By channel, of the training set: float = (byte / 255 - mean) x scale. */
    float mean[3], scale[3];
    struct vocabulary *words;   /* text: shared by both sets; 0 is padding, 1 an unknown word */
    struct vocabulary *classes; /* names of labels, shared by both sets */
};

/* Is the first row of a table names of columns? DATA_HEADER_AUTO: it is, if one of its cells is a
 * usual name of a text column (text, sentence, utterance, question, query, review) and another one
 * of a label column (label, category, class, intent, target, sentiment), in any case. */
enum data_header { DATA_HEADER_AUTO, DATA_HEADER_YES, DATA_HEADER_NO };

struct data_options {
    const char *data; /* as above */
    /* A file or folder of the kind of `data`, or one of another kind as above. NULL: the test files
     * of the data set; of tables a tenth, which is held out of the training part. */
    const char *test;
    /* Of tables, from 1. 0: the one that the header names so; else labels stand in the first and
     * texts in the second column, or where the other is not. */
    uint32_t label_column, text_column;
    enum data_header header;
    uint32_t max_length; /* tokens of a sample, at most; 0: the longest there is, at most 256 */
    uint64_t seed;       /* of what is held out */
    bool unlabelled;     /* data_read(): do not look for labels */
};

struct data_set {
    struct data train, test;
    char name[80]; /* for people */
    /* ---- */
    const struct mem *mem;
};

/* Reads both parts. TRI_EINPUT names the file and the line or offset of what is wrong with it.
 * *out is the caller's until data_close(); untouched on failure. */
tri_status data_open(const struct data_options *options, const struct mem *mem,
                     struct data_set **out, tri_error *err);
void data_close(struct data_set *set); /* NULL is fine */

/* For a trained model: reads options->data for what `like` tells: its shape, scaling, words and
 * classes, which are borrowed and must outlive *out. like needs no samples. What is read:
 *
 * - tables: all rows; words that `like` does not know are token 1. One column: texts. Else labels
 *   are there and must be among the classes, unless options->unlabelled; the header need then only
 *   name the column of texts.
 * - idx:FILE (and mnist:, fashion-mnist:): the images of FILE; labels are in the file beside it
 *   whose name has "labels-idx1" for "images-idx3", if there is one. A folder: its test files.
 * - cifar10:FILE: records with labels or, if the size says so, without. A folder: test_batch.bin.
 *
 * options->test, max_length and seed are not looked at. *out is the caller's, to be freed with
 * data_fini(); untouched on failure. */
tri_status data_read(const struct data_options *options, const struct data *like,
                     const struct mem *mem, struct data *out, tri_error *err);
void data_fini(struct data *data, const struct mem *mem); /* the samples, not the vocabularies */

/* Writes samples numbers[0 .. count) of the set into a batch: images scaled, tokens padded with 0.
 * Without labels they become 0. out->labels may be NULL. */
void data_batch(const struct data *data, const uint64_t *numbers, uint32_t count,
                const struct net_batch *out);

/* The order of samples: position s of the endless stream of epochs is sample stream_at(s), epoch
 * s / samples; each epoch is a permutation of its own, by seed. Worker r of P with batches of K
 * takes, in iteration i from the start, positions (i P + r) K to (i P + r) K + K - 1 behind it: so
 * P workers with batches of K see what one with batches of P K sees, in the same order. Not for
 * several threads. */
struct stream;
/* samples: 1 to 2^32 - 1. NULL: no memory. Keeps two epochs' orders, 8 bytes a sample. */
struct stream *stream_new(const struct mem *mem, size_t samples, uint64_t seed);
void stream_free(struct stream *stream); /* NULL is fine */
/* Any order of positions is fine; it is fast while they stay within an epoch and the next. */
uint64_t stream_at(struct stream *stream, uint64_t position);

/* A thread that makes batches ahead, so that reading never stalls compute. */
struct loader;
struct loader_options {
    const struct data *data; /* borrowed until loader_close() */
    uint32_t batch, rank, workers;
    uint64_t seed;
    uint64_t start; /* position of the stream to begin at */
};
/* TRI_EARG for a batch or workers of 0, a rank that is none, or no samples; TRI_ENOMEM; TRI_EIO
 * when there can be no thread. *out is the caller's until loader_close(); untouched on failure. */
tri_status loader_open(const struct loader_options *options, const struct mem *mem,
                       struct loader **out, tri_error *err);
void loader_close(struct loader *loader); /* at once, whatever is ready; NULL is fine */
/* Copies the next batch into it, waiting if need be. One
 * thread at a time. */
void loader_next(struct loader *loader, const struct net_batch *out);

#ifdef __cplusplus
}
#endif

#endif
