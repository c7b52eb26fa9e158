/* Training: the loop of one worker, from the data to the model, on the six calls of trident.h.
 *
 * Every worker of a job calls train_run() with the same options; who it is and how many there are
 * comes from the environment, as tri_open() says. Alone it needs nothing.
 *
 * In mode = local the workers are learners: each goes through its part of the data at its own pace,
 * reads the shared parameters where they lie and, with plain SGD in direct mode, steps them there.
 * Rank 0 waits for all of them before it tests. */
#ifndef TRIDENT_ENGINE_TRAIN_H
#define TRIDENT_ENGINE_TRAIN_H

#include "engine/data/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the learning rate goes: constant; by steps (x gamma each `every` epochs); cosine (to 0). */
enum train_schedule { TRAIN_CONSTANT, TRAIN_STEP, TRAIN_COSINE };

struct train_options {
    struct data_options data;
    const char *model; /* as net_new() takes it */
    double epochs;     /* over all workers; used if iterations is 0 */
    uint64_t iterations;
    uint32_t batch; /* of each worker; 0: 2, 4 or 32, by the number of samples (GaDei, Table 3) */
    double lr;
    enum train_schedule schedule;
    double gamma, every;     /* of steps: the factor, and after how many epochs */
    const char *optimizer;   /* as tri_options; NULL: "sgd" */
    const char *scheme;      /* NULL: the planner's choice */
    const char *consistency; /* NULL: "bsp" */
    const char *placement;   /* NULL: "hash" */
    uint32_t servers;        /* 0: one with every worker */
    uint64_t seed;
    uint32_t evaluate_every;   /* epochs; 0: only at the end */
    const char *out;           /* FILE.safetensors, written by rank 0; NULL: none */
    const char *checkpoint;    /* a folder of rank 0's; NULL: none */
    uint64_t checkpoint_every; /* iterations; 0: an epoch. And at the end */
    bool resume;               /* from the newest checkpoint there, if there is one */
    uint32_t checksum_every;   /* iterations: compare replicas, and stop if they differ; 0: never */
    uint32_t exchange_every;   /* mode = local, sgd: an iteration is so many batches, each a step of
                                  the learner's own parameters, and one exchange; 0: 1 */
    bool time_ops;             /* fill train_report.ops */
    bool only_finish;          /* mode = local: trains nothing, tests and writes what is there */
};

/* One moment of a run, for whoever shows it. */
struct train_moment {
    uint64_t iteration, iterations;
    double epoch, epochs;
    double loss, accuracy; /* of training, over the last moments; NaN: none yet */
    double samples_per_s;  /* of all workers */
    double sent_per_s;     /* bytes of this worker */
    double left_s;         /* until the end, as far as one can tell; NaN: one cannot */
    double lr;
    bool tested; /* test_accuracy is new */
    double test_accuracy;
};

enum { TRAIN_SCHEME = 16 };

/* A layer's share in the result. */
struct train_layer {
    char name[OP_NAME];
    char scheme[TRAIN_SCHEME];
    uint64_t params;
    double sent_bytes; /* by this worker in an iteration, as planned */
    bool common;       /* local = replicas: it lies there once for all learners */
};

/* Of the net; the last one is the rest of the loop, all of it in forward_s. */
struct train_op {
    char name[OP_NAME], kind[16];
    double forward_s, weigh_s, backward_s; /* of an iteration */
};

struct train_report {
    uint32_t rank, workers, servers;
    uint64_t iterations, params;
    uint64_t first;                       /* iteration that it was resumed at; 0: none */
    double epochs, samples_per_s, wall_s; /* rate: without start-up, evaluation and writing */
    double begun_s, ended_s;           /* the loop, by clock_seconds(): the same for all processes
                                          of a machine; 0: this one had none */
    double tested_s;                   /* in tests between them */
    double train_loss, train_accuracy; /* over the last epoch, or what there was of it */
    double test_accuracy;
    uint64_t test_samples, train_samples;
    uint64_t sent_bytes, received_bytes;
    double compute_s, wait_s; /* of the loop: in operators, and in tri_sync */
    uint32_t params_crc32c;
    uint32_t batch;           /* of each worker */
    uint32_t learners;        /* mode = local: how many; else 0, and so is all of the next: */
    char local[TRAIN_SCHEME]; /* "server", "direct", "sync" or "replicas" */
    double stale_mean;        /* gradients that were applied between a gradient's weights and it */
    uint64_t stale_max;
    uint64_t pushed, applied, lost, torn, partial, discarded; /* gradients of all learners */
    size_t layer_count, op_count;
    struct train_layer *layers;
    struct train_op *ops;
};

struct train_calls {
    void *ctx;
    /* From the loop, a few times a second and at the end of each epoch. False: stop. All workers
     * then stop after the same iteration, the next or the one behind it. NULL: nothing. */
    bool (*moment)(void *ctx, const struct train_moment *moment);
    /* Before the first iteration, with what is known then: layers, schemes, sizes. May be NULL. */
    void (*begun)(void *ctx, const struct train_report *report);
    void (*log)(void *ctx, int level, const char *line); /* as tri_options.log */
};

/* Trains, tests on rank 0 and writes the model. TRI_EINPUT for what the user gave. *out is the
 * caller's, to be freed with train_report_fini(); untouched on failure. */
tri_status train_run(const struct train_options *options, const struct train_calls *calls,
                     const struct mem *mem, struct train_report *out, tri_error *err);
void train_report_fini(struct train_report *report, const struct mem *mem);

/* The rate of an iteration. */
double train_lr(const struct train_options *options, double epoch, double epochs);

#ifdef __cplusplus
}
#endif

#endif
