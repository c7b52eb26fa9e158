/* From chosen layers to the load of every server. */
#include "plan/place.h"

#include <math.h>

/* The pieces of all layers, side by side. */
struct pieces {
    uint64_t *bytes; /* of parameters */
    double *landing; /* of buffers that the owner keeps for it */
    uint32_t *owner;
    uint32_t *order;
    uint32_t *heap;
    size_t count;
    uint64_t rest; /* where the next odd element of an even split goes */
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t place_pieces(const struct book *book, const struct profile_layer *layer,
                      uint64_t chunk_bytes)
{
    uint64_t weight = layer->rows * layer->cols;
    switch (book->placement->cut) {
    case TRI_CUT_CHUNKS:
        return (4 * layer->params + chunk_bytes - 1) / chunk_bytes;
    case TRI_CUT_EVENLY:
        return least(weight, book->servers) + least(layer->bias, book->servers);
    case TRI_CUT_TENSORS:
        return 1 + (layer->bias > 0);
    case TRI_CUT_LAYERS:
        break;
    }
    return 1;
}

/* An even split of one tensor. The odd elements go on from where the last
 * tensor's ended, so that no server collects them all. */
static void cut_evenly(struct pieces *pieces, uint64_t elements, uint32_t servers)
{
    uint64_t parts = least(elements, servers);
    if (parts == 0)
        return;
    uint64_t odd = elements % parts;
    for (uint64_t i = 0; i < parts; i++) {
        uint64_t turn = (i + parts - pieces->rest % parts) % parts;
        pieces->bytes[pieces->count++] = 4 * (elements / parts + (turn < odd));
    }
    pieces->rest = (pieces->rest + odd) % parts;
}

static void cut_chunks(struct pieces *pieces, uint64_t bytes, uint64_t chunk_bytes)
{
    for (; bytes > 0; bytes -= least(bytes, chunk_bytes))
        pieces->bytes[pieces->count++] = least(bytes, chunk_bytes);
}

/* Appends the pieces of one layer. */
static void cut(const struct plan *plan, const struct plan_layer *layer, struct pieces *pieces)
{
    const struct book *book = plan->book;
    const struct profile_layer *profile = layer->profile;
    uint64_t weight = profile->rows * profile->cols;
    if (layer->pieces == 1) {
        pieces->bytes[pieces->count++] = 4 * profile->params;
        return;
    }
    switch (book->placement->cut) {
    case TRI_CUT_CHUNKS:
        cut_chunks(pieces, 4 * profile->params, (uint64_t)plan->cluster.chunk_bytes);
        break;
    case TRI_CUT_EVENLY:
        cut_evenly(pieces, weight, book->servers);
        cut_evenly(pieces, profile->bias, book->servers);
        break;
    case TRI_CUT_TENSORS:
        pieces->bytes[pieces->count++] = 4 * weight;
        pieces->bytes[pieces->count++] = 4 * profile->bias;
        break;
    case TRI_CUT_LAYERS:
        break; /* one piece, done above */
    }
}

/* Notes where the pieces from `from` on begin and end. */
static void note(const struct plan *plan, uint32_t layer, size_t from, const struct pieces *pieces)
{
    uint64_t first = 0;
    for (size_t i = from; i < pieces->count; i++) {
        uint64_t floats = pieces->bytes[i] / 4;
        plan->piece[i] = (struct plan_piece){.layer = layer, .first = first, .floats = floats};
        first += floats;
    }
}

static void cut_all(const struct plan *plan, struct pieces *pieces)
{
    double servers = plan->book->servers;
    for (size_t i = 0; i < plan->count; i++) {
        struct plan_layer *layer = &plan->layers[i];
        size_t first = layer->first_piece = pieces->count;
        if (layer->pieces == 0)
            continue;
        cut(plan, layer, pieces);
        note(plan, (uint32_t)i, first, pieces);
        /* A scheme prices a layer spread over all servers, or whole on one. */
        double buffers = layer->costs[layer->scheme].cost.server_buffer_bytes;
        if (scheme_at(layer->scheme)->home == TRI_HOME_PIECES)
            buffers *= servers;
        for (size_t j = first; j < pieces->count; j++)
            pieces->landing[j] =
                buffers * (double)pieces->bytes[j] / (4 * (double)layer->profile->params);
    }
}

/* How uneven the servers' loads are: standard deviation and most, each over the mean. */
static void measure(struct plan *plan)
{
    size_t servers = plan->book->servers;
    double mean = 0, square = 0, most = 0;
    for (size_t i = 0; i < servers; i++) {
        mean += (double)plan->server_bytes[i] / (double)servers;
        most = fmax(most, (double)plan->server_bytes[i]);
    }
    for (size_t i = 0; i < servers; i++) {
        double off = (double)plan->server_bytes[i] - mean;
        square += off * off / (double)servers;
    }
    plan->cv = mean > 0 ? sqrt(square) / mean : 0;
    plan->fullest_over_mean = mean > 0 ? most / mean : 0;
}

static void fullest(struct plan *plan, const struct pieces *pieces, double *room)
{
    for (size_t i = 0; i < pieces->count; i++)
        room[pieces->owner[i]] += pieces->landing[i];
    for (size_t s = 0; s < plan->book->servers; s++)
        plan->server_buffer_bytes = fmax(plan->server_buffer_bytes, round(room[s]));
}

static tri_status deal(struct plan *plan, struct pieces *pieces, tri_error *err)
{
    const struct book *book = plan->book;
    cut_all(plan, pieces);
    tri_placement_deal deal = {
        .bytes = pieces->bytes,
        .pieces = pieces->count,
        .servers = book->servers,
        .owner = pieces->owner,
        .load = plan->server_bytes,
        .order = pieces->order,
        .heap = pieces->heap,
    };
    book->placement->deal(&deal);
    for (size_t i = 0; i < pieces->count; i++)
        plan->piece[i].server = pieces->owner[i];
    measure(plan);
    double *room = mem_array(plan->mem, book->servers, sizeof *room);
    if (room == NULL)
        return fail_nomem(err, "the placement");
    fullest(plan, pieces, room);
    mem_free(plan->mem, room);
    return TRI_OK;
}

tri_status place(struct plan *plan, tri_error *err)
{
    size_t n = (size_t)plan->pieces;
    struct pieces pieces = {
        .bytes = mem_array(plan->mem, n, sizeof *pieces.bytes),
        .landing = mem_array(plan->mem, n, sizeof *pieces.landing),
        .owner = mem_array(plan->mem, n, sizeof *pieces.owner),
        .order = mem_array(plan->mem, n, sizeof *pieces.order),
        .heap = mem_array(plan->mem, plan->book->servers, sizeof *pieces.heap),
    };
    plan->piece = mem_array(plan->mem, n, sizeof *plan->piece);
    tri_status status;
    if (pieces.bytes == NULL || pieces.landing == NULL || pieces.owner == NULL ||
        pieces.order == NULL || pieces.heap == NULL || plan->piece == NULL)
        status = fail_nomem(err, "the placement");
    else
        status = deal(plan, &pieces, err);
    mem_free(plan->mem, pieces.bytes);
    mem_free(plan->mem, pieces.landing);
    mem_free(plan->mem, pieces.owner);
    mem_free(plan->mem, pieces.order);
    mem_free(plan->mem, pieces.heap);
    return status;
}
