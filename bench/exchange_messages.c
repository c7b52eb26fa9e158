/* Learners that are workers of a job: gradients and weights travel over loopback. */
#include "base/mem.h"
#include "bench/exchange_way.h"

static struct crew_job job_of(const struct exchange *all)
{
    return (struct crew_job){.workers = EXCHANGE_LEARNERS,
                             .servers = exchange_processes(all->run) - EXCHANGE_LEARNERS,
                             .port = all->port};
}

static tri_status prepare(struct exchange *all, tri_error *err)
{
    all->port = crew_port(err);
    return all->port != 0 ? TRI_OK : TRI_EIO;
}

static tri_status finish(struct exchange *all, uint64_t steps, tri_error *err)
{
    (void)all, (void)steps, (void)err; /* learners have looked at what they have */
    return TRI_OK;
}

static tri_status serve(const struct exchange *all, tri_error *err)
{
    const struct crew_job job = job_of(all);
    crew_environment(&job, EXCHANGE_LEARNERS);
    return all->run->serve(&mem_libc, err);
}

/* ---- a learner ---- */

static tri_status describe(struct exchange_learner *learner, tri_error *err)
{
    struct net *net = learner->lesson.net;
    tri_status status = TRI_OK;
    for (size_t i = 0; i < net_params(net) && status == TRI_OK; i++) {
        const struct param *param = net_param(net, i);
        uint32_t number;
        tri_layer_info info = TRI_LAYER_INIT;
        info.name = param->name;
        info.kind = param->kind;
        info.rows = param->rows;
        info.cols = param->cols;
        info.weights = param->weights;
        info.bias = param->bias;
        status = tri_layer(learner->job, &info, &number, err);
    }
    return status == TRI_OK ? tri_start(learner->job, err) : status;
}

static tri_status join(struct exchange_learner *learner, tri_error *err)
{
    const struct crew_job job = job_of(learner->all);
    tri_options options = TRI_OPTIONS_INIT;
    options.scheme = "ps";
    options.consistency = learner->all->run->way == EXCHANGE_ASP ? "asp" : "bsp";
    crew_environment(&job, learner->number);
    learner->dense = op_floats(&mem_libc, lesson_floats(&learner->lesson));
    if (learner->dense == NULL)
        return fail_nomem(err, "gradients");
    tri_status status = tri_open(&options, &learner->job, err);
    return status == TRI_OK ? describe(learner, err) : status;
}

static bool before(void *ctx, size_t number)
{
    struct exchange_learner *learner = ctx;
    learner->status = tri_sync(learner->job, (uint32_t)number, learner->err);
    return learner->status == TRI_OK;
}

static bool ready(void *ctx, size_t number)
{
    struct exchange_learner *learner = ctx;
    const struct param *param = net_param(learner->lesson.net, number);
    float *to = learner->dense + lesson_offset(&learner->lesson, number);
    tri_update_info update = TRI_UPDATE_INIT;
    gradient_put(&learner->maker, param, to);
    lesson_mark(&learner->lesson, param, to);
    update.dense = to;
    update.dense_bias = param->bias != NULL ? to + (size_t)param->rows * param->cols : NULL;
    update.count = learner->lesson.batch;
    update.lr = LESSON_LR;
    update.params_busy = 1;
    learner->status = tri_update(learner->job, (uint32_t)number, &update, learner->err);
    return learner->status == TRI_OK;
}

static tri_status step(struct exchange_learner *learner, tri_error *err)
{
    const struct net_calls calls = {.ctx = learner, .before = before, .ready = ready};
    struct lesson *lesson = &learner->lesson;
    if (!net_forward(lesson->net, true, 0, &calls))
        return learner->status;
    lesson_note(lesson);
    if (!net_backward(lesson->net, &calls))
        return learner->status;
    return tri_clock(learner->job, NULL, err);
}

static tri_status sync_all(struct exchange_learner *learner, tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint32_t i = 0; i < net_params(learner->lesson.net) && status == TRI_OK; i++)
        status = tri_sync(learner->job, i, err);
    return status;
}

/* When both have the answers to their last gradients all of them are in. An iteration without any
 * brings them. */
static tri_status end(struct exchange_learner *learner, tri_error *err)
{
    const bool steps_add = learner->all->run->way == EXCHANGE_ASP;
    tri_status status = sync_all(learner, err);
    if (status != TRI_OK)
        return status;
    exchange_meet(learner, 1);
    status = tri_clock(learner->job, NULL, err);
    if (status == TRI_OK)
        status = sync_all(learner, err);
    if (status != TRI_OK)
        return status;
    return exchange_check(lesson_count(&learner->lesson),
                          learner->steps * (steps_add ? EXCHANGE_LEARNERS : 1), err);
}

static void leave(struct exchange_learner *learner)
{
    tri_close(learner->job);
    op_floats_free(&mem_libc, learner->dense);
}

const struct exchange_ops exchange_by_messages = {
    .prepare = prepare,
    .finish = finish,
    .join = join,
    .step = step,
    .end = end,
    .leave = leave,
    .serve = serve,
};
