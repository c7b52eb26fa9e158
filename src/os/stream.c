/* Files in pieces. */
#include "os/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/file.h"

/* ---- writing ---- */

enum { MOST_TRIES = 1000 };

static bool is_full(int reason)
{
    return reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static tri_status split(const char *path, struct stream_out *out, tri_error *err)
{
    size_t len = (size_t)(name_of(path) - path);
    if (strlen(path) + 64 >= STREAM_PATH)
        return fail(err, TRI_EINPUT, "the path '%.100s...' is too long", path);
    if (len == 0)
        (void)snprintf(out->folder, STREAM_PATH, ".");
    else
        (void)snprintf(out->folder, STREAM_PATH, "%.*s", (int)(len > 1 ? len - 1 : len), path);
    return TRI_OK;
}

/* Locks a new file. False: somebody took it for a left one and removed it, or is about to. */
static bool hold(int fd)
{
    struct stat found;
    if (flock(fd, LOCK_EX) < 0)
        return true; /* no locks there: nobody removes what cannot be locked */
    return fstat(fd, &found) == 0 && found.st_nlink > 0;
}

tri_status stream_out_open(const char *path, struct stream_out *out, tri_error *err)
{
    out->path = path;
    out->full = out->direct = false;
    out->used = 0;
    out->folder[0] = '\0';
    tri_status status = split(path, out, err);
    if (status != TRI_OK)
        return status;
    for (unsigned n = 0; n < MOST_TRIES; n++) {
        (void)snprintf(out->temporary, STREAM_PATH, "%.*s.%s.%ld.%u.tmp",
                       (int)(name_of(path) - path), path, name_of(path), (long)getpid(), n);
        out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out->fd >= 0 && hold(out->fd))
            return TRI_OK;
        if (out->fd >= 0)
            close(out->fd);
        else if (errno != EEXIST)
            break;
    }
    out->full = is_full(errno);
    return fail_errno(err, TRI_EIO, "cannot create '%s'", out->temporary);
}

static tri_status failed(struct stream_out *out, const char *what, tri_error *err)
{
    out->full = is_full(errno);
    return fail_errno(err, TRI_EIO, "cannot %s '%s'", what, out->path);
}

/* Back to the page cache: for an end that fills no block, and where blocks are refused. */
static bool leave_direct(struct stream_out *out)
{
    int flags = fcntl(out->fd, F_GETFL);
    bool was = out->direct;
    out->direct = false;
    return was && flags >= 0 && fcntl(out->fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

static tri_status write_all(struct stream_out *out, const char *from, size_t len, tri_error *err)
{
    while (len > 0) {
        ssize_t put = write(out->fd, from, len);
        if (put < 0 && (errno == EINTR || (errno == EINVAL && leave_direct(out))))
            continue;
        if (put < 0)
            return failed(out, "write", err);
        from += put;
        len -= (size_t)put;
    }
    return TRI_OK;
}

static tri_status flush(struct stream_out *out, tri_error *err)
{
    size_t used = out->used;
    out->used = 0;
    return write_all(out, out->buffer, used, err);
}

void stream_out_direct(struct stream_out *out, void *buffer, size_t size)
{
    int flags = fcntl(out->fd, F_GETFL);
    out->buffer = buffer;
    out->size = size;
    out->direct = flags >= 0 && fcntl(out->fd, F_SETFL, flags | O_DIRECT) == 0;
}

tri_status stream_out_put(struct stream_out *out, const void *bytes, size_t len, tri_error *err)
{
    const char *from = bytes;
    tri_status status = TRI_OK;
    while (out->direct && len > 0 && status == TRI_OK) {
        size_t room = out->size - out->used, n = len < room ? len : room;
        memcpy(out->buffer + out->used, from, n);
        out->used += n;
        from += n;
        len -= n;
        if (out->used == out->size)
            status = flush(out, err);
    }
    return status == TRI_OK ? write_all(out, from, len, err) : status;
}

static tri_status put_rest(struct stream_out *out, tri_error *err)
{
    (void)leave_direct(out);
    return flush(out, err);
}

tri_status stream_out_begin_with(struct stream_out *out, const void *bytes, size_t len,
                                 tri_error *err)
{
    const char *from = bytes;
    tri_status status = put_rest(out, err);
    for (size_t at = 0; at < len && status == TRI_OK;) {
        ssize_t put = pwrite(out->fd, from + at, len - at, (off_t)at);
        if (put < 0 && errno != EINTR)
            status = failed(out, "write", err);
        at += put > 0 ? (size_t)put : 0;
    }
    return status;
}

void stream_out_drop(struct stream_out *out)
{
    (void)unlink(out->temporary);
    close(out->fd);
}

tri_status stream_out_finish(struct stream_out *out, tri_error *err)
{
    tri_status status = put_rest(out, err);
    if (status == TRI_OK && fsync(out->fd) < 0)
        status = failed(out, "sync", err);
    else if (status == TRI_OK && rename(out->temporary, out->path) < 0)
        status = failed(out, "rename a new file to", err);
    if (status != TRI_OK) {
        stream_out_drop(out);
        return status;
    }
    close(out->fd); /* synced: there is nothing left to fail */
    return file_sync_folder(out->folder, err);
}

/* A name may stand for another file by now. */
static bool still_named(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

tri_status stream_remove_left(const char *path, tri_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? TRI_OK : fail_errno(err, TRI_EIO, "cannot open '%s'", path);
    tri_status status = TRI_OK;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && still_named(fd, path))
        status = file_remove(path, err);
    close(fd);
    return status;
}

/* ---- reading ---- */

tri_status stream_in_open(const char *path, struct stream_in *out, tri_error *err)
{
    struct stat found = {0};
    /* A pipe without a writer would be waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_errno(err, TRI_EINPUT, "cannot open '%s'", path);
    if (fstat(fd, &found) < 0 || !S_ISREG(found.st_mode)) {
        close(fd);
        return fail(err, TRI_EINPUT, "'%s' is %s", path,
                    S_ISDIR(found.st_mode) ? "a folder" : "no plain file");
    }
    *out = (struct stream_in){path, fd, (uint64_t)found.st_size};
    return TRI_OK;
}

void stream_in_close(struct stream_in *in)
{
    close(in->fd);
}

tri_status stream_in_get(struct stream_in *in, void *to, size_t len, size_t *got, tri_error *err)
{
    *got = 0;
    while (*got < len) {
        ssize_t now = read(in->fd, (char *)to + *got, len - *got);
        if (now < 0 && errno == EINTR)
            continue;
        if (now < 0) {
            fail_errno(err, TRI_EINPUT, "cannot read '%s'", in->path);
            fail_where(err, "%s, byte %lld", in->path, (long long)lseek(in->fd, 0, SEEK_CUR));
            return TRI_EINPUT;
        }
        if (now == 0)
            break;
        *got += (size_t)now;
    }
    return TRI_OK;
}
