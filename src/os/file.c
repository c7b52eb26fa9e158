/* Reading, listing and writing files. */
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
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

/* What names of a folder are wanted. */
struct wanted {
    const char *folder, *suffix;
    bool hidden;
};

static bool fits(const struct wanted *wanted, const char *name)
{
    bool itself = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    return !itself && (name[0] == '.') == wanted->hidden && ends_in(name, wanted->suffix);
}

/* All fitting names, one after the other, each with its NUL. */
static tri_status list(const struct wanted *wanted, struct buf *names, size_t *count,
                       tri_error *err)
{
    const char *folder = wanted->folder;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return fail_errno(err, TRI_EINPUT, "cannot list the folder '%s'", folder);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (fits(wanted, entry->d_name)) {
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

static tri_status each(const struct wanted *wanted, const struct mem *mem,
                       tri_status (*found)(void *ctx, const char *name), void *ctx, tri_error *err)
{
    struct buf names;
    size_t count = 0;
    buf_init(&names, mem);
    tri_status status = list(wanted, &names, &count, err);
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

tri_status file_each(const char *folder, const char *suffix, const struct mem *mem,
                     tri_status (*found)(void *ctx, const char *name), void *ctx, tri_error *err)
{
    const struct wanted wanted = {folder, suffix, false};
    return each(&wanted, mem, found, ctx, err);
}

tri_status file_each_hidden(const char *folder, const char *suffix, const struct mem *mem,
                            tri_status (*found)(void *ctx, const char *name), void *ctx,
                            tri_error *err)
{
    const struct wanted wanted = {folder, suffix, true};
    return each(&wanted, mem, found, ctx, err);
}

/* ---- what is there ---- */

tri_status file_look(const char *path, struct file_facts *out, tri_error *err)
{
    struct stat found;
    *out = (struct file_facts){.kind = FILE_NONE};
    if (stat(path, &found) < 0) {
        bool none = errno == ENOENT || errno == ENOTDIR;
        return none ? TRI_OK : fail_errno(err, TRI_EINPUT, "cannot look at '%s'", path);
    }
    out->kind = S_ISREG(found.st_mode)   ? FILE_PLAIN
                : S_ISDIR(found.st_mode) ? FILE_FOLDER
                                         : FILE_OTHER;
    out->bytes = out->kind == FILE_PLAIN ? (uint64_t)found.st_size : 0;
    out->written_s = (int64_t)found.st_mtime;
    return TRI_OK;
}

tri_status file_remove(const char *path, tri_error *err)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return TRI_OK;
    return fail_errno(err, TRI_EIO, "cannot remove '%s'", path);
}

bool file_room(const char *path, uint64_t *bytes)
{
    struct statvfs found;
    if (statvfs(path, &found) < 0 || found.f_blocks == 0)
        return false;
    *bytes = (uint64_t)found.f_bavail * found.f_frsize;
    return true;
}

/* ---- writing ---- */

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

enum { PATH_TEXT = 4096 };

/* Where a file is written before it gets its name. */
static tri_status beside(const char *path, char out[PATH_TEXT], tri_error *err)
{
    int used = snprintf(out, PATH_TEXT, "%s.%ld.tmp", path, (long)getpid());
    if (used < 0 || used >= PATH_TEXT)
        return fail(err, TRI_EINPUT, "the path '%.100s...' is too long", path);
    return TRI_OK;
}

/* Writes a new file, and removes it again if it fails. */
static tri_status write_new(const char *path, const struct file_whole *file, bool sync,
                            tri_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_errno(err, TRI_EIO, "cannot create '%s'", path);
    tri_status status = TRI_OK;
    for (size_t i = 0; i < file->count && status == TRI_OK; i++)
        status = write_all(fd, path, file->parts[i].bytes, file->parts[i].len, err);
    if (status == TRI_OK && sync && fsync(fd) < 0)
        status = fail_errno(err, TRI_EIO, "cannot sync '%s'", path);
    if (close(fd) < 0 && status == TRI_OK)
        status = fail_errno(err, TRI_EIO, "cannot write '%s'", path);
    if (status != TRI_OK)
        (void)unlink(path);
    return status;
}

static tri_status rename_over(const char *from, const char *path, tri_error *err)
{
    if (rename(from, path) == 0)
        return TRI_OK;
    tri_status status = fail_errno(err, TRI_EIO, "cannot rename '%s' to '%s'", from, path);
    (void)unlink(from);
    return status;
}

tri_status file_write(const char *path, const void *bytes, size_t len, tri_error *err)
{
    char new[PATH_TEXT];
    const struct file_part part = {bytes, len};
    const struct file_whole file = {.path = path, .parts = &part, .count = 1};
    tri_status status = beside(path, new, err);
    if (status == TRI_OK)
        status = write_new(new, &file, false, err);
    return status == TRI_OK ? rename_over(new, path, err) : status;
}

static tri_status refuse_folder(const char *path, tri_error *err)
{
    struct stat found;
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode)) {
        fail(err, TRI_EINPUT, "'%s' is a folder", path);
        fail_next(err, "give the path of a file");
        return TRI_EINPUT;
    }
    return TRI_OK;
}

static tri_status folder_of(const char *path, char out[PATH_TEXT], tri_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash != NULL ? (size_t)(slash - path) : 0;
    if (len >= PATH_TEXT)
        return fail(err, TRI_EINPUT, "the path '%.100s...' is too long", path);
    (void)snprintf(out, PATH_TEXT, "%.*s", (int)len, path);
    if (len == 0)
        (void)snprintf(out, PATH_TEXT, slash != NULL ? "/" : ".");
    return TRI_OK;
}

