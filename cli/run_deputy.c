/* The other end of run_links.c: starts processes on its host, as it is told on standard input, and
 * tells of them on standard output. When the input ends, so do they. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run_part.h"
#include "cli/run_watch.h"
#include "settings/launcher.h"

struct run_deputy {
    struct cli *cli;
    struct run_frames in;
    bool gone; /* the one that gives orders */
    /* Of the output that is being passed on. */
    enum run_frame_kind kind;
    size_t process;
    /* The order, and the path of its program. */
    struct run_order order;
    struct buf path;
};

/* ---- while processes run ---- */

int run_deputy_fd(const struct run_watch *watch)
{
    const struct run_deputy *deputy = watch->request->deputy;
    return deputy != NULL && !deputy->gone ? STDIN_FILENO : -1;
}

/* False at the end of the input. */
static bool read_some(struct run_deputy *deputy)
{
    char bytes[4096];
    ssize_t got;
    do
        got = read(STDIN_FILENO, bytes, sizeof bytes);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        buf_add(&deputy->in.bytes, bytes, (size_t)got);
    return got > 0 && buf_ok(&deputy->in.bytes);
}

void run_deputy_obey(struct run_watch *watch)
{
    struct run_deputy *deputy = watch->request->deputy;
    struct run_frame frame;
    enum run_frames_result result = RUN_FRAMES_WANT;
    while (deputy != NULL && (result = run_frames_next(&deputy->in, &frame)) == RUN_FRAMES_GOT) {
        int number = (int)run_frame_number(&frame, 0);
        if (frame.kind == RUN_FRAME_SIGNAL && number == SIGKILL)
            run_kill(watch);
        else if (frame.kind == RUN_FRAME_SIGNAL)
            run_signal(watch, number);
        else if (frame.kind == RUN_FRAME_NEWS)
            run_ended_add(watch, frame.body, frame.len);
    }
    if (deputy != NULL && (deputy->gone || result == RUN_FRAMES_BAD)) {
        watch->why = RUN_WHY_ORDER;
        run_kill(watch);
    }
}

void run_deputy_take(struct run_watch *watch)
{
    watch->request->deputy->gone = !read_some(watch->request->deputy);
    run_deputy_obey(watch);
}

static void send_frame(struct run_watch *watch, enum run_frame_kind kind, size_t process,
                       const char *body, size_t len)
{
    char head[RUN_FRAME_HEAD];
    int fd = fileno(watch->cli->out);
    run_frame_head(head, kind, process, len);
    if (watch->out.broken || (run_write(watch, fd, head, sizeof head) &&
                              run_write(watch, fd, body, len) && run_write(watch, fd, "", 1)))
        return;
    watch->out.broken = true; /* part of a frame may be out: nothing can follow it */
    watch->why = RUN_WHY_ORDER;
    run_kill(watch);
}

void run_deputy_output(struct run_watch *watch, const struct run_child *child, bool err)
{
    watch->request->deputy->kind = err ? RUN_FRAME_ERR : RUN_FRAME_OUT;
    watch->request->deputy->process = child->number;
}

void run_deputy_flush(struct run_watch *watch, struct run_sink *sink)
{
    const struct run_deputy *deputy = watch->request->deputy;
    size_t len = sink->len;
    sink->len = 0;
    send_frame(watch, deputy->kind, deputy->process, sink->data, len);
}

static void send_numbers(struct run_watch *watch, enum run_frame_kind kind,
                         const struct run_child *child, uint32_t first, uint32_t second)
{
    struct buf body;
    buf_init(&body, watch->cli->mem);
    run_frame_put_number(&body, first);
    run_frame_put_number(&body, second);
    send_frame(watch, kind, child->number, buf_string(&body), body.len);
    buf_fini(&body);
}

void run_deputy_started(struct run_watch *watch, const struct run_child *child)
{
    send_numbers(watch, RUN_FRAME_STARTED, child, (uint32_t)child->pid, 0);
}

void run_deputy_ended(struct run_watch *watch, const struct run_child *child)
{
    send_numbers(watch, RUN_FRAME_ENDED, child, (uint32_t)child->end.code,
                 (uint32_t)child->end.signal);
}

/* ---- before they do: nothing else is going on, so this waits where it stands ---- */

static bool answer(const struct run_deputy *deputy, enum run_frame_kind kind,
                   const struct buf *body)
{
    struct buf frame;
    buf_init(&frame, deputy->cli->mem);
    run_frame_add(&frame, kind, 0, buf_string(body), body->len);
    bool ok = buf_ok(&frame) && buf_ok(body) &&
              fwrite(frame.data, 1, frame.len, deputy->cli->out) == frame.len &&
              fflush(deputy->cli->out) == 0;
    buf_fini(&frame);
    return ok;
}

