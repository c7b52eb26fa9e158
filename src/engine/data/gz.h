/* Files of data, plain or gzip: found and read whole. */
#ifndef TRIDENT_ENGINE_DATA_GZ_H
#define TRIDENT_ENGINE_DATA_GZ_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GZ_PATH = 4096 };

/* Files are not longer than this, compressed or not. */
#define GZ_MAX_BYTES ((size_t)8 << 30)

/* Appends the content of a file. What begins as gzip does is unpacked, whatever its name, with all
 * its members. TRI_EINPUT if it cannot be read, is cut short or broken, with the offset;
 * TRI_ENOMEM. On failure out may hold a part. */
tri_status gz_read(const char *path, struct buf *out, tri_error *err);

/* The same of bytes that are in memory; name is for errors. */
tri_status gz_unpack(const char *name, const void *bytes, size_t len, struct buf *out,
                     tri_error *err);

bool gz_is_folder(const char *path);
bool gz_exists(const char *path);

/* Writes into out the path of a file of a folder: name, or name.gz where there is only that.
 * TRI_EINPUT if there is neither, or no folder. */
tri_status gz_find(const char *folder, const char *name, char out[GZ_PATH], tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
