/* PMIx by dlopen(). */
#include "os/pmix.h"

#include <stdlib.h>

#if __has_include(<pmix.h>)
#include <dlfcn.h>
#include <pmix.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

static const char library_name[] = "libpmix.so.2";

/* What is called of the library, by the names it has there. */
struct calls {
    pmix_status_t (*init)(pmix_proc_t *proc, pmix_info_t info[], size_t count);
    pmix_status_t (*finalize)(const pmix_info_t info[], size_t count);
    pmix_status_t (*put)(pmix_scope_t scope, const char key[], pmix_value_t *value);
    pmix_status_t (*commit)(void);
    pmix_status_t (*fence)(const pmix_proc_t procs[], size_t procs_count, const pmix_info_t info[],
                           size_t count, pmix_op_cbfunc_t done, void *ctx);
    pmix_status_t (*get)(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                         size_t count, pmix_value_cbfunc_t done, void *ctx);
    const char *(*text)(pmix_status_t status);
};

struct pmix_room {
    void *library;
    struct calls call;
    pmix_proc_t self;
    uint32_t size, here;
    bool stuck; /* a wait was given up: the library may not be left */
};

/* ---- loading ---- */

/* C has no conversion from an object's address to a function's. */
static bool find_call(void *library, const char *name, void *call)
{
    void *found = dlsym(library, name);
    memcpy(call, (const void *)&found, sizeof found);
    return found != NULL;
}

static bool find_calls(void *library, struct calls *call)
{
    return find_call(library, "PMIx_Init", (void *)&call->init) &&
           find_call(library, "PMIx_Finalize", (void *)&call->finalize) &&
           find_call(library, "PMIx_Put", (void *)&call->put) &&
           find_call(library, "PMIx_Commit", (void *)&call->commit) &&
           find_call(library, "PMIx_Fence_nb", (void *)&call->fence) &&
           find_call(library, "PMIx_Get_nb", (void *)&call->get) &&
           find_call(library, "PMIx_Error_string", (void *)&call->text);
}

static tri_status load(struct pmix_room *room, tri_error *err)
{
    room->library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (room->library != NULL && find_calls(room->library, &room->call))
        return TRI_OK;
    const char *why = dlerror();
    fail(err, TRI_EIO, "the launcher offers PMIx, but its library cannot be used");
    fail_why(err, "%s", why != NULL ? why : "libpmix.so.2 is too old");
    return TRI_EIO;
}

static tri_status refuse(const struct pmix_room *room, const char *what, pmix_status_t status,
                         tri_error *err)
{
    fail(err, TRI_EIO, "%s failed", what);
    fail_why(err, "%s", room->call.text(status));
    return TRI_EIO;
}

/* ---- waiting, with a limit of our own ---- */

/* Shared with the library's thread, which may come when nobody waits any more: the last of the two
 * frees it. */
struct answer {
    pthread_mutex_t lock;
    pthread_cond_t come;
    bool there;
    pmix_status_t status;
    bool is_text;
    uint32_t number;
    char text[512];
    atomic_uint users;
};

