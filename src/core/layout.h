/* The plan as the protocol needs it: layers, units and parts, numbered.
 *
 * A unit is what one server owns and applies whole; a layer that lives on the
 * workers is one unit without a server. A part is the most of a unit that one
 * message carries. Built once, then read only; every role on a node shares it. */
#ifndef TRIDENT_CORE_LAYOUT_H
#define TRIDENT_CORE_LAYOUT_H

#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAYOUT_NO_SERVER  UINT32_MAX
#define LAYOUT_NO_WITNESS UINT32_MAX

struct layout_layer {
    const char *name;
    tri_scheme_home home;
    tri_scheme_form form;
    uint32_t rows, cols;
    bool bias;
    uint64_t floats;      /* rows x cols, and rows more with a bias */
    uint32_t factor_rows; /* K, the most that one update has */
    uint32_t first_unit, units;
    uint32_t first_part, parts;
    uint32_t first_owner, owners; /* servers that own some of it */
};

struct layout_unit {
    uint32_t layer;
    uint32_t server;  /* LAYOUT_NO_SERVER: on every worker */
    uint32_t index;   /* among the units of its server, from 0 */
    uint32_t witness; /* worker that lands its results whole before installing them */
    uint64_t first;   /* of the layer's parameters */
    uint64_t floats;
    uint32_t first_part; /* of the layer's parts */
    uint32_t parts;
};

struct layout_part {
    uint32_t unit;
    uint32_t floats;
    uint64_t first; /* of the layer's parameters */
};

struct layout {
    const struct mem *mem;
    uint32_t workers, servers;
    uint32_t *server_node;  /* [servers] */
    uint32_t *server_units; /* [servers] how many each owns */
    uint32_t nodes;
    struct layout_layer *layers;
    uint32_t layer_count;
    struct layout_unit *units;
    uint32_t unit_count;
    struct layout_part *parts;
    uint32_t part_count;
    uint32_t on_workers; /* layers whose home is the workers */
    char *names;         /* of the layers, one after the other */
    uint32_t *owners;    /* servers, each once per layer */
    uint32_t owner_count;
    uint32_t part_floats; /* the most in one part */
    uint32_t *stamp;      /* [servers], scratch while it is made */
};

/* On success *out belongs to the caller; the plan may be freed after it. TRI_EINPUT when a
 * layer is planned with a scheme that does not run yet. */
tri_status layout_make(const struct plan *plan, const struct mem *mem, struct layout **out,
                       tri_error *err);
void layout_free(struct layout *layout); /* NULL is fine */

/* What a person calls a node: "rank 3", or "server 1" where it has no worker. */
struct layout_name {
    char text[24];
};
struct layout_name layout_name(const struct layout *layout, uint32_t node);

/* A number that is the same for the same layout and, but for chance, for no other. It goes on
 * from `hash`: of the rules the nodes must agree on, too. */
uint64_t layout_hash(const struct layout *layout, uint64_t hash);

/* The parts that the factors of an update with so many rows travel in: whole rows, as
 * many to a part as fit, at least one. */
static inline uint32_t layout_factor_parts(const struct layout *layout,
                                           const struct layout_layer *layer, uint32_t rows)
{
    uint64_t floats = (uint64_t)rows * ((uint64_t)layer->rows + layer->cols);
    uint64_t parts = (floats + layout->part_floats - 1) / layout->part_floats;
    return parts < rows ? (uint32_t)parts : rows;
}

/* The first row of a part; part = parts gives rows. */
static inline uint32_t layout_factor_first(uint32_t rows, uint32_t parts, uint32_t part)
{
    return (uint32_t)((uint64_t)rows * part / parts);
}

#ifdef __cplusplus
}
#endif

#endif
