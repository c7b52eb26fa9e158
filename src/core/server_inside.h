/* What the files of the server share; nobody else includes it. */
#ifndef TRIDENT_CORE_SERVER_INSIDE_H
#define TRIDENT_CORE_SERVER_INSIDE_H

#include "core/server.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline bool steps_each(const struct server *server)
{
    return server->rules.consistency->each_push;
}

static inline const struct layout_unit *owned_by(const struct server *server,
                                                 const struct server_unit *unit)
{
    return &server->layout->units[unit->unit];
}

static inline bool is_dense(const struct server *server, const struct server_unit *unit)
{
    return server->layout->layers[owned_by(server, unit)->layer].form == TRI_FORM_DENSE;
}

/* server_step.c */

/* Does whatever can be done for a unit now; one operation at a time. */
void server_advance(struct server *server, struct server_unit *unit, const struct core_out *out);
void server_start_op(const struct server *server, struct server_unit *unit, struct core_op op,
                     const struct core_out *out);
/* Who a clock waits for, in server->present: live ranks that are not absent. */
void server_find_present(const struct server *server, const struct server_unit *unit);
void server_raise_version(struct server *server, struct server_unit *unit, uint64_t version);
void server_tell(const struct server *server, struct message message, const struct core_out *out);

/* server_each.c */

/* Takes up the next update that is a step of its own; false when there is none. */
bool server_step_each(struct server *server, struct server_unit *unit, const struct core_out *out);
void server_stepped_each(struct server *server, struct server_unit *unit,
                         const struct core_out *out);
/* The least clock that all live ranks have pushed, and answers that it lets go. */
void server_find_least(struct server *server, struct server_unit *unit);

/* server_reply.c */

struct core_ref server_part_ref(const struct server *server, const struct server_unit *unit,
                                enum core_space space, uint32_t part);
/* bsp without stragglers: all live workers, straight from the shard. */
void server_answer_all(const struct server *server, const struct server_unit *unit,
                       const struct core_out *out);
/* Initial values, to all workers but the one they came from. */
void server_forward_init(struct server *server, struct server_unit *unit,
                         const struct core_out *out);
/* Starts to fill the reply slots, where some are due; false when none is. */
bool server_reply(struct server *server, struct server_unit *unit, const struct core_out *out);
void server_replied(struct server *server, struct server_unit *unit, const struct core_out *out);
/* The answers of a rank that joins, which were kept until all had agreed. */
void server_release_join(struct server *server, uint32_t rank, const struct core_out *out);

/* server_late.c */

/* Has the open clock waited long enough for those who are missing? */
bool server_leaves_out(const struct server *server, const struct server_unit *unit);
/* The open clock takes no more: who is not in is late. */
void server_begin_close(struct server *server, struct server_unit *unit);
/* A clock has closed: who was in, or joins at the next, is to be answered. */
void server_note_in(struct server *server, struct server_unit *unit);
/* Something came for a clock that has closed. */
void server_take_late(struct server *server, struct server_unit *unit,
                      const struct message *message, const struct core_out *out);
/* Answers those whose late updates are in: with the unit, or that it has moved on. */
void server_answer_late(struct server *server, struct server_unit *unit,
                        const struct core_out *out);
void server_take_join(struct server *server, const struct message *message,
                      const struct core_out *out);

#ifdef __cplusplus
}
#endif

#endif
