/* Bytes to messages of the core: what is accepted fits the layout, and is written again as the
 * same bytes.
 *
 * The first byte picks: 254: a book that an agreement is made from, 255: a greeting; else a
 * message, to node byte mod 4, with 128 more to a node without a plan. The job, the plan, the
 * version and the checksum of its header are made right. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "run/agree.h"
#include "run/convert.h"
#include "run/greeting.h"
#include "wire/book.h"

enum { PICK_BOOK = 254, PICK_GREETING = 255, PICK_BARE = 128, NODES = 4, WORDS = 2 };
enum { AT_JOB = 8, AT_PLAN = 16, AT_CRC = 60, JOB = 7 };

/* A broken promise is a crash, whatever NDEBUG says. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

/* A copy that ends where the bytes end, so that a step too far is noticed. */
static uint8_t *copy(const uint8_t *bytes, size_t len)
{
    uint8_t *out = malloc(len > 0 ? len : 1);
    must(out != NULL);
    if (len > 0)
        memcpy(out, bytes, len);
    return out;
}

/* Three workers; servers on nodes 1 and 3; layers for every scheme. */
static struct agreement *small_job(void)
{
    static const uint32_t home[] = {1};
    static const tri_kind conv = TRI_CONV, fc = TRI_FC;
    const struct agree_layer layers[] = {
        {.name = "conv", .kind = conv, .rows = 10, .cols = 9, .bias = true},
        {.name = "fc", .kind = fc, .rows = 200, .cols = 200, .max_factor_rows = 2},
        {.name = "wide", .kind = fc, .rows = 4, .cols = 300, .max_factor_rows = 90},
    };
    const struct agree_options options = {.workers = 3,
                                          .servers = 2,
                                          .colocated = 1,
                                          .home = home,
                                          .bits_s = 1e9,
                                          .flops_s = 1e12,
                                          .chunk_bytes = 160,
                                          .reproducible = true,
                                          .rule = PLAN_TIME};
    struct agreement *agreement = NULL;
    must(agree_make(layers, 3, &options, &mem_libc, &agreement, NULL) == TRI_OK);
    must(agreement->layout->nodes == NODES);
    return agreement;
}

static struct convert context(const struct agreement *agreement, uint32_t node)
{
    return (struct convert){.layout = agreement->layout,
                            .limits = convert_limits(agreement->layout),
                            .job = JOB,
                            .plan = agreement->plan_hash,
                            .layers = agreement->layers_hash,
                            .node = node};
}

static bool comes_from_elsewhere(unsigned kind)
{
    return kind == WIRE_HELLO || kind == WIRE_BOOK || kind == WIRE_FAILED;
}

/* What roles index by without another look. */
static void check_message(const struct message *message, const struct layout *layout)
{
    unsigned uses = wire_kind_at(message->kind)->uses;
    must(message->from < layout->nodes);
    must((uses & WIRE_USE_LAYER) == 0 || message->layer < layout->layer_count);
    bool own = message->kind == WIRE_PEERS || message->kind == WIRE_RESUME ||
               message->kind == WIRE_STATE; /* the host's */
    must(own ? message->role == CORE_NOBODY : message->role < CORE_NOBODY);
    must(message->kind == WIRE_MARKED || message->rank < layout->workers ||
         message->rank == message->from);
    must(message->bytes != NULL || message->len == 0);
}

static void check_again(const struct agreement *agreement, const struct message *message,
                        const struct convert_in *in)
{
    struct convert sender = context(agreement, message->from);
    const struct wire_header *header = in->header;
    struct buf out;
    size_t head = 0;
    buf_init(&out, &mem_libc);
    must(convert_encode(&sender, message, &out, &head, NULL) == TRI_OK);
    must(head == WIRE_HEADER_BYTES + (size_t)header->head_len);
    if (!message->unchanged && header->head_len > 0)
        must(memcmp(out.data + WIRE_HEADER_BYTES, in->head, header->head_len) == 0);
    if (convert_has_values(message->kind))
        must(header->data_len == convert_data_bytes(message, agreement->layout));
    else
        must(out.len - head == header->data_len &&
             (header->data_len == 0 || memcmp(out.data + head, in->data, header->data_len) == 0));
    buf_fini(&out);
}

static void check_one(const struct agreement *agreement, const struct convert *ctx,
                      const struct convert_in *in)
{
    uint64_t set[WORDS] = {0};
    struct message message;
    tri_error err = {0};
    must(convert_set_words(ctx) <= WORDS);
    tri_status status = convert_decode(ctx, in, set, &message, &err);
    if (status == TRI_OK)
        status = convert_decode_data(ctx, in, set, &message, &err);
    must((status == TRI_OK) == (err.text[0] == '\0'));
    must(status == TRI_OK || status == TRI_EINPUT || status == TRI_EMISMATCH);
    if (status != TRI_OK || ctx->layout == NULL)
        return;
    check_message(&message, ctx->layout);
    if (!comes_from_elsewhere(message.kind))
        check_again(agreement, &message, in);
}

