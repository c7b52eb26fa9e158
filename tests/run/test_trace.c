/* run/trace: what the hosts of a real job told their cores is told again to new ones, which answer
 * the same. */
#include "base/crc32c.h"
#include "os/file.h"
#include "run/nodes.h"
#include "run/trace.h"
#include "wire/bytes.h"

enum { WORKERS = 3, CLOCKS = 20 };

static struct {
    char folder[64], path[96];
} files;

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(files.folder, sizeof files.folder, "/tmp/trident-trace-XXXXXX");
    if (mkdtemp(files.folder) == NULL)
        return -1;
    (void)snprintf(files.path, sizeof files.path, "%s/node-%%r.trace", files.folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    for (unsigned n = 0; n < NODES_MOST; n++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/node-%u.trace", files.folder, n);
        (void)unlink(path);
    }
    return rmdir(files.folder);
}

static void read_trace(unsigned node, struct buf *out)
{
    char path[128];
    tri_error err = {0};
    (void)snprintf(path, sizeof path, "%s/node-%u.trace", files.folder, node);
    buf_init(out, &mem_libc);
    if (file_read(path, 1 << 28, out, &err) != TRI_OK)
        fail_msg("%s", err.text);
}

/* ---- a job with layers on servers and on workers ---- */

static struct nodes job;

static void describe(uint32_t servers, uint32_t colocated)
{
    memset(&job, 0, sizeof job);
    job.layers[0] = (struct agree_layer){
        .name = "conv", .kind = TRI_CONV, .rows = 20, .cols = 12, .bias = true};
    job.layers[1] = (struct agree_layer){
        .name = "fc", .kind = TRI_FC, .rows = 24, .cols = 20, .bias = true, .max_factor_rows = 4};
    job.layers[2] = (struct agree_layer){
        .name = "last", .kind = TRI_FC, .rows = 5, .cols = 24, .max_factor_rows = NET_MAX_BATCH};
    job.count = 3;
    job.options = (struct agree_options){.workers = WORKERS,
                                         .servers = servers,
                                         .colocated = colocated,
                                         .bits_s = 1e8,
                                         .latency_s = 5e-5,
                                         .message_s = 5e-6,
                                         .flops_s = 1e11,
                                         .chunk_bytes = 400,
                                         .rule = PLAN_BYTES,
                                         .reproducible = true};
    job.clocks = CLOCKS;
    job.heartbeat_ms = 2000;
    job.net = (struct toy){.seed = 11, .lr = 0.05f, .leave_out = true, .busy = true};
    job.trace = files.path;
}

static void run_job(const char *transport)
{
    nodes_plan(&job);
    nodes_meet(&job, transport);
    nodes_run(&job, 0);
    for (uint32_t n = 0; n < job.node_count; n++)
        if (job.nodes[n].status != TRI_OK)
            fail_msg("node %u: %s (%s)", n, job.nodes[n].err.text, job.nodes[n].err.why);
}

static void check_replays(uint32_t node)
{
    struct buf trace;
    struct trace_report report;
    tri_error err = {0};
    struct fault counted;
    read_trace(node, &trace);
    fault_init(&counted);
    if (trace_replay(trace.data, trace.len, &counted.mem, &report, &err) != TRI_OK)
        fail_msg("node %u: %s (%s)", node, err.text, err.why);
    assert_int_equal(report.node, node);
    assert_true(report.whole);
    assert_string_equal(report.event, "");
    assert_true(report.events > 200);
    assert_true(report.actions > 100);
    assert_int_equal(counted.live, 0);
    buf_fini(&trace);
}

static void check_mixture(void)
{
    bool servers = false, workers = false;
    for (uint32_t l = 0; l < job.count; l++) {
        workers = workers || strcmp(agree_scheme(job.plan, l), "sfb") == 0;
        servers = servers || strcmp(agree_scheme(job.plan, l), "ps") == 0;
    }
    assert_true(servers && workers);
}

TEST(a_job_of_three_replays_equal_on_every_node)
{
    (void)state;
    describe(WORKERS, WORKERS);
    run_job("tcp");
    check_mixture();
    for (uint32_t n = 0; n < job.node_count; n++)
        check_replays(n);
    nodes_free(&job);
}

