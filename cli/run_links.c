/* A job on several hosts: a deputy on each, started by ssh, that starts its processes there. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/run_hosts.h"
#include "cli/run_part.h"
#include "cli/run_ssh.h"
#include "cli/run_watch.h"
#include "os/interfaces.h"

extern char **environ;

enum link_state { LINK_CALLS, LINK_THERE, LINK_HAS_PORTS, LINK_READY, LINK_RUNS, LINK_OVER };

struct run_link {
    const struct run_host *host;
    bool by_ssh;
    enum link_state state;
    struct run_part part;
    struct process process; /* ssh, or the deputy itself */
    int in;                 /* of the deputy */
    struct buf out;         /* what it has yet to be told */
    size_t out_at;
    struct run_frames frames;
    struct run_lines words; /* of ssh */
    char prefix[RUN_HOST_NAME + 8];
    char there[64], here[64]; /* its address and ours, as ssh has them; "" if it does not say */
    bool differs;             /* it is of another version: */
    char version[32];
    tri_error error; /* why it refused */
};

struct run_links {
    const struct run_hosts *hosts;
    size_t *places; /* of every process, in hosts */
    struct run_link *at;
    size_t count;
    unsigned port;            /* as the first of them has found it */
    char picked[RUN_ADDRESS]; /* its address, if it was told how to pick one */
    struct run_sink quiet;    /* words of ssh before anything runs: they are in the error */
};

const char *run_link_host(const struct run_link *link)
{
    return link->host->name;
}

const char *run_link_words(struct run_link *link)
{
    return run_lines_last(&link->words);
}

/* ---- telling a deputy ---- */

