/* Counting. */
#include <string.h>

#include "local/inside.h"
#include "os/clock.h"

static void count_seat(const struct local_job *job, const struct seat *seat,
                       struct local_counts *out)
{
    const bool direct = job->head->mode == LOCAL_DIRECT, queues = has_server(job);
    uint64_t carried = load(&seat->carried), begun = load(&seat->begun), head = load(&seat->head);
    uint64_t open = load32(&seat->holding) != 0 && begun > head ? 1 : 0;
    uint64_t missing = begun > head ? begun - head - open : 0;
    *out = (struct local_counts){.begun = carried + begun,
                                 .pushed = carried + head,
                                 .applied = seat_applied(job, seat),
                                 .waiting = queues ? head - tail_of(seat) : 0,
                                 .lost = direct ? 0 : missing,
                                 .partial = direct ? missing : 0,
                                 .torn = torn_of(seat),
                                 .discarded = load(&seat->discarded),
                                 .pulls = load(&seat->pulls),
                                 .pulls_skipped = load(&seat->pulls_skipped),
                                 .stale_sum = load(&seat->stale_sum),
                                 .stale_max = load(&seat->stale_max)};
    for (int i = 0; i < LOCAL_STALE; i++)
        out->stale[i] = load(&seat->stale[i]);
}

static void add(struct local_counts *sum, const struct local_counts *one)
{
    sum->begun += one->begun;
    sum->pushed += one->pushed;
    sum->applied += one->applied;
    sum->waiting += one->waiting;
    sum->lost += one->lost;
    sum->torn += one->torn;
    sum->discarded += one->discarded;
    sum->partial += one->partial;
    sum->pulls += one->pulls;
    sum->pulls_skipped += one->pulls_skipped;
    sum->stale_sum += one->stale_sum;
    if (one->stale_max > sum->stale_max)
        sum->stale_max = one->stale_max;
    for (int i = 0; i < LOCAL_STALE; i++)
        sum->stale[i] += one->stale[i];
}

void local_seat_stats(const struct local_job *job, uint32_t number, struct local_seat_stats *out)
{
    const struct seat *seat = &job->seats[number];
    struct sitter sitter = seat_sitter(seat);
    uint64_t now = clock_us(), last = load(&seat->progress_us);
    memset(out, 0, sizeof *out);
    out->state = (enum local_seat_state)sitter.state;
    out->alive = sitter.alive;
    out->pid = sitter.who.pid;
    out->joins = sitter.joins;
    out->clock = load(&seat->clock);
    out->idle_us = now > last ? now - last : 0;
    count_seat(job, seat, &out->counts);
}

void local_stats(const struct local_job *job, struct local_stats *out)
{
    const struct head *head = job->head;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < head->learners; i++) {
        struct local_seat_stats seat;
        local_seat_stats(job, i, &seat);
        out->taken += seat.state == LOCAL_SEAT_TAKEN;
        out->alive += seat.alive;
        out->left += seat.state == LOCAL_SEAT_LEFT;
        out->dead +=
            seat.state == LOCAL_SEAT_DEAD || (seat.state == LOCAL_SEAT_TAKEN && !seat.alive);
        add(&out->counts, &seat.counts);
    }
    out->version = has_replicas(job) ? version_by_counts(job) : load(&head->version);
    out->round = load(&head->round);
    /* The count first: a server that is in it has written down who it is. The other way round one
     * that sits down in between looks as if it had come and died. */
    out->server_starts = load32(&head->server_starts);
    struct alive_id server = load_id(&head->server);
    out->server_alive = alive_is(&server);
    out->server_pid = server.pid;
    out->locks_taken_up = load(&head->locks_taken_up);
}
