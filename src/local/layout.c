/* Where everything lies in a region. */
#include <string.h>

#include "local/sets.h"
#include "os/pages.h"

uint32_t layer_stride(const struct local_layer *layer)
{
    return layer->cols + (layer->bias > 0 ? 1 : 0);
}

static uint64_t up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static bool is_name(const char *text)
{
    size_t len = strlen(text);
    if (len == 0 || len >= LOCAL_NAME_BYTES || text[0] == '.')
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_' || c == '.'))
            return false;
    }
    return true;
}

static tri_status check_numbers(const struct local_options *options, tri_error *err)
{
    if (options->name == NULL || !is_name(options->name)) {
        fail(err, TRI_EINPUT, "'%.80s' cannot be the name of a job",
             options->name != NULL ? options->name : "");
        fail_next(err, "take up to %d letters, digits, '-', '_' and '.'", LOCAL_NAME_BYTES - 1);
        return TRI_EINPUT;
    }
    if (options->learners == 0 || options->learners > LOCAL_LEARNERS_MAX) {
        fail(err, TRI_EINPUT, "%u learners are not possible", options->learners);
        fail_next(err, "take 1 to %d", LOCAL_LEARNERS_MAX);
        return TRI_EINPUT;
    }
    if (options->slots > LOCAL_SLOTS_MAX) {
        fail(err, TRI_EINPUT, "%u slots per learner are not possible", options->slots);
        fail_next(err, "take 1 to %d", LOCAL_SLOTS_MAX);
        return TRI_EINPUT;
    }
    if (options->layer_count == 0 || options->layers == NULL)
        return fail(err, TRI_EARG, "a job needs at least one layer");
    return TRI_OK;
}

/* u, v and, of windows, where they begin. */
static uint64_t factors_floats(const struct local_layer *layer)
{
    const uint64_t samples = layer->max_factors, each = up(samples * layer->rows, FLOATS);
    const uint64_t width = layer->window > 0 ? layer->window : layer->cols;
    return samples > 0 ? each * (layer->window > 0 ? 2 : 1) + up(samples * width, FLOATS) : 0;
}

static tri_status describe_layer(const struct local_layer_info *info, struct local_layer *out,
                                 tri_error *err)
{
    size_t len = strlen(info->name);
    if (len == 0 || len >= sizeof out->name || info->rows == 0 || info->cols == 0) {
        fail(err, TRI_EINPUT, "layer '%.60s' of %u x %u cannot be", info->name, info->rows,
             info->cols);
        fail_next(err, "a layer has rows, columns and a name of up to %d bytes",
                  LOCAL_NAME_BYTES - 1);
        return TRI_EINPUT;
    }
    if (info->common && (info->max_factors == 0 || info->window > 0 || info->dense_too))
        return fail(err, TRI_EARG, "layer '%.60s' is common, and takes more than factors",
                    info->name);
    *out = (struct local_layer){.rows = info->rows,
                                .cols = info->cols,
                                .bias = info->bias ? info->rows : 0,
                                .max_rows = info->max_rows,
                                .max_factors = info->max_factors,
                                .window = info->window,
                                .common = info->common,
                                .dense = (info->max_rows == 0 && info->max_factors == 0) ||
                                         info->dense_too};
    memcpy(out->name, info->name, len);
    out->floats = (uint64_t)info->rows * info->cols + out->bias;
    uint64_t rows = up(info->max_rows, FLOATS) + (uint64_t)info->max_rows * layer_stride(out);
    uint64_t dense = out->dense ? out->floats : 0, factors = factors_floats(out);
    out->room_floats = up(rows > dense ? rows : dense, FLOATS);
    if (factors > out->room_floats)
        out->room_floats = factors;
    return TRI_OK;
}

/* Common layers lie in sets, the others in copies. */
static void place_layer(struct head *head, struct local_layer *layer)
{
    uint64_t *end = layer->common ? &head->set_floats : &head->copy_floats;
    const uint64_t floats = up(layer->floats, FLOATS);
    layer->offset = head->floats;
    layer->place = *end;
    head->floats += floats;
    *end += floats;
}

static tri_status set_layers(const struct local_options *options, struct head *head,
                             struct local_layer *layers, uint64_t *room, tri_error *err)
{
    const uint64_t most = (uint64_t)1 << 40; /* floats: far beyond any machine, and no overflow */
    *room = 0;
    for (uint32_t i = 0; i < options->layer_count; i++) {
        tri_status status = describe_layer(&options->layers[i], &layers[i], err);
        if (status != TRI_OK)
            return status;
        if (layers[i].common && head->mode != LOCAL_REPLICAS)
            return fail(err, TRI_EARG, "layer '%s' is common, which only mode replicas knows",
                        layers[i].name);
        layers[i].room_offset = *room;
        place_layer(head, &layers[i]);
        *room += layers[i].room_floats;
        if (head->floats > most || *room > most)
            return fail(err, TRI_EINPUT, "the layers have too many weights for one machine");
    }
    return TRI_OK;
}

/* Learners that share cores run in turns of milliseconds: slots let one do without the other so
 * long. */
static uint32_t slots_for(uint64_t slot_bytes)
{
    enum { MOST = 16, LEAST = 2 };
    const uint64_t fit = ((uint64_t)64 << 20) / slot_bytes;
    return fit > MOST ? MOST : fit < LEAST ? LEAST : (uint32_t)fit;
}

