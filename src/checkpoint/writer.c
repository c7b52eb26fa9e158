/* A thread for each checkpoint: they are seldom, and none is there that nobody needs. */
#include "checkpoint/writer.h"

#include "os/thread.h"

static void *work(void *ctx)
{
    struct checkpoint_writer *writer = ctx;
    thread_step_back();
    writer->status =
        checkpoint_write(writer->folder, writer->what, writer->mem, NULL, &writer->err);
    if (writer->status == TRI_OK)
        writer->status = checkpoint_prune(writer->folder, writer->keep, writer->mem, &writer->err);
    __atomic_store_n(&writer->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

tri_status checkpoint_writer_begin(struct checkpoint_writer *writer, const struct checkpoint *what,
                                   tri_error *err)
{
    writer->what = what;
    writer->err = (tri_error){0};
    writer->done = 0;
    int refused = pthread_create(&writer->thread, NULL, work, writer);
    if (refused == 0)
        return TRI_OK;
    writer->what = NULL;
    return fail(err, TRI_EIO, "cannot start a thread that writes a checkpoint: error %d", refused);
}

bool checkpoint_writer_ended(struct checkpoint_writer *writer, bool wait, tri_status *status,
                             tri_error *err)
{
    if (writer->what == NULL || (!wait && __atomic_load_n(&writer->done, __ATOMIC_ACQUIRE) == 0))
        return false;
    (void)pthread_join(writer->thread, NULL);
    writer->what = NULL;
    *status = writer->status;
    *err = writer->err;
    return true;
}
