/* From a line of a worker to the display and the result. */
#include "cli/train_listener.h"

#include "cli/train_line.h"

tri_status train_listener_init(struct train_listener *listener, uint32_t workers,
                               const struct cli *cli, tri_error *err)
{
    *listener = (struct train_listener){.mem = cli->mem};
    train_live_init(&listener->live, cli->err);
    tri_status status = train_outcome_init(&listener->outcome, workers, cli->mem, err);
    if (status != TRI_OK)
        return status;
    listener->errors = mem_array(cli->mem, workers, sizeof *listener->errors);
    return listener->errors != NULL ? TRI_OK : fail_nomem(err, "the workers");
}

void train_listener_fini(struct train_listener *listener)
{
    if (listener->mem == NULL)
        return;
    mem_free(listener->mem, listener->errors);
    train_outcome_fini(&listener->outcome);
    *listener = (struct train_listener){0};
}

static void hear(struct train_listener *listener, uint32_t rank, struct train_heard *heard)
{
    switch (heard->kind) {
    case TRAIN_BEGUN:
        listener->begun(listener->ctx, rank, &heard->report);
        mem_free(listener->mem, heard->report.layers);
        mem_free(listener->mem, heard->report.ops);
        break;
    case TRAIN_MOMENT:
        if (!listener->speaks(listener->ctx, rank))
            break;
        if (listener->amend != NULL)
            listener->amend(listener->ctx, &heard->moment);
        train_outcome_moment(&listener->outcome, &heard->moment);
        train_live_moment(&listener->live, &heard->moment);
        break;
    case TRAIN_EVENT:
        heard->event.rank = rank;
        train_live_event(&listener->live, &heard->event);
        train_outcome_event(&listener->outcome, &heard->event);
        break;
    case TRAIN_REPORT:
        heard->report.rank = rank;
        train_outcome_report(&listener->outcome, &heard->report);
        break;
    case TRAIN_ERROR:
        listener->errors[rank] = heard->error;
        break;
    }
}

bool train_listener_line(struct train_listener *listener, size_t process, const char *line,
                         size_t len)
{
    struct train_heard heard;
    if (process >= listener->outcome.workers || !train_hear(line, len, listener->mem, &heard))
        return false;
    hear(listener, (uint32_t)process, &heard);
    return true;
}
