/* CIFAR-10's binary files: records of a label and an image of 3 x 32 x 32 bytes. */
#ifndef TRIDENT_ENGINE_DATA_CIFAR_H
#define TRIDENT_ENGINE_DATA_CIFAR_H

#include "base/error.h"
#include "engine/data/images.h"
#include "engine/data/vocabulary.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CIFAR_CLASSES = 10, CIFAR_PIXELS = 3 * 32 * 32, CIFAR_RECORD = 1 + CIFAR_PIXELS };

/* Checks the len bytes of a file: whole records, labels below CIFAR_CLASSES. TRI_EINPUT with the
 * offset. name is for errors. */
tri_status cifar_check(const char *name, const void *bytes, size_t len, tri_error *err);

/* Reads one file, plain or gzip. With bare_allowed a file of images without label bytes is one,
 * too: out->labels is then NULL. (A file that could be either has labels.) */
tri_status cifar_load(const char *path, bool bare_allowed, const struct mem *mem,
                      struct images *out, tri_error *err);

/* Reads all data_batch_*.bin of a folder, plain or gzip, in the order of their names. */
tri_status cifar_load_batches(const char *folder, const struct mem *mem, struct images *out,
                              tri_error *err);

/* The names of the classes: the lines of the folder's batches.meta.txt, or the known ones where
 * there is no such file (or folder is NULL). */
tri_status cifar_names(const char *folder, const struct mem *mem, struct vocabulary **out,
                       tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
