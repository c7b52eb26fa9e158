/* Linear regression by learners of one machine, around one line in shared memory: "local" is one,
 * "trident run -n 4 -- local" four. Each takes a sample at a time, at its own pace; TRIDENT_LOCAL
 * says who steps the line, and this program is the same for all of its values. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trident/trident.h>

enum { SAMPLES = 1024, INPUTS = 16, EPOCHS = 20 };
static float own[INPUTS + 1];      /* the line as it begins: weights, and behind them the bias */
static float gradient[INPUTS + 1]; /* of one sample */

/* Where the line lies, in shared memory or here. */
struct line {
    const float *weights, *bias;
};

/* Input j of sample i: a number from -1 to 1 that looks random. */
static float input(uint32_t i, uint32_t j)
{
    uint32_t h = (i * (INPUTS + 1) + j + 1) * 2654435761U;
    h = (h ^ h >> 15) * 2246822519U;
    return (float)(int32_t)(h ^ h >> 13) * 0x1p-31F;
}

/* The truth is a line, and some noise. */
static float error_of(struct line line, uint32_t i)
{
    float sum = *line.bias - 0.5F - 0.1F * input(i, INPUTS);
    for (uint32_t j = 0; j < INPUTS; j++)
        sum += (line.weights[j] - 1.0F / (float)(j + 1)) * input(i, j);
    return sum;
}

static void backward(struct line line, uint32_t i)
{
    float error = error_of(line, i);
    for (uint32_t j = 0; j <= INPUTS; j++)
        gradient[j] = error * (j < INPUTS ? input(i, j) : 1);
}

static void must(tri_status status, const tri_error *err)
{
    if (status != TRI_OK) {
        fprintf(stderr, "local: %s\n%s%s%s", err->text, err->next[0] != '\0' ? "  try: " : "",
                err->next, err->next[0] != '\0' ? "\n" : "");
        exit(status == TRI_EINPUT ? 2 : 1);
    }
}

/* What all learners have come to. */
static void report(tri_job *job, struct line line, tri_error *err)
{
    char mode[16] = "", applied[24] = "0", stale[24] = "0";
    double loss = 0;
    for (uint32_t i = 0; i < SAMPLES; i++)
        loss += 0.5 * error_of(line, i) * error_of(line, i) / SAMPLES;
    must(tri_query(job, "local", mode, sizeof mode, err), err);
    must(tri_query(job, "gradients.applied", applied, sizeof applied, err), err);
    must(tri_query(job, "staleness.mean", stale, sizeof stale, err), err);
    printf("{\"example\":\"local\",\"learners\":%u,\"local\":\"%s\",\"gradients\":%s,"
           "\"staleness\":%s,\"loss\":%.9g}\n",
           tri_workers(job), mode, applied, stale, loss);
}

static const char usage[] =
    "Usage: local\n"
    "Fits a line to made-up data, a sample at a time, around one line in shared memory.\n"
    "\n"
    "It has no options: trident run says how many learners there are, and the environment\n"
    "(or a file, TRIDENT_CONFIG) how they learn:\n"
    "\n"
    "  TRIDENT_LOCAL    server, direct, sync or replicas: who steps the line  [default: server]\n"
    "  TRIDENT_LOCKED   on: nobody reads the line while it changes            [default: off]\n"
    "\n"
    "Example: TRIDENT_LOCAL=direct trident run -n 4 -- local\n"
    "Exit codes: 0 trained, 1 failed, 2 bad usage or settings\n";

/* All that it takes is --help: else it would learn with what nobody has asked for. */
static void read_arguments(int argc, char **argv)
{
    bool help = argc > 1 && strcmp(argv[1], "--help") == 0;
    const char *wrong = argc > (help ? 2 : 1) ? argv[help ? 2 : 1] : NULL;
    if (wrong != NULL) {
        fprintf(stderr, "local: %s '%s'\n  try:   local --help\n",
                wrong[0] == '-' ? "there is no option" : "it takes no argument", wrong);
        exit(2);
    }
    if (help) {
        fputs(usage, stdout);
        exit(fflush(stdout) == 0 ? 0 : 1);
    }
}

int main(int argc, char **argv)
{
    tri_job *job = NULL;
    tri_error err;
    tri_stats stats;
    uint32_t layer;
    float *weights, *bias;
    tri_layer_info info = TRI_LAYER_INIT;
    tri_update_info update = TRI_UPDATE_INIT;
    info.name = "line", info.rows = 1, info.cols = INPUTS;
    info.weights = own, info.bias = own + INPUTS;
    update.dense = gradient, update.dense_bias = gradient + INPUTS, update.count = 1;

    read_arguments(argc, argv);
    (void)setenv("TRIDENT_MODE", "local", 1);
    must(tri_open(NULL, &job, &err), &err);
    must(tri_layer(job, &info, &layer, &err), &err);
    must(tri_start(job, &err), &err); /* rank 0 makes the shared memory, the others find it */
    must(tri_shared(job, layer, &weights, &bias, &err), &err);
    struct line line = {weights, bias}; /* read where it lies: nothing is copied */
    if (weights == NULL)                /* TRIDENT_LOCKED=on: tri_sync copies */
        line = (struct line){own, own + INPUTS};
    const uint32_t rank = tri_rank(job), learners = tri_workers(job);
    const uint64_t iterations = EPOCHS * SAMPLES / learners;
    tri_get_stats(job, &stats);
    uint64_t clock = stats.clocks; /* 0, unless this learner died and was started again */
    while (clock < iterations) {
        must(tri_sync(job, layer, &err), &err); /* what the others have done; waits in sync only */
        backward(line, (uint32_t)((clock * learners + rank) % SAMPLES));
        update.lr = 0.1F * (1 - (float)clock / (float)iterations);
        must(tri_update(job, layer, &update, &err), &err); /* written into shared memory */
        must(tri_clock(job, &clock, &err), &err);          /* one gradient is handed over */
    }
    if (rank == 0) { /* who uses the result waits for the others; they may just close */
        must(tri_finish(job, &err), &err);
        report(job, line, &err);
    }
    tri_close(job);
    return fflush(stdout) == 0 ? 0 : 1;
}
