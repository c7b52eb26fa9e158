/* A node's membership: joining the job, signs of life, and learning how it ends, whatever
 * roles the node has. */
#ifndef TRIDENT_CORE_MEMBER_H
#define TRIDENT_CORE_MEMBER_H

#include "core/core.h"
#include "core/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

struct member {
    uint32_t node;
    uint64_t layers_hash; /* of what the caller described */
    uint64_t plan_hash;
    uint64_t incarnation;
    bool joining; /* HELLO has been said */
    bool started;
    bool ended;    /* all live workers have closed */
    uint32_t view; /* 0 before the start */
    struct watch watch;
    uint64_t beaten;        /* when last */
    struct watch_wait wait; /* for the coordinator */
};

/* Says HELLO. */
void member_join(struct member *member, const struct core_out *out);
/* BOOK, START, REFUSED, VIEW, EVICTED, FAILED or BYE from the coordinator; emits a wake when
 * the job has started or ended. */
void member_message(struct member *member, const struct message *message,
                    const struct core_out *out);
/* Beats, accuses, and gives up when the coordinator is silent. The watch has ticked. */
void member_tick(struct member *member, uint64_t now, const struct core_out *out);

#ifdef __cplusplus
}
#endif

#endif
