/* A net is a list of operators: forward goes down it, backward up. */
#include "engine/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/build.h"

struct timed {
    double forward_s, weigh_s, backward_s;
};

struct net {
    const struct mem *mem;
    uint32_t batch;
    struct op **ops;
    size_t count, cap;
    struct timed *times; /* of each operator */
    struct op **layers;  /* those with parameters, in order */
    size_t layer_count;
    struct op **norms; /* those with running statistics */
    size_t norm_count;
    struct op **drops;
    size_t drop_count;
    struct op *input, *loss;
    bool text;
    bool avoids; /* see net_avoid() */
    struct rng rng;
    double (*clock)(void);
};

/* ---- building ---- */

static bool broken(const struct build *build)
{
    return build->status != TRI_OK;
}

static void no_memory(struct build *build)
{
    build->status = fail_nomem(build->err, "a net");
}

static struct op *last(const struct build *build, struct op *in)
{
    const struct net *net = build->net;
    return in != NULL || net->count == 0 ? in : net->ops[net->count - 1];
}

/* Takes the operator. */
static struct op *append(struct build *build, struct op *op)
{
    struct net *net = build->net;
    void *ops = net->ops;
    if (mem_grow(net->mem, &ops, &net->cap, net->count + 1, sizeof(struct op *)) == NULL) {
        op_free(op);
        no_memory(build);
        return NULL;
    }
    net->ops = ops;
    net->ops[net->count++] = op;
    return op;
}

static struct op_frame frame(const struct build *build, const char *name)
{
    return (struct op_frame){.mem = build->net->mem, .name = name, .batch = build->net->batch};
}

/* The end of every call below: op is set if its constructor succeeded. */
static struct op *built(struct build *build, struct op *op)
{
    return broken(build) ? NULL : append(build, op);
}

/* For operators that take plain values only. */
static struct op *plain(struct build *build, struct op *in)
{
    in = last(build, in);
    if (broken(build) || in == NULL || in->out.layout == NULL)
        return in;
    struct op *op = NULL;
    char name[OP_NAME];
    (void)snprintf(name, sizeof name, "%.40s.plain", in->name);
    struct op_frame own = frame(build, name);
    build->status = op_plain_new(&own, in, &op, build->err);
    return built(build, op);
}

struct op *build_image(struct build *build)
{
    struct op *op = NULL;
    struct op_frame own = frame(build, "image");
    if (broken(build))
        return NULL;
    build->status = op_input_new(&own, build->data->image, &op, build->err);
    return build->net->input = built(build, op);
}

struct op *build_tokens(struct build *build)
{
    struct op *op = NULL;
    struct op_frame own = frame(build, "tokens");
    if (broken(build))
        return NULL;
    build->status = op_tokens_new(&own, build->data->length, &op, build->err);
    build->net->text = true;
    return build->net->input = built(build, op);
}

struct op *build_conv(struct build *build, const char *name, struct op *in,
                      const struct op_conv *conv)
{
    struct op *op = NULL;
    struct op_frame own = frame(build, name);
    if (broken(build))
        return NULL;
    build->status = op_conv_new(&own, last(build, in), conv, &op, build->err);
    return built(build, op);
}

struct op *build_pool(struct build *build, const char *name, const struct op_pool *pool)
{
    struct op *op = NULL;
    struct op_frame own = frame(build, name);
    if (broken(build))
        return NULL;
    build->status = op_pool_new(&own, last(build, NULL), pool, &op, build->err);
    return built(build, op);
}

struct op *build_norm(struct build *build, const char *name, bool relu)
{
    struct op *op = NULL;
    struct op_frame own = frame(build, name);
    if (broken(build))
        return NULL;
    build->status = op_norm_new(&own, last(build, NULL), relu, &op, build->err);
    op = built(build, op);
    if (op != NULL)
        build->net->norm_count++;
    return op;
}

struct op *build_add(struct build *build, const char *name, struct op *a, struct op *b, bool relu)
{
    struct op *op = NULL;
    struct op_frame own = frame(build, name);
    if (broken(build))
        return NULL;
    build->status = op_add_new(&own, a, b, relu, &op, build->err);
    return built(build, op);
}