static struct answer *answer_new(void)
{
    struct answer *answer = mem_array(&mem_libc, 1, sizeof *answer);
    pthread_condattr_t attributes;
    if (answer == NULL)
        return NULL;
    (void)pthread_mutex_init(&answer->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&answer->come, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    atomic_init(&answer->users, 2u);
    return answer;
}

static void answer_drop(struct answer *answer)
{
    if (atomic_fetch_sub_explicit(&answer->users, 1u, memory_order_acq_rel) != 1)
        return;
    (void)pthread_cond_destroy(&answer->come);
    (void)pthread_mutex_destroy(&answer->lock);
    mem_free(&mem_libc, answer);
}

static void answer_come(struct answer *answer, pmix_status_t status)
{
    (void)pthread_mutex_lock(&answer->lock);
    answer->status = status;
    answer->there = true;
    (void)pthread_cond_signal(&answer->come);
    (void)pthread_mutex_unlock(&answer->lock);
    answer_drop(answer);
}

static bool answer_wait(struct answer *answer, uint32_t timeout_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(timeout_ms / 1000);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    int late = 0;
    (void)pthread_mutex_lock(&answer->lock);
    while (!answer->there && late == 0)
        late = pthread_cond_timedwait(&answer->come, &answer->lock, &until);
    bool there = answer->there;
    (void)pthread_mutex_unlock(&answer->lock);
    return there;
}

static void on_fence(pmix_status_t status, void *ctx)
{
    answer_come(ctx, status);
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *ctx)
{
    struct answer *answer = ctx;
    if (status == PMIX_SUCCESS && value != NULL) {
        answer->is_text = value->type == PMIX_STRING && value->data.string != NULL;
        if (answer->is_text)
            (void)snprintf(answer->text, sizeof answer->text, "%s", value->data.string);
        else if (value->type == PMIX_UINT32)
            answer->number = value->data.uint32;
    }
    answer_come(answer, status);
}

/* A value, which the caller drops; NULL: there is none. Values of the job itself and those that a
 * fence has collected are on this machine, so the limit is short. */
static struct answer *ask(struct pmix_room *room, pmix_rank_t rank, const char *key, tri_error *err)
{
    enum { LIMIT_MS = 10000 };
    struct answer *answer = answer_new();
    if (answer == NULL) {
        fail_nomem(err, "an answer");
        return NULL;
    }
    pmix_proc_t proc = room->self;
    proc.rank = rank;
    pmix_status_t status = room->call.get(&proc, key, NULL, 0, on_value, answer);
    if (status != PMIX_SUCCESS) { /* it will not call */
        answer_drop(answer);
    } else if (!answer_wait(answer, LIMIT_MS)) {
        room->stuck = true;
        status = PMIX_ERR_TIMEOUT;
    } else {
        status = answer->status;
    }
    if (status == PMIX_SUCCESS)
        return answer;
    answer_drop(answer);
    refuse(room, "PMIx_Get", status, err);
    return NULL;
}

/* ---- the calls ---- */

static uint32_t ask_number(struct pmix_room *room, const char *key)
{
    struct answer *answer = ask(room, PMIX_RANK_WILDCARD, key, NULL);
    if (answer == NULL)
        return 0;
    uint32_t number = answer->number;
    answer_drop(answer);
    return number;
}

static tri_status enter(struct pmix_room *room, tri_error *err)
{
    pmix_status_t status = room->call.init(&room->self, NULL, 0);
    if (status != PMIX_SUCCESS)
        return refuse(room, "PMIx_Init", status, err);
    room->size = ask_number(room, PMIX_JOB_SIZE);
    room->here = ask_number(room, PMIX_LOCAL_SIZE);
    return TRI_OK;
}

tri_status pmix_room_open(struct pmix_room **out, tri_error *err)
{
    *out = NULL;
    if (getenv("PMIX_NAMESPACE") == NULL)
        return TRI_OK;
    struct pmix_room *room = mem_array(&mem_libc, 1, sizeof *room);
    if (room == NULL)
        return fail_nomem(err, "PMIx");
    tri_status status = load(room, err);
    if (status == TRI_OK)
        status = enter(room, err);
    if (status == TRI_OK)
        *out = room;
    else /* the library stays loaded: it may have started threads */
        mem_free(&mem_libc, room);
    return status;
}

uint32_t pmix_room_size(const struct pmix_room *room)
{
    return room->size;
}

uint32_t pmix_room_here(const struct pmix_room *room)
{
    return room->here;
}

tri_status pmix_room_put(struct pmix_room *room, const char *key, const char *text, tri_error *err)
{
    char copy[512];
    pmix_value_t value = {.type = PMIX_STRING, .data.string = copy};
    (void)snprintf(copy, sizeof copy, "%s", text);
    pmix_status_t status = room->call.put(PMIX_GLOBAL, key, &value);
    return status == PMIX_SUCCESS ? TRI_OK : refuse(room, "PMIx_Put", status, err);
}

tri_status pmix_room_wait(struct pmix_room *room, uint32_t timeout_ms, tri_error *err)
{
    bool yes = true;
    pmix_info_t collect = {.value = {.type = PMIX_BOOL, .data.flag = yes}};
    (void)snprintf(collect.key, sizeof collect.key, "%s", PMIX_COLLECT_DATA);
    pmix_proc_t all = room->self;
    all.rank = PMIX_RANK_WILDCARD;
    pmix_status_t status = room->call.commit();
    if (status != PMIX_SUCCESS)
        return refuse(room, "PMIx_Commit", status, err);
    struct answer *answer = answer_new();
    if (answer == NULL)
        return fail_nomem(err, "an answer");
    status = room->call.fence(&all, 1, &collect, 1, on_fence, answer);
    if (status == PMIX_SUCCESS && !answer_wait(answer, timeout_ms)) {
        room->stuck = true;
        answer_drop(answer);
        fail(err, TRI_ETIMEOUT, "not all processes of the job came to the meeting of PMIx");
        fail_next(err, "see which process has not started, or has ended early");
        return TRI_ETIMEOUT;
    }
    if (status == PMIX_SUCCESS)
        status = answer->status;
    else
        answer_drop(answer); /* for the library, which will not call */
    answer_drop(answer);
    return status == PMIX_SUCCESS ? TRI_OK : refuse(room, "PMIx_Fence", status, err);
}

tri_status pmix_room_get(struct pmix_room *room, uint32_t rank, const char *key, char *out,
                         size_t size, tri_error *err)
{
    struct answer *answer = ask(room, rank, key, err);
    if (answer == NULL)
        return TRI_EIO;
    bool fits = answer->is_text && strlen(answer->text) < size;
    if (fits)
        (void)snprintf(out, size, "%s", answer->text);
    answer_drop(answer);
    return fits ? TRI_OK : fail(err, TRI_EIO, "PMIx has no '%s' of rank %u", key, (unsigned)rank);
}

/* At the end of the process. */
static void leave(void)
{
    struct calls call;
    void *library = dlopen(library_name, RTLD_NOW | RTLD_NOLOAD);
    if (library != NULL && find_call(library, "PMIx_Finalize", (void *)&call.finalize))
        (void)call.finalize(NULL, 0);
}

/* The library counts who has entered it, so a program's MPI is left alone. But once the last has
 * left it cannot be entered again, and MPI_Init() may be yet to come. */
void pmix_room_close(struct pmix_room *room)
{
    if (room == NULL)
        return;
    if (!room->stuck && atexit(leave) != 0)
        (void)room->call.finalize(NULL, 0);
    mem_free(&mem_libc, room);
}

#else

tri_status pmix_room_open(struct pmix_room **out, tri_error *err)
{
    *out = NULL;
    if (getenv("PMIX_NAMESPACE") == NULL)
        return TRI_OK;
    fail(err, TRI_EIO, "the launcher offers PMIx, which is not built into this library");
    fail_why(err, "pmix.h was not there when it was compiled");
    return TRI_EIO;
}

uint32_t pmix_room_size(const struct pmix_room *room)
{
    (void)room;
    return 0;
}

uint32_t pmix_room_here(const struct pmix_room *room)
{
    (void)room;
    return 0;
}

static tri_status missing(tri_error *err)
{
    return fail(err, TRI_EIO, "PMIx is not built in");
}

tri_status pmix_room_put(struct pmix_room *room, const char *key, const char *text, tri_error *err)
{
    (void)room, (void)key, (void)text;
    return missing(err);
}

tri_status pmix_room_wait(struct pmix_room *room, uint32_t timeout_ms, tri_error *err)
{
    (void)room, (void)timeout_ms;
    return missing(err);
}

tri_status pmix_room_get(struct pmix_room *room, uint32_t rank, const char *key, char *out,
                         size_t size, tri_error *err)
{
    (void)room, (void)rank, (void)key, (void)out, (void)size;
    return missing(err);
}

void pmix_room_close(struct pmix_room *room)
{
    (void)room;
}

#endif
