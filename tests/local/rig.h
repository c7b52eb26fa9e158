/* Small jobs for the tests of src/local, and children that die on purpose. */
#ifndef TRIDENT_TESTS_LOCAL_RIG_H
#define TRIDENT_TESTS_LOCAL_RIG_H

#include "local/local.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/test.h"

#ifdef TRIDENT_HELGRIND /* which is slow */
enum { RIG_ROWS = 4, RIG_COLS = 24, RIG_WIDE = 17000, RIG_LESS = 20 };
#else
enum { RIG_ROWS = 40, RIG_COLS = 24, RIG_WIDE = 70000, RIG_LESS = 1 };
#endif

/* One with a bias, one large enough for several blocks, one that takes rows. */
static const struct local_layer_info rig_layers[3] = {
    {.name = "fc", .rows = RIG_ROWS, .cols = RIG_COLS, .bias = true},
    {.name = "wide", .rows = 2, .cols = RIG_WIDE},
    {.name = "embed", .rows = 100, .cols = 8, .max_rows = 20, .dense_too = true},
};
enum { RIG_LAYERS = 3 };

/* Does such a job have a server? */
static inline bool rig_serves(enum local_mode mode)
{
    return mode == LOCAL_SERVER || mode == LOCAL_SYNC;
}

static inline struct local_options rig_options(enum local_mode mode, uint32_t learners)
{
    static int number;
    static char names[64][40];
    char *name = names[number % 64];
    (void)snprintf(name, sizeof names[0], "test-%ld-%d", (long)getpid(), number++);
    return (struct local_options){.mem = &mem_libc,
                                  .name = name,
                                  .mode = mode,
                                  .learners = learners,
                                  .layers = rig_layers,
                                  .layer_count = RIG_LAYERS,
                                  .wait_ms = 20000};
}

static inline struct local_job *rig_create(const struct local_options *options)
{
    struct local_job *job = NULL;
    tri_error err;
    if (local_create(options, &job, &err) != TRI_OK)
        fail_msg("%s: %s", err.text, err.why);
    return job;
}

static inline void rig_remove(struct local_job *job)
{
    local_remove(job);
    local_close(job);
}

static inline struct local_learner *rig_join(struct local_job *job,
                                             struct local_learner_options options)
{
    struct local_learner *learner = NULL;
    tri_error err;
    if (local_join(job, &options, &learner, &err) != TRI_OK)
        fail_msg("%s: %s", err.text, err.why);
    return learner;
}

/* All layers dense, every value the same. True when it went well. */
static inline bool rig_push(struct local_job *job, struct local_learner *learner, float value,
                            float lr)
{
    struct local_gradient *gradient;
    struct local_about about;
    local_about(job, &about);
    if (local_refresh(learner, NULL) != TRI_OK || local_take(learner, &gradient, NULL) != TRI_OK)
        return false;
    for (uint32_t l = 0; l < about.layer_count; l++) {
        float *to = local_dense(gradient, l);
        for (uint64_t i = 0; i < about.layers[l].floats; i++)
            to[i] = value;
    }
    return local_publish(learner, lr, 1, NULL) == TRI_OK;
}

/* The one value that all weights have; fails the test when they differ. */
static inline float rig_value(const struct local_job *job)
{
    struct local_about about;
    local_about(job, &about);
    float first = local_shared(job, 0)[0];
    for (uint32_t l = 0; l < about.layer_count; l++)
        for (uint64_t i = 0; i < about.layers[l].floats; i++)
            if (local_shared(job, l)[i] != first)
                fail_msg("layer %u, value %llu: %g, not %g", l, (unsigned long long)i,
                         (double)local_shared(job, l)[i], (double)first);
    return first;
}

static inline void rig_die(void *ctx, enum local_step at)
{
    (void)ctx, (void)at;
    (void)kill(getpid(), SIGKILL);
}

/* Runs body(job, arg) in a child, which dies at a step. A child attaches by name, as a program
 * would; it must not use the parent's handle. */
typedef int rig_body(struct local_job *job, void *arg);
static inline pid_t rig_fork(const struct local_options *options, enum local_step at, uint32_t nth,
                             rig_body *body, void *arg)
{
    struct local_faults faults = {.at = at, .nth = nth, .hit = rig_die};
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct local_job *job;
    if (local_attach(options, &job, NULL) != TRI_OK)
        _exit(99);
    local_set_faults(job, &faults);
    int code = body(job, arg);
    local_close(job);
    _exit(code);
}

/* 0 to 255: exit code; negative: the signal. */
static inline int rig_wait(pid_t pid)
{
    int status = 0;
    if (waitpid(pid, &status, 0) != pid)
        return 1000;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

struct rig_server {
    struct local_job *job;
    struct local_serve_options options;
    pthread_t thread;
    tri_status status;
    tri_error err;
};

static inline void *rig_serve(void *arg)
{
    struct rig_server *server = arg;
    server->status = local_serve(server->job, &server->options, &server->err);
    return NULL;
}

static inline void rig_server_start(struct rig_server *server, struct local_job *job)
{
    server->job = job;
    assert_int_equal(pthread_create(&server->thread, NULL, rig_serve, server), 0);
}

static inline void rig_server_end(struct rig_server *server)
{
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    if (server->status != TRI_OK)
        fail_msg("%s", server->err.text);
}

static inline int rig_serve_child(struct local_job *job, void *arg)
{
    struct local_serve_options options = {.threads = 1, .until_done = true};
    if (arg != NULL)
        options = *(const struct local_serve_options *)arg;
    return local_serve(job, &options, NULL) == TRI_OK ? 0 : 1;
}

/* What must hold of counts when nothing moves. */
static inline void rig_check_counts(const struct local_job *job, const struct local_counts *c)
{
    struct local_about about;
    local_about(job, &about);
    assert_int_equal(c->pushed, c->applied + c->waiting + c->torn + c->discarded);
    assert_int_equal(c->begun, c->pushed + c->lost + c->partial);
}

#endif