struct op *build_fc(struct build *build, const char *name, uint32_t outputs, bool relu)
{
    struct op *op = NULL, *in = plain(build, NULL);
    struct op_frame own = frame(build, name);
    if (broken(build))
        return NULL;
    build->status = op_fc_new(&own, in, outputs, relu, &op, build->err);
    return built(build, op);
}

struct op *build_dropout(struct build *build, const char *name, float drop)
{
    struct op *op = NULL, *in = plain(build, NULL);
    struct op_frame own = frame(build, name);
    if (broken(build))
        return NULL;
    /* Two of them must not drop the same places. */
    uint64_t seed = build->seed + build->net->count;
    build->status = op_dropout_new(&own, in, drop, seed, &op, build->err);
    op = built(build, op);
    if (op != NULL)
        build->net->drop_count++;
    return op;
}

struct op *build_embed(struct build *build, const char *name, uint32_t width)
{
    struct op *op = NULL;
    struct op_frame own = frame(build, name);
    if (broken(build))
        return NULL;
    build->status =
        op_embed_new(&own, last(build, NULL), build->data->words, width, &op, build->err);
    return built(build, op);
}

struct op *build_textconv(struct build *build, const char *name, struct op *in, uint32_t filters,
                          uint32_t window)
{
    struct op *op = NULL;
    struct op_frame own = frame(build, name);
    if (broken(build))
        return NULL;
    build->status = op_textconv_new(&own, in, filters, window, &op, build->err);
    return built(build, op);
}

struct op *build_concat(struct build *build, const char *name, struct op *const *in, size_t count)
{
    struct op *op = NULL;
    struct op_frame own = frame(build, name);
    if (broken(build))
        return NULL;
    build->status = op_concat_new(&own, in, count, &op, build->err);
    return built(build, op);
}

void build_loss(struct build *build)
{
    struct op *op = NULL, *in = plain(build, NULL);
    struct op_frame own = frame(build, "loss");
    if (broken(build))
        return;
    build->status = op_loss_new(&own, in, &op, build->err);
    build->net->loss = built(build, op);
}

/* ---- initial values ---- */

/* Normal with a variance of 1 / fan_in (LeCun et al.): with the 2 / fan_in that would keep the size
 * of values through relu, the first steps of nets without normalisation are too long. Embeddings
 * are even within +-0.25 (Kim). Each layer has numbers of its own. */
static void fill(struct param *param, struct rng *rng)
{
    size_t n = (size_t)param->rows * param->cols;
    double scale = param->fan_in > 0 ? sqrt(1.0 / param->fan_in) : 0;
    for (size_t i = 0; i < n; i++) {
        if (param->kind == TRI_EMBED)
            param->weights[i] = (float)(0.5 * rng_unit(rng) - 0.25);
        else
            param->weights[i] = param->fan_in > 0 ? (float)(scale * rng_normal(rng)) : 1;
    }
    if (param->kind == TRI_EMBED) /* padding */
        memset(param->weights, 0, param->cols * sizeof *param->weights);
}

static void fill_all(struct net *net, uint64_t seed)
{
    struct rng all, own;
    rng_init(&all, seed);
    for (size_t i = 0; i < net->layer_count; i++) {
        rng_fork(&all, i, &own);
        fill(net->layers[i]->param, &own);
    }
}

/* ---- the net ---- */

/* The kinds' names are what tells norms and dropouts from the rest. */
static bool list_ops(struct net *net)
{
    net->times = mem_array(net->mem, net->count, sizeof *net->times);
    net->layers = mem_array(net->mem, net->count, sizeof(struct op *));
    net->norms = mem_array(net->mem, net->count, sizeof(struct op *));
    net->drops = mem_array(net->mem, net->count, sizeof(struct op *));
    if (net->times == NULL || net->layers == NULL || net->norms == NULL || net->drops == NULL)
        return false;
    net->norm_count = net->drop_count = 0;
    for (size_t i = 0; i < net->count; i++) {
        struct op *op = net->ops[i];
        if (op->param != NULL)
            net->layers[net->layer_count++] = op;
        if (strcmp(op->kind->name, "norm") == 0)
            net->norms[net->norm_count++] = op;
        if (strcmp(op->kind->name, "dropout") == 0)
            net->drops[net->drop_count++] = op;
    }
    return true;
}

