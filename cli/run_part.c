/* A part of a job: texts, each with a letter in front that says what it is. */
#include "cli/run_part.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

extern char **environ;

enum letter {
    WORKERS = 'w',
    SERVERS = 'q',
    COLOCATE = 'c',
    ON_FAILURE = 'f',
    NAME = 'n',
    TOKEN = 't',
    ADDRESS = 'a',
    PORT = 'p',
    PROCESS = 'r',
    INHERITED = 'i',
    VARIABLE = 'e',
    WORD = 'x',
};

/* ---- writing ---- */

static void put(struct buf *body, enum letter letter, const char *text)
{
    buf_char(body, (char)letter);
    run_frame_put_text(body, text);
}

static void put_number(struct buf *body, enum letter letter, uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    put(body, letter, text);
}

void run_part_write(struct buf *body, const struct run_request *request, const struct run_job *job,
                    const struct run_part *part, bool inherit)
{
    const struct run_settings *settings = &request->settings;
    put_number(body, WORKERS, settings->workers);
    put_number(body, SERVERS, settings->servers);
    put_number(body, COLOCATE, settings->colocate);
    put_number(body, ON_FAILURE, settings->on_failure);
    put(body, NAME, job->name);
    put(body, TOKEN, job->token);
    put(body, ADDRESS, job->address);
    put_number(body, PORT, job->port);
    for (size_t i = 0; i < part->count; i++)
        put_number(body, PROCESS, part->process[i]);
    for (char **entry = environ; inherit && entry != NULL && *entry != NULL; entry++)
        if (strncmp(*entry, "TRIDENT_", 8) == 0 && strncmp(*entry, "TRIDENT_SSH=", 12) != 0)
            put(body, INHERITED, *entry);
    for (size_t i = 0; i < request->variable_count; i++)
        put(body, VARIABLE, request->variables[i]);
    for (size_t i = 0; i < request->program_count; i++)
        put(body, WORD, request->program[i]);
}

/* ---- reading ---- */

static bool copy(char *out, size_t size, const char *text)
{
    int len = snprintf(out, size, "%s", text);
    return len >= 0 && (size_t)len < size;
}

static bool read_number(const char *text, uint64_t most, uint64_t *out)
{
    return units_count(text, out) && *out <= most;
}

static bool read_process(struct run_order *order, const char *text)
{
    uint64_t number = 0;
    if (!read_number(text, run_workers(&order->request) + run_servers(&order->request), &number))
        return false;
    order->part.process[order->part.count++] = (size_t)number;
    order->part.workers += number < run_workers(&order->request);
    return true;
}

/* Numbers come before what they limit. There is room for as many texts as the body has. */
static bool take(struct run_order *order, enum letter letter, const char *text)
{
    struct run_request *request = &order->request;
    struct run_settings *settings = &request->settings;
    struct run_job *job = &order->job;
    uint64_t number = 0;
    bool ok = true;
    switch (letter) {
    case WORKERS:
        return read_number(text, RUN_MAX, &settings->workers) && settings->workers > 0;
    case SERVERS:
        return read_number(text, RUN_MAX, &settings->servers);
    case COLOCATE:
        ok = read_number(text, RUN_NOT_GIVEN, &number);
        settings->colocate = (unsigned)number;
        return ok;
    case ON_FAILURE:
        ok = read_number(text, RUN_NOT_GIVEN, &number);
        settings->on_failure = (unsigned)number;
        return ok;
    case NAME:
        return copy(job->name, sizeof job->name, text);
    case TOKEN:
        return copy(job->token, sizeof job->token, text);
    case ADDRESS:
        return copy(job->address, sizeof job->address, text);
    case PORT:
        ok = read_number(text, 65534, &number);
        job->port = (unsigned)number;
        return ok;
    case PROCESS:
        return read_process(order, text);
    case INHERITED:
        request->inherited[request->inherited_count++] = text;
        return true;
    case VARIABLE:
        request->variables[request->variable_count++] = text;
        return true;
    case WORD:
        order->words[request->program_count++] = text;
        return true;
    }
    return false;
}

static tri_status make_room(struct run_order *order, const struct run_frame *frame, tri_error *err)
{
    const struct mem *mem = order->mem;
    size_t texts = 1;
    for (size_t i = 0; i < frame->len; i++)
        texts += frame->body[i] == '\0';
    order->body = mem_text(mem, frame->body, frame->len);
    order->part.process = mem_array(mem, texts, sizeof *order->part.process);
    order->words = mem_array(mem, texts, sizeof *order->words);
    order->request.variables = mem_array(mem, texts, sizeof *order->request.variables);
    order->request.inherited = mem_array(mem, texts, sizeof *order->request.inherited);
    return order->body != NULL && order->part.process != NULL && order->words != NULL &&
                   order->request.variables != NULL && order->request.inherited != NULL
               ? TRI_OK
               : fail_nomem(err, "the part of this host");
}

tri_status run_part_read(const struct run_frame *frame, struct run_order *order,
                         const struct mem *mem, tri_error *err)
{
    *order = (struct run_order){.mem = mem};
    tri_status status = make_room(order, frame, err);
    if (status != TRI_OK)
        return status;
    bool ok = frame->len > 0 && order->body[frame->len - 1] == '\0';
    for (size_t at = 0; at < frame->len && ok; at += strlen(order->body + at) + 1)
        ok = order->body[at] != '\0' &&
             take(order, (enum letter)(unsigned char)order->body[at], order->body + at + 1);
    if (!ok || order->part.count == 0 || order->request.program_count == 0)
        return fail(err, TRI_EIO, "the part of this host cannot be read");
    order->request.program = order->words;
    order->request.part = &order->part;
    order->job.threads = run_threads(order->part.workers);
    return TRI_OK;
}

void run_part_free(struct run_order *order)
{
    const struct mem *mem = order->mem;
    if (mem == NULL)
        return;
    mem_free(mem, order->body);
    mem_free(mem, order->part.process);
    mem_free(mem, (void *)order->words);
    mem_free(mem, (void *)order->request.variables);
    mem_free(mem, (void *)order->request.inherited);
    *order = (struct run_order){.mem = NULL};
}
