/* Large files in pieces: written beside their name and whole or not at all, read from front to
 * back. */
#ifndef TRIDENT_OS_STREAM_H
#define TRIDENT_OS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { STREAM_PATH = 4096, STREAM_ALIGN = 4096 };

/* ---- writing ---- */

/* A file that has no name yet. Its content goes into FOLDER/.NAME.<pid>.<n>.tmp, which is locked
 * for as long as it is written, so that one whose process is gone can be told from it. */
struct stream_out {
    const char *path; /* borrowed */
    int fd;
    bool full; /* a failure came of the disk, a quota or a limit of size */
    /* past the page cache: what is not written yet */
    bool direct;
    char *buffer;
    size_t size, used;
    char folder[STREAM_PATH], temporary[STREAM_PATH];
};

/* Success: to be ended with stream_out_finish() or stream_out_drop(). The folder must exist.
 * TRI_EIO, or TRI_EINPUT for a path that is too long. */
tri_status stream_out_open(const char *path, struct stream_out *out, tri_error *err);
tri_status stream_out_put(struct stream_out *out, const void *bytes, size_t len, tri_error *err);

/* Before the first put: past the page cache where the file system can, so that a long file neither
 * drives out what others have there nor makes them wait while it is flushed, and is copied once
 * instead of twice. The buffer begins at a multiple of STREAM_ALIGN and is one long; borrowed until
 * the file is finished or dropped. */
void stream_out_direct(struct stream_out *out, void *buffer, size_t size);

/* The first bytes of the file once more, after the last put: what is known only then. At most as
 * many as were put. */
tri_status stream_out_begin_with(struct stream_out *out, const void *bytes, size_t len,
                                 tri_error *err);

/* Syncs, renames, syncs the folder. A failure drops it; only when it is the folder that cannot be
 * synced the file is there, and might be gone after a loss of power. */
tri_status stream_out_finish(struct stream_out *out, tri_error *err);
void stream_out_drop(struct stream_out *out); /* nothing is left of it */

/* Removes a temporary file unless somebody is writing it. */
tri_status stream_remove_left(const char *path, tri_error *err);

/* ---- reading ---- */

struct stream_in {
    const char *path; /* borrowed */
    int fd;
    uint64_t bytes; /* of the file, when it was opened */
};

/* TRI_EINPUT for what cannot be opened or is no plain file. */
tri_status stream_in_open(const char *path, struct stream_in *out, tri_error *err);
void stream_in_close(struct stream_in *in);

/* Up to len bytes; *got is less only where the file ends. TRI_EINPUT with the system's reason and
 * the offset. */
tri_status stream_in_get(struct stream_in *in, void *to, size_t len, size_t *got, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
