/* Reads files, unpacking those that are gzip. */
#include "engine/data/gz.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <zlib.h>

#include "os/file.h"

static void *take(void *ctx, unsigned count, unsigned size)
{
    return mem_array(ctx, count, size);
}

static void give(void *ctx, void *ptr)
{
    mem_free(ctx, ptr);
}

static bool is_gzip(const uint8_t *bytes, size_t len)
{
    return len >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
}

static tri_status broken(const char *name, size_t offset, const char *what, const char *why,
                         tri_error *err)
{
    fail(err, TRI_EINPUT, "'%s' %s", name, what);
    fail_where(err, "%s, offset %zu", name, offset);
    if (why != NULL)
        fail_why(err, "%s", why);
    fail_next(err, "get the file again; gzip -t tells whether it is whole");
    return TRI_EINPUT;
}

struct unpacking {
    const char *name;
    const uint8_t *bytes;
    size_t len, at; /* at: what has been handed to zlib or is behind it */
    z_stream z;
};

/* zlib counts what it is given in 32 bits. */
static void feed(struct unpacking *u)
{
    size_t left = u->len - u->at;
    u->z.next_in = (uint8_t *)u->bytes + u->at; /* zlib only reads it */
    u->z.avail_in = left < UINT32_MAX ? (unsigned)left : UINT32_MAX;
}

static size_t offset_of(const struct unpacking *u)
{
    return (size_t)(u->z.next_in - u->bytes);
}

static tri_status unpack_member(struct unpacking *u, struct buf *out, tri_error *err)
{
    uint8_t block[1 << 16];
    for (int got = Z_OK; got != Z_STREAM_END;) {
        feed(u);
        u->z.next_out = block;
        u->z.avail_out = sizeof block;
        got = inflate(&u->z, Z_NO_FLUSH);
        u->at = offset_of(u);
        size_t made = sizeof block - u->z.avail_out;
        buf_add(out, block, made);
        if (!buf_ok(out) || got == Z_MEM_ERROR)
            return fail_nomem(err, "the content of a file");
        if (out->len > GZ_MAX_BYTES)
            return broken(u->name, u->at, "is too long when unpacked", NULL, err);
        if (got == Z_BUF_ERROR || (got == Z_OK && made == 0 && u->at == u->len))
            return broken(u->name, u->len, "ends too early", "the gzip data is cut short", err);
        if (got != Z_OK && got != Z_STREAM_END)
            return broken(u->name, u->at, "is broken", u->z.msg, err);
    }
    return TRI_OK;
}

/* What tar and others put behind the last member: zeros. */
static tri_status check_rest(const struct unpacking *u, tri_error *err)
{
    for (size_t i = u->at; i < u->len; i++)
        if (u->bytes[i] != 0)
            return broken(u->name, i, "is broken", "something stands behind the gzip data", err);
    return TRI_OK;
}

static tri_status unpack(struct unpacking *u, struct buf *out, tri_error *err)
{
    tri_status status = TRI_OK;
    while (status == TRI_OK && is_gzip(u->bytes + u->at, u->len - u->at)) {
        status = unpack_member(u, out, err);
        (void)inflateReset(&u->z);
    }
    return status == TRI_OK ? check_rest(u, err) : status;
}

tri_status gz_unpack(const char *name, const void *bytes, size_t len, struct buf *out,
                     tri_error *err)
{
    enum { GZIP_ONLY = 16 + MAX_WBITS };
    struct unpacking u = {.name = name, .bytes = bytes, .len = len};
    if (!is_gzip(bytes, len)) {
        buf_add(out, bytes, len);
        return buf_ok(out) ? TRI_OK : fail_nomem(err, "the content of a file");
    }
    u.z = (z_stream){.zalloc = take, .zfree = give, .opaque = (void *)out->mem};
    if (inflateInit2(&u.z, GZIP_ONLY) != Z_OK)
        return fail_nomem(err, "unpacking a file");
    tri_status status = unpack(&u, out, err);
    (void)inflateEnd(&u.z);
    return status;
}

tri_status gz_read(const char *path, struct buf *out, tri_error *err)
{
    struct buf file;
    buf_init(&file, out->mem);
    tri_status status = file_read(path, GZ_MAX_BYTES, &file, err);
    if (status != TRI_OK && status != TRI_ENOMEM)
        fail_next(err, "check the path");
    if (status == TRI_OK && out->len == 0 && !is_gzip((const uint8_t *)file.data, file.len)) {
        buf_fini(out);
        *out = file; /* no copy of what is already as wanted */
        return TRI_OK;
    }
    if (status == TRI_OK)
        status = gz_unpack(path, buf_string(&file), file.len, out, err);
    buf_fini(&file);
    return status;
}

bool gz_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool gz_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

tri_status gz_find(const char *folder, const char *name, char out[GZ_PATH], tri_error *err)
{
    if (!gz_is_folder(folder)) {
        fail(err, TRI_EINPUT, "there is no folder '%s'", folder);
        fail_next(err, "give the folder that holds '%s' or '%s.gz'", name, name);
        return TRI_EINPUT;
    }
    int len = snprintf(out, GZ_PATH, "%s/%s", folder, name);
    if (len < 0 || len + 4 > GZ_PATH)
        return fail(err, TRI_EINPUT, "the path '%.100s...' is too long", folder);
    if (gz_exists(out))
        return TRI_OK;
    (void)snprintf(out + len, (size_t)(GZ_PATH - len), ".gz");
    if (gz_exists(out))
        return TRI_OK;
    fail(err, TRI_EINPUT, "the folder '%s' has no file '%s'", folder, name);
    fail_why(err, "there is no '%s.gz' either", name);
    fail_next(err, "give the folder that holds it");
    return TRI_EINPUT;
}
