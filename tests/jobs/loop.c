/* A rank of a job for the tests beside it: three layers, made-up gradients, and a line
 * "rank R pid P clock C" after every iteration. Its last line is JSON.
 *
 *     --clocks N       iterations [20]
 *     --hold C FILE    before iteration C, wait until there is such a file; up to four times
 *     --late           pause between the last update and tri_clock: what is kept is then not final
 *                      before servers have all updates
 *     --fc             all layers are fully connected, for schemes that want factors
 *     --odd R WHAT     rank R is not like the others: it has other `layers`, another `name` of one,
 *                      another `lr`, another `optimizer`, another `consistency`; it leaves before
 *                      the last iteration by `exit`, without tri_close, or by `close` */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trident/trident.h"

enum { LAYERS = 3, MOST = 64, ALL = MOST * MOST, ROWS = 4, HOLDS = 4, HOLD_S = 60 };

static const struct {
    const char *name;
    tri_kind kind;
    uint32_t rows, cols, factor_rows;
} shapes[LAYERS] = {
    {"conv", TRI_CONV, 24, 27, 0}, {"fc1", TRI_FC, 48, 64, ROWS}, {"fc2", TRI_FC, 16, 48, ROWS}};

struct loop {
    unsigned long clocks, odd_rank;
    struct {
        unsigned long clock;
        const char *gate;
    } holds[HOLDS];
    const char *odd;
    int all_fc, late;
    uint64_t position; /* kept: the clock */
    tri_job *job;
    uint32_t state;
    float weights[LAYERS][MOST * MOST], bias[LAYERS][MOST], gradient[LAYERS][MOST * MOST];
    float u[LAYERS][ROWS * MOST], v[LAYERS][ROWS * MOST];
};

static int complain(const struct loop *loop, const tri_error *err)
{
    fprintf(stderr, "loop: %s: %s\n", tri_status_name(err->status), err->text);
    if (err->where[0] != '\0')
        fprintf(stderr, "  where: %s\n", err->where);
    if (err->why[0] != '\0')
        fprintf(stderr, "  why:   %s\n", err->why);
    if (err->next[0] != '\0')
        fprintf(stderr, "  try:   %s\n", err->next);
    tri_close(loop->job);
    return 1;
}

static int is_odd(const struct loop *loop, const char *what)
{
    const char *rank = getenv("RANK");
    return loop->odd != NULL && strcmp(loop->odd, what) == 0 && rank != NULL &&
           strtoul(rank, NULL, 10) == loop->odd_rank;
}

static uint32_t factor_rows(const struct loop *loop, uint32_t layer)
{
    return loop->all_fc ? ROWS : shapes[layer].factor_rows;
}

static void fill(struct loop *loop, float *floats, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        loop->state = loop->state * 1664525u + 1013904223u;
        floats[i] = (float)(int32_t)loop->state / 2147483648.0f;
    }
}

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void hold(const struct loop *loop, uint64_t clock)
{
    time_t until = time(NULL) + HOLD_S;
    for (int i = 0; i < HOLDS; i++)
        while (loop->holds[i].gate != NULL && loop->holds[i].clock == clock &&
               access(loop->holds[i].gate, F_OK) != 0 && time(NULL) < until)
            nap();
}

static tri_status describe(struct loop *loop, tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint32_t l = 0; l < LAYERS && status == TRI_OK; l++) {
        tri_layer_info info = TRI_LAYER_INIT;
        info.name = l == 1 && is_odd(loop, "name") ? "fc0" : shapes[l].name;
        info.kind = loop->all_fc ? TRI_FC : shapes[l].kind;
        info.rows = shapes[l].rows - (l == 1 && is_odd(loop, "layers"));
        info.cols = shapes[l].cols;
        info.max_factor_rows = factor_rows(loop, l);
        info.weights = loop->weights[l];
        info.bias = loop->bias[l];
        fill(loop, info.weights, (size_t)info.rows * info.cols);
        fill(loop, info.bias, info.rows);
        status = tri_layer(loop->job, &info, NULL, err);
    }
    tri_keep_info kept = TRI_KEEP_INIT;
    kept.name = "position";
    kept.type = TRI_U64;
    kept.values = &loop->position;
    kept.count = 1;
    return status == TRI_OK ? tri_keep(loop->job, &kept, err) : status;
}

