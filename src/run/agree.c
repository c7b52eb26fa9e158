/* Making agreements: copy, check, plan, number. */
#include "run/agree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/node.h"
#include "mod/consistency.h"
#include "plan/query.h"
#include "run/agree_inside.h"

/* ---- copying ---- */

/* The text itself, or what stands for none. */
static const char *text_or(const char *text, const char *fallback)
{
    return text != NULL ? text : fallback;
}

static const char *keep(char **at, const char *text)
{
    size_t len = strlen(text) + 1;
    const char *kept = memcpy(*at, text, len);
    *at += len;
    return kept;
}

/* Options with names in the place of what was left out, each in one spelling only. */
struct spelled {
    char consistency[64];
    const char *scheme, *placement, *optimizer;
};

static tri_status no_such(const char *what, const char *name, tri_error *err)
{
    fail(err, TRI_EINPUT, "there is no %s '%.60s'", what, name);
    fail_next(err, "see what there is: trident modules %s", what);
    return TRI_EINPUT;
}

static tri_status spell(struct agreement *agreement, const struct agree_options *options,
                        struct spelled *out, tri_error *err)
{
    struct core_rules *rules = &agreement->rules;
    struct book *book = &agreement->book;
    const char *scheme = text_or(options->scheme, ""), *placement = text_or(options->placement, "");
    size_t index = 0;
    tri_status status = consistency_read(text_or(options->consistency, "bsp"), &rules->consistency,
                                         &rules->bound, err);
    if (status != TRI_OK)
        return status;
    (void)snprintf(out->consistency, sizeof out->consistency,
                   rules->consistency->bounded ? "%s:%" PRIu32 : "%s", rules->consistency->name,
                   rules->bound);
    /* Nobody steps in aggregate mode but the caller. */
    out->optimizer = options->aggregate ? "sgd" : text_or(options->optimizer, "sgd");
    if ((status = optim_read(out->optimizer, &agreement->optim, err)) != TRI_OK)
        return status;
    book->placement = placement_find(placement[0] != '\0' ? placement : "hash");
    if (book->placement == NULL)
        return no_such("placement", placement, err);
    if (scheme[0] != '\0' && (book->forced = scheme_find(scheme, &index)) == NULL)
        return no_such("scheme", scheme, err);
    out->placement = book->placement->name;
    out->scheme = book->forced != NULL ? book->forced->name : "";
    return TRI_OK;
}

static tri_status keep_texts(struct agreement *agreement, const struct agree_layer *layers,
                             const struct spelled *spelled, tri_error *err)
{
    size_t len = strlen(spelled->consistency) + strlen(spelled->scheme) +
                 strlen(spelled->placement) + strlen(spelled->optimizer) + 4;
    for (uint32_t i = 0; i < agreement->count; i++)
        len += strlen(text_or(layers[i].name, "")) + 1;
    char *at = agreement->texts = mem_array(agreement->mem, len, 1);
    agreement->layers = mem_array(agreement->mem, agreement->count, sizeof *agreement->layers);
    if (at == NULL || agreement->layers == NULL)
        return fail_nomem(err, "the description of a job");
    struct agree_options *options = &agreement->options;
    options->consistency = keep(&at, spelled->consistency);
    options->scheme = keep(&at, spelled->scheme);
    options->placement = keep(&at, spelled->placement);
    options->optimizer = keep(&at, spelled->optimizer);
    for (uint32_t i = 0; i < agreement->count; i++) {
        agreement->layers[i] = layers[i];
        agreement->layers[i].name = keep(&at, text_or(layers[i].name, ""));
    }
    return TRI_OK;
}

static tri_status keep_homes(struct agreement *agreement, tri_error *err)
{
    struct agree_options *options = &agreement->options;
    uint32_t *home = mem_array(agreement->mem, options->colocated, sizeof *home);
    for (uint32_t i = 0; home != NULL && i < options->colocated; i++)
        home[i] = options->home != NULL ? options->home[i] : i;
    options->home = home;
    return home != NULL ? TRI_OK : fail_nomem(err, "the description of a job");
}

/* ---- checking ---- */

