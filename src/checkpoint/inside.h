/* What the files behind checkpoint/checkpoint.h share. */
#ifndef TRIDENT_CHECKPOINT_INSIDE_H
#define TRIDENT_CHECKPOINT_INSIDE_H

#include "checkpoint/checkpoint.h"
#include "os/stream.h"
#include "wire/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CHECKPOINT_FAMILY     "trident.checkpoint."
#define CHECKPOINT_FORMAT     CHECKPOINT_FAMILY "1"
#define CHECKPOINT_STEPS      "steps."
#define CHECKPOINT_KEPT       "kept."
#define CHECKPOINT_DATA_SUM   "crc32c"
#define CHECKPOINT_HEADER_SUM "header_crc32c"

enum { CHECKPOINT_SUM = 8 /* digits */, CHECKPOINT_PIECE = 1 << 20 /* bytes read at a time */ };

/* The digits of a sum in the bytes of a header, as our writer puts them; NULL: they are not there.
 * Quotes inside names are escaped, so the text stands for nothing else. */
char *checkpoint_sum_at(char *header, size_t len, const char *key);

/* The CRC-32C of a header, in digits, with its own taken for zeros; digits NULL: it has none. */
void checkpoint_header_sum(const char *header, size_t len, const char *digits,
                           char out[CHECKPOINT_SUM + 1]);

/* "clock-000000001000.safetensors" and back; false for any other name. */
void checkpoint_name(uint64_t clock, char out[CHECKPOINT_NAME]);
bool checkpoint_clock_of(const char *name, uint64_t *clock);

/* ---- reading ---- */

/* What checkpoint_read() gives out is the first part of this. Names point into the list. */
struct checkpoint_file {
    struct checkpoint what;
    struct safetensors *list;
    char *data; /* NULL: values are not kept */
};

/* Starts the report of damage at an offset of the file; why is the caller's to add. */
tri_status checkpoint_damaged(const char *path, uint64_t offset, tri_error *err);

/* Reads and verifies what stands before the values. */
tri_status checkpoint_read_head(struct stream_in *in, const struct mem *mem,
                                struct checkpoint_file *file, tri_error *err);

/* Gives every tensor its place in what, and every place its tensor, or fails. Sets the values'
 * addresses if there is room for them. */
tri_status checkpoint_place(struct checkpoint_file *file, const char *path, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
