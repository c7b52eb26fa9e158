/* Operations: noted under the lock, done without it. */
#include <string.h>

#include "run/inside.h"

static struct op_list *list_of(struct host *host, enum core_role role)
{
    return &host->ops[role == CORE_SERVER];
}

static void *copy_beside(void *ctx);

/* Copies for checkpoints have a thread to themselves: those that move bytes and those that wait
 * for a layer have better things to do. Without one they are operations like others. */
static bool has_copier(struct host *host)
{
    if (!host->has_copier)
        host->has_copier = pthread_create(&host->copier, NULL, copy_beside, host) == 0;
    return host->has_copier;
}

void work_add(struct host *host, const struct core_op *op)
{
    struct op_entry *entry = host->free_ops;
    if (entry != NULL)
        host->free_ops = entry->next;
    else
        entry = mem_array(host->mem, 1, sizeof *entry);
    if (entry == NULL) {
        host_fail(host, TRI_ENOMEM, "out of memory for an operation");
        return;
    }
    *entry = (struct op_entry){.op = *op};
    bool copy = op->kind == CORE_OP_COPY && has_copier(host);
    struct op_list *list = copy ? &host->copies : list_of(host, op->role);
    if (list->last != NULL)
        list->last->next = entry;
    else
        list->first = entry;
    list->last = entry;
    if (copy) {
        pthread_cond_signal(&host->to_copy);
        return;
    }
    if (host->helper_count > 0)
        pthread_cond_signal(&host->work);
    else if (op->role == CORE_SERVER)
        host_wake(host);
    if (op->role == CORE_WORKER) /* somebody in host_sync() may do it */
        pthread_cond_broadcast(&host->changed);
}

static struct op_entry *take(struct op_list *list)
{
    struct op_entry *entry = list->first;
    if (entry == NULL)
        return NULL;
    list->first = entry->next;
    if (list->first == NULL)
        list->last = NULL;
    return entry;
}

static void note(struct host *host, const struct core_op *op)
{
    if (op->kind == CORE_OP_COPY)
        return;
    if (op->role == CORE_SERVER)
        store_server_note(&host->server, &host->core.server, op);
    else
        store_worker_note(&host->worker, &host->core.worker, op);
}

static void perform(struct host *host, const struct core_op *op, void *scratch)
{
    if (op->kind == CORE_OP_COPY)
        state_copy(host, op);
    else if (op->role == CORE_SERVER)
        store_server_do(&host->server, op, scratch);
    else
        store_worker_do(&host->worker, op, scratch);
}

static bool work_off(struct host *host, struct op_entry *entry, void *scratch)
{
    if (entry == NULL)
        return false;
    struct core_op op = entry->op;
    entry->next = host->free_ops;
    host->free_ops = entry;
    note(host, &op);
    pthread_mutex_unlock(&host->lock);
    perform(host, &op, scratch);
    pthread_mutex_lock(&host->lock);
    event_done(host, &op);
    return true;
}

bool work_one(struct host *host, enum core_role role, void *scratch)
{
    struct op_entry *entry = NULL;
    if (role != CORE_SERVER)
        entry = take(list_of(host, CORE_WORKER));
    if (entry == NULL && role != CORE_WORKER)
        entry = take(list_of(host, CORE_SERVER));
    return work_off(host, entry, scratch);
}

/* ---- callers that help ---- */

static void *lend(struct host *host, size_t *which)
{
    for (size_t i = 0; i < HOST_SCRATCHES; i++) {
        if (host->scratch_used[i])
            continue;
        if (host->scratches[i] == NULL)
            host->scratches[i] =
                mem_array(host->mem, 1, store_scratch_bytes(host->agreement->layout));
        if (host->scratches[i] == NULL)
            return NULL;
        host->scratch_used[i] = true;
        *which = i;
        return host->scratches[i];
    }
    return NULL;
}

bool work_help(struct host *host)
{
    bool any = host->ops[0].first != NULL || (host->helper_count > 0 && host->ops[1].first != NULL);
    size_t which = 0;
    void *scratch = any ? lend(host, &which) : NULL;
    if (scratch == NULL)
        return false;
    bool done = work_one(host, host->helper_count > 0 ? CORE_NOBODY : CORE_WORKER, scratch);
    host->scratch_used[which] = false;
    return done;
}

/* ---- threads for nothing else ---- */

static void *help(void *ctx)
{
    struct host *host = ctx;
    pthread_mutex_lock(&host->lock);
    void *scratch = mem_array(host->mem, 1, store_scratch_bytes(host->agreement->layout));
    if (scratch == NULL)
        host_fail(host, TRI_ENOMEM, "out of memory for a helper");
    while (!host->quit && scratch != NULL)
        if (!work_one(host, CORE_NOBODY, scratch))
            pthread_cond_wait(&host->work, &host->lock);
    pthread_mutex_unlock(&host->lock);
    mem_free(host->mem, scratch);
    return NULL;
}

static void *copy_beside(void *ctx)
{
    struct host *host = ctx;
    pthread_mutex_lock(&host->lock);
    while (!host->quit)
        if (!work_off(host, take(&host->copies), NULL))
            pthread_cond_wait(&host->to_copy, &host->lock);
    pthread_mutex_unlock(&host->lock);
    return NULL;
}

tri_status work_start(struct host *host, tri_error *err)
{
    host->helpers = mem_array(host->mem, host->options.helpers, sizeof *host->helpers);
    if (host->helpers == NULL && host->options.helpers > 0)
        return fail_nomem(err, "the helpers");
    while (host->helper_count < host->options.helpers) {
        if (pthread_create(&host->helpers[host->helper_count], NULL, help, host) != 0)
            break; /* with fewer it is slower, no more */
        host->helper_count++;
    }
    return TRI_OK;
}

static void free_list(const struct host *host, struct op_entry *entry)
{
    while (entry != NULL) {
        struct op_entry *next = entry->next;
        mem_free(host->mem, entry);
        entry = next;
    }
}

void work_stop(struct host *host)
{
    pthread_mutex_lock(&host->lock);
    pthread_cond_broadcast(&host->work);
    pthread_cond_broadcast(&host->to_copy);
    pthread_mutex_unlock(&host->lock);
    if (host->has_copier)
        (void)pthread_join(host->copier, NULL);
    for (uint32_t i = 0; i < host->helper_count; i++)
        (void)pthread_join(host->helpers[i], NULL);
    free_list(host, host->ops[0].first);
    free_list(host, host->ops[1].first);
    free_list(host, host->copies.first);
    free_list(host, host->free_ops);
    for (size_t i = 0; i < HOST_SCRATCHES; i++)
        mem_free(host->mem, host->scratches[i]);
    mem_free(host->mem, host->helpers);
}
