/* The decision of a view change: which departed ranks count where, and who relays what.
 *
 * A pure function of the reports. docs/protocol.md section 8 has the rules, verify/views.pml
 * their model. */
#ifndef TRIDENT_CORE_DECIDE_H
#define TRIDENT_CORE_DECIDE_H

#include "base/buf.h"
#include "core/bits.h"
#include "core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

struct decide_report {
    const uint8_t *bytes; /* NULL: this rank has departed */
    size_t len;
};

struct decide {
    uint32_t workers;
    const uint64_t *departed;        /* ranks, as of this view */
    const uint64_t *departed_before; /* ranks, as of the last view that was decided */
    const uint8_t *before;           /* its DECISION; NULL: none */
    size_t before_len;
    const struct decide_report *reports; /* [workers] */
};

/* Appends the DECISION. TRI_EINPUT for a report that is no report, naming its rank. */
tri_status decide(const struct decide *input, const struct mem *mem, struct buf *decision,
                  tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
