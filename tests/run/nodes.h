/* Nodes of a job as threads of one process: hosts that train the small net of lib/toy.h over a real
 * transport. Asserts are for the thread of the test; those of nodes keep what went wrong. */
#ifndef TRIDENT_TESTS_RUN_NODES_H
#define TRIDENT_TESTS_RUN_NODES_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/toy.h"
#include "run/host.h"

#include "lib/test.h" /* after error.h: cmocka has a macro named fail */

enum { NODES_MOST = NET_MAX_RANKS + 4, NODES_FLOATS = NET_MAX_WIDTH * (NET_MAX_WIDTH + 1) };

struct nodes;

/* One of them: a rank, or a server of its own. */
struct nodes_one {
    struct nodes *job;
    uint32_t number;
    pthread_t thread;
    struct host *host;
    tri_status status;
    tri_error err;
    struct host_stats stats;
    uint64_t clock;
    struct store_layer own[NET_MAX_LAYERS];
    struct sim_values gradient[NET_MAX_LAYERS];
    float *u[NET_MAX_LAYERS], *v[NET_MAX_LAYERS];
};

struct nodes {
    const char *transport;
    char coordinator[64], name[32];
    struct agree_layer layers[NET_MAX_LAYERS];
    uint32_t count;
    struct agree_options options;
    uint32_t sockets, helpers, timeout_ms, heartbeat_ms;
    uint64_t clocks;
    const struct mem *mem; /* of node `mem_node`; NULL: all use the heap */
    uint32_t mem_node;
    bool two_threads;   /* updates and syncs of odd layers come from another thread */
    const char *trace;  /* of every node, see host_options; NULL: none */
    const char *flight; /* likewise */
    struct agreement *plan;
    struct toy net;
    struct nodes_one nodes[NODES_MOST];
    uint32_t node_count;
    /* What a node does other than the rest; NULL: nothing. Called as iteration `clock` begins;
     * false: this node leaves here. */
    bool (*meddle)(struct nodes_one *one, uint64_t clock);
    /* What a rank does after it has met the others; NULL: nothing. */
    void (*before_start)(struct nodes_one *one);
    /* What a rank does before its numbers are taken and it leaves; NULL: nothing. */
    void (*at_end)(struct nodes_one *one);
    /* Another description on some ranks; NULL: all alike. */
    void (*describe)(const struct nodes_one *one, struct agree_layer *layers,
                     struct agree_options *options);
};

