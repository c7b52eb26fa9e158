/* Regions: named memory that the processes of one user share, a mapped file in a folder.
 *
 * Everybody who has a region mapped holds a shared lock on its file, which the system gives back
 * when a process ends, however it ends. So whoever gets the lock alone knows that nobody uses the
 * region any more. */
#ifndef TRIDENT_OS_REGION_H
#define TRIDENT_OS_REGION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REGION_PATH = 400 };

struct region {
    void *base;
    size_t bytes;
    int fd;
    char path[REGION_PATH];
    char named[REGION_PATH]; /* what region_publish() makes of it */
};

/* Makes a region without a name yet, so that nobody finds it half filled: zeroed, all of its memory
 * set aside (a region that the system could not back would kill its user at the first touch).
 * TRI_EINPUT: the folder is missing or has too little room, which the text says with numbers.
 * region_publish() or region_discard() follows. */
tri_status region_make(const char *folder, const char *name, size_t bytes, struct region *out,
                       tri_error *err);

/* Gives it its name. *taken: there is one of that name already; nothing has changed. */
tri_status region_publish(struct region *region, bool *taken, tri_error *err);
void region_discard(struct region *region);

/* Maps a region that another process has made. *missing (with TRI_EINPUT): there is none of that
 * name. A file of another user, or one that others may write to, is refused. */
tri_status region_open(const char *folder, const char *name, struct region *out, bool *missing,
                       tri_error *err);

void region_close(struct region *region); /* the name stays */

/* Removes the name; those who have it mapped keep it. */
void region_remove(const struct region *region);

/* Removes a region if nobody has it mapped and dead(ctx, base, bytes), called with the first page
 * mapped, agrees. True when it was removed. */
bool region_sweep(const char *folder, const char *file,
                  bool (*dead)(void *ctx, const void *base, size_t bytes), void *ctx);

/* All files of regions in a folder, those that were never published too: each(ctx, file). */
enum { REGION_FILES_MAX = 4096 };
tri_status region_each(const char *folder, const struct mem *mem,
                       void (*each)(void *ctx, const char *file), void *ctx, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
