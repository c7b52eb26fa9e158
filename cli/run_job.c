/* What the processes of a job are told: where to meet, and by which name and token. */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/run.h"
#include "os/random.h"

extern char **environ;

/* ---- the job ---- */

/* A socket that listens on a port of this machine. -1: taken. */
static int listen_on(bool everywhere, unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr =
                                      htonl(everywhere ? INADDR_ANY : INADDR_LOOPBACK)};
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0)
        return fd;
    int reason = errno;
    process_close(&fd);
    errno = reason;
    return -1;
}

/* Nothing holds the two ports from here until rank 0 takes them. So they are not of those that the
 * kernel gives to connections, which come and go all the time. */
tri_status run_pick_ports(bool everywhere, unsigned *port, tri_error *err)
{
    enum { LOWEST = 10240, PORTS = 20480, TRIES = 1000 }; /* connections begin at 32768 */
    for (int i = 0; i < TRIES; i++) {
        uint16_t draw = 0;
        tri_status status = random_bytes(&draw, sizeof draw, err);
        if (status != TRI_OK)
            return status;
        unsigned at = LOWEST + draw % PORTS;
        int first = listen_on(everywhere, at), second = listen_on(everywhere, at + 1);
        bool free = first >= 0 && second >= 0;
        process_close(&first);
        process_close(&second);
        if (free) {
            *port = at;
            return TRI_OK;
        }
    }
    return fail(err, TRI_EIO, "cannot find two free ports in a row on this machine");
}

static tri_status make_token(char *token, tri_error *err)
{
    unsigned char bytes[RUN_TOKEN_BYTES];
    tri_status status = random_bytes(bytes, sizeof bytes, err);
    if (status != TRI_OK)
        return status;
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return TRI_OK;
}

/* The program's base name, of harmless characters, and our pid. */
static void make_name(const char *program, char *name, size_t size)
{
    const char *slash = strrchr(program, '/');
    (void)snprintf(name, size, "%.40s-%ld", slash != NULL ? slash + 1 : program, (long)getpid());
    for (char *c = name; *c != '\0'; c++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *c) == NULL)
            *c = '_';
}

static unsigned cores(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (unsigned)count : 1;
}

unsigned run_threads(size_t workers)
{
    unsigned share = workers > 0 ? cores() / (unsigned)workers : 1;
    return share > 0 ? share : 1;
}

tri_status run_job_init(struct run_job *job, const struct run_request *request, tri_error *err)
{
    job->threads = run_threads(run_workers(request));
    make_name(request->program[0], job->name, sizeof job->name);
    (void)snprintf(job->address, sizeof job->address, "127.0.0.1");
    tri_status status = make_token(job->token, err);
    if (status == TRI_OK && request->settings.hosts == NULL)
        status = run_pick_ports(false, &job->port, err);
    return status;
}

/* ---- environments ---- */

static void add(struct run_environment *environment, const char *entry)
{
    buf_add(&environment->text, entry, strlen(entry) + 1);
}

__attribute__((format(printf, 3, 4))) static void set(struct run_environment *environment,
                                                      const char *name, const char *format, ...)
{
    char value[RUN_ADDRESS + 32];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(value, sizeof value, format, args);
    va_end(args);
    buf_format(&environment->text, "%s=%s", name, value);
    buf_char(&environment->text, '\0');
}

static bool is_there(const char *name)
{
    size_t len = strlen(name);
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=')
            return true;
    return false;
}

static void set_unless_there(struct run_environment *environment, const char *name, unsigned value)
{
    if (!is_there(name))
        set(environment, name, "%u", value);
}

static void add_worker(const struct run_request *request, const struct run_job *job, size_t i,
                       struct run_environment *environment)
{
    size_t workers = run_workers(request), local = i, here = workers;
    const struct run_part *part = request->part;
    if (part != NULL) {
        here = part->workers;
        for (local = 0; local < here && part->process[local] != i;)
            local++;
    }
    set(environment, "RANK", "%zu", i);
    set(environment, "WORLD_SIZE", "%zu", workers);
    set(environment, "LOCAL_RANK", "%zu", local);
    set(environment, "LOCAL_WORLD_SIZE", "%zu", here);
    set(environment, "TRIDENT_RANK", "%zu", i);
    add(environment, "TRIDENT_NODE");
    set_unless_there(environment, "OMP_NUM_THREADS", job->threads);
    set_unless_there(environment, "OPENBLAS_NUM_THREADS", job->threads);
}

