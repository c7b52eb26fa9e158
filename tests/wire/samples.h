/* A message of each kind, made by the encoders and read by the decoders. */
#ifndef TRIDENT_TESTS_WIRE_SAMPLES_H
#define TRIDENT_TESTS_WIRE_SAMPLES_H

#include "wire/book.h"
#include "wire/decision.h"
#include "wire/heads.h"
#include "wire/hello.h"
#include "wire/peers.h"
#include "wire/reason.h"
#include "wire/report.h"
#include "wire/resume.h"

struct message {
    struct wire_header header;
    struct buf head, data;
};

static inline void message_init(struct message *m, const struct mem *mem)
{
    *m = (struct message){.header = {.kind = 0}};
    buf_init(&m->head, mem);
    buf_init(&m->data, mem);
}

static inline void message_fini(struct message *m)
{
    buf_fini(&m->head);
    buf_fini(&m->data);
}

static inline bool message_ok(const struct message *m)
{
    return buf_ok(&m->head) && buf_ok(&m->data);
}

/* Two layers, as the samples of HELLO and BOOK have them. */
static inline void sample_layers(struct wire_layer layers[2])
{
    layers[0] = (struct wire_layer){.name = wire_text_of("fc6"),
                                    .kind = 0,
                                    .rows = 4096,
                                    .cols = 25088,
                                    .bias = 4096,
                                    .max_factor_rows = 32};
    layers[1] =
        (struct wire_layer){.name = wire_text_of("conv1"), .kind = 1, .rows = 64, .cols = 27};
}

static inline struct wire_book sample_book(void)
{
    return (struct wire_book){
        .workers = 3,
        .servers = 4,
        .colocated = 2,
        .batch = 32,
        .bits_s = 1e10,
        .latency_s = 5e-5,
        .message_s = 1e-6,
        .flops_s = 4e12,
        .chunk_bytes = 2 << 20,
        .server_bytes = (uint64_t)1 << 33,
        .grid_rows = 1,
        .grid_cols = 3,
        .rule = WIRE_RULE_TIME,
        .reproducible = true,
        .replicated = true,
        .scheme_count = 2,
        .schemes = {wire_text_of("ps"), wire_text_of("sfb")},
        .forced = wire_text_of(""),
        .placement = wire_text_of("hash"),
        .optimizer = wire_text_of("momentum:0.9"),
        .consistency = wire_text_of("bsp"),
        .layer_count = 2,
    };
}

static inline void sample_hello(struct message *m)
{
    struct wire_hello hello = {.roles = 7,
                               .rank = 0x1234,
                               .incarnation = 0xb1b2b3b4b5b6b7b8,
                               .wire_min = 1,
                               .wire_max = 0x0102};
    wire_hello_encode(&hello, &m->head);
    struct wire_hello_out out;
    struct wire_option option = {wire_text_of("consistency"), wire_text_of("bsp")};
    struct wire_layer layers[2];
    sample_layers(layers);
    (void)wire_hello_begin(&out, &m->data, "0.1.0", NULL);
    (void)wire_hello_option(&out, &option, NULL);
    option = (struct wire_option){wire_text_of("optimizer"), wire_text_of("sgd")};
    (void)wire_hello_option(&out, &option, NULL);
    (void)wire_hello_layer(&out, &layers[0], NULL);
    (void)wire_hello_layer(&out, &layers[1], NULL);
}

static inline void sample_report(struct message *m)
{
    struct wire_report_out out;
    wire_report_begin(&out, &m->data);
    wire_report_layer(&out, 2, 10);
    wire_report_held(&out, 9, (const uint32_t[]){1, 3}, 2);
    wire_report_held(&out, 10, NULL, 0);
    wire_report_layer(&out, 7, 12);
}

static inline void sample_decision(struct message *m)
{
    struct wire_decision_out out;
    struct wire_relay relay = {.layer = 2, .clock = 10, .rank = 1, .relayer = 0};
    wire_decision_begin(&out, &m->data);
    wire_decision_entry(&out, 2, 10, (const uint32_t[]){1}, 1);
    wire_decision_entry(&out, 2, 11, NULL, 0);
    wire_decision_relay(&out, &relay, (const uint32_t[]){4, 5}, 2);
}

static inline void sample_peers(struct message *m)
{
    struct wire_peers_out out;
    const struct wire_peer peers[] = {{0, wire_text_of("10.0.0.7:7401")},
                                      {2, wire_text_of("[::1]:80")},
                                      {0x1f1f2, wire_text_of("node-9.example:65535")}};
    wire_peers_begin(&out, &m->data);
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++)
        (void)wire_peers_add(&out, &peers[i], NULL);
}

