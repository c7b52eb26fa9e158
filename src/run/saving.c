/* When a node makes checkpoints: what node 0 asks for, and whom it waits for meanwhile. */
#include "run/inside.h"

void host_set_save(struct host *host, struct save *save)
{
    pthread_mutex_lock(&host->lock);
    host->save = save;
    pthread_mutex_unlock(&host->lock);
}

void host_want_save(struct host *host, uint64_t clock)
{
    pthread_mutex_lock(&host->lock);
    if (host->save != NULL)
        save_want(host->save, clock);
    pthread_mutex_unlock(&host->lock);
}

bool saving_is_over(const struct host *host)
{
    return host->save == NULL || !save_waits(host->save);
}

/* Asked some clocks ahead, so that all owners hear of it in time. */
enum { SAVE_LEAD = 4 };

/* Of a clock that this worker has not ended, the parts need it to go on. */
static bool has_gathered(const struct host *host)
{
    return !save_gathers(host->save) || host->core.coordinator.save.clock > host->core.worker.clock;
}

static bool has_agreed(const struct host *host)
{
    return coordinator_agreed(&host->core.coordinator);
}

void saving_ask(struct host *host)
{
    if (host->save == NULL)
        return;
    save_keep(host->save, host->core.worker.clock);
    bool wanted = false;
    if (save_presses(host->save, host->core.worker.clock, SAVE_LEAD, &wanted)) {
        (void)host_wait_until(host, has_gathered, host->options.timeout_ms);
        pthread_mutex_unlock(&host->lock);
        save_wait_written(host->save);
        pthread_mutex_lock(&host->lock);
    }
    uint64_t at = save_due(host->save, host->core.worker.clock, SAVE_LEAD);
    if (at > 0)
        event_mark(host, at);
    /* Under bsp nobody gets past a clock without this worker: so nobody refuses. */
    if (at > 0 && wanted)
        (void)host_wait_until(host, has_agreed, host->options.timeout_ms / 8);
}
