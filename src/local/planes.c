/* From pieces to planes and back. */
#include "local/planes.h"

#include <string.h>

#include "local/inside.h"

/* Values that step together. */
struct run {
    uint64_t first, count;
};

static struct run run_at(const struct local_layer *layer, uint64_t at)
{
    uint64_t matrix = (uint64_t)layer->rows * layer->cols;
    uint64_t first = 0, end = layer->floats;
    if (layer->max_rows > 0 && at >= matrix)
        return (struct run){at, 1};
    if (layer->max_rows > 0) {
        first = at / layer->cols * layer->cols;
        end = first + layer->cols;
    }
    first += (at - first) / BLOCK * BLOCK;
    return (struct run){first, end - first < BLOCK ? end - first : BLOCK};
}

static float *piece(const struct local_job *job, const struct local_snapshot *snapshot,
                    const struct local_layer *layer, uint32_t plane, struct run run)
{
    return snapshot->state + job->optim.ops->state_floats * (layer->offset + run.first) +
           plane * run.count;
}

void local_plane_get(const struct local_job *job, const struct local_snapshot *snapshot,
                     uint32_t number, uint32_t plane, float *to)
{
    const struct local_layer *layer = &job->layers[number];
    for (uint64_t at = 0; at < layer->floats;) {
        struct run run = run_at(layer, at);
        memcpy(to + at, piece(job, snapshot, layer, plane, run), run.count * sizeof *to);
        at += run.count;
    }
}

void local_plane_put(const struct local_job *job, struct local_snapshot *snapshot, uint32_t number,
                     uint32_t plane, const float *from)
{
    const struct local_layer *layer = &job->layers[number];
    for (uint64_t at = 0; at < layer->floats;) {
        struct run run = run_at(layer, at);
        memcpy(piece(job, snapshot, layer, plane, run), from + at, run.count * sizeof *from);
        at += run.count;
    }
}
