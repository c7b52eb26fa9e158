/* Files and folders. */
#ifndef TRIDENT_OS_FILE_H
#define TRIDENT_OS_FILE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends the whole file to out. TRI_EINPUT when it cannot be read, is a folder
 * or is longer than max_bytes; TRI_ENOMEM. Works on pipes. */
tri_status file_read(const char *path, size_t max_bytes, struct buf *out, tri_error *err);

/* Calls found(ctx, name) for every entry of a folder whose name ends in suffix
 * and does not begin with a dot, in alphabetical order, until one call returns something else than
 * TRI_OK, which is then returned. */
tri_status file_each(const char *folder, const char *suffix, const struct mem *mem,
                     tri_status (*found)(void *ctx, const char *name), void *ctx, tri_error *err);

/* Writes a new file beside path and renames it over path, so that a reader sees
 * the old content or the new, never half of it. */
tri_status file_write(const char *path, const void *bytes, size_t len, tri_error *err);

/* A file to be written, its content in parts, one behind the other. */
struct file_part {
    const void *bytes;
    size_t len;
};
struct file_whole {
    const char *path;
    const struct file_part *parts;
    size_t count;
};

/* Writes files that belong together, so that a loss of power leaves each whole: all are written
 * beside their paths and synced before the first is renamed; they are renamed in order, and then
 * their folders are synced. A path that is a folder is found out before that. On failure nothing
 * new is left, unless the operating system refuses a rename after it has taken one. */
tri_status file_write_together(const struct file_whole *files, size_t count, tri_error *err);

/* Whether a file could be written there, now: TRI_EINPUT for a folder that is missing or cannot be
 * written to, and for a path that is a folder. Tries it, and leaves nothing behind. */
tri_status file_check_new(const char *path, tri_error *err);

/* Appends the folder that the running program was started from. */
tri_status file_program_folder(struct buf *out, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
