/* Bytes to a layer profile, and a profile to a plan.
 *
 * What stands behind the first NUL byte, if there is one, makes the cluster, two
 * bytes a number; the rest is the profile. So a plain profile is a seed as it is. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/profile.h"

/* A broken promise is a crash, whatever NDEBUG says. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

/* Refuses what would only make the machine slow. */
static void *modest_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    if (bytes == 0) {
        free(ptr);
        return NULL;
    }
    return bytes <= (size_t)8 << 20 ? realloc(ptr, bytes) : NULL;
}
static const struct mem modest = {.resize = modest_resize};

static void check_profile(const struct profile *profile)
{
    uint64_t params = 0;
    size_t with_params = 0;
    must(profile->name != NULL && profile->title != NULL);
    must(profile->count > 0 && profile->count <= PROFILE_MAX_LAYERS);
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        must(layer->name != NULL && layer->name[0] != '\0');
        must(layer->kind < LAYER_KINDS);
        must(layer->rows <= PROFILE_MAX_SIDE && layer->cols <= PROFILE_MAX_SIDE);
        must(layer->bias == 0 || layer->bias == layer->rows);
        must(layer->applications >= 1);
        must(layer->fwd_flops >= 0 && layer->bwd_flops >= 0);
        if (layer->tied_to != NULL) {
            const struct profile_layer *target = profile_layer(profile, layer->tied_to);
            must(layer->params == 0 && target != NULL && target->params > 0 && target->dense);
        } else {
            must(layer->params == layer->rows * layer->cols + layer->bias);
        }
        params += layer->params; /* at most 2^20 layers of 2^48: cannot wrap around */
        must(params <= PROFILE_MAX_PARAMS);
        with_params += layer->params > 0;
    }
    must(profile->params == params && profile->with_params == with_params && with_params > 0);
    must(profile->iteration_s == 0 || profile->compute_batch >= 1);
}

/* The bytes that make the cluster; zeros when they run out. */
struct bytes {
    const uint8_t *at;
    size_t left;
};

static uint32_t take(struct bytes *bytes, uint32_t below)
{
    uint32_t value = 0;
    for (int i = 0; i < 2 && bytes->left > 0; i++, bytes->left--)
        value = value << 8 | *bytes->at++;
    return below > 0 ? value % below : 0;
}

static struct book make_book(const struct profile *profile, struct bytes *bytes)
{
    size_t schemes = 0, placements = 0;
    while (scheme_at(schemes) != NULL)
        schemes++;
    while (placement_at(placements) != NULL)
        placements++;
    /* One by one: the order inside an initialiser is the compiler's. */
    struct book book = {.profile = profile};
    book.workers = 1 + take(bytes, 600);
    book.servers = 1 + take(bytes, 600);
    book.batch = 1 + take(bytes, 60000);
    book.rule = take(bytes, 2) == 0 ? PLAN_TIME : PLAN_BYTES;
    book.placement = placement_at(take(bytes, (uint32_t)placements));
    book.schemes = (UINT32_C(1) << schemes) - 1;
    if (take(bytes, 8) == 7)
        book.schemes = take(bytes, UINT32_C(1) << schemes);
    if (take(bytes, 4) == 3)
        book.forced = scheme_at(take(bytes, (uint32_t)schemes));
    book.chunk_bytes = (uint64_t)4096 * take(bytes, 512);
    book.reproducible = take(bytes, 2) == 0;
    book.bits_s = 1e3 * (1 + take(bytes, 65536));
    book.latency_s = 1e-6 * take(bytes, 65536);
    book.message_s = 1e-7 * take(bytes, 1000);
    book.flops_s = 1e6 * (1 + take(bytes, 65536));
    book.server_bytes = (uint64_t)take(bytes, 4) << 30;
    uint32_t most = book.workers < book.servers ? book.workers : book.servers;
    book.colocated = take(bytes, 2) == 0 ? most : take(bytes, most + 1);
    book.grid_rows = take(bytes, 4) == 3 ? 1 + take(bytes, 30) : 0;
    book.grid_cols = book.grid_rows > 0 ? book.workers / book.grid_rows : 0;
    return book;
}

static void check_plan(const struct plan *plan)
{
    uint64_t on_servers = 0, pieces = 0, dealt = 0;
    must(plan->count == plan->book->profile->with_params);
    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_layer *layer = &plan->layers[i];
        const tri_scheme_ops *scheme = scheme_at(layer->scheme);
        must(scheme != NULL && layer->costs[layer->scheme].refused == NULL);
        must(plan->book->forced == NULL || plan->book->forced == scheme);
        must(layer->costs[layer->scheme].time_s >= 0);
        must((layer->pieces == 0) == (scheme->home == TRI_HOME_WORKERS));
        if (scheme->home != TRI_HOME_WORKERS)
            on_servers += 4 * layer->profile->params;
        pieces += layer->pieces;
    }
    for (uint32_t s = 0; s < plan->book->servers; s++)
        dealt += plan->server_bytes[s];
    must(dealt == on_servers && plan->pieces == pieces);
    must(plan->cv >= 0 && plan->server_buffer_bytes >= 0 && plan->comm_s >= 0);
    must(plan->book->server_bytes == 0 ||
         plan->server_buffer_bytes <= (double)plan->book->server_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
    size_t len = nul != NULL ? (size_t)(nul - data) : size;
    struct bytes bytes = {.at = nul != NULL ? nul + 1 : data,
                          .left = nul != NULL ? size - len - 1 : 0};
    char *text = malloc(len > 0 ? len : 1); /* a copy, so that its end is guarded */
    must(text != NULL);
    if (len > 0)
        memcpy(text, data, len);
    struct profile *profile = NULL;
    tri_error err = {0};
    tri_status status = profile_read("fuzz", text, len, &modest, &profile, &err);
    free(text);
    must((status == TRI_OK) == (profile != NULL) && status == err.status);
    if (profile == NULL) {
        must(err.text[0] != '\0');
        return 0;
    }
    check_profile(profile);
    struct book book = make_book(profile, &bytes);
    struct plan *plan = NULL;
    status = plan_make(&book, &modest, &plan, &err);
    must((status == TRI_OK) == (plan != NULL) && status == err.status);
    must(status != TRI_EARG); /* every number was in its range */
    if (plan != NULL)
        check_plan(plan);
    plan_free(plan);
    profile_free(profile);
    return 0;
}