static void set_places(struct head *head, uint64_t room)
{
    uint64_t at = up(sizeof *head, 4096);
    head->room_offset = up(sizeof(struct slot) + head->layer_count * sizeof(struct part), LINE);
    head->slot_bytes = up(head->room_offset + room * sizeof(float), 4096);
    head->layers_at = at;
    at = up(at + head->layer_count * sizeof(struct local_layer), LINE);
    head->counts_at = at;
    at = up(at + 2 * (uint64_t)head->layer_count * sizeof(uint64_t), LINE);
    head->seats_at = at;
    at = up(at + ((uint64_t)head->learners + 1) * sizeof(struct seat), LINE);
    head->taken_at = at;
    if (head->mode == LOCAL_REPLICAS) /* a row for each learner, the first base and the two sets */
        at += ((uint64_t)head->learners + 3) * up(head->learners * sizeof(uint64_t), LINE);
    head->copies = head->mode == LOCAL_REPLICAS ? (uint64_t)head->learners + 1 : 1;
    head->copy_floats = up(head->copy_floats, 4096 / sizeof(float));
    head->set_floats = up(head->set_floats, 4096 / sizeof(float));
    head->weights_at = at = up(at, 4096);
    at += head->copies * head->copy_floats * sizeof(float);
    head->sets_at = at;
    at += 2 * head->set_floats * sizeof(float);
    head->state_at = at;
    at = up(at + head->state_floats * sizeof(float), 4096);
    head->slots_at = at;
    if (head->slots == 0)
        head->slots = head->mode == LOCAL_REPLICAS ? slots_for(head->slot_bytes) : 2;
    /* Learners of a direct job step by themselves: no queues. */
    uint64_t slots = head->mode == LOCAL_DIRECT ? 0 : (uint64_t)head->learners * head->slots;
    head->bytes = at + slots * head->slot_bytes;
    if (head->bytes > PAGES_LARGE) /* or its end would lie in small pages */
        head->bytes = up(head->bytes, PAGES_LARGE);
}

tri_status local_layout_make(const struct local_options *options, struct head *head,
                             struct local_layer *layers, tri_error *err)
{
    uint64_t room;
    tri_status status = check_numbers(options, err);
    if (status != TRI_OK)
        return status;
    *head = (struct head){.layout = LOCAL_LAYOUT,
                          .head_bytes = sizeof *head,
                          .seat_bytes = sizeof(struct seat),
                          .mode = (uint32_t)options->mode,
                          .locked = options->locked,
                          .learners = options->learners,
                          .slots = options->slots,
                          .base = options->learners,
                          .set = SETS_FIRST,
                          .layer_count = options->layer_count};
    status = set_layers(options, head, layers, &room, err);
    if (status != TRI_OK)
        return status;
    struct optim optim = {0};
    status = options->optim != NULL ? TRI_OK : optim_read("sgd", &optim, err);
    if (options->optim != NULL)
        optim = *options->optim;
    if (status != TRI_OK)
        return status;
    if (options->mode == LOCAL_REPLICAS &&
        (strcmp(optim.ops->name, "sgd") != 0 || options->locked)) {
        fail(err, TRI_EINPUT, "mode replicas does not go with %s",
             options->locked ? "locked" : optim.ops->name);
        fail_why(err, "%s",
                 options->locked ? "nobody reads weights that another writes"
                                 : "what an optimiser remembers depends on the order of gradients, "
                                   "and copies would drift apart");
        fail_next(err, options->locked ? "leave it out" : "take optimizer sgd, or another mode");
        return TRI_EINPUT;
    }
    head->state_floats = head->floats * optim.ops->state_floats;
    memcpy(head->optim_args, optim.args, sizeof optim.args);
    strncpy(head->optim_name, optim.ops->name, sizeof head->optim_name - 1);
    strncpy(head->name, options->name, sizeof head->name - 1);
    set_places(head, room);
    memcpy(head->magic, LOCAL_MAGIC, sizeof head->magic);
    return TRI_OK;
}

static bool fits(const struct head *head)
{
    return head->head_bytes == sizeof *head && head->seat_bytes == sizeof(struct seat) &&
           head->layer_count > 0 && head->learners > 0 && head->learners <= LOCAL_LEARNERS_MAX &&
           head->slots > 0 && head->slots <= LOCAL_SLOTS_MAX && head->mode < LOCAL_MODES &&
           head->layers_at <= head->counts_at && head->counts_at <= head->seats_at &&
           head->seats_at <= head->taken_at && head->taken_at <= head->weights_at &&
           head->weights_at <= head->sets_at && head->sets_at <= head->state_at &&
           head->state_at <= head->slots_at && head->slots_at <= head->bytes;
}

tri_status local_layout_check(const void *base, size_t bytes, tri_error *err)
{
    const struct head *head = base;
    if (bytes < sizeof *head || memcmp(head->magic, LOCAL_MAGIC, sizeof head->magic) != 0)
        return fail(err, TRI_EINPUT, "this is not the region of a job");
    if (head->layout != LOCAL_LAYOUT || !fits(head) || head->bytes != bytes) {
        fail(err, TRI_EINPUT, "the region of this job has another layout (%u, here %d)",
             head->layout, LOCAL_LAYOUT);
        fail_next(err, "run all processes of a job with the same version of trident");
        return TRI_EINPUT;
    }
    return TRI_OK;
}
