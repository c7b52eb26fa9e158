/* Nodes that go silent, and what becomes of the others: whole nodes, wired by a post office. */
#include "core/node.h"

#include <stdlib.h>
#include <string.h>

#include "lib/books.h"
#include "mod/consistency.h"
#include "wire/decision.h"
#include "wire/report.h"

#include "lib/test.h" /* last: its fail() is not ours */

enum {
    MOST = 6,
    HEARTBEAT = 1000000,
    TICK = HEARTBEAT / 8,
    GIVEN_UP = 24, /* ticks: three heartbeats */
    NO_PART = 999
};

struct mail {
    struct mail *next;
    uint32_t to;
    struct message message;
    uint64_t set;
    uint8_t bytes[];
};

struct house {
    struct node node;
    bool dead;   /* does nothing, and what comes for it is lost */
    bool paused; /* does nothing, and what comes for it waits */
    bool failed;
    struct core_action fail;
    uint64_t dropped; /* set of nodes */
    size_t evictions; /* EVICTED that came */
    struct core_op ops[16];
    size_t op_count;
};

struct town {
    struct profile *profile;
    struct book book;
    struct plan *plan;
    struct layout *layout;
    struct core_rules rules;
    uint32_t nodes;
    uint64_t now;
    struct house houses[MOST];
    bool cut[MOST][MOST]; /* from, to */
    struct mail *first, **last;
    uint32_t lost_rank, lost_part; /* of the updates of a rank this part is lost */
};

/* ---- the post office ---- */

struct sender {
    struct town *town;
    uint32_t node;
};

static void post(struct town *town, uint32_t to, const struct message *message)
{
    struct mail *mail = malloc(sizeof *mail + message->len);
    assert_non_null(mail);
    *mail = (struct mail){.to = to, .message = *message};
    if (message->set != NULL)
        mail->set = *message->set; /* no more than 64 nodes here */
    if (message->len > 0)
        memcpy(mail->bytes, message->bytes, message->len);
    *town->last = mail;
    town->last = &mail->next;
}

static void take(void *ctx, const struct core_action *action)
{
    const struct sender *sender = ctx;
    struct house *house = &sender->town->houses[sender->node];
    switch (action->kind) {
    case CORE_SEND:
        assert_int_equal(action->message.from, action->message.role == CORE_MEMBER &&
                                                       action->message.kind != WIRE_HEARTBEAT
                                                   ? 0
                                                   : sender->node);
        if (!sender->town->cut[sender->node][action->to])
            post(sender->town, action->to, &action->message);
        break;
    case CORE_OP:
        assert_true(house->op_count < sizeof house->ops / sizeof house->ops[0]);
        house->ops[house->op_count++] = action->op;
        break;
    case CORE_DROP:
        bits_add(&house->dropped, action->to);
        break;
    case CORE_FAIL:
        house->failed = true;
        house->fail = *action;
        break;
    default:
        break;
    }
}

/* Gives a node an event, and does the operations that it leads to. */
#define EVENT(town, n, call)                                                                       \
    do {                                                                                           \
        struct sender sender = {(town), (n)};                                                      \
        struct core_out out = {.emit = take, .ctx = &sender};                                      \
        struct house *house = &(town)->houses[n];                                                  \
        call;                                                                                      \
        while (house->op_count > 0) {                                                              \
            struct core_op op = house->ops[0];                                                     \
            memmove(house->ops, house->ops + 1, --house->op_count * sizeof op);                    \
            node_done(&house->node, &op, &out);                                                    \
        }                                                                                          \
    } while (0)

static bool has_data(const struct message *message)
{
    return message->kind == WIRE_INIT || message->kind == WIRE_PUSH ||
           message->kind == WIRE_FACTORS || (message->kind == WIRE_RESULT && !message->unchanged);
}

static void hand_over(struct town *town, struct mail *mail)
{
    struct message message = mail->message;
    message.set = message.set != NULL ? &mail->set : NULL;
    message.bytes = mail->bytes;
    bool update = message.kind == WIRE_PUSH || message.kind == WIRE_FACTORS;
    if (update && message.rank == town->lost_rank && message.part == town->lost_part)
        return;
    town->houses[mail->to].evictions += message.kind == WIRE_EVICTED;
    EVENT(town, mail->to, {
        if (has_data(&message))
            message.landed = node_landing(&house->node, &message).space != CORE_NOWHERE;
        node_message(&house->node, town->now, &message, &out);
    });
}

/* All mail, and the mail it leads to. What is for a paused node stays. */
static void deliver(struct town *town)
{
    struct mail *kept = NULL, **end = &kept;
    while (town->first != NULL) {
        struct mail *mail = town->first;
        town->first = mail->next;
        if (town->first == NULL)
            town->last = &town->first;
        mail->next = NULL;
        if (town->houses[mail->to].paused) {
            *end = mail;
            end = &mail->next;
            continue;
        }
        if (!town->houses[mail->to].dead)
            hand_over(town, mail);
        free(mail);
    }
    town->first = kept;
    town->last = kept != NULL ? end : &town->first;
}

