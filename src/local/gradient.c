/* Gradients in slots: dense layers, rows, factors, or nothing. */
#include <string.h>

#include "local/inside.h"

static uint64_t lines_floats(uint64_t count)
{
    return (count + FLOATS - 1) / FLOATS * FLOATS;
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
                               .values = room + lines_floats(slot->parts[layer].count),
                               .stride = layer_stride(&job->layers[layer])};
}

struct local_factors gradient_factors(const struct local_job *job, const struct slot *slot,
                                      uint32_t layer)
{
    const struct local_layer *shape = &job->layers[layer];
    const uint64_t count = slot->parts[layer].count;
    const uint32_t width = shape->window > 0 ? shape->window : shape->cols;
    float *u = gradient_room(job, slot, layer);
    float *v = u + lines_floats(count * shape->rows);
    float *at = v + lines_floats(count * width);
    return (struct local_factors){
        .u = u, .v = v, .at = shape->window > 0 ? (uint32_t *)(void *)at : NULL, .width = width};
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

bool local_factors(struct local_gradient *gradient, uint32_t layer, uint32_t count,
                   struct local_factors *out)
{
    const struct local_job *job = gradient->job;
    if (layer >= job->head->layer_count || count == 0 || count > job->layers[layer].max_factors)
        return false;
    gradient->slot->parts[layer] = (struct part){.form = FORM_FACTORS, .count = count};
    *out = gradient_factors(job, gradient->slot, layer);
    return true;
}

/* A window that reached beyond v would read other memory. */
static tri_status check_windows(const struct local_job *job, const struct slot *slot,
                                uint32_t layer, tri_error *err)
{
    const struct local_layer *shape = &job->layers[layer];
    const struct local_factors factors = gradient_factors(job, slot, layer);
    const size_t count = (size_t)slot->parts[layer].count * shape->rows;
    for (size_t i = 0; factors.at != NULL && i < count; i++)
        if (factors.at[i] > shape->window - shape->cols)
            return fail(err, TRI_EARG, "layer '%s' has a window at %u, %u floats of %u",
                        shape->name, factors.at[i], shape->cols, shape->window);
    return TRI_OK;
}

static tri_status check_rows(const struct local_job *job, const struct slot *slot, uint32_t layer,
                             tri_error *err)
{
    const struct local_layer *shape = &job->layers[layer];
    const struct local_rows rows = gradient_rows(job, slot, layer);
    for (uint32_t i = 0; i < slot->parts[layer].count; i++)
        if (rows.numbers[i] >= shape->rows)
            return fail(err, TRI_EARG, "layer '%s' has no row %u: it has %u", shape->name,
                        rows.numbers[i], shape->rows);
    return TRI_OK;
}

tri_status gradient_check_layer(const struct local_job *job, const struct slot *slot,
                                uint32_t layer, tri_error *err)
{
    const uint32_t form = slot->parts[layer].form;
    return form == FORM_FACTORS ? check_windows(job, slot, layer, err)
           : form == FORM_ROWS  ? check_rows(job, slot, layer, err)
                                : TRI_OK;
}

tri_status gradient_check(const struct local_job *job, const struct slot *slot, tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint32_t l = 0; l < job->head->layer_count && status == TRI_OK; l++)
        status = gradient_check_layer(job, slot, l, err);
    return status;
}

static size_t used_floats(const struct local_job *job, const struct slot *slot, uint32_t layer)
{
    const struct part *part = &slot->parts[layer];
    if (part->form == FORM_DENSE)
        return job->layers[layer].floats;
    if (part->form == FORM_ROWS)
        return lines_floats(part->count) + (size_t)part->count * layer_stride(&job->layers[layer]);
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
