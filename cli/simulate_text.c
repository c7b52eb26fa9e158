/* A sweep for people: what was simulated, the speed-ups, and the largest case taken apart. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/units.h"
#include "cli/simulate.h"
#include "cli/table.h"

enum { PHRASE_TEXT = 80, NAME_MOST = 40 };

/* ---- the head ---- */

static const char head_start[] = "simulated: ";

struct head {
    struct buf *out;
    size_t column; /* 0: nothing is written yet */
};

/* Adds a phrase after a comma, on a new line where it would not fit. */
__attribute__((format(printf, 2, 3))) static void phrase(struct head *head, const char *format, ...)
{
    char text[PHRASE_TEXT];
    va_list args;
    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    va_end(args);
    printable(text);
    size_t width = printable_columns(text), indent = sizeof head_start - 1;
    if (head->column == 0) {
        buf_text(head->out, head_start);
        head->column = indent;
    } else if (head->column + 2 + width + 1 > TABLE_COLUMNS) {
        buf_text(head->out, ",\n");
        buf_fill(head->out, ' ', indent);
        head->column = indent;
    } else {
        buf_text(head->out, ", ");
        head->column += 2;
    }
    buf_text(head->out, text);
    head->column += width;
}

static void head_link(struct head *head, const struct sweep *sweep)
{
    const struct study *study = &sweep->study;
    char a[UNITS_TEXT], b[UNITS_TEXT];
    const char *duplex = study->shared ? "shared by both ways" : "full duplex";
    units_show_rate(sweep->rates[0], a);
    if (sweep->rate_count > 1)
        phrase(head, "%s to %s %s", a, units_show_rate(sweep->rates[sweep->rate_count - 1], b),
               duplex);
    else
        phrase(head, "%s %s", a, duplex);
    if (study->efficiency != 1)
        phrase(head, "%g of it usable", study->efficiency);
    phrase(head, "latency %s", units_show_time(study->latency_s, a));
    phrase(head, "%s a message", units_show_time(study->message_s, a));
    if (study->copy_bytes_s > 0)
        phrase(head, "copies at %s", units_show_rate(8 * study->copy_bytes_s, a));
}

static void head_servers(struct head *head, const struct study *study)
{
    const char *where = study->apart ? "apart" : "on the workers' nodes";
    char size[UNITS_TEXT];
    if (study->servers == 0)
        phrase(head, study->apart ? "as many servers as workers, apart" : "a server on every node");
    else
        phrase(head, "%u server%s %s", (unsigned)study->servers, study->servers == 1 ? "" : "s",
               where);
    phrase(head, "placement %s", study->placement->name);
    phrase(head, "chunks of %s", units_show_bytes((double)study->chunk_bytes, size));
}

static void put_head(const struct sweep *sweep, struct buf *out)
{
    const struct study *study = &sweep->study;
    double rate = study->flops_s > 0 ? study->flops_s : study->profile->flops_s;
    struct head head = {.out = out};
    char text[UNITS_TEXT];
    phrase(&head, "%.*s", NAME_MOST, study->profile->name);
    phrase(&head, "batch %llu", (unsigned long long)study->batch);
    head_link(&head, sweep);
    if (rate > 0)
        phrase(&head, "%s a node", units_show_flops(rate, text));
    head_servers(&head, study);
    phrase(&head, "%.40s", study->consistency);
    if (study->codec.ratio > 0)
        phrase(&head, "codec %.40s", sweep->codec);
    if (study->jitter > 0)
        phrase(&head, "jitter %g", study->jitter);
    phrase(&head, "%u iterations", (unsigned)study->iterations);
    phrase(&head, "seed %llu", (unsigned long long)study->seed);
    buf_char(out, '\n');
}

/* ---- the tables ---- */

/* The column of rates stands only where there are several. */
static void put_case(struct table *table, const struct sweep *sweep, size_t node, size_t rate)
{
    char text[UNITS_TEXT];
    table_cell(table, "%u", (unsigned)sweep->nodes[node]);
    if (sweep->rate_count > 1)
        table_cell(table, "%s", units_show_rate(sweep->rates[rate], text));
}

static void put_speedups(const struct sweep *sweep, const struct mem *mem, struct buf *out)
{
    bool rates = sweep->rate_count > 1;
    char alignments[TABLE_MAX_COLUMNS + 1] = {0};
    memset(alignments, 'r', sweep->system_count + (rates ? 2 : 1));
    struct table table;
    table_init(&table, mem, alignments);
    table_cell(&table, "nodes");
    if (rates)
        table_cell(&table, "link");
    for (size_t s = 0; s < sweep->system_count; s++)
        table_cell(&table, "%s", sweep->systems[s]->name);
    for (size_t row = 0; row < sweep->node_count * sweep->rate_count; row++) {
        size_t node = row / sweep->rate_count, rate = row % sweep->rate_count;
        if (sweep_at(sweep, node, rate, 0) == NULL)
            break;
        put_case(&table, sweep, node, rate);
        for (size_t s = 0; s < sweep->system_count; s++) {
            const struct study_result *result = sweep_at(sweep, node, rate, s);
            if (result != NULL)
                table_cell(&table, "%.2f", result->speedup);
            else
                table_cell(&table, "-");
        }
    }
    buf_text(out, "\nspeed-up, in samples a second, over one node that only computes:\n");
    table_print(&table, 24, out);
    table_fini(&table);
}

static double most(const double *bytes, size_t count)
{
    double found = 0;
    for (size_t i = 0; i < count; i++)
        found = bytes[i] > found ? bytes[i] : found;
    return found;
}

/* One system at the largest case that it has finished. */
static void put_detail(struct table *table, const struct sweep *sweep, size_t system)
{
    size_t row = (sweep->done - system - 1) / sweep->system_count;
    size_t node = row / sweep->rate_count, rate = row % sweep->rate_count;
    const struct timed_result *timed = &sweep_at(sweep, node, rate, system)->timed;
    char text[UNITS_TEXT];
    table_cell(table, "%s", sweep->systems[system]->name);
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
    for (size_t s = 0; s < sweep->system_count && s < sweep->done; s++)
        put_detail(&table, sweep, s);
    buf_text(out, "\nan iteration of the largest case:\n");
    table_print(&table, 24, out);
    table_fini(&table);
    buf_text(out, "\nbusiest sends: bytes of values from the node that sends most; messages: of "
                  "all nodes\n");
}

void sweep_text(const struct sweep *sweep, const struct mem *mem, struct buf *out)
{
    put_head(sweep, out);
    put_speedups(sweep, mem, out);
    put_details(sweep, mem, out);
}
