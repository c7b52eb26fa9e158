/* Inside trident checkpoint: what its parts share. */
#ifndef TRIDENT_CLI_CHECKPOINT_H
#define TRIDENT_CLI_CHECKPOINT_H

#include "cli/cli.h"

#ifdef __cplusplus
extern "C" {
#endif

struct checkpoint_settings {
    bool json, verify;
};

/* "2024-02-29 23:59:01 UTC" of seconds since 1970. */
enum { CHECKPOINT_TIME = 64 };
char *checkpoint_time(int64_t seconds, char out[CHECKPOINT_TIME]);

/* Appends the path of the newest in a folder. TRI_EINPUT if there is none. */
tri_status checkpoint_pick(struct cli *cli, const char *folder, struct buf *path, tri_error *err);

/* trident checkpoint show, of a file. */
tri_status checkpoint_show(struct cli *cli, const struct checkpoint_settings *settings,
                           const char *path, struct buf *out, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
