/* The server's side of ps and adam: memory, and messages. */
#include "core/server.h"

#include "base/error.h"
#include "core/server_inside.h"
#include "mod/consistency.h"

/* ---- memory ---- */

static uint32_t most_parts(const struct layout *layout, const struct layout_unit *unit)
{
    const struct layout_layer *layer = &layout->layers[unit->layer];
    return layer->form == TRI_FORM_FACTORS ? layout_factor_parts(layout, layer, layer->factor_rows)
                                           : unit->parts;
}

/* What only some rules need; NULL otherwise. */
static bool init_replies(const struct server *server, struct server_unit *unit)
{
    const struct mem *mem = server->mem;
    size_t ranks = server->layout->workers, words = bits_words(ranks);
    if (!core_has_replies(&server->rules))
        return true;
    unit->due = mem_array(mem, words, sizeof *unit->due);
    unit->replying = mem_array(mem, words, sizeof *unit->replying);
    unit->held = mem_array(mem, words, sizeof *unit->held);
    unit->pushed = mem_array(mem, ranks, sizeof *unit->pushed);
    unit->read = mem_array(mem, ranks, sizeof *unit->read);
    unit->late_clock = mem_array(mem, ranks, sizeof *unit->late_clock);
    unit->left_out = mem_array(mem, words, sizeof *unit->left_out);
    unit->joined = mem_array(mem, words, sizeof *unit->joined);
    if (unit->due == NULL || unit->replying == NULL || unit->held == NULL || unit->pushed == NULL ||
        unit->read == NULL || unit->late_clock == NULL || unit->left_out == NULL ||
        unit->joined == NULL)
        return false;
    for (size_t r = 0; r < ranks; r++) {
        unit->pushed[r] = server->first;
        unit->late_clock[r] = UINT64_MAX;
    }
    return true;
}

static tri_status init_unit(const struct server *server, struct server_unit *unit, uint32_t number,
                            tri_error *err)
{
    const struct layout_unit *owned = &server->layout->units[number];
    const struct mem *mem = server->mem;
    uint32_t ranks = server->layout->workers, parts = most_parts(server->layout, owned);
    unit->unit = number;
    unit->version = server->first;
    unit->stepping = UINT32_MAX;
    unit->summed = mem_array(mem, bits_words(ranks), sizeof *unit->summed);
    unit->counted = mem_array(mem, bits_words(ranks), sizeof *unit->counted);
    unit->inits = mem_array(mem, bits_words(owned->parts), sizeof *unit->inits);
    unit->init_claims = mem_array(mem, bits_words(owned->parts), sizeof *unit->init_claims);
    if (unit->summed == NULL || unit->counted == NULL || unit->inits == NULL ||
        unit->init_claims == NULL || !init_replies(server, unit))
        return fail_nomem(err, "a server");
    tri_status status = gather_init(&unit->gather, mem, ranks, parts, err);
    if (status == TRI_OK && core_leaves_out(&server->rules))
        status = gather_init(&unit->late, mem, ranks, parts, err);
    if (status == TRI_OK)
        gather_open(&unit->gather, server->first);
    return status;
}

static bool init_ranks(struct server *server)
{
    const struct mem *mem = server->mem;
    uint32_t ranks = server->layout->workers;
    server->live = mem_array(mem, bits_words(ranks), sizeof *server->live);
    server->present = mem_array(mem, bits_words(ranks), sizeof *server->present);
    if (server->live == NULL || server->present == NULL)
        return false;
    bits_fill(server->live, ranks);
    if (!core_leaves_out(&server->rules))
        return true;
    server->absent = mem_array(mem, ranks, sizeof *server->absent);
    server->noted = mem_array(mem, ranks, sizeof *server->noted);
    server->misses = mem_array(mem, ranks, sizeof *server->misses);
    server->agreed = mem_array(mem, bits_words(ranks), sizeof *server->agreed);
    server->last = mem_array(mem, bits_words(ranks), sizeof *server->last);
    return server->absent != NULL && server->noted != NULL && server->misses != NULL &&
           server->agreed != NULL && server->last != NULL;
}

