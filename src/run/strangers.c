/* A table of hosts and kinds. */
#include "run/strangers.h"

#include <stdio.h>
#include <string.h>

/* "10.0.0.7" of "10.0.0.7:4711": the port is another one every time. */
static void host_of(const char *address, char out[STRANGERS_HOST])
{
    const char *port = strrchr(address, ':');
    size_t len = port != NULL ? (size_t)(port - address) : strlen(address);
    (void)snprintf(out, STRANGERS_HOST, "%.*s", len < STRANGERS_HOST ? (int)len : STRANGERS_HOST,
                   address);
}

static void kind_of(const char *what, char out[STRANGERS_KIND])
{
    size_t len = strcspn(what, ":'0123456789");
    (void)snprintf(out, STRANGERS_KIND, "%.*s", len < STRANGERS_KIND ? (int)len : STRANGERS_KIND,
                   what);
}

static struct stranger *row_of(struct strangers *strangers, const char *host, const char *kind)
{
    for (size_t i = 0; i < strangers->used; i++) {
        struct stranger *row = &strangers->rows[i];
        if (strcmp(row->host, host) == 0 && strcmp(row->kind, kind) == 0)
            return row;
    }
    if (strangers->used == STRANGERS_MOST)
        return &strangers->rows[STRANGERS_MOST];
    struct stranger *row = &strangers->rows[strangers->used++];
    memcpy(row->host, host, STRANGERS_HOST);
    memcpy(row->kind, kind, STRANGERS_KIND);
    return row;
}

uint64_t strangers_note(struct strangers *strangers, const char *address, const char *what)
{
    char host[STRANGERS_HOST] = "", kind[STRANGERS_KIND] = "";
    host_of(address, host);
    kind_of(what, kind);
    struct stranger *row = row_of(strangers, host, kind);
    (void)snprintf(strangers->last, sizeof strangers->last, "%.79s: %s", address, what);
    row->count++;
    if (row->count < row->next)
        return 0;
    row->next = row->count * STRANGERS_FACTOR;
    return row->count;
}