/* At most one server to a node. */
static tri_status check_homes(const struct agreement *agreement, tri_error *err)
{
    const struct agree_options *options = &agreement->options;
    uint8_t *taken = mem_array(agreement->mem, options->workers, 1);
    tri_status status = TRI_OK;
    if (taken == NULL)
        return fail_nomem(err, "the description of a job");
    for (uint32_t i = 0; i < options->colocated && status == TRI_OK; i++) {
        uint32_t node = options->home[i];
        if (node >= options->workers)
            status = fail(err, TRI_EINPUT,
                          "server %" PRIu32 " is to share node %" PRIu32
                          " with a worker, and there are only %" PRIu32 " of these",
                          i, node, options->workers);
        else if (taken[node]++ != 0)
            status = fail(err, TRI_EINPUT, "two servers are to be on node %" PRIu32, node);
    }
    mem_free(agreement->mem, taken);
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names are how users, logs and checkpoints tell layers apart. */
static tri_status check_names(const struct agreement *agreement, tri_error *err)
{
    tri_status status = TRI_OK;
    const char **names =
        (const char **)mem_array(agreement->mem, agreement->count, sizeof(const char *));
    if (names == NULL)
        return fail_nomem(err, "the description of a job");
    for (uint32_t i = 0; i < agreement->count; i++)
        names[i] = agreement->layers[i].name;
    qsort((void *)names, agreement->count, sizeof(const char *), by_name);
    for (uint32_t i = 1; i < agreement->count && status == TRI_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0) {
            status = fail(err, TRI_EINPUT, "two layers are called '%.60s'", names[i]);
            fail_next(err, "give every layer a name of its own");
        }
    mem_free(agreement->mem, (void *)names);
    return status;
}

static tri_status check_layer(uint32_t number, const struct agree_layer *layer, tri_error *err)
{
    struct wire_layer sent = wire_layer_of(layer);
    const char *wrong = (unsigned)layer->kind >= WIRE_LAYER_KINDS ? "a layer is of unknown kind"
                        : layer->rows < 1 || layer->cols < 1 ? "a layer has no rows or no columns"
                                                             : wire_layer_wrong(&sent);
    if (wrong == NULL)
        return TRI_OK;
    fail(err, TRI_EINPUT, "layer %" PRIu32 " cannot be: '%.60s', %" PRIu32 " x %" PRIu32, number,
         layer->name, layer->rows, layer->cols);
    fail_why(err, "%s", wrong);
    return TRI_EINPUT;
}

static tri_status check_layers(const struct agreement *agreement, tri_error *err)
{
    tri_status status = TRI_OK;
    uint64_t params = 0;
    if (agreement->count < 1 || agreement->count > WIRE_MAX_LAYERS)
        return fail(err, TRI_EINPUT, "a job has 1 to %u layers, this one %" PRIu32,
                    (unsigned)WIRE_MAX_LAYERS, agreement->count);
    for (uint32_t i = 0; i < agreement->count && status == TRI_OK; i++) {
        const struct agree_layer *layer = &agreement->layers[i];
        if ((status = check_layer(i, layer, err)) != TRI_OK)
            return status;
        params += (uint64_t)layer->rows * layer->cols + (layer->bias ? layer->rows : 0);
        if (params > PROFILE_MAX_PARAMS)
            return fail(err, TRI_EINPUT, "the layers have more than 2^48 parameters together");
    }
    return check_names(agreement, err);
}

static tri_status check_cluster(const struct agree_options *options, tri_error *err)
{
    if (options->workers < 1 || options->workers > BOOK_MAX_NODES || options->servers < 1 ||
        options->servers > BOOK_MAX_NODES || options->colocated > options->workers ||
        options->colocated > options->servers)
        return fail(err, TRI_EINPUT,
                    "%" PRIu32 " workers and %" PRIu32 " servers, %" PRIu32
                    " of them on workers' nodes, cannot be",
                    options->workers, options->servers, options->colocated);
    if (options->aggregate && options->replicated)
        return fail(err, TRI_EINPUT,
                    "results are means in aggregate mode: there is no optimizer "
                    "to be replicated");
    return TRI_OK;
}

/* ---- planning ---- */

static tri_status fill_profile(struct agreement *agreement, tri_error *err)
{
    struct profile *profile = &agreement->profile;
    *profile = (struct profile){
        .mem = agreement->mem, .count = agreement->count, .with_params = agreement->count};
    profile->layers = mem_array(agreement->mem, agreement->count, sizeof *profile->layers);
    if (profile->layers == NULL)
        return fail_nomem(err, "the description of a job");
    for (uint32_t i = 0; i < agreement->count; i++) {
        const struct agree_layer *layer = &agreement->layers[i];
        uint32_t factors = layer->max_factor_rows;
        profile->layers[i] = (struct profile_layer){
            .name = (char *)(uintptr_t)layer->name,
            .kind = layer->kind == TRI_FC && factors == 0 ? TRI_OTHER : layer->kind,
            .rows = layer->rows,
            .cols = layer->cols,
            .bias = layer->bias ? layer->rows : 0,
            .applications = factors > 0 ? factors : 1, /* of a batch of 1: K */
        };
        profile->layers[i].params = (uint64_t)layer->rows * layer->cols + profile->layers[i].bias;
        profile->params += profile->layers[i].params;
    }
    return TRI_OK;
}

/* Schemes that can carry a job under these rules, among those that were allowed. */
static uint32_t runnable(uint32_t allowed, const struct core_rules *rules)
{
    uint32_t bits = 0;
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        const tri_scheme_ops *scheme = scheme_at(i);
        bool meets = scheme->home != TRI_HOME_WORKERS || !rules->consistency->each_push;
        if (scheme->runs && meets && (allowed == 0 || (allowed >> i & 1) != 0))
            bits |= UINT32_C(1) << i;
    }
    return bits;
}

