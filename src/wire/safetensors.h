/* The safetensors format: named tensors behind a header in JSON. Heads only; the data is the
 * caller's to read and write.
 *
 *     8 bytes   length of the header, little-endian
 *     header    {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
 *                "__metadata__": {"key": "text", ...}}, padded with spaces to a multiple of 8
 *     data      tensor after tensor, values little-endian, without gaps
 *
 * All calls are pure and may be made from any thread. */
#ifndef TRIDENT_WIRE_SAFETENSORS_H
#define TRIDENT_WIRE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SAFETENSORS_DIMS = 8, SAFETENSORS_LENGTH_BYTES = 8 };

/* The longest header, in bytes: what other readers take, too. */
#define SAFETENSORS_MAX_HEADER UINT64_C(100000000)

enum safetensors_dtype {
    SAFETENSORS_F32,
    SAFETENSORS_F64,
    SAFETENSORS_I64,
    SAFETENSORS_U64,
    SAFETENSORS_I32,
    SAFETENSORS_U8,
    SAFETENSORS_OTHER, /* of a file: kept, with the name it has there; cannot be written */
};

struct safetensors_tensor {
    const char *name;
    enum safetensors_dtype dtype;
    const char *dtype_name; /* as the file says, "BF16"; of writing: not looked at */
    uint32_t dims;          /* 0: one value */
    uint64_t shape[SAFETENSORS_DIMS];
    uint64_t offset; /* in the data; of writing: not looked at, they come in order */
    uint64_t bytes;  /* of writing: not looked at */
};

struct safetensors_text {
    const char *key, *value;
};

struct safetensors {
    size_t count;
    struct safetensors_tensor *tensors; /* of a file: in the order of their data */
    size_t text_count;
    struct safetensors_text *texts; /* "__metadata__" */
    uint64_t head_bytes;            /* of a file: where the data begins */
    uint64_t data_bytes;
};

/* "F32"; "other" for SAFETENSORS_OTHER. */
const char *safetensors_dtype_name(enum safetensors_dtype dtype);

/* Bytes of a tensor by its dtype and shape; 0 and false if they are more than 2^63 or the dtype
 * is SAFETENSORS_OTHER. */
bool safetensors_bytes(const struct safetensors_tensor *tensor, uint64_t *bytes);

/* Appends length and header; the data of the tensors, in their order, is to follow. TRI_EARG for
 * names that are empty, not UTF-8, reserved or there twice, and for shapes that cannot be. */
tri_status safetensors_write(const struct safetensors *what, struct buf *out, tri_error *err);

/* The beginning of a file, at least its header, and how long the whole file is. */
struct safetensors_source {
    const char *path; /* for errors */
    const void *bytes;
    size_t len;
    uint64_t file_bytes;
};

/* The length of the header (without the 8 bytes before it) from the first bytes of a file.
 * TRI_EINPUT if there are less than 8, or it does not fit into the file. */
tri_status safetensors_header_bytes(const struct safetensors_source *source, uint64_t *bytes,
                                    tri_error *err);

/* Any bytes: TRI_EINPUT names the tensor and the reason, or the place in the header. On success
 * the tensors lie one behind the other, from the first byte of the data to the last; names are
 * there once; those with a dtype other than SAFETENSORS_OTHER have the bytes of their shape.
 * *out is the caller's, to be freed with safetensors_free(), and borrows nothing. */
tri_status safetensors_read(const struct safetensors_source *source, const struct mem *mem,
                            struct safetensors **out, tri_error *err);
void safetensors_free(struct safetensors *what, const struct mem *mem); /* NULL is fine */

/* NULL: there is none of that name. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *what, const char *name);
const char *safetensors_text(const struct safetensors *what, const char *key);

#ifdef __cplusplus
}
#endif

#endif
