/* Reads CIFAR-10's binary files. */
#include "engine/data/cifar.h"

#include <stdio.h>
#include <string.h>

#include "engine/data/gz.h"
#include "os/file.h"

static tri_status no_records(const char *name, size_t len, tri_error *err)
{
    if (len == 0)
        fail(err, TRI_EINPUT, "'%s' is empty", name);
    else
        fail(err, TRI_EINPUT, "'%s' is no CIFAR-10 file", name);
    fail_where(err, "%s, offset %zu", name, len - len % CIFAR_RECORD);
    if (len > 0)
        fail_why(err, "its %zu bytes are not a multiple of %d: a label and 3 x 32 x 32 bytes", len,
                 CIFAR_RECORD);
    fail_next(err, "get the binary version of the data set (data_batch_1.bin ...)");
    return TRI_EINPUT;
}

tri_status cifar_check(const char *name, const void *bytes, size_t len, tri_error *err)
{
    const uint8_t *p = bytes;
    if (len == 0 || len % CIFAR_RECORD != 0)
        return no_records(name, len, err);
    for (size_t at = 0; at < len; at += CIFAR_RECORD)
        if (p[at] >= CIFAR_CLASSES) {
            fail(err, TRI_EINPUT, "label %u is out of range", p[at]);
            fail_where(err, "%s, offset %zu (image %zu)", name, at, at / CIFAR_RECORD + 1);
            fail_next(err, "labels must be 0 to %d; get the file again", CIFAR_CLASSES - 1);
            return TRI_EINPUT;
        }
    return TRI_OK;
}

/* Takes the content of the buffer, with labels between the images or bare. */
static tri_status split(struct buf *file, bool bare, struct images *out, tri_error *err)
{
    const struct mem *mem = file->mem;
    size_t record = bare ? CIFAR_PIXELS : CIFAR_RECORD;
    struct images images = {.count = file->len / record,
                            .shape = {.channels = 3, .height = 32, .width = 32},
                            .classes = CIFAR_CLASSES};
    uint8_t *bytes = (uint8_t *)file->data;
    if (!bare) {
        images.labels = mem_array(mem, images.count, 1);
        if (images.labels == NULL)
            return fail_nomem(err, "labels");
    }
    for (size_t i = 0; i < images.count && !bare; i++) {
        images.labels[i] = bytes[i * record];
        memmove(bytes + i * CIFAR_PIXELS, bytes + i * record + 1, CIFAR_PIXELS);
    }
    void *less = mem->resize(mem->ctx, bytes, images.count * CIFAR_PIXELS);
    images.pixels = less != NULL ? less : bytes;
    buf_init(file, mem); /* its memory is the images' now */
    *out = images;
    return TRI_OK;
}

tri_status cifar_load(const char *path, bool bare_allowed, const struct mem *mem,
                      struct images *out, tri_error *err)
{
    struct buf file;
    buf_init(&file, mem);
    tri_status status = gz_read(path, &file, err);
    bool bare = bare_allowed && file.len > 0 && file.len % CIFAR_RECORD != 0 &&
                file.len % CIFAR_PIXELS == 0;
    if (status == TRI_OK && !bare)
        status = cifar_check(path, buf_string(&file), file.len, err);
    if (status == TRI_OK)
        status = split(&file, bare, out, err);
    buf_fini(&file);
    return status;
}

struct batches {
    const char *folder;
    struct buf *file;
    char last[256]; /* the plain name that was read last: name.gz beside it is skipped */
    tri_error *err;
};

static bool is_batch(const char *name)
{
    size_t len = strlen(name);
    if (strncmp(name, "data_batch_", 11) != 0)
        return false;
    return (len > 4 && strcmp(name + len - 4, ".bin") == 0) ||
           (len > 7 && strcmp(name + len - 7, ".bin.gz") == 0);
}

static tri_status add_batch(void *ctx, const char *name)
{
    struct batches *batches = ctx;
    char path[GZ_PATH];
    size_t last = strlen(batches->last);
    if (!is_batch(name) || (last > 0 && strncmp(name, batches->last, last) == 0))
        return TRI_OK;
    int len = snprintf(path, sizeof path, "%s/%s", batches->folder, name);
    if (len < 0 || (size_t)len >= sizeof path)
        return fail(batches->err, TRI_EINPUT, "the path '%.100s...' is too long", batches->folder);
    size_t before = batches->file->len;
    tri_status status = gz_read(path, batches->file, batches->err);
    (void)snprintf(batches->last, sizeof batches->last, "%s", name);
    if (status != TRI_OK)
        return status;
    return cifar_check(path, buf_string(batches->file) + before, batches->file->len - before,
                       batches->err);
}

tri_status cifar_load_batches(const char *folder, const struct mem *mem, struct images *out,
                              tri_error *err)
{
    struct buf file;
    struct batches batches = {.folder = folder, .file = &file, .err = err};
    buf_init(&file, mem);
    tri_status status = TRI_OK;
    if (gz_is_folder(folder))
        status = file_each(folder, "", mem, add_batch, &batches, err);
    if (status == TRI_OK && file.len == 0) {
        status = TRI_EINPUT;
        if (gz_is_folder(folder))
            fail(err, status, "the folder '%s' has no data_batch_*.bin or .bin.gz", folder);
        else
            fail(err, status, "there is no folder '%s'", folder);
        fail_next(err, "give the folder of CIFAR-10's binary version: cifar10:DIR");
    }
    if (status == TRI_OK)
        status = split(&file, false, out, err);
    buf_fini(&file);
    return status;
}

static const char *const known[CIFAR_CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

static size_t trimmed(const char *line, size_t len)
{
    while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' '))
        len--;
    return len;
}

/* One name a line; blank lines do not count. */
static tri_status read_names(const char *path, const struct buf *file, struct vocabulary *names,
                             tri_error *err)
{
    const char *at = buf_string(file), *end = at + file->len;
    size_t lines = 0;
    for (const char *next; at < end; at = next) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        next = stop < end ? stop + 1 : end;
        size_t len = trimmed(at, (size_t)(stop - at));
        lines += len > 0;
        if (len > 0 && memchr(at, '\0', len) == NULL && lines <= CIFAR_CLASSES &&
            vocabulary_add(names, at, len) == VOCABULARY_NONE)
            return fail_nomem(err, "names of classes");
    }
    if (lines == CIFAR_CLASSES && vocabulary_size(names) == CIFAR_CLASSES)
        return TRI_OK;
    fail(err, TRI_EINPUT, "'%s' must name %d different classes, one a line", path, CIFAR_CLASSES);
    fail_where(err, "%s:%zu", path, lines);
    fail_next(err, "correct it, or take it away: the usual names are known");
    return TRI_EINPUT;
}

static tri_status names_of_file(const char *path, const struct mem *mem, struct vocabulary **out,
                                tri_error *err)
{
    struct buf file;
    buf_init(&file, mem);
    struct vocabulary *names = vocabulary_new(mem);
    tri_status status =
        names != NULL ? gz_read(path, &file, err) : fail_nomem(err, "names of classes");
    if (status == TRI_OK)
        status = read_names(path, &file, names, err);
    buf_fini(&file);
    if (status == TRI_OK)
        *out = names;
    else
        vocabulary_free(names);
    return status;
}

tri_status cifar_names(const char *folder, const struct mem *mem, struct vocabulary **out,
                       tri_error *err)
{
    char path[GZ_PATH];
    if (folder != NULL && gz_find(folder, "batches.meta.txt", path, NULL) == TRI_OK)
        return names_of_file(path, mem, out, err);
    return vocabulary_of(known, CIFAR_CLASSES, mem, out, err);
}
