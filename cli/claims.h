/* The papers' numbers beside ours: trident simulate --claims. */
#ifndef TRIDENT_CLI_CLAIMS_H
#define TRIDENT_CLI_CLAIMS_H

#include "cli/cli.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the command that asks for the claims hands down. */
struct claims_call {
    bool json; /* one JSON document instead of a table */
    /* True: end soon and return what is there, or any failure; for study.stop, too. */
    bool (*stop)(void *ctx);
    /* Says on stderr, if a person watches, that `done` of `total` runs are simulated. */
    void (*progress)(void *ctx, size_t done, size_t total);
    void *ctx; /* of both */
};

/* Simulates every claim and appends the comparison to out. Profiles come through models_load(cli,
 * name), memory from cli->mem. After a stop, what out holds on TRI_OK is printed and the exit code
 * is 130; on a failure nothing is. */
tri_status claims_run(const struct cli *cli, const struct claims_call *call, struct buf *out,
                      tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
