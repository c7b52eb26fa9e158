/* The transports around others: what trace tells, and what goes on when fault breaks things. */
#include <time.h>

#include "mod/ends.h"
#include "os/file.h"
#include "run/nodes.h"
#include "run/trace.h"

static struct end ends[ENDS];

/* ---- two ends ---- */

static void open_two(const char *name, const char *fault, const struct log *log, uint32_t sockets)
{
    (void)setenv("TRIDENT_FAULT", fault, 1);
    for (uint32_t id = 0; id < 2; id++) {
        struct transport_options options = end_options(&ends[id], id, sockets, "127.0.0.1:0");
        options.name = name;
        options.log = log;
        options.self = id;
        end_open_with(&ends[id], name, &options);
    }
    (void)unsetenv("TRIDENT_FAULT");
    end_connect(&ends[1], 0, ends[0].ops->address(ends[0].transport));
}

static void offer(uint32_t messages)
{
    for (uint32_t id = 0; id < 2; id++) {
        atomic_store(&ends[id].to_send[1 - id], messages);
        ends[id].ops->send(ends[id].transport, 1 - id);
    }
}

static bool is_up(void)
{
    return atomic_load(&ends[0].ups[1]) == 1 && atomic_load(&ends[1].ups[0]) == 1;
}

static bool have_received(uint32_t messages)
{
    return atomic_load(&ends[0].received[1]) == messages &&
           atomic_load(&ends[1].received[0]) == messages;
}

/* Every message that began came to an end. */
static void close_two(void)
{
    for (uint32_t id = 0; id < 2; id++)
        end_close(&ends[id]);
    for (uint32_t id = 0; id < 2; id++) {
        assert_int_equal(atomic_load(&ends[id].taken[1 - id]),
                         atomic_load(&ends[id].sent) + atomic_load(&ends[id].unsent));
        assert_int_equal(atomic_load(&ends[id].placed),
                         atomic_load(&ends[id].received[1 - id]) + atomic_load(&ends[id].broken));
    }
}

/* ---- trace ---- */

struct lines {
    atomic_uint sent, received, other;
    char last_sent[LOG_LINE_BYTES], last_received[LOG_LINE_BYTES];
};

static void keep_line(void *ctx, enum log_level level, const char *line)
{
    struct lines *lines = ctx;
    if (level != LOG_TRACE)
        abort();
    if (strstr(line, ": to ") != NULL) {
        atomic_fetch_add(&lines->sent, 1);
        (void)snprintf(lines->last_sent, sizeof lines->last_sent, "%s", line);
    } else if (strstr(line, ": from ") != NULL) {
        atomic_fetch_add(&lines->received, 1);
        (void)snprintf(lines->last_received, sizeof lines->last_received, "%s", line);
    } else {
        atomic_fetch_add(&lines->other, 1);
    }
}

TEST(trace_tells_of_every_message_in_and_out)
{
    (void)state;
    enum { MANY = 50 };
    static struct lines lines;
    struct log log;
    log_init(&log, LOG_TRACE, keep_line, &lines);
    open_two("trace:tcp", "", &log, 1);
    offer(MANY);
    UNTIL(ends, 2, have_received(MANY));
    close_two();
    assert_int_equal(atomic_load(&lines.sent), 2 * MANY);
    assert_int_equal(atomic_load(&lines.received), 2 * MANY);
    assert_true(atomic_load(&lines.other) >= 5); /* a call, two greetings, two times up */
    assert_non_null(strstr(lines.last_sent, ": RESULT, layer 0.0, clock "));
    assert_non_null(strstr(lines.last_received, " bytes"));
}

TEST(trace_without_a_log_is_silent_and_passes_all_on)
{
    (void)state;
    open_two("trace:fault:tcp", "", NULL, 2);
    offer(20);
    UNTIL(ends, 2, have_received(20));
    ends[0].ops->drop(ends[0].transport, 1);
    UNTIL(ends, 2, atomic_load(&ends[0].downs[1]) == 1 && atomic_load(&ends[1].downs[0]) == 1);
    close_two();
}

/* ---- fault ---- */

TEST(messages_in_two_pieces_come_in_whole)
{
    (void)state;
    for (uint32_t sockets = 1; sockets <= 3; sockets += 2) {
        open_two("fault:tcp", "seed=3,half=0.5", NULL, sockets);
        offer(300);
        UNTIL(ends, 2, have_received(300));
        close_two();
        assert_int_equal(atomic_load(&ends[0].nonsenses) + atomic_load(&ends[1].nonsenses), 0);
    }
}

