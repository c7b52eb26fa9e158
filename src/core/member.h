/* A node's membership: joining the job, whatever roles it has. */
#ifndef TRIDENT_CORE_MEMBER_H
#define TRIDENT_CORE_MEMBER_H

#include "core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

struct member {
    uint32_t node;
    uint64_t layers_hash; /* of what the caller described */
    uint64_t plan_hash;
    bool started;
    uint32_t view; /* 0 before the start */
};

void member_init(struct member *member, uint32_t node, uint64_t layers_hash, uint64_t plan_hash);

/* Says HELLO. */
void member_join(struct member *member, const struct core_out *out);
/* BOOK, START or REFUSED from the coordinator; emits a wake when the job has started. */
void member_message(struct member *member, const struct message *message,
                    const struct core_out *out);

#ifdef __cplusplus
}
#endif

#endif
