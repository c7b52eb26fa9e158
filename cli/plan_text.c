/* A plan for people: the table, the comparison, the explanation. */
#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "cli/plan.h"
#include "cli/table.h"

enum { NAME_WIDTH = 22, WHY_TEXT = 40, LOOK_AHEAD = 4096 };

static const tri_scheme_ops *chosen(const struct plan_layer *layer)
{
    return scheme_at(layer->scheme);
}

static double time_of(const struct plan_layer *layer)
{
    return layer->costs[layer->scheme].time_s;
}

/* ---- the head: what was planned for ---- */

static void head_nodes(const struct book *book, struct buf *out)
{
    unsigned p = book->workers, q = book->servers, both = book->colocated;
    buf_format(out, "cluster: %u worker%s and %u server%s", p, p == 1 ? "" : "s", q,
               q == 1 ? "" : "s");
    if (both == p && both == q)
        buf_text(out, " on the same nodes");
    else if (both == 0)
        buf_text(out, " apart");
    else
        buf_format(out, ", %u node%s both", both, both == 1 ? " is" : "s are");
    buf_format(out, ", batch %llu each\n", (unsigned long long)book->batch);
}

static void head(const struct plan *plan, struct buf *out)
{
    const struct book *book = plan->book;
    const struct profile *profile = book->profile;
    char a[UNITS_TEXT], b[UNITS_TEXT], c[UNITS_TEXT], d[UNITS_TEXT];
    buf_format(out, "model:   %.30s, %s parameters (%s) in %zu layers\n", profile->name,
               units_show_count((double)profile->params, a),
               units_show_bytes(4 * (double)profile->params, b), plan->count);
    head_nodes(book, out);
    buf_format(out, "link:    %s each way, latency %s, %s a message; products at %s\n",
               units_show_rate(book->bits_s, a), units_show_time(book->latency_s, b),
               units_show_time(book->message_s, c), units_show_flops(book->flops_s, d));
    if (book->forced != NULL) {
        buf_format(out, "rule:    none, %s for every layer\n\n", book->forced->name);
        return;
    }
    buf_format(out, "rule:    %s, among", plan_rule_name(book->rule));
    for (size_t i = 0; scheme_at(i) != NULL; i++)
        if (book->schemes >> i & 1)
            buf_format(out, " %s", scheme_at(i)->name);
    buf_text(out, "\n\n");
}

/* ---- the table ---- */

/* The best allowed scheme that was not chosen; SCHEME_MAX if there is none. */
static size_t runner_up(const struct book *book, const struct plan_layer *layer)
{
    size_t best = SCHEME_MAX;
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        if (i == layer->scheme || !(book->schemes >> i & 1) || layer->costs[i].refused != NULL)
            continue;
        if (best == SCHEME_MAX || layer->costs[i].time_s < layer->costs[best].time_s)
            best = i;
    }
    return best;
}

static void why(const struct book *book, const struct plan_layer *layer, char out[WHY_TEXT])
{
    size_t next = runner_up(book, layer);
    if (book->forced != NULL)
        (void)snprintf(out, WHY_TEXT, "asked for");
    else if (book->workers == 1)
        (void)snprintf(out, WHY_TEXT, "one worker");
    else if (next == SCHEME_MAX)
        (void)snprintf(out, WHY_TEXT, "no other for %s", layer_kind_name(layer->profile->kind));
    else if (book->rule == PLAN_BYTES)
        (void)snprintf(out, WHY_TEXT, "%.3gx fewer floats than %s",
                       layer->costs[next].cost.floats_both /
                           layer->costs[layer->scheme].cost.floats_both,
                       scheme_at(next)->name);
    else
        (void)snprintf(out, WHY_TEXT, "%.3gx faster than %s",
                       layer->costs[next].time_s / time_of(layer), scheme_at(next)->name);
}

static void table_row(const struct plan *plan, const struct plan_layer *layer, struct table *table)
{
    const struct profile_layer *profile = layer->profile;
    const tri_scheme_cost *cost = &layer->costs[layer->scheme].cost;
    char text[UNITS_TEXT], reason[WHY_TEXT];
    table_cell(table, "%s", profile->name);
    table_cell(table, "%s", layer_kind_name(profile->kind));
    table_cell(table, "%llux%llu", (unsigned long long)profile->rows,
               (unsigned long long)profile->cols);
    table_cell(table, "%s", units_show_count((double)profile->params, text));
    table_cell(table, "%s", chosen(layer)->name);
    table_cell(table, "%s", units_show_bytes(fmax(cost->send_bytes, cost->recv_bytes), text));
    table_cell(table, "%s", units_show_time(time_of(layer), text));
    why(plan->book, layer, reason);
    table_cell(table, "%s", reason);
}

/* ---- the foot: sums ---- */

static void foot_schemes(const struct plan *plan, struct buf *out)
{
    const char *label = "schemes:";
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        size_t layers = 0;
        double params = 0;
        for (size_t j = 0; j < plan->count; j++)
            if (plan->layers[j].scheme == i) {
                layers++;
                params += (double)plan->layers[j].profile->params;
            }
        if (layers == 0)
            continue;
        buf_format(out, "%-8s  %s for %zu layer%s (%.3g %% of the parameters)\n", label,
                   scheme_at(i)->name, layers, layers == 1 ? "" : "s",
                   100 * params / (double)plan->book->profile->params);
        label = "";
    }
}

