/* Slots, stages and shards of simulated nodes. */
#include "sim/memory.h"

#include <string.h>

#include "base/error.h"

void sim_runs_read(struct sim_runs runs, float *out)
{
    for (int i = 0; i < 2; i++)
        if (runs.count[i] > 0) {
            memcpy(out, runs.at[i], (size_t)runs.count[i] * sizeof *out);
            out += runs.count[i];
        }
}

void sim_runs_write(struct sim_runs runs, const float *in)
{
    for (int i = 0; i < 2; i++)
        if (runs.count[i] > 0) {
            memcpy(runs.at[i], in, (size_t)runs.count[i] * sizeof *in);
            in += runs.count[i];
        }
}

void sim_runs_add(struct sim_runs runs, const float *in)
{
    for (uint64_t i = 0; i < runs.count[0]; i++)
        runs.at[0][i] += in[i];
}

bool sim_runs_equal(struct sim_runs runs, const float *with)
{
    for (int i = 0; i < 2; i++)
        if (runs.count[i] > 0) {
            if (memcmp(runs.at[i], with, (size_t)runs.count[i] * sizeof *with) != 0)
                return false;
            with += runs.count[i];
        }
    return true;
}

/* ---- slots of factors ---- */

static size_t slot_floats(const struct layout_layer *layer)
{
    return (size_t)layer->factor_rows * (layer->rows + (size_t)layer->cols);
}

/* In a slot: K rows of u, then K rows of v. */
static struct sim_factors slot_at(const struct layout_layer *layer, float *slots, size_t number)
{
    float *u = slots + number * slot_floats(layer);
    return (struct sim_factors){u, u + (size_t)layer->factor_rows * layer->rows};
}

static struct sim_runs factor_runs(const struct layout_layer *layer, float *slots, size_t number,
                                   struct core_ref ref)
{
    struct sim_factors slot = slot_at(layer, slots, number);
    return (struct sim_runs){
        .at = {slot.u + ref.first * layer->rows, slot.v + ref.first * layer->cols},
        .count = {ref.count * layer->rows, ref.count * layer->cols}};
}

/* ---- allocation ---- */

static float *floats(const struct mem *mem, uint64_t n, bool *ok)
{
    float *at = mem_array(mem, (size_t)n, sizeof *at);
    *ok = *ok && at != NULL;
    return at;
}

static float **lists(const struct mem *mem, size_t n, bool *ok)
{
    float **at = mem_array(mem, n, sizeof *at);
    *ok = *ok && at != NULL;
    return at;
}

static void free_lists(const struct mem *mem, float **list, size_t n)
{
    for (size_t i = 0; list != NULL && i < n; i++)
        mem_free(mem, list[i]);
    mem_free(mem, list);
}

/* ---- workers ---- */

tri_status sim_worker_memory_init(struct sim_worker_memory *memory, const struct layout *layout,
                                  const struct core_rules *rules, const struct optim *optim,
                                  void *scratch, const struct mem *mem, tri_error *err)
{
    bool ok = true;
    size_t n = layout->layer_count;
    *memory = (struct sim_worker_memory){
        .mem = mem, .layout = layout, .rules = *rules, .optim = *optim, .scratch = scratch};
    memory->params = lists(mem, n, &ok);
    memory->result = lists(mem, n, &ok);
    memory->stage = lists(mem, n, &ok);
    memory->gradient = lists(mem, n, &ok);
    memory->state = lists(mem, n, &ok);
    memory->factors = lists(mem, n, &ok);
    memory->blocks = mem_array(mem, layout->workers, sizeof *memory->blocks);
    ok = ok && memory->blocks != NULL;
    for (size_t i = 0; i < n && ok; i++) {
        const struct layout_layer *layer = &layout->layers[i];
        memory->params[i] = floats(mem, layer->floats, &ok);
        memory->result[i] = floats(mem, layer->floats, &ok);
        memory->stage[i] = floats(mem, layer->floats, &ok);
        memory->gradient[i] = floats(mem, layer->floats, &ok);
        memory->state[i] = floats(mem, layer->floats * optim->ops->state_floats, &ok);
        if (layer->form == TRI_FORM_FACTORS)
            memory->factors[i] = floats(mem, (size_t)2 * layout->workers * slot_floats(layer), &ok);
    }
    return ok ? TRI_OK : fail_nomem(err, "the memory of a worker");
}

