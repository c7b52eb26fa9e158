/* Bytes to the head of a safetensors file: what is taken holds its promises, and is the same after
 * it was written and read again. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/safetensors.h"

/* A broken promise is a crash, whatever NDEBUG says. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check(const struct safetensors *what, size_t size)
{
    uint64_t end = 0;
    must(what->head_bytes + what->data_bytes == size);
    for (size_t i = 0; i < what->count; i++) {
        const struct safetensors_tensor *tensor = &what->tensors[i];
        uint64_t bytes = 0;
        must(tensor->name[0] != '\0' && tensor->dims <= SAFETENSORS_DIMS);
        must(tensor->offset == end);
        must(safetensors_find(what, tensor->name) == tensor);
        must(safetensors_bytes(tensor, &bytes) == (tensor->dtype != SAFETENSORS_OTHER));
        must(tensor->dtype == SAFETENSORS_OTHER || bytes == tensor->bytes);
        end += tensor->bytes;
    }
    must(end == what->data_bytes);
    for (size_t i = 0; i < what->text_count; i++)
        must(safetensors_text(what, what->texts[i].key) == what->texts[i].value);
}

static bool can_be_written(const struct safetensors *what)
{
    for (size_t i = 0; i < what->count; i++)
        if (what->tensors[i].dtype == SAFETENSORS_OTHER)
            return false;
    return true;
}

static void equal(const struct safetensors *a, const struct safetensors *b)
{
    must(a->count == b->count && a->text_count == b->text_count && a->data_bytes == b->data_bytes);
    for (size_t i = 0; i < a->count; i++) {
        const struct safetensors_tensor *x = &a->tensors[i];
        const struct safetensors_tensor *y = safetensors_find(b, x->name);
        must(y != NULL && x->dtype == y->dtype && x->dims == y->dims && x->bytes == y->bytes);
        must(memcmp(x->shape, y->shape, sizeof x->shape) == 0);
    }
    for (size_t i = 0; i < a->text_count; i++)
        must(strcmp(safetensors_text(b, a->texts[i].key), a->texts[i].value) == 0);
}

static void write_and_read(const struct safetensors *what)
{
    struct buf out;
    struct safetensors *again = NULL;
    buf_init(&out, &mem_libc);
    must(safetensors_write(what, &out, NULL) == TRI_OK && out.len % 8 == 0);
    const struct safetensors_source source = {.path = "again",
                                              .bytes = out.data,
                                              .len = out.len,
                                              .file_bytes = out.len + what->data_bytes};
    must(safetensors_read(&source, &mem_libc, &again, NULL) == TRI_OK);
    equal(what, again);
    safetensors_free(again, &mem_libc);
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size > 0 ? size : 1); /* a copy, so that its end is guarded */
    must(bytes != NULL);
    if (size > 0)
        memcpy(bytes, data, size);
    const struct safetensors_source source = {
        .path = "fuzz", .bytes = bytes, .len = size, .file_bytes = size};
    struct safetensors *what = NULL;
    tri_error err = {0};
    tri_status status = safetensors_read(&source, &mem_libc, &what, &err);
    free(bytes);
    must((status == TRI_OK) == (what != NULL) && status == err.status);
    must(status == TRI_OK || (status == TRI_EINPUT && err.text[0] != '\0'));
    if (what != NULL) {
        check(what, size);
        if (can_be_written(what))
            write_and_read(what);
    }
    safetensors_free(what, &mem_libc);
    return 0;
}