/* The payload of kinds about values; the rest is below. */
static inline void sample_values(struct message *m)
{
    const uint64_t count = 0x0102030405060708;
    const uint32_t lr_bits = wire_float_bits(0.125f), rank = 0xf1f2;
    static const uint8_t mask[] = {0xa5, 0x05};
    switch (m->header.kind) {
    case WIRE_PUSH:
        wire_push_encode(&(struct wire_push){count, lr_bits, rank}, &m->head);
        break;
    case WIRE_FACTORS:
        wire_factors_encode(
            &(struct wire_factors){count, lr_bits, rank, .rows = 0x71727374, .parts = 0x61626364},
            &m->head);
        break;
    case WIRE_ROWS:
        wire_rows_encode(&(struct wire_rows){count, lr_bits, rank, .rows = 2}, &m->head);
        break;
    case WIRE_RESULT:
        wire_result_encode(
            &(struct wire_result){.count = count,
                                  .version = 0x4142434445464748,
                                  .lr_bits = lr_bits,
                                  .flags = WIRE_RESULT_AGGREGATE | WIRE_RESULT_LEFT_OUT,
                                  .mask_ranks = 11,
                                  .mask = mask},
            &m->head);
        break;
    default: /* INIT has no head */
        break;
    }
    wire_put_u32(&m->data, wire_float_bits(1));
    wire_put_u32(&m->data, wire_float_bits(-2));
}

static inline void sample_payload(struct message *m)
{
    const uint64_t own = 0x1112131415161718;
    struct wire_book book = sample_book();
    struct wire_layer layers[2];
    switch (m->header.kind) {
    case WIRE_HELLO:
        sample_hello(m);
        break;
    case WIRE_BOOK:
        sample_layers(layers);
        (void)wire_book_encode(&book, (const uint32_t[]){2, 0}, layers, &m->data, NULL);
        break;
    case WIRE_REFUSED:
        wire_reason_encode("node 2 has 3 layers, node 0 has 4", &m->data);
        break;
    case WIRE_INIT:
    case WIRE_PUSH:
    case WIRE_FACTORS:
    case WIRE_ROWS:
    case WIRE_RESULT:
        sample_values(m);
        break;
    case WIRE_NOTHING:
        wire_nothing_encode(&(struct wire_nothing){0xf1f2}, &m->head);
        break;
    case WIRE_PULL:
        wire_pull_encode(&(struct wire_pull){own}, &m->head);
        break;
    case WIRE_LEFT_OUT:
        wire_left_out_encode(&(struct wire_left_out){own, .rank = 0xf1f2, .running = 0x91929394},
                             &m->head);
        break;
    case WIRE_MARK:
        wire_mark_encode(&(struct wire_mark){WIRE_MARK_JOIN, .rank = 0xf1f2, .last = true},
                         &m->head);
        break;
    case WIRE_MARKED:
        wire_marked_encode(
            &(struct wire_marked){WIRE_MARK_JOIN, true, own, .rank = 0xf1f2, .owner = 0xe1e2},
            &m->head);
        break;
    case WIRE_SAVED:
        wire_saved_encode(&(struct wire_saved){WIRE_OWNER_WORKER}, &m->head);
        break;
    case WIRE_CHECKSUM:
        wire_checksum_encode(&(struct wire_checksum){0xdeadbeef}, &m->head);
        break;
    case WIRE_VIEW:
        wire_view_encode((const uint32_t[]){1, 0x0203, 0x1f1f2}, 3, &m->data);
        break;
    case WIRE_REPORT:
        sample_report(m);
        break;
    case WIRE_DECISION:
        sample_decision(m);
        break;
    case WIRE_ACCUSE:
        wire_accuse_encode((const uint32_t[]){0, 0x1f1f2}, 2, &m->data);
        break;
    case WIRE_EVICTED:
        wire_reason_encode("too slow", &m->data);
        break;
    case WIRE_FAILED:
        wire_failed_encode(&(struct wire_failed){0x11213, .status = TRI_EIO}, &m->head);
        wire_reason_encode("disk full", &m->data);
        break;
    case WIRE_PEERS:
        sample_peers(m);
        break;
    case WIRE_RESUME:
        wire_resume_encode(
            &(struct wire_resume){
                .clock = own, .layers = 2, .kept_bytes = 3, .kept = (const uint8_t *)"abc"},
            (const uint64_t[]){7, own}, &m->data);
        break;
    case WIRE_STATE:
        wire_state_encode(&(struct wire_state){own, .plane = 2}, &m->head);
        wire_put_u32(&m->data, wire_float_bits(1));
        break;
    default: /* a header is all */
        break;
    }
}