tri_status net_new(const char *model, const struct net_data *data, uint32_t batch, uint64_t seed,
                   const struct mem *mem, struct net **out, tri_error *err)
{
    struct net *net = mem_array(mem, 1, sizeof *net);
    if (net == NULL)
        return fail_nomem(err, "a net");
    net->mem = mem;
    net->batch = batch;
    struct build build = {.net = net, .data = data, .seed = seed, .status = TRI_OK, .err = err};
    tri_status status = nets_build(&build, model);
    if (status == TRI_OK && !list_ops(net))
        status = fail_nomem(err, "a net");
    if (status != TRI_OK) {
        net_free(net);
        return status;
    }
    fill_all(net, seed);
    *out = net;
    return TRI_OK;
}

void net_free(struct net *net)
{
    if (net == NULL)
        return;
    for (size_t i = net->count; i-- > 0;)
        op_free(net->ops[i]);
    mem_free(net->mem, net->ops);
    mem_free(net->mem, net->times);
    mem_free(net->mem, net->layers);
    mem_free(net->mem, net->norms);
    mem_free(net->mem, net->drops);
    mem_free(net->mem, net);
}

size_t net_params(const struct net *net)
{
    return net->layer_count;
}

struct param *net_param(struct net *net, size_t i)
{
    return net->layers[i]->param;
}

void net_use_weights(struct net *net, size_t param, float *weights, float *bias)
{
    op_use_weights(net->layers[param], weights, bias);
}

void net_give_windows(struct net *net)
{
    for (size_t i = 0; i < net->layer_count; i++)
        op_give_windows(net->layers[i]);
}

size_t net_buffers(const struct net *net)
{
    return 2 * net->norm_count;
}

struct net_buffer net_buffer(struct net *net, size_t i)
{
    struct op *op = net->norms[i / 2];
    float *mean, *variance;
    op_norm_running(op, &mean, &variance);
    struct net_buffer buffer = {.at = i % 2 == 0 ? mean : variance,
                                .floats = op->out.shape.channels};
    (void)snprintf(buffer.name, sizeof buffer.name, "%s.running_%s", op->name,
                   i % 2 == 0 ? "mean" : "var");
    return buffer;
}

struct net_batch net_batch(struct net *net)
{
    return (struct net_batch){.images = net->text ? NULL : net->input->out.data,
                              .tokens = net->text ? op_tokens(net->input) : NULL,
                              .labels = op_labels(net->loss)};
}

uint32_t net_batch_size(const struct net *net)
{
    return net->batch;
}

/* ---- passes ---- */

static double now(const struct net *net)
{
    return net->clock != NULL ? net->clock() : 0;
}

/* A layer's forward pass, for the caller who is told of its rows. */
struct telling {
    const struct net *net;
    const struct net_calls *calls;
    size_t param;
    bool stopped;
    double spent_s; /* by the caller */
};

static void tell_rows(void *ctx, size_t rows)
{
    struct telling *telling = ctx;
    const struct net_calls *calls = telling->calls;
    const double since = now(telling->net);
    telling->stopped = telling->stopped || !calls->rows(calls->ctx, telling->param, rows);
    telling->spent_s += now(telling->net) - since;
}

static void tell_pending(void *ctx, struct op_pending *out)
{
    struct telling *telling = ctx;
    const struct net_calls *calls = telling->calls;
    const double since = now(telling->net);
    *out = (struct op_pending){0};
    telling->stopped = telling->stopped || !calls->pending(calls->ctx, telling->param, out);
    telling->spent_s += now(telling->net) - since;
}

/* Whatever the caller wants to know before the operator begins. */
static bool begin_forward(struct op *op, struct telling *telling)
{
    const struct net_calls *calls = telling->calls;
    if (op->param == NULL || calls == NULL)
        return true;
    if (calls->rows == NULL)
        return calls->before == NULL || calls->before(calls->ctx, telling->param);
    if (!op->kind->by_rows)
        return calls->rows(calls->ctx, telling->param, op->param->rows);
    op->reader = (struct op_reader){
        .call = tell_rows, .pending = calls->pending != NULL ? tell_pending : NULL, .ctx = telling};
    return true;
}