static void check_bytes(unsigned pick, const uint8_t *data, size_t size)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    struct wire_header header;
    if (size < sizeof bytes)
        return;
    struct agreement *agreement = small_job();
    struct convert ctx = context(agreement, pick % NODES);
    if (pick >= PICK_BARE) {
        ctx.layout = NULL;
        ctx.limits = wire_widest;
    }
    memcpy(bytes, data, sizeof bytes);
    wire_store_u32(bytes, WIRE_MAGIC);
    wire_store_u16(bytes + 4, WIRE_VERSION);
    wire_store_u64(bytes + AT_JOB, JOB);
    if (wire_load_u64(bytes + AT_PLAN) == 0 && wire_kind_at(bytes[6]) != NULL &&
        (wire_kind_at(bytes[6])->uses & WIRE_USE_PLAN) != 0)
        wire_store_u64(bytes + AT_PLAN, agreement->plan_hash);
    wire_store_u32(bytes + AT_CRC, crc32c(0, bytes, AT_CRC));
    data += sizeof bytes;
    size -= sizeof bytes;
    if (wire_header_decode(bytes, &ctx.limits, &header, NULL) == TRI_OK &&
        header.head_len <= size) {
        bool values = convert_has_values((enum wire_kind)header.kind);
        size_t rest = size - header.head_len;
        if (values || header.data_len <= rest) {
            uint8_t *head = copy(data, header.head_len);
            uint8_t *list = copy(data + header.head_len, values ? 0 : header.data_len);
            check_one(agreement, &ctx, &(struct convert_in){&header, head, list});
            free(head);
            free(list);
        }
    }
    agree_free(agreement);
}

/* Books that are planned in no time. */
static bool is_small(const struct wire_book *book)
{
    struct wire_in layers = book->layers;
    struct wire_layer layer;
    uint64_t params = 0;
    while (wire_layer_next(&layers, &layer))
        params += (uint64_t)layer.rows * layer.cols + layer.max_factor_rows;
    return book->workers <= 16 && book->servers <= 16 && book->layer_count <= 100 &&
           params < 1 << 20 && (book->chunk_bytes == 0 || book->chunk_bytes >= 256);
}

static void check_book(const uint8_t *data, size_t size)
{
    struct wire_header header = {.kind = WIRE_BOOK, .data_len = (uint32_t)size};
    uint8_t *bytes = copy(data, size);
    struct wire_book book;
    struct agreement *agreement = NULL, *again = NULL;
    struct buf out;
    tri_error err = {0};
    buf_init(&out, &mem_libc);
    if (wire_book_decode(&header, bytes, &book, NULL) == TRI_OK && is_small(&book) &&
        agree_decode(&header, bytes, &mem_libc, &agreement, &err) == TRI_OK) {
        must(agreement->layout->layer_count == book.layer_count);
        must(agree_encode(agreement, &out, &err) == TRI_OK);
        header.data_len = (uint32_t)out.len;
        must(agree_decode(&header, (const uint8_t *)out.data, &mem_libc, &again, &err) == TRI_OK);
        must(again->plan_hash == agreement->plan_hash);
        must(again->layers_hash == agreement->layers_hash);
        struct agree_hello hello = {1, (const uint8_t *)again->hello.data, again->hello.len};
        must(!agree_differ(agreement, &hello, err.text, sizeof err.text));
    }
    agree_free(agreement);
    agree_free(again);
    buf_fini(&out);
    free(bytes);
}

static void check_greeting(const uint8_t *data, size_t size)
{
    uint8_t bytes[TRANSPORT_GREETING_BYTES], again[TRANSPORT_GREETING_BYTES];
    struct convert_greeting greeting;
    tri_error err = {0};
    if (size < sizeof bytes)
        return;
    memcpy(bytes, data, sizeof bytes);
    wire_store_u32(bytes + AT_CRC, crc32c(0, bytes, AT_CRC));
    tri_status status = greeting_decode(bytes, &greeting, &err);
    must((status == TRI_OK) == (err.text[0] == '\0'));
    if (status != TRI_OK)
        return;
    greeting_encode(&greeting, again);
    must(memcmp(bytes, again, sizeof bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 20)
        return 0;
    if (data[0] == PICK_BOOK)
        check_book(data + 1, size - 1);
    else if (data[0] == PICK_GREETING)
        check_greeting(data + 1, size - 1);
    else
        check_bytes(data[0], data + 1, size - 1);
    return 0;
}
