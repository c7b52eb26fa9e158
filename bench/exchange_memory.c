/* Learners that hand gradients to a server of this machine, or to each other, in slots of shared
 * memory. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench/exchange_way.h"
#include "local/share.h"

/* COMMON_WEIGHTS: as the setting local_common has it. */
enum { LAYERS_MAX = 16, SLOTS = 2, COMMON_WEIGHTS = 1 << 20 };

static bool by_rows(const struct exchange *all, const struct param *param)
{
    return all->run->way != EXCHANGE_QUEUE && param->kind == TRI_EMBED;
}

static bool by_factors(const struct exchange *all, const struct param *param)
{
    return all->run->way == EXCHANGE_REPLICAS && param->factor_rows > 0;
}

/* ---- the region ---- */

static void fill(const struct exchange *all, struct net *net)
{
    for (uint32_t i = 0; i < net_params(net); i++) {
        const struct param *param = net_param(net, i);
        const size_t matrix = (size_t)param->rows * param->cols;
        float *to = local_shared(all->local, i);
        memcpy(to, param->weights, matrix * sizeof *to);
        if (param->bias != NULL)
            memcpy(to + matrix, param->bias, param->rows * sizeof *to);
    }
}

static tri_status make_region(struct exchange *all, struct net *net, tri_error *err)
{
    const struct exchange_run *run = all->run;
    struct local_layer_info layers[LAYERS_MAX];
    char name[LOCAL_NAME_BYTES];
    (void)snprintf(name, sizeof name, "bench-learners-%ld", (long)getpid());
    if (net_params(net) > LAYERS_MAX)
        return fail(err, TRI_EARG, "the net has more than %d layers", LAYERS_MAX);
    for (size_t i = 0; i < net_params(net); i++) {
        const struct param *param = net_param(net, i);
        layers[i] = (struct local_layer_info){
            .name = param->name,
            .rows = param->rows,
            .cols = param->cols,
            .bias = param->bias != NULL,
            .max_rows = by_rows(all, param) ? run->batch * run->net->data.length + 1 : 0,
            .max_factors = by_factors(all, param) ? param->factor_rows : 0,
            .window = by_factors(all, param) && param->as_windows ? param->window_floats : 0,
            .common = by_factors(all, param) && param->reads_pending &&
                      (size_t)param->rows * param->cols >= COMMON_WEIGHTS};
    }
    static const enum local_mode modes[EXCHANGE_WAYS] = {[EXCHANGE_QUEUE] = LOCAL_SERVER,
                                                         [EXCHANGE_SYNC] = LOCAL_SYNC,
                                                         [EXCHANGE_REPLICAS] = LOCAL_REPLICAS};
    const struct local_options options = {.mem = &mem_libc,
                                          .name = name,
                                          .mode = modes[run->way],
                                          .learners = EXCHANGE_LEARNERS,
                                          .slots = run->way == EXCHANGE_REPLICAS ? 0 : SLOTS,
                                          .layers = layers,
                                          .layer_count = (uint32_t)net_params(net)};
    tri_status status = local_create(&options, &all->local, err);
    if (status != TRI_OK)
        return status;
    local_remove(all->local); /* children inherit it; nothing is left, however this ends */
    fill(all, net);
    return TRI_OK;
}

static tri_status prepare(struct exchange *all, tri_error *err)
{
    struct lesson lesson;
    tri_status status =
        lesson_open(&lesson, all->run->net, all->run->batch, EXCHANGE_LEARNERS, 0, err);
    if (status != TRI_OK)
        return status;
    if (all->run->way == EXCHANGE_REPLICAS)
        net_give_windows(lesson.net);
    status = make_region(all, lesson.net, err);
    lesson_close(&lesson);
    return status;
}

static tri_status check_seats(const struct exchange *all, uint64_t steps, tri_error *err)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < EXCHANGE_LEARNERS; i++) {
        struct local_seat_stats seat;
        local_seat_stats(all->local, i, &seat);
        if (seat.counts.applied != seat.counts.pushed || seat.counts.applied == 0)
            return fail(err, TRI_EIO, "learner %u gave %llu gradients, and %llu were applied",
                        (unsigned)i, (unsigned long long)seat.counts.pushed,
                        (unsigned long long)seat.counts.applied);
        sum += seat.counts.applied;
    }
    if (sum == steps)
        return TRI_OK;
    return fail(err, TRI_EIO, "learners made %llu steps, and %llu gradients were applied",
                (unsigned long long)steps, (unsigned long long)sum);
}

static tri_status finish(struct exchange *all, uint64_t steps, tri_error *err)
{
    if (all->local == NULL)
        return TRI_OK;
    tri_status status = check_seats(all, steps, err);
    local_close(all->local);
    return status;
}

static tri_status serve(const struct exchange *all, tri_error *err)
{
    const struct local_serve_options options = {.threads = 1, .until_done = true};
    return local_serve(all->local, &options, err);
}

/* ---- a learner ---- */

static tri_status join(struct exchange_learner *learner, tri_error *err)
{
    const struct local_learner_options options = {.seat = learner->number};
    struct net *net = learner->lesson.net;
    tri_status status = local_join(learner->all->local, &options, &learner->seat, err);
    if (status != TRI_OK)
        return status;
    for (uint32_t i = 0; i < net_params(net); i++) {
        const struct param *param = net_param(net, i);
        float *at = (float *)(uintptr_t)local_weights(learner->seat, i);
        net_use_weights(net, i, at, at + (size_t)param->rows * param->cols);
    }
    if (learner->all->run->way == EXCHANGE_REPLICAS)
        net_give_windows(net);
    return TRI_OK;
}

