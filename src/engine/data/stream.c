/* The order of samples: one permutation per epoch. */
#include "base/rng.h"
#include "engine/data/data.h"

struct order {
    uint64_t epoch; /* UINT64_MAX: none yet */
    uint32_t *at;
};

struct stream {
    const struct mem *mem;
    size_t samples;
    struct rng seeded;
    struct order orders[2]; /* of even and of odd epochs */
};

struct stream *stream_new(const struct mem *mem, size_t samples, uint64_t seed)
{
    if (samples == 0 || samples > UINT32_MAX)
        return NULL;
    struct stream *stream = mem_array(mem, 1, sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->mem = mem;
    stream->samples = samples;
    rng_init(&stream->seeded, seed);
    for (int i = 0; i < 2; i++) {
        stream->orders[i].epoch = UINT64_MAX;
        stream->orders[i].at = mem_array(mem, samples, sizeof *stream->orders[i].at);
        if (stream->orders[i].at == NULL) {
            stream_free(stream);
            return NULL;
        }
    }
    return stream;
}

void stream_free(struct stream *stream)
{
    if (stream == NULL)
        return;
    mem_free(stream->mem, stream->orders[0].at);
    mem_free(stream->mem, stream->orders[1].at);
    mem_free(stream->mem, stream);
}

/* Fisher and Yates's shuffle, from inside out. */
static void shuffle(const struct stream *stream, struct order *order)
{
    struct rng rng;
    rng_fork(&stream->seeded, order->epoch, &rng);
    for (size_t i = 0; i < stream->samples; i++) {
        size_t k = (size_t)rng_below(&rng, i + 1);
        order->at[i] = order->at[k];
        order->at[k] = (uint32_t)i;
    }
}

uint64_t stream_at(struct stream *stream, uint64_t position)
{
    uint64_t epoch = position / stream->samples;
    struct order *order = &stream->orders[epoch % 2];
    if (order->epoch != epoch) {
        order->epoch = epoch;
        shuffle(stream, order);
    }
    return order->at[position % stream->samples];
}