TEST(a_job_with_servers_apart_and_sums_as_they_come_replays_equal)
{
    (void)state;
    describe(2, 0);
    job.options.reproducible = false;
    job.options.scheme = "ps";
    job.helpers = 1;
    run_job("tcp");
    assert_int_equal(job.node_count, WORKERS + 2);
    for (uint32_t n = 0; n < job.node_count; n++)
        check_replays(n);
    nodes_free(&job);
}

/* ---- what is no trace, or another one ---- */

enum { RECORD = 5, SUMS = 8, FIRST = 88 /* bytes before the book */ };

/* Where record i begins; its number of bytes. */
static size_t record_at(const struct buf *trace, size_t i, size_t *bytes)
{
    const uint8_t *data = (const uint8_t *)trace->data;
    size_t at = FIRST + 4 + wire_load_u32(data + FIRST);
    at += 4 + 8 * (size_t)wire_load_u32(data + at) + 4; /* steps, and the checksum */
    for (;; i--) {
        *bytes = RECORD + wire_load_u32(data + at + 1) + SUMS;
        assert_true(at + *bytes <= trace->len);
        if (i == 0)
            return at;
        at += *bytes;
    }
}

static void make_trace(struct buf *trace, uint32_t node)
{
    describe(WORKERS, WORKERS);
    job.clocks = 2;
    run_job("inproc");
    nodes_free(&job);
    read_trace(node, trace);
}

static tri_status replay(const struct buf *trace, struct trace_report *report, tri_error *err)
{
    return trace_replay(trace->data, trace->len, &mem_libc, report, err);
}

TEST(a_flipped_byte_is_noticed_wherever_it_is)
{
    (void)state;
    struct buf trace;
    struct trace_report report;
    tri_error err = {0};
    make_trace(&trace, 1);
    assert_int_equal(replay(&trace, &report, &err), TRI_OK);
    for (size_t i = 0; i < trace.len; i += i < 400 || i + 40 > trace.len ? 1 : 37) {
        trace.data[i] = (char)(trace.data[i] ^ 4);
        tri_status status = replay(&trace, &report, &err);
        /* A length that goes past the end cannot be told from a host that was killed. */
        if (status == TRI_OK && report.whole)
            fail_msg("byte %zu of %zu can be flipped", i, trace.len);
        trace.data[i] = (char)(trace.data[i] ^ 4);
    }
    buf_fini(&trace);
}

TEST(the_event_that_is_answered_otherwise_is_named)
{
    (void)state;
    struct buf trace;
    struct trace_report report;
    tri_error err = {0};
    size_t bytes;
    make_trace(&trace, 1);
    uint8_t *record = (uint8_t *)trace.data + record_at(&trace, 6, &bytes);
    record[bytes - 1] ^= 1;
    assert_int_equal(replay(&trace, &report, &err), TRI_EMISMATCH);
    assert_int_equal(report.events, 6);
    assert_false(report.whole);
    assert_string_equal(report.event, trace_kind_name(record[0]));
    assert_non_null(strstr(err.text, "event 7 ("));
    assert_non_null(strstr(err.text, "the core answers otherwise than it did"));
    buf_fini(&trace);
}

TEST(an_event_in_another_order_is_noticed)
{
    (void)state;
    struct buf trace, other;
    struct trace_report report;
    tri_error err = {0};
    make_trace(&trace, 1);
    /* Two neighbours, swapped, of those whose answers are not both empty. */
    bool noticed = false;
    for (size_t i = 1; i < 40 && !noticed; i++) {
        size_t first, second;
        size_t at = record_at(&trace, i, &first);
        (void)record_at(&trace, i + 1, &second);
        buf_init(&other, &mem_libc);
        buf_add(&other, trace.data, at);
        buf_add(&other, trace.data + at + first, second);
        buf_add(&other, trace.data + at, first);
        buf_add(&other, trace.data + at + first + second, trace.len - at - first - second);
        noticed = replay(&other, &report, &err) != TRI_OK;
        buf_fini(&other);
    }
    assert_true(noticed);
    buf_fini(&trace);
}