/* A rename is safe only when its folder is on the disk, too. Not all file systems can. */
tri_status file_sync_folder(const char *folder, tri_error *err)
{
    tri_status status = TRI_OK;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? TRI_OK
                               : fail_errno(err, TRI_EIO, "cannot open the folder '%s'", folder);
    if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
        status = fail_errno(err, TRI_EIO, "cannot sync the folder '%s'", folder);
    close(fd);
    return status;
}

static tri_status sync_folder_of(const char *path, tri_error *err)
{
    char folder[PATH_TEXT];
    tri_status status = folder_of(path, folder, err);
    return status == TRI_OK ? file_sync_folder(folder, err) : status;
}

/* The folders above it, as far as they are missing. What cannot be is told by the last one. */
static void make_parents(const char *path)
{
    char parent[PATH_TEXT];
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    struct stat found;
    if (len == 0 || len >= sizeof parent)
        return;
    memcpy(parent, path, len);
    parent[len] = '\0';
    if (stat(parent, &found) != 0)
        (void)file_make_folder(parent, NULL);
}

tri_status file_make_folder(const char *path, tri_error *err)
{
    struct stat found;
    if (stat(path, &found) == 0 && S_ISDIR(found.st_mode))
        return TRI_OK;
    make_parents(path);
    if (mkdir(path, 0777) == 0)
        return sync_folder_of(path, err);
    int reason = errno;
    if (reason == EEXIST && stat(path, &found) == 0 && S_ISDIR(found.st_mode))
        return TRI_OK; /* somebody else was quicker */
    errno = reason == EEXIST ? ENOTDIR : reason;
    return fail_errno(err, TRI_EINPUT, "cannot make the folder '%s'", path);
}

/* Removes the new ones of files[from .. to). */
static void remove_new(const struct file_whole *files, size_t from, size_t to)
{
    char new[PATH_TEXT];
    for (size_t i = from; i < to; i++)
        if (beside(files[i].path, new, NULL) == TRI_OK)
            (void)unlink(new);
}

static tri_status write_beside(const struct file_whole *files, size_t count, tri_error *err)
{
    char new[PATH_TEXT];
    for (size_t i = 0; i < count; i++) {
        tri_status status = refuse_folder(files[i].path, err);
        if (status == TRI_OK)
            status = beside(files[i].path, new, err);
        if (status == TRI_OK)
            status = write_new(new, &files[i], true, err);
        if (status != TRI_OK) {
            remove_new(files, 0, i);
            return status;
        }
    }
    return TRI_OK;
}

tri_status file_write_together(const struct file_whole *files, size_t count, tri_error *err)
{
    char new[PATH_TEXT];
    tri_status status = write_beside(files, count, err);
    for (size_t i = 0; i < count && status == TRI_OK; i++) {
        status = beside(files[i].path, new, err);
        if (status == TRI_OK)
            status = rename_over(new, files[i].path, err);
        if (status != TRI_OK)
            remove_new(files, i, count);
    }
    for (size_t i = 0; i < count && status == TRI_OK; i++)
        status = sync_folder_of(files[i].path, err);
    return status;
}

tri_status file_check_new(const char *path, tri_error *err)
{
    char new[PATH_TEXT], folder[PATH_TEXT];
    tri_status status = refuse_folder(path, err);
    if (status == TRI_OK)
        status = beside(path, new, err);
    if (status == TRI_OK)
        status = folder_of(path, folder, err);
    if (status != TRI_OK)
        return status;
    int fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        bool missing = errno == ENOENT;
        fail_errno(err, TRI_EINPUT, "cannot write '%s'", path);
        fail_next(err,
                  missing ? "make the folder '%s', or give another path"
                          : "give a path in a folder that can be written to, not in '%s'",
                  folder);
        return TRI_EINPUT;
    }
    close(fd);
    (void)unlink(new);
    return TRI_OK;
}

/* ---- locks ---- */

static bool same_file(int fd, const char *path)
{
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

static tri_status held(int fd, const char *path, tri_error *err)
{
    char text[200];
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fail(err, TRI_EINPUT, "'%s' is taken", path);
    fail_why(err, "by %s", text[0] != '\0' ? text : "another process");
    return TRI_EINPUT;
}

/* Who has it is for people only; that it cannot be written down is no reason to fail. */
static void sign(int fd, const char *text)
{
    char host[65] = "", line[200];
    (void)gethostname(host, sizeof host - 1);
    int len = snprintf(line, sizeof line, "%.80s, process %ld on %s\n", text, (long)getpid(), host);
    if (len > 0 && ftruncate(fd, 0) == 0)
        (void)!pwrite(fd, line, (size_t)len, 0);
}

static tri_status take(const char *path, const char *text, int *out, tri_error *err)
{
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            return fail_errno(err, TRI_EINPUT, "cannot create '%s'", path);
        int taken = flock(fd, LOCK_EX | LOCK_NB);
        if (taken < 0 && errno == EWOULDBLOCK) {
            tri_status status = held(fd, path, err);
            close(fd);
            return status;
        }
        /* Who had it may have removed it since it was opened here. */
        if (taken == 0 && !same_file(fd, path)) {
            close(fd);
            continue;
        }
        sign(fd, text);
        *out = fd;
        return TRI_OK;
    }
}

tri_status file_lock(const char *path, const char *text, const struct mem *mem,
                     struct file_lock *out, tri_error *err)
{
    char *copy = mem_text(mem, path, strlen(path));
    int fd = -1;
    if (copy == NULL)
        return fail_nomem(err, "a path");
    tri_status status = take(path, text, &fd, err);
    if (status == TRI_OK)
        *out = (struct file_lock){fd, copy, mem};
    else
        mem_free(mem, copy);
    return status;
}

void file_unlock(struct file_lock *lock)
{
    (void)unlink(lock->path);
    close(lock->fd);
    mem_free(lock->mem, lock->path);
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
