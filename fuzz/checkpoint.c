/* Bytes to a checkpoint: whatever they are, they are refused with a reason, or every layer has its
 * values, and what is written from them is read as the same.
 *
 * The first byte picks: even takes the bytes as they are; odd makes the two checksums right first,
 * so that what is behind them is reached. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "checkpoint/inside.h"
#include "wire/bytes.h"

/* A broken promise is a crash, whatever NDEBUG says. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

/* A file in memory, as a path. */
struct held {
    int fd;
    char path[64];
};

static void hold(struct held *held, const uint8_t *bytes, size_t len)
{
    held->fd = memfd_create("checkpoint", MFD_CLOEXEC);
    must(held->fd >= 0 && write(held->fd, bytes, len) == (ssize_t)len);
    (void)snprintf(held->path, sizeof held->path, "/proc/self/fd/%d", held->fd);
}

static void mend(char *bytes, size_t len)
{
    if (len < 8 || wire_load_u64((uint8_t *)bytes) > len - 8)
        return;
    size_t head = 8 + (size_t)wire_load_u64((uint8_t *)bytes);
    char sum[CHECKPOINT_SUM + 1];
    char *data_sum = checkpoint_sum_at(bytes, head, CHECKPOINT_DATA_SUM);
    char *header_sum = checkpoint_sum_at(bytes, head, CHECKPOINT_HEADER_SUM);
    (void)snprintf(sum, sizeof sum, "%08x", (unsigned)crc32c(0, bytes + head, len - head));
    if (data_sum != NULL)
        memcpy(data_sum, sum, CHECKPOINT_SUM);
    checkpoint_header_sum(bytes, head, header_sum, sum);
    if (header_sum != NULL)
        memcpy(header_sum, sum, CHECKPOINT_SUM);
}

/* Touches every value, so that one outside of what was read is noticed. */
static uint64_t bytes_of(const struct checkpoint *what)
{
    uint64_t bytes = 0;
    uint32_t crc = 0;
    for (uint32_t i = 0; i < what->layer_count; i++) {
        const struct checkpoint_layer *layer = &what->layers[i];
        size_t len = sizeof(float) * layer->rows * ((size_t)layer->cols + layer->bias);
        must(layer->rows > 0 && layer->cols > 0 && (uintptr_t)layer->values % 4 == 0);
        crc = crc32c(crc, layer->values, len);
        for (uint32_t s = 0; s < what->states; s++)
            crc = crc32c(crc, layer->state[s], len);
        bytes += len * (1 + what->states);
    }
    for (uint32_t i = 0; i < what->kept_count; i++) {
        const struct checkpoint_kept *kept = &what->kept[i];
        size_t size = kept->type == TRI_U64 ? 8 : 4;
        must(kept->count > 0 && (uintptr_t)kept->values % size == 0);
        crc = crc32c(crc, kept->values, (size_t)kept->count * size);
        bytes += kept->count * size;
    }
    must(crc != 1 || bytes > 0);
    return bytes;
}

static void equal(const struct checkpoint *a, const struct checkpoint *b)
{
    must(a->clock == b->clock && a->states == b->states && a->layer_count == b->layer_count &&
         a->kept_count == b->kept_count && bytes_of(a) == bytes_of(b));
    for (uint32_t i = 0; i < a->layer_count; i++) {
        const struct checkpoint_layer *x = &a->layers[i], *y = &b->layers[i];
        must(x->rows == y->rows && x->cols == y->cols && x->bias == y->bias &&
             x->steps == y->steps);
        must(strcmp(x->name, y->name) == 0);
        must(memcmp(x->values, y->values, sizeof(float) * x->rows * x->cols) == 0);
    }
    for (uint32_t i = 0; i < a->kept_count; i++)
        must(strcmp(a->kept[i].name, b->kept[i].name) == 0 && a->kept[i].type == b->kept[i].type);
}

/* Into a folder that is removed with all in it. */
static void write_and_read(const struct checkpoint *what)
{
    char folder[] = "/dev/shm/trident-fuzz-XXXXXX";
    struct buf path;
    struct checkpoint *again = NULL;
    if (mkdtemp(folder) == NULL)
        return; /* no such memory here */
    buf_init(&path, &mem_libc);
    tri_status status = checkpoint_write(folder, what, &mem_libc, &path, NULL);
    /* A name that is kept may be one of a layer: that is not written. */
    must(status == TRI_OK || status == TRI_EARG);
    if (status == TRI_OK) {
        must(checkpoint_read(buf_string(&path), &mem_libc, &again, NULL) == TRI_OK);
        equal(what, again);
        (void)unlink(buf_string(&path));
    }
    (void)rmdir(folder);
    checkpoint_free(again, &mem_libc);
    buf_fini(&path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct held held;
    struct checkpoint *what = NULL;
    tri_error err = {0};
    if (size < 1)
        return 0;
    char *bytes = malloc(size);
    must(bytes != NULL);
    memcpy(bytes, data + 1, size - 1);
    if (data[0] % 2 == 1)
        mend(bytes, size - 1);
    hold(&held, (uint8_t *)bytes, size - 1);
    free(bytes);
    tri_status status = checkpoint_read(held.path, &mem_libc, &what, &err);
    must((status == TRI_OK) == (what != NULL) && status == err.status);
    must(checkpoint_verify(held.path, &mem_libc, NULL) == status);
    if (status == TRI_OK) {
        must(bytes_of(what) == checkpoint_tensors(what)->data_bytes);
        if (data[0] % 8 < 2) /* the disk is slow */
            write_and_read(what);
    } else {
        must(status == TRI_EINPUT && err.text[0] != '\0' && err.next[0] != '\0');
        must(err.why[0] != '\0' && err.where[0] != '\0');
    }
    checkpoint_free(what, &mem_libc);
    close(held.fd);
    return 0;
}
