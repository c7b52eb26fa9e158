/* What the workers of trident train tell their launcher: lines of JSON on standard output. */
#ifndef TRIDENT_CLI_TRAIN_LINE_H
#define TRIDENT_CLI_TRAIN_LINE_H

#include "cli/train.h"

#ifdef __cplusplus
extern "C" {
#endif

enum train_news { TRAIN_BEGUN, TRAIN_MOMENT, TRAIN_EVENT, TRAIN_REPORT, TRAIN_ERROR };

/* One line; which of the fields it has follows from the kind. */
struct train_heard {
    enum train_news kind;
    struct train_report report; /* begun and report; its memory is the caller's */
    struct train_moment moment;
    struct train_event event;
    tri_error error;
};

/* Each appends one line with its newline. */
void train_say_report(enum train_news kind, const struct train_report *report, struct buf *out);
void train_say_moment(const struct train_moment *moment, struct buf *out);
void train_say_event(const struct train_event *event, struct buf *out);
void train_say_error(const tri_error *error, struct buf *out);

/* False, with nothing to free: the line is none of these, or memory is refused. */
bool train_hear(const char *line, size_t len, const struct mem *mem, struct train_heard *out);

#ifdef __cplusplus
}
#endif

#endif
