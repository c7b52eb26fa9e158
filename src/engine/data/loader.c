/* A thread that makes batches ahead of the one who needs them. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "engine/data/data.h"

enum { AHEAD = 3 };

struct loader {
    struct loader_options options;
    const struct mem *mem;
    struct stream *stream; /* of the thread, as `numbers` */
    uint64_t *numbers;
    /* Batch i is in slot i % AHEAD: the thread's until made > i, then the caller's until taken > i.
     * floats is NULL for text, tokens for images. */
    float *floats;
    uint32_t *tokens, *labels;
    size_t batch_values; /* floats or tokens of a batch */
    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock;   /* of all below */
    pthread_cond_t changed; /* any of them */
    uint64_t made, taken;   /* batches so far */
    bool stop;
};

static struct net_batch slot(const struct loader *loader, uint64_t i)
{
    size_t at = i % AHEAD, offset = at * loader->batch_values;
    return (struct net_batch){
        .images = loader->floats != NULL ? loader->floats + offset : NULL,
        .tokens = loader->tokens != NULL ? loader->tokens + offset : NULL,
        .labels = loader->labels + at * loader->options.batch,
    };
}

static void make_batch(struct loader *loader, uint64_t i)
{
    const struct loader_options *options = &loader->options;
    uint64_t turn = i * options->workers + options->rank;
    struct net_batch out = slot(loader, i);
    for (uint32_t k = 0; k < options->batch; k++)
        loader->numbers[k] = stream_at(loader->stream, options->start + turn * options->batch + k);
    data_batch(options->data, loader->numbers, options->batch, &out);
}

static void *live(void *ctx)
{
    struct loader *loader = ctx;
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop) {
        if (loader->made - loader->taken == AHEAD) {
            pthread_cond_wait(&loader->changed, &loader->lock);
            continue;
        }
        pthread_mutex_unlock(&loader->lock);
        make_batch(loader, loader->made); /* only this thread writes made */
        pthread_mutex_lock(&loader->lock);
        loader->made++;
        pthread_cond_broadcast(&loader->changed);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

static tri_status check(const struct loader_options *options, tri_error *err)
{
    if (options->batch == 0 || options->workers == 0 || options->rank >= options->workers)
        return fail(err, TRI_EARG, "there is no batch of %u for worker %u of %u", options->batch,
                    options->rank, options->workers);
    if (options->data->samples == 0 || options->data->samples > UINT32_MAX)
        return fail(err, TRI_EARG, "%zu samples cannot be loaded", options->data->samples);
    return TRI_OK;
}

static tri_status make(struct loader *loader, tri_error *err)
{
    const struct loader_options *options = &loader->options;
    const struct data *data = options->data;
    size_t batch = options->batch;
    loader->batch_values =
        batch * (data->text ? data->shape.length : shape3_floats(data->shape.image));
    if (data->text)
        loader->tokens =
            mem_array(loader->mem, loader->batch_values, AHEAD * sizeof *loader->tokens);
    else
        loader->floats =
            mem_array(loader->mem, loader->batch_values, AHEAD * sizeof *loader->floats);
    loader->labels = mem_array(loader->mem, batch, AHEAD * sizeof *loader->labels);
    loader->numbers = mem_array(loader->mem, batch, sizeof *loader->numbers);
    loader->stream = stream_new(loader->mem, data->samples, options->seed);
    if ((loader->tokens == NULL && loader->floats == NULL) || loader->labels == NULL ||
        loader->numbers == NULL || loader->stream == NULL)
        return fail_nomem(err, "batches ahead");
    return TRI_OK;
}

/* Signals are for the program's own threads. */
static tri_status start(struct loader *loader, tri_error *err)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int wrong = pthread_create(&loader->thread, NULL, live, loader);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    loader->threaded = wrong == 0;
    errno = wrong;
    return wrong == 0 ? TRI_OK : fail_errno(err, TRI_EIO, "cannot start a thread");
}

tri_status loader_open(const struct loader_options *options, const struct mem *mem,
                       struct loader **out, tri_error *err)
{
    tri_status status = check(options, err);
    if (status != TRI_OK)
        return status;
    struct loader *loader = mem_array(mem, 1, sizeof *loader);
    if (loader == NULL)
        return fail_nomem(err, "batches ahead");
    loader->options = *options;
    loader->mem = mem;
    (void)pthread_mutex_init(&loader->lock, NULL);
    (void)pthread_cond_init(&loader->changed, NULL);
    status = make(loader, err);
    if (status == TRI_OK)
        status = start(loader, err);
    if (status == TRI_OK)
        *out = loader;
    else
        loader_close(loader);
    return status;
}

void loader_close(struct loader *loader)
{
    if (loader == NULL)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    if (loader->threaded)
        (void)pthread_join(loader->thread, NULL);
    (void)pthread_cond_destroy(&loader->changed);
    (void)pthread_mutex_destroy(&loader->lock);
    stream_free(loader->stream);
    mem_free(loader->mem, loader->floats);
    mem_free(loader->mem, loader->tokens);
    mem_free(loader->mem, loader->labels);
    mem_free(loader->mem, loader->numbers);
    mem_free(loader->mem, loader);
}

void loader_next(struct loader *loader, const struct net_batch *out)
{
    pthread_mutex_lock(&loader->lock);
    while (loader->made == loader->taken)
        pthread_cond_wait(&loader->changed, &loader->lock);
    pthread_mutex_unlock(&loader->lock);
    struct net_batch ready = slot(loader, loader->taken);
    if (ready.images != NULL)
        memcpy(out->images, ready.images, loader->batch_values * sizeof *out->images);
    else if (ready.tokens != NULL)
        memcpy(out->tokens, ready.tokens, loader->batch_values * sizeof *out->tokens);
    memcpy(out->labels, ready.labels, loader->options.batch * sizeof *out->labels);
    pthread_mutex_lock(&loader->lock);
    loader->taken++;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
}
