/* Choosing schemes and adding up what they cost. */
#include "plan/plan.h"

#include <math.h>
#include <string.h>

#include "plan/place.h"
#include "plan/timeline.h"
#include "plan/traffic.h"

uint64_t plan_chunk_bytes(double bits_s, double latency_s, double model_bytes, uint32_t servers)
{
    double wanted = 32 * latency_s * bits_s / 8;
    double power = wanted > 0 ? fmin(24, round(log2(wanted))) : 21;
    double share = model_bytes / (4.0 * servers);
    return (uint64_t)1 << (int)fmax(16, fmin(power, floor(log2(share))));
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static tri_scheme_cluster cluster_of(const struct book *book)
{
    uint64_t chunk = book->chunk_bytes;
    if (chunk == 0)
        chunk = plan_chunk_bytes(book->bits_s, book->latency_s, 4 * (double)book->profile->params,
                                 book->servers);
    return (tri_scheme_cluster){
        .workers = book->workers,
        .servers = book->servers,
        .both = book->colocated,
        .chunk_bytes = (double)chunk,
        .grid_rows = book->grid_rows,
        .grid_cols = book->grid_cols,
        .reproducible = book->reproducible,
    };
}

static tri_scheme_layer shape_of(const struct book *book, const struct profile_layer *layer)
{
    double rows = (double)layer->rows, batch = (double)book->batch;
    bool sparse = layer->kind == TRI_EMBED && layer->sparse_rows > 0 && !layer->dense;
    return (tri_scheme_layer){
        .kind = layer->kind,
        .rows = rows,
        .cols = (double)layer->cols,
        .bias = (double)layer->bias,
        .factor_rows = batch * (double)layer->applications,
        .touched_rows = sparse ? fmin(batch * (double)layer->sparse_rows, rows) : rows,
    };
}

struct plan_cost plan_price(const struct book *book, const tri_scheme_cluster *cluster,
                            const tri_scheme_layer *layer, size_t scheme)
{
    const tri_scheme_ops *ops = scheme_at(scheme);
    struct plan_cost price = {.refused = ops->refuses(layer, cluster), .iteration_s = NAN};
    if (price.refused != NULL)
        return price;
    tri_scheme_cost *cost = &price.cost;
    ops->cost(layer, cluster, cost);
    double bytes = book->shared ? cost->send_bytes + cost->recv_bytes
                                : fmax(cost->send_bytes, cost->recv_bytes);
    price.time_s = cost->rounds * book->latency_s + 8 * bytes / book->bits_s +
                   cost->extra_flops / book->flops_s + cost->messages * book->message_s;
    return price;
}

static bool allowed(const struct book *book, size_t scheme)
{
    if (book->forced != NULL)
        return scheme_at(scheme) == book->forced;
    return (book->schemes >> scheme & 1) != 0;
}

/* What a choice goes by: seconds of the link plus so many times those of the device. */
struct taste {
    double device;
    bool bytes; /* Poseidon's Algorithm 1 instead: floats, of the schemes that it knows */
};

static const struct taste by_time = {.device = 1}, by_bytes = {.bytes = true};

/* Fewer floats win; among equals the later, as Algorithm 1 takes sfb when it is
 * no worse than ps. Times that are equal on paper may differ in the last bits; then the
 * earlier stays. */
static bool better(const struct book *book, struct taste taste, const struct plan_cost *cost,
                   const struct plan_cost *best)
{
    if (taste.bytes)
        return cost->cost.floats_both <= best->cost.floats_both;
    double weight = (taste.device - 1) / book->flops_s;
    double time = cost->time_s + weight * cost->cost.extra_flops;
    return time < (best->time_s + weight * best->cost.extra_flops) * (1 - 1e-12);
}

static size_t choose(const struct book *book, struct taste taste,
                     const struct plan_cost costs[SCHEME_MAX])
{
    size_t best = SCHEME_MAX;
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        if (!allowed(book, i) || costs[i].refused != NULL ||
            (taste.bytes && !scheme_at(i)->by_bytes))
            continue;
        if (best == SCHEME_MAX || better(book, taste, &costs[i], &costs[best]))
            best = i;
    }
    return best;
}

size_t plan_choose(const struct book *book, const struct plan_cost costs[SCHEME_MAX])
{
    bool bytes = book->rule == PLAN_BYTES && book->forced == NULL;
    return choose(book, bytes ? by_bytes : by_time, costs);
}

