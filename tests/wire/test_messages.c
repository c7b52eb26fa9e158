/* All kinds alike: their bytes, what happens to half of them, and refused memory. */
#include "wire/samples.h"

#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "os/file.h"

/* One message of each kind, byte for byte, made by a separate program from
 * docs/wire.md. A change here is a change of the format: see "Versions" there. */
static const char *const golden[WIRE_KINDS] = {
    [WIRE_HELLO] =
        "54524944010001008887868584838281000000000000000000000000000000000000000013120100"
        "0000000000000000580000001400010044e4397fbf17cd86"
        /* payload */
        "0700000034120000b8b7b6b5b4b3b2b101000201020000000200000005302e312e300b636f6e7369"
        "7374656e637903627370096f7074696d697a65720373676403666336000010000000620000001000"
        "002000000005636f6e763101400000001b0000000000000000000000",
    [WIRE_BOOK] = "54524944010002008887868584838281000000000000000000000000000000000000000013120100"
                  "0000000000000000a700000000000100e827cab81d08816b"
                  /* payload */
                  "0300000004000000020000002000000000000000000000205fa002422d431cebe2360a3f8dedb5a0"
                  "f7c6b03e000000a2941a8d4200002000000000000000000002000000010000000300000001010001"
                  "02027073037366620004686173680c6d6f6d656e74756d3a302e3903627370020000000000000002"
                  "00000003666336000010000000620000001000002000000005636f6e763101400000001b00000000"
                  "00000000000000",
    [WIRE_READY] =
        "54524944010003008887868584838281a8a7a6a5a4a3a2a100000000000000000000000013120100"
        "00000000000000000000000000000100000000005d324f2d",
    [WIRE_START] =
        "54524944010004008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "00000000000000000000000000000100000000008651ac2b",
    [WIRE_REFUSED] =
        "54524944010005008887868584838281000000000000000000000000000000000000000013120100"
        "000000000000000023000000000001007678ed51e26e4fbf"
        /* payload */
        "21006e6f64652032206861732033206c61796572732c206e6f64652030206861732034",
    [WIRE_INIT] = "545249440100065a8887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
                  "17160500444342410800000000000100c9f236aa48c4964e"
                  /* payload */
                  "0000803f000000c0",
    [WIRE_PUSH] = "545249440100075a8887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
                  "17160500444342410800000040000100c4e2f22aad5a52b6"
                  /* payload */
                  "08070605040302010000003ef2f10000000000000000000000000000000000000000000000000000"
                  "0000000000000000000000000000000000000000000000000000803f000000c0",
    [WIRE_FACTORS] =
        "545249440100085a8887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "17160500444342410800000040000100ba2ee2ded101a593"
        /* payload */
        "08070605040302010000003ef2f10000747372716463626100000000000000000000000000000000"
        "0000000000000000000000000000000000000000000000000000803f000000c0",
    [WIRE_ROWS] = "545249440100095a8887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
                  "17160500444342410800000040000100c52f8b13a5102534"
                  /* payload */
                  "08070605040302010000003ef2f10000020000000000000000000000000000000000000000000000"
                  "0000000000000000000000000000000000000000000000000000803f000000c0",
    [WIRE_NOTHING] =
        "5452494401000a008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "1716050000000000000000000400010052b8a248ad406a32"
        /* payload */
        "f2f10000",
    [WIRE_RESULT] =
        "5452494401000b5a8887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "171605004443424108000000400001004484c442b8f927ad"
        /* payload */
        "080706050403020148474645444342410000003e0b00000006000000a50500000000000000000000"
        "0000000000000000000000000000000000000000000000000000803f000000c0",
    [WIRE_PULL] = "5452494401000c008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
                  "17160500444342410000000008000100ba5aa7c750a3d5ac"
                  /* payload */
                  "1817161514131211",
    [WIRE_LEFT_OUT] =
        "5452494401000d008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "17160500444342410000000010000100a953f35665a5b898"
        /* payload */
        "1817161514131211f2f1000094939291",
    [WIRE_CLOCK] =
        "5452494401000e008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "00000000000000000000000000000100000000009c891a69",
    [WIRE_MARK] = "5452494401000f008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
                  "0000000000000000000000000c000100e47d40b41627058a"
                  /* payload */
                  "03000000f2f1000002000000",
    [WIRE_MARKED] =
        "54524944010010008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "00000000000000000000000018000100981bc9a77bc2327b"
        /* payload */
        "03000000010000001817161514131211f2f10000e2e10000",
    [WIRE_CHECKSUM] =
        "54524944010011008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "00000000000000000000000004000100d356fe41a5525692"
        /* payload */
        "efbeadde",
    [WIRE_SAVED] =
        "54524944010012008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "00000000000000000000000004000100ffffffffb5ba9f2d"
        /* payload */
        "ffffffff",
    [WIRE_VIEW] = "54524944010013008887868584838281a8a7a6a5a4a3a2a100000000000000002423222113120100"
                  "00000000000000001000000000000100329bdc78927c00ab"
                  /* payload */
                  "030000000100000003020000f2f10100",
    [WIRE_REPORT] =
        "54524944010014008887868584838281a8a7a6a5a4a3a2a100000000000000002423222113120100"
        "000000000000000044000000000001008502c8e60e34227b"
        /* payload */
        "02000000020000000a00000000000000020000000900000000000000020000000100000003000000"
        "0a0000000000000000000000070000000c0000000000000000000000",
    [WIRE_DECISION] =
        "54524944010015008887868584838281a8a7a6a5a4a3a2a100000000000000002423222113120100"
        "00000000000000004c0000000000010063890014c5ac06c7"
        /* payload */
        "0200000001000000020000000a000000000000000100000001000000020000000b00000000000000"
        "00000000020000000a000000000000000100000000000000020000000400000005000000",
    [WIRE_HEARTBEAT] =
        "54524944010016008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "00000000000000000000000000000100000000004456ac90",
    [WIRE_ACCUSE] =
        "54524944010017008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "00000000000000000c00000000000100df76e45a0d27e2a6"
        /* payload */
        "0200000000000000f2f10100",
    [WIRE_EVICTED] =
        "54524944010018008887868584838281a8a7a6a5a4a3a2a100000000000000002423222113120100"
        "00000000000000000a00000000000100ee6683c008aefa4a"
        /* payload */
        "0800746f6f20736c6f77",
    [WIRE_BYE] = "54524944010019008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
                 "000000000000000000000000000001000000000053e241f3",
    [WIRE_FAILED] =
        "5452494401001a008887868584838281a8a7a6a5a4a3a2a100000000000000002423222113120100"
        "00000000000000000b00000008000100410ec4d2f9e8c52c"
        /* payload */
        "13120100fdffffff09006469736b2066756c6c",
    [WIRE_PEERS] =
        "5452494401001b008887868584838281000000000000000000000000000000000000000013120100"
        "00000000000000003c00000000000100459dcb2579423613"
        /* payload */
        "03000000000000000d31302e302e302e373a3734303102000000085b3a3a315d3a3830f2f1010014"
        "6e6f64652d392e6578616d706c653a3635353335",
    [WIRE_RESUME] =
        "5452494401001c008887868584838281000000000000000000000000000000000000000013120100"
        "00000000000000002300000000000100f9d2c0b2e0777aa3"
        /* payload */
        "1817161514131211020000000700000000000000181716151413121103000000616263",
    [WIRE_STATE] =
        "5452494401001d008887868584838281a8a7a6a5a4a3a2a138373635343332312423222113120100"
        "17160500444342410400000040000100d6912d4cf8692aa0"
        /* payload */
        "18171615141312110200000000000000000000000000000000000000000000000000000000000000"
        "0000000000000000000000000000000000000000000000000000803f",
};