static bool put_rows(const struct exchange_learner *learner, uint32_t number,
                     const struct param *param)
{
    struct local_rows rows;
    if (!local_rows(learner->gradient, number, param->row_count + 1, &rows))
        return false;
    lesson_mark_row(&learner->lesson, param, &rows.numbers[param->row_count],
                    rows.values + (size_t)param->row_count * rows.stride);
    for (uint32_t i = 0; i < param->row_count; i++) {
        rows.numbers[i] = param->row_numbers[i];
        memcpy(rows.values + (size_t)i * rows.stride, param->row_values + (size_t)i * param->cols,
               param->cols * sizeof(float));
    }
    return true;
}

static bool put_factors(const struct exchange_learner *learner, uint32_t number,
                        const struct param *param)
{
    struct local_factors to;
    if (!local_factors(learner->gradient, number, param->factor_rows, &to))
        return false;
    const size_t us = (size_t)param->factor_rows * param->rows;
    memcpy(to.u, param->u, us * sizeof *to.u);
    memcpy(to.v, param->v, (size_t)param->factor_rows * to.width * sizeof *to.v);
    if (to.at != NULL)
        memcpy(to.at, param->at, us * sizeof *to.at);
    return true;
}

static bool rows(void *ctx, size_t number, size_t count)
{
    struct exchange_learner *learner = ctx;
    local_catch_up(learner->seat, (uint32_t)number, (uint32_t)count);
    return true;
}

static bool pending(void *ctx, size_t number, struct op_pending *out)
{
    struct exchange_learner *learner = ctx;
    struct local_pending steps;
    local_pend(learner->seat, (uint32_t)number, &steps);
    const struct param *param = net_param(learner->lesson.net, number);
    *out = (struct op_pending){steps.count, steps.u, steps.v, steps.weights,
                               steps.weights + (size_t)param->rows * param->cols};
    return true;
}

static bool ready(void *ctx, size_t number)
{
    struct exchange_learner *learner = ctx;
    const struct param *param = net_param(learner->lesson.net, number);
    if (by_factors(learner->all, param))
        return put_factors(learner, (uint32_t)number, param);
    if (by_rows(learner->all, param))
        return put_rows(learner, (uint32_t)number, param);
    float *to = local_dense(learner->gradient, (uint32_t)number);
    gradient_put(&learner->maker, param, to);
    lesson_mark(&learner->lesson, param, to);
    return true;
}

static bool learns(void *ctx, size_t number, bool *here, struct op_step *step)
{
    struct exchange_learner *learner = ctx;
    const float divisor = (float)learner->lesson.batch;
    struct local_others others;
    if (!ready(ctx, number))
        return false;
    *here = local_learn(learner->seat, (uint32_t)number, LESSON_LR, divisor, &others);
    if (!*here)
        return true;
    step->alpha = -LESSON_LR / divisor;
    step->count = others.count;
    for (size_t k = 0; k < others.count; k++)
        step->others[k] =
            (struct op_other){others.at[k].u, others.at[k].v, others.at[k].at, others.at[k].by};
    return true;
}

static tri_status step(struct exchange_learner *learner, tri_error *err)
{
    const bool replicas = learner->all->run->way == EXCHANGE_REPLICAS;
    const struct net_calls calls = {.ctx = learner,
                                    .ready = ready,
                                    .learns = replicas ? learns : NULL,
                                    .rows = replicas ? rows : NULL,
                                    .pending = replicas ? pending : NULL};
    struct lesson *lesson = &learner->lesson;
    tri_status status = local_refresh(learner->seat, err);
    if (status != TRI_OK)
        return status;
    (void)net_forward(lesson->net, true, 0, &calls);
    lesson_note(lesson);
    status = local_take(learner->seat, &learner->gradient, err);
    if (status != TRI_OK)
        return status;
    if (!net_backward(lesson->net, &calls))
        return fail(err, TRI_EIO, "a gradient has more rows than its slot");
    return local_publish(learner->seat, LESSON_LR, (float)lesson->batch, err);
}

/* Each takes what the other gives until both give no more: then all is in both copies. */
static tri_status end_replica(struct exchange_learner *learner, tri_error *err)
{
    struct local_stats stats;
    tri_status status = local_share_drain(learner->seat, false, err);
    local_stats(learner->all->local, &stats);
    if (status != TRI_OK)
        return status;
    return exchange_check(lesson_count(&learner->lesson), stats.counts.pushed, err);
}

static tri_status end(struct exchange_learner *learner, tri_error *err)
{
    if (learner->all->run->way == EXCHANGE_REPLICAS)
        return end_replica(learner, err);
    tri_status status = local_flush(learner->seat, err);
    if (status != TRI_OK || learner->all->run->way == EXCHANGE_SYNC)
        return status;
    exchange_meet(learner, 1);
    return exchange_check(lesson_count(&learner->lesson), EXCHANGE_LEARNERS * learner->steps, err);
}

static void leave(struct exchange_learner *learner)
{
    local_leave(learner->seat);
}

const struct exchange_ops exchange_by_memory = {
    .prepare = prepare,
    .finish = finish,
    .join = join,
    .step = step,
    .end = end,
    .leave = leave,
    .serve = serve,
};
