/* Numbering layers, units and parts. */
#include "core/layout.h"

#include <stdio.h>
#include <string.h>

#include "wire/hash.h"

static uint64_t parts_of(uint64_t floats, uint32_t part_floats)
{
    return (floats + part_floats - 1) / part_floats;
}

/* Every unit, part and letter there will be. */
static void count(const struct plan *plan, uint32_t part_floats, uint64_t *units, uint64_t *parts,
                  uint64_t *names)
{
    *units = *parts = *names = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_layer *layer = &plan->layers[i];
        uint64_t before = *parts;
        if (layer->pieces == 0)
            *parts += parts_of(layer->profile->params, part_floats);
        for (size_t j = 0; j < layer->pieces; j++)
            *parts += parts_of(plan->piece[layer->first_piece + j].floats, part_floats);
        *units +=
            plan->book->reproducible ? (layer->pieces > 0 ? layer->pieces : 1) : *parts - before;
        *names += strlen(layer->profile->name) + 1;
    }
}

/* The first worker, from the owner's node on, that is on another node. */
static uint32_t witness_of(const struct layout *layout, uint32_t server)
{
    uint32_t node = server == LAYOUT_NO_SERVER ? 0 : layout->server_node[server];
    uint32_t witness = (node + 1) % layout->workers;
    return server == LAYOUT_NO_SERVER || witness == node ? LAYOUT_NO_WITNESS : witness;
}

static void add_piece(struct layout *layout, uint32_t server, uint64_t first, uint64_t floats)
{
    uint32_t number = layout->unit_count++, index = layout->layer_count - 1;
    struct layout_layer *layer = &layout->layers[index];
    struct layout_unit *unit = &layout->units[number];
    *unit = (struct layout_unit){
        .layer = index,
        .server = server,
        .index = server == LAYOUT_NO_SERVER ? 0 : layout->server_units[server]++,
        .witness = witness_of(layout, server),
        .first = first,
        .floats = floats,
        .first_part = layer->parts,
        .parts = (uint32_t)parts_of(floats, layout->part_floats),
    };
    layer->units++;
    /* stamp[s] is the last layer that noted server s, plus one */
    if (server != LAYOUT_NO_SERVER && layout->stamp[server] != index + 1) {
        layout->stamp[server] = index + 1;
        layout->owners[layout->owner_count++] = server;
        layer->owners++;
    }
    for (uint64_t done = 0; done < floats; layer->parts++) {
        uint64_t left = floats - done;
        uint32_t most = layout->part_floats;
        struct layout_part *part = &layout->parts[layout->part_count++];
        *part = (struct layout_part){
            .unit = number, .floats = left < most ? (uint32_t)left : most, .first = first + done};
        done += part->floats;
    }
}

/* A piece is a unit. Where updates are added to the sum as they come it is cut into units of
 * one part each, so that what is in the sum of a unit is always the whole of an update. */
static void add_unit(struct layout *layout, uint32_t server, uint64_t first, uint64_t floats,
                     bool whole)
{
    uint64_t most = whole ? floats : layout->part_floats;
    for (uint64_t done = 0; done < floats; done += most)
        add_piece(layout, server, first + done, floats - done < most ? floats - done : most);
}

static void add_layer(struct layout *layout, const struct plan *plan,
                      const struct plan_layer *planned, const char *name)
{
    const tri_scheme_ops *scheme = scheme_at(planned->scheme);
    layout->on_workers += scheme->home == TRI_HOME_WORKERS;
    layout->layers[layout->layer_count++] = (struct layout_layer){
        .name = name,
        .home = scheme->home,
        .form = scheme->form,
        .rows = (uint32_t)planned->profile->rows,
        .cols = (uint32_t)planned->profile->cols,
        .bias = planned->profile->bias > 0,
        .floats = planned->profile->params,
        .factor_rows = (uint32_t)planned->shape.factor_rows,
        .first_unit = layout->unit_count,
        .first_part = layout->part_count,
        .first_owner = layout->owner_count,
    };
    if (planned->pieces == 0)
        add_unit(layout, LAYOUT_NO_SERVER, 0, planned->profile->params, true);
    for (size_t i = 0; i < planned->pieces; i++) {
        const struct plan_piece *piece = &plan->piece[planned->first_piece + i];
        add_unit(layout, piece->server, piece->first, piece->floats,
                 plan->book->reproducible || scheme->form == TRI_FORM_FACTORS);
    }
}

static void add_nodes(struct layout *layout, const struct book *book)
{
    layout->workers = book->workers;
    layout->servers = book->servers;
    layout->nodes = book->workers + book->servers - book->colocated;
    for (uint32_t s = 0; s < book->servers; s++)
        layout->server_node[s] = s >= book->colocated ? book->workers + s - book->colocated
                                 : book->home != NULL ? book->home[s]
                                                      : s;
}

