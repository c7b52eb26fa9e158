/* Marks a quarter of a second apart, of which the oldest is what the rate is reckoned from. */
#include "cli/train_rate.h"

#include <string.h>

static const double apart_s = 0.25, least_s = 0.04;

static void add_mark(struct train_rate *rate, struct train_rate_mark mark)
{
    if (rate->used == TRAIN_RATE_MARKS) {
        memmove(rate->marks, rate->marks + 1, (TRAIN_RATE_MARKS - 1) * sizeof mark);
        rate->used--;
    }
    rate->marks[rate->used++] = mark;
}

double train_rate_look(struct train_rate *rate, double now_s, uint64_t count)
{
    const struct train_rate_mark now = {now_s, count};
    if (rate->used > 0 && count < rate->marks[rate->used - 1].count)
        rate->used = 0;
    if (rate->used == 0 || now_s - rate->marks[rate->used - 1].at_s >= apart_s)
        add_mark(rate, now);
    const struct train_rate_mark then = rate->marks[0];
    double seconds = now_s - then.at_s;
    return seconds >= least_s ? (double)(count - then.count) / seconds : -1;
}
