/* A gathering: the updates of one clock from all ranks, coming together in one place.
 *
 * A server has one for each of its units, a worker two (one per generation) for
 * each layer whose factors come to it. It knows who is in, whole, with what count
 * and learning rate; what is done with the values is its owner's business. */
#ifndef TRIDENT_CORE_GATHER_H
#define TRIDENT_CORE_GATHER_H

#include "base/mem.h"
#include "core/bits.h"
#include "core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gather_rank {
    uint32_t rows;   /* of its factors; 0 for dense updates and for nothing */
    uint32_t parts;  /* that are in */
    uint32_t claims; /* that have a place to land */
    uint64_t count;  /* of samples */
    uint32_t lr_bits;
};

struct gather {
    uint32_t ranks;
    uint32_t max_parts; /* of one update */
    uint64_t clock;
    uint32_t in;               /* ranks that are in, whole */
    uint64_t count;            /* sum over them */
    uint32_t lr_bits, lr_rank; /* of the first rank that had one */
    bool has_lr;
    uint64_t *whole;  /* set of ranks */
    uint64_t *values; /* those of them that bring values (not nothing) */
    uint64_t *parts;  /* per rank a set of parts */
    uint64_t *claims; /* the same of parts on their way in */
    struct gather_rank *rank;
};

/* Makes room for so many ranks and parts; everything until gather_fini() happens in it. */
tri_status gather_init(struct gather *gather, const struct mem *mem, uint32_t ranks,
                       uint32_t max_parts, tri_error *err);
void gather_fini(struct gather *gather, const struct mem *mem);

/* Begins a new clock, empty. */
void gather_open(struct gather *gather, uint64_t clock);

/* Forgets one rank. */
void gather_forget(struct gather *gather, uint32_t rank);

/* Gives a part that has begun to arrive its place; false for a second copy, also while the
 * first is still on its way in. */
bool gather_claim(struct gather *gather, const struct message *message, uint32_t part);
/* It will not come after all: its connection broke. */
void gather_release(struct gather *gather, const struct message *message, uint32_t part);

/* What a part has led to. */
enum gather_step { GATHER_DROPPED, GATHER_MORE, GATHER_WHOLE };

/* A part of an update is in; `parts` is how many the whole update has. */
enum gather_step gather_part(struct gather *gather, const struct message *message, uint32_t part,
                             uint32_t parts);
/* The rank has no update for this clock. */
enum gather_step gather_nothing(struct gather *gather, uint32_t rank);

/* Do the learning rates of all ranks agree, this one included? */
bool gather_rates_agree(struct gather *gather, const struct message *message);

static inline bool gather_has_values(const struct gather *gather, uint32_t rank)
{
    return bits_has(gather->values, rank);
}

#ifdef __cplusplus
}
#endif

#endif