static void foot_speed(const struct plan *plan, struct buf *out)
{
    double workers = plan->book->workers, compute = plan->compute_s, comm = plan->comm_s;
    char a[UNITS_TEXT], b[UNITS_TEXT];
    buf_format(out, "traffic:  %s out and %s in per iteration on the busiest node\n",
               units_show_bytes(plan->send_bytes, a), units_show_bytes(plan->recv_bytes, b));
    if (!(compute > 0)) {
        buf_format(out, "time:     %s of communication; the profile has no compute time\n",
                   units_show_time(comm, a));
        return;
    }
    buf_format(out, "time:     %s of communication beside %s of compute%s\n",
               units_show_time(comm, a), units_show_time(compute, b),
               plan->book->profile->estimated ? " (an estimate of the profile)" : "");
    buf_format(out, "speed-up: %.3g if nothing overlaps, at most %.3g if all does, of %.0f\n",
               workers * compute / (compute + comm), workers * compute / fmax(compute, comm),
               workers);
}

static void foot_placement(const struct plan *plan, struct buf *out)
{
    if (plan->pieces == 0)
        return;
    const struct book *book = plan->book;
    uint64_t most = 0, sum = 0;
    for (size_t s = 0; s < book->servers; s++) {
        most = plan->server_bytes[s] > most ? plan->server_bytes[s] : most;
        sum += plan->server_bytes[s];
    }
    char a[UNITS_TEXT], b[UNITS_TEXT];
    buf_format(
        out, "servers:  %s: %llu piece%s on %u; the fullest has %s, %.3gx the mean (cv %.2g)\n",
        book->placement->name, (unsigned long long)plan->pieces, plan->pieces == 1 ? "" : "s",
        (unsigned)book->servers, units_show_bytes((double)most, a),
        (double)most * (double)book->servers / (double)sum, plan->cv);
    buf_format(out, "memory:   %s of landing buffers on the fullest server",
               units_show_bytes(plan->server_buffer_bytes, a));
    if (plan->worker_buffer_bytes > 0)
        buf_format(out, ", %s of factors on a worker",
                   units_show_bytes(plan->worker_buffer_bytes, b));
    buf_char(out, '\n');
}

void plan_table(const struct plan *plan, struct buf *out)
{
    head(plan, out);
    struct table table;
    table_init(&table, plan->mem, "llrrlrrl");
    static const char *const heads[] = {"layer",  "kind",  "rows x cols", "params",
                                        "scheme", "bytes", "time",        "why"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        table_cell(&table, "%s", heads[i]);
    for (size_t i = 0; i < plan->count; i++)
        table_row(plan, &plan->layers[i], &table);
    table_print(&table, NAME_WIDTH, out);
    table_fini(&table);
    buf_char(out, '\n');
    foot_schemes(plan, out);
    foot_speed(plan, out);
    foot_placement(plan, out);
}

/* ---- --compare ---- */

static void compare_table(const struct plan *plan, bool times, struct buf *out)
{
    struct table table;
    char alignments[TABLE_MAX_COLUMNS + 1] = "ll", text[UNITS_TEXT];
    for (size_t i = 0; scheme_at(i) != NULL && 2 + i < TABLE_MAX_COLUMNS; i++)
        alignments[2 + i] = 'r';
    table_init(&table, plan->mem, alignments);
    table_cell(&table, "layer");
    table_cell(&table, "kind");
    for (size_t i = 0; scheme_at(i) != NULL; i++)
        table_cell(&table, "%s ", scheme_at(i)->name);
    for (size_t j = 0; j < plan->count; j++) {
        const struct plan_layer *layer = &plan->layers[j];
        table_cell(&table, "%s", layer->profile->name);
        table_cell(&table, "%s", layer_kind_name(layer->profile->kind));
        for (size_t i = 0; scheme_at(i) != NULL; i++) {
            const struct plan_cost *price = &layer->costs[i];
            if (price->refused != NULL)
                table_cell(&table, "- ");
            else
                table_cell(&table, "%s%c",
                           times ? units_show_time(price->time_s, text)
                                 : units_show_bytes(
                                       fmax(price->cost.send_bytes, price->cost.recv_bytes), text),
                           i == layer->scheme ? '*' : ' ');
        }
    }
    table_print(&table, NAME_WIDTH, out);
    table_fini(&table);
}

void plan_compare(const struct plan *plan, struct buf *out)
{
    head(plan, out);
    buf_text(out, "Time to synchronise a layer (* chosen, - cannot carry it):\n\n");
    compare_table(plan, true, out);
    buf_text(out, "\nBytes one way on the busiest node:\n\n");
    compare_table(plan, false, out);
    buf_text(out, "\nCan only be planned with:");
    for (size_t i = 0; scheme_at(i) != NULL; i++)
        if (!scheme_at(i)->runs)
            buf_format(out, " %s", scheme_at(i)->name);
    buf_text(out, " (trident modules scheme)\n");
}

/* ---- --explain ---- */

static void explain_bytes(const struct plan *plan, const struct plan_layer *layer, struct buf *out)
{
    char text[UNITS_TEXT];
    buf_text(out, "Floats sent plus received by a node that is worker and server:\n");
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        const struct plan_cost *price = &layer->costs[i];
        buf_format(out, "  %-9s ", scheme_at(i)->name);
        if (price->refused != NULL) {
            buf_format(out, "cannot: '%.40s' %s\n", layer->profile->name, price->refused);
            continue;
        }
        buf_format(out, "%s\n            = ", scheme_at(i)->formula);
        char formula[200];
        scheme_at(i)->explain(&layer->shape, &plan->cluster, formula, sizeof formula);
        buf_format(out, "%s = %s\n", formula, units_show_count(price->cost.floats_both, text));
    }
}