/* A plan may name schemes that no job can run yet, and sizes that no message can have. */
static tri_status check_layers(const struct plan *plan, tri_error *err)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_layer *layer = &plan->layers[i];
        const tri_scheme_ops *scheme = scheme_at(layer->scheme);
        double row_bytes = 4 * (layer->shape.rows + layer->shape.cols);
        if (!scheme->runs)
            return fail(err, TRI_EINPUT,
                        "layer '%.60s' is planned with scheme '%s', which can "
                        "only be planned with",
                        layer->profile->name, scheme->name);
        if (scheme->form == TRI_FORM_FACTORS &&
            (layer->shape.factor_rows > UINT32_MAX || row_bytes > 1 << 30))
            return fail(err, TRI_EINPUT, "the factors of layer '%.60s' are too large to be sent",
                        layer->profile->name);
    }
    return TRI_OK;
}

tri_status layout_make(const struct plan *plan, const struct mem *mem, struct layout **out,
                       tri_error *err)
{
    tri_status status = check_layers(plan, err);
    if (status != TRI_OK)
        return status;
    struct layout *layout = mem_array(mem, 1, sizeof *layout);
    if (layout == NULL)
        return fail_nomem(err, "the layout of a plan");
    uint64_t units, parts, names;
    layout->mem = mem;
    layout->part_floats = (uint32_t)(plan->cluster.chunk_bytes / 4);
    count(plan, layout->part_floats, &units, &parts, &names);
    layout->server_node = mem_array(mem, plan->book->servers, sizeof *layout->server_node);
    layout->server_units = mem_array(mem, plan->book->servers, sizeof *layout->server_units);
    layout->layers = mem_array(mem, plan->count, sizeof *layout->layers);
    layout->units = mem_array(mem, (size_t)units, sizeof *layout->units);
    layout->parts = mem_array(mem, (size_t)parts, sizeof *layout->parts);
    layout->owners = mem_array(mem, (size_t)units, sizeof *layout->owners);
    layout->stamp = mem_array(mem, plan->book->servers, sizeof *layout->stamp);
    layout->names = mem_array(mem, (size_t)names, 1);
    if (layout->server_node == NULL || layout->server_units == NULL || layout->layers == NULL ||
        layout->units == NULL || layout->parts == NULL || layout->owners == NULL ||
        layout->stamp == NULL || layout->names == NULL || units > UINT32_MAX ||
        parts > UINT32_MAX) {
        layout_free(layout);
        return fail_nomem(err, "the layout of a plan");
    }
    add_nodes(layout, plan->book);
    char *name = layout->names;
    for (size_t i = 0; i < plan->count; i++) {
        size_t length = strlen(plan->layers[i].profile->name) + 1;
        memcpy(name, plan->layers[i].profile->name, length);
        add_layer(layout, plan, &plan->layers[i], name);
        name += length;
    }
    *out = layout;
    return TRI_OK;
}

struct layout_name layout_name(const struct layout *layout, uint32_t node)
{
    struct layout_name name;
    (void)snprintf(name.text, sizeof name.text, node < layout->workers ? "rank %u" : "node %u",
                   (unsigned)node);
    for (uint32_t s = 0; s < layout->servers && node >= layout->workers; s++)
        if (layout->server_node[s] == node)
            (void)snprintf(name.text, sizeof name.text, "server %u", (unsigned)s);
    return name;
}

static uint64_t hash_numbers(uint64_t hash, const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[8];
        for (size_t j = 0; j < 8; j++)
            bytes[j] = (uint8_t)(numbers[i] >> 8 * j);
        hash = wire_hash64(hash, bytes, sizeof bytes);
    }
    return hash;
}

uint64_t layout_hash(const struct layout *layout, uint64_t hash)
{
    const uint64_t sizes[] = {layout->workers, layout->servers, layout->nodes, layout->part_floats};
    hash = hash_numbers(hash, sizes, sizeof sizes / sizeof sizes[0]);
    for (uint32_t i = 0; i < layout->servers; i++)
        hash = hash_numbers(hash, &(const uint64_t){layout->server_node[i]}, 1);
    for (uint32_t i = 0; i < layout->layer_count; i++) {
        const struct layout_layer *layer = &layout->layers[i];
        const uint64_t numbers[] = {layer->home, layer->form, layer->rows,
                                    layer->cols, layer->bias, layer->factor_rows};
        hash = hash_numbers(hash, numbers, sizeof numbers / sizeof numbers[0]);
    }
    for (uint32_t i = 0; i < layout->unit_count; i++) {
        const struct layout_unit *unit = &layout->units[i];
        const uint64_t numbers[] = {unit->layer, unit->server, unit->first, unit->floats};
        hash = hash_numbers(hash, numbers, sizeof numbers / sizeof numbers[0]);
    }
    return hash;
}

void layout_free(struct layout *layout)
{
    if (layout == NULL)
        return;
    mem_free(layout->mem, layout->server_node);
    mem_free(layout->mem, layout->server_units);
    mem_free(layout->mem, layout->layers);
    mem_free(layout->mem, layout->units);
    mem_free(layout->mem, layout->parts);
    mem_free(layout->mem, layout->owners);
    mem_free(layout->mem, layout->stamp);
    mem_free(layout->mem, layout->names);
    mem_free(layout->mem, layout);
}
