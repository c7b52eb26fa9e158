/* What a learner learns: a net, and samples of its own. For learners that exchange in whatever way.
 */
#ifndef TRIDENT_BENCH_LESSON_H
#define TRIDENT_BENCH_LESSON_H

#include "base/error.h"
#include "engine/net.h"

/* What is trained. */
struct learner_net {
    const char *name;
    const char *model; /* as net_new() takes it */
    struct net_data data;
    uint32_t warm_up; /* steps before the window opens */
};

/* GaDei's text CNN in the sizes of models/gadei_{joule,watt,mr}.json; NULL past the end. */
const struct learner_net *lesson_text(size_t i);

#define LESSON_LR 0.02F

struct lesson {
    const struct learner_net *what;
    uint32_t batch;
    struct net *net;
    uint32_t *tokens, *labels; /* NULL: one batch of images for ever */
    size_t next;
    double loss, samples; /* sum of the losses of the last steps, and of how many samples */
};

/* Of learner `number` of `learners`: all have the same samples, and begin at different ones; all
 * nets begin with the same values. `what` is borrowed until lesson_close(). Leaves nothing behind
 * when it fails. */
tri_status lesson_open(struct lesson *lesson, const struct learner_net *what, uint32_t batch,
                       uint32_t learners, uint32_t number, tri_error *err);
void lesson_close(struct lesson *lesson); /* zeroed is fine */

/* All layers one behind the other, each with its bias behind it and beginning with a line (64
 * bytes): floats of all, and before layer i. */
size_t lesson_floats(const struct lesson *lesson);
size_t lesson_offset(const struct lesson *lesson, size_t i);
/* The net's weights lie so at `to` from now on; values are copied. */
void lesson_move(struct lesson *lesson, float *to);

/* Counting what was really applied: there is a word that no text has, so a weight of it may count.
 * It begins with 0. With lesson_mark() in every gradient of an embedding, `gradient` being all of
 * its rows, a step of LESSON_LR over the batch adds 1. */
float lesson_count(const struct lesson *lesson);
void lesson_mark(const struct lesson *lesson, const struct param *param, float *gradient);
/* The same in a gradient of rows: fills one that is to be among them. */
void lesson_mark_row(const struct lesson *lesson, const struct param *param, uint32_t *number,
                     float *row);

void lesson_next(struct lesson *lesson); /* the next batch is the net's */
void lesson_note(struct lesson *lesson); /* of the forward pass that was just made: its loss */

/* Fails when the loss is no better than noise: then speed means nothing. */
tri_status lesson_check(const struct lesson *lesson, tri_error *err);

#endif