static inline void nodes_free_port(char *out, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    (void)close(fd);
    (void)snprintf(out, size, "127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
}

static inline void nodes_meet(struct nodes *job, const char *transport)
{
    static unsigned number;
    job->transport = transport;
    (void)snprintf(job->name, sizeof job->name, "job-%u", number);
    if (strcmp(transport, "inproc") == 0)
        (void)snprintf(job->coordinator, sizeof job->coordinator, "inproc:job%u", number++);
    else
        nodes_free_port(job->coordinator, sizeof job->coordinator);
}

/* ---- a rank ---- */

static inline struct sim_values nodes_params(const struct nodes_one *one, uint32_t layer)
{
    return (struct sim_values){one->own[layer].weights, one->own[layer].bias};
}

static inline float *nodes_floats(size_t count)
{
    float *floats = calloc(count, sizeof *floats);
    if (floats == NULL)
        abort();
    return floats;
}

/* Each in memory of its own, so that a byte too much is seen. */
static inline void nodes_take_memory(struct nodes_one *one)
{
    struct sim_app app = toy_app(&one->job->net);
    for (uint32_t l = 0; l < one->job->count; l++) {
        const struct agree_layer *layer = &one->job->layers[l];
        size_t matrix = (size_t)layer->rows * layer->cols;
        one->own[l].weights = nodes_floats(matrix);
        one->own[l].bias = layer->bias ? nodes_floats(layer->rows) : NULL;
        one->own[l].result = one->job->options.aggregate
                                 ? nodes_floats(matrix + (layer->bias ? layer->rows : 0))
                                 : NULL;
        one->gradient[l].weights = nodes_floats(matrix);
        one->gradient[l].bias = layer->bias ? nodes_floats(layer->rows) : NULL;
        one->u[l] = nodes_floats((size_t)NET_MAX_BATCH * layer->rows);
        one->v[l] = nodes_floats((size_t)NET_MAX_BATCH * layer->cols);
        app.init(app.ctx, one->number, l, nodes_params(one, l));
    }
}

static inline void nodes_give_memory(struct nodes_one *one)
{
    for (uint32_t l = 0; l < one->job->count; l++) {
        free(one->own[l].weights);
        free(one->own[l].bias);
        free(one->own[l].result);
        free(one->gradient[l].weights);
        free(one->gradient[l].bias);
        free(one->u[l]);
        free(one->v[l]);
    }
}

static inline const struct mem *nodes_mem(const struct nodes_one *one)
{
    return one->job->mem != NULL && one->number == one->job->mem_node ? one->job->mem : &mem_libc;
}

static inline tri_status nodes_open(struct nodes_one *one)
{
    const struct nodes *job = one->job;
    struct host_options options = {.mem = nodes_mem(one),
                                   .transport = job->transport,
                                   .job = job->name,
                                   .coordinator = job->coordinator,
                                   .node = one->number,
                                   .workers = job->options.workers,
                                   .servers = job->options.servers,
                                   .colocated = job->options.colocated,
                                   .sockets = job->sockets > 0 ? job->sockets : 1,
                                   .helpers = job->helpers,
                                   .timeout_ms = job->timeout_ms > 0 ? job->timeout_ms : 60000,
                                   .heartbeat_ms =
                                       job->heartbeat_ms > 0 ? job->heartbeat_ms : 20000,
                                   .trace = job->trace,
                                   .flight = job->flight};
    log_init(&options.log, LOG_ERROR, NULL, NULL);
    return host_open(&options, &one->host, &one->err);
}

static inline tri_status nodes_start(struct nodes_one *one)
{
    struct nodes *job = one->job;
    struct agreement *agreement = NULL;
    struct agree_layer layers[NET_MAX_LAYERS];
    struct agree_options options = job->options;
    memcpy(layers, job->layers, sizeof layers);
    if (job->describe != NULL)
        job->describe(one, layers, &options);
    tri_status status =
        agree_make(layers, job->count, &options, nodes_mem(one), &agreement, &one->err);
    if (status == TRI_OK)
        status = host_start(
            one->host, &(struct host_job){.agreement = agreement, .layers = one->own}, &one->err);
    return status;
}

static inline tri_status nodes_sync(struct nodes_one *one, uint32_t layer)
{
    struct sim_app app = toy_app(&one->job->net);
    tri_status status = host_sync(one->host, layer, &one->err);
    if (status == TRI_OK && one->job->options.aggregate && one->clock > 0)
        app.mean(app.ctx, one->number, one->clock - 1, layer, one->own[layer].result,
                 nodes_params(one, layer));
    return status;
}

static inline tri_status nodes_update(struct nodes_one *one, uint32_t l)
{
    struct sim_app app = toy_app(&one->job->net);
    struct sim_update update =
        app.update(app.ctx, one->number, one->clock, l, one->gradient[l], one->u[l], one->v[l]);
    struct update given = {.count = update.count,
                           .lr = one->job->options.aggregate ? 0 : update.lr,
                           .params_busy = update.busy};
    if (one->job->plan->layout->layers[l].form == TRI_FORM_FACTORS) {
        given.u = one->u[l];
        given.v = one->v[l];
        given.factor_rows = update.rows;
    } else {
        given.dense = one->gradient[l].weights;
        given.dense_bias = one->gradient[l].bias;
    }
    bool alone = !one->job->two_threads; /* else the input's gradient is there already */
    if (alone && !update.busy)
        app.input_gradient(app.ctx, one->number, one->clock, l, nodes_params(one, l));
    tri_status status = update.given ? host_update(one->host, l, &given, &one->err) : TRI_OK;
    if (alone && update.busy)
        app.input_gradient(app.ctx, one->number, one->clock, l, nodes_params(one, l));
    return status;
}

/* ---- with two threads: one for even layers, one for odd ---- */

struct nodes_half {
    struct nodes_one one; /* a copy: errors are its own */
    uint32_t first;
    bool syncs;
};

static inline void *nodes_half_main(void *ctx)
{
    struct nodes_half *half = ctx;
    struct nodes_one *one = &half->one;
    for (uint32_t l = half->first; l < one->job->count && one->status == TRI_OK; l += 2)
        one->status = half->syncs ? nodes_sync(one, l) : nodes_update(one, l);
    return NULL;
}

static inline tri_status nodes_in_halves(struct nodes_one *one, bool syncs)
{
    struct nodes_half halves[2] = {{*one, 0, syncs}, {*one, 1, syncs}};
    pthread_t other;
    if (pthread_create(&other, NULL, nodes_half_main, &halves[1]) != 0)
        abort();
    (void)nodes_half_main(&halves[0]);
    (void)pthread_join(other, NULL);
    for (int i = 0; i < 2; i++)
        if (halves[i].one.status != TRI_OK) {
            one->err = halves[i].one.err;
            return halves[i].one.status;
        }
    return TRI_OK;
}

/* Gradients of all inputs are known before the first update, so that no order is left. */
static inline tri_status nodes_iterate_in_halves(struct nodes_one *one)
{
    struct sim_app app = toy_app(&one->job->net);
    tri_status status = nodes_in_halves(one, true);
    if (status != TRI_OK)
        return status;
    for (uint32_t l = 0; l < one->job->count; l++)
        app.forward(app.ctx, one->number, one->clock, l, nodes_params(one, l));
    for (uint32_t l = one->job->count; l-- > 0;)
        app.input_gradient(app.ctx, one->number, one->clock, l, nodes_params(one, l));
    return nodes_in_halves(one, false);
}

/* ---- the loop ---- */

static inline tri_status nodes_iterate(struct nodes_one *one)
{
    struct sim_app app = toy_app(&one->job->net);
    tri_status status = TRI_OK;
    for (uint32_t l = 0; l < one->job->count && status == TRI_OK; l++) {
        status = nodes_sync(one, l);
        if (status == TRI_OK)
            app.forward(app.ctx, one->number, one->clock, l, nodes_params(one, l));
    }
    for (uint32_t l = one->job->count; l-- > 0 && status == TRI_OK;)
        status = nodes_update(one, l);
    return status;
}

static inline tri_status nodes_train(struct nodes_one *one)
{
    struct nodes *job = one->job;
    tri_status status = TRI_OK;
    while (one->clock < job->clocks && status == TRI_OK) {
        if (job->meddle != NULL && !job->meddle(one, one->clock))
            return TRI_OK;
        status = job->two_threads ? nodes_iterate_in_halves(one) : nodes_iterate(one);
        if (status == TRI_OK)
            status = host_clock(one->host, &one->clock, &one->err);
    }
    for (uint32_t l = 0; l < job->count && status == TRI_OK; l++)
        status = nodes_sync(one, l);
    return status;
}

static inline void *nodes_main(void *ctx)
{
    struct nodes_one *one = ctx;
    one->status = nodes_open(one);
    if (one->status == TRI_OK && one->number >= one->job->options.workers) {
        one->status = host_serve(one->host, &one->err);
    } else if (one->status == TRI_OK) {
        if (one->job->before_start != NULL)
            one->job->before_start(one);
        one->status = nodes_start(one);
        if (one->status == TRI_OK)
            one->status = nodes_train(one);
        if (one->status == TRI_OK && one->job->at_end != NULL)
            one->job->at_end(one);
    }
    if (one->host != NULL)
        host_get_stats(one->host, &one->stats);
    host_close(one->host);
    return NULL;
}

/* ---- the whole job ---- */

/* What all nodes will come to by themselves; for nets and checks. */
static inline void nodes_plan(struct nodes *job)
{
    tri_error err = {0};
    if (agree_make(job->layers, job->count, &job->options, &mem_libc, &job->plan, &err) != TRI_OK)
        fail_msg("%s (%s)", err.text, err.why);
    job->net.layout = job->plan->layout;
}

/* Starts all nodes but those of the bits in `absent`, and waits for the last to end. Parameters
 * stay until nodes_free(). */
static inline void nodes_run(struct nodes *job, uint32_t absent)
{
    job->node_count = job->options.workers + job->options.servers - job->options.colocated;
    assert_true(job->node_count <= NODES_MOST);
    for (uint32_t n = 0; n < job->node_count; n++) {
        job->nodes[n] = (struct nodes_one){.job = job, .number = n};
        if (n < job->options.workers)
            nodes_take_memory(&job->nodes[n]);
    }
    for (uint32_t n = 0; n < job->node_count; n++)
        if ((absent >> n & 1) == 0)
            assert_int_equal(
                pthread_create(&job->nodes[n].thread, NULL, nodes_main, &job->nodes[n]), 0);
    for (uint32_t n = 0; n < job->node_count; n++)
        if ((absent >> n & 1) == 0)
            (void)pthread_join(job->nodes[n].thread, NULL);
}

static inline void nodes_free(struct nodes *job)
{
    for (uint32_t n = 0; n < job->options.workers && n < job->node_count; n++)
        nodes_give_memory(&job->nodes[n]);
    agree_free(job->plan);
    job->plan = NULL;
}

#endif