tri_status server_init(struct server *server, const struct layout *layout,
                       const struct core_rules *rules, uint32_t number, uint64_t first,
                       const struct mem *mem, tri_error *err)
{
    *server = (struct server){.mem = mem,
                              .layout = layout,
                              .rules = *rules,
                              .number = number,
                              .node = layout->server_node[number],
                              .first = first,
                              .consistency = {.bound = rules->bound, .workers = layout->workers}};
    server->rules.replicated = rules->replicated && !rules->aggregate;
    if (server->rules.consistency == NULL)
        server->rules.consistency = consistency_find("bsp");
    server->units = mem_array(mem, layout->server_units[number], sizeof *server->units);
    if (!init_ranks(server) || server->units == NULL) {
        server_fini(server);
        return fail_nomem(err, "a server");
    }
    tri_status status = TRI_OK;
    for (uint32_t i = 0; i < layout->unit_count && status == TRI_OK; i++)
        if (layout->units[i].server == number) {
            struct server_unit *unit = &server->units[server->unit_count];
            server->unit_count++; /* from here on server_fini() frees what it has */
            status = init_unit(server, unit, i, err);
        }
    if (status != TRI_OK)
        server_fini(server);
    return status;
}

static void fini_unit(const struct mem *mem, struct server_unit *unit)
{
    gather_fini(&unit->gather, mem);
    gather_fini(&unit->late, mem);
    mem_free(mem, unit->summed);
    mem_free(mem, unit->counted);
    mem_free(mem, unit->inits);
    mem_free(mem, unit->init_claims);
    mem_free(mem, unit->due);
    mem_free(mem, unit->replying);
    mem_free(mem, unit->held);
    mem_free(mem, unit->pushed);
    mem_free(mem, unit->read);
    mem_free(mem, unit->late_clock);
    mem_free(mem, unit->left_out);
    mem_free(mem, unit->joined);
}

void server_fini(struct server *server)
{
    for (uint32_t i = 0; server->units != NULL && i < server->unit_count; i++)
        fini_unit(server->mem, &server->units[i]);
    mem_free(server->mem, server->units);
    mem_free(server->mem, server->live);
    mem_free(server->mem, server->present);
    mem_free(server->mem, server->absent);
    mem_free(server->mem, server->noted);
    mem_free(server->mem, server->misses);
    mem_free(server->mem, server->agreed);
    mem_free(server->mem, server->last);
    *server = (struct server){0};
}

/* ---- from a message to its unit and place ---- */

/* The unit that a part of a layer belongs to, NULL if it is not this server's. */
static struct server_unit *unit_of(const struct server *server, const struct message *message)
{
    const struct layout *layout = server->layout;
    if (message->layer >= layout->layer_count)
        return NULL;
    const struct layout_layer *layer = &layout->layers[message->layer];
    uint32_t unit = layer->first_unit;
    if (message->kind != WIRE_FACTORS) {
        if (message->part >= layer->parts)
            return NULL;
        unit = layout->parts[layer->first_part + message->part].unit;
    }
    const struct layout_unit *found = &layout->units[unit];
    return found->server == server->number ? &server->units[found->index] : NULL;
}

/* The number of a message's part within its update. */
static uint32_t part_within(const struct server *server, const struct server_unit *unit,
                            const struct message *message)
{
    return message->kind == WIRE_FACTORS ? message->part
                                         : message->part - owned_by(server, unit)->first_part;
}

/* Is this an update of the form and size that the unit's layer takes, of its sender's own? */
static bool fits(const struct server *server, const struct server_unit *unit,
                 const struct message *message)
{
    const struct layout *layout = server->layout;
    const struct layout_layer *layer = &layout->layers[owned_by(server, unit)->layer];
    if (message->rank >= layout->workers || message->from != message->rank ||
        (message->kind != WIRE_NOTHING && message->count == 0))
        return false;
    if (layer->form == TRI_FORM_DENSE || message->kind == WIRE_NOTHING)
        return message->kind == WIRE_PUSH || message->kind == WIRE_NOTHING;
    return message->kind == WIRE_FACTORS && message->rows > 0 &&
           message->rows <= layer->factor_rows &&
           message->parts == layout_factor_parts(layout, layer, message->rows) &&
           message->part < message->parts;
}

/* Is it of the clock that this rank's updates are taken for now? */
static bool is_open(const struct server *server, const struct server_unit *unit,
                    const struct message *message)
{
    if (steps_each(server))
        return message->clock == unit->pushed[message->rank];
    return message->clock == unit->version && !unit->closing;
}

struct core_ref server_landing(struct server *server, const struct message *message)
{
    struct core_ref nowhere = {.space = CORE_NOWHERE};
    struct server_unit *unit = unit_of(server, message);
    if (unit == NULL)
        return nowhere;
    uint32_t within = part_within(server, unit, message);
    if (message->kind == WIRE_INIT)
        return bits_has(unit->inits, within) || !bits_add(unit->init_claims, within)
                   ? nowhere
                   : server_part_ref(server, unit, CORE_SHARD, message->part);
    if (message->kind == WIRE_NOTHING || !fits(server, unit, message) ||
        !is_open(server, unit, message) || !gather_claim(&unit->gather, message, within))
        return nowhere;
    if (message->kind == WIRE_PUSH) {
        struct core_ref ref = server_part_ref(
            server, unit, core_has_slots(&server->rules) ? CORE_LANDING : CORE_ADD, message->part);
        ref.rank = message->rank;
        return ref;
    }
    uint32_t first = layout_factor_first(message->rows, message->parts, message->part);
    uint32_t last = layout_factor_first(message->rows, message->parts, message->part + 1);
    return (struct core_ref){.space = CORE_PRODUCTS,
                             .index = owned_by(server, unit)->index,
                             .rank = message->rank,
                             .first = first,
                             .count = last - first};
}

