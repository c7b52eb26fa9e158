/* Reading the launcher's list of processes that have ended: lines "NODE exited with 3". */
#include "run/ended.h"

#include <inttypes.h>
#include <stdio.h>

bool ended_find(const char *path, bool (*wanted)(const void *ctx, uint32_t node), const void *ctx,
                uint32_t *node, char how[ENDED_HOW])
{
    char line[2 * ENDED_HOW];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
        found = sscanf(line, "%" SCNu32 " %63[^\n]", node, how) == 2 && wanted(ctx, *node);
    if (file != NULL)
        (void)fclose(file);
    return found;
}
