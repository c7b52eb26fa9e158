/* Deaths on purpose, for tests of whole programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "local/inside.h"

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

/* Steps that only some jobs have. */
static tri_status check_step(const struct local_job *job, const char *item, enum local_step at,
                             tri_error *err)
{
    const struct head *head = job->head;
    if ((at == LOCAL_AT_READING || at == LOCAL_AT_WRITING) && !head->locked)
        return refuse_never(item, "nothing is locked in this job", err);
    if (at == LOCAL_AT_ROUND && head->mode != LOCAL_SYNC)
        return refuse_never(item, "only local = sync has rounds", err);
    if (at == LOCAL_AT_SET && head->mode != LOCAL_REPLICAS)
        return refuse_never(item, "only local = replicas has sets", err);
    return TRI_OK;
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
    return check_step(job, item, at, err);
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