static void pass(struct town *town, uint32_t ticks)
{
    for (uint32_t i = 0; i < ticks; i++) {
        town->now += TICK;
        deliver(town); /* to those who have woken up */
        for (uint32_t n = 0; n < town->nodes; n++)
            if (!town->houses[n].dead && !town->houses[n].paused)
                EVENT(town, n, node_tick(&house->node, town->now, &out));
        deliver(town);
    }
}

/* ---- building ---- */

static void init_node(struct town *town, uint32_t n, uint64_t incarnation)
{
    struct node_options options = {.layout = town->layout,
                                   .rules = town->rules,
                                   .times = {.heartbeat = HEARTBEAT},
                                   .number = n,
                                   .layers_hash = 1,
                                   .plan_hash = 2,
                                   .incarnation = incarnation};
    assert_int_equal(node_init(&town->houses[n].node, &options, &mem_libc, NULL), TRI_OK);
}

static void join(struct town *town, uint32_t n)
{
    EVENT(town, n, node_join(&house->node, town->now, &out));
}

/* Servers on nodes of their own, behind the workers. */
static void build(struct town *town, const char *scheme, uint32_t workers, uint32_t servers)
{
    memset(town, 0, sizeof *town);
    town->profile = book_one_layer("FC", 6, 10, 6);
    town->book = book_of(town->profile, workers);
    town->book.servers = servers;
    town->book.colocated = 0;
    town->book.forced = scheme_at(book_scheme_index(scheme));
    town->book.batch = 4;
    town->book.chunk_bytes = 100;
    if (servers == 1)
        town->book.placement = placement_find("tensor"); /* one unit of several parts */
    town->plan = book_plan(&town->book);
    assert_int_equal(layout_make(town->plan, &mem_libc, &town->layout, NULL), TRI_OK);
    town->rules.reproducible = true;
    town->nodes = town->layout->nodes;
    town->now = 1000 * (uint64_t)HEARTBEAT;
    town->last = &town->first;
    town->lost_part = NO_PART;
    for (uint32_t n = 0; n < town->nodes; n++)
        init_node(town, n, 100 + n);
}

/* Built, joined, started, initial values handed out, and some heartbeats old. */
static void set_up(struct town *town, const char *scheme, uint32_t workers, uint32_t servers)
{
    build(town, scheme, workers, servers);
    for (uint32_t n = 0; n < town->nodes; n++)
        join(town, n);
    deliver(town);
    EVENT(town, 0, node_start(&house->node, &out));
    pass(town, 20);
    for (uint32_t n = 0; n < town->nodes; n++) {
        assert_true(town->houses[n].node.member.started);
        assert_false(town->houses[n].failed);
    }
    for (uint32_t r = 0; r < workers; r++)
        assert_true(worker_started(&town->houses[r].node.worker));
}

static void tear_down(struct town *town)
{
    for (struct mail *mail = town->first, *next; mail != NULL; mail = next) {
        next = mail->next;
        free(mail);
    }
    for (uint32_t n = 0; n < town->nodes; n++)
        node_fini(&town->houses[n].node);
    layout_free(town->layout);
    plan_free(town->plan);
    profile_free(town->profile);
}

static void cut_link(struct town *town, uint32_t a, uint32_t b, bool cut)
{
    town->cut[a][b] = town->cut[b][a] = cut;
}

static void cut_off(struct town *town, uint32_t n, bool cut)
{
    for (uint32_t m = 0; m < town->nodes; m++)
        if (m != n)
            cut_link(town, n, m, cut);
}

static void update(struct town *town, uint32_t n)
{
    struct worker_update given = {.count = 4, .lr = 0.1f, .rows = 4};
    EVENT(town, n, assert_int_equal(node_update(&house->node, 0, &given, &out, NULL), TRI_OK));
}

/* ---- what is so ---- */

static const struct coordinator *coordinator(const struct town *town)
{
    return &town->houses[0].node.coordinator;
}

/* Exactly these nodes have departed, and all who remain know it and work. */
static void departed_are(const struct town *town, uint64_t departed)
{
    assert_int_equal(coordinator(town)->departed[0], departed);
    for (uint32_t n = 0; n < town->nodes; n++) {
        if (bits_has(&departed, n))
            continue;
        assert_false(town->houses[n].failed);
        assert_int_equal(town->houses[n].dropped, departed);
        assert_int_equal(town->houses[n].node.member.watch.departed[0], departed);
    }
}