void sim_worker_memory_fini(struct sim_worker_memory *memory)
{
    if (memory->mem == NULL)
        return;
    size_t n = memory->layout->layer_count;
    free_lists(memory->mem, memory->params, n);
    free_lists(memory->mem, memory->result, n);
    free_lists(memory->mem, memory->stage, n);
    free_lists(memory->mem, memory->gradient, n);
    free_lists(memory->mem, memory->state, n);
    free_lists(memory->mem, memory->factors, n);
    mem_free(memory->mem, memory->blocks);
    *memory = (struct sim_worker_memory){0};
}

struct sim_runs sim_worker_runs(const struct sim_worker_memory *memory, struct core_ref ref)
{
    float *base;
    switch (ref.space) {
    case CORE_PARAMS:
        base = memory->params[ref.index];
        break;
    case CORE_RESULT:
        base = memory->result[ref.index];
        break;
    case CORE_STAGE:
        base = memory->stage[ref.index];
        break;
    case CORE_GRADIENT:
        base = memory->gradient[ref.index];
        break;
    case CORE_FACTORS:
        return factor_runs(&memory->layout->layers[ref.index], memory->factors[ref.index],
                           (size_t)ref.generation * memory->layout->workers + ref.rank, ref);
    default:
        return (struct sim_runs){0};
    }
    return (struct sim_runs){.at = {base + ref.first}, .count = {ref.count}};
}

struct sim_factors sim_worker_slot(const struct sim_worker_memory *memory, struct core_ref slot)
{
    const struct layout_layer *layer = &memory->layout->layers[slot.index];
    if (layer->form != TRI_FORM_FACTORS)
        return (struct sim_factors){NULL, NULL};
    return slot_at(layer, memory->factors[slot.index],
                   (size_t)slot.generation * memory->layout->workers + slot.rank);
}

/* From blocks of factors to parameters or a mean, as the rules want it. */
static void apply_factors(const struct ops_factors *factors, const struct optim *optim,
                          const struct core_op *op, bool step, float *params, float *mean,
                          float *state)
{

    size_t n = factors->rows * factors->cols + (factors->bias ? factors->rows : 0);
    if (step && ops_is_sgd(optim)) {
        ops_factor_sgd(factors, params, op->count, op->lr);
        return;
    }
    ops_factor_mean(factors, mean, op->count);
    if (step)
        optim->ops->step(optim->args, params, state, mean, n, op->lr, op->steps);
}

static void worker_apply(struct sim_worker_memory *memory, const struct worker *worker,
                         const struct core_op *op)
{
    const struct layout_layer *layer = &memory->layout->layers[op->index];
    struct ops_factors factors = {.blocks = memory->blocks,
                                  .rows = layer->rows,
                                  .cols = layer->cols,
                                  .bias = layer->bias,
                                  .scratch = memory->scratch};
    for (uint32_t r = 0; r < memory->layout->workers; r++) {
        uint32_t rows = worker_factor_rows(worker, op->index, op->clock, r);
        struct sim_factors slot = slot_at(layer, memory->factors[op->index],
                                          (size_t)(op->clock % 2) * memory->layout->workers + r);
        if (rows > 0)
            memory->blocks[factors.count++] = (struct product_block){slot.u, slot.v, rows};
    }
    bool step = !memory->rules.aggregate;
    apply_factors(&factors, &memory->optim, op, step, memory->params[op->index],
                  step ? memory->stage[op->index] : memory->result[op->index],
                  memory->state[op->index]);
}

/* What is in the stage goes where the rest already is; a mean of nothing is zero. */
static void install(const struct sim_worker_memory *memory, const struct worker *worker,
                    uint32_t layer)
{
    const struct layout_layer *shape = &memory->layout->layers[layer];
    bool aggregate = memory->rules.aggregate;
    float *target = aggregate ? memory->result[layer] : memory->params[layer];
    for (uint32_t i = 0; i < shape->parts; i++) {
        const struct layout_part *part = &memory->layout->parts[shape->first_part + i];
        size_t bytes = part->floats * sizeof *target;
        if (!worker_part_changed(worker, layer, i)) {
            if (aggregate)
                memset(target + part->first, 0, bytes);
        } else if (worker_part_staged(worker, layer, i)) {
            memcpy(target + part->first, memory->stage[layer] + part->first, bytes);
        }
    }
}

