/* A parameter server of plain blocking sockets. */
#include "bench/ps_plain.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#define PIECE_BYTES  ((size_t)256 << 10)
#define PIECE_FLOATS (PIECE_BYTES / sizeof(float))
enum { PIECES = PS_MODEL_BYTES / PIECE_BYTES };

float ps_gradient(uint32_t rank)
{
    return rank == 0 ? 1 : 3;
}

static void tune(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

static bool send_all(int fd, const void *from, size_t bytes)
{
    const char *at = from;
    while (bytes > 0) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool receive_all(int fd, void *to, size_t bytes)
{
    return recv(fd, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

/* ---- the server ---- */

struct server {
    float *weights;
    pthread_mutex_t locks[PIECES]; /* of the weights, by piece */
    struct visit {
        struct server *server;
        pthread_t thread;
        int fd;
        float *gradient;
    } visits[PS_WORKERS];
};

/* restrict: else gcc -O2 makes no vector code of it. */
static void step(float *restrict weights, const float *restrict gradient)
{
    for (size_t i = 0; i < PIECE_FLOATS; i += 16)
        for (size_t k = i; k < i + 16; k++)
            weights[k] -= PS_LR * gradient[k];
}

/* A worker says which piece is its first; all others follow, round and round, with nothing between
 * them: a header of a few bytes would leave the kernel with copies that are not aligned, which cost
 * several times as much on some processors. */
static void *serve(void *ctx)
{
    struct visit *visit = ctx;
    uint32_t number;
    if (!receive_all(visit->fd, &number, sizeof number) || number >= PIECES)
        return NULL;
    for (; receive_all(visit->fd, visit->gradient, PIECE_BYTES); number = (number + 1) % PIECES) {
        float *weights = visit->server->weights + number * PIECE_FLOATS;
        pthread_mutex_lock(&visit->server->locks[number]);
        step(weights, visit->gradient);
        bool sent = send_all(visit->fd, weights, PIECE_BYTES);
        pthread_mutex_unlock(&visit->server->locks[number]);
        if (!sent)
            break;
    }
    return NULL;
}

static int listen_here(struct crew_board *board)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    tune(fd);
    if (bind(fd, (struct sockaddr *)&name, len) != 0 || listen(fd, PS_WORKERS) != 0 ||
        getsockname(fd, (struct sockaddr *)&name, &len) != 0) {
        (void)close(fd);
        return -1;
    }
    atomic_store(&board->ports[0], ntohs(name.sin_port));
    return fd;
}

static bool accept_all(struct server *server, int listener)
{
    for (uint32_t i = 0; i < PS_WORKERS; i++) {
        struct visit *visit = &server->visits[i];
        visit->server = server;
        visit->gradient = crew_floats(PIECE_FLOATS);
        visit->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (visit->fd < 0 || visit->gradient == NULL)
            return false;
        tune(visit->fd);
        if (pthread_create(&visit->thread, NULL, serve, visit) != 0)
            return false;
    }
    return true;
}

/* The sum of all weights, from how many pieces each worker has pushed. */
static bool is_right(const struct server *server, uint64_t pushed[PS_WORKERS])
{
    const size_t floats = PIECE_FLOATS;
    const double piece = (double)floats;
    double sum = 0, wanted = 0;
    for (uint32_t r = 0; r < PS_WORKERS; r++)
        wanted -= (double)PS_LR * (double)ps_gradient(r) * (double)pushed[r] * piece;
    for (size_t i = 0; i < PS_MODEL_FLOATS; i++)
        sum += (double)server->weights[i];
    return sum == wanted;
}

static tri_status run_server(struct server *server, struct crew_board *board, tri_error *err)
{
    int listener = listen_here(board);
    if (listener < 0 || !accept_all(server, listener))
        return fail_errno(err, TRI_EIO, "cannot serve at a socket");
    for (uint32_t i = 0; i < PS_WORKERS; i++)
        (void)pthread_join(server->visits[i].thread, NULL);
    uint64_t pushed[PS_WORKERS];
    for (uint32_t r = 0; r < PS_WORKERS; r++)
        pushed[r] = atomic_load(&board->work[r]) / (2 * PIECE_BYTES);
    if (!is_right(server, pushed))
        return fail(err, TRI_EIO, "the baseline's weights are wrong, so its speed means nothing");
    return TRI_OK;
}

/* ---- a worker ---- */

static int visit_server(struct crew_board *board)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timespec moment = {.tv_nsec = 1000000};
    while (atomic_load(&board->ports[0]) == 0)
        (void)nanosleep(&moment, NULL);
    name.sin_port = htons((uint16_t)atomic_load(&board->ports[0]));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    tune(fd);
    if (connect(fd, (struct sockaddr *)&name, sizeof name) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

struct worker {
    float *weights, *gradient;
    int fd;
};

static bool exchange(const struct worker *worker, uint32_t number)
{
    const size_t at = number * PIECE_FLOATS;
    return send_all(worker->fd, worker->gradient + at, PIECE_BYTES) &&
           receive_all(worker->fd, worker->weights + at, PIECE_BYTES);
}

/* Workers begin at different ends, so that they seldom meet at a piece. */
static tri_status run_worker(const struct worker *worker, uint32_t rank, double seconds,
                             struct crew_board *board, tri_error *err)
{
    struct crew_watch watch = {0};
    const uint32_t first = rank * PIECES / PS_WORKERS;
    if (!send_all(worker->fd, &first, sizeof first))
        return fail_errno(err, TRI_EIO, "the baseline's connection broke");
    for (uint64_t pass = 0; atomic_load(&board->stop) == 0; pass++) {
        if (rank == 0 && pass == 1)
            crew_watch_start(&watch, board, PS_PROCESSES);
        for (uint32_t i = 0; i < PIECES && atomic_load(&board->stop) == 0; i++) {
            if (!exchange(worker, (i + first) % PIECES))
                return fail_errno(err, TRI_EIO, "the baseline's connection broke");
            atomic_fetch_add(&board->work[rank], 2 * PIECE_BYTES);
            if (rank == 0 && pass > 0 && crew_watch_seconds(&watch) >= seconds) {
                crew_watch_stop(&watch);
                atomic_store(&board->stop, 1);
            }
        }
    }
    return TRI_OK;
}

static tri_status be_worker(uint32_t rank, double seconds, struct crew_board *board, tri_error *err)
{
    struct worker worker = {.weights = crew_floats(PS_MODEL_FLOATS),
                            .gradient = crew_floats(PS_MODEL_FLOATS),
                            .fd = visit_server(board)};
    if (worker.weights == NULL || worker.gradient == NULL)
        return fail_nomem(err, "the model");
    if (worker.fd < 0)
        return fail_errno(err, TRI_EIO, "cannot reach the baseline's server");
    for (size_t i = 0; i < PS_MODEL_FLOATS; i++)
        worker.gradient[i] = ps_gradient(rank);
    tri_status status = run_worker(&worker, rank, seconds, board, err);
    (void)close(worker.fd);
    return status;
}

tri_status ps_plain_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err)
{
    const struct ps_plain *plain = ctx;
    if (number < PS_WORKERS)
        return be_worker(number, plain->seconds, board, err);
    struct server *server = mem_array(&mem_libc, 1, sizeof *server);
    float *weights = crew_floats(PS_MODEL_FLOATS);
    tri_status status = TRI_OK;
    if (server == NULL || weights == NULL) {
        status = fail_nomem(err, "the model");
    } else {
        server->weights = weights;
        for (size_t i = 0; i < PIECES; i++)
            (void)pthread_mutex_init(&server->locks[i], NULL);
        status = run_server(server, board, err);
    }
    mem_free(&mem_libc, server);
    return status;
}
