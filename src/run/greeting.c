/* The greeting to bytes and back. docs/wire.md has the offsets. */
#include "run/greeting.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/crc32c.h"
#include "wire/hello.h"

enum {
    AT_MAGIC = 0,
    AT_MIN = 4,
    AT_MAX = 6,
    AT_JOB = 8,
    AT_INCARNATION = 16,
    AT_NODE = 24,
    AT_NODES = 28,
    AT_PORT = 32,
    AT_ROLES = 34,
    AT_RESERVED = 35,
    AT_CRC = 60,
};

#define GREETING_MAGIC UINT32_C(0x47495254) /* "TRIG" in memory */

enum { ROLES = WIRE_ROLE_WORKER | WIRE_ROLE_SERVER | WIRE_ROLE_COORDINATOR };

/* What cannot be, whoever says it; NULL when all is right. */
static const char *wrong(const struct convert_greeting *greeting)
{
    if (greeting->nodes < 1 || greeting->nodes > WIRE_MAX_NODES ||
        greeting->node >= greeting->nodes)
        return "its node is past the last one";
    if (greeting->roles == 0 || (greeting->roles & ~ROLES) != 0)
        return "it has no role, or an unknown one";
    if (greeting->wire_min < 1 || greeting->wire_min > greeting->wire_max)
        return "it speaks no version of the format";
    return NULL;
}

void greeting_encode(const struct convert_greeting *greeting, uint8_t out[TRANSPORT_GREETING_BYTES])
{
    assert(wrong(greeting) == NULL);
    memset(out, 0, TRANSPORT_GREETING_BYTES);
    wire_store_u32(out + AT_MAGIC, GREETING_MAGIC);
    wire_store_u16(out + AT_MIN, greeting->wire_min);
    wire_store_u16(out + AT_MAX, greeting->wire_max);
    wire_store_u64(out + AT_JOB, greeting->job);
    wire_store_u64(out + AT_INCARNATION, greeting->incarnation);
    wire_store_u32(out + AT_NODE, greeting->node);
    wire_store_u32(out + AT_NODES, greeting->nodes);
    wire_store_u16(out + AT_PORT, greeting->port);
    out[AT_ROLES] = greeting->roles;
    wire_store_u32(out + AT_CRC, crc32c(0, out, AT_CRC));
}

static struct convert_greeting read_fields(const uint8_t *in)
{
    return (struct convert_greeting){
        .job = wire_load_u64(in + AT_JOB),
        .node = wire_load_u32(in + AT_NODE),
        .nodes = wire_load_u32(in + AT_NODES),
        .incarnation = wire_load_u64(in + AT_INCARNATION),
        .port = wire_load_u16(in + AT_PORT),
        .wire_min = wire_load_u16(in + AT_MIN),
        .wire_max = wire_load_u16(in + AT_MAX),
        .roles = in[AT_ROLES],
    };
}

static tri_status check_version(const struct convert_greeting *greeting, tri_error *err)
{
    if (greeting->wire_min <= WIRE_VERSION && greeting->wire_max >= WIRE_VERSION)
        return TRI_OK;
    fail(err, TRI_EMISMATCH, "peer speaks wire versions %u to %u, this is version %u",
         (unsigned)greeting->wire_min, (unsigned)greeting->wire_max, (unsigned)WIRE_VERSION);
    fail_next(err, "run the same version of trident on all nodes");
    return TRI_EMISMATCH;
}

tri_status greeting_decode(const uint8_t in[TRANSPORT_GREETING_BYTES], struct convert_greeting *out,
                           tri_error *err)
{
    if (wire_load_u32(in + AT_MAGIC) == WIRE_MAGIC)
        return fail(err, TRI_EINPUT, "this is a message without a greeting before it");
    if (wire_load_u32(in + AT_MAGIC) != GREETING_MAGIC)
        return wire_refuse_stranger(in, err);
    struct convert_greeting greeting = read_fields(in);
    tri_status status = check_version(&greeting, err);
    if (status != TRI_OK) /* before the checksum: another version may have it elsewhere */
        return status;
    uint32_t crc = crc32c(0, in, AT_CRC), told = wire_load_u32(in + AT_CRC);
    if (crc != told)
        return fail(err, TRI_EINPUT,
                    "greeting is damaged: its checksum is %08" PRIx32 ", it says %08" PRIx32, crc,
                    told);
    const char *what = wrong(&greeting);
    for (size_t i = AT_RESERVED; i < AT_CRC && what == NULL; i++)
        if (in[i] != 0)
            what = "it has bytes where none should be";
    if (what != NULL)
        return fail(err, TRI_EINPUT, "greeting is malformed: %s", what);
    *out = greeting;
    return TRI_OK;
}

tri_status greeting_check(const struct convert_greeting *own, const struct convert_greeting *other,
                          tri_error *err)
{
    if (own->job != other->job) {
        fail(err, TRI_EMISMATCH, "node %" PRIu32 " belongs to another job", other->node);
        fail_why(err, "its job is %016" PRIx64 ", this one is %016" PRIx64, other->job, own->job);
        fail_next(err, "give every job a name, a token or a port of its own");
        return TRI_EMISMATCH;
    }
    if (own->nodes != other->nodes) {
        fail(err, TRI_EMISMATCH,
             "node %" PRIu32 " counts %" PRIu32 " nodes, node %" PRIu32 " counts %" PRIu32,
             other->node, other->nodes, own->node, own->nodes);
        fail_next(err, "start all nodes with the same numbers of workers and servers");
        return TRI_EMISMATCH;
    }
    if (own->node == other->node && own->incarnation != other->incarnation) {
        fail(err, TRI_EMISMATCH, "there are two processes that are node %" PRIu32, own->node);
        fail_next(err, "give every process a rank of its own");
        return TRI_EMISMATCH;
    }
    return TRI_OK;
}

tri_status greeting_fits(const uint8_t own[TRANSPORT_GREETING_BYTES],
                         const uint8_t other[TRANSPORT_GREETING_BYTES], tri_error *err)
{
    struct convert_greeting mine = {0}, theirs = {0};
    tri_status status = greeting_decode(other, &theirs, err);
    if (status == TRI_OK)
        status = greeting_decode(own, &mine, err);
    return status == TRI_OK ? greeting_check(&mine, &theirs, err) : status;
}
