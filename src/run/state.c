/* What checkpoints are made of: parts on their way to node 0, and back when a job is resumed.
 *
 * Messages of these kinds are the host's own; the core only says when to copy (CORE_OP_COPY) and
 * that all have (CORE_COMMIT). */
#include <inttypes.h>
#include <string.h>

#include "run/inside.h"
#include "store/floats.h"
#include "wire/resume.h"

/* Do workers keep the optimiser's state of this layer, rather than its server? */
static bool on_workers(const struct host *host, const struct layout_layer *layer)
{
    return core_worker_saves(&host->agreement->rules, layer->home);
}

static uint32_t planes_of(const struct host *host)
{
    return 1 + host->agreement->optim.ops->state_floats;
}

/* The planes of a layer that its owner copies into a checkpoint, as first and end. */
struct planes {
    uint32_t first, end;
};

static struct planes planes_to_copy(const struct host *host, enum core_role owner, uint32_t layer)
{
    const struct layout_layer *shape = &host->agreement->layout->layers[layer];
    bool params = core_worker_saves_params(&host->agreement->rules, shape->home);
    if (owner == CORE_SERVER)
        return (struct planes){params ? 1 : 0, planes_of(host)};
    return (struct planes){0, on_workers(host, shape) ? planes_of(host) : 1};
}

static const struct layout_part *part_of(const struct host *host, uint32_t layer, uint32_t part)
{
    const struct layout *layout = host->agreement->layout;
    return &layout->parts[layout->layers[layer].first_part + part];
}

/* ---- where a job begins ---- */

static tri_status begin_at(struct host *host, uint64_t clock, uint32_t layers, tri_error *err)
{
    host->first = clock;
    if (layers == 0)
        return TRI_OK;
    host->steps = mem_array(host->mem, layers, sizeof *host->steps);
    return host->steps != NULL ? TRI_OK : fail_nomem(err, "a node");
}

static void put_kept(const struct host_job *job, struct buf *kept)
{
    for (uint32_t i = 0; i < job->kept_count; i++)
        buf_add(kept, job->kept[i].values, checkpoint_kept_bytes(&job->kept[i]));
}

/* Node 0 tells all, also that there is nothing to go on from. */
tri_status state_tell(struct host *host, const struct host_job *job, tri_error *err)
{
    const struct checkpoint *from = job->from;
    struct buf data, kept;
    buf_init(&data, host->mem);
    buf_init(&kept, host->mem);
    tri_status status =
        begin_at(host, from != NULL ? from->clock : 0, from != NULL ? from->layer_count : 0, err);
    for (uint32_t i = 0; from != NULL && status == TRI_OK && i < from->layer_count; i++)
        host->steps[i] = from->layers[i].steps;
    if (from != NULL)
        put_kept(job, &kept);
    struct wire_resume resume = {.clock = host->first,
                                 .layers = from != NULL ? from->layer_count : 0,
                                 .kept_bytes = (uint32_t)kept.len,
                                 .kept = (const uint8_t *)kept.data};
    if (status == TRI_OK)
        wire_resume_encode(&resume, host->steps, &data);
    if (status == TRI_OK && (!buf_ok(&data) || !buf_ok(&kept)))
        status = fail_nomem(err, "a message");
    if (status == TRI_OK && data.len > WIRE_LIST_MAX)
        status = fail(err, TRI_EINPUT, "kept values of more than %u bytes cannot be resumed",
                      (unsigned)WIRE_LIST_MAX);
    struct message message = {.kind = WIRE_RESUME,
                              .role = CORE_NOBODY,
                              .bytes = (const uint8_t *)data.data,
                              .len = data.len};
    for (uint32_t n = 1; status == TRI_OK && n < host->nodes; n++)
        host_send(host, n, &message, (struct core_ref){.space = CORE_NOWHERE});
    buf_fini(&data);
    buf_fini(&kept);
    return status;
}

static tri_status take_kept(const struct host_job *job, const struct wire_resume *resume,
                            tri_error *err)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < job->kept_count; i++)
        bytes += checkpoint_kept_bytes(&job->kept[i]);
    if (bytes != resume->kept_bytes) {
        fail(err, TRI_EMISMATCH, "rank 0 keeps %" PRIu32 " bytes of its own, this one %zu",
             resume->kept_bytes, bytes);
        fail_next(err, "call tri_keep with the same values on all ranks");
        return TRI_EMISMATCH;
    }
    const uint8_t *at = resume->kept;
    for (uint32_t i = 0; i < job->kept_count; i++) {
        memcpy(job->kept[i].values, at, checkpoint_kept_bytes(&job->kept[i]));
        at += checkpoint_kept_bytes(&job->kept[i]);
    }
    return TRI_OK;
}

bool state_is_told(const struct host *host)
{
    const struct incoming *incoming = host->early;
    while (incoming != NULL && incoming->message.kind != WIRE_RESUME)
        incoming = incoming->next;
    return incoming != NULL;
}