/* The book with another number of workers and all that goes with it. */
static void resize(struct book *book, const struct book *from, uint32_t workers)
{
    uint32_t most = least(from->workers, from->servers);
    book->workers = workers;
    book->servers = from->servers_follow ? workers : from->servers;
    uint32_t room = least(book->workers, book->servers);
    book->colocated = from->colocated == most ? room : least(from->colocated, room);
    book->grid_rows = book->grid_cols = 0; /* a grid asked for fits one number of workers only */
}

/* What the layer would take with that many workers; SCHEME_MAX: nothing fits. */
static size_t choice_at(const struct plan *plan, const struct plan_layer *layer, uint32_t workers)
{
    struct book book = *plan->book;
    resize(&book, plan->book, workers);
    tri_scheme_cluster cluster = cluster_of(&book);
    tri_scheme_layer shape = layer->shape;
    shape.pieces = (double)place_pieces(&book, layer->profile, (uint64_t)cluster.chunk_bytes);
    struct plan_cost costs[SCHEME_MAX];
    for (size_t i = 0; scheme_at(i) != NULL; i++)
        costs[i] = plan_price(&book, &cluster, &shape, i);
    return plan_choose(&book, costs);
}

bool plan_by_price(const struct plan *plan, const struct plan_layer *layer)
{
    return choice_at(plan, layer, plan->book->workers) == layer->scheme;
}

uint32_t plan_leaves(const struct plan *plan, const struct plan_layer *layer, uint32_t most,
                     size_t *scheme)
{
    if (!plan_by_price(plan, layer))
        return 0;
    for (uint32_t p = plan->book->workers + 1; p <= most; p++) {
        size_t other = choice_at(plan, layer, p);
        if (other != layer->scheme && other != SCHEME_MAX) {
            *scheme = other;
            return p;
        }
    }
    return 0;
}

uint32_t plan_came(const struct plan *plan, const struct plan_layer *layer, size_t *scheme)
{
    if (!plan_by_price(plan, layer))
        return 0;
    for (uint32_t p = plan->book->workers - 1; p >= 2; p--) {
        size_t other = choice_at(plan, layer, p);
        if (other != layer->scheme && other != SCHEME_MAX) {
            *scheme = other;
            return p;
        }
    }
    return 0;
}

/* ---- making a plan ---- */

static tri_status fail_no_scheme(const struct book *book, const struct plan_layer *layer,
                                 tri_error *err)
{
    const char *name = layer->profile->name, *kind = layer_kind_name(layer->profile->kind);
    if (book->forced != NULL) {
        size_t i = 0;
        (void)scheme_find(book->forced->name, &i);
        fail(err, TRI_EINPUT, "scheme '%s' cannot carry layer '%.60s' (%s)", book->forced->name,
             name, kind);
        fail_why(err, "'%.60s' %s", name, layer->costs[i].refused);
    } else {
        fail(err, TRI_EINPUT, "none of the allowed schemes can carry layer '%.60s' (%s)", name,
             kind);
        fail_why(err, "%s",
                 book->rule == PLAN_BYTES ? "rule 'bytes' knows ps and sfb only"
                                          : "the list of schemes is too short");
    }
    if (book->forced != NULL)
        fail_next(err, "drop --scheme, or use --schemes ps,%s",
                  strcmp(book->forced->name, "ps") == 0 ? "sfb" : book->forced->name);
    else
        fail_next(err, "allow several schemes, for example --schemes ps,sfb");
    return TRI_EINPUT;
}

static tri_status fail_too_many(const struct plan *plan, tri_error *err)
{
    const struct book *book = plan->book;
    unsigned long long most = PLAN_MAX_PIECES;
    switch (book->placement->cut) {
    case TRI_CUT_CHUNKS:
        fail(err, TRI_EINPUT, "chunks of %.0f bytes cut the model into more than %llu pieces",
             plan->cluster.chunk_bytes, most);
        fail_next(err, "take larger chunks, for example --chunk 2MB");
        break;
    case TRI_CUT_EVENLY:
        fail(err, TRI_EINPUT, "placement '%s' cuts the model into more than %llu pieces",
             book->placement->name, most);
        fail_why(err, "it splits every tensor over all of the %u servers", (unsigned)book->servers);
        fail_next(err, "take fewer --servers or --placement hash");
        break;
    case TRI_CUT_TENSORS:
    case TRI_CUT_LAYERS: /* not with the layers that a profile may have */
        fail(err, TRI_EINPUT, "the model has more than %llu pieces", most);
        break;
    }
    return TRI_EINPUT;
}

