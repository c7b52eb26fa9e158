/* What two ends say to each other before either believes the other. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "os/meet_inside.h"
#include "os/random.h"

enum { AT_GREETING = WORDS_BASE_BYTES, AT_NONCE = AT_GREETING + WORDS_GREETING_BYTES };

/* ---- saying ---- */

static struct words words_of(const struct visit *visit, enum words_kind kind)
{
    return (struct words){
        .kind = kind, .index = visit->index, .sockets = visit->meet->options.sockets};
}

/* A new connection has room for so few bytes, or it is broken. */
static bool say(const struct visit *visit, uint8_t *bytes, enum words_kind kind)
{
    struct iovec run = {.iov_base = bytes, .iov_len = words_bytes(kind)};
    return net_send(visit->source.fd, &run, 1) == (ssize_t)run.iov_len;
}

static bool say_short(const struct visit *visit, enum words_kind kind)
{
    uint8_t bytes[WORDS_MOST_BYTES];
    struct words words = words_of(visit, kind);
    words_open(&words, bytes);
    return say(visit, bytes, kind);
}

/* Who this is, with a new nonce; bytes are kept for the proofs. */
static bool introduce(struct visit *visit, enum words_kind kind, uint8_t bytes[WORDS_MOST_BYTES])
{
    struct words words = words_of(visit, kind);
    words_open(&words, bytes);
    memcpy(bytes + AT_GREETING, visit->meet->options.greeting, WORDS_GREETING_BYTES);
    if (random_bytes(bytes + AT_NONCE, WORDS_NONCE_BYTES, NULL) != TRI_OK)
        return false;
    memcpy(visit->own, bytes, WORDS_SAID_BYTES);
    return true;
}

bool visit_ask(struct visit *visit)
{
    uint8_t bytes[WORDS_MOST_BYTES];
    return introduce(visit, WORDS_ASKS, bytes) && say(visit, bytes, WORDS_ASKS);
}

/* Tells the other end why, as well as can be done. What it still has to say is thrown away: closing
 * with bytes unread would take the refusal with it. */
static void say_refusal(const struct visit *visit, enum words_refusal refusal)
{
    uint8_t bytes[WORDS_MOST_BYTES];
    struct words words = words_of(visit, WORDS_REFUSES);
    words.index = (uint32_t)refusal;
    words_open(&words, bytes);
    memcpy(bytes + AT_GREETING, visit->meet->options.greeting, WORDS_GREETING_BYTES);
    (void)say(visit, bytes, WORDS_REFUSES);
    net_end(visit->source.fd);
    net_discard(visit->source.fd, (size_t)1 << 16);
}

/* The other end does not belong here: it is told, and so is the host, or who called. */
static void refuse(struct visit *visit, enum words_refusal refusal, const char *what)
{
    say_refusal(visit, refusal);
    if (visit->peer == MEET_NOBODY)
        visit_nonsense(visit, what);
    else
        visit_give_up(visit, what);
}

/* ---- hearing ---- */

static const char *wrong_token(const struct visit *visit, char out[MEET_WHY])
{
    (void)snprintf(out, MEET_WHY, "it does not know the token of job '%s'", visit->meet->job);
    return out;
}

static const char wrong_token_next[] =
    "wrong token; give all processes of a job the same TRIDENT_TOKEN";

/* Does who it says it is fit? If not, and in words, why. */
static bool fits(const struct visit *visit, const uint8_t *greeting, char out[MEET_WHY])
{
    const struct meet_options *options = &visit->meet->options;
    tri_error err = {0};
    if (memcmp(greeting, options->greeting, WORDS_GREETING_BYTES) == 0)
        (void)snprintf(out, MEET_WHY, "not a trident node: it repeats what it hears");
    else if (options->fits == NULL || options->fits(options->greeting, greeting, &err) == TRI_OK)
        return true;
    else
        (void)snprintf(out, MEET_WHY, "%.120s%s%.90s", err.text, err.next[0] != '\0' ? "; " : "",
                       err.next);
    return false;
}

static bool proved(const struct visit *visit, enum words_kind kind, const uint8_t *proof)
{
    bool called = visit->peer != MEET_NOBODY;
    uint8_t right[KEYED_PROOF_BYTES];
    words_prove(visit->meet->key, kind, called ? visit->own : visit->other,
                called ? visit->other : visit->own, right);
    return keyed_same(right, proof);
}

