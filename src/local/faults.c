/* Deaths on purpose, for tests of whole programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "local/sets.h"

enum { ITEM = 64 };

static tri_status refuse(const char *item, tri_error *err)
{
    char steps[200] = "steps are";
    for (int i = LOCAL_AT_NOTHING + 1; i < LOCAL_STEPS; i++) {
        size_t used = strlen(steps);
        (void)snprintf(steps + used, sizeof steps - used, "%s %s",
                       i > LOCAL_AT_NOTHING + 1 ? "," : "", local_step_name((enum local_step)i));
    }
    fail(err, TRI_EINPUT, "'%.60s' is no death of a local job", item);
    fail_where(err, "TRIDENT_LOCAL_FAULT");
    fail_why(err, "%s", steps);
    fail_next(err, "say who, where and at which time: 1:marked:3, or with a server 1:taken:3 or "
                   "server:marked:2");
    return TRI_EINPUT;
}

/* One that waits for what never comes would pass for one that was survived. */
static tri_status refuse_never(const char *item, const char *why, tri_error *err)
{
    refuse(item, err);
    fail_why(err, "%s", why);
    return TRI_EINPUT;
}

static bool read_number(const char *text, uint32_t *out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    *out = (uint32_t)value;
    return *text >= '0' && *text <= '9' && *end == '\0' && value < LOCAL_ANY;
}

static bool find_step(const char *name, enum local_step *out)
{
    for (int i = LOCAL_AT_NOTHING + 1; i < LOCAL_STEPS; i++)
        if (strcmp(name, local_step_name((enum local_step)i)) == 0) {
            *out = (enum local_step)i;
            return true;
        }
    return false;
}

/* "1:taken:3"; item is changed. */
static bool read_item(char *item, uint32_t *who, struct local_faults *out)
{
    char *step = strchr(item, ':');
    char *times = step != NULL ? strchr(step + 1, ':') : NULL;
    if (times == NULL)
        return false;
    *step++ = *times++ = '\0';
    *who = LOCAL_ANY;
    if (!find_step(step, &out->at) || !read_number(times, &out->nth) || out->nth == 0)
        return false;
    out->nth--;
    return strcmp(item, "server") == 0 || read_number(item, who);
}

/* ---- who comes where ---- */

#define AT(step) (1U << LOCAL_AT_##step)
#define PUSH     (AT(TAKEN) | AT(HALF_FULL) | AT(PUBLISHED))
#define STEP     (AT(MARKED) | AT(HALF_STEP) | AT(STEPPED))
#define LOCKS    (AT(READING) | AT(WRITING))

static const uint32_t learner_steps[LOCAL_MODES] = {
    [LOCAL_SERVER] = PUSH | AT(PULL) | AT(READING) | AT(SEATS),
    [LOCAL_DIRECT] = STEP | AT(PULL) | LOCKS | AT(SEATS),
    [LOCAL_SYNC] = PUSH | AT(SEATS),
    [LOCAL_REPLICAS] =
        PUSH | AT(HALF_STEP) | AT(STEPPED) | AT(COMMITTED) | AT(SEATS) | AT(HELD) | AT(SET)};
static const uint32_t server_steps[LOCAL_MODES] = {
    [LOCAL_SERVER] = STEP | AT(COMMITTED) | AT(WRITING) | AT(SEATS),
    [LOCAL_SYNC] = STEP | AT(ROUND) | AT(WRITING) | AT(SEATS)};

/* The process of learner 0 may have the server in it, and may copy the weights: where no launcher
 * has a server and a watchdog for them. */
static uint32_t steps_of(const struct local_job *job, uint32_t who)
{
    const uint32_t mode = job->head->mode;
    uint32_t steps = who == LOCAL_ANY ? server_steps[mode] : learner_steps[mode];
    if (who == 0 && has_server(job))
        steps |= server_steps[mode] | AT(HELD);
    if (!job->head->locked)
        steps &= ~LOCKS;
    return has_sets(job) ? steps : steps & ~AT(SET);
}

