/* Gradients in slots: dense layers, rows, or nothing. */
#include <string.h>

#include "local/inside.h"

static uint64_t numbers_floats(uint32_t count)
{
    return ((uint64_t)count + FLOATS - 1) / FLOATS * FLOATS;
}

float *gradient_room(const struct local_job *job, const struct slot *slot, uint32_t layer)
{
    float *values = (float *)((unsigned char *)(uintptr_t)slot + job->head->room_offset);
    return values + job->layers[layer].room_offset;
}

struct local_rows gradient_rows(const struct local_job *job, const struct slot *slot,
                                uint32_t layer)
{
    float *room = gradient_room(job, slot, layer);
    return (struct local_rows){.numbers = (uint32_t *)(void *)room,
                               .values = room + numbers_floats(slot->parts[layer].count),
                               .stride = layer_stride(&job->layers[layer])};
}

void gradient_clear(const struct local_job *job, struct slot *slot)
{
    memset(slot->parts, 0, job->head->layer_count * sizeof *slot->parts);
}

float *local_dense(struct local_gradient *gradient, uint32_t layer)
{
    const struct local_job *job = gradient->job;
    if (layer >= job->head->layer_count || !job->layers[layer].dense)
        return NULL;
    gradient->slot->parts[layer] = (struct part){.form = FORM_DENSE};
    return gradient_room(job, gradient->slot, layer);
}

bool local_rows(struct local_gradient *gradient, uint32_t layer, uint32_t count,
                struct local_rows *out)
{
    const struct local_job *job = gradient->job;
    if (layer >= job->head->layer_count || count > job->layers[layer].max_rows)
        return false;
    gradient->slot->parts[layer] = (struct part){.form = FORM_ROWS, .count = count};
    *out = gradient_rows(job, gradient->slot, layer);
    return true;
}

tri_status gradient_check(const struct local_job *job, const struct slot *slot, tri_error *err)
{
    for (uint32_t l = 0; l < job->head->layer_count; l++) {
        if (slot->parts[l].form != FORM_ROWS)
            continue;
        struct local_rows rows = gradient_rows(job, slot, l);
        for (uint32_t i = 0; i < slot->parts[l].count; i++)
            if (rows.numbers[i] >= job->layers[l].rows)
                return fail(err, TRI_EARG, "layer '%s' has no row %u: it has %u",
                            job->layers[l].name, rows.numbers[i], job->layers[l].rows);
    }
    return TRI_OK;
}

static size_t used_floats(const struct local_job *job, const struct slot *slot, uint32_t layer)
{
    const struct part *part = &slot->parts[layer];
    if (part->form == FORM_DENSE)
        return job->layers[layer].floats;
    if (part->form == FORM_ROWS)
        return numbers_floats(part->count) +
               (size_t)part->count * layer_stride(&job->layers[layer]);
    return 0;
}

void gradient_copy(const struct local_job *job, struct slot *to, const struct slot *from)
{
    const uint32_t layers = job->head->layer_count;
    memcpy(to, from, sizeof *to + layers * sizeof *to->parts);
    for (uint32_t l = 0; l < layers; l++) {
        size_t n = used_floats(job, from, l);
        if (l == layers / 2)
            reach(job, LOCAL_AT_HALF_FULL); /* local.pml: fill */
        if (n > 0)
            memcpy(gradient_room(job, to, l), gradient_room(job, from, l), n * sizeof(float));
    }
}

struct slot *gradient_private(const struct local_job *job, void **base)
{
    *base = mem_array(job->mem, job->head->slot_bytes + LINE, 1);
    if (*base == NULL)
        return NULL;
    uintptr_t at = ((uintptr_t)*base + LINE - 1) / LINE * LINE;
    return (struct slot *)at;
}
