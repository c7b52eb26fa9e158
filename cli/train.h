/* Inside trident train: what was asked for, what came of it, and how both are shown. */
#ifndef TRIDENT_CLI_TRAIN_H
#define TRIDENT_CLI_TRAIN_H

#include <stdio.h>

#include "cli/cli.h"
#include "engine/train.h"
#include "settings/view.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what was asked for ---- */

enum {
    TRAIN_WORKERS_MAX = 1024,
    TRAIN_LEARNERS_MAX = 256,
    TRAIN_RESTARTS = 3, /* of a learner, by default */
    TRAIN_OPTIMIZER = 64
};

/* What a model is trained with unless the options say otherwise: epochs, batch, learning rate,
 * optimiser, schedule. One list for the parser and for --help. */
#define TRAIN_DEFAULTS(ROW)                                                                        \
    ROW("mlp", "10", "64", "0.02", "momentum:0.9", "cosine")                                       \
    ROW("lenet", "4", "64", "0.05", "momentum:0.9", "cosine")                                      \
    ROW("cifar10-quick", "20", "100", "0.02", "momentum:0.9", "cosine")                            \
    ROW("resnet20", "30", "64", "0.05", "momentum:0.9", "cosine")                                  \
    ROW("textcnn", "10", "50", "0.001", "adam", "cosine")

/* What the options fill. Numbers that need not be whole are texts here. */
struct train_settings {
    const char *data, *test, *model;
    uint64_t label_column, text_column, max_length;
    unsigned header; /* enum data_header */
    uint64_t learners, restarts, exchange_every;
    unsigned local; /* of train_locals */
    bool locked;
    const char *recipe;
    uint64_t workers, servers, iterations, batch, seed, evaluate_every;
    const char *epochs, *lr, *momentum, *optimizer, *schedule;
    const char *scheme, *consistency, *placement, *out;
    const char *checkpoint;
    uint64_t checkpoint_every;
    bool resume;
    unsigned on_failure; /* 0: continue, 1: stop */
    bool json, profile;
};

/* What is said outside of the command line, which is stronger. */
struct train_elsewhere {
    unsigned local;                   /* of train_locals; 0: auto, or nothing is said */
    char local_from[SETTINGS_ORIGIN]; /* "TRIDENT_LOCAL", "job.conf:3:1" */
    bool shares;                      /* mode = local */
    char mode_from[SETTINGS_ORIGIN];
};

/* TRI_EINPUT: a value that cannot be, by the name of who gives it. */
tri_status train_elsewhere(const struct mem *mem, struct train_elsewhere *out, tri_error *err);

/* A command line, read and checked. The texts are argv's and its own. */
struct train_request {
    bool help;
    struct train_settings settings;
    struct train_options options;
    char optimizer[TRAIN_OPTIMIZER]; /* options.optimizer */
    const char *local;               /* with learners: "server", "direct", "sync" or "replicas" */
};

extern const struct option_row train_rows[];
extern const char *const train_locals[];
extern const char *const train_headers[]; /* by enum data_header, ended by NULL */
tri_status train_read(int argc, const char *const *argv, struct train_request *request,
                      tri_error *err);
/* The same, where the command line is not all that is said. */
tri_status train_read_with(int argc, const char *const *argv,
                           const struct train_elsewhere *elsewhere, struct train_request *request,
                           tri_error *err);

/* ---- what came of it ---- */

enum { TRAIN_EVENT_KIND = 16, TRAIN_EVENT_TEXT = 240, TRAIN_EVENTS_MAX = 1000 };

/* Something went wrong, and the run went on: a warning in a worker's log. */
struct train_event {
    double t_s; /* since the command began */
    uint64_t clock;
    char kind[TRAIN_EVENT_KIND]; /* "evicted", "connection", "refused", "stopped", "warning" or
                                    "error" */
    uint32_t rank;               /* whose log it was */
    char text[TRAIN_EVENT_TEXT];
};

/* From a line of a log, as tri_options.log gives it; t_s, clock and rank are the caller's. */
void train_event_of(int level, const char *line, struct train_event *out);
/* Told to stop, workers close one after the other unless the rule is bsp: that is no failure, and
 * an event that only says so becomes "stopped". */
void train_event_stopping(struct train_event *event);
bool train_event_is_failure(const struct train_event *event); /* false: "stopped" */

/* A test on the way. */
struct train_test {
    double epoch, accuracy;
};

/* What one worker ended with. */
struct train_rank {
    bool known;
    uint32_t crc32c;
    uint64_t sent_bytes;
    double loss, accuracy;    /* of training, over its own samples */
    double ended_s, tested_s; /* as train_report has them */
};

struct train_outcome {
    const struct mem *mem;
    uint32_t workers;
    bool begun;     /* training has */
    double begun_s; /* and when, by clock_seconds(), as far as that was told; 0: it was not */
    bool reported;  /* rank 0 came to an end: */
    struct train_report report;
    bool moved; /* there was a moment, and this is rank 0's last one: */
    struct train_moment moment;
    double tested; /* the last accuracy on the test set; NaN: none */
    struct train_test *tests;
    size_t test_count, test_room;
    struct train_rank *ranks;
    struct train_event *events;
    size_t event_count, event_room;
    struct train_restarts {
        uint32_t learners, server, all; /* all: from a checkpoint, after the last was dead */
    } restarts;
    uint32_t gone; /* learners that have died and were not started again */
    bool interrupted;
    int terminated; /* by which signal, if not by Ctrl-C */
};

tri_status train_outcome_init(struct train_outcome *outcome, uint32_t workers,
                              const struct mem *mem, tri_error *err);
