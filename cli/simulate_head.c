/* What was simulated, in words. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/units.h"
#include "cli/simulate.h"
#include "cli/table.h"

enum { PHRASE_TEXT = 88, NAME_MOST = 40 };

static const char head_start[] = "simulated: ";

struct head {
    struct buf *out;
    bool wrap;
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
    } else if (head->wrap && head->column + 2 + width + 1 > TABLE_COLUMNS) {
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

/* "hash/lpt": what the variants have of a part, each once; "" where they have none. */
typedef const char *part_of(const struct sweep_variant *variant);

static void join_parts(const struct sweep *sweep, part_of *part, char out[PHRASE_TEXT])
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sweep->variant_count; i++) {
        const char *text = part(&sweep->variants[i]);
        bool known = text == NULL;
        for (size_t k = 0; k < i && !known; k++) {
            const char *other = part(&sweep->variants[k]);
            known = other != NULL && strcmp(other, text) == 0;
        }
        if (known || len + 2 >= PHRASE_TEXT)
            continue;
        (void)snprintf(out + len, PHRASE_TEXT - len, "%s%s", len > 0 ? "/" : "", text);
        len = strlen(out);
    }
}

static const char *placement_part(const struct sweep_variant *variant)
{
    return variant->system->alone || variant->system->placement != NULL ? NULL
                                                                        : variant->placement->name;
}

static const char *consistency_part(const struct sweep_variant *variant)
{
    return variant->system->alone ? NULL : variant->consistency;
}

static const char *codec_part(const struct sweep_variant *variant)
{
    return variant->system->alone ? NULL : variant->codec;
}

/* The least and the most of all runs; a node alone sends none. */
static void head_chunks(struct head *head, const struct sweep *sweep)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < sweep_total(sweep); i++) {
        struct study study = sweep_study(sweep, i);
        if (study.system->alone && sweep->variant_count > 1)
            continue;
        uint64_t chunk = study_chunk(&study);
        low = chunk < low ? chunk : low;
        high = chunk > high ? chunk : high;
    }
    char a[UNITS_TEXT], b[UNITS_TEXT];
    units_show_bytes((double)low, a);
    units_show_bytes((double)high, b);
    phrase(head, "chunks of %s%s%s%s", a, low < high ? " to " : "", low < high ? b : "",
           sweep->study.chunk_bytes == 0 ? " (auto)" : "");
}

static void head_servers(struct head *head, const struct sweep *sweep)
{
    const struct study *study = &sweep->study;
    const char *where = study->apart ? "apart" : "on the workers' nodes";
    char placements[PHRASE_TEXT];
    if (study->servers == 0)
        phrase(head, study->apart ? "as many servers as workers, apart" : "a server on every node");
    else
        phrase(head, "%u server%s %s", (unsigned)study->servers, study->servers == 1 ? "" : "s",
               where);
    join_parts(sweep, placement_part, placements);
    if (placements[0] != '\0')
        phrase(head, "placement %.70s", placements);
    head_chunks(head, sweep);
}

/* What the workers do: rules, consistencies, codecs, and how they vary. */
static void head_workers(struct head *head, const struct sweep *sweep)
{
    const struct study *study = &sweep->study;
    char text[PHRASE_TEXT];
    bool own = true, coded = false;
    for (size_t i = 0; i < sweep->variant_count; i++) {
        own = own && variant_own_rule(&sweep->variants[i]);
        coded = coded || variant_coded(&sweep->variants[i]);
    }
    join_parts(sweep, variant_rule, text);
    if (!own)
        phrase(head, "rule %.70s", text);
    join_parts(sweep, consistency_part, text);
    phrase(head, "%.80s", text[0] != '\0' ? text : "bsp");
    join_parts(sweep, codec_part, text);
    if (text[0] != '\0' && strcmp(text, "none") != 0)
        phrase(head, "codec %.70s", text);
    if (coded)
        phrase(head, "packed at %s/s", units_show_bytes(1 / study->codec.code_s, text));
    if (study->jitter > 0)
        phrase(head, "jitter %g", study->jitter);
    if (study->slow_nodes > 0)
        phrase(head, "%u worker%s %g times as slow", (unsigned)study->slow_nodes,
               study->slow_nodes == 1 ? "" : "s", study->slow_times);
}

void sweep_head(const struct sweep *sweep, bool page, struct buf *out)
{
    const struct study *study = &sweep->study;
    double rate = study->flops_s > 0 ? study->flops_s : study->profile->flops_s;
    struct head head = {.out = out, .wrap = page};
    char text[UNITS_TEXT];
    if (page)
        phrase(&head, "%.*s", NAME_MOST, study->profile->name);
    else if (sweep->node_count == 1)
        phrase(&head, "%u node%s", (unsigned)sweep->nodes[0], sweep->nodes[0] == 1 ? "" : "s");
    phrase(&head, "batch %llu", (unsigned long long)study->batch);
    head_link(&head, sweep);
    if (rate > 0)
        phrase(&head, "%s a node", units_show_flops(rate, text));
    phrase(&head, "sums at %s/s", units_show_bytes(study->memory_bytes_s, text));
    head_servers(&head, sweep);
    head_workers(&head, sweep);
    phrase(&head, "%u iterations", (unsigned)study->iterations);
    if (page || study->jitter > 0)
        phrase(&head, "seed %llu", (unsigned long long)study->seed);
}