TEST(a_trace_that_ends_anywhere_is_replayed_as_far_as_it_goes)
{
    (void)state;
    struct buf trace;
    struct trace_report report;
    tri_error err = {0};
    size_t bytes;
    make_trace(&trace, 0);
    size_t at = record_at(&trace, 9, &bytes);
    for (size_t len = at; len < at + bytes; len++) {
        assert_int_equal(trace_replay(trace.data, len, &mem_libc, &report, &err), TRI_OK);
        assert_int_equal(report.events, 9);
        assert_false(report.whole);
    }
    for (size_t len = 0; len < FIRST; len++)
        assert_int_equal(trace_replay(trace.data, len, &mem_libc, &report, &err), TRI_EINPUT);
    buf_fini(&trace);
}

TEST(what_is_no_trace_is_refused_by_name)
{
    (void)state;
    struct trace_report report;
    tri_error err = {0};
    assert_int_equal(trace_replay("GIF89a..", 8, &mem_libc, &report, &err), TRI_EINPUT);
    assert_string_equal(err.text, "these bytes are no trace");
    assert_int_equal(trace_replay("TRTC\7\0\0\0", 8, &mem_libc, &report, &err), TRI_EINPUT);
    assert_string_equal(err.text, "this trace is of version 7, not 2");
}

TEST(replaying_survives_every_refusal_of_memory)
{
    (void)state;
    struct buf trace;
    struct fault fault = {0};
    size_t bytes;
    make_trace(&trace, 0);
    size_t len = record_at(&trace, 40, &bytes);
    FAULT_WALK(&fault)
    {
        struct trace_report report;
        tri_error err = {0};
        tri_status status = trace_replay(trace.data, len, &fault.mem, &report, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
    }
    buf_fini(&trace);
}

/* ---- files that cannot be ---- */

struct lines {
    unsigned count;
    char last[LOG_LINE_BYTES];
};

static void keep_line(void *ctx, enum log_level level, const char *line)
{
    struct lines *lines = ctx;
    assert_int_equal(level, LOG_WARN);
    lines->count++;
    (void)snprintf(lines->last, sizeof lines->last, "%s", line);
}

static struct trace *open_at(const char *path, const struct log *log, const struct mem *mem)
{
    static struct convert convert;
    static struct node_options node = {.number = 12};
    struct trace_options options = {
        .mem = mem, .log = log, .path = path, .node = &node, .convert = &convert};
    return trace_open(&options);
}

TEST(a_file_that_cannot_be_written_is_told_once_and_stops_nobody)
{
    (void)state;
    struct lines lines = {0};
    struct log log;
    log_init(&log, LOG_WARN, keep_line, &lines);
    assert_null(open_at("/nowhere/trace-%r", &log, &mem_libc));
    assert_int_equal(lines.count, 1);
    assert_non_null(strstr(lines.last, "/nowhere/trace-"));
    struct trace *trace = open_at("/dev/full", &log, &mem_libc);
    assert_non_null(trace);
    for (int i = 0; i < 10000; i++) { /* more than a buffer */
        trace_begin(trace, &(struct trace_event){.kind = TRACE_TICK, .now = 7});
        trace_end(trace, 0);
    }
    trace_close(trace);
    assert_int_equal(lines.count, 2);
    assert_non_null(strstr(lines.last, "/dev/full"));
}

TEST(a_trace_without_memory_is_told_and_stops_nobody)
{
    (void)state;
    struct fault fault = {0};
    struct log log;
    log_init(&log, LOG_WARN, NULL, NULL);
    FAULT_WALK(&fault)
    {
        struct trace *trace = open_at("/dev/null", &log, &fault.mem);
        if (trace != NULL) {
            trace_begin(trace, &(struct trace_event){.kind = TRACE_TICK});
            trace_end(trace, 0);
        }
        trace_close(trace);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_of_three_replays_equal_on_every_node),
        cmocka_unit_test(a_job_with_servers_apart_and_sums_as_they_come_replays_equal),
        cmocka_unit_test(a_flipped_byte_is_noticed_wherever_it_is),
        cmocka_unit_test(the_event_that_is_answered_otherwise_is_named),
        cmocka_unit_test(an_event_in_another_order_is_noticed),
        cmocka_unit_test(a_trace_that_ends_anywhere_is_replayed_as_far_as_it_goes),
        cmocka_unit_test(what_is_no_trace_is_refused_by_name),
        cmocka_unit_test(replaying_survives_every_refusal_of_memory),
        cmocka_unit_test(a_file_that_cannot_be_written_is_told_once_and_stops_nobody),
        cmocka_unit_test(a_trace_without_memory_is_told_and_stops_nobody),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
