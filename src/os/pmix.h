/* Where the processes that one launcher started can tell each other texts: its PMIx service.
 *
 * mpirun and srun offer it. The library is loaded when it is needed, so that nothing depends on
 * it; the program may use it, too, before or after (MPI does). */
#ifndef TRIDENT_OS_PMIX_H
#define TRIDENT_OS_PMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pmix_room;

/* Succeeds with NULL in *out where no launcher offers it (no PMIX_NAMESPACE in the environment).
 * TRI_EIO: one does, but this process cannot make use of it; the error says why. */
tri_status pmix_room_open(struct pmix_room **out, tri_error *err);

uint32_t pmix_room_size(const struct pmix_room *room); /* processes of the job; 0: unknown */
uint32_t pmix_room_here(const struct pmix_room *room); /* of them on this machine; 0: unknown */

/* Says a text to all, who can read it when all have called pmix_room_wait(). */
tri_status pmix_room_put(struct pmix_room *room, const char *key, const char *text, tri_error *err);
tri_status pmix_room_wait(struct pmix_room *room, uint32_t timeout_ms, tri_error *err);

/* What `rank` has said; TRI_EIO if it has not, or if size is too small. */
tri_status pmix_room_get(struct pmix_room *room, uint32_t rank, const char *key, char *out,
                         size_t size, tri_error *err);

/* NULL is fine. The launcher is told at the end of the process that it needs no more. */
void pmix_room_close(struct pmix_room *room);

#ifdef __cplusplus
}
#endif

#endif