bool net_forward(struct net *net, bool training, uint64_t first_sample,
                 const struct net_calls *calls)
{
    size_t param = 0;
    for (size_t i = 0; i < net->drop_count; i++)
        op_dropout_at(net->drops[i], first_sample);
    for (size_t i = 0; i < net->count; i++) {
        struct op *op = net->ops[i];
        struct telling telling = {.net = net, .calls = calls, .param = param};
        if (!begin_forward(op, &telling))
            return false;
        param += op->param != NULL;
        double since = now(net);
        op->diff_written = false;
        op->kind->forward(op, training);
        op->reader = (struct op_reader){0};
        net->times[i].forward_s += now(net) - since - telling.spent_s;
        if (telling.stopped)
            return false;
    }
    return true;
}

static bool tell(bool (*call)(void *ctx, size_t param), void *ctx, size_t param)
{
    return call == NULL || call(ctx, param);
}

/* A layer's gradient is there. here: it is to be stepped in the backward pass. */
static bool tell_ready(const struct op *op, const struct net_calls *calls, size_t param, bool *here,
                       struct op_step *step)
{
    if (calls->learns != NULL && op->learns_others)
        return calls->learns(calls->ctx, param, here, step);
    return tell(calls->ready, calls->ctx, param);
}

bool net_backward(struct net *net, const struct net_calls *calls)
{
    const struct net_calls none = {0}, *to = calls != NULL ? calls : &none;
    size_t param = net->layer_count;
    struct op_step step;
    for (size_t i = net->count; i-- > 0;) {
        struct op *op = net->ops[i];
        double since = now(net);
        bool here = false;
        if (op->param != NULL) {
            op->kind->weigh(op);
            double weighed = now(net);
            net->times[i].weigh_s += weighed - since;
            if (!tell_ready(op, to, --param, &here, &step))
                return false;
            since = now(net);
        }
        if (here)
            op->kind->learn(op, &step);
        else if (op->kind->backward != NULL)
            op->kind->backward(op);
        net->times[i].backward_s += now(net) - since;
        if (op->param != NULL && !tell(to->done, to->ctx, param))
            return false;
    }
    return true;
}

void net_avoid(struct net *net, uint64_t seed)
{
    rng_init(&net->rng, seed);
    net->avoids = true;
}

/* For the backward pass that begins and the forward pass after it. */
static void begin_elsewhere(struct net *net)
{
    for (size_t i = 0; net->avoids && i < net->layer_count; i++)
        net->layers[i]->first = (uint32_t)rng_below(&net->rng, net->layers[i]->param->rows);
}

bool net_learn(struct net *net, float alpha, const struct net_calls *calls)
{
    size_t param = net->layer_count;
    begin_elsewhere(net);
    for (size_t i = net->count; i-- > 0;) {
        struct op *op = net->ops[i];
        double since = now(net);
        op_learn(op, alpha);
        net->times[i].backward_s += now(net) - since;
        if (op->param != NULL && calls != NULL && calls->ready != NULL &&
            !calls->ready(calls->ctx, --param))
            return false;
    }
    return true;
}

void net_loss(const struct net *net, uint32_t samples, double *loss, uint32_t *right)
{
    op_loss_of(net->loss, samples, loss, right);
}

const float *net_probabilities(const struct net *net)
{
    return net->loss->out.data;
}

void net_time(struct net *net, double (*clock)(void))
{
    net->clock = clock;
    memset(net->times, 0, net->count * sizeof *net->times);
}

size_t net_ops(const struct net *net)
{
    return net->count;
}

struct net_times net_times(const struct net *net, size_t i)
{
    const struct timed *timed = &net->times[i];
    return (struct net_times){.name = net->ops[i]->name,
                              .kind = net->ops[i]->kind->name,
                              .forward_s = timed->forward_s,
                              .weigh_s = timed->weigh_s,
                              .backward_s = timed->backward_s};
}