static unsigned nibble(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;
}

/* Bytes of a text in lower-case hex; white space between bytes is skipped. */
static void unhex(const char *text, size_t len, struct buf *out)
{
    for (size_t i = 0; i + 1 < len;) {
        if (text[i] == ' ' || text[i] == '\n') {
            i++;
            continue;
        }
        wire_put_u8(out, (uint8_t)(nibble(text[i]) << 4 | nibble(text[i + 1])));
        i += 2;
    }
}

/* Header, head and data in one run. */
static void join(const struct message *m, struct buf *out)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    wire_header_encode(&m->header, bytes);
    buf_add(out, bytes, sizeof bytes);
    buf_add(out, m->head.data, m->head.len);
    buf_add(out, m->data.data, m->data.len);
}

TEST(every_kind_has_the_bytes_it_always_had)
{
    (void)state;
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++) {
        struct message m;
        struct buf made, wanted;
        message_init(&m, &mem_libc);
        buf_init(&made, &mem_libc);
        buf_init(&wanted, &mem_libc);
        message_sample(&m, kind);
        join(&m, &made);
        assert_non_null(golden[kind]);
        unhex(golden[kind], strlen(golden[kind]), &wanted);
        if (made.len != wanted.len || memcmp(made.data, wanted.data, made.len) != 0)
            fail_msg("%s has other bytes than before", wire_kind_name(kind));
        buf_fini(&made);
        buf_fini(&wanted);
        message_fini(&m);
    }
}