/* All but these have failed, with a text that says so. */
static void all_failed_but(const struct town *town, uint64_t but, const char *text)
{
    for (uint32_t n = 0; n < town->nodes; n++) {
        if (bits_has(&but, n))
            continue;
        assert_true(town->houses[n].failed);
        if (strstr(town->houses[n].fail.text, text) == NULL)
            fail_msg("node %u says: %s", n, town->houses[n].fail.text);
    }
}

static uint64_t version_of(const struct town *town, uint32_t rank)
{
    return town->houses[rank].node.worker.syncers[0].version;
}

/* Did these ranks count in the last result of a unit, for this worker? */
static uint64_t counted(const struct town *town, uint32_t worker, uint32_t unit)
{
    uint64_t set = 0;
    for (uint32_t r = 0; r < town->layout->workers; r++)
        if (worker_counted(&town->houses[worker].node.worker, unit, r))
            bits_add(&set, r);
    return set;
}

/* ---- who goes ---- */

TEST(a_worker_that_dies_leaves_the_view_and_the_others_go_on)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    town.houses[2].dead = true;
    pass(&town, GIVEN_UP);
    departed_are(&town, 1 << 2);
    assert_int_equal(coordinator(&town)->view, 2);
    tear_down(&town);
}

TEST(silence_is_acted_on_within_three_heartbeats)
{
    (void)state;
    for (uint32_t n = 1; n < 3; n++) {
        struct town town;
        uint32_t ticks = 0;
        set_up(&town, "ps", 3, 2);
        cut_off(&town, n, true);
        while (coordinator(&town)->view == 1) {
            pass(&town, 1);
            ticks++;
        }
        assert_in_range(ticks, 20, GIVEN_UP);
        tear_down(&town);
    }
}

TEST(a_pause_of_two_heartbeats_and_a_bit_changes_nothing)
{
    (void)state;
    for (uint32_t n = 0; n < 5; n++) {
        struct town town;
        set_up(&town, "ps", 3, 2);
        town.houses[n].paused = true;
        pass(&town, 22 * 8 / 10);
        town.houses[n].paused = false;
        pass(&town, 50);
        departed_are(&town, 0);
        assert_int_equal(coordinator(&town)->view, 1);
        tear_down(&town);
    }
}

TEST(accusations_taken_back_in_time_change_nothing)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    town.houses[2].paused = true;
    pass(&town, 19);
    town.houses[2].paused = false;
    pass(&town, 1);
    uint64_t accused = 0; /* by anybody */
    for (uint32_t n = 0; n < town.nodes; n++)
        accused |= coordinator(&town)->accused[n];
    assert_int_equal(accused, 1 << 2);
    pass(&town, 1);
    for (uint32_t n = 0; n < town.nodes; n++)
        assert_int_equal(coordinator(&town)->accused[n], 0);
    pass(&town, 50);
    departed_are(&town, 0);
    tear_down(&town);
}

TEST(the_most_accused_goes)
{
    (void)state;
    struct town town;
    set_up(&town, "sfb", 5, 1);
    cut_link(&town, 1, 3, true); /* 1 accuses 3 and 4, they accuse 1 */
    cut_link(&town, 1, 4, true);
    pass(&town, GIVEN_UP);
    departed_are(&town, 1 << 1);
    pass(&town, 50); /* and its accusations went with it */
    departed_are(&town, 1 << 1);
    tear_down(&town);
}

TEST(a_node_cut_from_all_goes_and_not_the_others)
{
    (void)state;
    struct town town;
    set_up(&town, "sfb", 5, 1);
    cut_off(&town, 1, true);
    pass(&town, 50);
    departed_are(&town, 1 << 1);
    assert_true(town.houses[1].failed); /* it has lost the coordinator */
    tear_down(&town);
}

TEST(a_node_cut_from_all_but_the_coordinator_goes_and_not_the_others)
{
    (void)state;
    struct town town;
    set_up(&town, "sfb", 5, 1);
    cut_off(&town, 1, true);
    cut_link(&town, 0, 1, false);
    pass(&town, 50);
    departed_are(&town, 1 << 1);
    assert_int_equal(town.houses[1].fail.status, TRI_EEVICTED);
    tear_down(&town);
}

TEST(of_two_that_accuse_each_other_the_higher_number_goes)
{
    (void)state;
    struct town town;
    set_up(&town, "sfb", 4, 1);
    cut_link(&town, 1, 2, true);
    pass(&town, 50);
    departed_are(&town, 1 << 2);
    tear_down(&town);
}

TEST(of_two_that_accuse_each_other_the_one_the_job_can_do_without_goes)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    cut_link(&town, 1, 4, true);
    pass(&town, 50);
    departed_are(&town, 1 << 1);
    tear_down(&town);
}

