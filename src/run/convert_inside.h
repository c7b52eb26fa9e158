/* What the halves of convert share. */
#ifndef TRIDENT_RUN_CONVERT_INSIDE_H
#define TRIDENT_RUN_CONVERT_INSIDE_H

#include <inttypes.h>

#include "base/error.h"
#include "core/bits.h"
#include "run/convert.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the layout's answers ---- */

/* NULL if there is no such layer. */
static inline const struct layout_layer *layer_of(const struct layout *layout,
                                                  const struct message *message)
{
    return message->layer < layout->layer_count ? &layout->layers[message->layer] : NULL;
}

/* The node of the server that owns a part; the layer is on servers. */
static inline uint32_t owner_node(const struct layout *layout, const struct layout_layer *layer,
                                  uint32_t part)
{
    return layout->server_node[layout->units[layout->parts[layer->first_part + part].unit].server];
}

/* LAYOUT_NO_SERVER if there is none. */
static inline uint32_t server_on(const struct layout *layout, uint32_t node)
{
    for (uint32_t s = 0; s < layout->servers; s++)
        if (layout->server_node[s] == node)
            return s;
    return LAYOUT_NO_SERVER;
}

/* ---- reading ---- */

struct reading {
    const struct convert *ctx;
    const struct convert_in *in;
    uint64_t *set;
    struct message *message;
    tri_error *err;
};

static inline tri_status refuse(const struct reading *reading, const char *why)
{
    const struct wire_header *header = reading->in->header;
    return fail(reading->err, TRI_EINPUT, "%s from node %" PRIu32 " %s",
                wire_kind_name(header->kind), header->sender, why);
}

#ifdef __cplusplus
}
#endif

#endif
