/* A folder of checkpoints: whose it is, which it holds, which go. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "checkpoint/inside.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/stream.h"

static const char name_start[] = "clock-", name_end[] = ".safetensors",
                  lock_name[] = ".trident-lock";

void checkpoint_name(uint64_t clock, char out[CHECKPOINT_NAME])
{
    (void)snprintf(out, CHECKPOINT_NAME, "%s%012llu%s", name_start, (unsigned long long)clock,
                   name_end);
}

bool checkpoint_clock_of(const char *name, uint64_t *clock)
{
    char digits[24], again[CHECKPOINT_NAME];
    size_t start = strlen(name_start), len = strlen(name), end = strlen(name_end);
    if (len < start + end || len - start - end >= sizeof digits)
        return false;
    (void)snprintf(digits, sizeof digits, "%.*s", (int)(len - start - end), name + start);
    if (!units_count(digits, clock))
        return false;
    checkpoint_name(*clock, again);
    return strcmp(name, again) == 0;
}

/* ---- whose it is ---- */

/* Makes it, and a file in it that is gone again. */
tri_status checkpoint_check_folder(const char *folder, tri_error *err)
{
    char path[STREAM_PATH];
    struct stream_out out;
    tri_error reason = {0};
    tri_status status = file_make_folder(folder, err);
    if (status != TRI_OK) {
        fail_next(err, "give a folder for checkpoints whose parent exists and can be written to");
        return status;
    }
    int used = snprintf(path, sizeof path, "%s/%s.check", folder, name_start);
    if (used < 0 || (size_t)used >= sizeof path)
        return fail(err, TRI_EINPUT, "the path '%.100s...' is too long", folder);
    status = stream_out_open(path, &out, &reason);
    if (status == TRI_OK) {
        stream_out_drop(&out);
        return TRI_OK;
    }
    status = out.full ? TRI_EIO : TRI_EINPUT;
    fail(err, status, "checkpoints cannot be written to '%.200s'", folder);
    fail_why(err, "%s", reason.why);
    fail_next(err, "give a folder that can be written to");
    return status;
}

struct checkpoint_claim {
    const struct mem *mem;
    struct file_lock lock;
};

static tri_status refuse_used(const char *folder, const struct mem *mem, tri_error *err)
{
    struct checkpoint_entry *entries = NULL;
    size_t count = 0;
    tri_status status = checkpoint_list(folder, mem, &entries, &count, err);
    if (status == TRI_OK && count > 0) {
        status = fail(err, TRI_EINPUT, "the folder '%.150s' holds the checkpoints of a job before",
                      folder);
        fail_why(err, "its newest is %s; those of a job that begins anew would be mixed with them",
                 entries[0].name);
        fail_next(err, "resume from it (--resume, TRIDENT_RESUME=1), give another folder, or "
                       "empty this one");
    }
    mem_free(mem, entries);
    return status;
}

/* A process that was killed lets go when the system has taken it apart, which may be a moment after
 * the next one is started. */
enum { LOCK_TRIES = 40, LOCK_PAUSE_US = 50000 };

static tri_status lock_patiently(const char *path, const char *who, struct checkpoint_claim *claim,
                                 tri_error *err)
{
    tri_status status = file_lock(path, who, claim->mem, &claim->lock, err);
    for (int i = 1; status == TRI_EINPUT && i < LOCK_TRIES; i++) {
        clock_sleep_us(LOCK_PAUSE_US);
        status = file_lock(path, who, claim->mem, &claim->lock, err);
    }
    return status;
}

static tri_status take_lock(const char *folder, const char *job, struct checkpoint_claim *claim,
                            tri_error *err)
{
    char who[160];
    struct buf path;
    buf_init(&path, claim->mem);
    buf_format(&path, "%s/%s", folder, lock_name);
    (void)snprintf(who, sizeof who, "job '%.60s'", job);
    tri_status status = buf_ok(&path) ? lock_patiently(buf_string(&path), who, claim, err)
                                      : fail_nomem(err, "a path");
    if (status == TRI_EINPUT && err != NULL) {
        tri_error found = *err;
        fail(err, TRI_EINPUT, "the folder of checkpoints '%.150s' is in use", folder);
        fail_why(err, "%s", found.why);
        fail_where(err, "%s", buf_string(&path));
        fail_next(err, "wait until that job ends, or give this one another folder");
    }
    buf_fini(&path);
    return status;
}