static tri_status refuse_step(const struct local_job *job, const char *item, uint32_t who,
                              tri_error *err)
{
    char why[240];
    int used = snprintf(why, sizeof why, "in local = %s %s comes only to",
                        local_mode_name((enum local_mode)job->head->mode),
                        who == LOCAL_ANY ? "the server" : "a learner");
    const char *between = " ";
    for (int i = LOCAL_AT_NOTHING + 1; i < LOCAL_STEPS; i++) {
        if ((steps_of(job, who) & 1U << i) == 0 || used < 0 || (size_t)used >= sizeof why)
            continue;
        used += snprintf(why + used, sizeof why - (size_t)used, "%s%s", between,
                         local_step_name((enum local_step)i));
        between = ", ";
    }
    return refuse_never(item, why, err);
}

/* Steps that only some jobs have, or that are another's. */
static tri_status check_step(const struct local_job *job, const char *item, uint32_t who,
                             enum local_step at, tri_error *err)
{
    const struct head *head = job->head;
    if ((at == LOCAL_AT_READING || at == LOCAL_AT_WRITING) && !head->locked)
        return refuse_never(item, "nothing is locked in this job", err);
    if (at == LOCAL_AT_ROUND && head->mode != LOCAL_SYNC)
        return refuse_never(item, "only local = sync has rounds", err);
    if (at == LOCAL_AT_SET && head->mode != LOCAL_REPLICAS)
        return refuse_never(item, "only local = replicas has sets", err);
    if (at == LOCAL_AT_SET && !has_sets(job))
        return refuse_never(item, "no layer lies there once for all learners in this job", err);
    return (steps_of(job, who) & 1U << at) != 0 ? TRI_OK : refuse_step(job, item, who, err);
}

static tri_status check_item(const struct local_job *job, const char *item, uint32_t who,
                             enum local_step at, tri_error *err)
{
    const struct head *head = job->head;
    char why[80];
    if (who == LOCAL_ANY && (head->mode == LOCAL_DIRECT || head->mode == LOCAL_REPLICAS))
        return refuse_never(item, "this job has no server", err);
    if (who != LOCAL_ANY && who >= head->learners) {
        (void)snprintf(why, sizeof why, "there is no learner %u: this job has %u, from 0 on",
                       (unsigned)who, (unsigned)head->learners);
        return refuse_never(item, why, err);
    }
    return check_step(job, item, who, at, err);
}

static void die(void *ctx, enum local_step at)
{
    struct alive_id self = alive_self();
    (void)ctx, (void)at;
    (void)alive_kill(&self);
}

/* Who is started again is not to die again, also if it died while it sat down. */
static bool is_first_life(const struct local_job *job, uint32_t who)
{
    if (who == LOCAL_ANY)
        return load32(&job->head->server_starts) == 0 && load(&job->head->server.pid) == 0;
    return who < job->head->learners && load(&job->seats[who].who.pid) == 0;
}

tri_status local_faults_arm(struct local_job *job, uint32_t who, const char *text,
                            struct local_faults *faults, tri_error *err)
{
    while (text != NULL && *text != '\0') {
        char item[ITEM];
        size_t len = strcspn(text, ",");
        struct local_faults read = {.hit = die};
        uint32_t whose;
        (void)snprintf(item, sizeof item, "%.*s", (int)(len < ITEM ? len : ITEM - 1), text);
        if (len >= ITEM || !read_item(item, &whose, &read))
            return refuse(text, err);
        tri_status status = check_item(job, text, whose, read.at, err);
        if (status != TRI_OK)
            return status;
        if (whose == who && is_first_life(job, who)) {
            *faults = read;
            local_set_faults(job, faults);
        }
        text += len + (text[len] == ',');
    }
    return TRI_OK;
}
