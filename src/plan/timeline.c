/* One iteration, layer by layer. */
#include "plan/timeline.h"

#include <math.h>

#include "plan/traffic.h"

/* What a layer's passes weigh: by measured shares, else by flops, else by parameters. */
struct weight {
    double forward, backward;
};

static struct weight weigh(const struct profile *profile, const struct profile_layer *layer,
                           bool shares)
{
    if (shares)
        return (struct weight){layer->fwd_share, layer->bwd_share};
    if (profile->flops > 0)
        return (struct weight){layer->fwd_flops, layer->bwd_flops};
    return (struct weight){(double)layer->params, 2 * (double)layer->params};
}

/* What layers without parameters take is added to the one before them. */
void timeline_compute(struct plan *plan)
{
    const struct profile *profile = plan->book->profile;
    double shares = 0, total = 0;
    for (size_t i = 0; i < profile->count; i++)
        shares += profile->layers[i].fwd_share + profile->layers[i].bwd_share;
    size_t at = 0;
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        while (at + 1 < plan->count && plan->layers[at + 1].profile <= layer)
            at++;
        struct weight weight = weigh(profile, layer, shares > 0);
        plan->layers[at].forward_s += weight.forward;
        plan->layers[at].backward_s += weight.backward;
    }
    for (size_t i = 0; i < plan->count; i++)
        total += plan->layers[i].forward_s + plan->layers[i].backward_s;
    for (size_t i = 0; i < plan->count; i++) {
        plan->layers[i].forward_s *= plan->compute_s / total;
        plan->layers[i].backward_s *= plan->compute_s / total;
    }
}

/* When everything is free. Workers are alike: one stands for all. A link is seen twice: as one
 * line that carries all that an average node moves, and as the ways that updates take one after
 * the other, each with a line of its own. What takes longer counts. */
struct line {
    const struct plan *plan;
    double slow; /* times that the link is slower than the book says */
    double device, link;
    double push, pull; /* a worker's, to and from servers or other workers */
    double *in, *out;  /* [servers] */
    double *summed;    /* [servers] their processors */
    /* by layer from the top: when all that its product needs has come; multiplied before next */
    double *arrived;
    size_t next, end;
};

static double wire_s(const struct line *line, double bytes)
{
    return line->slow * 8 * bytes / line->plan->book->bits_s;
}

static double use(double *way, double from, double seconds)
{
    *way = fmax(*way, from) + seconds;
    return *way;
}

/* A layer that lives on the workers. */
static double exchange(struct line *line, const struct plan_layer *layer, double ready)
{
    const struct book *book = line->plan->book;
    const tri_scheme_cost *cost = &layer->costs[layer->scheme].cost;
    double out = wire_s(line, cost->send_bytes) + cost->messages * book->message_s;
    double sent = use(&line->push, ready, out);
    double got = use(&line->pull, ready, wire_s(line, cost->recv_bytes));
    return fmax(sent, got) + cost->rounds * book->latency_s;
}

/* A server adds up a piece of so many bytes from all workers, the last of which is in by `in`, and
 * steps; when it has. It has summed the others as they came. */
static double sum(struct line *line, uint32_t server, double in, double bytes)
{
    const struct book *book = line->plan->book;
    if (book->memory_bytes_s == 0)
        return in;
    double each = bytes / book->memory_bytes_s;
    return use(&line->summed[server], in - (book->workers - 1.0) * each,
               (book->workers + 1.0) * each);
}

