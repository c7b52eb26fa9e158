/* Reading a checkpoint: its header, then values straight to where they stay. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "checkpoint/inside.h"

/* ---- the values ---- */

static tri_status check_data_sum(const struct checkpoint_file *file, uint32_t crc, const char *path,
                                 tri_error *err)
{
    const struct safetensors *list = file->list;
    const char *sum = safetensors_text(list, CHECKPOINT_DATA_SUM);
    char is[CHECKPOINT_SUM + 1];
    (void)snprintf(is, sizeof is, "%08x", (unsigned)crc);
    if (sum != NULL && strcmp(sum, is) == 0)
        return TRI_OK;
    checkpoint_damaged(path, list->head_bytes, err);
    fail_why(err,
             "the %llu bytes of values from byte %llu on have the checksum %s and were written "
             "with %.20s",
             (unsigned long long)list->data_bytes, (unsigned long long)list->head_bytes, is,
             sum != NULL ? sum : "none");
    return TRI_EINPUT;
}

/* Reads the values to `to`, one behind the other, or all over the same piece. */
static tri_status get_values(struct stream_in *in, const struct checkpoint_file *file, char *to,
                             bool keep, tri_error *err)
{
    uint32_t crc = 0;
    uint64_t done = 0, all = file->list->data_bytes;
    while (done < all) {
        size_t got, now = CHECKPOINT_PIECE;
        if (all - done < now)
            now = (size_t)(all - done);
        char *at = keep ? to + done : to;
        tri_status status = stream_in_get(in, at, now, &got, err);
        if (status != TRI_OK)
            return status;
        crc = crc32c(crc, at, got);
        done += got;
        if (got < now) {
            uint64_t end = file->list->head_bytes + done;
            checkpoint_damaged(in->path, end, err);
            fail_why(err, "it ends at byte %" PRIu64 ", %" PRIu64 " bytes too early", end,
                     all - done);
            return TRI_EINPUT;
        }
    }
    return check_data_sum(file, crc, in->path, err);
}

enum depth { HEAD, VERIFY, VALUES };

static tri_status read_values(struct stream_in *in, const struct mem *mem, enum depth depth,
                              struct checkpoint_file *file, tri_error *err)
{
    uint64_t bytes = file->list->data_bytes;
    if (depth == VERIFY && bytes > CHECKPOINT_PIECE)
        bytes = CHECKPOINT_PIECE;
    /* Not mem_array(), which would go over all of it once more. */
    char *room = bytes < SIZE_MAX ? mem->resize(mem->ctx, NULL, (size_t)bytes + 1) : NULL;
    if (room == NULL)
        return fail_nomem(err, "the values of a checkpoint");
    tri_status status = get_values(in, file, room, depth == VALUES, err);
    if (depth == VERIFY || status != TRI_OK) {
        mem_free(mem, room);
        return status;
    }
    file->data = room;
    return checkpoint_place(file, in->path, err);
}

static tri_status read_file(const char *path, const struct mem *mem, enum depth depth,
                            struct checkpoint **out, tri_error *err)
{
    struct stream_in in;
    struct checkpoint_file *file = mem_array(mem, 1, sizeof *file);
    if (file == NULL)
        return fail_nomem(err, "a checkpoint");
    tri_status status = stream_in_open(path, &in, err);
    if (status == TRI_OK) {
        status = checkpoint_read_head(&in, mem, file, err);
        if (status == TRI_OK && depth != HEAD)
            status = read_values(&in, mem, depth, file, err);
        stream_in_close(&in);
    } else {
        fail_next(err, "trident checkpoint ls FOLDER lists the checkpoints of a folder");
    }
    if (status == TRI_OK && out != NULL)
        *out = &file->what;
    else
        checkpoint_free(&file->what, mem);
    return status;
}

tri_status checkpoint_read(const char *path, const struct mem *mem, struct checkpoint **out,
                           tri_error *err)
{
    return read_file(path, mem, VALUES, out, err);
}

tri_status checkpoint_verify(const char *path, const struct mem *mem, tri_error *err)
{
    return read_file(path, mem, VERIFY, NULL, err);
}

tri_status checkpoint_describe(const char *path, const struct mem *mem, struct checkpoint **out,
                               tri_error *err)
{
    return read_file(path, mem, HEAD, out, err);
}

const struct safetensors *checkpoint_tensors(const struct checkpoint *what)
{
    return ((const struct checkpoint_file *)(const void *)what)->list;
}

void checkpoint_free(struct checkpoint *what, const struct mem *mem)
{
    struct checkpoint_file *file = (struct checkpoint_file *)(void *)what;
    if (file == NULL)
        return;
    mem_free(mem, what->layers);
    mem_free(mem, what->kept);
    mem_free(mem, file->data);
    safetensors_free(file->list, mem);
    mem_free(mem, file);
}