TEST(who_was_never_heard_is_missed_from_the_start_on)
{
    (void)state;
    struct town town;
    build(&town, "ps", 3, 2);
    cut_link(&town, 1, 4, true); /* both join, and have never heard each other */
    for (uint32_t n = 0; n < town.nodes; n++)
        join(&town, n);
    deliver(&town);
    pass(&town, 19);
    departed_are(&town, 0);
    pass(&town, GIVEN_UP - 19);
    departed_are(&town, 1 << 1);
    tear_down(&town);
}

TEST(all_that_die_at_once_leave_in_one_view)
{
    (void)state;
    struct town town;
    set_up(&town, "sfb", 5, 1);
    town.houses[2].dead = town.houses[3].dead = true;
    pass(&town, 50);
    departed_are(&town, 1 << 2 | 1 << 3);
    assert_int_equal(coordinator(&town)->view, 2);
    tear_down(&town);
}

TEST(a_server_without_units_may_go)
{
    (void)state;
    struct town town;
    set_up(&town, "sfb", 3, 1);
    town.houses[3].dead = true;
    pass(&town, 50);
    departed_are(&town, 1 << 3);
    tear_down(&town);
}

/* ---- who cannot go ---- */

TEST(a_lost_server_ends_the_job_and_everybody_is_told_which)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    town.houses[4].dead = true;
    pass(&town, GIVEN_UP);
    all_failed_but(&town, 1 << 4, "server 1 was not heard by rank 0, rank 1, rank 2; the job ends");
    for (uint32_t n = 0; n < 4; n++)
        assert_int_equal(town.houses[n].fail.status, TRI_EPEER);
    tear_down(&town);
}

TEST(a_lost_coordinator_ends_the_job_for_each_member)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    town.houses[0].dead = true;
    pass(&town, GIVEN_UP - 1);
    for (uint32_t n = 1; n < town.nodes; n++)
        assert_false(town.houses[n].failed);
    pass(&town, 1);
    all_failed_but(&town, 1, "rank 0, which coordinates the job, is lost: not heard for 3.0 s");
    assert_int_equal(town.houses[1].fail.status, TRI_EPEER);
    tear_down(&town);
}

TEST(before_the_start_a_lost_node_ends_the_job)
{
    (void)state;
    struct town town;
    build(&town, "ps", 3, 2);
    for (uint32_t n = 0; n < 4; n++) /* node 4 is still to come */
        join(&town, n);
    pass(&town, 30); /* one that never came is waited for */
    for (uint32_t n = 0; n < town.nodes; n++)
        assert_false(town.houses[n].failed);
    town.houses[2].dead = true;
    pass(&town, GIVEN_UP);
    for (uint32_t n = 0; n < 2; n++) {
        assert_true(town.houses[n].failed);
        assert_non_null(strstr(town.houses[n].fail.text, "rank 2 was not heard by"));
        assert_non_null(strstr(town.houses[n].fail.text, "before the job had started"));
    }
    tear_down(&town);
}

/* ---- who is told ---- */

TEST(who_was_evicted_is_told_when_it_speaks_again)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    cut_off(&town, 2, true);
    while (coordinator(&town)->view == 1)
        pass(&town, 1);
    assert_false(town.houses[2].failed); /* it cannot know */
    assert_int_equal(town.houses[2].evictions, 0);
    cut_off(&town, 2, false);
    pass(&town, 2);
    assert_true(town.houses[2].evictions > 0);
    assert_true(town.houses[2].failed);
    assert_int_equal(town.houses[2].fail.status, TRI_EEVICTED);
    departed_are(&town, 1 << 2);
    tear_down(&town);
}

TEST(who_is_evicted_and_can_hear_is_told_why)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    cut_link(&town, 1, 4, true);
    pass(&town, GIVEN_UP);
    assert_string_equal(town.houses[1].fail.text,
                        "rank 1 is out of the job: was not heard by server 1");
    tear_down(&town);
}

/* What a departed node says is answered, and does nothing else. */
TEST(who_has_departed_is_heard_no_more)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    town.houses[2].dead = true;
    pass(&town, GIVEN_UP);
    struct message accuse = {
        .kind = WIRE_ACCUSE, .role = CORE_COORDINATOR, .from = 2, .set = &(const uint64_t){1 << 1}};
    post(&town, 0, &accuse);
    struct message nothing = {.kind = WIRE_NOTHING, .role = CORE_SERVER, .from = 2, .rank = 2};
    post(&town, 3, &nothing);
    town.houses[2].dead = false;
    deliver(&town);
    assert_int_equal(town.houses[2].evictions, 1);
    assert_int_equal(coordinator(&town)->accused[2], 0);
    assert_int_equal(town.houses[3].node.server.units[0].gather.in, 0);
    tear_down(&town);
}

