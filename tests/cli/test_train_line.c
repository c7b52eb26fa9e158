/* What workers tell their launcher comes back as it was. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train_line.h"
#include "lib/test.h"

static struct train_layer layers[] = {{"conv1", "ps", 520, 2080.5, false},
                                      {"fc1", "sfb", 400500, 9e5, true}};
static struct train_op ops[] = {{"conv1", "conv", 0.001, 0.002, 0.1 / 3}};

static struct train_report a_report(void)
{
    return (struct train_report){
        .rank = 1,
        .workers = 3,
        .servers = 2,
        .iterations = UINT64_C(1) << 60,
        .params = 401020,
        .epochs = 1.0 / 3,
        .samples_per_s = 5123.25,
        .begun_s = 86400 + 1.0 / 3,
        .ended_s = 86401 + 1.0 / 3,
        .tested_s = 0.25,
        .wall_s = 12.5,
        .train_loss = 0.125,
        .train_accuracy = 0.5,
        .test_accuracy = NAN,
        .test_samples = 10000,
        .train_samples = 60000,
        .sent_bytes = 7,
        .received_bytes = 8,
        .compute_s = 3,
        .wait_s = 4,
        .params_crc32c = 0xfedcba98,
        .layer_count = 2,
        .op_count = 1,
        .layers = layers,
        .ops = ops,
    };
}

static bool hear(const struct buf *line, const struct mem *mem, struct train_heard *heard)
{
    assert_true(buf_ok(line));
    assert_ptr_equal(strchr(line->data, '\n'), line->data + line->len - 1);
    return train_hear(line->data, line->len - 1, mem, heard);
}

static void check_report(const struct train_report *got)
{
    struct train_report want = a_report();
    assert_int_equal(got->rank, want.rank);
    assert_int_equal(got->workers, want.workers);
    assert_int_equal(got->servers, want.servers);
    assert_true(got->iterations == want.iterations);
    assert_true(got->epochs == want.epochs); /* to the bit */
    assert_true(got->samples_per_s == want.samples_per_s);
    assert_true(got->begun_s == want.begun_s && got->ended_s == want.ended_s);
    assert_true(got->tested_s == want.tested_s);
    assert_true(isnan(got->test_accuracy));
    assert_int_equal(got->params_crc32c, want.params_crc32c);
    assert_int_equal(got->layer_count, 2);
    assert_string_equal(got->layers[1].name, "fc1");
    assert_string_equal(got->layers[1].scheme, "sfb");
    assert_true(got->layers[0].sent_bytes == 2080.5);
    assert_true(!got->layers[0].common && got->layers[1].common);
    assert_int_equal(got->op_count, 1);
    assert_true(got->ops[0].backward_s == 0.1 / 3);
}

TEST(a_report_comes_back_whatever_memory_is_refused)
{
    (void)state;
    struct fault fault = {0};
    struct train_report report = a_report();
    struct buf line;
    buf_init(&line, &mem_libc);
    train_say_report(TRAIN_REPORT, &report, &line);
    FAULT_WALK(&fault)
    {
        struct train_heard heard;
        if (!hear(&line, &fault.mem, &heard)) {
            assert_true(fault.hit);
            continue;
        }
        assert_int_equal(heard.kind, TRAIN_REPORT);
        check_report(&heard.report);
        mem_free(&fault.mem, heard.report.layers);
        mem_free(&fault.mem, heard.report.ops);
    }
    buf_fini(&line);
}

TEST(a_moment_comes_back)
{
    (void)state;
    struct train_moment moment = {.iteration = 12,
                                  .iterations = 100,
                                  .epoch = 0.7,
                                  .epochs = 3,
                                  .loss = NAN,
                                  .accuracy = 0.1,
                                  .samples_per_s = 1e9,
                                  .left_s = 3.5,
                                  .tested = true,
                                  .test_accuracy = 0.875};
    struct train_heard heard;
    struct buf line;
    buf_init(&line, &mem_libc);
    train_say_moment(&moment, &line);
    assert_true(hear(&line, &mem_libc, &heard));
    assert_int_equal(heard.kind, TRAIN_MOMENT);
    assert_int_equal(heard.moment.iteration, 12);
    assert_true(heard.moment.epoch == 0.7);
    assert_true(isnan(heard.moment.loss));
    assert_true(heard.moment.tested);
    assert_true(heard.moment.test_accuracy == 0.875);
    buf_fini(&line);
}

TEST(an_error_comes_back_with_all_its_parts)
{
    (void)state;
    const tri_error error = {.status = TRI_EINPUT,
                             .text = "the file \"a\\b\" is short",
                             .where = "a.tsv:3",
                             .why = "it ends",
                             .next = "give \xc3\xa9 another"};
    struct train_heard heard;
    struct buf line;
    buf_init(&line, &mem_libc);
    train_say_error(&error, &line);
    assert_true(hear(&line, &mem_libc, &heard));
    assert_int_equal(heard.kind, TRAIN_ERROR);
    assert_int_equal(heard.error.status, TRI_EINPUT);
    assert_string_equal(heard.error.text, error.text);
    assert_string_equal(heard.error.where, error.where);
    assert_string_equal(heard.error.why, error.why);
    assert_string_equal(heard.error.next, error.next);
    buf_fini(&line);
}

TEST(an_event_comes_from_a_line_of_a_log)
{
    (void)state;
    struct train_event event = {.t_s = 1.5, .clock = 9, .rank = 2};
    train_event_of(1, "trident job worker 2: warn: going on without rank 1", &event);
    assert_string_equal(event.kind, "evicted");
    assert_string_equal(event.text, "going on without rank 1");
    struct train_heard heard;
    struct buf line;
    buf_init(&line, &mem_libc);
    train_say_event(&event, &line);
    assert_true(hear(&line, &mem_libc, &heard));
    assert_int_equal(heard.kind, TRAIN_EVENT);
    assert_int_equal(heard.event.clock, 9);
    assert_string_equal(heard.event.kind, "evicted");
    buf_fini(&line);
    train_event_of(0, "trident job worker 2: error: no room", &event);
    assert_string_equal(event.kind, "error");
    assert_string_equal(event.text, "no room");
    train_event_of(1, "bare", &event);
    assert_string_equal(event.kind, "warning");
    assert_string_equal(event.text, "bare");
}

TEST(other_lines_are_not_taken)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "onednn_verbose,info",
        "{\"train\": \"party\"}",
        "{\"train\": \"report\", \"layers\": [{\"name\": \"a\"}, 3]}",
        "{\"train\": \"moment\", \"epoch\": 1",
        "{\"train\": \"moment\"} {}",
        "{\"loss\": 1}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct train_heard heard;
        struct fault fault;
        fault_init(&fault);
        assert_false(train_hear(lines[i], strlen(lines[i]), &fault.mem, &heard));
        assert_int_equal(fault.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_comes_back_whatever_memory_is_refused),
        cmocka_unit_test(a_moment_comes_back),
        cmocka_unit_test(an_error_comes_back_with_all_its_parts),
        cmocka_unit_test(an_event_comes_from_a_line_of_a_log),
        cmocka_unit_test(other_lines_are_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