/* A server has a node and no rank; one of an outer job must not be taken for its own. */
static void add_server(size_t i, struct run_environment *environment)
{
    static const char *const not_its[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                          "TRIDENT_RANK"};
    for (size_t k = 0; k < sizeof not_its / sizeof not_its[0]; k++)
        add(environment, not_its[k]);
    set(environment, "TRIDENT_NODE", "%zu", i);
}

static void add_job(const struct run_request *request, const struct run_job *job,
                    struct run_environment *environment)
{
    const struct run_settings *settings = &request->settings;
    bool ipv6 = strchr(job->address, ':') != NULL;
    set(environment, "MASTER_ADDR", "%s", job->address);
    set(environment, "MASTER_PORT", "%u", job->port);
    set(environment, "TRIDENT_PORT", "%u", job->port + 1);
    set(environment, "TRIDENT_COORDINATOR", "%s%s%s:%u", ipv6 ? "[" : "", job->address,
        ipv6 ? "]" : "", job->port + 1);
    /* A program without a log of its own has the launcher's: warnings are for people. */
    if (request->hooks == NULL && !is_there("TRIDENT_LOG") && !is_there("TRIDENT_CONFIG"))
        set(environment, "TRIDENT_LOG", "warn");
    set(environment, "TRIDENT_JOB", "%s", job->name);
    set(environment, "TRIDENT_TOKEN", "%s", job->token);
    if (job->ended[0] != '\0')
        set(environment, "TRIDENT_ENDED", "%s", job->ended);
    else
        add(environment, "TRIDENT_ENDED"); /* that of an outer job is none of its */
    set(environment, "TRIDENT_WORKERS", "%zu", run_workers(request));
    if (run_servers(request) > 0)
        set(environment, "TRIDENT_SERVERS", "%zu", run_servers(request));
    else if (settings->servers != 0)
        set(environment, "TRIDENT_SERVERS", "%llu", (unsigned long long)settings->servers);
    if (settings->colocate != RUN_NOT_GIVEN)
        set(environment, "TRIDENT_COLOCATE", "%s", settings->colocate == 0 ? "yes" : "no");
    if (settings->on_failure != RUN_NOT_GIVEN)
        set(environment, "TRIDENT_ON_FAILURE", "%s",
            settings->on_failure == RUN_STOP ? "stop" : "continue");
}

static const char *next_entry(const char *entry)
{
    return entry + strlen(entry) + 1;
}

/* Does this entry hold: a value, and none behind it with the same name? */
static bool holds(const char *entry, const char *end)
{
    size_t name = strcspn(entry, "=");
    if (entry[name] == '\0')
        return false;
    for (const char *later = next_entry(entry); later < end; later = next_entry(later))
        if (strcspn(later, "=") == name && memcmp(later, entry, name) == 0)
            return false;
    return true;
}

static tri_status list_entries(struct run_environment *environment, tri_error *err)
{
    if (!buf_ok(&environment->text))
        return fail_nomem(err, "an environment");
    char *end = environment->text.data + environment->text.len;
    size_t count = 0;
    for (const char *entry = environment->text.data; entry < end; entry = next_entry(entry))
        count++;
    environment->list = mem_array(environment->mem, count + 1, sizeof *environment->list);
    if (environment->list == NULL)
        return fail_nomem(err, "an environment");
    count = 0;
    for (char *entry = environment->text.data; entry < end; entry += strlen(entry) + 1)
        if (holds(entry, end))
            environment->list[count++] = entry;
    return TRI_OK;
}

void run_environment_init(struct run_environment *environment, const struct mem *mem)
{
    *environment = (struct run_environment){.mem = mem};
    buf_init(&environment->text, mem);
}

void run_environment_fini(struct run_environment *environment)
{
    mem_free(environment->mem, environment->list);
    buf_fini(&environment->text);
}

tri_status run_environment_of(const struct run_request *request, const struct run_job *job,
                              size_t i, struct run_environment *environment, tri_error *err)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        add(environment, *entry);
    for (size_t k = 0; k < request->inherited_count; k++)
        add(environment, request->inherited[k]);
    add_job(request, job, environment);
    if (i < run_workers(request))
        add_worker(request, job, i, environment);
    else
        add_server(i, environment);
    for (size_t k = 0; k < request->variable_count; k++)
        add(environment, request->variables[k]);
    return list_entries(environment, err);
}
