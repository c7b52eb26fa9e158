/* The header to bytes and back, and the refusal of what is none. */
#include "wire/header.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/crc32c.h"

/* Offsets; docs/wire.md has the same table. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_KIND = 6,
    AT_CODEC = 7,
    AT_JOB = 8,
    AT_PLAN = 16,
    AT_CLOCK = 24,
    AT_VIEW = 32,
    AT_SENDER = 36,
    AT_LAYER = 40,
    AT_CHUNK = 44,
    AT_DATA_LEN = 48,
    AT_HEAD_LEN = 52,
    AT_FLAGS = 54,
    AT_RESERVED = 55,
    AT_PAYLOAD_CRC = 56,
    AT_HEADER_CRC = 60,
};

enum { FLAG_CHECKED = 1 };

/* Which bits of enum wire_use this header has something in. */
static unsigned used(const struct wire_header *header)
{
    return (header->codec != 0 ? WIRE_USE_CODEC : 0u) | (header->view != 0 ? WIRE_USE_VIEW : 0u) |
           (header->plan != 0 ? WIRE_USE_PLAN : 0u) | (header->layer != 0 ? WIRE_USE_LAYER : 0u) |
           (header->chunk != 0 ? WIRE_USE_CHUNK : 0u) | (header->clock != 0 ? WIRE_USE_CLOCK : 0u);
}

void wire_header_encode(const struct wire_header *header, uint8_t out[WIRE_HEADER_BYTES])
{
    const struct wire_kind_info *info = wire_kind_at(header->kind);
    assert(info != NULL && (used(header) & ~(unsigned)info->uses) == 0);
    assert(header->head_len >= info->head && header->head_len <= info->head + info->head_list);
    assert(header->data_len >= info->data_min && header->data_len <= info->data_max);
    assert(header->checked || header->payload_crc == 0);
    (void)info;
    wire_store_u32(out + AT_MAGIC, WIRE_MAGIC);
    wire_store_u16(out + AT_VERSION, WIRE_VERSION);
    out[AT_KIND] = header->kind;
    out[AT_CODEC] = header->codec;
    wire_store_u64(out + AT_JOB, header->job);
    wire_store_u64(out + AT_PLAN, header->plan);
    wire_store_u64(out + AT_CLOCK, header->clock);
    wire_store_u32(out + AT_VIEW, header->view);
    wire_store_u32(out + AT_SENDER, header->sender);
    wire_store_u32(out + AT_LAYER, header->layer);
    wire_store_u32(out + AT_CHUNK, header->chunk);
    wire_store_u32(out + AT_DATA_LEN, header->data_len);
    wire_store_u16(out + AT_HEAD_LEN, header->head_len);
    out[AT_FLAGS] = header->checked ? FLAG_CHECKED : 0;
    out[AT_RESERVED] = 0;
    wire_store_u32(out + AT_PAYLOAD_CRC, header->payload_crc);
    wire_store_u32(out + AT_HEADER_CRC, crc32c(0, out, AT_HEADER_CRC));
}

/* Who else knocks at an open port, by the first bytes they send. */
static const struct {
    const char *begins;
    size_t len;
    const char *who;
} strangers[] = {
    {"GET ", 4, "an HTTP client"}, {"POST", 4, "an HTTP client"},   {"PUT ", 4, "an HTTP client"},
    {"HEAD", 4, "an HTTP client"}, {"OPTI", 4, "an HTTP client"},   {"PRI ", 4, "an HTTP client"},
    {"HTTP", 4, "an HTTP server"}, {"\x16\x03", 2, "a TLS client"}, {"SSH-", 4, "an SSH program"},
};

tri_status wire_refuse_stranger(const uint8_t in[4], tri_error *err)
{
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++)
        if (memcmp(in, strangers[i].begins, strangers[i].len) == 0)
            return fail(err, TRI_EINPUT, "this is %s, not a trident node", strangers[i].who);
    fail(err, TRI_EINPUT, "this is not a trident node: its bytes begin with %02x %02x %02x %02x",
         in[0], in[1], in[2], in[3]);
    fail_why(err, "messages begin with 54 52 49 44, which reads TRID");
    return TRI_EINPUT;
}

