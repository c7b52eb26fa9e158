/* How fast a count grows, over the last seconds. */
#ifndef TRIDENT_CLI_TRAIN_RATE_H
#define TRIDENT_CLI_TRAIN_RATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TRAIN_RATE_MARKS = 8 };

/* Zeroed: nothing was looked at yet. */
struct train_rate {
    struct train_rate_mark {
        double at_s;
        uint64_t count;
    } marks[TRAIN_RATE_MARKS]; /* the oldest first */
    size_t used;
};

/* A look at the count; times do not go back. Returns by how much it grew per second over the last
 * two seconds, or since the first look; negative: that cannot be told yet, as after a count that
 * has gone back. */
double train_rate_look(struct train_rate *rate, double now_s, uint64_t count);

#ifdef __cplusplus
}
#endif

#endif
