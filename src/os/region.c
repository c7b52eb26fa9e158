/* Mapped files with names, locks and room. */
#include "os/region.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "os/pages.h"

/* A file's name begins with one of these; the second is of regions that are being made. */
#define NAMED   "trident-local-"
#define UNNAMED "trident-making-"

static tri_status path_of(const char *folder, const char *name, char out[REGION_PATH],
                          tri_error *err)
{
    int len = snprintf(out, REGION_PATH, "%s/%s%s", folder, NAMED, name);
    if (len < 0 || len >= REGION_PATH)
        return fail(err, TRI_EINPUT, "the path of a region in '%s' is too long", folder);
    return TRI_OK;
}

static bool free_bytes(const char *folder, double *out)
{
    struct statvfs room;
    if (statvfs(folder, &room) != 0)
        return false;
    *out = (double)room.f_bavail * (double)room.f_frsize;
    return true;
}

static tri_status no_room(const char *folder, size_t bytes, int reason, tri_error *err)
{
    double left;
    errno = reason;
    fail_errno(err, TRI_EINPUT, "no room for %.0f MB of shared memory in '%s'", (double)bytes / 1e6,
               folder);
    if (reason == ENOSPC && free_bytes(folder, &left))
        fail_why(err, "%.0f MB are free there", left / 1e6);
    fail_next(err, "give a folder with more room, have fewer learners or slots, or make it larger "
                   "(mount -o remount,size=..., docker run --shm-size=...)");
    return TRI_EINPUT;
}

/* Asks first: some file systems would fill up before they refuse. */
static tri_status check_room(const char *folder, size_t bytes, tri_error *err)
{
    double left;
    if (free_bytes(folder, &left) && (double)bytes > left)
        return no_room(folder, bytes, ENOSPC, err);
    return TRI_OK;
}

/* One that cannot set room aside at once is written to, page by page. */
static tri_status set_aside(int fd, const char *folder, size_t bytes, tri_error *err)
{
    int wrong;
    do {
        wrong = posix_fallocate(fd, 0, (off_t)bytes);
    } while (wrong == EINTR);
    return wrong == 0 ? TRI_OK : no_room(folder, bytes, wrong, err);
}