void server_lost(struct server *server, const struct message *message)
{
    struct server_unit *unit = unit_of(server, message);
    if (unit == NULL)
        return;
    uint32_t within = part_within(server, unit, message);
    if (message->kind == WIRE_INIT)
        bits_remove(unit->init_claims, within);
    else if (fits(server, unit, message) && is_open(server, unit, message))
        gather_release(&unit->gather, message, within);
}

bool server_adds(const struct server *server, const struct message *message)
{
    const struct server_unit *unit = unit_of(server, message);
    return unit != NULL && fits(server, unit, message) && is_open(server, unit, message) &&
           !bits_has(unit->gather.whole, message->rank);
}

/* ---- messages ---- */

/* Initial values came from worker 0. */
static void take_init(struct server *server, struct server_unit *unit,
                      const struct message *message, const struct core_out *out)
{
    const struct layout_unit *owned = owned_by(server, unit);
    if (!message->landed || !bits_add(unit->inits, part_within(server, unit, message)) ||
        ++unit->init_parts < owned->parts)
        return;
    server_forward_init(server, unit, out);
    server_advance(server, unit, out);
}

static bool rates_agree(const struct server *server, struct server_unit *unit,
                        const struct message *message, const struct core_out *out)
{
    if (steps_each(server) || gather_rates_agree(&unit->gather, message))
        return true;
    core_fail(out, TRI_EMISMATCH,
              "learning rates differ in layer '%.60s', clock %llu: rank %u has %g, rank %u has %g",
              server->layout->layers[owned_by(server, unit)->layer].name,
              (unsigned long long)message->clock, unit->gather.lr_rank,
              (double)core_float(unit->gather.lr_bits), message->rank,
              (double)core_float(message->lr_bits));
    return false;
}

static void take_update(struct server *server, struct server_unit *unit,
                        const struct message *message, const struct core_out *out)
{
    if (!fits(server, unit, message))
        return;
    if (!is_open(server, unit, message)) {
        server_take_late(server, unit, message, out);
        return;
    }
    if (!message->landed)
        return;
    uint32_t parts = message->kind == WIRE_FACTORS ? message->parts : owned_by(server, unit)->parts;
    uint32_t part = part_within(server, unit, message);
    if (gather_part(&unit->gather, message, part, parts) == GATHER_WHOLE &&
        rates_agree(server, unit, message, out))
        server_advance(server, unit, out);
}

/* One message for all units of a layer that this server owns. */
static void take_nothing(struct server *server, const struct message *message,
                         const struct core_out *out)
{
    const struct layout *layout = server->layout;
    if (message->layer >= layout->layer_count)
        return;
    const struct layout_layer *layer = &layout->layers[message->layer];
    for (uint32_t i = 0; i < layer->units; i++) {
        const struct layout_unit *owned = &layout->units[layer->first_unit + i];
        if (owned->server != server->number)
            continue;
        struct server_unit *unit = &server->units[owned->index];
        if (!fits(server, unit, message))
            return;
        if (!is_open(server, unit, message))
            server_take_late(server, unit, message, out);
        else if (gather_nothing(&unit->gather, message->rank) == GATHER_WHOLE)
            server_advance(server, unit, out);
    }
}

void server_tell(const struct server *server, struct message message, const struct core_out *out)
{
    message.role = CORE_COORDINATOR;
    message.from = server->node;
    message.owner = server->number;
    core_send(out, 0, &message, (struct core_ref){.space = CORE_NOWHERE});
}

/* The coordinator wants all units at a version ahead. */
static void take_mark(struct server *server, const struct message *message,
                      const struct core_out *out)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < server->unit_count; i++)
        newest = server->units[i].version > newest ? server->units[i].version : newest;
    if (message->clock <= server->mark)
        return; /* a proposal that a later one has overtaken */
    bool accepted = newest < message->clock;
    server->mark = accepted ? message->clock : 0;
    server->to_save = accepted ? server->unit_count : 0;
    for (uint32_t i = 0; i < server->unit_count; i++)
        server->units[i].to_copy = 0; /* for a mark that this one takes the place of */
    server_tell(
        server,
        (struct message){
            .kind = WIRE_MARKED, .clock = message->clock, .count = newest, .accepted = accepted},
        out);
}

