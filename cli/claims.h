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
    /* True: end soon, with the claims that are finished. */
    bool (*stop)(void *ctx);
    /* Says on stderr, if a person watches, that `done` of `total` claims are simulated. */
    void (*progress)(void *ctx, size_t done, size_t total);
    void *ctx; /* of both */
};

/* Simulates every claim and appends the comparison to out. Profiles come through models_load(cli,
 * name), memory from cli->mem. After a stop: TRI_EPEER, with cli->keep set, and what is finished in
 * out. */
tri_status claims_run(struct cli *cli, const struct claims_call *call, struct buf *out,
                      tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
