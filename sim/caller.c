/* The caller's memory: every array by itself, so that no bias lies behind its weights. */
#include "sim/caller.h"

#include "base/error.h"

static float *room(const struct mem *mem, uint64_t n, bool *ok)
{
    if (n == 0 || !*ok)
        return NULL;
    float *at = mem_array(mem, (size_t)n, sizeof *at);
    *ok = at != NULL;
    return at;
}

tri_status caller_init(struct caller *caller, const struct layout *layout,
                       const struct core_rules *rules, const struct mem *mem, tri_error *err)
{
    *caller = (struct caller){.mem = mem, .layout = layout};
    caller->layers = mem_array(mem, layout->layer_count, sizeof *caller->layers);
    caller->gradients = mem_array(mem, layout->layer_count, sizeof *caller->gradients);
    bool ok = caller->layers != NULL && caller->gradients != NULL;
    for (uint32_t i = 0; ok && i < layout->layer_count; i++) {
        const struct layout_layer *shape = &layout->layers[i];
        uint64_t matrix = (uint64_t)shape->rows * shape->cols, rows = shape->bias ? shape->rows : 0;
        bool dense = shape->form == TRI_FORM_DENSE;
        struct store_layer *layer = &caller->layers[i];
        layer->weights = room(mem, matrix, &ok);
        layer->bias = room(mem, rows, &ok);
        layer->result = room(mem, rules->aggregate ? shape->floats : 0, &ok);
        caller->gradients[i].weights = room(mem, dense ? matrix : 0, &ok);
        caller->gradients[i].bias = room(mem, dense ? rows : 0, &ok);
    }
    if (ok)
        return TRI_OK;
    caller_fini(caller);
    return fail_nomem(err, "the parameters of a simulated worker");
}

void caller_fini(struct caller *caller)
{
    if (caller->mem == NULL)
        return;
    for (uint32_t i = 0; i < caller->layout->layer_count; i++) {
        if (caller->layers != NULL) {
            mem_free(caller->mem, caller->layers[i].weights);
            mem_free(caller->mem, caller->layers[i].bias);
            mem_free(caller->mem, caller->layers[i].result);
        }
        if (caller->gradients != NULL) {
            mem_free(caller->mem, caller->gradients[i].weights);
            mem_free(caller->mem, caller->gradients[i].bias);
        }
    }
    mem_free(caller->mem, caller->layers);
    mem_free(caller->mem, caller->gradients);
    *caller = (struct caller){0};
}
