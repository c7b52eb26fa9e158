/* Whom the launcher has seen end. trident run keeps a list of them for those that wait to join. */
#ifndef TRIDENT_RUN_ENDED_H
#define TRIDENT_RUN_ENDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ENDED_HOW = 64 };

/* The first node on the list of which wanted(ctx, node) is true, and how it ended, as in "exited
 * with 3". path: as TRIDENT_ENDED names it; a list that cannot be read is empty. */
bool ended_find(const char *path, bool (*wanted)(const void *ctx, uint32_t node), const void *ctx,
                uint32_t *node, char how[ENDED_HOW]);

#ifdef __cplusplus
}
#endif

#endif