TEST(a_restarted_node_is_refused_and_its_old_self_evicted)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    node_fini(&town.houses[2].node);
    init_node(&town, 2, 777);
    join(&town, 2);
    pass(&town, 2);
    departed_are(&town, 1 << 2);
    assert_true(town.houses[2].failed);
    assert_int_equal(town.houses[2].fail.status, TRI_EEVICTED);
    tear_down(&town);
}

TEST(a_restarted_server_ends_the_job)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    node_fini(&town.houses[4].node);
    init_node(&town, 4, 777);
    join(&town, 4);
    pass(&town, 2);
    all_failed_but(&town, 1 << 4, "server 1 was started again; the job ends");
    assert_true(town.houses[4].failed);
    tear_down(&town);
}

TEST(a_second_copy_of_hello_is_no_restart)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    struct message hello = {
        .kind = WIRE_HELLO, .role = CORE_COORDINATOR, .from = 2, .hash = 1, .incarnation = 102};
    post(&town, 0, &hello);
    pass(&town, 2);
    departed_are(&town, 0);
    tear_down(&town);
}

/* ---- a node that fails ---- */

/* Two ranks with other rates; the one that finds out is the server that owns a unit. */
static void update_with(struct town *town, uint32_t n, float lr)
{
    struct worker_update given = {.count = 4, .lr = lr, .rows = 4};
    EVENT(town, n, assert_int_equal(node_update(&house->node, 0, &given, &out, NULL), TRI_OK));
}

TEST(why_a_node_fails_is_told_to_all)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 1);
    update_with(&town, 1, 0.1f);
    update_with(&town, 2, 0.2f);
    pass(&town, 2);
    all_failed_but(&town, 0, "learning rates differ in layer 'l', clock 0");
    assert_non_null(strstr(town.houses[1].fail.text, "server 0: "));
    tear_down(&town);
}

TEST(why_the_node_of_the_coordinator_fails_is_told_to_all)
{
    (void)state;
    struct town town;
    set_up(&town, "sfb", 3, 1);
    cut_link(&town, 1, 2, true); /* so that it is node 0 that finds out */
    update_with(&town, 1, 0.1f);
    update_with(&town, 2, 0.2f);
    pass(&town, 2);
    all_failed_but(&town, 0, "learning rates differ in layer 'l', clock 0");
    tear_down(&town);
}

/* ---- clocks and the dead ---- */

TEST(a_clock_closes_when_a_dead_rank_was_the_only_one_missing)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    town.houses[2].dead = true;
    update(&town, 0);
    update(&town, 1);
    pass(&town, 15);
    assert_int_equal(version_of(&town, 0), 0);
    pass(&town, GIVEN_UP);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(version_of(&town, r), 1);
        for (uint32_t unit = 0; unit < town.layout->unit_count; unit++)
            assert_int_equal(counted(&town, r, unit), 0x3);
    }
    tear_down(&town);
}

TEST(the_whole_push_of_a_dead_rank_counts)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    update(&town, 2);
    deliver(&town);
    town.houses[2].dead = true;
    pass(&town, GIVEN_UP);
    update(&town, 0);
    update(&town, 1);
    deliver(&town);
    for (uint32_t unit = 0; unit < town.layout->unit_count; unit++)
        assert_int_equal(counted(&town, 0, unit), 0x7);
    assert_int_equal(version_of(&town, 1), 1);
    tear_down(&town);
}

TEST(half_a_push_of_a_dead_rank_does_not_count)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 1);
    assert_int_equal(town.layout->units[0].parts, 3);
    town.lost_rank = 2;
    town.lost_part = 1;
    for (uint32_t r = 0; r < 3; r++)
        update(&town, r);
    deliver(&town);
    town.houses[2].dead = true;
    pass(&town, GIVEN_UP);
    assert_int_equal(version_of(&town, 0), 1);
    assert_int_equal(counted(&town, 0, 0), 0x3);
    tear_down(&town);
}

/* ---- factors and the dead ---- */

TEST(factors_that_one_survivor_holds_count_for_all)
{
    (void)state;
    struct town town;
    set_up(&town, "sfb", 4, 1);
    cut_link(&town, 3, 0, true);
    cut_link(&town, 3, 1, true);
    update(&town, 3); /* reaches 2 */
    deliver(&town);
    town.houses[3].dead = true;
    for (uint32_t r = 0; r < 3; r++)
        update(&town, r);
    pass(&town, 50);
    departed_are(&town, 1 << 3);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(version_of(&town, r), 1);
        assert_int_equal(counted(&town, r, 0), 0xf);
        assert_int_equal(town.houses[r].node.worker.syncers[0].count, 4 * 4); /* samples */
    }
    tear_down(&town);
}

