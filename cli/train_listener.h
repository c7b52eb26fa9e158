/* What the launchers of trident train do with what their processes tell: show it, and keep it for
 * the result. */
#ifndef TRIDENT_CLI_TRAIN_LISTENER_H
#define TRIDENT_CLI_TRAIN_LISTENER_H

#include "cli/train.h"

#ifdef __cplusplus
extern "C" {
#endif

struct train_listener {
    const struct mem *mem;
    struct train_live live;
    struct train_outcome outcome;
    tri_error *errors; /* by rank; status TRI_OK: it has told of none */
    /* The launcher's part: whose moments are those of all, and that one has begun. */
    void *ctx;
    bool (*speaks)(const void *ctx, uint32_t rank);
    void (*begun)(void *ctx, uint32_t rank, const struct train_report *report);
    void (*amend)(void *ctx, struct train_moment *moment); /* by what it knows better, or NULL */
};

/* Shows on cli->err. ctx and the calls are the caller's to set. fini takes a zeroed one, too, and
 * one whose init has failed. */
tri_status train_listener_init(struct train_listener *listener, uint32_t workers,
                               const struct cli *cli, tri_error *err);
void train_listener_fini(struct train_listener *listener);

/* As run_hooks.line() is. */
bool train_listener_line(struct train_listener *listener, size_t process, const char *line,
                         size_t len);

#ifdef __cplusplus
}
#endif

#endif