/* The book with what was asked for this layer alone. */
static struct book book_for(const struct plan *plan, const struct plan_layer *layer)
{
    struct book own = *plan->book;
    size_t number = (size_t)(layer->profile - own.profile->layers);
    if (own.forced_for != NULL && own.forced_for[number] != NULL)
        own.forced = own.forced_for[number];
    return own;
}

static void price(struct plan *plan, struct plan_layer *layer)
{
    const struct book *book = plan->book;
    layer->shape = shape_of(book, layer->profile);
    layer->cut = place_pieces(book, layer->profile, (uint64_t)plan->cluster.chunk_bytes);
    layer->shape.pieces = (double)layer->cut;
    for (size_t i = 0; scheme_at(i) != NULL; i++)
        layer->costs[i] = plan_price(book, &plan->cluster, &layer->shape, i);
}

static tri_status pick(const struct plan *plan, struct plan_layer *layer, struct taste taste,
                       tri_error *err)
{
    struct book own = book_for(plan, layer);
    layer->scheme = choose(&own, own.forced != NULL ? by_time : taste, layer->costs);
    return layer->scheme == SCHEME_MAX ? fail_no_scheme(&own, layer, err) : TRI_OK;
}

static void add_up(struct plan *plan, struct plan_layer *layer)
{
    const struct plan_cost *chosen = &layer->costs[layer->scheme];
    tri_scheme_home home = scheme_at(layer->scheme)->home;
    layer->pieces = home == TRI_HOME_PIECES ? layer->cut : home == TRI_HOME_WHOLE ? 1 : 0;
    plan->pieces += layer->pieces;
    plan->send_bytes += chosen->cost.send_bytes;
    plan->recv_bytes += chosen->cost.recv_bytes;
    plan->comm_s += chosen->time_s;
    plan->even_bytes += fmax(chosen->cost.send_bytes, chosen->cost.recv_bytes);
    plan->worker_buffer_bytes += chosen->cost.worker_buffer_bytes;
}

static double compute_s(const struct book *book)
{
    const struct profile *profile = book->profile;
    double batch = (double)book->batch;
    /* At its own rate the profile's measurement is truer than flops over rate. */
    bool own_rate = profile->flops_s == 0 || book->flops_s == profile->flops_s;
    if (profile->iteration_s > 0 && own_rate)
        return profile->iteration_s * batch / profile->compute_batch;
    return profile->flops > 0 ? profile->flops * batch / book->flops_s : NAN;
}

static tri_status check_book(const struct book *book, tri_error *err)
{
    if (book->workers < 1 || book->workers > BOOK_MAX_NODES || book->servers < 1 ||
        book->servers > BOOK_MAX_NODES || book->batch < 1 || book->batch > PROFILE_MAX_SIDE ||
        !(book->bits_s > 0) || !(book->flops_s > 0) || !(book->latency_s >= 0) ||
        !(book->message_s >= 0))
        return fail(err, TRI_EARG, "a number of the book is out of its range");
    if (book->colocated > book->workers || book->colocated > book->servers)
        return fail(err, TRI_EARG, "more nodes are both than there are workers or servers");
    /* The most that one message carries, in whole floats; 0 lets the planner choose. */
    if (book->chunk_bytes % 4 != 0 || book->chunk_bytes > (uint64_t)1 << 30)
        return fail(err, TRI_EARG,
                    "a chunk of %llu bytes is not a whole number of floats, or "
                    "more than a message can carry",
                    (unsigned long long)book->chunk_bytes);
    if (book->grid_rows == 0 || book->grid_rows * (uint64_t)book->grid_cols == book->workers)
        return TRI_OK;
    fail(err, TRI_EINPUT, "a grid of %u x %u owners does not fit %u workers",
         (unsigned)book->grid_rows, (unsigned)book->grid_cols, (unsigned)book->workers);
    fail_next(err, "rows times columns must be the number of workers; leave the grid out to get "
                   "the best one");
    return TRI_EINPUT;
}