tri_status checkpoint_claim(const char *folder, const char *job, bool resume, const struct mem *mem,
                            struct checkpoint_claim **out, tri_error *err)
{
    tri_status status = checkpoint_check_folder(folder, err);
    if (status != TRI_OK)
        return status;
    struct checkpoint_claim *claim = mem_array(mem, 1, sizeof *claim);
    if (claim == NULL)
        return fail_nomem(err, "a folder of checkpoints");
    claim->mem = mem;
    status = take_lock(folder, job, claim, err);
    if (status != TRI_OK) {
        mem_free(mem, claim);
        return status;
    }
    if (!resume)
        status = refuse_used(folder, mem, err);
    if (status == TRI_OK)
        *out = claim;
    else
        checkpoint_release(claim);
    return status;
}

void checkpoint_release(struct checkpoint_claim *claim)
{
    if (claim == NULL)
        return;
    file_unlock(&claim->lock);
    mem_free(claim->mem, claim);
}

/* ---- what it holds ---- */

struct listing {
    const char *folder;
    const struct mem *mem;
    struct checkpoint_entry *entries;
    size_t cap, count;
    tri_error *err;
};

static tri_status look(struct listing *listing, const char *name, struct file_facts *facts)
{
    struct buf path;
    buf_init(&path, listing->mem);
    buf_format(&path, "%s/%s", listing->folder, name);
    tri_status status = buf_ok(&path) ? file_look(buf_string(&path), facts, listing->err)
                                      : fail_nomem(listing->err, "a path");
    buf_fini(&path);
    return status;
}

static tri_status add_entry(void *ctx, const char *name)
{
    struct listing *listing = ctx;
    struct file_facts facts = {.kind = FILE_NONE};
    uint64_t clock;
    if (!checkpoint_clock_of(name, &clock))
        return TRI_OK;
    tri_status status = look(listing, name, &facts);
    if (status != TRI_OK || facts.kind != FILE_PLAIN)
        return status;
    void *entries = listing->entries;
    if (mem_grow(listing->mem, &entries, &listing->cap, listing->count + 1,
                 sizeof *listing->entries) == NULL)
        return fail_nomem(listing->err, "a list of checkpoints");
    listing->entries = entries;
    struct checkpoint_entry *entry = &listing->entries[listing->count++];
    *entry = (struct checkpoint_entry){
        .clock = clock, .bytes = facts.bytes, .written_s = facts.written_s};
    (void)snprintf(entry->name, sizeof entry->name, "%s", name);
    return TRI_OK;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = ((const struct checkpoint_entry *)a)->clock;
    uint64_t y = ((const struct checkpoint_entry *)b)->clock;
    return x < y ? 1 : x > y ? -1 : 0;
}

tri_status checkpoint_list(const char *folder, const struct mem *mem, struct checkpoint_entry **out,
                           size_t *count, tri_error *err)
{
    struct listing listing = {.folder = folder, .mem = mem, .err = err};
    tri_status status = file_each(folder, name_end, mem, add_entry, &listing, err);
    if (status != TRI_OK) {
        mem_free(mem, listing.entries);
        return status;
    }
    if (listing.count > 0)
        qsort(listing.entries, listing.count, sizeof *listing.entries, newest_first);
    *out = listing.entries;
    *count = listing.count;
    return TRI_OK;
}

/* ---- the newest ---- */

struct search {
    const char *folder;
    const struct mem *mem;
    void (*skipped)(void *ctx, const tri_error *why);
    void *ctx;
};

static tri_status all_damaged(const char *folder, size_t count, tri_error *err)
{
    fail(err, TRI_EINPUT, "no checkpoint in '%.150s' can be used", folder);
    fail_why(err, "all %zu are damaged", count);
    fail_next(err,
              "trident checkpoint verify %.100s tells what is wrong with each; to begin anew, "
              "give another folder",
              folder);
    return TRI_EINPUT;
}

