/* Bytes to a replay: whatever they are, it ends, and says what is wrong with them.
 *
 * Where a checksum of the file or of a message's header is due, it is made right, so that what is
 * behind it is reached. The first byte picks: 0 takes the bytes as they are; else they stand behind
 * the beginning of a small job's trace, of node byte mod 5. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "run/agree.h"
#include "run/trace_inside.h"
#include "wire/book.h"
#include "wire/header.h"

enum { MOST = 1 << 16, AT_BOOK = 8 + TRACE_NODE_BYTES, AT_CRC = 60, JOB = 7 };
enum { MESSAGE = 12 + 9 /* bytes of a body before its message */ };

/* A broken promise is a crash, whatever NDEBUG says. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

/* Three workers; servers on nodes 0, 1 and 3; layers for every scheme. */
static struct agreement *small_job(bool reproducible)
{
    static const tri_kind conv = TRI_CONV, fc = TRI_FC;
    const struct agree_layer layers[] = {
        {.name = "conv", .kind = conv, .rows = 10, .cols = 9, .bias = true},
        {.name = "fc", .kind = fc, .rows = 200, .cols = 200, .max_factor_rows = 2},
        {.name = "wide", .kind = fc, .rows = 4, .cols = 300, .max_factor_rows = 90},
    };
    const struct agree_options options = {.workers = 3,
                                          .servers = 3,
                                          .colocated = 2,
                                          .bits_s = 1e9,
                                          .flops_s = 1e12,
                                          .chunk_bytes = 160,
                                          .reproducible = reproducible,
                                          .rule = PLAN_TIME};
    struct agreement *agreement = NULL;
    must(agree_make(layers, 3, &options, &mem_libc, &agreement, NULL) == TRI_OK);
    return agreement;
}

/* The beginning of a trace. */
static void begin(struct buf *out, unsigned pick)
{
    struct agreement *agreement = small_job(pick < 128);
    wire_put_u32(out, TRACE_MAGIC);
    wire_put_u32(out, TRACE_VERSION);
    wire_put_u32(out, pick % 5);
    wire_put_u32(out, 0);
    const uint64_t numbers[] = {
        1000000, 5000000, 0, 30000000, 0, agreement->layers_hash, agreement->plan_hash, 9, JOB};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        wire_put_u64(out, numbers[i]);
    size_t at = out->len;
    wire_put_u32(out, 0);
    must(agree_encode(agreement, out, NULL) == TRI_OK);
    wire_store_u32((uint8_t *)out->data + at, (uint32_t)(out->len - at - 4));
    wire_put_u32(out, 0);
    agree_free(agreement);
}

/* Books that are planned in no time. */
static bool is_small(const uint8_t *bytes, uint32_t len)
{
    struct wire_header header = {.kind = WIRE_BOOK, .data_len = len};
    struct wire_book book;
    if (wire_book_decode(&header, bytes, &book, NULL) != TRI_OK)
        return true; /* it is refused */
    struct wire_in layers = book.layers;
    struct wire_layer layer;
    uint64_t params = 0;
    while (wire_layer_next(&layers, &layer))
        params += (uint64_t)layer.rows * layer.cols + layer.max_factor_rows;
    return book.workers <= 16 && book.servers <= 16 && book.layer_count <= 100 &&
           params < 1 << 20 && (book.chunk_bytes == 0 || book.chunk_bytes >= 160);
}

static void mend_header(uint8_t *header)
{
    wire_store_u32(header, WIRE_MAGIC);
    wire_store_u16(header + 4, WIRE_VERSION);
    wire_store_u32(header + AT_CRC, crc32c(0, header, AT_CRC));
}

/* Makes sums right, from record to record. False: this would take too long. */
static bool mend(uint8_t *bytes, size_t len)
{
    if (len < AT_BOOK + 4)
        return true;
    uint32_t book = wire_load_u32(bytes + AT_BOOK);
    size_t at = AT_BOOK + 4 + (size_t)book;
    if (len < at + 4)
        return true;
    if (!is_small(bytes + AT_BOOK + 4, book))
        return false;
    wire_store_u32(bytes + at, crc32c(0, bytes, at));
    at += 4;
    while (len - at >= TRACE_RECORD_BYTES + TRACE_SUMS_BYTES) {
        uint8_t *record = bytes + at;
        size_t body = wire_load_u32(record + 1);
        if (body > len - at - TRACE_RECORD_BYTES - TRACE_SUMS_BYTES)
            break;
        if (trace_has_message(record[0]) && body >= MESSAGE + WIRE_HEADER_BYTES)
            mend_header(record + TRACE_RECORD_BYTES + MESSAGE);
        wire_store_u32(record + TRACE_RECORD_BYTES + body,
                       crc32c(0, record, TRACE_RECORD_BYTES + body));
        at += TRACE_RECORD_BYTES + body + TRACE_SUMS_BYTES;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > MOST)
        return 0;
    struct buf bytes;
    buf_init(&bytes, &mem_libc);
    if (data[0] != 0)
        begin(&bytes, data[0]);
    buf_add(&bytes, data + 1, size - 1);
    must(buf_ok(&bytes));
    if (bytes.len > 0 && mend((uint8_t *)bytes.data, bytes.len)) {
        /* A copy that ends where the bytes end, so that a step too far is noticed. */
        uint8_t *copy = malloc(bytes.len);
        struct trace_report report;
        tri_error err = {0};
        must(copy != NULL);
        memcpy(copy, bytes.data, bytes.len);
        tri_status status = trace_feed(copy, bytes.len, &mem_libc, &report, &err);
        must((status == TRI_OK) == (err.text[0] == '\0'));
        must(status == TRI_OK || status == TRI_EINPUT || status == TRI_EMISMATCH);
        free(copy);
    }
    buf_fini(&bytes);
    return 0;
}
