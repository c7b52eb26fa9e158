/* Finding layer profiles by name or file. */
#ifndef TRIDENT_CLI_MODELS_H
#define TRIDENT_CLI_MODELS_H

#include "cli/cli.h"
#include "plan/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Loads a profile: a path (anything with '/' or ending in .json) or the name of
 * one in cli->models. An unknown name comes with suggestions. */
tri_status models_load(const struct cli *cli, const char *model, struct profile **out,
                       tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
