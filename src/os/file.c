/* Reading, listing and writing files. */
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tri_status read_all(int fd, const char *path, size_t max_bytes, struct buf *out,
                           tri_error *err)
{
    char block[8192];
    size_t total = 0;
    for (;;) {
        ssize_t got = read(fd, block, sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(err, TRI_EINPUT, "cannot read '%s'", path);
        if (got == 0)
            break;
        total += (size_t)got;
        if (total > max_bytes)
            return fail(err, TRI_EINPUT, "'%s' is longer than %zu bytes", path, max_bytes);
        buf_add(out, block, (size_t)got);
        if (!buf_ok(out))
            return fail_nomem(err, "the content of a file");
    }
    return TRI_OK;
}

tri_status file_read(const char *path, size_t max_bytes, struct buf *out, tri_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, TRI_EINPUT, "cannot open '%s'", path);
    tri_status status = read_all(fd, path, max_bytes, out, err);
    close(fd);
    return status;
}

static int ends_in(const char *name, const char *suffix)
{
    size_t len = strlen(name), end = strlen(suffix);
    return len >= end && strcmp(name + len - end, suffix) == 0;
}

/* All fitting names, one after the other, each with its NUL. */
static tri_status list(const char *folder, const char *suffix, struct buf *names, size_t *count,
                       tri_error *err)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return fail_errno(err, TRI_EINPUT, "cannot list the folder '%s'", folder);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.' && ends_in(entry->d_name, suffix)) {
            buf_add(names, entry->d_name, strlen(entry->d_name) + 1);
            ++*count;
        }
    closedir(dir);
    return buf_ok(names) ? TRI_OK : fail_nomem(err, "a list of files");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static tri_status each_sorted(const struct buf *names, const char **sorted, size_t count,
                              tri_status (*found)(void *ctx, const char *name), void *ctx)
{
    const char *name = names->data;
    for (size_t i = 0; i < count; i++, name += strlen(name) + 1)
        sorted[i] = name;
    qsort(sorted, count, sizeof *sorted, by_text);
    tri_status status = TRI_OK;
    for (size_t i = 0; i < count && status == TRI_OK; i++)
        status = found(ctx, sorted[i]);
    return status;
}

tri_status file_each(const char *folder, const char *suffix, const struct mem *mem,
                     tri_status (*found)(void *ctx, const char *name), void *ctx, tri_error *err)
{
    struct buf names;
    size_t count = 0;
    buf_init(&names, mem);
    tri_status status = list(folder, suffix, &names, &count, err);
    if (status == TRI_OK) {
        const char **sorted = mem_array(mem, count, sizeof *sorted);
        if (sorted != NULL)
            status = each_sorted(&names, sorted, count, found, ctx);
        else
            status = fail_nomem(err, "a list of files");
        mem_free(mem, sorted);
    }
    buf_fini(&names);
    return status;
}

static tri_status write_all(int fd, const char *path, const char *bytes, size_t len, tri_error *err)
{
    while (len > 0) {
        ssize_t put = write(fd, bytes, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail_errno(err, TRI_EIO, "cannot write '%s'", path);
        bytes += put;
        len -= (size_t)put;
    }
    return TRI_OK;
}

tri_status file_write(const char *path, const void *bytes, size_t len, tri_error *err)
{
    char beside[4096];
    int used = snprintf(beside, sizeof beside, "%s.%ld.tmp", path, (long)getpid());
    if (used < 0 || (size_t)used >= sizeof beside)
        return fail(err, TRI_EINPUT, "the path '%.100s...' is too long", path);
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_errno(err, TRI_EIO, "cannot create '%s'", beside);
    tri_status status = write_all(fd, beside, bytes, len, err);
    if (close(fd) < 0 && status == TRI_OK)
        status = fail_errno(err, TRI_EIO, "cannot write '%s'", beside);
    if (status == TRI_OK && rename(beside, path) < 0)
        status = fail_errno(err, TRI_EIO, "cannot rename '%s' to '%s'", beside, path);
    if (status != TRI_OK)
        (void)unlink(beside);
    return status;
}

tri_status file_program_folder(struct buf *out, tri_error *err)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path);
    if (len < 0)
        return fail_errno(err, TRI_EIO, "cannot find out where this program was started from");
    while (len > 0 && path[len - 1] != '/')
        len--;
    buf_add(out, path, len > 1 ? (size_t)len - 1 : (size_t)len);
    return buf_ok(out) ? TRI_OK : fail_nomem(err, "a path");
}