/* A copy of exactly len bytes, so that a sanitizer sees a step too far. */
static uint8_t *copy(const void *from, size_t len)
{
    uint8_t *bytes = malloc(len > 0 ? len : 1);
    assert_non_null(bytes);
    if (len > 0)
        memcpy(bytes, from, len);
    return bytes;
}

/* Reads a whole message as a receiver does. */
static tri_status receive(const uint8_t *bytes, size_t len, struct wire_header *header,
                          tri_error *err)
{
    tri_status status = wire_header_decode(bytes, &wire_widest, header, err);
    if (status != TRI_OK)
        return status;
    assert_int_equal(len, WIRE_HEADER_BYTES + (size_t)header->head_len + header->data_len);
    bytes += WIRE_HEADER_BYTES;
    uint8_t *head = copy(bytes, header->head_len);
    uint8_t *data = copy(bytes + header->head_len, header->data_len);
    status = wire_payload_check(header, head, data, err);
    if (status == TRI_OK)
        status = message_head(header, head, &wire_widest, err);
    if (status == TRI_OK)
        status = message_data(header, data, &wire_widest, err);
    free(head);
    free(data);
    return status;
}

TEST(every_kind_is_received_as_it_was_sent)
{
    (void)state;
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++) {
        struct buf bytes;
        struct wire_header header;
        tri_error err = {0};
        buf_init(&bytes, &mem_libc);
        unhex(golden[kind], strlen(golden[kind]), &bytes);
        if (receive((const uint8_t *)bytes.data, bytes.len, &header, &err) != TRI_OK)
            fail_msg("%s: %s", wire_kind_name(kind), err.text);
        assert_int_equal(header.kind, kind);
        assert_true(header.checked);
        buf_fini(&bytes);
    }
}

TEST(every_prefix_of_every_head_is_refused)
{
    (void)state;
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++) {
        struct message m;
        message_init(&m, &mem_libc);
        message_sample(&m, kind);
        for (size_t len = 0; len < m.head.len; len++) {
            struct wire_header header = m.header;
            tri_error err = {0};
            uint8_t *head = copy(m.head.data, len);
            header.head_len = (uint16_t)len;
            assert_int_equal(message_head(&header, head, &wire_widest, &err), TRI_EINPUT);
            assert_non_null(strstr(err.text, "it ends early"));
            assert_non_null(strstr(err.text, wire_kind_name(kind)));
            free(head);
        }
        message_fini(&m);
    }
}

static bool has_values(unsigned kind)
{
    return kind == WIRE_INIT || kind == WIRE_PUSH || kind == WIRE_FACTORS || kind == WIRE_ROWS ||
           kind == WIRE_RESULT || kind == WIRE_STATE;
}

TEST(every_prefix_of_every_list_and_text_is_refused)
{
    (void)state;
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++) {
        struct message m;
        message_init(&m, &mem_libc);
        message_sample(&m, kind);
        for (size_t len = 0; len < m.data.len && !has_values(kind); len++) {
            struct wire_header header = m.header;
            tri_error err = {0};
            uint8_t *data = copy(m.data.data, len);
            header.data_len = (uint32_t)len;
            assert_int_equal(message_data(&header, data, &wire_widest, &err), TRI_EINPUT);
            assert_true(err.text[0] != '\0');
            free(data);
        }
        message_fini(&m);
    }
}

TEST(bytes_behind_a_head_or_a_list_are_refused)
{
    (void)state;
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++) {
        struct message m;
        tri_error err = {0};
        message_init(&m, &mem_libc);
        message_sample(&m, kind);
        if (m.head.len > 0) {
            struct wire_header header = m.header;
            header.head_len++;
            wire_put_u8(&m.head, 0);
            assert_int_equal(message_head(&header, (uint8_t *)m.head.data, &wire_widest, &err),
                             TRI_EINPUT);
            assert_non_null(strstr(err.text, "bytes follow its end"));
        }
        if (m.data.len > 0 && !has_values(kind)) {
            struct wire_header header = m.header;
            header.data_len++;
            wire_put_u8(&m.data, 0);
            assert_int_equal(message_data(&header, (uint8_t *)m.data.data, &wire_widest, &err),
                             TRI_EINPUT);
            assert_non_null(strstr(err.text, "bytes follow its end"));
        }
        message_fini(&m);
    }
}