static tri_status read_first(const struct search *search, const struct checkpoint_entry *entries,
                             size_t count, struct checkpoint **out, tri_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct buf path;
        tri_error why = {0};
        buf_init(&path, search->mem);
        buf_format(&path, "%s/%s", search->folder, entries[i].name);
        tri_status status = buf_ok(&path)
                                ? checkpoint_read(buf_string(&path), search->mem, out, &why)
                                : fail_nomem(&why, "a path");
        buf_fini(&path);
        if (status != TRI_EINPUT) {
            if (status != TRI_OK && err != NULL)
                *err = why;
            return status;
        }
        if (search->skipped != NULL)
            search->skipped(search->ctx, &why);
    }
    return count > 0 ? all_damaged(search->folder, count, err) : TRI_OK;
}

tri_status checkpoint_newest(const char *folder, const struct mem *mem,
                             void (*skipped)(void *ctx, const tri_error *why), void *ctx,
                             struct checkpoint **out, tri_error *err)
{
    const struct search search = {folder, mem, skipped, ctx};
    struct checkpoint_entry *entries = NULL;
    struct file_facts facts;
    size_t count = 0;
    *out = NULL;
    tri_status status = file_look(folder, &facts, err);
    if (status != TRI_OK || facts.kind == FILE_NONE)
        return status;
    status = checkpoint_list(folder, mem, &entries, &count, err);
    if (status == TRI_OK)
        status = read_first(&search, entries, count, out, err);
    mem_free(mem, entries);
    return status;
}

/* ---- which go ---- */

struct pruning {
    const char *folder;
    const struct mem *mem;
    tri_error *err;
    bool changed;
};

static tri_status remove_left(void *ctx, const char *name)
{
    struct pruning *pruning = ctx;
    struct buf path;
    if (strncmp(name + 1, name_start, strlen(name_start)) != 0)
        return TRI_OK; /* not of ours */
    buf_init(&path, pruning->mem);
    buf_format(&path, "%s/%s", pruning->folder, name);
    tri_status status = buf_ok(&path) ? stream_remove_left(buf_string(&path), pruning->err)
                                      : fail_nomem(pruning->err, "a path");
    buf_fini(&path);
    return status;
}

/* Counts a whole one, and removes it if there are enough. */
static tri_status judge(struct pruning *pruning, const char *name, uint32_t keep, uint32_t *whole)
{
    struct buf path;
    buf_init(&path, pruning->mem);
    buf_format(&path, "%s/%s", pruning->folder, name);
    tri_status status = buf_ok(&path)
                            ? checkpoint_verify(buf_string(&path), pruning->mem, pruning->err)
                            : fail_nomem(pruning->err, "a path");
    if (status == TRI_OK && ++*whole > keep) {
        status = file_remove(buf_string(&path), pruning->err);
        pruning->changed = true;
    }
    buf_fini(&path);
    return status == TRI_EINPUT ? TRI_OK : status;
}

tri_status checkpoint_prune(const char *folder, uint32_t keep, const struct mem *mem,
                            tri_error *err)
{
    struct pruning pruning = {.folder = folder, .mem = mem};
    tri_error found = {0}; /* damaged ones are told there too, and are no failure */
    struct checkpoint_entry *entries = NULL;
    size_t count = 0;
    uint32_t whole = 0;
    pruning.err = &found;
    if (keep == 0)
        keep = 1;
    tri_status status = file_each_hidden(folder, ".tmp", mem, remove_left, &pruning, &found);
    if (status == TRI_OK)
        status = checkpoint_list(folder, mem, &entries, &count, &found);
    for (size_t i = 0; i < count && count > keep && status == TRI_OK; i++)
        status = judge(&pruning, entries[i].name, keep, &whole);
    if (status == TRI_OK && pruning.changed)
        status = file_sync_folder(folder, &found);
    mem_free(mem, entries);
    if (status != TRI_OK && err != NULL)
        *err = found;
    return status;
}