/* Where a large page of the file can be one of the mapping, too: at a multiple of its size. */
static void *map_aligned(int fd, size_t bytes)
{
    const size_t wide = bytes + PAGES_LARGE;
    char *room = mmap(NULL, wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return MAP_FAILED;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), used = (bytes + page - 1) / page * page;
    const size_t skip = (PAGES_LARGE - (uintptr_t)room % PAGES_LARGE) % PAGES_LARGE;
    void *base = mmap(room + skip, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (base == MAP_FAILED) {
        (void)munmap(room, wide);
        return MAP_FAILED;
    }
    if (skip > 0)
        (void)munmap(room, skip);
    if (skip + used < wide)
        (void)munmap(room + skip + used, wide - skip - used);
    return base;
}

/* Large pages, also where the system gives none to shared memory by itself, as most do not: where
 * each has one small page of its own, they can be asked for. Who maps the file later finds them so.
 * A wish: what does not come about is made of small pages, when the room is set aside. */
static void ask_for_large(const struct region *region)
{
#ifndef MADV_COLLAPSE
    enum { MADV_COLLAPSE = 25 }; /* since Linux 6.1 */
#endif
    const size_t whole = region->bytes / PAGES_LARGE * PAGES_LARGE;
    for (size_t at = 0; at < whole; at += PAGES_LARGE)
        if (pwrite(region->fd, "", 1, (off_t)at) != 1)
            return;
    if (whole > 0)
        (void)madvise(region->base, whole, MADV_COLLAPSE);
}

static tri_status map(struct region *region, tri_error *err)
{
    void *base = map_aligned(region->fd, region->bytes);
    if (base == MAP_FAILED)
        return fail_errno(err, TRI_EIO, "cannot map %zu bytes of '%s'", region->bytes,
                          region->path);
    region->base = base;
    pages_be_large(base, region->bytes);
    return TRI_OK;
}

/* Under a name that only this process uses, and locked. */
static int open_unnamed(const char *folder, const char *name, char out[REGION_PATH])
{
    struct stat about;
    for (int i = 0; i < 1000; i++) {
        int len =
            snprintf(out, REGION_PATH, "%s/%s%s.%ld.%d", folder, UNNAMED, name, (long)getpid(), i);
        if (len < 0 || len >= REGION_PATH) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(out, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST)
            continue;
        /* Somebody may have swept it away before the lock was there. */
        if (fd < 0 || (flock(fd, LOCK_SH) == 0 && fstat(fd, &about) == 0 && about.st_nlink > 0))
            return fd;
        close(fd);
    }
    errno = EEXIST;
    return -1;
}

tri_status region_make(const char *folder, const char *name, size_t bytes, struct region *out,
                       tri_error *err)
{
    struct region region = {.bytes = bytes};
    tri_status status = path_of(folder, name, region.named, err);
    if (status != TRI_OK)
        return status;
    region.fd = open_unnamed(folder, name, region.path);
    if (region.fd < 0)
        return fail_errno(err, TRI_EINPUT, "cannot make a file in '%s'", folder);
    status = check_room(folder, bytes, err);
    if (status == TRI_OK && ftruncate(region.fd, (off_t)bytes) != 0)
        status = no_room(folder, bytes, errno, err);
    if (status == TRI_OK)
        status = map(&region, err);
    if (status == TRI_OK) {
        ask_for_large(&region);
        status = set_aside(region.fd, folder, bytes, err);
    }
    if (status != TRI_OK) {
        if (region.base != NULL)
            (void)munmap(region.base, bytes);
        (void)unlink(region.path);
        close(region.fd);
        return status;
    }
    *out = region;
    return TRI_OK;
}

tri_status region_publish(struct region *region, bool *taken, tri_error *err)
{
    *taken = false;
    if (link(region->path, region->named) != 0) {
        *taken = errno == EEXIST;
        return *taken ? TRI_OK
                      : fail_errno(err, TRI_EIO, "cannot name a region '%s'", region->named);
    }
    (void)unlink(region->path);
    memcpy(region->path, region->named, sizeof region->path);
    return TRI_OK;
}

void region_discard(struct region *region)
{
    region_remove(region);
    region_close(region);
}

static tri_status refuse_stranger(const struct region *region, const struct stat *about,
                                  tri_error *err)
{
    if (!S_ISREG(about->st_mode) || about->st_uid != geteuid() ||
        (about->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        fail(err, TRI_EINPUT, "'%s' is not a region of yours", region->path);
        fail_next(err, "choose another name for the job");
        return TRI_EINPUT;
    }
    return TRI_OK;
}

static tri_status open_locked(struct region *region, bool *missing, tri_error *err)
{
    struct stat about = {0};
    region->fd = open(region->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (region->fd < 0) {
        *missing = errno == ENOENT;
        return fail_errno(err, TRI_EINPUT, "cannot open the region '%s'", region->path);
    }
    tri_status status = TRI_OK;
    if (flock(region->fd, LOCK_SH) != 0 || fstat(region->fd, &about) != 0)
        status = fail_errno(err, TRI_EIO, "cannot lock the region '%s'", region->path);
    if (status == TRI_OK && about.st_nlink == 0) { /* swept while we waited for the lock */
        *missing = true;
        status = fail(err, TRI_EINPUT, "the region '%s' is gone", region->path);
    }
    if (status == TRI_OK)
        status = refuse_stranger(region, &about, err);
    if (status != TRI_OK)
        close(region->fd);
    else
        region->bytes = (size_t)about.st_size;
    return status;
}

tri_status region_open(const char *folder, const char *name, struct region *out, bool *missing,
                       tri_error *err)
{
    struct region region = {0};
    *missing = false;
    tri_status status = path_of(folder, name, region.path, err);
    if (status == TRI_OK)
        status = open_locked(&region, missing, err);
    if (status != TRI_OK)
        return status;
    status =
        region.bytes > 0 ? map(&region, err) : fail(err, TRI_EINPUT, "'%s' is empty", region.path);
    if (status != TRI_OK) {
        close(region.fd);
        return status;
    }
    *out = region;
    return TRI_OK;
}

void region_close(struct region *region)
{
    if (region->base != NULL)
        (void)munmap(region->base, region->bytes);
    if (region->base != NULL)
        close(region->fd);
    region->base = NULL;
}

void region_remove(const struct region *region)
{
    (void)unlink(region->path);
}

bool region_sweep(const char *folder, const char *file,
                  bool (*dead)(void *ctx, const void *base, size_t bytes), void *ctx)
{
    char path[REGION_PATH];
    struct stat about;
    bool gone = false;
    int len = snprintf(path, sizeof path, "%s/%s", folder, file);
    if (len < 0 || len >= REGION_PATH)
        return false;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &about) == 0 && about.st_nlink > 0) {
        size_t bytes = (size_t)about.st_size;
        void *base = bytes > 0 ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
        gone = dead(ctx, base != MAP_FAILED ? base : NULL, base != MAP_FAILED ? bytes : 0) &&
               unlink(path) == 0;
        if (base != MAP_FAILED)
            (void)munmap(base, bytes);
    }
    close(fd);
    return gone;
}

static bool is_region(const char *file)
{
    return strncmp(file, NAMED, strlen(NAMED)) == 0 || strncmp(file, UNNAMED, strlen(UNNAMED)) == 0;
}

tri_status region_each(const char *folder, const struct mem *mem,
                       void (*each)(void *ctx, const char *file), void *ctx, tri_error *err)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return fail_errno(err, TRI_EINPUT, "cannot list the folder '%s'", folder);
    struct buf names;
    size_t count = 0;
    buf_init(&names, mem);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL && count < REGION_FILES_MAX;)
        if (is_region(entry->d_name)) {
            buf_add(&names, entry->d_name, strlen(entry->d_name) + 1);
            count++;
        }
    closedir(dir);
    tri_status status = buf_ok(&names) ? TRI_OK : fail_nomem(err, "a list of regions");
    const char *name = names.data;
    for (size_t i = 0; status == TRI_OK && i < count; i++, name += strlen(name) + 1)
        each(ctx, name);
    buf_fini(&names);
    return status;
}
