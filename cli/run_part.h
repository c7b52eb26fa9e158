/* The part of a job that one of several hosts gets, as bytes and back. */
#ifndef TRIDENT_CLI_RUN_PART_H
#define TRIDENT_CLI_RUN_PART_H

#include "cli/run.h"
#include "cli/run_frame.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends the body of a frame. inherit: with those of our variables that a shell on another host
 * does not have, TRIDENT_... */
void run_part_write(struct buf *body, const struct run_request *request, const struct run_job *job,
                    const struct run_part *part, bool inherit);

/* All that was in one. Texts point into the body, of which it keeps a copy. */
struct run_order {
    const struct mem *mem;
    char *body;
    struct run_request request;
    struct run_job job;
    struct run_part part;
    const char **words; /* of the program, and NULL */
};

/* The caller frees it after a failure, too. */
tri_status run_part_read(const struct run_frame *frame, struct run_order *order,
                         const struct mem *mem, tri_error *err);
void run_part_free(struct run_order *order);

#ifdef __cplusplus
}
#endif

#endif
