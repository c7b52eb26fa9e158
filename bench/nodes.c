/* Entering namespaces, and measuring what joins them. */
#include "bench/nodes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 256 << 10, PIECES = 128, WARM_UP = 16, ATTEMPTS = 200 };

/* "a b" */
static bool split(const char *variable, char out[NODES_MAX][NODES_TEXT])
{
    const char *text = getenv(variable);
    for (size_t i = 0; i < NODES_MAX; i++) {
        size_t len = text != NULL ? strcspn(text, " ") : 0;
        if (len == 0 || len >= NODES_TEXT)
            return false;
        memcpy(out[i], text, len);
        out[i][len] = '\0';
        text += len + (text[len] == ' ');
    }
    return true;
}

bool nodes_find(struct nodes *out)
{
    return split("TRIDENT_NODES", out->names) && split("TRIDENT_ADDRESSES", out->addresses);
}

tri_status nodes_enter(const struct nodes *nodes, uint32_t node, tri_error *err)
{
    char path[NODES_TEXT + 16];
    (void)snprintf(path, sizeof path, "/run/netns/%s", nodes->names[node]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && setns(fd, CLONE_NEWNET) == 0) {
        (void)close(fd);
        return TRI_OK;
    }
    tri_status status = fail_errno(err, TRI_EIO, "cannot enter the node '%s'", path);
    fail_next(err, "run it under  tools/netns run 2 --rate 1gbit --");
    if (fd >= 0)
        (void)close(fd);
    return status;
}

/* ---- the link ---- */

static void name_of(const struct nodes_link *link, struct sockaddr_in *name)
{
    *name = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(link->port)};
    (void)inet_pton(AF_INET, link->nodes->addresses[0], &name->sin_addr);
}

static int await(const struct nodes_link *link)
{
    struct sockaddr_in name;
    int on = 1, fd = -1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return -1;
    name_of(link, &name);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&name, sizeof name) == 0 && listen(listener, 1) == 0)
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    (void)close(listener);
    return fd;
}

static int call(const struct nodes_link *link)
{
    struct sockaddr_in name;
    struct timespec moment = {.tv_nsec = 10000000};
    name_of(link, &name);
    for (int i = 0; i < ATTEMPTS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return -1;
        if (connect(fd, (struct sockaddr *)&name, sizeof name) == 0)
            return fd;
        (void)close(fd);
        (void)nanosleep(&moment, NULL);
    }
    return -1;
}

static void *send_pieces(void *ctx)
{
    static const char piece[PIECE];
    int fd = *(const int *)ctx;
    for (int i = 0; i < PIECES; i++)
        for (size_t at = 0; at < PIECE;) {
            ssize_t n = send(fd, piece + at, PIECE - at, MSG_NOSIGNAL);
            if (n <= 0)
                return NULL;
            at += (size_t)n;
        }
    return NULL;
}

tri_status nodes_link_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err)
{
    const struct nodes_link *link = ctx;
    pthread_t sender;
    double start = 0;
    bool ok = true;
    char *piece = malloc(PIECE);
    tri_status status = nodes_enter(link->nodes, number, err);
    int fd = status != TRI_OK ? -1 : number == 0 ? await(link) : call(link);
    if (piece == NULL || fd < 0 || pthread_create(&sender, NULL, send_pieces, &fd) != 0) {
        free(piece);
        return status != TRI_OK ? status : fail_errno(err, TRI_EIO, "cannot measure the link");
    }
    for (int i = 0; i < PIECES && ok; i++) {
        if (i == WARM_UP)
            start = crew_now_s();
        ok = recv(fd, piece, PIECE, MSG_WAITALL) == PIECE;
    }
    if (number == 0)
        board->numbers[0] = (PIECES - WARM_UP) * (double)PIECE / (crew_now_s() - start);
    (void)pthread_join(sender, NULL);
    (void)close(fd);
    free(piece);
    return ok ? TRI_OK : fail(err, TRI_EIO, "the link broke while it was measured");
}