/* What must be right before any other byte is worth reading. */
static tri_status check_frame(const uint8_t *in, tri_error *err)
{
    if (wire_load_u32(in + AT_MAGIC) != WIRE_MAGIC)
        return wire_refuse_stranger(in, err);
    /* Before the checksum: another version may have it elsewhere. */
    unsigned version = wire_load_u16(in + AT_VERSION);
    if (version != WIRE_VERSION) {
        fail(err, TRI_EMISMATCH, "peer speaks wire version %u, this is version %u", version,
             (unsigned)WIRE_VERSION);
        fail_next(err, "run the same version of trident on all nodes");
        return TRI_EMISMATCH;
    }
    uint32_t crc = crc32c(0, in, AT_HEADER_CRC), told = wire_load_u32(in + AT_HEADER_CRC);
    if (crc != told)
        return fail(err, TRI_EINPUT, "header checksum is %08" PRIx32 ", the header says %08" PRIx32,
                    crc, told);
    return TRI_OK;
}

static tri_status check_lengths(const struct wire_header *header, const struct wire_kind_info *info,
                                const struct wire_limits *limits, tri_error *err)
{
    unsigned head = header->head_len, data = header->data_len;
    unsigned most_head = info->head + (unsigned)info->head_list;
    if (head < info->head || head > most_head)
        return fail(err, TRI_EINPUT, "head of %s has %u bytes instead of %u to %u", info->name,
                    head, info->head, most_head);
    if (data > 0 && info->data_max == 0)
        return fail(err, TRI_EINPUT, "%s carries no data, but announces %u bytes", info->name,
                    data);
    if (data < info->data_min)
        return fail(err, TRI_EINPUT, "data of %s has %u bytes, which is less than %" PRIu32,
                    info->name, data, info->data_min);
    uint32_t most = info->data_max < limits->data_bytes ? info->data_max : limits->data_bytes;
    if (data > most)
        return fail(err, TRI_EINPUT, "data of %s has %u bytes, which is more than %" PRIu32,
                    info->name, data, most);
    return TRI_OK;
}

/* Names the first field that this kind leaves at 0 and this header does not. */
static tri_status check_uses(const struct wire_header *header, const struct wire_kind_info *info,
                             tri_error *err)
{
    static const struct {
        unsigned use;
        const char *name;
    } fields[] = {{WIRE_USE_CODEC, "codec"}, {WIRE_USE_VIEW, "view"},   {WIRE_USE_PLAN, "plan"},
                  {WIRE_USE_LAYER, "layer"}, {WIRE_USE_CHUNK, "chunk"}, {WIRE_USE_CLOCK, "clock"}};
    unsigned extra = used(header) & ~(unsigned)info->uses;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if ((extra & fields[i].use) != 0)
            return fail(err, TRI_EINPUT, "%s has a %s, which it should not", info->name,
                        fields[i].name);
    return TRI_OK;
}

static tri_status check_numbers(const struct wire_header *header, const struct wire_kind_info *info,
                                const struct wire_limits *limits, tri_error *err)
{
    const char *name = info->name;
    if (header->sender >= limits->nodes)
        return fail(err, TRI_EINPUT, "%s comes from node %" PRIu32 " of %" PRIu32, name,
                    header->sender, limits->nodes);
    if (header->codec > limits->max_codec)
        return fail(err, TRI_EINPUT, "%s uses codec %u, the last one known is %u", name,
                    header->codec, limits->max_codec);
    if ((info->uses & WIRE_USE_LAYER) != 0 && header->layer >= limits->layers)
        return fail(err, TRI_EINPUT, "%s is about layer %" PRIu32 " of %" PRIu32, name,
                    header->layer, limits->layers);
    if ((info->uses & WIRE_USE_CHUNK) != 0 && header->chunk >= limits->chunks)
        return fail(err, TRI_EINPUT, "%s is about chunk %" PRIu32 " of %" PRIu32, name,
                    header->chunk, limits->chunks);
    if (header->clock > limits->max_clock)
        return fail(err, TRI_EINPUT, "%s is about clock %" PRIu64 ", the last one can be %" PRIu64,
                    name, header->clock, limits->max_clock);
    return TRI_OK;
}

