/* First words to bytes and back. */
#include "os/words.h"

#include <stdio.h>
#include <string.h>

#include "base/printable.h"

/* All little-endian. */
enum { AT_MAGIC = 0, AT_VERSION = 4, AT_KIND = 6, AT_INDEX = 8, AT_SOCKETS = 12 };

static const uint8_t magic[4] = {'T', 'R', 'I', 'P'};

static void put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *in)
{
    return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

static unsigned version_of(const uint8_t *bytes)
{
    return bytes[AT_VERSION] | (unsigned)bytes[AT_VERSION + 1] << 8;
}

void words_open(const struct words *words, uint8_t out[WORDS_MOST_BYTES])
{
    memset(out, 0, WORDS_MOST_BYTES);
    memcpy(out + AT_MAGIC, magic, sizeof magic);
    out[AT_VERSION] = WORDS_VERSION;
    out[AT_KIND] = (uint8_t)words->kind;
    put_u32(out + AT_INDEX, words->index);
    put_u32(out + AT_SOCKETS, words->sockets);
}

size_t words_bytes(enum words_kind kind)
{
    switch (kind) {
    case WORDS_ASKS:
        return WORDS_SAID_BYTES;
    case WORDS_ANSWERS:
        return WORDS_MOST_BYTES;
    case WORDS_PROVES:
        return WORDS_BASE_BYTES + KEYED_PROOF_BYTES;
    case WORDS_WELCOMES:
        return WORDS_BASE_BYTES;
    case WORDS_REFUSES:
        return WORDS_BASE_BYTES + WORDS_GREETING_BYTES;
    }
    return 0;
}

bool words_other_version(const uint8_t *bytes, size_t heard)
{
    return heard >= WORDS_BASE_BYTES && memcmp(bytes, magic, sizeof magic) == 0 &&
           version_of(bytes) != WORDS_VERSION;
}

const char *words_wrong(const uint8_t *bytes, size_t heard, char room[WORDS_WRONG])
{
    if (memcmp(bytes, magic, heard < sizeof magic ? heard : sizeof magic) != 0) {
        char begin[13] = "";
        memcpy(begin, bytes, heard < sizeof begin - 1 ? heard : sizeof begin - 1);
        printable(begin);
        (void)snprintf(room, WORDS_WRONG, "not a trident node: it begins with '%s'", begin);
        return room;
    }
    if (heard < WORDS_BASE_BYTES)
        return NULL;
    if (version_of(bytes) != WORDS_VERSION) {
        (void)snprintf(room, WORDS_WRONG,
                       "it speaks version %u of the first words, this process version %d",
                       version_of(bytes), WORDS_VERSION);
        return room;
    }
    if (words_bytes(bytes[AT_KIND]) == 0 || bytes[AT_KIND + 1] != 0)
        return "not a trident node: its first words are of no known kind";
    struct words words = words_read(bytes);
    if (words.kind != WORDS_REFUSES && words.index >= words.sockets)
        return "not a trident node: it speaks of a socket past the last one";
    return NULL;
}

struct words words_read(const uint8_t *bytes)
{
    return (struct words){.kind = bytes[AT_KIND],
                          .index = get_u32(bytes + AT_INDEX),
                          .sockets = get_u32(bytes + AT_SOCKETS)};
}

void words_prove(const uint8_t key[KEYED_KEY_BYTES], enum words_kind kind, const uint8_t *asked,
                 const uint8_t *answered, uint8_t out[KEYED_PROOF_BYTES])
{
    /* The base of ASKS and ANSWERS, which both cover, has version, socket and number of them. */
    const uint8_t role = (uint8_t)kind;
    const struct keyed_part parts[] = {
        {&role, 1}, {asked, WORDS_SAID_BYTES}, {answered, WORDS_SAID_BYTES}};
    keyed_proof(key, "trident first words", parts, sizeof parts / sizeof parts[0], out);
}