static void flush_link(struct run_link *link)
{
    while (link->in >= 0 && link->out_at < link->out.len) {
        ssize_t put = write(link->in, link->out.data + link->out_at, link->out.len - link->out_at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            return;
        if (put < 0) { /* it is gone; its output says so, too */
            process_close(&link->in);
            return;
        }
        link->out_at += (size_t)put;
    }
    buf_clear(&link->out);
    link->out_at = 0;
}

static void check_memory(struct run_link *link, const struct buf *words)
{
    if (!buf_ok(words) && link->error.status == TRI_OK)
        (void)fail_nomem(&link->error, "the words of a host");
}

static void tell(struct run_link *link, enum run_frame_kind kind, const void *body, size_t len)
{
    run_frame_add(&link->out, kind, 0, body, len);
    check_memory(link, &link->out);
    flush_link(link);
}

void run_links_signal(struct run_watch *watch, int number)
{
    struct buf body;
    buf_init(&body, watch->cli->mem);
    run_frame_put_number(&body, (uint32_t)number);
    for (size_t i = 0; i < watch->links->count; i++)
        if (watch->links->at[i].state == LINK_RUNS)
            tell(&watch->links->at[i], RUN_FRAME_SIGNAL, buf_string(&body), body.len);
    buf_fini(&body);
}

void run_links_tell_ended(struct run_watch *watch, const char *line, size_t len)
{
    for (size_t i = 0; i < watch->links->count; i++)
        if (watch->links->at[i].state == LINK_RUNS)
            tell(&watch->links->at[i], RUN_FRAME_NEWS, line, len);
}

/* ---- hearing of it ---- */

/* NULL: it has no such process. */
static struct run_child *child_of(struct run_watch *watch, const struct run_link *link,
                                  uint32_t process)
{
    if (process >= watch->count || watch->children[process].link != link)
        return NULL;
    return &watch->children[process];
}

static void hear_hello(struct run_link *link, const struct run_frame *frame)
{
    size_t at = 0;
    const char *version = run_frame_text(frame, &at);
    link->differs = strcmp(version, tri_version()) != 0;
    (void)snprintf(link->version, sizeof link->version, "%s", version);
    (void)snprintf(link->there, sizeof link->there, "%s", run_frame_text(frame, &at));
    (void)snprintf(link->here, sizeof link->here, "%s", run_frame_text(frame, &at));
    link->state = LINK_THERE;
}

static void hear_ports(struct run_links *links, struct run_link *link,
                       const struct run_frame *frame)
{
    size_t at = 0;
    uint64_t port = 0;
    (void)units_count(run_frame_text(frame, &at), &port);
    links->port = port < 65535 ? (unsigned)port : 0;
    (void)snprintf(links->picked, sizeof links->picked, "%s", run_frame_text(frame, &at));
    link->state = LINK_HAS_PORTS;
}

static void hear_refusal(struct run_watch *watch, struct run_link *link,
                         const struct run_frame *frame)
{
    size_t at = 4;
    tri_error *error = &link->error;
    int status = (int)run_frame_number(frame, 0);
    fail(error, status < 0 ? (tri_status)status : TRI_EIO, "%s", run_frame_text(frame, &at));
    const char *where = run_frame_text(frame, &at);
    fail_where(error, "host %.120s%s%.60s", link->host->name, where[0] != '\0' ? ", " : "", where);
    fail_why(error, "%s", run_frame_text(frame, &at));
    fail_next(error, "%s", run_frame_text(frame, &at));
    if (link->state != LINK_RUNS)
        return;
    if (watch->refused.status == TRI_OK)
        watch->refused = *error;
    run_kill(watch);
}

static void hear_process(struct run_watch *watch, struct run_link *link,
                         const struct run_frame *frame)
{
    struct run_child *child = child_of(watch, link, frame->process);
    if (child == NULL || child->ended)
        return;
    if (frame->kind == RUN_FRAME_STARTED)
        child->pid = (pid_t)run_frame_number(frame, 0);
    else if (frame->kind == RUN_FRAME_OUT)
        run_lines_add(&child->out, frame->body, frame->len, &watch->out);
    else if (frame->kind == RUN_FRAME_ERR)
        run_lines_add(&child->err, frame->body, frame->len, &watch->err);
    else if (frame->kind == RUN_FRAME_ENDED)
        run_note_end(watch, child,
                     (struct process_end){.code = (int)run_frame_number(frame, 0),
                                          .signal = (int)run_frame_number(frame, 4)});
}

static void hear(struct run_watch *watch, struct run_link *link, const struct run_frame *frame)
{
    if (frame->kind == RUN_FRAME_FAILED)
        hear_refusal(watch, link, frame);
    else if (frame->kind == RUN_FRAME_HELLO && link->state == LINK_CALLS)
        hear_hello(link, frame);
    else if (frame->kind == RUN_FRAME_PORTS && link->state == LINK_THERE)
        hear_ports(watch->links, link, frame);
    else if (frame->kind == RUN_FRAME_READY && link->state < LINK_READY)
        link->state = LINK_READY;
    else if (link->state == LINK_RUNS)
        hear_process(watch, link, frame);
}

/* Nothing more comes from it: what it has not told the end of is lost. */
static void end_link(struct run_watch *watch, struct run_link *link)
{
    for (size_t i = 0; i < link->part.count && link->state == LINK_RUNS; i++) {
        struct run_child *child = &watch->children[link->part.process[i]];
        if (child->ended)
            continue;
        child->lost = true;
        run_note_end(watch, child, (struct process_end){.code = 255});
    }
    link->state = LINK_OVER;
    process_close(&link->in);
}

static void read_frames(struct run_watch *watch, struct run_link *link)
{
    static const size_t room = 1 << 16;
    struct run_frame frame;
    enum run_frames_result result;
    char bytes[1 << 16];
    ssize_t got = read(link->process.out, bytes, room);
    if (got > 0)
        buf_add(&link->frames.bytes, bytes, (size_t)got);
    while ((result = run_frames_next(&link->frames, &frame)) == RUN_FRAMES_GOT)
        hear(watch, link, &frame);
    bool waits = got < 0 && (errno == EAGAIN || errno == EINTR);
    check_memory(link, &link->frames.bytes);
    if ((got <= 0 && !waits) || result == RUN_FRAMES_BAD || !buf_ok(&link->frames.bytes))
        process_close(&link->process.out);
}

static void read_words(struct run_watch *watch, struct run_link *link)
{
    struct run_sink *sink = link->state == LINK_RUNS ? &watch->err : &watch->links->quiet;
    if (link->process.err >= 0 && !run_lines_read(&link->words, link->process.err, sink))
        process_close(&link->process.err);
}

/* ---- the loop's side ---- */

enum { FDS = 3 };

size_t run_links_fds(const struct run_watch *watch)
{
    return watch->request->settings.hosts != NULL ? FDS * watch->count : 0;
}

size_t run_links_poll(struct run_watch *watch, struct pollfd *fds)
{
    size_t count = watch->links != NULL ? watch->links->count : 0;
    for (size_t i = 0; i < count; i++) {
        const struct run_link *link = &watch->links->at[i];
        bool wants = link->out_at < link->out.len;
        fds[FDS * i] = (struct pollfd){.fd = link->process.out, .events = POLLIN};
        fds[FDS * i + 1] = (struct pollfd){.fd = link->process.err, .events = POLLIN};
        fds[FDS * i + 2] = (struct pollfd){.fd = wants ? link->in : -1, .events = POLLOUT};
    }
    return FDS * count;
}

void run_links_take(struct run_watch *watch, const struct pollfd *fds)
{
    size_t count = watch->links != NULL ? watch->links->count : 0;
    for (size_t i = 0; i < count; i++) {
        struct run_link *link = &watch->links->at[i];
        if (fds[FDS * i + 1].revents != 0)
            read_words(watch, link);
        if (fds[FDS * i].revents != 0 && link->process.out >= 0)
            read_frames(watch, link);
        if (fds[FDS * i + 2].revents != 0)
            flush_link(link);
        if (link->process.out < 0 && link->state != LINK_OVER) {
            read_words(watch, link); /* the last ones */
            end_link(watch, link);
        }
    }
}

void run_links_cut(struct run_watch *watch)
{
    for (size_t i = 0; i < watch->links->count; i++) {
        struct run_link *link = &watch->links->at[i];
        end_link(watch, link);
        process_close(&link->process.out);
    }
    for (size_t i = 0; i < watch->count; i++)
        if (!watch->children[i].ended) {
            run_note_end(watch, &watch->children[i], (struct process_end){.code = 255});
            watch->children[i].leftover_at = run_now();
        }
}

/* ---- starting ---- */

static tri_status start_process(struct run_watch *watch, struct run_link *link, tri_error *err)
{
    static const char self[] = "/proc/self/exe";
    char trident[] = "trident", run[] = "run", deputy[] = "--deputy";
    char *const words[] = {trident, run, deputy, NULL};
    int pair[2];
    struct run_ssh ssh;
    run_ssh_init(&ssh, watch->cli->mem);
    struct process_plan plan = {.path = self, .argv = words, .envp = environ};
    tri_status status = TRI_OK;
    if (link->by_ssh) {
        status = run_ssh_make(&ssh, watch->request->settings.ssh, link->host->name, err);
        plan.path = buf_string(&ssh.path);
        plan.argv = ssh.words;
    }
    if (status == TRI_OK && pipe2(pair, O_CLOEXEC) < 0)
        status = fail_errno(err, TRI_EIO, "cannot open a pipe");
    if (status == TRI_OK) {
        plan.input = pair[0];
        link->in = pair[1];
        (void)fcntl(link->in, F_SETFL, O_NONBLOCK);
        status = process_start(&plan, &link->process, err);
        process_close(&pair[0]);
    }
    if (status == TRI_OK)
        process_keeper_add(&watch->keeper, link->process.pid);
    run_ssh_fini(&ssh);
    return status;
}

static tri_status cannot_reach(struct run_link *link, tri_error *err)
{
    struct process_end end = {.code = 0};
    const char *words = run_link_words(link), *host = link->host->name;
    for (int i = 0; i < 100 && !process_ended(&link->process, &end); i++)
        (void)poll(NULL, 0, 10); /* its output has ended, so it is about to */
    if (link->by_ssh && end.code == 255) {
        fail(err, TRI_EIO, "host '%.120s' cannot be reached", host);
        fail_next(err, "see whether this works: ssh -o BatchMode=yes %.120s true", host);
    } else {
        fail(err, TRI_EIO, "trident cannot be started on host '%.120s'", host);
        fail_next(err, "install it there, in the PATH that commands of ssh have, and make the "
                       "folder that this is");
    }
    fail_why(err, "%s", words[0] != '\0' ? words : "it ended without a word");
    return TRI_EIO;
}

static tri_status check_link(struct run_link *link, tri_error *err)
{
    if (link->error.status != TRI_OK) {
        *err = link->error;
        return link->error.status;
    }
    if (link->state == LINK_OVER)
        return cannot_reach(link, err);
    if (!link->differs)
        return TRI_OK;
    fail(err, TRI_EIO, "host '%.120s' has trident %s, this one %s", link->host->name, link->version,
         tri_version());
    fail_next(err, "install the same on all hosts");
    return TRI_EIO;
}

static tri_status too_late(const struct run_links *links, enum link_state state, double seconds,
                           tri_error *err)
{
    char text[UNITS_TEXT];
    struct buf names;
    buf_init(&names, links->hosts->mem);
    for (size_t i = 0; i < links->count; i++)
        if (links->at[i].state < state)
            buf_format(&names, "%s'%s'", names.len > 0 ? ", " : "", links->at[i].host->name);
    fail(err, TRI_ETIMEOUT, "no answer from %.180s within %s", buf_string(&names),
         units_show_time(seconds, text));
    fail_next(err, "see whether ssh -o BatchMode=yes works there, without a question asked");
    buf_fini(&names);
    return TRI_ETIMEOUT;
}

/* Until the first `count` links are in a state, or somebody has stopped the job. */
static tri_status await(struct run_watch *watch, size_t count, enum link_state state,
                        tri_error *err)
{
    enum { LIMIT_S = 30 };
    struct run_links *links = watch->links;
    double until = run_now() + LIMIT_S;
    for (;;) {
        size_t there = 0;
        for (size_t i = 0; i < links->count; i++) {
            tri_status status = check_link(&links->at[i], err);
            if (status != TRI_OK)
                return status;
            there += i < count && links->at[i].state >= state;
        }
        if (there == count)
            return TRI_OK;
        if (watch->why == RUN_WHY_TIMEOUT) /* who was waited for is what there is to say of it */
            return too_late(links, state, watch->request->settings.timeout_s, err);
        if (watch->phase != RUN_RUNNING)
            return TRI_OK;
        if (run_passed(until, run_now()))
            return too_late(links, state, LIMIT_S, err);
        struct pollfd *fds = watch->fds;
        fds[0] = (struct pollfd){.fd = watch->signals.fd, .events = POLLIN};
        size_t polled = 1 + run_links_poll(watch, fds + 1);
        int patience = run_patience(watch, false);
        if (poll(fds, (nfds_t)polled, patience >= 0 && patience < 500 ? patience : 500) < 0)
            continue;
        run_take_signals(watch);
        run_take_deadlines(watch);
        run_links_take(watch, fds + 1);
    }
}

/* ---- the address ---- */

/* Is the deputy on this machine, as far as ssh can tell? */
static bool is_here(const struct run_link *link)
{
    char text[sizeof link->there + 8];
    if (!link->by_ssh)
        return true;
    bool ipv6 = strchr(link->there, ':') != NULL;
    (void)snprintf(text, sizeof text, "%s%s%s:1", ipv6 ? "[" : "", link->there, ipv6 ? "]" : "");
    return link->there[0] != '\0' && interfaces_is_loopback(text);
}

/* Where the others find the first host: the address at which ssh found it, or, if that is this
 * machine, the one from which ssh found another. Names may mean something else elsewhere, so they
 * are for commands that are not ssh. An address with a scope (%eth0) holds on one host only. */
static const char *address_of_first(const struct run_links *links)
{
    const struct run_link *first = &links->at[0], *away = NULL;
    for (size_t i = links->count; i-- > 0;)
        if (!is_here(&links->at[i]))
            away = &links->at[i];
    const char *address = first != away ? "" : first->there;
    if (links->picked[0] != '\0')
        return links->picked;
    if (away == NULL)
        return "127.0.0.1";
    if (first != away)
        address = away->here;
    return address[0] != '\0' && strchr(address, '%') == NULL ? address : first->host->name;
}

/* ---- parts ---- */

static tri_status add_link(struct run_watch *watch, size_t host, tri_error *err)
{
    const struct mem *mem = watch->cli->mem;
    struct run_links *links = watch->links;
    struct run_link *link = &links->at[links->count++];
    const char *name = links->hosts->at[host].name;
    *link = (struct run_link){.host = &links->hosts->at[host], .in = -1};
    link->process = (struct process){.pid = 0, .out = -1, .err = -1};
    link->by_ssh = watch->request->settings.ssh != NULL || !run_ssh_is_here(name);
    buf_init(&link->out, mem);
    buf_init(&link->frames.bytes, mem);
    (void)snprintf(link->prefix, sizeof link->prefix, "[%s] ", name);
    link->part.process = mem_array(mem, watch->count, sizeof *link->part.process);
    if (!run_lines_init(&link->words, link->prefix, mem) || link->part.process == NULL)
        return fail_nomem(err, "a host");
    for (size_t i = 0; i < watch->count; i++)
        if (links->places[i] == host) {
            link->part.process[link->part.count++] = i;
            link->part.workers += i < watch->workers;
            watch->children[i].link = link;
        }
    return TRI_OK;
}

/* A link for each host that has a process, that of rank 0 first. */
static tri_status make_links(struct run_watch *watch, tri_error *err)
{
    struct run_links *links = watch->links;
    const struct mem *mem = watch->cli->mem;
    links->places = mem_array(mem, watch->count, sizeof *links->places);
    links->at = mem_array(mem, watch->count, sizeof *links->at);
    if (links->places == NULL || links->at == NULL)
        return fail_nomem(err, "the hosts");
    tri_status status = run_hosts_place(links->hosts, watch->workers, watch->count - watch->workers,
                                        links->places, err);
    for (size_t i = 0; i < watch->count && status == TRI_OK; i++)
        if (watch->children[i].link == NULL)
            status = add_link(watch, links->places[i], err);
    return status;
}

static void forget_words(void *ctx, struct run_sink *sink)
{
    (void)ctx;
    sink->len = 0;
}

static tri_status call_all(struct run_watch *watch, tri_error *err)
{
    struct run_links *links = watch->links;
    tri_status status = TRI_OK;
    for (size_t i = 0; i < links->count && status == TRI_OK; i++)
        status = start_process(watch, &links->at[i], err);
    return status == TRI_OK ? await(watch, links->count, LINK_THERE, err) : status;
}

/* Rank 0 listens on a port that is free on its host. */
static tri_status ask_ports(struct run_watch *watch, struct run_job *job, tri_error *err)
{
    struct run_links *links = watch->links;
    const char *wanted = getenv("TRIDENT_INTERFACE");
    if (wanted == NULL)
        wanted = "";
    tell(&links->at[0], RUN_FRAME_ASK_PORTS, wanted, strlen(wanted) + 1);
    tri_status status = await(watch, 1, LINK_HAS_PORTS, err);
    if (status != TRI_OK || watch->phase != RUN_RUNNING)
        return status;
    job->port = links->port;
    (void)snprintf(job->address, sizeof job->address, "%s", address_of_first(links));
    return TRI_OK;
}

static tri_status send_parts(struct run_watch *watch, const struct run_job *job, tri_error *err)
{
    struct run_links *links = watch->links;
    struct buf body;
    buf_init(&body, watch->cli->mem);
    bool ok = true;
    for (size_t i = 0; i < links->count && ok; i++) {
        struct run_link *link = &links->at[i];
        buf_clear(&body);
        run_part_write(&body, watch->request, job, &link->part, link->by_ssh);
        tell(link, RUN_FRAME_JOB, buf_string(&body), body.len);
        ok = buf_ok(&body) && buf_ok(&link->out);
    }
    buf_fini(&body);
    return ok ? await(watch, links->count, LINK_READY, err) : fail_nomem(err, "the hosts");
}

static void start_all(struct run_watch *watch)
{
    struct run_links *links = watch->links;
    for (size_t i = 0; i < links->count; i++) {
        links->at[i].state = LINK_RUNS;
        tell(&links->at[i], RUN_FRAME_GO, NULL, 0);
    }
}

tri_status run_links_open(struct run_watch *watch, struct run_job *job, tri_error *err)
{
    tri_error why = {0};
    watch->links = mem_array(watch->cli->mem, 1, sizeof *watch->links);
    if (watch->links == NULL)
        return fail_nomem(err, "the hosts");
    watch->links->hosts = watch->request->hosts;
    watch->links->quiet.flush = forget_words;
    tri_status status = make_links(watch, &why);
    if (status == TRI_OK)
        status = call_all(watch, &why);
    if (status == TRI_OK && watch->phase == RUN_RUNNING)
        status = ask_ports(watch, job, &why);
    if (status == TRI_OK && watch->phase == RUN_RUNNING)
        status = send_parts(watch, job, &why);
    if (status == TRI_OK && watch->phase == RUN_RUNNING)
        start_all(watch);
    else if (status == TRI_OK)
        run_links_cut(watch);
    if (status != TRI_OK && err != NULL)
        *err = why;
    return status;
}

/* A deputy has done its work, or does it when its input ends. */
void run_links_close(struct run_watch *watch)
{
    struct run_links *links = watch->links;
    const struct mem *mem = watch->cli->mem;
    if (links == NULL)
        return;
    for (size_t i = 0; i < links->count; i++) {
        struct run_link *link = &links->at[i];
        process_close(&link->in);
        if (link->process.pid > 0)
            process_keeper_remove(&watch->keeper, link->process.pid);
        process_reap(&link->process);
        if (link->words.mem != NULL)
            run_lines_fini(&link->words);
        buf_fini(&link->out);
        buf_fini(&link->frames.bytes);
        mem_free(mem, link->part.process);
    }
    mem_free(mem, links->at);
    mem_free(mem, links->places);
    mem_free(mem, links);
    watch->links = NULL;
}
