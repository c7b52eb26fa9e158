/* One job with a given number of layers, for counting instructions per message (tools/events):
 *     sim_events LAYERS SCHEME
 * prints how many events the run had. Not a test by itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/layout.h"
#include "mod/optim.h"
#include "plan/plan.h"
#include "sim/cluster.h"

static void init(void *ctx, uint32_t rank, uint32_t layer, struct sim_values params)
{
    (void)ctx, (void)rank, (void)layer;
    params.weights[0] = 1;
}

static void forward(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer,
                    struct sim_values params)
{
    (void)ctx, (void)rank, (void)clock, (void)layer, (void)params;
}

static struct sim_update update(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer,
                                struct sim_values dense, float *u, float *v)
{
    (void)ctx, (void)rank, (void)clock, (void)layer;
    if (u != NULL)
        u[0] = v[0] = 1;
    else
        dense.weights[0] = 1;
    return (struct sim_update){.given = true, .count = 1, .lr = 0.1f, .rows = 1};
}

static struct profile *make_profile(unsigned layers)
{
    struct buf text;
    struct profile *profile = NULL;
    buf_init(&text, &mem_libc);
    buf_text(&text, "{\"format\": \"layer-profile/1\", \"name\": \"n\", \"layers\": [");
    for (unsigned i = 0; i < layers; i++)
        buf_format(&text, "%s{\"name\": \"l%u\", \"type\": \"FC\", \"M\": 2, \"N\": 2}",
                   i > 0 ? "," : "", i);
    buf_text(&text, "]}");
    if (profile_read("n", text.data, text.len, &mem_libc, &profile, NULL) != TRI_OK)
        exit(1);
    buf_fini(&text);
    return profile;
}

int main(int argc, char **argv)
{
    size_t scheme = 0;
    if (argc != 3 || scheme_find(argv[2], &scheme) == NULL)
        return 2;
    struct profile *profile = make_profile((unsigned)strtoul(argv[1], NULL, 10));
    struct book book = {.profile = profile,
                        .workers = 3,
                        .servers = 3,
                        .colocated = 3,
                        .batch = 1,
                        .bits_s = 1e9,
                        .flops_s = 1e9,
                        .forced = scheme_at(scheme),
                        .placement = placement_find("hash"),
                        .reproducible = true};
    struct sim_options options = {
        .seed = 1,
        .clocks = 4,
        .rules = {.reproducible = true},
        .app = {.init = init, .forward = forward, .update = update, .input_gradient = forward}};
    struct plan *plan = NULL;
    struct layout *layout = NULL;
    struct sim_cluster *cluster = NULL;
    if (optim_read("sgd", &options.optim, NULL) != TRI_OK ||
        plan_make(&book, &mem_libc, &plan, NULL) != TRI_OK ||
        layout_make(plan, &mem_libc, &layout, NULL) != TRI_OK ||
        sim_new(layout, &options, &mem_libc, &cluster, NULL) != TRI_OK ||
        sim_run(cluster, NULL) != TRI_OK)
        return 1;
    uint64_t messages = 0;
    for (uint32_t n = 0; n < layout->nodes; n++)
        messages += sim_traffic(cluster, n).messages;
    printf("%llu\n", (unsigned long long)messages);
    sim_free(cluster);
    layout_free(layout);
    plan_free(plan);
    profile_free(profile);
    return 0;
}