TEST(encoders_survive_refused_memory)
{
    (void)state;
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++) {
        struct fault fault = {0};
        FAULT_WALK(&fault)
        {
            struct message m;
            message_init(&m, &fault.mem);
            m.header = sample_header(kind);
            sample_payload(&m);
            assert_int_equal(message_ok(&m), !fault.hit);
            message_fini(&m);
        }
    }
}

/* ---- docs/wire.md ---- */

static void read_docs(struct buf *out)
{
    tri_error err = {0};
    buf_init(out, &mem_libc);
    if (file_read("docs/wire.md", 1 << 20, out, &err) != TRI_OK)
        fail_msg("%s: %s", err.text, err.why);
}

TEST(the_example_of_the_docs_is_the_message_it_says_it_is)
{
    (void)state;
    struct buf docs, bytes;
    struct wire_header header;
    struct wire_push push;
    tri_error err = {0};
    read_docs(&docs);
    const char *begin = strstr(buf_string(&docs), "```hex\n");
    assert_non_null(begin);
    begin += strlen("```hex\n");
    const char *end = strstr(begin, "```");
    assert_non_null(end);
    buf_init(&bytes, &mem_libc);
    unhex(begin, (size_t)(end - begin), &bytes);
    const uint8_t *message = (const uint8_t *)bytes.data;
    if (receive(message, bytes.len, &header, &err) != TRI_OK)
        fail_msg("%s", err.text);
    assert_int_equal(header.kind, WIRE_PUSH);
    assert_true(header.job == 0x1f2e3d4c5b6a7988 && header.plan == 0x0123456789abcdef);
    assert_true(header.clock == 41 && header.view == 1 && header.sender == 1);
    assert_true(header.layer == 2 && header.chunk == 3 && header.codec == 0);
    message += WIRE_HEADER_BYTES;
    assert_int_equal(wire_push_decode(&header, message, &wire_widest, &push, NULL), TRI_OK);
    assert_true(push.count == 32 && wire_bits_float(push.lr_bits) == 0.125f && push.rank == 1);
    message += header.head_len;
    assert_true(wire_bits_float(wire_load_u32(message)) == 0.5f);
    assert_true(wire_bits_float(wire_load_u32(message + 4)) == -1);
    buf_fini(&bytes);
    buf_fini(&docs);
}

static void put_uses(struct buf *row, unsigned uses)
{
    static const char *const names[] = {"codec", "view", "plan", "layer", "chunk", "clock"};
    const char *before = "";
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if ((uses >> i & 1) != 0) {
            buf_format(row, "%s%s", before, names[i]);
            before = ", ";
        }
}

TEST(the_docs_list_the_kinds_as_the_table_has_them)
{
    (void)state;
    struct buf docs, row;
    read_docs(&docs);
    buf_init(&row, &mem_libc);
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++) {
        const struct wire_kind_info *info = wire_kind_at(kind);
        buf_clear(&row);
        buf_format(&row, "\n| %u | %s | %s | ", kind, info->name, info->route);
        put_uses(&row, info->uses);
        buf_format(&row, "%s| %u", info->uses != 0 ? " " : "", info->head);
        if (info->head_list != 0)
            buf_format(&row, " to %u", info->head + (unsigned)info->head_list);
        if (info->data_max == 0)
            buf_text(&row, " | 0 |");
        else
            buf_format(&row, " | %u to %u |", info->data_min, info->data_max);
        if (strstr(buf_string(&docs), buf_string(&row)) == NULL)
            fail_msg("docs/wire.md lacks the row%s", buf_string(&row));
    }
    buf_fini(&row);
    buf_fini(&docs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_the_bytes_it_always_had),
        cmocka_unit_test(every_kind_is_received_as_it_was_sent),
        cmocka_unit_test(every_prefix_of_every_head_is_refused),
        cmocka_unit_test(every_prefix_of_every_list_and_text_is_refused),
        cmocka_unit_test(bytes_behind_a_head_or_a_list_are_refused),
        cmocka_unit_test(encoders_survive_refused_memory),
        cmocka_unit_test(the_example_of_the_docs_is_the_message_it_says_it_is),
        cmocka_unit_test(the_docs_list_the_kinds_as_the_table_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