/* Parts are of units, which may have stepped more or less often than each other. */
static void step_locally(const struct sim_worker_memory *memory, const struct worker *worker,
                         const struct core_op *op)
{
    const struct layout_layer *shape = &memory->layout->layers[op->index];
    const tri_optimizer_ops *ops = memory->optim.ops;
    for (uint32_t i = 0; i < shape->parts; i++) {
        const struct layout_part *part = &memory->layout->parts[shape->first_part + i];
        if (worker_part_changed(worker, op->index, i))
            ops->step(memory->optim.args, memory->params[op->index] + part->first,
                      memory->state[op->index] + ops->state_floats * part->first,
                      memory->stage[op->index] + part->first, part->floats, op->lr,
                      worker_part_steps(worker, op->index, i));
    }
}

void sim_worker_op(struct sim_worker_memory *memory, const struct worker *worker,
                   const struct core_op *op)
{
    if (op->kind == CORE_OP_APPLY)
        worker_apply(memory, worker, op);
    else if (op->kind == CORE_OP_INSTALL)
        install(memory, worker, op->index);
    else
        step_locally(memory, worker, op);
}

/* ---- servers ---- */

/* A slot for every rank; none where updates are added as they come. */
static size_t slots_floats(const struct layout *layout, const struct layout_unit *unit,
                           const struct core_rules *rules)
{
    const struct layout_layer *layer = &layout->layers[unit->layer];
    if (layer->form == TRI_FORM_FACTORS)
        return layout->workers * slot_floats(layer);
    return core_has_slots(rules) ? layout->workers * (size_t)unit->floats : 0;
}

/* What of it the plan counts: without slots, the sum that takes their place. */
static size_t landing_floats(const struct layout *layout, const struct layout_unit *unit,
                             const struct core_rules *rules)
{
    size_t slots = slots_floats(layout, unit, rules);
    return slots > 0 ? slots : (size_t)unit->floats;
}

tri_status sim_server_memory_init(struct sim_server_memory *memory, const struct layout *layout,
                                  uint32_t server, const struct core_rules *rules,
                                  const struct optim *optim, void *scratch, const struct mem *mem,
                                  tri_error *err)
{
    bool ok = true;
    size_t n = layout->server_units[server];
    *memory = (struct sim_server_memory){
        .mem = mem, .layout = layout, .rules = *rules, .optim = *optim, .scratch = scratch};
    memory->units = mem_array(mem, n, sizeof *memory->units);
    memory->landing = lists(mem, n, &ok);
    memory->sum = lists(mem, n, &ok);
    memory->shard = lists(mem, n, &ok);
    memory->state = lists(mem, n, &ok);
    memory->reply = lists(mem, n, &ok);
    memory->blocks = mem_array(mem, layout->workers, sizeof *memory->blocks);
    ok = ok && memory->units != NULL && memory->blocks != NULL;
    for (uint32_t i = 0; i < layout->unit_count && ok; i++) {
        const struct layout_unit *unit = &layout->units[i];
        if (unit->server != server)
            continue;
        uint32_t at = memory->count++;
        memory->units[at] = i;
        memory->landing[at] = floats(mem, slots_floats(layout, unit, rules), &ok);
        memory->landing_floats += landing_floats(layout, unit, rules);
        memory->sum[at] = floats(mem, unit->floats, &ok);
        memory->shard[at] = floats(mem, unit->floats, &ok);
        memory->state[at] = floats(mem, unit->floats * optim->ops->state_floats, &ok);
        if (core_has_replies(rules))
            memory->reply[at] = floats(mem, layout->workers * unit->floats, &ok);
    }
    return ok ? TRI_OK : fail_nomem(err, "the memory of a server");
}

