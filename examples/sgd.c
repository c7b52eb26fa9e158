/* Linear regression by several processes: y = w x + bias, fitted by gradient descent.
 *
 *     sgd                      one process
 *     trident run -n 4 -- sgd  four, each with a quarter of the samples
 *
 * What Trident asks of a program is in main(); the rest would be the same without it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trident/trident.h>

enum { SAMPLES = 1024, INPUTS = 16, ITERATIONS = 200 };
static float x[SAMPLES][INPUTS], y[SAMPLES]; /* the data */
static float weights[INPUTS], bias;          /* what is learned; begins at zero */
static float weights_gradient[INPUTS], bias_gradient;

/* The next number of a sequence that looks random, from -1 to 1. */
static float draw(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (float)(int32_t)(*state >> 32) * 0x1p-31F;
}

static void make_data(void)
{
    uint64_t state = 42;
    float truth[INPUTS];
    for (int j = 0; j < INPUTS; j++)
        truth[j] = draw(&state);
    for (int i = 0; i < SAMPLES; i++) {
        y[i] = 0.5F + 0.1F * draw(&state); /* the bias, and noise */
        for (int j = 0; j < INPUTS; j++)
            y[i] += truth[j] * (x[i][j] = draw(&state));
    }
}

static float error_of(uint32_t i)
{
    float sum = bias - y[i];
    for (int j = 0; j < INPUTS; j++)
        sum += weights[j] * x[i][j];
    return sum;
}

/* The gradient summed over every `step`-th sample from `first` on; returns how many. */
static uint32_t backward(uint32_t first, uint32_t step)
{
    uint32_t count = 0;
    memset(weights_gradient, 0, sizeof weights_gradient);
    bias_gradient = 0;
    for (uint32_t i = first; i < SAMPLES; i += step, count++) {
        float error = error_of(i);
        for (int j = 0; j < INPUTS; j++)
            weights_gradient[j] += error * x[i][j];
        bias_gradient += error;
    }
    return count;
}

static void must(tri_status status, const tri_error *err)
{
    if (status == TRI_OK)
        return;
    fprintf(stderr, "sgd: %s\n", err->text);
    exit(status == TRI_EINPUT ? 2 : 1);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        int help = strcmp(argv[1], "--help") == 0;
        fprintf(help ? stdout : stderr, "Usage: sgd\nFit a line to made-up data. No options.\n"
                                        "More processes: trident run -n 4 -- sgd\n");
        return help ? 0 : 2;
    }
    make_data();

    tri_job *job = NULL;
    tri_error err;
    must(tri_open(NULL, &job, &err), &err); /* which rank this is: from the environment */

    tri_layer_info info = TRI_LAYER_INIT;
    info.name = "line";
    info.rows = 1;
    info.cols = INPUTS;
    info.weights = weights;
    info.bias = &bias;
    uint32_t layer;
    must(tri_layer(job, &info, &layer, &err), &err);
    must(tri_start(job, &err), &err);

    tri_update_info update = TRI_UPDATE_INIT;
    update.dense = weights_gradient;
    update.dense_bias = &bias_gradient;
    update.lr = 0.5F;
    uint64_t clock = 0;
    while (clock < ITERATIONS) {
        must(tri_sync(job, layer, &err), &err); /* wait until the weights are up to date */
        update.count = backward(tri_rank(job), tri_workers(job));
        must(tri_update(job, layer, &update, &err), &err); /* off it goes; does not wait */
        must(tri_clock(job, &clock, &err), &err);
    }

    uint32_t crc;
    must(tri_checksum(job, &crc, &err), &err); /* waits for the last update, too */
    double loss = 0;
    for (uint32_t i = 0; i < SAMPLES; i++)
        loss += 0.5 * error_of(i) * error_of(i) / SAMPLES;
    printf("{\"example\":\"sgd\",\"rank\":%u,\"workers\":%u,\"clocks\":%llu,\"loss\":%.9g,"
           "\"params_crc32c\":\"%08x\"}\n",
           tri_rank(job), tri_workers(job), (unsigned long long)clock, loss, crc);
    tri_close(job);
    return fflush(stdout) == 0 ? 0 : 1;
}