TEST(who_is_turned_away_comes_again)
{
    (void)state;
    open_two("fault:tcp", "seed=7,refuse=0.8", NULL, 1);
    UNTIL(ends, 2, is_up());
    assert_int_equal(atomic_load(&ends[0].greets), 3); /* as the seed has it */
    offer(50);
    UNTIL(ends, 2, have_received(50));
    close_two();
}

TEST(who_is_always_turned_away_is_told_in_time)
{
    (void)state;
    (void)setenv("TRIDENT_FAULT", "refuse=1", 1);
    for (uint32_t id = 0; id < 2; id++) {
        struct transport_options options = end_options(&ends[id], id, 1, "127.0.0.1:0");
        options.connect_ms = 100;
        end_open_with(&ends[id], "fault", &options);
    }
    (void)unsetenv("TRIDENT_FAULT");
    end_connect(&ends[1], 0, ends[0].ops->address(ends[0].transport));
    UNTIL(ends, 2, atomic_load(&ends[1].downs[0]) == 1);
    assert_false(is_up());
    close_two();
}

TEST(a_connection_that_breaks_in_a_message_leaves_nothing_behind)
{
    (void)state;
    unsigned broken = 0;
    for (unsigned seed = 0; seed < 20; seed++) {
        char fault[64];
        (void)snprintf(fault, sizeof fault, "seed=%u,break=0.02,half=0.2", seed);
        open_two("fault:tcp", fault, NULL, 1 + seed % 3);
        offer(10000);
        UNTIL(ends, 2, atomic_load(&ends[0].downs[1]) == 1 && atomic_load(&ends[1].downs[0]) == 1);
        close_two();
        broken += atomic_load(&ends[0].broken) + atomic_load(&ends[1].broken);
        assert_int_equal(atomic_load(&ends[0].nonsenses) + atomic_load(&ends[1].nonsenses), 0);
    }
    assert_true(broken > 0); /* some in the data, others in the header or between two */
}

TEST(only_the_node_that_is_named_does_wrong)
{
    (void)state;
    open_two("fault:tcp", "node=1,drop_after=10", NULL, 1);
    UNTIL(ends, 2, is_up());
    atomic_store(&ends[0].to_send[1], 100);
    ends[0].ops->send(ends[0].transport, 1);
    UNTIL(ends, 2, atomic_load(&ends[1].received[0]) == 100);
    assert_true(is_up());
    atomic_store(&ends[1].to_send[0], 100);
    ends[1].ops->send(ends[1].transport, 0);
    UNTIL(ends, 2, atomic_load(&ends[0].downs[1]) == 1 && atomic_load(&ends[1].downs[0]) == 1);
    assert_true(atomic_load(&ends[0].received[1]) <= 10);
    close_two();
}

TEST(around_inproc_connections_break_between_messages)
{
    (void)state;
    (void)setenv("TRIDENT_FAULT", "seed=2,break=0.05,half=0.5", 1);
    for (uint32_t id = 0; id < 2; id++) {
        struct transport_options options =
            end_options(&ends[id], id, 1, id == 0 ? "inproc:wrapped" : "inproc:0");
        options.name = "fault:inproc";
        end_open_with(&ends[id], "fault:inproc", &options);
    }
    (void)unsetenv("TRIDENT_FAULT");
    end_connect(&ends[1], 0, ends[0].ops->address(ends[0].transport));
    offer(10000);
    UNTIL(ends, 2, atomic_load(&ends[0].downs[1]) == 1 && atomic_load(&ends[1].downs[0]) == 1);
    close_two();
}

TEST(refused_memory_is_survived)
{
    (void)state;
    static const char *const names[] = {"fault:tcp", "trace:tcp"};
    for (size_t i = 0; i < 2; i++) {
        struct fault fault = {0};
        FAULT_WALK(&fault)
        {
            struct transport_options options = end_options(&ends[0], 0, 2, "127.0.0.1:0");
            struct transport *transport = NULL;
            tri_error err = {0};
            options.mem = &fault.mem;
            options.name = names[i];
            const struct transport_ops *ops = transport_find(names[i]);
            if (ops->open(&options, &transport, &err) == TRI_OK)
                ops->close(transport);
            else
                assert_int_equal(err.status, TRI_ENOMEM);
        }
    }
}

