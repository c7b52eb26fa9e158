/* The kinds of messages: one table that decoding, names, tests and docs share. */
#ifndef TRIDENT_WIRE_KIND_H
#define TRIDENT_WIRE_KIND_H

#include <stdint.h>

#include "wire/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are frozen: a kind that is dropped leaves a hole. 0 is never one, so
 * that zeroed memory is no message. */
enum wire_kind {
    WIRE_HELLO = 1,
    WIRE_BOOK = 2,
    WIRE_READY = 3,
    WIRE_START = 4,
    WIRE_REFUSED = 5,
    WIRE_INIT = 6,
    WIRE_PUSH = 7,
    WIRE_FACTORS = 8,
    WIRE_ROWS = 9,
    WIRE_NOTHING = 10,
    WIRE_RESULT = 11,
    WIRE_PULL = 12,
    WIRE_LEFT_OUT = 13,
    WIRE_CLOCK = 14,
    WIRE_MARK = 15,
    WIRE_MARKED = 16,
    WIRE_CHECKSUM = 17,
    WIRE_SAVED = 18,
    WIRE_VIEW = 19,
    WIRE_REPORT = 20,
    WIRE_DECISION = 21,
    WIRE_HEARTBEAT = 22,
    WIRE_ACCUSE = 23,
    WIRE_EVICTED = 24,
    WIRE_BYE = 25,
    WIRE_FAILED = 26,
    WIRE_PEERS = 27,
    WIRE_RESUME = 28,
    WIRE_STATE = 29,
    WIRE_KINDS /* one past the last */
};

/* Fields of the header that a kind may use; the others are 0 in it. */
enum wire_use {
    WIRE_USE_CODEC = 1,
    WIRE_USE_VIEW = 2,
    WIRE_USE_PLAN = 4,
    WIRE_USE_LAYER = 8,
    WIRE_USE_CHUNK = 16,
    WIRE_USE_CLOCK = 32,
};

/* Longest list of a REPORT, DECISION, HELLO, BOOK, PEERS or RESUME, and longest reason, in bytes.
 */
#define WIRE_LIST_MAX   (UINT32_C(1) << 26)
#define WIRE_REASON_MAX UINT32_C(4096)

struct wire_kind_info {
    const char *name;   /* as in docs/protocol.md */
    const char *route;  /* who sends it to whom: W worker, S server, C coordinator */
    uint8_t uses;       /* bits of enum wire_use */
    uint16_t head;      /* bytes of its fixed fields, and what they are filled up with */
    uint16_t head_list; /* bytes that may follow them at most */
    uint32_t data_min;
    uint32_t data_max; /* 0: carries none */
};

/* NULL for a number that is no kind. Static storage. */
const struct wire_kind_info *wire_kind_at(unsigned kind);

/* "PUSH"; "?" for a number that is no kind. Static storage. */
const char *wire_kind_name(unsigned kind);

#ifdef __cplusplus
}
#endif

#endif
