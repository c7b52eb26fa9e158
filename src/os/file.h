/* Files and folders. */
#ifndef TRIDENT_OS_FILE_H
#define TRIDENT_OS_FILE_H

#include <stddef.h>
#include <stdint.h>

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

/* The same for those that do begin with a dot, "." and ".." aside. */
tri_status file_each_hidden(const char *folder, const char *suffix, const struct mem *mem,
                            tri_status (*found)(void *ctx, const char *name), void *ctx,
                            tri_error *err);

enum file_kind { FILE_NONE, FILE_PLAIN, FILE_FOLDER, FILE_OTHER };
struct file_facts {
    enum file_kind kind;
    uint64_t bytes;    /* of a plain file */
    int64_t written_s; /* seconds since 1970 */
};

/* What is at a path; links are followed. That nothing is there is an answer, not a failure.
 * TRI_EINPUT when the system does not tell. */
tri_status file_look(const char *path, struct file_facts *out, tri_error *err);

/* Makes a folder, unless it is there, and those above it. TRI_EINPUT when it cannot be made. */
tri_status file_make_folder(const char *path, tri_error *err);

tri_status file_remove(const char *path, tri_error *err); /* one that is gone already is fine */

/* Bytes that are free where path is; false when the file system does not say. */
bool file_room(const char *path, uint64_t *bytes);

/* Makes sure that what was made, renamed and removed in the folder is on the disk. File systems
 * that cannot do it are trusted. */
tri_status file_sync_folder(const char *folder, tri_error *err);

/* Takes a file for oneself, which is made for it and removed with it. The system lets go of it
 * when the process dies, however it dies. Who has it is told to those that come later, as `text`
 * with process and host: TRI_EINPUT. On a file system without locks all succeed. */
struct file_lock {
    int fd;
    char *path; /* its own */
    const struct mem *mem;
};
tri_status file_lock(const char *path, const char *text, const struct mem *mem,
                     struct file_lock *out, tri_error *err);
void file_unlock(struct file_lock *lock);

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
