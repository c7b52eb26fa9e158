/* The ring of a node's last events. */
#include "run/flight.h"

#include <assert.h>
#include <stdio.h>

#include "os/clock.h"

/* Half a cache line. */
struct record {
    uint64_t at;
    uint64_t clock;
    uint32_t node, layer, part;
    uint16_t text; /* its number, from 1, modulo 65536; 0: none */
    uint8_t kind, what;
};
static_assert(sizeof(struct record) == 32, "a record has no holes");

struct flight {
    const struct mem *mem;
    uint64_t start, total;
    uint64_t texts; /* ever noted */
    struct record records[FLIGHT_EVENTS];
    char text[FLIGHT_TEXTS][FLIGHT_TEXT];
};

struct flight *flight_new(const struct mem *mem)
{
    struct flight *flight = mem_array(mem, 1, sizeof *flight);
    if (flight == NULL)
        return NULL;
    flight->mem = mem;
    flight->start = clock_us();
    return flight;
}

void flight_free(struct flight *flight)
{
    if (flight != NULL)
        mem_free(flight->mem, flight);
}

static uint16_t keep_text(struct flight *flight, const char *text)
{
    (void)snprintf(flight->text[flight->texts % FLIGHT_TEXTS], FLIGHT_TEXT, "%s", text);
    /* One of 65535 texts would get the number that means none. */
    flight->texts += (uint16_t)(flight->texts + 1) == 0 ? FLIGHT_TEXTS + 1 : 1;
    return (uint16_t)flight->texts;
}

void flight_add(struct flight *flight, const struct flight_event *event)
{
    struct record *record = &flight->records[flight->total++ % FLIGHT_EVENTS];
    *record = (struct record){.at = event->t_us != 0 ? event->t_us : clock_us(),
                              .clock = event->clock,
                              .node = event->node,
                              .layer = event->layer,
                              .part = event->part,
                              .kind = (uint8_t)event->kind,
                              .what = event->what};
    if (event->text != NULL)
        record->text = keep_text(flight, event->text);
}

uint64_t flight_total(const struct flight *flight)
{
    return flight->total;
}

uint32_t flight_kept(const struct flight *flight)
{
    return flight->total < FLIGHT_EVENTS ? (uint32_t)flight->total : FLIGHT_EVENTS;
}

/* NULL when others have taken its place since. */
static const char *text_of(const struct flight *flight, uint16_t number)
{
    uint16_t age = (uint16_t)((uint16_t)flight->texts - number);
    if (number == 0 || age >= FLIGHT_TEXTS)
        return NULL;
    return flight->text[(flight->texts - age - 1) % FLIGHT_TEXTS];
}

struct flight_event flight_at(const struct flight *flight, uint32_t i)
{
    uint64_t first = flight->total - flight_kept(flight);
    const struct record *record = &flight->records[(first + i) % FLIGHT_EVENTS];
    return (struct flight_event){.t_us =
                                     record->at > flight->start ? record->at - flight->start : 0,
                                 .clock = record->clock,
                                 .text = text_of(flight, record->text),
                                 .node = record->node,
                                 .layer = record->layer,
                                 .part = record->part,
                                 .kind = (enum flight_kind)record->kind,
                                 .what = record->what};
}

const char *flight_kind_name(enum flight_kind kind)
{
    static const char *const names[FLIGHT_KINDS] = {
        [FLIGHT_UPDATE] = "update", [FLIGHT_SYNC] = "sync",
        [FLIGHT_SYNCED] = "synced", [FLIGHT_CLOCK] = "clock",
        [FLIGHT_SEND] = "send",     [FLIGHT_RECEIVED] = "received",
        [FLIGHT_OP] = "operation",  [FLIGHT_OP_DONE] = "done",
        [FLIGHT_UP] = "connected",  [FLIGHT_DOWN] = "disconnected",
        [FLIGHT_VIEW] = "view",     [FLIGHT_LEFT] = "left",
        [FLIGHT_WAIT] = "wait",     [FLIGHT_ACCUSED] = "accused",
        [FLIGHT_PHASE] = "phase",   [FLIGHT_FAILURE] = "failure",
    };
    return (unsigned)kind < FLIGHT_KINDS ? names[kind] : "?";
}