TEST(factors_that_no_survivor_holds_count_for_none)
{
    (void)state;
    struct town town;
    set_up(&town, "sfb", 4, 1);
    town.lost_rank = 3;
    town.lost_part = 1;
    update(&town, 3);
    deliver(&town);
    town.houses[3].dead = true;
    for (uint32_t r = 0; r < 3; r++)
        update(&town, r);
    pass(&town, 50);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(version_of(&town, r), 1);
        assert_int_equal(counted(&town, r, 0), 0x7);
    }
    tear_down(&town);
}

TEST(nothing_that_one_survivor_holds_is_relayed_to_all)
{
    (void)state;
    struct town town;
    set_up(&town, "sfb", 4, 1);
    cut_link(&town, 3, 0, true);
    cut_link(&town, 3, 1, true);
    EVENT(&town, 3, node_clock(&house->node, &out));
    deliver(&town);
    town.houses[3].dead = true;
    pass(&town, 50);
    for (uint32_t r = 0; r < 3; r++)
        assert_true(bits_has(town.houses[r].node.worker.syncers[0].generation[0].whole, 3));
    tear_down(&town);
}

TEST(a_relayer_that_dies_before_it_relays_is_replaced)
{
    (void)state;
    struct town town;
    set_up(&town, "sfb", 4, 1);
    cut_link(&town, 3, 0, true);
    update(&town, 3); /* reaches 1 and 2; 1 is to relay to 0 */
    deliver(&town);
    town.houses[3].dead = true;
    town.lost_rank = 3; /* what it relays is torn */
    town.lost_part = 0;
    pass(&town, GIVEN_UP);
    departed_are(&town, 1 << 3);
    assert_int_equal(coordinator(&town)->view, 2);
    town.lost_part = NO_PART;
    town.houses[1].dead = true;
    pass(&town, GIVEN_UP);
    assert_int_equal(coordinator(&town)->view, 3);
    update(&town, 0);
    update(&town, 2);
    deliver(&town);
    departed_are(&town, 1 << 3 | 1 << 1);
    for (uint32_t r = 0; r < 3; r += 2) {
        assert_int_equal(version_of(&town, r), 1);
        assert_int_equal(counted(&town, r, 0), 1 << 0 | 1 << 2 | 1 << 3);
    }
    tear_down(&town);
}

/* A hand-made decision: the coordinator alone. */
struct ballot {
    struct buf decision;
};

static void keep_decision(void *ctx, const struct core_action *action)
{
    struct ballot *ballot = ctx;
    if (action->kind != CORE_SEND || action->message.kind != WIRE_DECISION)
        return;
    buf_clear(&ballot->decision);
    buf_add(&ballot->decision, action->message.bytes, action->message.len);
}

static void say(struct coordinator *chair, struct message message, const struct core_out *out)
{
    message.rank = message.from;
    coordinator_message(chair, &message, out);
}

/* Three workers, two servers that own nothing; the job runs. */
static void convene(struct town *town, struct ballot *ballot, const struct core_out *out)
{
    build(town, "sfb", 3, 2);
    buf_init(&ballot->decision, &mem_libc);
    for (uint32_t n = 0; n < 5; n++)
        say(&town->houses[0].node.coordinator, (struct message){.kind = WIRE_HELLO, .from = n},
            out);
    for (uint32_t n = 0; n < 5; n++)
        say(&town->houses[0].node.coordinator, (struct message){.kind = WIRE_READY, .from = n},
            out);
}

static void dissolve(struct town *town, struct ballot *ballot)
{
    buf_fini(&ballot->decision);
    tear_down(town);
}

static void give_up(struct town *town, uint64_t nodes, const struct core_out *out)
{
    struct coordinator *chair = &town->houses[0].node.coordinator;
    say(chair, (struct message){.kind = WIRE_ACCUSE, .set = &nodes}, out);
    for (int i = 0; i < 2; i++, town->now += TICK)
        coordinator_tick(chair, &town->houses[0].node.member.watch, town->now, out);
}

/* At clock 4 of layer 0; of rank 2 clocks 4 and 5 are held, or nothing. */
static void report(struct town *town, uint32_t rank, uint32_t view, bool held,
                   const struct core_out *out)
{
    struct buf report;
    struct wire_report_out list;
    const uint32_t two = 2;
    buf_init(&report, &mem_libc);
    wire_report_begin(&list, &report);
    wire_report_layer(&list, 0, 4);
    if (held) {
        wire_report_held(&list, 4, &two, 1);
        wire_report_held(&list, 5, &two, 1);
    }
    say(&town->houses[0].node.coordinator,
        (struct message){.kind = WIRE_REPORT,
                         .from = rank,
                         .view = view,
                         .bytes = (const uint8_t *)report.data,
                         .len = report.len},
        out);
    buf_fini(&report);
}

