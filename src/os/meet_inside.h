/* What the files of os/meet share; nobody else includes it. */
#ifndef TRIDENT_OS_MEET_INSIDE_H
#define TRIDENT_OS_MEET_INSIDE_H

#include "os/meet.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MEET_WHY = 220, MEET_JOB = 64 };

enum visit_stage {
    VISIT_PAUSED,     /* until at_ms, then it is tried again */
    VISIT_CONNECTING, /* until writable */
    VISIT_LISTENING,  /* to who the other end is */
    VISIT_PROVING,    /* said who this is: the other end's turn to prove, or to welcome */
};

/* A connection that is being made, by a call or by a knock at the door. */
struct visit {
    struct poller_source source; /* fd -1 while paused */
    struct meet *meet;
    struct visit *prev, *next; /* by age, the oldest first */
    enum visit_stage stage;
    int64_t at_ms; /* paused: when to go on; else: when patience ends */
    char address[NET_TEXT];
    uint8_t words[WORDS_MOST_BYTES]; /* the record that is coming in */
    size_t heard;
    uint8_t own[WORDS_SAID_BYTES], other[WORDS_SAID_BYTES]; /* what proofs are about */
    /* Of calls; peer is MEET_NOBODY for knocks. */
    uint32_t peer, index;
    int64_t deadline_ms, refused_ms; /* refused since; 0: not */
    int pause_ms;
    struct net_address addresses[NET_ADDRESSES];
    size_t address_count, address_at;
    char why[MEET_WHY]; /* the last try failed */
};

struct meet {
    struct meet_options options; /* its texts are gone */
    struct poller_source door;
    struct visit *first, *last;
    size_t strangers;
    int spare; /* a descriptor to give up when there are no others: then one can be refused */
    bool knocked;
    bool guarded; /* there is a token */
    uint8_t key[KEYED_KEY_BYTES];
    char job[MEET_JOB];
    char address[NET_TEXT];
};

/* meet.c. All of them may end the visit. */
void visit_free(struct visit *visit);
/* The connection came to nothing: a knock is forgotten, a call is tried again. */
void visit_fail(struct visit *visit, const char *why);
/* The two do not belong together. A call is tried again for a while: one of an earlier job may
 * still listen where the right one is about to. */
void visit_give_up(struct visit *visit, const char *why);
/* The host is told, and it fails. */
void visit_nonsense(struct visit *visit, const char *what);

/* meet_talk.c: the words. */
bool visit_ask(struct visit *visit);  /* false: the connection is broken */
void visit_hear(struct visit *visit); /* all that is there; may end the visit */

#ifdef __cplusplus
}
#endif

#endif
