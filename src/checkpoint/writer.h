/* Writing a checkpoint while the caller goes on with other things: one at a time, on a thread that
 * lives for as long as that takes.
 *
 * One thread uses a writer, but for the one that writes. */
#ifndef TRIDENT_CHECKPOINT_WRITER_H
#define TRIDENT_CHECKPOINT_WRITER_H

#include <pthread.h>

#include "checkpoint/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

struct checkpoint_writer {
    const char *folder;    /* borrowed, as is mem */
    uint32_t keep;         /* as checkpoint_prune() has it */
    const struct mem *mem; /* must be fit for two threads */
    /* the writer's own: all zero when nothing is written */
    const struct checkpoint *what;
    pthread_t thread;
    tri_status status; /* the thread's until `done`, and so is err */
    tri_error err;
    uint32_t done; /* released by the thread, acquired by who asks */
};

/* Writes it and prunes the folder. It is borrowed until checkpoint_writer_ended() says so; none may
 * be under way. TRI_EIO: no thread can be started, and nothing is written. */
tri_status checkpoint_writer_begin(struct checkpoint_writer *writer, const struct checkpoint *what,
                                   tri_error *err);
static inline bool checkpoint_writer_is_busy(const struct checkpoint_writer *writer)
{
    return writer->what != NULL;
}

/* Has it ended? wait: it has, when the call returns. False while it has not, and when none is under
 * way. Once it has, *status and *err are what checkpoint_write() and checkpoint_prune() came to. */
bool checkpoint_writer_ended(struct checkpoint_writer *writer, bool wait, tri_status *status,
                             tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
