/* Who a process is, and whether it still lives. */
#ifndef TRIDENT_OS_ALIVE_H
#define TRIDENT_OS_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number of the system's comes back after a while; with the moment of its start it does not. */
struct alive_id {
    uint64_t pid;   /* 0: nobody */
    uint64_t start; /* in ticks since the machine was started; 0: not known */
};

struct alive_id alive_self(void);

/* False when the process is gone, when it is a zombie, or when another one has its number now. */
bool alive_is(const struct alive_id *id);

/* Kills a process if it is the one that is meant; false when it is gone already or may not be. */
bool alive_kill(const struct alive_id *id);

#ifdef __cplusplus
}
#endif

#endif
