/* How failures are told: who is where, and the next step. */
#include <stdio.h>
#include <string.h>

#include "run/inside.h"

/* ---- names ---- */

struct host_name host_name(const struct host *host, uint32_t node)
{
    struct host_name name;
    uint32_t workers = host->options.workers;
    if (node < workers)
        (void)snprintf(name.text, sizeof name.text, "rank %u", (unsigned)node);
    else
        (void)snprintf(name.text, sizeof name.text, "server %u",
                       (unsigned)(node - workers + host->options.colocated));
    return name;
}

const char *host_address(const struct host *host, uint32_t node)
{
    const struct peer *peer = &host->peers[node];
    if (node == host->options.node)
        return host->transport != NULL ? host->transport_ops->address(host->transport) : "";
    if (peer->address[0] != '\0')
        return peer->address;
    return node == 0 ? host->options.coordinator : peer->seen;
}

struct host_place host_place(const struct host *host, uint32_t node)
{
    struct host_place place;
    const char *address = host_address(host, node);
    (void)snprintf(place.text, sizeof place.text, "%s%s%.100s", host_name(host, node).text,
                   address[0] != '\0' ? " at " : "", address);
    return place;
}

/* ---- who a text is about ---- */

static uint32_t node_of_server(const struct host *host, uint32_t server)
{
    const struct host_options *options = &host->options;
    if (server >= options->servers)
        return UINT32_MAX;
    if (host->agreement != NULL)
        return host->agreement->layout->server_node[server];
    return server < options->colocated ? server : options->workers + server - options->colocated;
}

/* The node that "rank 3", "workers 3", "server 1" or "node 4" is; UINT32_MAX: none. */
static uint32_t node_named(const struct host *host, const char *word, size_t len, uint32_t number)
{
    static const char *const words[] = {"rank", "worker", "node", "server"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t own = strlen(words[i]);
        if (strncmp(word, words[i], own) != 0 || len > own + 1 || (len > own && word[own] != 's'))
            continue;
        uint32_t node = i == 3 ? node_of_server(host, number) : number;
        return node < (i < 2 ? host->options.workers : host->nodes) ? node : UINT32_MAX;
    }
    return UINT32_MAX;
}

/* Reads a number of a list, "5, 7"; false behind the last. */
static bool next_number(const char **at, uint32_t *number)
{
    const char *from = *at;
    if (from[0] == ',')
        from++;
    if (from[0] != ' ' || from[1] < '0' || from[1] > '9')
        return false;
    *number = 0;
    for (from++; *from >= '0' && *from <= '9'; from++)
        *number = *number < 100000 ? *number * 10 + (uint32_t)(*from - '0') : *number;
    *at = from;
    return true;
}

/* The first `most` other nodes that a text names, each once; how many. */
static size_t find_named(const struct host *host, const char *text, uint32_t *nodes, size_t most)
{
    size_t count = 0;
    for (const char *at = text; *at != '\0';) {
        size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz");
        const char *word = at;
        uint32_t number;
        at += len > 0 ? len : 1;
        while (len > 0 && next_number(&at, &number)) {
            uint32_t node = node_named(host, word, len, number);
            bool known = node == UINT32_MAX || node == host->options.node;
            for (size_t i = 0; i < count; i++)
                known = known || nodes[i] == node;
            if (!known && count < most)
                nodes[count++] = node;
        }
    }
    return count;
}

void host_places(const struct host *host, const char *text, size_t most, char *out, size_t size)
{
    uint32_t nodes[4];
    size_t count = find_named(host, text, nodes, most < 4 ? most : 4), used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        const char *address = host_address(host, nodes[i]);
        if (address[0] == '\0' || strstr(text, address) != NULL)
            continue;
        int len = snprintf(out + used, size - used, "%s%s is at %.100s", used > 0 ? ", " : "",
                           host_name(host, nodes[i]).text, address);
        used += len > 0 ? (size_t)len : 0;
    }
}

/* Of the first node in the text whose connection broke: how. */
static void explain_break(struct host *host)
{
    uint32_t nodes[4];
    size_t count = find_named(host, host->err.text, nodes, 4);
    for (size_t i = 0; i < count; i++)
        if (host->peers[nodes[i]].why[0] != '\0') {
            fail_why(&host->err, "the connection to %s broke: %s", host_name(host, nodes[i]).text,
                     host->peers[nodes[i]].why);
            return;
        }
}

/* ---- the next step ---- */

static const char *next_step(const struct host *host, tri_status status)
{
    bool running = host->has_core && host->core.member.started;
    switch (status) {
    case TRI_EPEER:
        return running ? "see why it is gone (its log, dmesg), and start the job again; with "
                         "TRIDENT_CHECKPOINT and TRIDENT_RESUME it goes on where it was saved"
                       : "see what that process printed, and start the job again";
    case TRI_EEVICTED:
        return "see what kept this process from answering: stopped, swapping, cut off; the others "
               "go on without it";
    case TRI_EMISMATCH:
        return "start all processes with the same program, options and environment";
    case TRI_ETIMEOUT:
        return "see whether they run and can be reached; TRIDENT_TIMEOUT_MS makes it wait longer";
    case TRI_ENOMEM:
        return "free some memory or raise the limit (ulimit -v), then start the job again";
    case TRI_EIO:
        return "see what the operating system says (dmesg), then start the job again";
    default:
        return "";
    }
}

/* The causes that are known come first: a report may have its own. */
static void complete(struct host *host)
{
    char places[sizeof host->err.where];
    if (host->err.where[0] == '\0') {
        host_places(host, host->err.text, 1, places, sizeof places); /* the culprit comes first */
        fail_where(&host->err, "%s", places);
    }
    if (host->err.why[0] == '\0' && host->err.status == TRI_EPEER)
        explain_break(host);
    if (host->err.next[0] == '\0')
        fail_next(&host->err, "%s", next_step(host, host->err.status));
}

void host_fail_as(struct host *host, const tri_error *err)
{
    if (host->status == TRI_OK) {
        host->status = err->status;
        host->err = *err;
        complete(host);
        flight_note(host->flight, (struct flight_event){.kind = FLIGHT_FAILURE,
                                                        .what = (uint8_t)-err->status,
                                                        .node = FLIGHT_NONE,
                                                        .layer = FLIGHT_NONE,
                                                        .text = err->text});
        log_write(&host->log, LOG_ERROR, "%s%s%s", err->text,
                  host->err.where[0] != '\0' ? "; " : "", host->err.where);
    }
    pthread_cond_broadcast(&host->changed);
}

void host_fail(struct host *host, tri_status status, const char *text)
{
    tri_error err = {0};
    fail(&err, status, "%s", text);
    host_fail_as(host, &err);
}

tri_status host_tell(struct host *host, tri_error *err)
{
    flight_write(host, &host->err);
    if (err != NULL)
        *err = host->err;
    return host->status;
}
