/* Made-up data that a net can learn. */
#include "examples/mlp_data.h"

#include <math.h>

/* The generator splitmix64 (Steele, Lea and Flood): mixes a counter. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

void data_fill(uint64_t seed, uint64_t stream, float limit, float *to, size_t count)
{
    uint64_t state = mix(mix(seed) + stream);
    for (size_t i = 0; i < count; i++) {
        state += 0x9E3779B97F4A7C15U;
        to[i] = limit * 0x1p-31F * (float)(int32_t)(mix(state) >> 32);
    }
}

/* Streams of the seed; the samples have all below 2^63. */
enum { STREAM_INPUTS = 1, STREAM_TARGETS };
#define STREAMS_OF_DATA (UINT64_C(1) << 63)

void data_init(struct data *data)
{
    const size_t count = data->width * DATA_HIDDEN_VALUES;
    const float limit = sqrtf(3.0F / DATA_HIDDEN_VALUES); /* variance 1 in the sum */
    data_fill(data->seed, STREAMS_OF_DATA + STREAM_INPUTS, limit, data->inputs, count);
    data_fill(data->seed, STREAMS_OF_DATA + STREAM_TARGETS, limit, data->targets, count);
}

static struct shape shape_of(size_t width, size_t count)
{
    return (struct shape){.rows = width, .cols = DATA_HIDDEN_VALUES, .batch = count};
}

size_t data_scratch_floats(size_t width, size_t count)
{
    struct shape shape = shape_of(width, count);
    return count * DATA_HIDDEN_VALUES + kernel_scratch_floats(&shape);
}

void data_batch(const struct data *data, uint64_t first, size_t count, float *x, float *t,
                float *scratch)
{
    const size_t values = count * DATA_HIDDEN_VALUES;
    float *hidden = scratch;
    scratch += values;
    for (size_t k = 0; k < count; k++)
        data_fill(data->seed, first + k, sqrtf(3), hidden + k * DATA_HIDDEN_VALUES,
                  DATA_HIDDEN_VALUES);
    struct forward project = {
        .shape = shape_of(data->width, count), .w = data->inputs, .x = hidden, .y = x};
    kernel_forward(data->kernel, &project, scratch);
    for (size_t i = 0; i < values; i++)
        hidden[i] = tanhf(2 * hidden[i]);
    project.w = data->targets;
    project.y = t;
    kernel_forward(data->kernel, &project, scratch);
}