static tri_status check_memory(const struct plan *plan, tri_error *err)
{
    const struct book *book = plan->book;
    if (book->server_bytes == 0 || plan->server_buffer_bytes <= (double)book->server_bytes)
        return TRI_OK;
    fail(err, TRI_EINPUT,
         "the fullest server needs %.0f bytes of landing buffers, allowed are %llu",
         plan->server_buffer_bytes, (unsigned long long)book->server_bytes);
    fail_why(err, "%s",
             book->reproducible ? "sums in rank order keep one slot per worker and chunk"
                                : "every chunk keeps one sum");
    fail_next(err, book->reproducible ? "add servers (--servers) or sum on arrival "
                                        "(--reproducible off)"
                                      : "add servers (--servers)");
    return TRI_EINPUT;
}

/* Prices, which hold for every way to choose. */
static void begin(struct plan *plan)
{
    const struct book *book = plan->book;
    for (size_t i = 0; i < book->profile->count; i++) {
        if (book->profile->layers[i].params == 0)
            continue;
        struct plan_layer *layer = &plan->layers[plan->count++];
        layer->profile = &book->profile->layers[i];
        price(plan, layer);
    }
    plan->compute_s = compute_s(book);
    timeline_compute(plan);
}

/* Adds up the chosen schemes, places the pieces and estimates the iteration. */
static tri_status evaluate(struct plan *plan, tri_error *err)
{
    plan->send_bytes = plan->recv_bytes = plan->comm_s = plan->even_bytes = 0;
    plan->worker_buffer_bytes = plan->server_buffer_bytes = 0;
    plan->busiest_send_bytes = plan->busiest_recv_bytes = 0;
    plan->pieces = 0;
    memset(plan->server_bytes, 0, plan->book->servers * sizeof *plan->server_bytes);
    for (size_t i = 0; i < plan->count; i++) {
        add_up(plan, &plan->layers[i]);
        if (plan->pieces > PLAN_MAX_PIECES)
            return fail_too_many(plan, err);
    }
    mem_free(plan->mem, plan->piece);
    plan->piece = NULL;
    tri_status status = place(plan, err);
    if (status == TRI_OK)
        status = traffic(plan, err);
    return status == TRI_OK ? timeline(plan, err) : status;
}

static tri_status settle(struct plan *plan, struct taste taste, tri_error *err)
{
    tri_status status = TRI_OK;
    for (size_t i = 0; i < plan->count && status == TRI_OK; i++)
        status = pick(plan, &plan->layers[i], taste, err);
    return status == TRI_OK ? evaluate(plan, err) : status;
}

/* ---- by rule time ---- */

/* The estimate of an iteration with some of what a slower link would cost: plans whose transfers
 * just fit behind compute are not quite as fast as they look. */
static double cautious(const struct plan *plan)
{
    return plan->iteration_s + 0.2 * (plan->iteration_slow_s - plan->iteration_s);
}

/* The share of an iteration that is communication which is not hidden. */
static double exposed(const struct plan *plan)
{
    return 1 - plan->compute_s / cautious(plan);
}

/* What a plan must gain to be believed: the more is exposed, the rougher its estimate is, and the
 * more so for plans that mix schemes layer by layer. tools/rules and tests/sim/test_rules.c hold
 * this against the simulation. */
static double margin(const struct plan *plan, double roughness)
{
    return 0.005 + roughness * exposed(plan);
}

static const double rough_plan = 0.05, rough_layer = 0.25;
static const double most_exposed = 0.5; /* of a plan that is mixed layer by layer */

/* Work that trying other schemes layer by layer may be, in layers and pieces looked at. */
static const double most_work = 1e6;

static bool may_take(const struct plan *plan, const struct plan_layer *layer, size_t scheme)
{
    struct book own = book_for(plan, layer);
    return scheme != layer->scheme && allowed(&own, scheme) && layer->costs[scheme].refused == NULL;
}

/* Would trying every other scheme of every layer take too long? */
static bool is_large(const struct plan *plan)
{
    double tries = 0;
    for (size_t i = 0; i < plan->count; i++)
        for (size_t k = 0; scheme_at(k) != NULL; k++)
            tries += may_take(plan, &plan->layers[i], k);
    return tries * (double)(plan->count + plan->pieces + plan->book->servers) > most_work;
}

/* The plan with another scheme for one layer. TRI_ENOMEM, or TRI_EINPUT if that cannot be. */
static tri_status try_scheme(struct plan *plan, struct plan_layer *layer, size_t scheme)
{
    tri_error ignored = {0};
    layer->scheme = scheme;
    return evaluate(plan, &ignored);
}