/* In how many clocks anybody counts. */
static uint32_t entries_of(const struct ballot *ballot)
{
    struct wire_decision decision;
    struct wire_header header = {.kind = WIRE_DECISION, .data_len = (uint32_t)ballot->decision.len};
    assert_int_equal(wire_decision_decode(&header, (const uint8_t *)ballot->decision.data,
                                          &wire_widest, &decision, NULL),
                     TRI_OK);
    return decision.entry_count;
}

TEST(a_departed_node_that_is_no_rank_takes_nothing_from_the_ranks_that_departed_with_it)
{
    (void)state;
    struct town town;
    struct ballot ballot;
    struct core_out out = {.emit = keep_decision, .ctx = &ballot};
    convene(&town, &ballot, &out);
    give_up(&town, 1 << 2 | 1 << 4, &out); /* a worker, and a server */
    assert_int_equal(coordinator(&town)->departed[0], 1 << 2 | 1 << 4);
    report(&town, 0, 2, true, &out);
    report(&town, 1, 2, true, &out);
    assert_int_equal(entries_of(&ballot), 2); /* clocks 4 and 5 */
    dissolve(&town, &ballot);
}

TEST(who_was_left_out_in_one_view_stays_out_in_the_next)
{
    (void)state;
    struct town town;
    struct ballot ballot;
    struct core_out out = {.emit = keep_decision, .ctx = &ballot};
    convene(&town, &ballot, &out);
    give_up(&town, 1 << 2, &out);
    report(&town, 0, 2, false, &out);
    report(&town, 1, 2, false, &out);
    assert_int_equal(entries_of(&ballot), 0);
    give_up(&town, 1 << 3, &out);
    report(&town, 0, 3, true, &out); /* it has come after all */
    report(&town, 1, 3, true, &out);
    assert_int_equal(entries_of(&ballot), 0);
    dissolve(&town, &ballot);
}

TEST(reports_of_an_older_view_decide_nothing)
{
    (void)state;
    struct town town;
    struct ballot ballot;
    struct core_out out = {.emit = keep_decision, .ctx = &ballot};
    convene(&town, &ballot, &out);
    give_up(&town, 1 << 2, &out);
    report(&town, 0, 2, true, &out);
    give_up(&town, 1 << 3, &out);
    report(&town, 1, 2, true, &out); /* sent before it knew */
    report(&town, 0, 3, true, &out);
    assert_int_equal(ballot.decision.len, 0);
    report(&town, 1, 3, true, &out);
    assert_true(ballot.decision.len > 0);
    dissolve(&town, &ballot);
}

/* ---- the end ---- */

static void close_node(struct town *town, uint32_t n)
{
    EVENT(town, n, node_close(&house->node, &out));
}

TEST(the_job_ends_when_all_have_closed)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    close_node(&town, 0);
    close_node(&town, 1);
    pass(&town, 30);
    for (uint32_t n = 0; n < town.nodes; n++)
        assert_false(town.houses[n].node.member.ended);
    close_node(&town, 2);
    deliver(&town);
    for (uint32_t n = 0; n < town.nodes; n++)
        assert_true(town.houses[n].node.member.ended);
    pass(&town, 50); /* and nobody misses anybody */
    for (uint32_t n = 0; n < town.nodes; n++)
        assert_false(town.houses[n].failed);
    tear_down(&town);
}

TEST(the_end_does_not_wait_for_the_dead)
{
    (void)state;
    struct town town;
    set_up(&town, "ps", 3, 2);
    close_node(&town, 0);
    close_node(&town, 1);
    town.houses[2].dead = true;
    pass(&town, GIVEN_UP);
    for (uint32_t n = 0; n < town.nodes; n++)
        if (n != 2)
            assert_true(town.houses[n].node.member.ended);
    tear_down(&town);
}

/* ---- rules ---- */

static void is_refused(const struct town *town, struct core_rules rules, const char *text)
{
    tri_error err = {0};
    assert_int_equal(node_check(town->layout, &rules, &err), TRI_EINPUT);
    if (strstr(err.text, text) == NULL)
        fail_msg("%s", err.text);
}

