/* Who is in. */
#include "core/gather.h"

#include "base/error.h"

tri_status gather_init(struct gather *gather, const struct mem *mem, uint32_t ranks,
                       uint32_t max_parts, tri_error *err)
{
    *gather = (struct gather){.ranks = ranks, .max_parts = max_parts};
    gather->whole = mem_array(mem, bits_words(ranks), sizeof *gather->whole);
    gather->values = mem_array(mem, bits_words(ranks), sizeof *gather->values);
    gather->parts = mem_array(mem, ranks * bits_words(max_parts), sizeof *gather->parts);
    gather->claims = mem_array(mem, ranks * bits_words(max_parts), sizeof *gather->claims);
    gather->rank = mem_array(mem, ranks, sizeof *gather->rank);
    if (gather->whole != NULL && gather->values != NULL && gather->parts != NULL &&
        gather->claims != NULL && gather->rank != NULL)
        return TRI_OK;
    gather_fini(gather, mem);
    return fail_nomem(err, "the state of a synchronisation");
}

void gather_fini(struct gather *gather, const struct mem *mem)
{
    mem_free(mem, gather->whole);
    mem_free(mem, gather->values);
    mem_free(mem, gather->parts);
    mem_free(mem, gather->claims);
    mem_free(mem, gather->rank);
    *gather = (struct gather){0};
}

static uint64_t *parts_of(const struct gather *gather, uint32_t rank)
{
    return gather->parts + (size_t)rank * bits_words(gather->max_parts);
}

static uint64_t *claims_of(const struct gather *gather, uint32_t rank)
{
    return gather->claims + (size_t)rank * bits_words(gather->max_parts);
}

/* Only a rank that sent something has anything to forget. */
static void forget(struct gather *gather, uint32_t rank)
{
    if (gather->rank[rank].parts > 0)
        bits_clear(parts_of(gather, rank), gather->max_parts);
    if (gather->rank[rank].claims > 0)
        bits_clear(claims_of(gather, rank), gather->max_parts);
    gather->rank[rank] = (struct gather_rank){0};
}

void gather_open(struct gather *gather, uint64_t clock)
{
    gather->clock = clock;
    gather->in = 0;
    gather->count = 0;
    gather->has_lr = false;
    gather->lr_bits = 0;
    bits_clear(gather->whole, gather->ranks);
    bits_clear(gather->values, gather->ranks);
    for (uint32_t r = 0; r < gather->ranks; r++)
        forget(gather, r);
}

void gather_forget(struct gather *gather, uint32_t rank)
{
    if (bits_has(gather->whole, rank)) {
        bits_remove(gather->whole, rank);
        bits_remove(gather->values, rank);
        gather->in--;
        gather->count -= gather->rank[rank].count;
    }
    forget(gather, rank);
}

/* Is this part of this rank not in yet? */
static bool wants(const struct gather *gather, uint32_t rank, uint32_t part)
{
    return rank < gather->ranks && part < gather->max_parts && !bits_has(gather->whole, rank) &&
           !bits_has(parts_of(gather, rank), part);
}

bool gather_claim(struct gather *gather, const struct message *message, uint32_t part)
{
    if (!wants(gather, message->rank, part) || !bits_add(claims_of(gather, message->rank), part))
        return false;
    gather->rank[message->rank].claims++;
    return true;
}

void gather_release(struct gather *gather, const struct message *message, uint32_t part)
{
    if (wants(gather, message->rank, part))
        bits_remove(claims_of(gather, message->rank), part);
}

enum gather_step gather_part(struct gather *gather, const struct message *message, uint32_t part,
                             uint32_t parts)
{
    if (!wants(gather, message->rank, part))
        return GATHER_DROPPED;
    struct gather_rank *rank = &gather->rank[message->rank];
    /* Parts of one update say the same of it. */
    if (rank->parts > 0 && (rank->rows != message->rows || rank->lr_bits != message->lr_bits))
        return GATHER_DROPPED;
    bits_add(parts_of(gather, message->rank), part);
    rank->rows = message->rows;
    rank->lr_bits = message->lr_bits;
    if (++rank->parts < parts)
        return GATHER_MORE;
    bits_add(gather->whole, message->rank);
    bits_add(gather->values, message->rank);
    gather->in++;
    gather->count += message->count;
    rank->count = message->count;
    return GATHER_WHOLE;
}

enum gather_step gather_nothing(struct gather *gather, uint32_t rank)
{
    if (rank >= gather->ranks || !bits_add(gather->whole, rank))
        return GATHER_DROPPED;
    gather->in++;
    return GATHER_WHOLE;
}

bool gather_rates_agree(struct gather *gather, const struct message *message)
{
    if (!gather->has_lr) {
        gather->has_lr = true;
        gather->lr_bits = message->lr_bits;
        gather->lr_rank = message->rank;
    }
    return gather->lr_bits == message->lr_bits;
}
