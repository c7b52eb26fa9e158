/* What --hosts names: a list, a file, or a pipe that somebody writes to. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/units.h"
#include "cli/run_hosts.h"
#include "os/file.h"

enum { MOST_BYTES = 1 << 20 };

static bool ends_in(const char *name, const char *suffix)
{
    size_t len = strlen(name), end = strlen(suffix);
    return len >= end && strcmp(name + len - end, suffix) == 0;
}

/* A hostfile that is missing shall not be called as if it were a host. */
static bool is_named_as_file(const char *given)
{
    static const char *const endings[] = {".txt", ".hosts", ".conf", ".list", "hostfile"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (ends_in(given, endings[i]))
            return true;
    return false;
}

static bool is_file(const char *given)
{
    struct stat info;
    if (strchr(given, '/') != NULL)
        return true;
    if (strpbrk(given, ",:") != NULL)
        return false;
    return is_named_as_file(given) || (stat(given, &info) == 0 && !S_ISDIR(info.st_mode));
}

/* ---- a pipe ---- */

static bool is_pipe(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISFIFO(info.st_mode);
}

/* Whoever shall write to a pipe with a name may not have opened it yet; to one of a shell, as
 * <(command) makes them, nobody comes later. */
static bool somebody_may_come(int fd)
{
    struct statfs info;
    return fstatfs(fd, &info) == 0 && info.f_type != PIPEFS_MAGIC;
}

static tri_status silent(const char *path, int limit_ms, tri_error *err)
{
    char text[UNITS_TEXT];
    fail(err, TRI_EINPUT, "nobody has written to the pipe '%.150s' for %s", path,
         units_show_time(limit_ms * 1e-3, text));
    fail_next(err, "write to it a host in each line, or name a file, or hosts: h1:2,h2");
    return TRI_EINPUT;
}

static tri_status read_pipe(int fd, const char *path, int limit_ms, struct buf *out, tri_error *err)
{
    bool waits = somebody_may_come(fd); /* an empty pipe is not its end */
    for (;;) {
        char block[4096];
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        ssize_t got = read(fd, block, sizeof block);
        if (got == 0 && !waits)
            return buf_ok(out) ? TRI_OK : fail_nomem(err, "the hosts");
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return fail_errno(err, TRI_EINPUT, "cannot read '%.150s'", path);
        if (got > 0) {
            waits = false;
            buf_add(out, block, (size_t)got);
        }
        if (out->len > MOST_BYTES)
            return fail(err, TRI_EINPUT, "'%.150s' is longer than %d bytes", path, MOST_BYTES);
        if (got > 0)
            continue;
        int count = poll(&ready, 1, limit_ms);
        if (count == 0)
            return silent(path, limit_ms, err);
        waits = waits && (ready.revents & POLLHUP) == 0;
    }
}

/* Opening a pipe waits for its writer, and for ever, unless told not to. */
static tri_status open_pipe(const char *path, int limit_ms, struct buf *out, tri_error *err)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, TRI_EINPUT, "cannot open '%.150s'", path);
    tri_status status = read_pipe(fd, path, limit_ms, out, err);
    close(fd);
    return status;
}

/* ---- either ---- */

tri_status run_hosts_read(const char *given, int limit_ms, struct run_hosts *hosts, tri_error *err)
{
    struct buf text;
    if (!is_file(given))
        return run_hosts_parse_list(given, hosts, err);
    buf_init(&text, hosts->mem);
    tri_status status = is_pipe(given) ? open_pipe(given, limit_ms, &text, err)
                                       : file_read(given, MOST_BYTES, &text, err);
    if (status == TRI_OK)
        status = run_hosts_parse_file(given, buf_string(&text), text.len, hosts, err);
    else if (err != NULL && err->next[0] == '\0')
        fail_next(err, "name a file with a host in each line, or hosts: h1:2,h2");
    buf_fini(&text);
    return status;
}