void server_message(struct server *server, const struct message *message,
                    const struct core_out *out)
{
    if (message->kind == WIRE_MARK && message->mark == CORE_MARK_JOIN) {
        if (message->clock > 0)
            server_take_join(server, message, out);
        return;
    }
    if (message->kind == WIRE_MARK) {
        take_mark(server, message, out);
        return;
    }
    if (message->kind == WIRE_NOTHING) {
        take_nothing(server, message, out);
        return;
    }
    struct server_unit *unit = unit_of(server, message);
    if (unit == NULL)
        return;
    if (message->kind == WIRE_INIT)
        take_init(server, unit, message, out);
    else if (message->kind == WIRE_PUSH || message->kind == WIRE_FACTORS)
        take_update(server, unit, message, out);
}

/* ---- views and waits ---- */

void server_view(struct server *server, const uint64_t *departed, const struct core_out *out)
{
    uint32_t ranks = server->layout->workers;
    for (uint32_t r = 0; r < ranks; r++)
        if (bits_has(departed, r))
            bits_remove(server->live, r);
    server->consistency.workers = bits_count(server->live, ranks);
    for (uint32_t i = 0; i < server->unit_count; i++) {
        if (steps_each(server))
            server_find_least(server, &server->units[i]);
        server_advance(server, &server->units[i], out);
    }
}

/* Who a unit waits for, in server->present; false when for nobody. */
static bool find_missing(const struct server *server, const struct server_unit *unit)
{
    uint32_t ranks = server->layout->workers;
    if (unit->busy || unit->closing)
        return false;
    if (steps_each(server)) {
        if (!bits_any(unit->held, ranks))
            return false;
        bits_clear(server->present, ranks);
        for (uint32_t r = 0; r < ranks; r++)
            if (bits_has(server->live, r) && unit->pushed[r] == unit->version)
                bits_add(server->present, r);
        return true;
    }
    if (unit->gather.in == 0)
        return false;
    server_find_present(server, unit);
    for (size_t w = 0; w < bits_words(ranks); w++)
        server->present[w] &= ~unit->gather.whole[w];
    return bits_any(server->present, ranks);
}

/* Of those that the open clock waits for, are half in? */
static bool half_is_in(const struct server *server, const struct server_unit *unit)
{
    uint32_t ranks = server->layout->workers, in = 0;
    server_find_present(server, unit);
    for (size_t w = 0; w < bits_words(ranks); w++)
        in += (uint32_t)__builtin_popcountll(server->present[w] & unit->gather.whole[w]);
    return 2 * in >= bits_count(server->present, ranks);
}

void server_tick(struct server *server, struct watch *watch, uint64_t now,
                 const struct core_out *out)
{
    uint32_t ranks = server->layout->workers, told = UINT32_MAX;
    for (uint32_t i = 0; i < server->unit_count; i++) {
        struct server_unit *unit = &server->units[i];
        uint32_t layer = owned_by(server, unit)->layer;
        if (server->rules.deadline > 0 && unit->half == 0 && half_is_in(server, unit))
            unit->half = now;
        if (unit->half != 0 && now - unit->half >= server->rules.deadline &&
            server->rules.deadline > 0 && server_leaves_out(server, unit)) {
            server_begin_close(server, unit);
            server_advance(server, unit, out);
        }
        bool waits = find_missing(server, unit);
        bool tell = watch_waits(watch, &unit->wait, waits, unit->version, now);
        if (tell && layer != told) {
            struct watch_missing missing = {.what = server->layout->layers[layer].name,
                                            .who = "worker",
                                            .set = server->present,
                                            .members = ranks,
                                            .layer = layer};
            watch_tell(watch, &unit->wait, &missing, now, out);
            told = layer;
        }
        for (uint32_t r = 0; r < ranks && watch_overdue(watch, &unit->wait, now); r++)
            if (bits_has(server->present, r) && r != server->node)
                bits_add(watch->accused, r);
    }
}

/* ---- questions of the host ---- */

const uint64_t *server_waits_for(const struct server *server, uint32_t index)
{
    return find_missing(server, &server->units[index]) ? server->present : NULL;
}

uint32_t server_factor_rows(const struct server *server, uint32_t index, uint32_t rank)
{
    const struct server_unit *unit = &server->units[index];
    bool used =
        gather_has_values(&unit->gather, rank) && (!steps_each(server) || unit->stepping == rank);
    return used ? unit->gather.rank[rank].rows : 0;
}

bool server_replies(const struct server *server, uint32_t index, uint32_t rank)
{
    return bits_has(server->units[index].replying, rank);
}