void sim_server_memory_fini(struct sim_server_memory *memory)
{
    if (memory->mem == NULL)
        return;
    free_lists(memory->mem, memory->landing, memory->count);
    free_lists(memory->mem, memory->sum, memory->count);
    free_lists(memory->mem, memory->shard, memory->count);
    free_lists(memory->mem, memory->state, memory->count);
    free_lists(memory->mem, memory->reply, memory->count);
    mem_free(memory->mem, memory->units);
    mem_free(memory->mem, memory->blocks);
    *memory = (struct sim_server_memory){0};
}

struct sim_runs sim_server_runs(const struct sim_server_memory *memory, struct core_ref ref)
{
    if (ref.space == CORE_NOWHERE)
        return (struct sim_runs){0};
    const struct layout_unit *unit = &memory->layout->units[memory->units[ref.index]];
    if (ref.space == CORE_PRODUCTS)
        return factor_runs(&memory->layout->layers[unit->layer], memory->landing[ref.index],
                           ref.rank, ref);
    size_t slot = (size_t)ref.rank * unit->floats;
    float *base = ref.space == CORE_LANDING ? memory->landing[ref.index] + slot
                  : ref.space == CORE_REPLY ? memory->reply[ref.index] + slot
                  : ref.space == CORE_ADD   ? memory->sum[ref.index]
                                            : memory->shard[ref.index];
    return (struct sim_runs){.at = {base + ref.first}, .count = {ref.count}};
}

struct sim_factors sim_server_slot(const struct sim_server_memory *memory, uint32_t index,
                                   uint32_t rank)
{
    const struct layout_unit *unit = &memory->layout->units[memory->units[index]];
    return slot_at(&memory->layout->layers[unit->layer], memory->landing[index], rank);
}

static void server_product(struct sim_server_memory *memory, const struct server *server,
                           const struct core_op *op)
{
    const struct layout_layer *layer =
        &memory->layout->layers[memory->layout->units[memory->units[op->index]].layer];
    struct ops_factors factors = {.blocks = memory->blocks,
                                  .rows = layer->rows,
                                  .cols = layer->cols,
                                  .bias = layer->bias,
                                  .scratch = memory->scratch};
    for (uint32_t r = 0; r < memory->layout->workers; r++) {
        struct sim_factors slot = slot_at(layer, memory->landing[op->index], r);
        uint32_t rows = server_factor_rows(server, op->index, r);
        if (rows > 0)
            memory->blocks[factors.count++] = (struct product_block){slot.u, slot.v, rows};
    }
    bool step = !memory->rules.aggregate && !memory->rules.replicated;
    float *shard = memory->shard[op->index];
    apply_factors(&factors, &memory->optim, op, step, shard, step ? memory->sum[op->index] : shard,
                  memory->state[op->index]);
}

/* sum to shard, by way of the mean. */
static void server_step(struct sim_server_memory *memory, const struct core_op *op, size_t n)
{
    uint32_t i = op->index;
    bool step = !memory->rules.aggregate && !memory->rules.replicated;
    float *mean = step ? memory->sum[i] : memory->shard[i];
    ops_mean(mean, memory->sum[i], n, op->count);
    if (step)
        memory->optim.ops->step(memory->optim.args, memory->shard[i], memory->state[i], mean, n,
                                op->lr, op->steps);
    if (!core_has_slots(&memory->rules))
        memset(memory->sum[i], 0, n * sizeof(float));
}

static void server_reply(struct sim_server_memory *memory, const struct server *server,
                         const struct core_op *op, size_t n)
{
    for (uint32_t r = 0; r < memory->layout->workers; r++)
        if (server_replies(server, op->index, r))
            memcpy(memory->reply[op->index] + r * n, memory->shard[op->index], n * sizeof(float));
}

void sim_server_op(struct sim_server_memory *memory, const struct server *server,
                   const struct core_op *op)
{
    uint32_t i = op->index;
    size_t n = (size_t)memory->layout->units[memory->units[i]].floats;
    if (op->kind == CORE_OP_SUM)
        ops_sum(memory->sum[i], memory->landing[i] + op->rank * n, n, op->first);
    else if (op->kind == CORE_OP_PRODUCT)
        server_product(memory, server, op);
    else if (op->kind == CORE_OP_REPLY)
        server_reply(memory, server, op, n);
    else
        server_step(memory, op, n);
}