TEST(names_say_what_is_around_what)
{
    (void)state;
    assert_ptr_equal(transport_find("fault:tcp"), transport_find("fault"));
    assert_ptr_equal(transport_find("trace:fault:inproc"), transport_find("trace"));
    assert_null(transport_find("fault:"));
    assert_null(transport_find("fault:nothing"));
    assert_null(transport_find("tcp:fault"));
    assert_null(transport_find(":tcp"));
    assert_null(transport_find("a-name-that-is-much-too-long:tcp"));
}

TEST(faults_that_cannot_be_are_named)
{
    (void)state;
    static const char *const wrong[] = {"break=2", "half", "seed=x",      "hurry=1",
                                        "refuse=", "=1",   "break=0.1,,", "delay_ms=-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct transport_options options = end_options(&ends[0], 0, 1, "127.0.0.1:0");
        struct transport *none = NULL;
        tri_error err = {0};
        (void)setenv("TRIDENT_FAULT", wrong[i], 1);
        assert_int_equal(transport_find("fault")->open(&options, &none, &err), TRI_EINPUT);
        (void)unsetenv("TRIDENT_FAULT");
        assert_non_null(strstr(err.text, "TRIDENT_FAULT cannot have '"));
        assert_int_equal(ends[0].memory.live, 0);
    }
}

/* ---- jobs ---- */

enum { WORKERS = 3, CLOCKS = 15 };
static struct nodes jobs[2];

static void describe(struct nodes *job, uint32_t servers, uint32_t colocated)
{
    memset(job, 0, sizeof *job);
    job->layers[0] = (struct agree_layer){
        .name = "conv", .kind = TRI_CONV, .rows = 20, .cols = 12, .bias = true};
    job->layers[1] = (struct agree_layer){
        .name = "fc", .kind = TRI_FC, .rows = 24, .cols = 20, .bias = true, .max_factor_rows = 4};
    job->count = 2;
    job->options = (struct agree_options){.workers = WORKERS,
                                          .servers = servers,
                                          .colocated = colocated,
                                          .bits_s = 1e8,
                                          .latency_s = 5e-5,
                                          .message_s = 5e-6,
                                          .flops_s = 1e11,
                                          .chunk_bytes = 400,
                                          .rule = PLAN_BYTES,
                                          .reproducible = true};
    job->clocks = CLOCKS;
    job->timeout_ms = 20000;
    job->heartbeat_ms = 4000;
    job->net = (struct toy){.seed = 17, .lr = 0.05f};
    nodes_plan(job);
}

static void run(struct nodes *job, const char *transport, const char *fault)
{
    (void)setenv("TRIDENT_FAULT", fault, 1);
    nodes_meet(job, transport);
    nodes_run(job, 0);
    (void)unsetenv("TRIDENT_FAULT");
}

static void check_all_ended(const struct nodes *job)
{
    for (uint32_t n = 0; n < job->node_count; n++)
        if (job->nodes[n].status != TRI_OK)
            fail_msg("node %u: %s (%s)", n, job->nodes[n].err.text, job->nodes[n].err.why);
}

TEST(a_job_over_a_bad_network_ends_with_the_right_numbers)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        describe(&jobs[i], WORKERS, WORKERS);
        jobs[i].sockets = 2;
        run(&jobs[i], i == 0 ? "tcp" : "fault:tcp", "seed=7,refuse=0.3,delay_ms=3,half=0.3");
        check_all_ended(&jobs[i]);
    }
    for (uint32_t r = 0; r < WORKERS; r++)
        for (uint32_t l = 0; l < jobs[0].count; l++) {
            const struct agree_layer *layer = &jobs[0].layers[l];
            assert_memory_equal(jobs[0].nodes[r].own[l].weights, jobs[1].nodes[r].own[l].weights,
                                (size_t)layer->rows * layer->cols * sizeof(float));
            assert_memory_equal(jobs[0].nodes[r].own[l].bias, jobs[1].nodes[r].own[l].bias,
                                layer->rows * sizeof(float));
        }
    nodes_free(&jobs[0]);
    nodes_free(&jobs[1]);
}

