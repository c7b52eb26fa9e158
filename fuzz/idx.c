/* Bytes to images: gzip, IDX and CIFAR-10 records, whatever they are.
 *
 * The first byte picks: 0 IDX images, 1 IDX labels, 2 CIFAR-10; 3 more: the rest is unpacked
 * first, if it is gzip. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/cifar.h"
#include "engine/data/gz.h"
#include "engine/data/idx.h"

/* A broken promise is a crash, whatever NDEBUG says. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

/* Refuses what would only make the machine slow. */
static void *modest_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    if (bytes == 0) {
        free(ptr);
        return NULL;
    }
    return bytes <= (size_t)8 << 20 ? realloc(ptr, bytes) : NULL;
}
static const struct mem modest = {.resize = modest_resize};

static void must_explain(tri_status status, const tri_error *err)
{
    must(status == err->status && (status == TRI_EINPUT || status == TRI_ENOMEM));
    must(err->text[0] != '\0' && err->next[0] != '\0');
    must(status == TRI_ENOMEM || err->where[0] != '\0');
}

static void check_idx(const uint8_t *bytes, size_t len, uint32_t dimensions)
{
    struct idx idx = {0};
    tri_error err = {0};
    tri_status status = idx_parse("fuzz", bytes, len, dimensions, &idx, &err);
    if (status != TRI_OK) {
        must_explain(status, &err);
        return;
    }
    must(idx.count > 0 && idx.height > 0 && idx.width > 0);
    must(idx.at == 4 + (size_t)4 * dimensions);
    must(idx.at + idx.count * ((size_t)idx.height * idx.width) == len);
}

static void check_cifar(const uint8_t *bytes, size_t len)
{
    tri_error err = {0};
    tri_status status = cifar_check("fuzz", bytes, len, &err);
    if (status != TRI_OK)
        must_explain(status, &err);
    else
        must(len > 0 && len % CIFAR_RECORD == 0);
}

static void check(unsigned pick, const uint8_t *bytes, size_t len)
{
    if (pick == 2)
        check_cifar(bytes, len);
    else
        check_idx(bytes, len, pick == 0 ? IDX_IMAGES : IDX_LABELS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    unsigned pick = data[0] % 6;
    uint8_t *copy = malloc(size); /* so that its end is guarded */
    must(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    uint8_t *bytes = realloc(copy, size > 1 ? size - 1 : 1);
    must(bytes != NULL);
    if (pick < 3) {
        check(pick, bytes, size - 1);
    } else {
        struct buf out;
        tri_error err = {0};
        buf_init(&out, &modest);
        tri_status status = gz_unpack("fuzz", bytes, size - 1, &out, &err);
        if (status != TRI_OK)
            must_explain(status, &err);
        else
            check(pick - 3, (const uint8_t *)buf_string(&out), out.len);
        buf_fini(&out);
    }
    free(bytes);
    return 0;
}