/* The others, once state_is_told(). job: NULL on a node without a program. */
tri_status state_hear(struct host *host, const struct host_job *job, tri_error *err)
{
    struct incoming *told = host_take_early(host, WIRE_RESUME);
    struct wire_resume resume;
    tri_status status = wire_resume_decode(&told->header, told->data, &resume, err);
    if (status == TRI_OK && resume.layers != 0 && resume.layers != host->agreement->count)
        status =
            fail(err, TRI_EMISMATCH, "rank 0 has %" PRIu32 " layers, this process has %" PRIu32,
                 resume.layers, host->agreement->count);
    if (status == TRI_OK)
        status = begin_at(host, resume.clock, resume.layers, err);
    for (uint32_t i = 0; status == TRI_OK && i < resume.layers; i++)
        host->steps[i] = wire_resume_steps(&resume, i);
    if (status == TRI_OK && job != NULL && resume.clock > 0)
        status = take_kept(job, &resume, err);
    host_put_back(host, told);
    return status;
}

/* ---- the optimiser's state, out to those who keep it ---- */

static void restore(struct host *host, uint32_t layer, uint32_t part, uint32_t plane,
                    const float *values)
{
    const struct layout *layout = host->agreement->layout;
    const struct layout_part *at = part_of(host, layer, part);
    const struct layout_unit *unit = &layout->units[at->unit];
    if (on_workers(host, &layout->layers[layer])) {
        struct store_span span = {at->first, at->floats, values};
        store_worker_restore(&host->worker, layer, plane, &span);
    } else {
        struct store_span span = {at->first - unit->first, at->floats, values};
        store_server_restore(&host->server, unit->index, plane, &span);
    }
}

static void give_part(struct host *host, uint32_t layer, uint32_t part, uint32_t plane,
                      uint32_t node)
{
    const struct checkpoint_layer *from = &host->from->layers[layer];
    float *values = from->state[plane - 1] + part_of(host, layer, part)->first;
    if (node == host->options.node) {
        restore(host, layer, part, plane, values);
        return;
    }
    struct message message = {.kind = WIRE_STATE,
                              .role = CORE_NOBODY,
                              .layer = layer,
                              .part = part,
                              .clock = host->first,
                              .version = from->steps,
                              .rows = plane};
    host->states_out++;
    host_send_memory(host, node, &message, values, false);
}

void state_give(struct host *host)
{
    const struct layout *layout = host->agreement->layout;
    for (uint32_t i = 0; i < layout->layer_count; i++)
        for (uint32_t p = 0; p < layout->layers[i].parts; p++)
            for (uint32_t k = 1; k < planes_of(host); k++) {
                uint32_t server = layout->units[part_of(host, i, p)->unit].server;
                bool shared = on_workers(host, &layout->layers[i]);
                for (uint32_t r = 0; shared && r < layout->workers; r++)
                    give_part(host, i, p, k, r);
                if (!shared)
                    give_part(host, i, p, k, layout->server_node[server]);
            }
}

bool state_is_given(const struct host *host)
{
    return host->states_out == 0;
}

/* ---- copies, in to node 0 ---- */

static struct save_part part_in(const struct host *host, const struct message *message)
{
    return (struct save_part){.part = host->agreement->layout->layers[message->layer].first_part +
                                      message->part,
                              .plane = message->rows,
                              .clock = message->clock,
                              .steps = message->version};
}

float *state_place(struct host *host, struct incoming *incoming)
{
    const struct message *message = &incoming->message;
    if (host->save == NULL || message->unchanged)
        return NULL;
    const struct layout *layout = host->agreement->layout;
    const struct layout_part *at = part_of(host, message->layer, message->part);
    struct save_part part = part_in(host, message);
    if (part.plane < planes_to_copy(host, CORE_SERVER, message->layer).first ||
        part.plane >= save_planes(host->save) ||
        layout->server_node[layout->units[at->unit].server] != message->from ||
        !save_land(host->save, &part))
        return NULL;
    incoming->landing = true;
    return save_plane(host->save, message->layer, part.plane) + at->first;
}

void state_settle(struct host *host, struct incoming *incoming, bool there)
{
    if (!incoming->landing)
        return;
    struct save_part part = part_in(host, &incoming->message);
    incoming->landing = false;
    save_landed(host->save, &part, there);
    pthread_cond_broadcast(&host->changed);
}