/* What the cores of a job that lost somebody were told can be told again. */
static void check_replay(const char *folder, uint32_t node)
{
    char path[128];
    struct buf bytes;
    struct trace_report report;
    tri_error err = {0};
    (void)snprintf(path, sizeof path, "%s/%u", folder, node);
    buf_init(&bytes, &mem_libc);
    assert_int_equal(file_read(path, 1 << 28, &bytes, &err), TRI_OK);
    if (trace_replay(bytes.data, bytes.len, &mem_libc, &report, &err) != TRI_OK)
        fail_msg("node %u: %s", node, err.text);
    assert_true(report.whole && report.events > CLOCKS);
    buf_fini(&bytes);
    (void)unlink(path);
}

TEST(a_worker_that_loses_its_connections_is_one_that_was_killed)
{
    (void)state;
    struct nodes *job = &jobs[0];
    char folder[] = "/tmp/trident-wrappers-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/%%r", folder);
    describe(job, 2, 0);
    job->trace = path;
    run(job, "fault:tcp", "node=2,drop_after=60");
    for (uint32_t n = 0; n < job->node_count; n++) {
        if (n != 2 && job->nodes[n].status != TRI_OK)
            fail_msg("node %u: %s (%s)", n, job->nodes[n].err.text, job->nodes[n].err.why);
        check_replay(folder, n);
    }
    assert_int_not_equal(job->nodes[2].status, TRI_OK);
    assert_true(job->nodes[2].err.text[0] != '\0');
    assert_int_equal(job->nodes[0].stats.live_workers, WORKERS - 1);
    assert_int_equal(job->nodes[1].clock, CLOCKS);
    nodes_free(job);
    assert_int_equal(rmdir(folder), 0);
}

TEST(a_server_that_loses_its_connections_ends_the_job_with_a_reason)
{
    (void)state;
    struct nodes *job = &jobs[0];
    describe(job, WORKERS, WORKERS);
    run(job, "fault:tcp", "node=1,drop_after=60");
    for (uint32_t n = 0; n < job->node_count; n++) {
        assert_int_not_equal(job->nodes[n].status, TRI_OK);
        assert_true(job->nodes[n].err.text[0] != '\0');
    }
    nodes_free(job);
}

/* Whoever breaks when: it comes to an end, and who ended well has the numbers of the others. */
TEST(connections_that_break_anywhere_hang_nobody)
{
    (void)state;
    unsigned lost = 0;
    for (unsigned seed = 1; seed <= 12; seed++) {
        struct nodes *job = &jobs[0];
        char fault[80];
        describe(job, seed % 2 == 0 ? 2 : WORKERS, seed % 2 == 0 ? 0 : WORKERS);
        job->heartbeat_ms = 1000;
        (void)snprintf(fault, sizeof fault, "seed=%u,break=0.002,half=0.1", seed);
        struct timespec begin, end;
        (void)clock_gettime(CLOCK_MONOTONIC, &begin);
        run(job, "fault:tcp", fault);
        (void)clock_gettime(CLOCK_MONOTONIC, &end);
        assert_true(end.tv_sec - begin.tv_sec < 60);
        for (uint32_t n = 0; n < job->node_count; n++) {
            lost += job->nodes[n].status != TRI_OK;
            assert_true((job->nodes[n].status == TRI_OK) == (job->nodes[n].err.text[0] == '\0'));
        }
        nodes_free(job);
    }
    assert_true(lost > 0);
}

static int begin(void **state)
{
    (void)state;
    make_noise();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace_tells_of_every_message_in_and_out),
        cmocka_unit_test(trace_without_a_log_is_silent_and_passes_all_on),
        cmocka_unit_test(messages_in_two_pieces_come_in_whole),
        cmocka_unit_test(who_is_turned_away_comes_again),
        cmocka_unit_test(who_is_always_turned_away_is_told_in_time),
        cmocka_unit_test(a_connection_that_breaks_in_a_message_leaves_nothing_behind),
        cmocka_unit_test(only_the_node_that_is_named_does_wrong),
        cmocka_unit_test(around_inproc_connections_break_between_messages),
        cmocka_unit_test(refused_memory_is_survived),
        cmocka_unit_test(names_say_what_is_around_what),
        cmocka_unit_test(faults_that_cannot_be_are_named),
        cmocka_unit_test(a_job_over_a_bad_network_ends_with_the_right_numbers),
        cmocka_unit_test(a_worker_that_loses_its_connections_is_one_that_was_killed),
        cmocka_unit_test(a_server_that_loses_its_connections_ends_the_job_with_a_reason),
        cmocka_unit_test(connections_that_break_anywhere_hang_nobody),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
