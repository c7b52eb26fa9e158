/* Hostfiles in Open MPI's syntax, lists on the command line, placement by slot. */
#include "cli/run_hosts.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"

void run_hosts_init(struct run_hosts *hosts, const struct mem *mem)
{
    *hosts = (struct run_hosts){.mem = mem};
}

void run_hosts_fini(struct run_hosts *hosts)
{
    mem_free(hosts->mem, hosts->at);
    hosts->at = NULL;
}

/* ---- names and numbers ---- */

/* A piece of text that need not end in NUL. */
struct piece {
    const char *at;
    size_t len;
};

/* What ssh could take for an option, or a shell for more than a name, is none. */
static bool is_name(struct piece name)
{
    static const char harmless[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@:%";
    if (name.len == 0 || name.len >= RUN_HOST_NAME || name.at[0] == '-')
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] == '\0' || strchr(harmless, name.at[i]) == NULL)
            return false;
    return true;
}

static tri_status refuse_name(struct piece name, tri_error *err)
{
    fail(err, TRI_EINPUT, "'%.*s' is not the name of a host", (int)(name.len < 60 ? name.len : 60),
         name.at);
    fail_next(err, "give a name or an address, with letters, digits and . _ - @ : only");
    return TRI_EINPUT;
}

static tri_status read_slots(struct piece text, const char *what, uint32_t *out, tri_error *err)
{
    char copy[24] = "";
    uint64_t value = 0;
    if (text.len < sizeof copy)
        memcpy(copy, text.at, text.len);
    if (copy[0] == '\0' || !units_count(copy, &value) || value < 1 || value > RUN_SLOTS_MAX) {
        fail(err, TRI_EINPUT, "%s cannot be '%.*s'", what, (int)(text.len < 60 ? text.len : 60),
             text.at);
        fail_next(err, "give a whole number from 1 to %d", RUN_SLOTS_MAX);
        return TRI_EINPUT;
    }
    *out = (uint32_t)value;
    return TRI_OK;
}

static tri_status add_host(struct run_hosts *hosts, struct piece name, uint32_t slots,
                           tri_error *err)
{
    if (!is_name(name))
        return refuse_name(name, err);
    for (size_t i = 0; i < hosts->count; i++) {
        struct run_host *host = &hosts->at[i];
        if (strlen(host->name) != name.len || memcmp(host->name, name.at, name.len) != 0)
            continue;
        host->slots = host->slots < RUN_SLOTS_MAX ? host->slots + slots : host->slots;
        return TRI_OK;
    }
    if (hosts->count == RUN_HOSTS_MAX) {
        fail(err, TRI_EINPUT, "there are more than %d hosts", RUN_HOSTS_MAX);
        return TRI_EINPUT;
    }
    void *array = hosts->at;
    if (mem_grow(hosts->mem, &array, &hosts->cap, hosts->count + 1, sizeof *hosts->at) == NULL)
        return fail_nomem(err, "the list of hosts");
    hosts->at = array;
    struct run_host *host = &hosts->at[hosts->count++];
    *host = (struct run_host){.slots = slots};
    memcpy(host->name, name.at, name.len);
    return TRI_OK;
}

/* ---- a file ---- */

static size_t blanks(struct piece text)
{
    size_t len = 0;
    while (len < text.len && (text.at[len] == ' ' || text.at[len] == '\t' || text.at[len] == '\r'))
        len++;
    return len;
}

static struct piece past(struct piece text, size_t len)
{
    return (struct piece){text.at + len, text.len - len};
}

/* Takes the next word off a line: up to a blank or '=', or "=" itself. */
static struct piece next_word(struct piece *line)
{
    *line = past(*line, blanks(*line));
    size_t len = 0;
    while (len < line->len && blanks(past(*line, len)) == 0 && line->at[len] != '=')
        len++;
    if (len == 0 && line->len > 0)
        len = 1; /* "=" */
    struct piece word = {line->at, len};
    *line = past(*line, len);
    return word;
}

static bool is(struct piece word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.at, text, word.len) == 0;
}

/* "slots=2", "slots = 2", and so on to the end of the line. */
static tri_status read_settings(struct piece line, uint32_t *slots, tri_error *err)
{
    uint32_t most = 0;
    for (struct piece word = next_word(&line); word.len > 0; word = next_word(&line)) {
        bool max = is(word, "max_slots") || is(word, "max-slots");
        if (!max && !is(word, "slots")) {
            fail(err, TRI_EINPUT, "'%.*s' is not known", (int)(word.len < 60 ? word.len : 60),
                 word.at);
            fail_next(err, "write: host slots=N");
            return TRI_EINPUT;
        }
        struct piece equals = next_word(&line);
        struct piece value = is(equals, "=") ? next_word(&line) : (struct piece){line.at, 0};
        tri_status status =
            read_slots(value, max ? "max_slots" : "slots", max ? &most : slots, err);
        if (status != TRI_OK)
            return status;
    }
    if (most > 0 && most < *slots) {
        fail(err, TRI_EINPUT, "max_slots=%u is less than slots=%u", (unsigned)most,
             (unsigned)*slots);
        fail_next(err, "make it at least as many");
        return TRI_EINPUT;
    }
    return TRI_OK;
}