bool state_take(struct host *host, const struct incoming *incoming)
{
    const struct message *message = &incoming->message;
    const float *values = (const float *)(const void *)incoming->data;
    if (message->unchanged) {
        host->states_out -= host->states_out > 0;
        pthread_cond_broadcast(&host->changed);
    } else if (host->options.node != 0) {
        if (message->rows == 0 || message->rows >= planes_of(host))
            return false;
        const struct layout *layout = host->agreement->layout;
        bool here =
            on_workers(host, &layout->layers[message->layer])
                ? host->core.has_worker
                : layout->units[part_of(host, message->layer, message->part)->unit].server ==
                      (host->core.has_server ? host->core.server.number : UINT32_MAX);
        if (!here)
            return false;
        restore(host, message->layer, message->part, message->rows, values);
        struct message came = *message;
        came.unchanged = true;
        host_send(host, 0, &came, (struct core_ref){.space = CORE_NOWHERE});
    }
    return true;
}

/* Memory of copies is kept for the next checkpoint, since new memory is slow when it is first
 * written to. What is free lies in it. */
struct free_copy {
    struct free_copy *next;
    uint64_t floats;
};

static float *new_copy(struct host *host, uint64_t floats)
{
    struct free_copy **at = &host->free_copies, *found;
    uint64_t least = sizeof(struct free_copy) / sizeof(float);
    while (*at != NULL && (*at)->floats != floats)
        at = &(*at)->next;
    if ((found = *at) == NULL)
        return floats_new(host->mem, floats < least ? least : floats);
    *at = found->next;
    return (float *)(void *)found;
}

void state_put_back(struct host *host, float *values, uint64_t floats)
{
    struct free_copy *copy = (struct free_copy *)(void *)values;
    *copy = (struct free_copy){host->free_copies, floats};
    host->free_copies = copy;
}

void state_fini(struct host *host)
{
    for (struct free_copy *copy = host->free_copies, *next; copy != NULL; copy = next) {
        next = copy->next;
        floats_free(host->mem, (float *)(void *)copy);
    }
    host->free_copies = NULL;
}

/* A plane of a part of a unit to node 0. With the lock, which is given up meanwhile. */
static bool copy_away(struct host *host, const struct core_op *op, uint32_t plane, uint32_t i)
{
    const struct layout *layout = host->agreement->layout;
    const struct layout_unit *unit = &layout->units[host->server.units[op->index].number];
    const struct layout_part *part = part_of(host, unit->layer, unit->first_part + i);
    struct message message = {.kind = WIRE_STATE,
                              .role = CORE_NOBODY,
                              .layer = unit->layer,
                              .part = unit->first_part + i,
                              .clock = op->clock,
                              .version = op->steps,
                              .rows = plane};
    struct store_room room = {part->first - unit->first, part->floats,
                              new_copy(host, part->floats)};
    if (room.at == NULL) {
        host_fail(host, TRI_ENOMEM, "out of memory for a checkpoint");
        return false;
    }
    pthread_mutex_unlock(&host->lock);
    store_server_copy_some(&host->server, op->index, plane, &room);
    pthread_mutex_lock(&host->lock);
    host_send_memory(host, 0, &message, room.at, true);
    return true;
}

static void copy_unit_away(struct host *host, const struct core_op *op)
{
    const struct layout *layout = host->agreement->layout;
    const struct layout_unit *unit = &layout->units[host->server.units[op->index].number];
    struct planes planes = planes_to_copy(host, CORE_SERVER, unit->layer);
    bool ok = true;
    pthread_mutex_lock(&host->lock);
    for (uint32_t i = 0; i < unit->parts; i++)
        for (uint32_t k = planes.first; k < planes.end && ok; k++)
            ok = copy_away(host, op, k, i);
    pthread_mutex_unlock(&host->lock);
}

/* Straight into place. */
static void copy_here(struct host *host, const struct core_op *op)
{
    const struct layout *layout = host->agreement->layout;
    bool server = op->role == CORE_SERVER;
    const struct layout_unit *unit = server ? &layout->units[host->server.units[op->index].number]
                                            : &layout->units[layout->layers[op->index].first_unit];
    const struct layout_layer *layer = &layout->layers[unit->layer];
    uint32_t first = layer->first_part + (server ? unit->first_part : 0);
    uint32_t count = server ? unit->parts : layer->parts;
    struct planes planes = planes_to_copy(host, op->role, unit->layer);
    for (uint32_t k = planes.first; k < planes.end; k++) {
        float *to = save_plane(host->save, unit->layer, k);
        if (server)
            store_server_copy(&host->server, op->index, k, to + unit->first);
        else
            store_worker_copy(&host->worker, op->index, k, to);
    }
    pthread_mutex_lock(&host->lock);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = planes.first; k < planes.end; k++)
            save_take(host->save,
                      &(struct save_part){
                          .part = first + i, .plane = k, .clock = op->clock, .steps = op->steps});
    pthread_cond_broadcast(&host->changed);
    pthread_mutex_unlock(&host->lock);
}

void state_copy(struct host *host, const struct core_op *op)
{
    if (host->options.node != 0)
        copy_unit_away(host, op);
    else if (host->save != NULL)
        copy_here(host, op);
}