void train_outcome_fini(struct train_outcome *outcome);
/* Without memory, a test on the way is forgotten. */
void train_outcome_moment(struct train_outcome *outcome, const struct train_moment *moment);
/* What a worker says before its first iteration. */
void train_outcome_begun(struct train_outcome *outcome, const struct train_report *report);
/* Takes over the report's memory if it is rank 0's and frees it if not. */
void train_outcome_report(struct train_outcome *outcome, struct train_report *report);
/* Beyond TRAIN_EVENTS_MAX, or without memory, an event is forgotten. */
void train_outcome_event(struct train_outcome *outcome, const struct train_event *event);
/* Training loss and accuracy over the last epoch: the mean of the workers that are known; NaN: of
 * none, as after the death of a learner that only another one's test has followed. */
double train_outcome_loss(const struct train_outcome *outcome);
double train_outcome_accuracy(const struct train_outcome *outcome);
/* Learners: samples of all by the time from when the first began until the last was done, by what
 * each has told; over: when all were, for who told nothing. Without a report it does nothing. */
void train_outcome_rate(struct train_outcome *outcome, const struct train_request *request,
                        double over_s);
/* Learners that were told to stop, or of which some are gone, have done each another number of
 * iterations: the report becomes that of their mean, as checkpoints have it. Without a report it
 * does nothing. */
void train_outcome_even(struct train_outcome *outcome, const struct train_request *request);
/* Fails if all ranks should have the same parameters and do not. */
tri_status train_outcome_check(const struct train_outcome *outcome,
                               const struct train_request *request, tri_error *err);

void train_text(const struct train_outcome *outcome, const struct train_request *request,
                struct buf *out);
void train_next(const struct train_outcome *outcome, const struct train_request *request,
                struct buf *out); /* what to try next */
/* A command with learners, for who said how they are to learn and not how many; sgd: their ways
 * need it, and the model has another optimiser by default. */
void train_next_learners(const struct train_settings *settings, bool sgd, struct buf *out);
void train_json(const struct train_outcome *outcome, const struct train_request *request,
                struct buf *out);
/* The summary or the document; for a run that Ctrl-C ended, what there is, and TRI_EPEER. */
tri_status train_show(struct cli *cli, const struct train_outcome *outcome,
                      const struct train_request *request, struct buf *out, tri_error *err);

/* ---- while it runs ---- */

enum { TRAIN_LINE = 400, TRAIN_EPOCHS = 24 };

/* On a terminal one line that is drawn again and again, else a line for each epoch. */
struct train_live {
    FILE *file; /* NULL: nothing is shown */
    bool terminal, drawn;
    double epoch; /* whole ones that have been told of */
    double drawn_at;
    unsigned said; /* events */
    bool said_stopped;
    char last[TRAIN_EVENT_TEXT];
};

void train_live_init(struct train_live *live, FILE *file);
void train_live_begun(struct train_live *live, const struct train_request *request,
                      const struct train_report *report);
void train_live_moment(struct train_live *live, const struct train_moment *moment);
/* Something went wrong and the run goes on: said when it happens, the same words once. */
void train_live_event(struct train_live *live, const struct train_event *event);
void train_live_clear(struct train_live *live); /* before anybody else writes there */
char *train_show_epochs(double epochs, char out[TRAIN_EPOCHS]); /* "10", "2.5", "1200" */
/* The line, in at most `width` columns: what does not fit is left out, the last first. */
void train_live_line(const struct train_moment *moment, size_t width, char out[TRAIN_LINE]);

/* ---- running ---- */

/* train_run(), or what stands in for it in a test. */
typedef tri_status train_runner(const struct train_options *options,
                                const struct train_calls *calls, const struct mem *mem,
                                struct train_report *out, tri_error *err);

/* Set for the processes that the launcher starts. */
#define TRAIN_WORKER "TRIDENT_TRAIN_WORKER"

/* Its values: a worker or learner; a learner that only tests what the others have come to; the
 * server of learners; and who removes their shared memory if the launcher dies. */
#define TRAIN_ROLE_WORKER "1"
#define TRAIN_ROLE_FINISH "finish"
#define TRAIN_ROLE_SERVER "server"
#define TRAIN_ROLE_SWEEP  "sweep"

/* In this process: alone, as a rank of a job that something else started, or as a worker of
 * the launcher, which tells of all that happens in lines on standard output. */
tri_status train_here(struct cli *cli, const struct train_request *request, train_runner *runner,
                      struct buf *out, tri_error *err);

/* Starts settings.workers processes of this program, with these arguments, and watches them. */
tri_status train_launch(struct cli *cli, const struct train_request *request, int argc,
                        const char *const *argv, struct buf *out, tri_error *err);

/* Starts settings.learners of them, and a server if they need one; watches over them, starts the
 * dead again and saves. */
tri_status train_learners(struct cli *cli, const struct train_request *request, int argc,
                          const char *const *argv, struct buf *out, tri_error *err);

/* The server of learners, and the one that removes their region: the process is nothing else. */
tri_status train_serve(struct cli *cli, tri_error *err);
tri_status train_sweep(struct cli *cli, tri_error *err);

/* Of two workers that failed, by what they told (status TRI_OK: nothing): is it the later one that
 * a person should hear of, because the first only says that another is gone? */
bool train_blames(const tri_error *first, const tri_error *later);

/* The words behind "trident train", with another train_run(). */
tri_status train_with(struct cli *cli, int argc, const char *const *argv, train_runner *runner,
                      struct buf *out, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