/* Both ends agree: the connection is the host's. */
static void hand_over(struct visit *visit, uint32_t peer)
{
    struct meet *meet = visit->meet;
    const struct meet_host *host = meet->options.host;
    char address[NET_TEXT];
    memcpy(address, visit->address, sizeof address);
    int fd = visit->source.fd;
    uint32_t index = visit->index;
    poller_remove(meet->options.poller, &visit->source);
    visit->source.fd = -1;
    visit_free(visit);
    host->met(host->ctx, peer, index, fd, address);
}

static uint32_t judge(struct visit *visit)
{
    const struct meet_host *host = visit->meet->options.host;
    struct meet_guest guest = {.dialled = visit->peer,
                               .index = visit->index,
                               .greeting = visit->other + AT_GREETING,
                               .address = visit->address};
    return host->judge(host->ctx, &guest);
}

/* Each of these takes one record, which is whole. False: the visit is over. */

static bool take_question(struct visit *visit)
{
    char why[MEET_WHY];
    uint8_t bytes[WORDS_MOST_BYTES];
    memcpy(visit->other, visit->words, WORDS_SAID_BYTES);
    visit->index = words_read(visit->words).index;
    if (!fits(visit, visit->other + AT_GREETING, why)) {
        refuse(visit, WORDS_OTHER_GREETING, why);
        return false;
    }
    bool said = introduce(visit, WORDS_ANSWERS, bytes);
    words_prove(visit->meet->key, WORDS_ANSWERS, visit->other, visit->own,
                bytes + WORDS_SAID_BYTES);
    if (!said || !say(visit, bytes, WORDS_ANSWERS)) {
        visit_fail(visit, "it closed the connection");
        return false;
    }
    visit->stage = VISIT_PROVING;
    return true;
}

static bool take_answer(struct visit *visit)
{
    char why[MEET_WHY];
    uint8_t bytes[WORDS_MOST_BYTES];
    memcpy(visit->other, visit->words, WORDS_SAID_BYTES);
    if (!fits(visit, visit->other + AT_GREETING, why)) {
        refuse(visit, WORDS_OTHER_GREETING, why);
        return false;
    }
    if (!proved(visit, WORDS_ANSWERS, visit->words + WORDS_SAID_BYTES)) {
        refuse(visit, WORDS_OTHER_TOKEN, wrong_token_next);
        return false;
    }
    struct words words = words_of(visit, WORDS_PROVES);
    words_open(&words, bytes);
    words_prove(visit->meet->key, WORDS_PROVES, visit->own, visit->other, bytes + WORDS_BASE_BYTES);
    if (!say(visit, bytes, WORDS_PROVES)) {
        visit_fail(visit, "it closed the connection");
        return false;
    }
    visit->stage = VISIT_PROVING;
    return true;
}

static void take_proof(struct visit *visit)
{
    char why[MEET_WHY];
    if (!proved(visit, WORDS_PROVES, visit->words + WORDS_BASE_BYTES)) {
        refuse(visit, WORDS_OTHER_TOKEN, wrong_token(visit, why));
        return;
    }
    uint32_t peer = judge(visit);
    if (peer == MEET_NOBODY || peer == MEET_LATER) {
        say_refusal(visit, peer == MEET_LATER ? WORDS_LATER : WORDS_TAKEN);
        visit_fail(visit, "");
    } else if (!say_short(visit, WORDS_WELCOMES)) {
        visit_fail(visit, "it closed the connection");
    } else {
        hand_over(visit, peer);
    }
}

static void take_welcome(struct visit *visit)
{
    uint32_t peer = judge(visit);
    if (peer == MEET_NOBODY || peer == MEET_LATER)
        visit_fail(visit, "another process than was expected answers there");
    else
        hand_over(visit, peer);
}