/* The word of SSH_CONNECTION with this number: client, its port, server, its port. */
static void put_word(struct buf *body, unsigned number)
{
    const char *words = getenv("SSH_CONNECTION");
    for (; words != NULL && number > 0; number--) {
        words = strchr(words, ' ');
        words = words != NULL ? words + 1 : NULL;
    }
    if (words != NULL)
        buf_add(body, words, strcspn(words, " "));
    buf_char(body, '\0');
}

static bool hello(const struct run_deputy *deputy)
{
    struct buf body;
    buf_init(&body, deputy->cli->mem);
    run_frame_put_text(&body, tri_version());
    put_word(&body, 2);
    put_word(&body, 0);
    bool ok =
        fputs(RUN_FRAME_MARK, deputy->cli->out) >= 0 && answer(deputy, RUN_FRAME_HELLO, &body);
    buf_fini(&body);
    return ok;
}

static bool refuse(const struct run_deputy *deputy, const tri_error *why)
{
    struct buf body;
    buf_init(&body, deputy->cli->mem);
    run_frame_put_number(&body, (uint32_t)why->status);
    run_frame_put_text(&body, why->text);
    run_frame_put_text(&body, why->where);
    run_frame_put_text(&body, why->why);
    run_frame_put_text(&body, why->next);
    bool ok = answer(deputy, RUN_FRAME_FAILED, &body);
    buf_fini(&body);
    return ok;
}

/* Address "[fd00::1]:0" without what is around it. */
static void put_address(struct buf *body, const char *address)
{
    bool ipv6 = address[0] == '[';
    const char *end = strrchr(address, ipv6 ? ']' : ':');
    buf_add(body, address + ipv6, end != NULL ? (size_t)(end - address) - ipv6 : 0);
    buf_char(body, '\0');
}

static bool give_ports(const struct run_deputy *deputy, const char *wanted)
{
    unsigned port = 0;
    char address[NET_TEXT] = "";
    struct buf body;
    tri_error why = {0};
    if (wanted[0] != '\0')
        (void)setenv("TRIDENT_INTERFACE", wanted, 1);
    tri_status status = run_pick_ports(true, &port, &why);
    if (status == TRI_OK && getenv("TRIDENT_INTERFACE") != NULL)
        status = launcher_own_address(address, &why);
    if (status != TRI_OK)
        return refuse(deputy, &why);
    buf_init(&body, deputy->cli->mem);
    buf_format(&body, "%u", port);
    buf_char(&body, '\0');
    put_address(&body, address);
    bool ok = answer(deputy, RUN_FRAME_PORTS, &body);
    buf_fini(&body);
    return ok;
}

static bool take_job(struct run_deputy *deputy, const struct run_frame *frame)
{
    const struct buf nothing = {.mem = deputy->cli->mem};
    tri_error why = {0};
    run_part_free(&deputy->order);
    buf_clear(&deputy->path);
    tri_status status = run_part_read(frame, &deputy->order, deputy->cli->mem, &why);
    if (status == TRI_OK)
        status = process_find(deputy->order.request.program[0], &deputy->path, &why);
    return status == TRI_OK ? answer(deputy, RUN_FRAME_READY, &nothing) : refuse(deputy, &why);
}

static void go(struct run_deputy *deputy)
{
    struct run_order *order = &deputy->order;
    tri_error why = {0};
    order->request.deputy = deputy;
    if (order->words == NULL)
        return;
    if (run_watch(deputy->cli, &order->request, &order->job, buf_string(&deputy->path), &why) !=
        TRI_OK)
        (void)refuse(deputy, &why);
}

/* False: there is nothing more to do. */
static bool obey(struct run_deputy *deputy, const struct run_frame *frame)
{
    size_t at = 0;
    if (frame->kind == RUN_FRAME_ASK_PORTS)
        return give_ports(deputy, run_frame_text(frame, &at));
    if (frame->kind == RUN_FRAME_JOB)
        return take_job(deputy, frame);
    if (frame->kind == RUN_FRAME_GO)
        go(deputy);
    return false;
}

tri_status run_deputy_main(struct cli *cli, tri_error *err)
{
    struct run_deputy deputy = {.cli = cli, .in = {.marked = true}};
    struct run_frame frame;
    (void)err; /* the one that gives orders is told */
    buf_init(&deputy.in.bytes, cli->mem);
    buf_init(&deputy.path, cli->mem);
    bool more = hello(&deputy);
    while (more) {
        enum run_frames_result result = run_frames_next(&deputy.in, &frame);
        if (result == RUN_FRAMES_GOT)
            more = obey(&deputy, &frame);
        else
            more = result == RUN_FRAMES_WANT && read_some(&deputy);
    }
    run_part_free(&deputy.order);
    buf_fini(&deputy.path);
    buf_fini(&deputy.in.bytes);
    return TRI_OK;
}