/* Poseidon's inequality, with what came out. */
static void explain_rule(const struct plan_layer *layer, struct buf *out)
{
    size_t ps = 0, sfb = 0;
    (void)scheme_find("ps", &ps);
    (void)scheme_find("sfb", &sfb);
    if (layer->costs[sfb].refused != NULL)
        return;
    char a[UNITS_TEXT], b[UNITS_TEXT];
    double left = layer->costs[sfb].cost.floats_both, right = layer->costs[ps].cost.floats_both;
    buf_format(out, "\nRule bytes (Poseidon, Algorithm 1): sfb if %s <= %s:\n",
               scheme_at(sfb)->formula, scheme_at(ps)->formula);
    buf_format(out, "  %s %s %s, so %s\n", units_show_count(left, a), left <= right ? "<=" : ">",
               units_show_count(right, b), left <= right ? "sfb" : "ps");
}

static void explain_time(const struct plan *plan, const struct plan_layer *layer, struct buf *out)
{
    const struct book *book = plan->book;
    char a[UNITS_TEXT], b[UNITS_TEXT], c[UNITS_TEXT], d[UNITS_TEXT], e[UNITS_TEXT];
    buf_text(out, "\nRule time: rounds x latency + bytes / rate + extra flops / rate + messages x "
                  "cost:\n");
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        const struct plan_cost *price = &layer->costs[i];
        const tri_scheme_cost *cost = &price->cost;
        if (price->refused != NULL)
            continue;
        buf_format(out, "  %-9s %.0f x %s + %s / %s + %s / %s + %.0f x %s\n", scheme_at(i)->name,
                   cost->rounds, units_show_time(book->latency_s, a),
                   units_show_bytes(fmax(cost->send_bytes, cost->recv_bytes), b),
                   units_show_rate(book->bits_s, c), units_show_count(cost->extra_flops, d),
                   units_show_flops(book->flops_s, e), cost->messages,
                   units_show_time(book->message_s, (char[UNITS_TEXT]){0}));
        buf_format(out, "            = %s", units_show_time(price->time_s, a));
        if (cost->grid_rows > 0)
            buf_format(out, " (owners on a %.0f x %.0f grid)", cost->grid_rows, cost->grid_cols);
        buf_char(out, '\n');
    }
}

static void explain_result(const struct plan *plan, const struct plan_layer *layer, struct buf *out)
{
    const struct book *book = plan->book;
    char reason[WHY_TEXT];
    why(book, layer, reason);
    buf_format(out, "\nChosen by rule %s: %s (%s)\n", plan_rule_name(book->rule),
               chosen(layer)->name, reason);
    size_t other = SCHEME_MAX;
    uint32_t leaves = book->forced != NULL ? 0 : plan_leaves(plan, layer, LOOK_AHEAD, &other);
    if (leaves > 0)
        buf_format(out, "It stays with %s up to %u workers; from %u on it takes %s.\n",
                   chosen(layer)->name, (unsigned)leaves - 1, (unsigned)leaves,
                   scheme_at(other)->name);
    else if (book->forced == NULL)
        buf_format(out, "It stays with %s at least up to %d workers.\n", chosen(layer)->name,
                   LOOK_AHEAD);
}

void plan_explain(const struct plan *plan, const struct plan_layer *layer, struct buf *out)
{
    const struct profile_layer *profile = layer->profile;
    head(plan, out);
    buf_format(out, "%s: %s, M = %llu rows, N = %llu columns, bias %llu\n", profile->name,
               layer_kind_name(profile->kind), (unsigned long long)profile->rows,
               (unsigned long long)profile->cols, (unsigned long long)profile->bias);
    buf_format(out, "K = batch %llu x %llu application%s = %.0f, P = %u, Q = %u\n\n",
               (unsigned long long)plan->book->batch, (unsigned long long)profile->applications,
               profile->applications == 1 ? "" : "s", layer->shape.factor_rows,
               (unsigned)plan->book->workers, (unsigned)plan->book->servers);
    explain_bytes(plan, layer, out);
    explain_rule(layer, out);
    explain_time(plan, layer, out);
    explain_result(plan, layer, out);
}