/* A scheme of factors is for layers that have some; the others go by ps. */
static tri_status spare_dense(struct agreement *agreement, tri_error *err)
{
    const tri_scheme_ops *forced = agreement->book.forced;
    size_t ps;
    if (forced == NULL || forced->form != TRI_FORM_FACTORS)
        return TRI_OK;
    agreement->forced_for =
        mem_array(agreement->mem, agreement->count, sizeof(const tri_scheme_ops *));
    if (agreement->forced_for == NULL)
        return fail_nomem(err, "a plan");
    for (uint32_t i = 0; i < agreement->count; i++)
        if (agreement->profile.layers[i].kind != TRI_FC)
            agreement->forced_for[i] = scheme_find("ps", &ps);
    agreement->book.forced_for = agreement->forced_for;
    return TRI_OK;
}

static tri_status fill_book(struct agreement *agreement, tri_error *err)
{
    struct agree_options *options = &agreement->options;
    struct book *book = &agreement->book;
    options->schemes = runnable(options->schemes, &agreement->rules);
    if (options->schemes == 0) {
        fail(err, TRI_EINPUT, "none of the allowed schemes can run a job with consistency '%s'",
             options->consistency);
        fail_next(err, "allow ps");
        return TRI_EINPUT;
    }
    *book = (struct book){.profile = &agreement->profile,
                          .workers = options->workers,
                          .servers = options->servers,
                          .colocated = options->colocated,
                          .home = options->home,
                          .batch = 1,
                          .bits_s = options->bits_s,
                          .latency_s = options->latency_s,
                          .message_s = options->message_s,
                          .flops_s = options->flops_s,
                          .rule = options->rule,
                          .schemes = options->schemes,
                          .forced = book->forced,
                          .placement = book->placement,
                          .chunk_bytes = options->chunk_bytes,
                          .server_bytes = options->server_bytes,
                          .reproducible = options->reproducible,
                          .grid_rows = options->grid_rows,
                          .grid_cols = options->grid_cols};
    return spare_dense(agreement, err);
}

static tri_status settle(struct agreement *agreement, tri_error *err)
{
    const struct agree_options *options = &agreement->options;
    struct core_rules *rules = &agreement->rules;
    tri_status status = plan_make(&agreement->book, agreement->mem, &agreement->plan, err);
    if (status == TRI_OK)
        status = layout_make(agreement->plan, agreement->mem, &agreement->layout, err);
    if (status != TRI_OK)
        return status;
    rules->aggregate = options->aggregate;
    rules->replicated = options->replicated;
    rules->reproducible = options->reproducible;
    agreement->plan_hash =
        layout_hash(agreement->layout, core_rules_hash(rules, options->optimizer));
    return node_check(agreement->layout, rules, err);
}

static tri_status fill(struct agreement *agreement, const struct agree_layer *layers,
                       tri_error *err)
{
    struct spelled spelled;
    tri_status status = spell(agreement, &agreement->options, &spelled, err);
    if (status != TRI_OK || (status = keep_texts(agreement, layers, &spelled, err)) != TRI_OK ||
        (status = check_layers(agreement, err)) != TRI_OK ||
        (status = fill_profile(agreement, err)) != TRI_OK ||
        (status = fill_book(agreement, err)) != TRI_OK ||
        (status = agree_write_hello(agreement, err)) != TRI_OK)
        return status;
    return settle(agreement, err);
}

tri_status agree_make(const struct agree_layer *layers, uint32_t count,
                      const struct agree_options *options, const struct mem *mem,
                      struct agreement **out, tri_error *err)
{
    tri_status status = check_cluster(options, err);
    if (status != TRI_OK)
        return status;
    struct agreement *agreement = mem_array(mem, 1, sizeof *agreement);
    if (agreement == NULL)
        return fail_nomem(err, "the description of a job");
    agreement->mem = mem;
    agreement->options = *options;
    agreement->count = count;
    buf_init(&agreement->hello, mem);
    /* First of all: from here on home is the agreement's to free. */
    status = keep_homes(agreement, err);
    if (status == TRI_OK)
        status = check_homes(agreement, err);
    if (status == TRI_OK)
        status = fill(agreement, layers, err);
    if (status == TRI_OK)
        *out = agreement;
    else
        agree_free(agreement);
    return status;
}

void agree_free(struct agreement *agreement)
{
    if (agreement == NULL)
        return;
    layout_free(agreement->layout);
    plan_free(agreement->plan);
    buf_fini(&agreement->hello);
    mem_free(agreement->mem, agreement->profile.layers);
    mem_free(agreement->mem, agreement->layers);
    mem_free(agreement->mem, (void *)agreement->forced_for);
    mem_free(agreement->mem, agreement->texts);
    mem_free(agreement->mem, (void *)(uintptr_t)agreement->options.home);
    mem_free(agreement->mem, agreement);
}

const char *agree_scheme(const struct agreement *agreement, uint32_t layer)
{
    return scheme_at(agreement->plan->layers[layer].scheme)->name;
}

tri_status agree_query(const struct agreement *agreement, const char *name, char *out, size_t cap,
                       tri_error *err)
{
    return plan_query(agreement->plan, name, out, cap, err);
}