TEST(rules_that_do_not_go_together_are_refused)
{
    (void)state;
    struct town town;
    const tri_consistency_ops *ssp = consistency_find("ssp");
    build(&town, "sfb", 3, 1);
    assert_int_equal(node_check(town.layout, &(struct core_rules){0}, NULL), TRI_OK);
    is_refused(&town, (struct core_rules){.consistency = ssp, .bound = 2},
               "ssp does not go with layer 'l'");
    is_refused(&town, (struct core_rules){.deadline = 5}, "does not go with layer 'l'");
    is_refused(&town, (struct core_rules){.backup = 1}, "does not go with layer 'l'");
    tear_down(&town);
    build(&town, "ps", 3, 2);
    assert_int_equal(
        node_check(town.layout, &(struct core_rules){.consistency = ssp, .bound = 2}, NULL),
        TRI_OK);
    assert_int_equal(
        node_check(town.layout, &(struct core_rules){.deadline = 5, .backup = 2}, NULL), TRI_OK);
    is_refused(&town, (struct core_rules){.consistency = ssp, .bound = 2, .aggregate = true},
               "aggregate");
    is_refused(&town, (struct core_rules){.deadline = 5, .aggregate = true}, "aggregate");
    is_refused(&town, (struct core_rules){.deadline = 5, .replicated = true}, "replicated");
    is_refused(&town, (struct core_rules){.backup = 3}, "3 backup workers of 3");
    is_refused(&town, (struct core_rules){.consistency = ssp, .bound = 2, .deadline = 5},
               "stragglers");
    tear_down(&town);
}

TEST(a_node_that_gets_no_memory_leaves_none)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb"};
    for (size_t i = 0; i < 2; i++)
        for (uint32_t n = 0; n < 4; n += 3) { /* all roles but a server; a server */
            struct town town;
            struct fault fault = {0};
            build(&town, schemes[i], 3, 1);
            struct node_options options = {
                .layout = town.layout,
                .rules = {.reproducible = true, .backup = i == 0 ? 1 : 0},
                .times = {.heartbeat = HEARTBEAT},
                .number = n};
            FAULT_WALK(&fault)
            {
                struct node node;
                tri_status status = node_init(&node, &options, &fault.mem, NULL);
                assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
                if (status == TRI_OK)
                    node_fini(&node);
            }
            tear_down(&town);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_dies_leaves_the_view_and_the_others_go_on),
        cmocka_unit_test(silence_is_acted_on_within_three_heartbeats),
        cmocka_unit_test(a_pause_of_two_heartbeats_and_a_bit_changes_nothing),
        cmocka_unit_test(accusations_taken_back_in_time_change_nothing),
        cmocka_unit_test(the_most_accused_goes),
        cmocka_unit_test(a_node_cut_from_all_goes_and_not_the_others),
        cmocka_unit_test(a_node_cut_from_all_but_the_coordinator_goes_and_not_the_others),
        cmocka_unit_test(of_two_that_accuse_each_other_the_higher_number_goes),
        cmocka_unit_test(of_two_that_accuse_each_other_the_one_the_job_can_do_without_goes),
        cmocka_unit_test(who_was_never_heard_is_missed_from_the_start_on),
        cmocka_unit_test(all_that_die_at_once_leave_in_one_view),
        cmocka_unit_test(a_server_without_units_may_go),
        cmocka_unit_test(a_lost_server_ends_the_job_and_everybody_is_told_which),
        cmocka_unit_test(a_lost_coordinator_ends_the_job_for_each_member),
        cmocka_unit_test(before_the_start_a_lost_node_ends_the_job),
        cmocka_unit_test(who_was_evicted_is_told_when_it_speaks_again),
        cmocka_unit_test(who_is_evicted_and_can_hear_is_told_why),
        cmocka_unit_test(who_has_departed_is_heard_no_more),
        cmocka_unit_test(a_restarted_node_is_refused_and_its_old_self_evicted),
        cmocka_unit_test(a_restarted_server_ends_the_job),
        cmocka_unit_test(a_second_copy_of_hello_is_no_restart),
        cmocka_unit_test(why_a_node_fails_is_told_to_all),
        cmocka_unit_test(why_the_node_of_the_coordinator_fails_is_told_to_all),
        cmocka_unit_test(a_clock_closes_when_a_dead_rank_was_the_only_one_missing),
        cmocka_unit_test(the_whole_push_of_a_dead_rank_counts),
        cmocka_unit_test(half_a_push_of_a_dead_rank_does_not_count),
        cmocka_unit_test(factors_that_one_survivor_holds_count_for_all),
        cmocka_unit_test(factors_that_no_survivor_holds_count_for_none),
        cmocka_unit_test(nothing_that_one_survivor_holds_is_relayed_to_all),
        cmocka_unit_test(a_relayer_that_dies_before_it_relays_is_replaced),
        cmocka_unit_test(
            a_departed_node_that_is_no_rank_takes_nothing_from_the_ranks_that_departed_with_it),
        cmocka_unit_test(who_was_left_out_in_one_view_stays_out_in_the_next),
        cmocka_unit_test(reports_of_an_older_view_decide_nothing),
        cmocka_unit_test(the_job_ends_when_all_have_closed),
        cmocka_unit_test(the_end_does_not_wait_for_the_dead),
        cmocka_unit_test(rules_that_do_not_go_together_are_refused),
        cmocka_unit_test(a_node_that_gets_no_memory_leaves_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