static tri_status update(struct loop *loop, uint32_t l, tri_error *err)
{
    tri_update_info info = TRI_UPDATE_INIT;
    info.lr = is_odd(loop, "lr") ? 0.02f : 0.01f;
    info.count = ROWS;
    info.params_busy = l % 2 == 0;
    if (factor_rows(loop, l) > 0) {
        fill(loop, loop->u[l], (size_t)ROWS * shapes[l].rows);
        fill(loop, loop->v[l], (size_t)ROWS * shapes[l].cols);
        info.u = loop->u[l];
        info.v = loop->v[l];
        info.factor_rows = ROWS;
    } else {
        fill(loop, loop->gradient[l], ALL);
        info.dense = loop->gradient[l];
        info.dense_bias = loop->gradient[l] + (size_t)MOST * (MOST - 1);
    }
    return tri_update(loop->job, l, &info, err);
}

static tri_status iterate(struct loop *loop, uint64_t *clock, tri_error *err)
{
    tri_status status = TRI_OK;
    loop->state = (uint32_t)(77 * *clock) + 1000 * tri_rank(loop->job);
    for (uint32_t l = 0; l < LAYERS && status == TRI_OK; l++)
        status = tri_sync(loop->job, l, err);
    for (uint32_t l = LAYERS; l-- > 0 && status == TRI_OK;)
        status = update(loop, l, err);
    if (loop->late)
        (void)nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    loop->position = *clock + 1;
    if (status == TRI_OK)
        status = tri_clock(loop->job, clock, err);
    return status;
}

static tri_status train(struct loop *loop, tri_error *err)
{
    tri_stats stats;
    tri_get_stats(loop->job, &stats);
    uint64_t clock = stats.clocks;
    tri_status status = TRI_OK;
    if (clock != loop->position) {
        fprintf(stderr, "loop: begins at clock %llu with the position of clock %llu\n",
                (unsigned long long)clock, (unsigned long long)loop->position);
        exit(1);
    }
    while (clock < loop->clocks && status == TRI_OK) {
        hold(loop, clock);
        if (clock + 1 == loop->clocks && is_odd(loop, "exit"))
            _exit(0);
        if (clock + 1 == loop->clocks && is_odd(loop, "close"))
            return TRI_OK;
        status = iterate(loop, &clock, err);
        if (status == TRI_OK)
            printf("rank %u pid %ld clock %llu\n", (unsigned)tri_rank(loop->job), (long)getpid(),
                   (unsigned long long)clock);
        fflush(stdout);
    }
    return status;
}

static tri_status finish(struct loop *loop, tri_error *err)
{
    uint32_t crc = 0;
    tri_stats stats;
    tri_status status = tri_checksum(loop->job, &crc, err);
    if (status != TRI_OK)
        return status;
    tri_get_stats(loop->job, &stats);
    printf("{\"rank\":%u,\"clocks\":%llu,\"live\":%u,\"view\":%u,\"crc\":\"%08x\"}\n",
           (unsigned)tri_rank(loop->job), (unsigned long long)stats.clocks,
           (unsigned)stats.live_workers, (unsigned)stats.view, (unsigned)crc);
    return TRI_OK;
}

static int run(struct loop *loop)
{
    tri_options options = TRI_OPTIONS_INIT;
    tri_error err = {0};
    if (is_odd(loop, "optimizer"))
        options.optimizer = "momentum:0.5";
    if (is_odd(loop, "consistency"))
        options.consistency = "ssp:3";
    if (tri_open(&options, &loop->job, &err) != TRI_OK)
        return complain(loop, &err);
    loop->state = 1 + tri_rank(loop->job);
    if (describe(loop, &err) != TRI_OK || tri_start(loop->job, &err) != TRI_OK ||
        train(loop, &err) != TRI_OK)
        return complain(loop, &err);
    if (!is_odd(loop, "close") && finish(loop, &err) != TRI_OK)
        return complain(loop, &err);
    tri_close(loop->job);
    return 0;
}

int main(int argc, char **argv)
{
    static struct loop loop = {.clocks = 20};
    int holds = 0;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--clocks") == 0 && i + 1 < argc) {
            loop.clocks = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--hold") == 0 && i + 2 < argc && holds < HOLDS) {
            loop.holds[holds].clock = strtoul(argv[++i], NULL, 10);
            loop.holds[holds++].gate = argv[++i];
        } else if (strcmp(argv[i], "--odd") == 0 && i + 2 < argc) {
            loop.odd_rank = strtoul(argv[++i], NULL, 10);
            loop.odd = argv[++i];
        } else if (strcmp(argv[i], "--late") == 0) {
            loop.late = 1;
        } else if (strcmp(argv[i], "--fc") == 0) {
            loop.all_fc = 1;
        } else {
            fprintf(stderr, "loop: no such argument '%s'\n", argv[i]);
            return 2;
        }
    return run(&loop);
}
