/* Counting departed ranks, and having them relayed. */
#include "core/decide.h"

#include <string.h>

#include "base/error.h"
#include "wire/decision.h"
#include "wire/report.h"

/* Of a layer only clocks from the first, t, that some survivor has not applied matter: what all
 * have applied is settled. Nobody can have given t + 2: he would have applied t + 1, with the
 * update of that survivor, who gives it only after t. So two clocks have anything to be decided. */
enum { CLOCKS = 2 };

struct facts {
    uint32_t layer;
    uint64_t first;    /* of the clocks: the least that a survivor applies next */
    uint64_t *next;    /* [workers] */
    uint64_t *holders; /* [CLOCKS][workers] sets of workers, by departed rank */
    uint64_t *counted; /* [CLOCKS] sets of ranks */
    uint64_t *may;     /* [CLOCKS] sets of departed ranks that may count */
};

struct deciding {
    const struct decide *input;
    size_t words;
    struct wire_in *at;          /* [workers] where each report is read */
    struct wire_decision before; /* the last decision */
    struct wire_in entries;      /* where it is read */
    struct wire_entry entry;     /* the next of it */
    bool has_entry;
    struct facts facts;
    uint32_t *list; /* [workers] scratch */
    uint64_t cut;   /* no departed rank counts after this clock */
};

static bool lives(const struct deciding *d, uint32_t rank)
{
    return !bits_has(d->input->departed, rank);
}

static uint64_t *holders_of(const struct deciding *d, uint32_t clock, uint32_t rank)
{
    return d->facts.holders + ((size_t)clock * d->input->workers + rank) * d->words;
}

static uint64_t *set_at(const struct deciding *d, uint64_t *sets, uint32_t clock)
{
    return sets + clock * d->words;
}

/* ---- reading ---- */

static struct wire_limits limits_of(const struct decide *input)
{
    struct wire_limits limits = wire_widest;
    limits.workers = input->workers;
    return limits;
}

static tri_status begin_pass(struct deciding *d, tri_error *err)
{
    const struct decide *input = d->input;
    struct wire_limits limits = limits_of(input);
    for (uint32_t r = 0; r < input->workers; r++) {
        const struct decide_report *report = &input->reports[r];
        struct wire_header header = {
            .kind = WIRE_REPORT, .sender = r, .data_len = (uint32_t)report->len};
        tri_status status = TRI_OK;
        if (lives(d, r))
            status = wire_report_decode(&header, report->bytes, &limits, &d->at[r], err);
        if (status != TRI_OK)
            return status;
    }
    d->has_entry = false;
    if (input->before != NULL) {
        struct wire_header header = {.kind = WIRE_DECISION,
                                     .data_len = (uint32_t)input->before_len};
        tri_status status = wire_decision_decode(&header, input->before, &limits, &d->before, err);
        if (status != TRI_OK)
            return status;
        d->entries = d->before.entries;
        d->has_entry = wire_entry_next(&d->entries, &d->entry);
    }
    return TRI_OK;
}

static void note_held(struct deciding *d, uint32_t holder, const struct wire_held *held)
{
    if (held->clock < d->facts.first || held->clock >= d->facts.first + CLOCKS)
        return;
    for (uint32_t i = 0; i < held->ranks.count; i++)
        bits_add(
            holders_of(d, (uint32_t)(held->clock - d->facts.first), wire_ranks_at(&held->ranks, i)),
            holder);
}

/* A decision stands: of those who had departed when it was made, only those it counted may
 * count; a survivor may have gone on without the others. */
static void find_who_may(struct deciding *d, uint32_t clock)
{
    const struct decide *input = d->input;
    uint64_t *may = set_at(d, d->facts.may, clock), t = d->facts.first + clock;
    for (uint32_t r = 0; r < input->workers; r++)
        if (bits_has(input->departed, r) && !bits_has(input->departed_before, r))
            bits_add(may, r);
        else
            bits_remove(may, r);
    while (d->has_entry && (d->entry.layer < d->facts.layer ||
                            (d->entry.layer == d->facts.layer && d->entry.clock < t)))
        d->has_entry = wire_entry_next(&d->entries, &d->entry);
    if (!d->has_entry || d->entry.layer != d->facts.layer || d->entry.clock != t)
        return;
    for (uint32_t i = 0; i < d->entry.ranks.count; i++)
        bits_add(may, wire_ranks_at(&d->entry.ranks, i));
}

/* A departed rank counts where it may and a survivor holds it. */
static void count_clock(struct deciding *d, uint32_t clock)
{
    uint64_t *may = set_at(d, d->facts.may, clock);
    uint64_t *counted = set_at(d, d->facts.counted, clock);
    find_who_may(d, clock);
    memset(counted, 0, d->words * sizeof *counted);
    for (uint32_t r = 0; r < d->input->workers; r++)
        if (bits_has(may, r) && bits_any(holders_of(d, clock, r), d->input->workers))
            bits_add(counted, r);
}

