/* trident config, as commands.c calls it: the words behind it. */
#ifndef TRIDENT_CLI_CONFIG_H
#define TRIDENT_CLI_CONFIG_H

#include "cli/cli.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct command command_config;

tri_status config_main(struct cli *cli, int argc, const char *const *argv, struct buf *out,
                       tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
