/* The table of kinds. docs/wire.md shows the same rows, and a test compares. */
#include "wire/kind.h"

#include <stddef.h>

enum {
    VIEW = WIRE_USE_VIEW,
    PLAN = WIRE_USE_VIEW | WIRE_USE_PLAN, /* sent once the plan is agreed on */
    CLOCK = PLAN | WIRE_USE_CLOCK,
    LAYER = CLOCK | WIRE_USE_LAYER,
    PIECE = LAYER | WIRE_USE_CHUNK,
    VALUES = PIECE | WIRE_USE_CODEC,
};

#define MASK_MAX   (WIRE_MAX_RANKS / 8)
#define NODES_MAX  (4 + 4 * WIRE_MAX_NODES)
#define REASON_MAX (2 + WIRE_REASON_MAX)
#define ANY        WIRE_MAX_DATA
#define LIST       WIRE_LIST_MAX

static const struct wire_kind_info kinds[WIRE_KINDS] = {
    /* name, route, uses; then what is not 0 */
    [WIRE_HELLO] = {"HELLO", "node, C", 0, .head = 20, .data_min = 9, .data_max = LIST},
    [WIRE_BOOK] = {"BOOK", "C, node", 0, .data_min = 113, .data_max = LIST},
    [WIRE_READY] = {"READY", "node, C", WIRE_USE_PLAN, .head = 0},
    [WIRE_START] = {"START", "C, node", CLOCK, .head = 0},
    [WIRE_REFUSED] = {"REFUSED", "C, node", 0, .data_min = 2, .data_max = REASON_MAX},
    [WIRE_INIT] = {"INIT", "W0 or S, S or W", VALUES, .data_min = 1, .data_max = ANY},
    [WIRE_PUSH] = {"PUSH", "W, S", VALUES, .head = 64, .data_min = 1, .data_max = ANY},
    [WIRE_FACTORS] = {"FACTORS", "W, W or S", VALUES, .head = 64, .data_min = 1, .data_max = ANY},
    [WIRE_ROWS] = {"ROWS", "W, S", VALUES, .head = 64, .data_min = 1, .data_max = ANY},
    [WIRE_NOTHING] = {"NOTHING", "W, S or W", LAYER, .head = 4},
    [WIRE_RESULT] = {"RESULT", "S, W", VALUES, .head = 64, .head_list = MASK_MAX, .data_max = ANY},
    [WIRE_PULL] = {"PULL", "W, S", PIECE, .head = 8},
    [WIRE_LEFT_OUT] = {"LEFT_OUT", "S, W or C; W, C", PIECE, .head = 16},
    [WIRE_CLOCK] = {"CLOCK", "W, C", CLOCK, .head = 0},
    [WIRE_MARK] = {"MARK", "C, node", CLOCK, .head = 12},
    [WIRE_MARKED] = {"MARKED", "node, C", CLOCK, .head = 24},
    [WIRE_CHECKSUM] = {"CHECKSUM", "W, C", CLOCK, .head = 4},
    [WIRE_SAVED] = {"SAVED", "owner, C", CLOCK, .head = 4},
    [WIRE_VIEW] = {"VIEW", "C, node", PLAN, .data_min = 4, .data_max = NODES_MAX},
    [WIRE_REPORT] = {"REPORT", "W, C", PLAN, .data_min = 4, .data_max = LIST},
    [WIRE_DECISION] = {"DECISION", "C, W", PLAN, .data_min = 8, .data_max = LIST},
    [WIRE_HEARTBEAT] = {"HEARTBEAT", "node, node", CLOCK, .head = 0},
    [WIRE_ACCUSE] = {"ACCUSE", "node, C", CLOCK, .data_min = 4, .data_max = NODES_MAX},
    [WIRE_EVICTED] = {"EVICTED", "C, node", PLAN, .data_min = 2, .data_max = REASON_MAX},
    [WIRE_BYE] = {"BYE", "W, C; C, node", CLOCK, .head = 0},
    [WIRE_FAILED] = {"FAILED", "node, node", PLAN, .head = 8, .data_min = 2,
                     .data_max = REASON_MAX},
    [WIRE_PEERS] = {"PEERS", "C, node", 0, .data_min = 4, .data_max = LIST},
    [WIRE_RESUME] = {"RESUME", "C, node", 0, .data_min = 16, .data_max = LIST},
    [WIRE_STATE] = {"STATE", "S, C; C, S or W", PIECE, .head = 64, .data_max = ANY},
};

const struct wire_kind_info *wire_kind_at(unsigned kind)
{
    return kind < WIRE_KINDS && kinds[kind].name != NULL ? &kinds[kind] : NULL;
}

const char *wire_kind_name(unsigned kind)
{
    const struct wire_kind_info *info = wire_kind_at(kind);
    return info != NULL ? info->name : "?";
}