/* Reads the next layer of all reports; false at their end. */
static tri_status next_layer(struct deciding *d, bool *more, tri_error *err)
{
    const uint32_t workers = d->input->workers;
    struct facts *facts = &d->facts;
    struct wire_report_layer layer;
    uint32_t live = 0, read = 0;
    facts->first = UINT64_MAX;
    for (uint32_t r = 0; r < workers; r++) {
        facts->next[r] = UINT64_MAX;
        if (!lives(d, r))
            continue;
        live++;
        struct wire_in peek = d->at[r];
        if (!wire_report_next(&peek, &layer))
            continue;
        if (read++ > 0 && layer.layer != facts->layer)
            return fail(err, TRI_EINPUT, "the report of rank %u is about other layers", r);
        facts->layer = layer.layer;
        facts->next[r] = layer.next;
        facts->first = layer.next < facts->first ? layer.next : facts->first;
    }
    *more = read > 0;
    if (read > 0 && read < live)
        return fail(err, TRI_EINPUT, "reports are about different numbers of layers");
    if (read == 0)
        return TRI_OK;
    memset(facts->holders, 0, (size_t)CLOCKS * workers * d->words * sizeof *facts->holders);
    for (uint32_t r = 0; r < workers; r++) {
        struct wire_held held;
        if (lives(d, r) && wire_report_next(&d->at[r], &layer))
            while (wire_held_next(&layer.held, &held))
                note_held(d, r, &held);
    }
    for (uint32_t c = 0; c < CLOCKS; c++)
        count_clock(d, c);
    return TRI_OK;
}

/* ---- the three passes ---- */

/* If a departed rank does not count where it might, what rests on that clock is lost. */
static void find_cut(struct deciding *d)
{
    for (uint32_t c = 0; c < CLOCKS; c++)
        if (!bits_within(set_at(d, d->facts.may, c), set_at(d, d->facts.counted, c),
                         d->input->workers) &&
            d->facts.first + c < d->cut)
            d->cut = d->facts.first + c;
}

static uint32_t list_of(const struct deciding *d, const uint64_t *set)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < d->input->workers; r++)
        if (bits_has(set, r))
            d->list[count++] = r;
    return count;
}

static void put_entries(struct deciding *d, struct wire_decision_out *out)
{
    for (uint32_t c = 0; c < CLOCKS && d->facts.first + c <= d->cut; c++) {
        uint32_t count = list_of(d, set_at(d, d->facts.counted, c));
        if (count > 0)
            wire_decision_entry(out, d->facts.layer, d->facts.first + c, d->list, count);
    }
}

/* The first holder sends it to all who neither hold nor have applied it. */
static void put_relay(struct deciding *d, uint32_t clock, uint32_t rank,
                      struct wire_decision_out *out)
{
    const uint64_t *holders = holders_of(d, clock, rank);
    uint32_t count = 0, relayer = UINT32_MAX;
    for (uint32_t r = 0; r < d->input->workers; r++) {
        if (!lives(d, r))
            continue;
        if (bits_has(holders, r))
            relayer = relayer == UINT32_MAX ? r : relayer;
        else if (d->facts.next[r] <= d->facts.first + clock)
            d->list[count++] = r;
    }
    struct wire_relay relay = {
        .layer = d->facts.layer, .clock = d->facts.first + clock, .rank = rank, .relayer = relayer};
    if (count > 0)
        wire_decision_relay(out, &relay, d->list, count);
}

static void put_relays(struct deciding *d, struct wire_decision_out *out)
{
    for (uint32_t c = 0; c < CLOCKS && d->facts.first + c <= d->cut; c++)
        for (uint32_t r = 0; r < d->input->workers; r++)
            if (bits_has(set_at(d, d->facts.counted, c), r))
                put_relay(d, c, r, out);
}

static tri_status pass(struct deciding *d, int number, struct wire_decision_out *out,
                       tri_error *err)
{
    tri_status status = begin_pass(d, err);
    for (bool more = true; more && status == TRI_OK;) {
        status = next_layer(d, &more, err);
        if (!more || status != TRI_OK)
            break;
        if (number == 0)
            find_cut(d);
        else if (number == 1)
            put_entries(d, out);
        else
            put_relays(d, out);
    }
    return status;
}

tri_status decide(const struct decide *input, const struct mem *mem, struct buf *decision,
                  tri_error *err)
{
    struct deciding d = {.input = input, .words = bits_words(input->workers), .cut = UINT64_MAX};
    const size_t workers = input->workers, sets = CLOCKS * d.words;
    d.at = mem_array(mem, workers, sizeof *d.at);
    d.list = mem_array(mem, workers, sizeof *d.list);
    d.facts.next = mem_array(mem, workers, sizeof *d.facts.next);
    d.facts.holders = mem_array(mem, sets * workers, sizeof *d.facts.holders);
    d.facts.counted = mem_array(mem, sets, sizeof *d.facts.counted);
    d.facts.may = mem_array(mem, sets, sizeof *d.facts.may);
    tri_status status = TRI_OK;
    if (d.at == NULL || d.list == NULL || d.facts.next == NULL || d.facts.holders == NULL ||
        d.facts.counted == NULL || d.facts.may == NULL)
        status = fail_nomem(err, "a decision");
    struct wire_decision_out out;
    wire_decision_begin(&out, decision);
    for (int number = 0; number < 3 && status == TRI_OK; number++)
        status = pass(&d, number, &out, err);
    if (status == TRI_OK && !buf_ok(decision))
        status = fail_nomem(err, "a decision");
    mem_free(mem, d.at);
    mem_free(mem, d.list);
    mem_free(mem, d.facts.next);
    mem_free(mem, d.facts.holders);
    mem_free(mem, d.facts.counted);
    mem_free(mem, d.facts.may);
    return status;
}
