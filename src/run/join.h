/* What joining needs to remember; part of struct host. */
#ifndef TRIDENT_RUN_JOIN_H
#define TRIDENT_RUN_JOIN_H

#include "run/strangers.h"

#ifdef __cplusplus
extern "C" {
#endif

struct join {
    struct strangers strangers; /* who was turned away */
    bool listed;                /* not node 0: it has told who is there */
    /* node 0: those that are not like it, until they are told */
    uint32_t hellos, odd; /* of workers that said HELLO; of these, that differ */
    uint32_t first_odd;   /* node */
    uint64_t odd_since;   /* us */
    bool odd_told;
    char odd_text[200];
};

#ifdef __cplusplus
}
#endif

#endif
