/* A batch of made-up samples, of images or of text. */
#ifndef TRIDENT_TESTS_ENGINE_BATCH_H
#define TRIDENT_TESTS_ENGINE_BATCH_H

#include "base/rng.h"
#include "engine/net.h"

static inline void fill_batch(struct net *net, const struct net_data *data, uint64_t seed)
{
    struct net_batch batch = net_batch(net);
    struct rng rng;
    rng_init(&rng, seed);
    size_t pixels = shape3_floats(data->image) * net_batch_size(net);
    for (size_t i = 0; batch.images != NULL && i < pixels; i++)
        batch.images[i] = (float)rng_normal(&rng);
    for (size_t i = 0; batch.tokens != NULL && i < (size_t)data->length * net_batch_size(net); i++)
        batch.tokens[i] = (uint32_t)rng_below(&rng, data->words);
    for (uint32_t i = 0; i < net_batch_size(net); i++)
        batch.labels[i] = (uint32_t)rng_below(&rng, data->classes);
}

#endif