/* Who called, and was refused. */
static void take_no(struct visit *visit, enum words_refusal refusal)
{
    char why[MEET_WHY];
    switch (refusal) {
    case WORDS_OTHER_TOKEN:
        visit_give_up(visit, wrong_token_next);
        break;
    case WORDS_OTHER_GREETING:
        if (fits(visit, visit->words + AT_GREETING, why))
            (void)snprintf(why, sizeof why, "it belongs to another job");
        visit_give_up(visit, why);
        break;
    case WORDS_TAKEN:
        visit_nonsense(visit, "there is another process with the number of this one already");
        break;
    case WORDS_OTHER_VERSION:
    case WORDS_OTHER_SOCKETS:
    case WORDS_LATER:
        visit_fail(visit, "it does not take this process now");
        break;
    default:
        visit_nonsense(visit, "not a trident node: it refuses for no known reason");
        break;
    }
}

static void take_refusal(struct visit *visit)
{
    enum words_refusal refusal = words_read(visit->words).index;
    char why[MEET_WHY];
    if (visit->peer != MEET_NOBODY)
        take_no(visit, refusal);
    else if (refusal == WORDS_OTHER_TOKEN)
        visit_nonsense(visit, wrong_token(visit, why));
    else
        visit_nonsense(visit, "it finds that it does not belong here");
}

/* What this end can take now; more than it says is never read. */
static bool is_due(const struct visit *visit, enum words_kind kind)
{
    bool called = visit->peer != MEET_NOBODY;
    if (visit->stage == VISIT_LISTENING)
        return called ? kind == WORDS_ANSWERS || kind == WORDS_REFUSES : kind == WORDS_ASKS;
    return kind == WORDS_REFUSES || kind == (called ? WORDS_WELCOMES : WORDS_PROVES);
}

static bool take(struct visit *visit)
{
    visit->heard = 0;
    switch (words_read(visit->words).kind) {
    case WORDS_ASKS:
        return take_question(visit);
    case WORDS_ANSWERS:
        return take_answer(visit);
    case WORDS_PROVES:
        take_proof(visit);
        break;
    case WORDS_WELCOMES:
        take_welcome(visit);
        break;
    case WORDS_REFUSES:
        take_refusal(visit);
        break;
    }
    return false;
}

/* Looks at what there is of a record; false: the visit is over. */
static bool look(struct visit *visit)
{
    char room[WORDS_WRONG], what[MEET_WHY];
    uint32_t own = visit->meet->options.sockets;
    const char *wrong = words_wrong(visit->words, visit->heard, room);
    if (wrong != NULL) {
        if (words_other_version(visit->words, visit->heard))
            refuse(visit, WORDS_OTHER_VERSION, wrong);
        else
            visit_nonsense(visit, wrong);
        return false;
    }
    if (visit->heard < WORDS_BASE_BYTES)
        return true;
    struct words words = words_read(visit->words);
    if (words.sockets != own) {
        (void)snprintf(what, sizeof what,
                       "it uses %u sockets for each peer, this process %u; set TRIDENT_SOCKETS "
                       "alike on all",
                       (unsigned)words.sockets, (unsigned)own);
        refuse(visit, WORDS_OTHER_SOCKETS, what);
        return false;
    }
    bool first = visit->peer == MEET_NOBODY && visit->stage == VISIT_LISTENING;
    if (!is_due(visit, words.kind) ||
        (!first && words.kind != WORDS_REFUSES && words.index != visit->index)) {
        visit_nonsense(visit, "not a trident node: it repeats what it hears");
        return false;
    }
    return true;
}

static void hear_end(struct visit *visit)
{
    const char *why =
        errno == 0 ? "it closed the connection before it said who it is" : strerror(errno);
    if (visit->heard > 0)
        visit_nonsense(visit, why);
    else
        visit_fail(visit, why);
}

/* Never more than one record, so that what follows the last one is left for the host. */
static size_t record_bytes(const struct visit *visit)
{
    return visit->heard < WORDS_BASE_BYTES ? WORDS_BASE_BYTES
                                           : words_bytes(words_read(visit->words).kind);
}

void visit_hear(struct visit *visit)
{
    for (;;) {
        struct iovec run = {.iov_base = visit->words + visit->heard,
                            .iov_len = record_bytes(visit) - visit->heard};
        ssize_t got = net_recv(visit->source.fd, &run, 1);
        if (got == 0)
            return;
        if (got < 0) {
            hear_end(visit);
            return;
        }
        visit->heard += (size_t)got;
        if (!look(visit))
            return;
        if (visit->heard == record_bytes(visit) && visit->heard >= WORDS_BASE_BYTES && !take(visit))
            return;
    }
}