/* A layer that lives on servers: pushed piece by piece, gathered, answered. */
static double serve(struct line *line, const struct plan_layer *layer, double ready)
{
    const struct plan *plan = line->plan;
    const struct book *book = plan->book;
    struct flow flow = traffic_flow(plan, layer);
    double others = book->colocated > 0 ? book->workers - 1.0 : book->workers;
    bool all_own = book->colocated > 0 && layer->pieces >= book->servers;
    double away = all_own ? 1 - 1.0 / book->servers : 1; /* of the worker that keeps least */
    double first = INFINITY, last = 0;
    for (uint64_t i = 0; i < layer->pieces; i++) {
        const struct plan_piece *piece = &plan->piece[layer->first_piece + i];
        double share = (double)piece->floats / (double)layer->profile->params;
        double up = wire_s(line, share * flow.up), down = wire_s(line, share * flow.down);
        double pushed = use(&line->push, ready, away * (up + book->message_s)) + book->latency_s;
        double in = use(&line->in[piece->server], pushed - up, others * up);
        double stepped = sum(line, piece->server, fmax(in, pushed), 4 * (double)piece->floats);
        double back = use(&line->out[piece->server], stepped, others * (down + book->message_s));
        first = fmin(first, back - (others - 1) * down);
        last = fmax(last, back + book->latency_s);
    }
    double down = away * wire_s(line, flow.down);
    return fmax(last, use(&line->pull, first - down / (double)layer->pieces, down));
}

/* The update of the layer that the device has just finished; when its result is there. */
static double leave(struct line *line, const struct plan_layer *layer)
{
    const struct book *book = line->plan->book;
    const struct plan_cost *cost = &layer->costs[layer->scheme];
    double latency = cost->cost.rounds * book->latency_s;
    double wire = cost->time_s - latency - cost->cost.extra_flops / book->flops_s;
    double evenly = use(&line->link, line->device, line->slow * wire) + latency;
    double way =
        layer->pieces > 0 ? serve(line, layer, line->device) : exchange(line, layer, line->device);
    return fmax(evenly, way);
}

/* The device multiplies out what has come by now. */
static void multiply(struct line *line, bool all)
{
    const struct plan *plan = line->plan;
    for (; line->next < line->end; line->next++) {
        const struct plan_layer *layer = &plan->layers[plan->count - 1 - line->next];
        const tri_scheme_cost *cost = &layer->costs[layer->scheme].cost;
        double there = line->arrived[line->next];
        if (there > line->device && !all)
            return;
        line->device = fmax(line->device, there) + cost->extra_flops / plan->book->flops_s;
    }
}

static double walk(struct line *line)
{
    const struct plan *plan = line->plan;
    for (size_t i = 0; i < plan->count; i++)
        line->device += plan->layers[i].forward_s;
    double first = line->device + plan->layers[plan->count - 1].backward_s;
    for (size_t i = plan->count; i-- > 0;) {
        line->device += plan->layers[i].backward_s;
        line->arrived[line->end++] = leave(line, &plan->layers[i]);
        multiply(line, false);
    }
    multiply(line, true);
    /* The busiest node does not rest between its first byte and its last. */
    double bytes = plan->book->shared ? plan->busiest_send_bytes + plan->busiest_recv_bytes
                                      : fmax(plan->busiest_send_bytes, plan->busiest_recv_bytes);
    return fmax(line->device, first + wire_s(line, bytes));
}

static tri_status estimate(const struct plan *plan, double slow, double *seconds, tri_error *err)
{
    const struct book *book = plan->book;
    if (isnan(plan->compute_s)) {
        *seconds = NAN;
        return TRI_OK;
    }
    struct line line = {.plan = plan, .slow = slow};
    line.in = mem_array(plan->mem, book->servers, sizeof *line.in);
    line.out = mem_array(plan->mem, book->servers, sizeof *line.out);
    line.summed = mem_array(plan->mem, book->servers, sizeof *line.summed);
    line.arrived = mem_array(plan->mem, plan->count, sizeof *line.arrived);
    tri_status status = TRI_OK;
    if (line.in == NULL || line.out == NULL || line.summed == NULL || line.arrived == NULL)
        status = fail_nomem(err, "a timeline");
    else
        *seconds = book->workers > 1 ? walk(&line) : plan->compute_s;
    mem_free(plan->mem, line.in);
    mem_free(plan->mem, line.out);
    mem_free(plan->mem, line.summed);
    mem_free(plan->mem, line.arrived);
    return status;
}

tri_status timeline(struct plan *plan, tri_error *err)
{
    tri_status status = estimate(plan, 1, &plan->iteration_s, err);
    return status == TRI_OK ? estimate(plan, 1.25, &plan->iteration_slow_s, err) : status;
}