static struct wire_header read_fields(const uint8_t *in)
{
    return (struct wire_header){
        .kind = in[AT_KIND],
        .codec = in[AT_CODEC],
        .job = wire_load_u64(in + AT_JOB),
        .plan = wire_load_u64(in + AT_PLAN),
        .clock = wire_load_u64(in + AT_CLOCK),
        .view = wire_load_u32(in + AT_VIEW),
        .sender = wire_load_u32(in + AT_SENDER),
        .layer = wire_load_u32(in + AT_LAYER),
        .chunk = wire_load_u32(in + AT_CHUNK),
        .data_len = wire_load_u32(in + AT_DATA_LEN),
        .head_len = wire_load_u16(in + AT_HEAD_LEN),
        .checked = in[AT_FLAGS] == FLAG_CHECKED,
        .payload_crc = wire_load_u32(in + AT_PAYLOAD_CRC),
    };
}

tri_status wire_header_decode(const uint8_t in[WIRE_HEADER_BYTES], const struct wire_limits *limits,
                              struct wire_header *out, tri_error *err)
{
    tri_status status = check_frame(in, err);
    if (status != TRI_OK)
        return status;
    struct wire_header header = read_fields(in);
    const struct wire_kind_info *info = wire_kind_at(header.kind);
    if (info == NULL)
        return fail(err, TRI_EINPUT, "message of unknown kind %u", header.kind);
    if ((in[AT_FLAGS] & ~FLAG_CHECKED) != 0 || in[AT_RESERVED] != 0)
        return fail(err, TRI_EINPUT, "%s has unknown flags %02x %02x", info->name, in[AT_FLAGS],
                    in[AT_RESERVED]);
    if (!header.checked && header.payload_crc != 0)
        return fail(err, TRI_EINPUT, "%s has a payload checksum and says it has none", info->name);
    if ((status = check_lengths(&header, info, limits, err)) != TRI_OK ||
        (status = check_uses(&header, info, err)) != TRI_OK ||
        (status = check_numbers(&header, info, limits, err)) != TRI_OK)
        return status;
    *out = header;
    return TRI_OK;
}

static uint32_t payload_crc(const struct wire_header *header, const void *head, const void *data)
{
    return crc32c(crc32c(0, head, header->head_len), data, header->data_len);
}

void wire_payload_cover(struct wire_header *header, const void *head, const void *data)
{
    header->checked = true;
    header->payload_crc = payload_crc(header, head, data);
}

tri_status wire_payload_check(const struct wire_header *header, const void *head, const void *data,
                              tri_error *err)
{
    if (!header->checked)
        return TRI_OK;
    uint32_t crc = payload_crc(header, head, data);
    if (crc == header->payload_crc)
        return TRI_OK;
    return fail(err, TRI_EINPUT,
                "%s from node %" PRIu32 " is damaged: its checksum is %08" PRIx32
                ", the header says %08" PRIx32,
                wire_kind_name(header->kind), header->sender, crc, header->payload_crc);
}

tri_status wire_finish(struct wire_in *in, const struct wire_header *header, const char *part,
                       tri_error *err)
{
    if (in->failed == NULL && in->p != in->end)
        wire_refuse(in, "bytes follow its end");
    if (in->failed == NULL)
        return TRI_OK;
    return fail(err, TRI_EINPUT, "%s of %s from node %" PRIu32 " is malformed: %s", part,
                wire_kind_name(header->kind), header->sender, in->failed);
}
