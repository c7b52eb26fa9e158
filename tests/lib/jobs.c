/* Drawing jobs. */
#include "lib/jobs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/books.h"
#include "lib/test.h"

/* Adaptive steps divide by the root of the gradient's square: with their tiny default epsilon
 * the rounding of a gradient near zero would turn into a whole step. */
static const char *const optimizers[] = {"sgd", "momentum:0.9", "nesterov:0.8", "adagrad:0.1",
                                         "adam:0.9,0.999,0.1"};
static const char *const schemes[] = {"ps", "sfb", "adam"};

static struct profile *draw_profile(struct rng *rng, bool only_fc, unsigned layers)
{
    char text[2000];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "{\"format\": \"layer-profile/1\", \"name\": \"net\", "
                                   "\"layers\": [");
    unsigned width = 1 + (unsigned)rng_below(rng, NET_MAX_WIDTH - 1);
    for (unsigned i = 0; i < layers; i++) {
        unsigned rows = 1 + (unsigned)rng_below(rng, NET_MAX_WIDTH - 1);
        bool conv = !only_fc && rng_below(rng, 3) == 0, bias = rng_below(rng, 2) == 0;
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"name\": \"l%u\", \"type\": \"%s\", \"M\": %u, \"N\": %u, "
                                 "\"bias\": %u}",
                                 i > 0 ? ", " : "", i, conv ? "CONV" : "FC", rows, width,
                                 bias ? rows : 0);
        width = rows;
    }
    (void)snprintf(text + used, sizeof text - used, "]}");
    struct profile *profile = NULL;
    tri_error err = {0};
    if (profile_read("net", text, strlen(text), &mem_libc, &profile, &err) != TRI_OK)
        fail_msg("%s", err.text);
    return profile;
}

static const tri_scheme_ops *draw_scheme(struct rng *rng, const struct job_wish *wish)
{
    size_t pick = (size_t)rng_below(rng, 3);
    if (wish->on_servers && pick == 1)
        pick = 2;
    return scheme_at(book_scheme_index(schemes[pick]));
}

/* Schemes: one for all layers, or a mixture drawn by chance and by what costs least. */
static void draw_book(struct job *job, struct rng *rng, const struct job_wish *wish)
{
    unsigned drawn = 1 + (unsigned)rng_below(rng, NET_MAX_RANKS);
    unsigned workers = wish->workers > 0 ? wish->workers : drawn;
    const char *scheme = wish->on_workers ? "sfb" : wish->scheme;
    bool only_fc = rng_below(rng, 2) == 0 || scheme != NULL;
    drawn = 1 + (unsigned)rng_below(rng, 4);
    job->profile = draw_profile(rng, only_fc, wish->layers > 0 ? wish->layers : drawn);
    job->book = book_of(job->profile, workers);
    job->book.servers = 1 + (unsigned)rng_below(rng, 8);
    unsigned most = workers < job->book.servers ? workers : job->book.servers;
    job->book.colocated = wish->apart ? 0 : (unsigned)rng_below(rng, most + 1);
    job->book.batch = NET_MAX_BATCH;
    job->book.chunk_bytes = 4 * (1 + rng_below(rng, 100));
    job->book.placement = placement_at((size_t)rng_below(rng, 6));
    job->book.flops_s = pow(10, 5 + 6 * rng_unit(rng));
    job->book.bits_s = pow(10, 6 + 4 * rng_unit(rng));
    job->book.schemes = book_scheme("ps") | book_scheme("adam");
    if (!wish->on_servers)
        job->book.schemes |= book_scheme("sfb");
    if (only_fc && rng_below(rng, 4) == 0)
        job->book.forced = draw_scheme(rng, wish);
    if (scheme != NULL)
        job->book.forced = scheme_at(book_scheme_index(scheme));
    job->book.forced_for = job->wanted;
    for (size_t i = 0; i < job->profile->count && scheme == NULL; i++)
        if (job->profile->layers[i].kind == TRI_FC && rng_below(rng, 2) == 0)
            job->wanted[i] = draw_scheme(rng, wish);
}

void job_plan(struct job *job)
{
    tri_error err = {0};
    layout_free(job->layout);
    plan_free(job->plan);
    job->plan = book_plan(&job->book);
    job->layout = NULL;
    if (layout_make(job->plan, &mem_libc, &job->layout, &err) != TRI_OK)
        fail_msg("%s", err.text);
    job->net.layout = job->layout;
    job->all_factors = true;
    for (uint32_t i = 0; i < job->layout->layer_count; i++)
        job->all_factors = job->all_factors && job->layout->layers[i].form == TRI_FORM_FACTORS;
}

void job_draw(struct job *job, uint64_t seed, const struct job_wish *wish)
{
    struct rng rng;
    memset(job, 0, sizeof *job);
    rng_init(&rng, seed);
    draw_book(job, &rng, wish);
    job->net = (struct toy){.seed = seed,
                            .lr = 0.05f,
                            .vary_batch = rng_below(&rng, 2) == 0,
                            .leave_out = rng_below(&rng, 3) == 0 && !wish->plain,
                            .busy = rng_below(&rng, 2) == 0};
    job_plan(job);
    job->options = (struct sim_options){.seed = seed + 1, .clocks = 3 + rng_below(&rng, 5)};
    job->options.sockets = 1 + (uint32_t)rng_below(&rng, 6);
    job->options.check = true;
    job->options.rules.reproducible = true;
    if (rng_below(&rng, 4) == 0 && !wish->plain) {
        job->options.rules.aggregate = job->net.aggregate = true;
        (void)optim_read("sgd", &job->options.optim, NULL);
    } else {
        job->options.rules.replicated = rng_below(&rng, 3) == 0 && !wish->plain;
        (void)optim_read(optimizers[wish->plain ? 0 : rng_below(&rng, 5)], &job->options.optim,
                         NULL);
    }
    job->options.app = toy_app(&job->net);
}

void job_free(struct job *job)
{
    layout_free(job->layout);
    plan_free(job->plan);
    profile_free(job->profile);
}

struct sim_cluster *job_run(struct job *job, uint64_t seed)
{
    struct sim_cluster *cluster = NULL;
    tri_error err = {0};
    if (sim_new(job->layout, &job->options, &mem_libc, &cluster, &err) != TRI_OK ||
        sim_run(cluster, &err) != TRI_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    return cluster;
}

unsigned long job_env(const char *name, unsigned long fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoul(text, NULL, 10) : fallback;
}
