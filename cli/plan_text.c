/* A plan for people: the table, the comparison, the explanation. */
#include <math.h>
#include <stdio.h>

#include "base/printable.h"
#include "base/units.h"
#include "cli/plan.h"
#include "cli/table.h"

enum { NAME_WIDTH = 22, NAME_TEXT = 61, WHY_TEXT = 40, LINE_TEXT = 300, LOOK_AHEAD = 4096 };

/* How much more than an even split a node may move before we speak of it. */
static const double uneven_from = 1.1;

static const tri_scheme_ops *chosen(const struct plan_layer *layer)
{
    return scheme_at(layer->scheme);
}

static double time_of(const struct plan_layer *layer)
{
    return layer->costs[layer->scheme].time_s;
}

/* A name from a profile as it may be shown: one line, cut to most bytes. */
static const char *shown(const char *name, int most, char out[NAME_TEXT])
{
    (void)snprintf(out, NAME_TEXT, "%.*s", most, name);
    printable(out);
    return out;
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

static const char *known(const char *text)
{
    return text != NULL ? text : "";
}

/* Where the compute time comes from, in as many words as the line has room for. */
static void head_measured(const struct plan *plan, const char *start, struct buf *out)
{
    const struct profile *profile = plan->book->profile;
    const char *const parts[] = {known(profile->device), known(profile->source),
                                 known(profile->where)};
    char line[LINE_TEXT];
    for (int words = 3; words >= 0; words--) {
        int used = snprintf(line, sizeof line, "%s", start);
        for (int i = 0; i < words && used < LINE_TEXT; i++)
            if (parts[i][0] != '\0')
                used += snprintf(line + used, sizeof line - (size_t)used, "%s%s",
                                 i == 0 ? " on " : ", ", parts[i]);
        if (used < LINE_TEXT)
            (void)snprintf(line + used, sizeof line - (size_t)used, "; yours: --flops");
        printable(line);
        if (used < LINE_TEXT && printable_columns(line) <= TABLE_COLUMNS)
            break;
    }
    buf_format(out, "%s\n", line);
}

static void head_compute(const struct plan *plan, struct buf *out)
{
    const struct profile *profile = plan->book->profile;
    char a[UNITS_TEXT], b[UNITS_TEXT], start[100];
    units_show_flops(plan->book->flops_s, b);
    if (!(plan->compute_s > 0)) {
        buf_format(out, "compute: products at %s (set it with --flops); the profile has no time\n",
                   b);
        return;
    }
    (void)snprintf(start, sizeof start, "compute: %s at %s", units_show_time(plan->compute_s, a),
                   b);
    if (plan->book->flops_s == profile->flops_s)
        head_measured(plan, start, out);
    else
        buf_format(out, "%s (set with --flops)\n", start);
}

static void head(const struct plan *plan, struct buf *out)
{
    const struct book *book = plan->book;
    const struct profile *profile = book->profile;
    char a[UNITS_TEXT], b[UNITS_TEXT], c[UNITS_TEXT], d[UNITS_TEXT], name[NAME_TEXT];
    buf_format(out, "model:   %s, %s parameters (%s) in %zu layer%s\n",
               shown(profile->name, 30, name), units_show_count((double)profile->params, a),
               units_show_bytes(4 * (double)profile->params, b), plan->count,
               plan->count == 1 ? "" : "s");
    head_nodes(book, out);
    buf_format(out, "link:    %s each way, latency %s, %s a message, chunks of %s\n",
               units_show_rate(book->bits_s, a), units_show_time(book->latency_s, b),
               units_show_time(book->message_s, c), units_show_bytes(plan->cluster.chunk_bytes, d));
    head_compute(plan, out);
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

/* Why a layer has a scheme although `next` is cheaper by its own price. */
static void why_iteration(const struct plan *plan, const struct plan_layer *layer, size_t next,
                          char out[WHY_TEXT])
{
    const char *name = scheme_at(next)->name;
    double other = layer->costs[next].iteration_s, same = 1e-9 * plan->iteration_s;
    bool bytes =
        layer->costs[layer->scheme].cost.floats_both <= layer->costs[next].cost.floats_both;
    if (isnan(other))
        (void)snprintf(out, WHY_TEXT, "for the whole iteration");
    else if (other > plan->iteration_s + same)
        (void)snprintf(out, WHY_TEXT, "shorter iteration than %s", name);
    else if (other >= plan->iteration_s - same)
        (void)snprintf(out, WHY_TEXT, "%s is no shorter iteration", name);
    else if (bytes)
        (void)snprintf(out, WHY_TEXT, "fewest bytes; %s gains little", name);
    else
        (void)snprintf(out, WHY_TEXT, "%s gains too little", name);
}

static void why(const struct plan *plan, const struct plan_layer *layer, char out[WHY_TEXT])
{
    const struct book *book = plan->book;
    size_t next = runner_up(book, layer);
    if (book->forced != NULL)
        (void)snprintf(out, WHY_TEXT, "asked for");
    else if (book->workers == 1)
        (void)snprintf(out, WHY_TEXT, "one worker");
    else if (next == SCHEME_MAX)
        (void)snprintf(out, WHY_TEXT, "only one allowed for %s",
                       layer_kind_name(layer->profile->kind));
    else if (book->rule == PLAN_BYTES)
        (void)snprintf(out, WHY_TEXT, "%.3gx fewer floats than %s",
                       layer->costs[next].cost.floats_both /
                           layer->costs[layer->scheme].cost.floats_both,
                       scheme_at(next)->name);
    else if (layer->costs[next].time_s < time_of(layer))
        why_iteration(plan, layer, next, out);
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
    why(plan, layer, reason);
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

/* How much more the busiest node moves than an even split says. */
static double unevenness(const struct plan *plan)
{
    double bytes = fmax(plan->busiest_send_bytes, plan->busiest_recv_bytes);
    return plan->even_bytes > 0 ? bytes / plan->even_bytes : 1;
}

static void foot_uneven(const struct plan *plan, struct buf *out)
{
    const struct book *book = plan->book;
    double bytes = fmax(plan->busiest_send_bytes, plan->busiest_recv_bytes);
    char a[UNITS_TEXT], name[30] = "a worker";
    if (plan->busiest_server != PLAN_NO_SERVER)
        (void)snprintf(name, sizeof name, "server %u", (unsigned)plan->busiest_server);
    buf_format(out, "uneven:   %s's node moves %s one way, %.3gx of an even split;\n", name,
               units_show_bytes(bytes, a), unevenness(plan));
    buf_format(out, "          %s would even it out\n",
               book->placement->cut == TRI_CUT_CHUNKS
                   ? "a smaller --chunk or --placement uniform"
                   : "--placement uniform, or hash with small chunks,");
}

static void foot_speed(const struct plan *plan, struct buf *out)
{
    bool uneven = unevenness(plan) > uneven_from;
    double workers = plan->book->workers, compute = plan->compute_s;
    double comm = uneven ? plan->busiest_s : plan->comm_s;
    char a[UNITS_TEXT], b[UNITS_TEXT];
    buf_format(out, "traffic:  %s out and %s in per iteration on the busiest node\n",
               units_show_bytes(uneven ? plan->busiest_send_bytes : plan->send_bytes, a),
               units_show_bytes(uneven ? plan->busiest_recv_bytes : plan->recv_bytes, b));
    if (uneven)
        foot_uneven(plan, out);
    if (!(compute > 0)) {
        buf_format(out, "time:     %s of communication; the profile has no compute time\n",
                   units_show_time(comm, a));
        return;
    }
    buf_format(out, "time:     %s of communication beside %s of compute%s\n",
               units_show_time(comm, a), units_show_time(compute, b),
               plan->book->profile->estimated ? " (an estimate of the profile)" : "");
    buf_format(out,
               "speed-up: %.3g if nothing overlaps, %.3g expected, at most %.3g if all does, of "
               "%.0f\n",
               workers * compute / (compute + comm), workers * compute / plan->iteration_s,
               workers * compute / fmax(compute, comm), workers);
}

static void foot_placement(const struct plan *plan, struct buf *out)
{
    if (plan->pieces == 0)
        return;
    const struct book *book = plan->book;
    uint64_t most = 0;
    for (size_t s = 0; s < book->servers; s++)
        most = plan->server_bytes[s] > most ? plan->server_bytes[s] : most;
    char a[UNITS_TEXT], b[UNITS_TEXT];
    buf_format(out,
               "servers:  %s: %llu piece%s on %u; the fullest has %s, %.3gx the mean (cv %.2g)\n",
               book->placement->name, (unsigned long long)plan->pieces,
               plan->pieces == 1 ? "" : "s", (unsigned)book->servers,
               units_show_bytes((double)most, a), plan->fullest_over_mean, plan->cv);
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
    char text[UNITS_TEXT], name[NAME_TEXT];
    buf_text(out, "Floats sent plus received by a node that is worker and server:\n");
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        const struct plan_cost *price = &layer->costs[i];
        buf_format(out, "  %-9s ", scheme_at(i)->name);
        if (price->refused != NULL) {
            buf_format(out, "cannot: '%s' %s\n", shown(layer->profile->name, 40, name),
                       price->refused);
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

/* What the layer takes with fewer and with more workers, by its own price: what is best for a whole
 * iteration may change earlier. */
static void explain_elsewhere(const struct plan *plan, const struct plan_layer *layer,
                              struct buf *out)
{
    const struct book *book = plan->book;
    size_t other = SCHEME_MAX;
    bool iteration = book->rule == PLAN_TIME && !isnan(plan->iteration_s);
    const char *price = iteration ? "By its own price it" : "It";
    if (!plan_by_price(plan, layer))
        return;
    uint32_t most = book->workers > LOOK_AHEAD / 4 ? 4 * book->workers : LOOK_AHEAD;
    if (most > BOOK_MAX_NODES)
        most = BOOK_MAX_NODES;
    uint32_t came = plan_came(plan, layer, &other);
    if (came > 0)
        buf_format(out, "%s was %s up to %u workers.\n", price, scheme_at(other)->name,
                   (unsigned)came);
    uint32_t leaves = plan_leaves(plan, layer, most, &other);
    if (leaves > 0)
        buf_format(out, "%s stays with %s up to %u worker%s; from %u on it takes %s.\n", price,
                   chosen(layer)->name, (unsigned)leaves - 1, leaves == 2 ? "" : "s",
                   (unsigned)leaves, scheme_at(other)->name);
    else if (most > book->workers)
        buf_format(out, "%s stays with %s at least up to %u workers.\n", price, chosen(layer)->name,
                   (unsigned)most);
}

static void explain_result(const struct plan *plan, const struct plan_layer *layer, struct buf *out)
{
    const struct book *book = plan->book;
    char reason[WHY_TEXT];
    why(plan, layer, reason);
    buf_format(out, "\nChosen by rule %s: %s (%s)\n", plan_rule_name(book->rule),
               chosen(layer)->name, reason);
    if (book->forced == NULL)
        explain_elsewhere(plan, layer, out);
}

void plan_explain(const struct plan *plan, const struct plan_layer *layer, struct buf *out)
{
    const struct profile_layer *profile = layer->profile;
    head(plan, out);
    char name[NAME_TEXT];
    buf_format(out, "%s: %s, M = %llu rows, N = %llu columns, bias %llu\n",
               shown(profile->name, NAME_TEXT - 1, name), layer_kind_name(profile->kind),
               (unsigned long long)profile->rows, (unsigned long long)profile->cols,
               (unsigned long long)profile->bias);
    buf_format(out, "K = batch %llu x %llu application%s = %.0f, P = %u, Q = %u\n\n",
               (unsigned long long)plan->book->batch, (unsigned long long)profile->applications,
               profile->applications == 1 ? "" : "s", layer->shape.factor_rows,
               (unsigned)plan->book->workers, (unsigned)plan->book->servers);
    explain_bytes(plan, layer, out);
    explain_rule(layer, out);
    explain_time(plan, layer, out);
    explain_result(plan, layer, out);
}
