/* A sweep for people: what was simulated, the speed-ups, the largest case taken apart, and what
 * could be better. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "cli/simulate.h"
#include "cli/table.h"

enum { VARIANT_MOST = 48 };

/* ---- the tables ---- */

/* The column of rates stands only where there are several. */
static void put_case(struct table *table, const struct sweep *sweep, size_t node, size_t rate)
{
    char text[UNITS_TEXT];
    table_cell(table, "%u", (unsigned)sweep->nodes[node]);
    if (sweep->rate_count > 1)
        table_cell(table, "%s", units_show_rate(sweep->rates[rate], text));
}

/* The variants from `first` on that fit side by side; returns the one after them. */
static size_t columns_end(const struct sweep *sweep, size_t first)
{
    enum { CELL = 6, CASE = 7, LINK = 12 }; /* "999.99", "65536  ", "10.5 Gbit/s " */
    size_t cases = sweep->rate_count > 1 ? 2 : 1, width = CASE + (cases > 1 ? LINK : 0), end;
    for (end = first; end < sweep->variant_count && end - first + cases < TABLE_MAX_COLUMNS;
         end++) {
        size_t name = strlen(sweep->variants[end].name);
        width += 2 + (name > CELL ? name : CELL);
        if (end > first && width > TABLE_COLUMNS)
            break;
    }
    return end;
}

static void put_speedup_row(struct table *table, const struct sweep *sweep, size_t row,
                            const size_t variants[2])
{
    size_t node = row / sweep->rate_count, rate = row % sweep->rate_count;
    put_case(table, sweep, node, rate);
    for (size_t v = variants[0]; v < variants[1]; v++) {
        const struct study_result *result = sweep_at(sweep, node, rate, v);
        if (result != NULL)
            table_cell(table, "%.2f", result->speedup);
        else
            table_cell(table, "-");
    }
}

/* The columns of some of the variants. */
static void put_speedup_table(const struct sweep *sweep, const size_t variants[2],
                              const struct mem *mem, struct buf *out)
{
    bool rates = sweep->rate_count > 1;
    char alignments[TABLE_MAX_COLUMNS + 1] = {0};
    memset(alignments, 'r', variants[1] - variants[0] + (rates ? 2 : 1));
    struct table table;
    table_init(&table, mem, alignments);
    table_cell(&table, "nodes");
    if (rates)
        table_cell(&table, "link");
    for (size_t v = variants[0]; v < variants[1]; v++)
        table_cell(&table, "%s", sweep->variants[v].name);
    for (size_t row = 0; row < sweep->node_count * sweep->rate_count; row++) {
        if (sweep_at(sweep, row / sweep->rate_count, row % sweep->rate_count, 0) == NULL)
            break;
        put_speedup_row(&table, sweep, row, variants);
    }
    table_print(&table, 24, out);
    table_fini(&table);
}

static void put_speedups(const struct sweep *sweep, const struct mem *mem, struct buf *out)
{
    buf_text(out, "\nspeed-up, in samples a second, over one node that only computes:\n");
    for (size_t first = 0, end; first < sweep->variant_count; first = end) {
        end = columns_end(sweep, first);
        if (first > 0)
            buf_char(out, '\n');
        put_speedup_table(sweep, (size_t[]){first, end}, mem, out);
    }
}

static double most(const double *bytes, size_t count)
{
    double found = 0;
    for (size_t i = 0; i < count; i++)
        found = bytes[i] > found ? bytes[i] : found;
    return found;
}

/* One variant at the largest case that it has finished. */
static void put_detail(struct table *table, const struct sweep *sweep, size_t variant)
{
    size_t node, rate;
    if (!sweep_largest(sweep, variant, &node, &rate))
        return;
    const struct timed_result *timed = &sweep_at(sweep, node, rate, variant)->timed;
    char text[UNITS_TEXT];
    table_cell(table, "%s", sweep->variants[variant].name);
    put_case(table, sweep, node, rate);
    table_cell(table, "%s", units_show_time(timed->iteration_s, text));
    table_cell(table, "%s", units_show_time(timed->compute_s, text));
    double stall = sweep_stall(timed);
    table_cell(table, "%s%s", stall < 0 ? "-" : "", units_show_time(fabs(stall), text));
    table_cell(table, "%s", units_show_bytes(most(timed->sent, timed->nodes), text));
    double messages = (double)timed->messages / sweep->study.iterations;
    table_cell(table, "%s", units_show_count(messages, text));
}

static void put_details(const struct sweep *sweep, const struct mem *mem, struct buf *out)
{
    static const char *const heads[] = {"iteration", "compute", "stall", "busiest sends",
                                        "messages"};
    bool rates = sweep->rate_count > 1;
    struct table table;
    table_init(&table, mem, rates ? "lrrrrrrr" : "lrrrrrr");
    table_cell(&table, "system");
    table_cell(&table, "nodes");
    if (rates)
        table_cell(&table, "link");
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        table_cell(&table, "%s", heads[i]);
    for (size_t v = 0; v < sweep->variant_count; v++)
        put_detail(&table, sweep, v);
    buf_text(out, "\nan iteration of the largest case:\n");
    table_print(&table, VARIANT_MOST, out);
    table_fini(&table);
    buf_text(out, "\nbusiest sends: bytes of values from the node that sends most; messages: of "
                  "all nodes\n");
}

/* ---- hints ---- */

static const char *evener(const struct study *study)
{
    const struct study_system *system = study->system;
    const char *placement = study->placement->name;
    if (study->servers > 0 && study->servers < study->nodes)
        return "few servers serve many workers; try more --servers";
    if (system->placement != NULL)
        return "whole tensors stay on one server; wfbp sends them in chunks to all";
    if (strcmp(system->name, "adam") == 0)
        return "an FC layer goes to one server; poseidon and trident spread it";
    if (strcmp(placement, "hash") != 0 && strcmp(placement, "uniform") != 0)
        return "whole tensors stay on one server; try --placement hash";
    return "try a smaller --chunk";
}

static void put_hints(const struct sweep *sweep, struct buf *out)
{
    enum { MOST = 4 };
    const double uneven = 1.5;
    size_t found = 0;
    for (size_t v = 0; v < sweep->variant_count; v++) {
        size_t node, rate;
        if (!sweep_largest(sweep, v, &node, &rate))
            continue;
        double imbalance = sweep_imbalance(&sweep_at(sweep, node, rate, v)->timed);
        size_t at = (node * sweep->rate_count + rate) * sweep->variant_count + v;
        struct study study = sweep_study(sweep, at);
        if (imbalance <= uneven || ++found > MOST)
            continue;
        buf_format(out,
                   "hint: %.40s is uneven, its busiest node sends %.1f times the mean;\n"
                   "      %s\n",
                   sweep->variants[v].name, imbalance, evener(&study));
    }
    if (found > MOST)
        buf_format(out, "hint: %zu more are uneven\n", found - MOST);
}

void sweep_text(const struct sweep *sweep, const struct mem *mem, struct buf *out)
{
    sweep_head(sweep, true, out);
    buf_char(out, '\n');
    put_speedups(sweep, mem, out);
    put_details(sweep, mem, out);
    put_hints(sweep, out);
}