/* Takes for each layer, from the top, what makes the iteration shorter. */
static tri_status improve(struct plan *plan)
{
    double least = cautious(plan);
    for (size_t i = plan->count; i-- > 0;) {
        struct plan_layer *layer = &plan->layers[i];
        for (size_t k = 0; scheme_at(k) != NULL; k++) {
            size_t before = layer->scheme;
            if (!may_take(plan, layer, k))
                continue;
            tri_status status = try_scheme(plan, layer, k);
            if (status == TRI_ENOMEM)
                return status;
            if (status == TRI_OK && exposed(plan) < most_exposed &&
                cautious(plan) < least * (1 - margin(plan, rough_layer)))
                least = cautious(plan);
            else
                layer->scheme = before;
        }
    }
    return TRI_OK;
}

/* What the iteration would be if a layer took a scheme that is cheaper by its price alone. */
static tri_status look_aside(struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct plan_layer *layer = &plan->layers[i];
        size_t chosen = layer->scheme;
        for (size_t k = 0; scheme_at(k) != NULL; k++) {
            struct plan_cost *cost = &layer->costs[k];
            if (!may_take(plan, layer, k) || cost->time_s >= layer->costs[chosen].time_s)
                continue;
            tri_status status = try_scheme(plan, layer, k);
            layer->scheme = chosen;
            if (status == TRI_ENOMEM)
                return status;
            cost->iteration_s = status == TRI_OK ? plan->iteration_s : NAN;
        }
    }
    return TRI_OK;
}

/* A layer's price alone does not say what is hidden behind compute, nor what multiplying factors
 * takes from it: of several ways to weigh the two, the one whose iteration is the shortest, and
 * then layer by layer what makes it shorter yet. Fewest bytes comes first and is left only for a
 * gain that can be believed. */
static tri_status settle_by_time(struct plan *plan, tri_error *err)
{
    static const struct taste tastes[] = {
        {.bytes = true}, {.device = 1}, {.device = 0}, {.device = 1e3}};
    struct taste best = by_time;
    double least = INFINITY;
    if (isnan(plan->compute_s) || plan->book->forced != NULL || plan->book->workers == 1)
        return settle(plan, by_time, err);
    for (size_t i = 0; i < sizeof tastes / sizeof tastes[0]; i++) {
        tri_error ignored = {0};
        tri_status status = settle(plan, tastes[i], &ignored);
        if (status == TRI_ENOMEM)
            return fail_nomem(err, "a plan");
        double share = best.bytes ? 1 - margin(plan, rough_plan) : 1;
        if (status != TRI_OK || cautious(plan) >= least * share)
            continue;
        best = tastes[i];
        least = cautious(plan);
    }
    tri_status status = settle(plan, best, err);
    if (status != TRI_OK || is_large(plan))
        return status;
    if (improve(plan) != TRI_OK || look_aside(plan) != TRI_OK)
        return fail_nomem(err, "a plan");
    return evaluate(plan, err);
}

static tri_status fill(struct plan *plan, tri_error *err)
{
    begin(plan);
    tri_status status =
        plan->book->rule == PLAN_TIME ? settle_by_time(plan, err) : settle(plan, by_bytes, err);
    return status == TRI_OK ? check_memory(plan, err) : status;
}

tri_status plan_make(const struct book *book, const struct mem *mem, struct plan **out,
                     tri_error *err)
{
    tri_status status = check_book(book, err);
    if (status != TRI_OK)
        return status;
    struct plan *plan = mem_array(mem, 1, sizeof *plan);
    if (plan == NULL)
        return fail_nomem(err, "a plan");
    plan->mem = mem;
    plan->book = book;
    plan->cluster = cluster_of(book);
    plan->layers = mem_array(mem, book->profile->with_params, sizeof *plan->layers);
    plan->server_bytes = mem_array(mem, book->servers, sizeof *plan->server_bytes);
    if (plan->layers == NULL || plan->server_bytes == NULL)
        status = fail_nomem(err, "a plan");
    else
        status = fill(plan, err);
    if (status == TRI_OK)
        *out = plan;
    else
        plan_free(plan);
    return status;
}

void plan_free(struct plan *plan)
{
    if (plan == NULL)
        return;
    mem_free(plan->mem, plan->layers);
    mem_free(plan->mem, plan->server_bytes);
    mem_free(plan->mem, plan->piece);
    mem_free(plan->mem, plan);
}