/* A header with another byte in every place that the kind uses. */
static inline struct wire_header sample_header(unsigned kind)
{
    unsigned uses = wire_kind_at(kind)->uses;
    return (struct wire_header){
        .kind = (uint8_t)kind,
        .codec = (uses & WIRE_USE_CODEC) != 0 ? 0x5a : 0,
        .job = 0x8182838485868788,
        .plan = (uses & WIRE_USE_PLAN) != 0 ? 0xa1a2a3a4a5a6a7a8 : 0,
        .clock = (uses & WIRE_USE_CLOCK) != 0 ? 0x3132333435363738 : 0,
        .view = (uses & WIRE_USE_VIEW) != 0 ? 0x21222324 : 0,
        .sender = 0x11213,
        .layer = (uses & WIRE_USE_LAYER) != 0 ? 0x51617 : 0,
        .chunk = (uses & WIRE_USE_CHUNK) != 0 ? 0x41424344 : 0,
    };
}

/* Lengths and checksum from what head and data hold. */
static inline void message_seal(struct message *m)
{
    m->header.head_len = (uint16_t)m->head.len;
    m->header.data_len = (uint32_t)m->data.len;
    wire_payload_cover(&m->header, m->head.data, m->data.data);
}

static inline void message_sample(struct message *m, unsigned kind)
{
    m->header = sample_header(kind);
    sample_payload(m);
    message_seal(m);
}

/* What a decoder writes into: nobody looks at it. */
union message_out {
    struct wire_push push;
    struct wire_factors factors;
    struct wire_rows rows;
    struct wire_nothing nothing;
    struct wire_result result;
    struct wire_pull pull;
    struct wire_left_out left_out;
    struct wire_mark mark;
    struct wire_marked marked;
    struct wire_saved saved;
    struct wire_state state;
    struct wire_resume resume;
    struct wire_checksum checksum;
    struct wire_failed failed;
    struct wire_hello hello;
    struct wire_hello_data hello_data;
    struct wire_book book;
    struct wire_text reason;
    struct wire_ranks ranks;
    struct wire_in report;
    struct wire_in peers;
    struct wire_decision decision;
};

static inline tri_status message_head(const struct wire_header *header, const uint8_t *head,
                                      const struct wire_limits *limits, tri_error *err)
{
    union message_out out;
    switch (header->kind) {
    case WIRE_HELLO:
        return wire_hello_decode(header, head, limits, &out.hello, err);
    case WIRE_PUSH:
        return wire_push_decode(header, head, limits, &out.push, err);
    case WIRE_FACTORS:
        return wire_factors_decode(header, head, limits, &out.factors, err);
    case WIRE_ROWS:
        return wire_rows_decode(header, head, limits, &out.rows, err);
    case WIRE_NOTHING:
        return wire_nothing_decode(header, head, limits, &out.nothing, err);
    case WIRE_RESULT:
        return wire_result_decode(header, head, limits, &out.result, err);
    case WIRE_PULL:
        return wire_pull_decode(header, head, limits, &out.pull, err);
    case WIRE_LEFT_OUT:
        return wire_left_out_decode(header, head, limits, &out.left_out, err);
    case WIRE_MARK:
        return wire_mark_decode(header, head, limits, &out.mark, err);
    case WIRE_MARKED:
        return wire_marked_decode(header, head, limits, &out.marked, err);
    case WIRE_SAVED:
        return wire_saved_decode(header, head, limits, &out.saved, err);
    case WIRE_STATE:
        return wire_state_decode(header, head, limits, &out.state, err);
    case WIRE_CHECKSUM:
        return wire_checksum_decode(header, head, limits, &out.checksum, err);
    case WIRE_FAILED:
        return wire_failed_decode(header, head, limits, &out.failed, err);
    default:
        return header->head_len == 0 ? TRI_OK : TRI_EINPUT;
    }
}

/* TRI_OK for data that is values: they have no form here. */
static inline tri_status message_data(const struct wire_header *header, const uint8_t *data,
                                      const struct wire_limits *limits, tri_error *err)
{
    union message_out out;
    switch (header->kind) {
    case WIRE_HELLO:
        return wire_hello_data_decode(header, data, &out.hello_data, err);
    case WIRE_BOOK:
        return wire_book_decode(header, data, &out.book, err);
    case WIRE_REFUSED:
    case WIRE_EVICTED:
    case WIRE_FAILED:
        return wire_reason_decode(header, data, &out.reason, err);
    case WIRE_VIEW:
        return wire_view_decode(header, data, limits, &out.ranks, err);
    case WIRE_ACCUSE:
        return wire_accuse_decode(header, data, limits, &out.ranks, err);
    case WIRE_REPORT:
        return wire_report_decode(header, data, limits, &out.report, err);
    case WIRE_DECISION:
        return wire_decision_decode(header, data, limits, &out.decision, err);
    case WIRE_PEERS:
        return wire_peers_decode(header, data, limits, &out.peers, err);
    case WIRE_RESUME:
        return wire_resume_decode(header, data, &out.resume, err);
    default:
        return TRI_OK;
    }
}

#endif