static tri_status refuse_nul(tri_error *err)
{
    fail(err, TRI_EINPUT, "there is a NUL byte, which no text has");
    fail_next(err, "write the file as plain text (ASCII or UTF-8), a host in each line");
    return TRI_EINPUT;
}

static tri_status read_line(struct piece line, struct run_hosts *hosts, tri_error *err)
{
    if (line.len > 0 && memchr(line.at, '\0', line.len) != NULL)
        return refuse_nul(err);
    const char *comment = line.len > 0 ? memchr(line.at, '#', line.len) : NULL;
    if (comment != NULL)
        line.len = (size_t)(comment - line.at);
    struct piece name = next_word(&line);
    uint32_t slots = 1;
    if (name.len == 0)
        return TRI_OK;
    tri_status status = read_settings(line, &slots, err);
    return status == TRI_OK ? add_host(hosts, name, slots, err) : status;
}

tri_status run_hosts_parse_file(const char *name, const char *text, size_t len,
                                struct run_hosts *hosts, tri_error *err)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* of UTF-8, as some editors write it */
    struct piece rest = {text, len};
    if (len >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0)
        rest = past(rest, strlen(mark));
    for (unsigned number = 1; rest.len > 0; number++) {
        const char *newline = memchr(rest.at, '\n', rest.len);
        size_t end = newline != NULL ? (size_t)(newline - rest.at) : rest.len;
        tri_status status = read_line((struct piece){rest.at, end}, hosts, err);
        if (status != TRI_OK) {
            fail_where(err, "%.150s:%u", name, number);
            return status;
        }
        rest = past(rest, end < rest.len ? end + 1 : end);
    }
    if (hosts->count > 0)
        return TRI_OK;
    fail(err, TRI_EINPUT, "the file '%.150s' names no host", name);
    fail_next(err, "write a line for each: host slots=N");
    return TRI_EINPUT;
}

/* ---- a list ---- */

static tri_status read_entry(struct piece entry, struct run_hosts *hosts, tri_error *err)
{
    struct piece name = entry, count = {NULL, 0};
    const char *end = NULL;
    if (entry.len > 0 && entry.at[0] == '[') { /* an address of IPv6 */
        end = memchr(entry.at, ']', entry.len);
        if (end == NULL)
            return refuse_name(entry, err);
        name = (struct piece){entry.at + 1, (size_t)(end - entry.at) - 1};
        count = past(entry, name.len + 2);
        if (count.len > 0 && count.at[0] != ':')
            return refuse_name(entry, err);
    } else if (entry.len > 0 && (end = memchr(entry.at, ':', entry.len)) != NULL) {
        name.len = (size_t)(end - entry.at);
        count = past(entry, name.len);
    }
    uint32_t slots = 1;
    tri_status status = TRI_OK;
    if (count.len > 0)
        status = read_slots(past(count, 1), "the number behind a host", &slots, err);
    return status == TRI_OK ? add_host(hosts, name, slots, err) : status;
}

tri_status run_hosts_parse_list(const char *list, struct run_hosts *hosts, tri_error *err)
{
    for (;;) {
        size_t len = strcspn(list, ",");
        tri_status status = read_entry((struct piece){list, len}, hosts, err);
        if (status != TRI_OK) {
            fail_where(err, "--hosts");
            return status;
        }
        if (list[len] == '\0')
            return TRI_OK;
        list += len + 1;
    }
}

/* ---- placement ---- */

tri_status run_hosts_place(const struct run_hosts *hosts, size_t workers, size_t servers,
                           size_t *out, tri_error *err)
{
    size_t slots = 0, placed = 0;
    for (size_t i = 0; i < hosts->count; i++)
        slots += hosts->at[i].slots;
    if (workers > slots) {
        fail(err, TRI_EINPUT, "-n %zu is more than the %zu slot%s of the hosts", workers, slots,
             slots == 1 ? "" : "s");
        fail_next(err, "give more hosts, or more slots: host:N, or slots=N in a file");
        return TRI_EINPUT;
    }
    for (size_t i = 0; i < hosts->count; i++)
        for (uint32_t k = 0; k < hosts->at[i].slots && placed < workers + servers; k++)
            out[placed++] = i;
    for (size_t i = 0; placed < workers + servers && hosts->count > 0; i++)
        out[placed++] = i % hosts->count;
    return TRI_OK;
}
