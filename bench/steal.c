#include "bench/steal.h"

#include <math.h>
#include <stdio.h>

enum { TICKS = 8 }; /* of /proc/stat's first line: user, nice, system, idle, ..., steal */

struct steal steal_now(void)
{
    struct steal now = {0, 0};
    unsigned long long t[TICKS];
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL)
        return now;
    if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
               &t[4], &t[5], &t[6], &t[7]) == TICKS) {
        for (int i = 0; i < TICKS; i++)
            now.all += t[i];
        now.taken = t[TICKS - 1];
    }
    (void)fclose(file);
    return now;
}

double steal_part(struct steal then, struct steal now)
{
    if (then.all == 0 || now.all <= then.all || now.taken < then.taken)
        return (double)NAN;
    return (double)(now.taken - then.taken) / (double)(now.all - then.all);
}
