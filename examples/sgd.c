/* Linear regression by several processes: "sgd" is one, "trident run -n 4 -- sgd" four, each with
 * a quarter of the samples. The six calls of Trident, and tri_close, are in main(). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <trident/trident.h>

enum { SAMPLES = 1024, INPUTS = 16, ITERATIONS = 200 };
static float line[INPUTS + 1];     /* what is learned: weights, and behind them the bias */
static float gradient[INPUTS + 1]; /* summed over the samples of this process */

/* Input j of sample i: a number from -1 to 1 that looks random. */
static float input(uint32_t i, uint32_t j)
{
    uint32_t h = (i * (INPUTS + 1) + j + 1) * 2654435761U;
    h = (h ^ h >> 15) * 2246822519U;
    return (float)(int32_t)(h ^ h >> 13) * 0x1p-31F;
}

/* The truth is a line, and some noise. */
static float error_of(uint32_t i)
{
    float sum = line[INPUTS] - 0.5F - 0.1F * input(i, INPUTS);
    for (uint32_t j = 0; j < INPUTS; j++)
        sum += (line[j] - 1.0F / (float)(j + 1)) * input(i, j);
    return sum;
}

/* Every `step`-th sample from `first` on; returns how many. */
static uint32_t backward(uint32_t first, uint32_t step)
{
    uint32_t count = 0;
    for (uint32_t j = 0; j <= INPUTS; j++)
        gradient[j] = 0;
    for (uint32_t i = first; i < SAMPLES; i += step, count++) {
        float error = error_of(i);
        for (uint32_t j = 0; j <= INPUTS; j++)
            gradient[j] += error * (j < INPUTS ? input(i, j) : 1);
    }
    return count;
}

static void must(tri_status status, const tri_error *err)
{
    if (status != TRI_OK) {
        fprintf(stderr, "sgd: %s\n%s%s%s", err->text, err->next[0] != '\0' ? "  try: " : "",
                err->next, err->next[0] != '\0' ? "\n" : "");
        exit(status == TRI_EINPUT ? 2 : 1);
    }
}

int main(void)
{
    tri_job *job = NULL;
    tri_error err;
    uint32_t layer, crc;
    tri_stats stats;
    tri_layer_info info = TRI_LAYER_INIT;
    tri_update_info update = TRI_UPDATE_INIT;
    info.name = "line", info.rows = 1, info.cols = INPUTS;
    info.weights = line, info.bias = line + INPUTS;
    update.dense = gradient, update.dense_bias = gradient + INPUTS, update.lr = 0.5F;

    must(tri_open(NULL, &job, &err), &err); /* which rank this is: from the environment */
    must(tri_layer(job, &info, &layer, &err), &err);
    must(tri_start(job, &err), &err);
    tri_get_stats(job, &stats);
    uint64_t clock = stats.clocks; /* 0, unless the job goes on from a checkpoint */
    while (clock < ITERATIONS) {
        must(tri_sync(job, layer, &err), &err); /* wait until the line is up to date */
        update.count = backward(tri_rank(job), tri_workers(job));
        must(tri_update(job, layer, &update, &err), &err); /* off it goes; does not wait */
        must(tri_clock(job, &clock, &err), &err);
    }
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
