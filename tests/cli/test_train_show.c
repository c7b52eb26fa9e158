/* What trident train shows: the live line, the summary and the document. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/train.h"
#include "lib/test.h"

static struct train_request a_request(const char *const *more)
{
    const char *argv[40] = {"--data", "x", "--model", "lenet"};
    int argc = 4;
    for (; *more != NULL && argc < 40; more++)
        argv[argc++] = *more;
    struct train_request request;
    assert_int_equal(train_read(argc, argv, &request, NULL), TRI_OK);
    return request;
}

#define REQUEST(...) a_request((const char *const[]){__VA_ARGS__, NULL})

static void give_report(struct train_outcome *outcome, uint32_t rank, uint32_t crc)
{
    struct train_report report = {.rank = rank,
                                  .workers = outcome->workers,
                                  .iterations = 90,
                                  .params = 530,
                                  .epochs = 3,
                                  .samples_per_s = 1000,
                                  .test_accuracy = 0.9125,
                                  .test_samples = 400,
                                  .train_loss = 0.25 + 0.5 * rank,
                                  .compute_s = 3,
                                  .wait_s = 1,
                                  .sent_bytes = 100 + rank,
                                  .params_crc32c = crc,
                                  .layer_count = 2,
                                  .op_count = 1};
    report.layers = mem_array(outcome->mem, 2, sizeof *report.layers);
    report.ops = mem_array(outcome->mem, 1, sizeof *report.ops);
    assert_non_null(report.layers);
    assert_non_null(report.ops);
    report.layers[0] = (struct train_layer){"conv1", "ps", 30, 120, false};
    report.layers[1] = (struct train_layer){"fc1", "sfb", 500, 2e6, false};
    report.ops[0] = (struct train_op){"conv1", "conv", 0.25, 0.5, 0.25};
    train_outcome_report(outcome, &report);
}

static struct train_outcome an_outcome(uint32_t workers, const struct mem *mem)
{
    struct train_outcome outcome;
    assert_int_equal(train_outcome_init(&outcome, workers, mem, NULL), TRI_OK);
    return outcome;
}

static const struct train_moment moment = {.iteration = 50,
                                           .iterations = 100,
                                           .epoch = 1.5,
                                           .epochs = 3,
                                           .loss = 0.25,
                                           .accuracy = 0.75,
                                           .samples_per_s = 1234,
                                           .sent_per_s = 2.5e6,
                                           .left_s = 65};

/* ---- the live line ---- */

TEST(the_line_has_all_parts_where_there_is_room)
{
    (void)state;
    char line[TRAIN_LINE];
    train_live_line(&moment, 200, line);
    assert_string_equal(line, "epoch 1.50/3  loss 0.2500  acc 0.7500  1234 samples/s  2.5 MB/s  "
                              "1:05 left");
}

TEST(the_line_fits_any_width_and_never_cuts_a_part)
{
    (void)state;
    char all[TRAIN_LINE], line[TRAIN_LINE];
    train_live_line(&moment, 200, all);
    for (size_t width = 0; width <= strlen(all); width++) {
        train_live_line(&moment, width, line);
        size_t len = strlen(line);
        assert_true(len <= width);
        assert_memory_equal(line, all, len);
        assert_true(all[len] == '\0' || len == 0 || strncmp(all + len, "  ", 2) == 0);
    }
}

TEST(what_is_not_known_is_left_out)
{
    (void)state;
    char line[TRAIN_LINE];
    struct train_moment first = {
        .iterations = 10, .epochs = 1, .loss = NAN, .accuracy = NAN, .left_s = NAN};
    train_live_line(&first, 100, line);
    assert_string_equal(line, "epoch 0.00/1");
}

TEST(without_a_terminal_each_epoch_is_one_line)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    assert_non_null(file);
    struct train_live live;
    train_live_init(&live, file);
    for (int i = 1; i <= 30; i++) {
        struct train_moment now = moment;
        now.epoch = i / 10.0;
        train_live_moment(&live, &now);
    }
    train_live_clear(&live);
    fclose(file);
    size_t lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 3);
    assert_int_equal(strncmp(text, "epoch 1.00/3  ", 14), 0);
    assert_null(strchr(text, '\r'));
    free(text);
}

/* ---- the result ---- */

static void find(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in\n%s", part, text);
}

TEST(the_summary_names_what_matters)
{
    (void)state;
    struct train_request request = REQUEST("--profile", "--workers", "2");
    struct train_outcome outcome = an_outcome(2, &mem_libc);
    give_report(&outcome, 1, 0xabc);
    give_report(&outcome, 0, 0xabc);
    struct buf out;
    buf_init(&out, &mem_libc);
    train_text(&outcome, &request, &out);
    static const char *const parts[] = {"lenet on x: 530 parameters, 3 epochs, 90 iterations",
                                        "0.9125 of 400 samples",
                                        "75.0 % computing, 25.0 % waiting",
                                        "fc1    sfb            500         2.000",
                                        "conv1  ps              30        <0.001",
                                        "00000abc, the same on all 2 workers",
                                        "Try next:",
                                        "250.000"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(buf_string(&out), parts[i]) == NULL)
            fail_msg("'%s' is not in\n%s", parts[i], buf_string(&out));
    buf_fini(&out);
    train_outcome_fini(&outcome);
}

/* What train_text() writes of a run with a report. */
static void summary(const struct train_request *request, uint32_t workers, struct buf *out)
{
    struct train_outcome outcome = an_outcome(workers, &mem_libc);
    for (uint32_t i = 0; i < workers; i++)
        give_report(&outcome, i, 0xabc);
    outcome.report.test_samples = 1;
    buf_init(out, &mem_libc);
    train_text(&outcome, request, out);
    assert_true(buf_ok(out));
    train_outcome_fini(&outcome);
}

TEST(with_one_worker_nothing_travels)
{
    (void)state;
    struct train_request request = REQUEST("--epochs", "3");
    struct buf out;
    summary(&request, 1, &out);
    find(buf_string(&out), "fc1           500\n");
    find(buf_string(&out), "one worker: nothing travels\n");
    find(buf_string(&out), "0.9125 of 1 sample\n");
    assert_null(strstr(buf_string(&out), "sfb"));
    assert_null(strstr(buf_string(&out), "MB/iteration"));
    buf_fini(&out);
}

TEST(what_learners_with_copies_have_in_common_is_named)
{
    (void)state;
    struct train_request request =
        REQUEST("--learners", "2", "--local", "replicas", "--optimizer", "sgd");
    struct train_outcome outcome = an_outcome(2, &mem_libc);
    struct buf out;
    give_report(&outcome, 0, 0xabc);
    outcome.report.learners = 2;
    (void)snprintf(outcome.report.local, sizeof outcome.report.local, "replicas");
    buf_init(&out, &mem_libc);
    train_text(&outcome, &request, &out);
    find(buf_string(&out), "each learner has a copy of these");
    assert_null(strstr(buf_string(&out), "once for all"));
    outcome.report.layers[1].common = true;
    buf_clear(&out);
    train_text(&outcome, &request, &out);
    find(buf_string(&out), "\nin common, once for all of them: fc1\n");
    buf_clear(&out);
    train_json(&outcome, &request, &out);
    find(buf_string(&out), "{\"name\": \"conv1\", \"params\": 30, \"common\": false}");
    find(buf_string(&out), "{\"name\": \"fc1\", \"params\": 500, \"common\": true}");
    buf_fini(&out);
    train_outcome_fini(&outcome);
}

TEST(what_to_try_next_has_what_it_needs)
{
    (void)state;
    struct train_request request =
        REQUEST("--data", "csv:my data.csv", "--test", "held.csv", "--label-column", "3",
                "--text-column", "2", "--header", "no");
    static const char trains[] = "\n  trident train --data 'csv:my data.csv' --test held.csv "
                                 "--label-column 3 --text-column 2 --header no --model lenet --";
    struct buf out;
    summary(&request, 1, &out);
    size_t count = 0;
    for (const char *at = buf_string(&out); (at = strstr(at, trains)) != NULL; at++)
        count++;
    assert_int_equal(count, 3);
    buf_fini(&out);
    request.settings.out = "m.safetensors";
    summary(&request, 1, &out);
    find(buf_string(&out), "\n  trident predict --model m.safetensors --data csv:held.csv "
                           "--label-column 3 --text-column 2 --header no\n");
    buf_fini(&out);
}

/* Reads the command in that line of what to try next, as a shell would without quotes. */
static struct train_request read_next(const char *text, int line)
{
    static char words[400];
    const char *argv[60], *from = strstr(text, "Try next:\n");
    struct train_request request;
    tri_error err = {0};
    int argc = 0;
    assert_non_null(from);
    for (int i = 0; i < line; i++)
        from = strchr(from, '\n') + 1;
    (void)snprintf(words, sizeof words, "%.*s", (int)strcspn(from, "\n"), from);
    for (char *word = words + strspn(words, " "); *word != '\0' && argc < 60;) {
        char *end = word + strcspn(word, " ");
        argv[argc++] = word;
        word = end + strspn(end, " ");
        *end = '\0';
    }
    assert_true(argc > 2 && strcmp(argv[1], "train") == 0);
    if (train_read(argc - 2, argv + 2, &request, &err) != TRI_OK)
        fail_msg("'%.*s' does not work: %s", (int)strcspn(from, "\n"), from, err.text);
    return request;
}

TEST(what_to_try_next_is_the_same_run_but_for_one_thing)
{
    (void)state;
    struct train_request request =
        REQUEST("--learners", "3", "--local", "replicas", "--batch", "2", "--lr", "0.1",
                "--optimizer", "sgd", "--learner-restarts", "0", "--seed", "7", "--epochs", "3",
                "--checkpoint", "runs", "--resume", "--evaluate-every", "2");
    struct buf out;
    summary(&request, 3, &out);
    find(buf_string(&out), "\n  trident train --data x --model lenet --learners 3 --local replicas "
                           "--learner-restarts 0 --epochs 3 --batch 2 --lr 0.1 --optimizer sgd "
                           "--evaluate-every 2 --seed 7 --out lenet.safetensors\n");
    for (int line = 1; line <= 3; line++) {
        struct train_request next = read_next(buf_string(&out), line);
        assert_int_equal(next.settings.learners, 3);
        assert_string_equal(next.local, line == 2 ? "sync" : "replicas");
        assert_int_equal(next.settings.restarts, 0);
        assert_int_equal(next.settings.batch, 2);
        assert_int_equal(next.settings.seed, 7);
        assert_string_equal(next.settings.lr, "0.1");
        assert_null(next.settings.checkpoint);
        assert_int_equal(next.settings.iterations, line == 3 ? 100 : 0);
        assert_true(line == 3 ? next.settings.epochs == NULL && next.settings.profile
                              : strcmp(next.settings.epochs, "3") == 0);
    }
    buf_fini(&out);
}

TEST(what_does_not_go_with_the_one_thing_is_left_out)
{
    (void)state;
    struct buf out;
    struct train_request request = REQUEST("--learners", "2", "--exchange-every", "4");
    summary(&request, 2, &out); /* in rounds the default would be momentum */
    assert_string_equal(read_next(buf_string(&out), 2).optimizer, "sgd");
    assert_int_equal(read_next(buf_string(&out), 2).settings.exchange_every, 4);
    buf_fini(&out);
    request = REQUEST("--learners", "2", "--local", "sync", "--optimizer", "momentum:0.9", "--lr",
                      "0.02", "--batch", "8");
    summary(&request, 2, &out); /* at their own pace it would diverge */
    struct train_request next = read_next(buf_string(&out), 2);
    assert_string_equal(next.local, "direct");
    assert_int_equal(next.settings.batch, 8);
    assert_null(next.settings.lr);
    buf_fini(&out);
    request = REQUEST("--learners", "2", "--local", "sync", "--optimizer", "sgd", "--lr", "0.2");
    summary(&request, 2, &out);
    assert_string_equal(read_next(buf_string(&out), 2).settings.lr, "0.2");
    buf_fini(&out);
    request =
        REQUEST("--workers", "4", "--servers", "2", "--scheme", "ps", "--consistency", "ssp:2");
    summary(&request, 4, &out);
    next = read_next(buf_string(&out), 2);
    assert_string_equal(next.settings.scheme, "auto");
    assert_string_equal(next.settings.consistency, "ssp:2");
    assert_int_equal(next.settings.servers, 2);
    assert_int_equal(next.settings.workers, 4);
    assert_string_equal(read_next(buf_string(&out), 1).settings.scheme, "ps");
    buf_fini(&out);
}

TEST(the_model_is_tried_on_what_it_was_tested_with)
{
    (void)state;
    static const struct {
        const char *test, *data;
    } cases[] = {{"tsv:held.tsv", " --data tsv:held.tsv\n"},
                 {"held:1.csv", " --data csv:held:1.csv\n"},
                 {"it's", " --data 'csv:it'\\''s'\n"},
                 {NULL, " --data csv:all.csv\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct train_request request = REQUEST("--data", "csv:all.csv", "--out", "m.safetensors");
        struct buf out;
        request.settings.test = cases[i].test;
        summary(&request, 2, &out);
        find(buf_string(&out), cases[i].data);
        buf_fini(&out);
    }
}

TEST(the_document_lists_the_tests)
{
    (void)state;
    struct train_request request = REQUEST("--json");
    struct train_outcome outcome = an_outcome(1, &mem_libc);
    struct train_moment tested = moment;
    struct buf out;
    train_outcome_moment(&outcome, &tested);
    tested.tested = true;
    tested.test_accuracy = 0.5;
    train_outcome_moment(&outcome, &tested);
    give_report(&outcome, 0, 1);
    buf_init(&out, &mem_libc);
    train_json(&outcome, &request, &out);
    find(buf_string(&out), "\"tests\": [\n"
                           "  {\"epoch\": 1.5, \"test_accuracy\": 0.5},\n"
                           "  {\"epoch\": 3, \"test_accuracy\": 0.9125}\n ]");
    find(buf_string(&out), "\"optimizer\": \"momentum:0.9\"");
    assert_int_equal(outcome.test_count, 1);
    buf_fini(&out);
    train_outcome_fini(&outcome);
}

TEST(a_test_that_finds_no_memory_is_forgotten)
{
    (void)state;
    struct fault fault = {0};
    struct train_moment tested = moment;
    tested.tested = true;
    FAULT_WALK(&fault)
    {
        struct train_outcome outcome;
        if (train_outcome_init(&outcome, 1, &fault.mem, NULL) != TRI_OK)
            continue;
        train_outcome_moment(&outcome, &tested);
        assert_int_equal(outcome.test_count, fault.hit ? 0 : 1);
        train_outcome_fini(&outcome);
    }
}

TEST(the_document_has_every_field_of_the_contract)
{
    (void)state;
    static const char *const fields[] = {
        "model",      "data",         "workers",    "learners",      "epochs",
        "iterations", "wall_s",       "train_loss", "samples_per_s", "test_accuracy",
        "sent_bytes", "test_samples", "schemes",    "params_crc32c", "params_crc32c_by_rank",
        "events",     "tests",        "params",     "train_samples"};
    struct train_request request = REQUEST("--json", "--workers", "2");
    struct train_outcome outcome = an_outcome(2, &mem_libc);
    give_report(&outcome, 0, 0xabc);
    give_report(&outcome, 1, 0xabc);
    struct train_event event = {.t_s = 1, .clock = 2, .rank = 1};
    train_event_of(1, "lost the connection to rank 0", &event);
    train_outcome_event(&outcome, &event);
    struct buf out;
    buf_init(&out, &mem_libc);
    train_json(&outcome, &request, &out);
    struct json json;
    json_open(&json, "it", out.data, out.len, NULL);
    json_skip(&json);
    json_end(&json);
    assert_int_equal(json.status, TRI_OK);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char key[40];
        (void)snprintf(key, sizeof key, "\n \"%s\": ", fields[i]);
        find(buf_string(&out), key);
    }
    find(out.data, "\"params_crc32c\": \"00000abc\"");
    find(out.data, "\"fc1\": \"sfb\"");
    find(out.data, "\"sent_bytes\": 201");
    find(out.data, "\"train_loss\": 0.5,"); /* the mean of both */
    find(out.data, "\"kind\": \"connection\"");
    buf_fini(&out);
    train_outcome_fini(&outcome);
}

TEST(the_document_of_learners_has_nothing_that_only_workers_have)
{
    (void)state;
    static const char *const absent[] = {"servers", "consistency", "placement", "scheme",
                                         "send_bytes"};
    struct train_request request = REQUEST("--json", "--learners", "2");
    struct train_outcome outcome = an_outcome(2, &mem_libc);
    struct buf out;
    give_report(&outcome, 0, 0xabc);
    give_report(&outcome, 1, 0xabd);
    buf_init(&out, &mem_libc);
    train_json(&outcome, &request, &out);
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        char key[40];
        (void)snprintf(key, sizeof key, "\"%s\":", absent[i]);
        if (strstr(buf_string(&out), key) != NULL)
            fail_msg("%s is in\n%s", key, buf_string(&out));
    }
    find(out.data, "\n \"schemes\": null,"); /* names of the contract */
    find(out.data, "\n \"params_crc32c_by_rank\": null,");
    find(out.data, "\"params_crc32c\": \"00000abc\"");
    find(out.data, "{\"name\": \"fc1\", \"params\": 500}");
    buf_fini(&out);
    train_outcome_fini(&outcome);
}

TEST(replicas_that_differ_are_an_error_under_bsp_alone)
{
    (void)state;
    struct train_outcome outcome = an_outcome(2, &mem_libc);
    give_report(&outcome, 0, 0xabc);
    give_report(&outcome, 1, 0xabd);
    struct train_request strict = REQUEST("--workers", "2");
    struct train_request loose = REQUEST("--consistency", "ssp:2");
    tri_error err = {0};
    assert_int_equal(train_outcome_check(&outcome, &strict, &err), TRI_EMISMATCH);
    find(err.why, "00000abc on rank 0 and 00000abd on rank 1");
    assert_int_equal(train_outcome_check(&outcome, &loose, &err), TRI_OK);
    outcome.interrupted = true; /* the ranks stopped where they were */
    assert_int_equal(train_outcome_check(&outcome, &strict, &err), TRI_OK);
    train_outcome_fini(&outcome);
}

/* Two learners, 100 gradients of 8 samples in all; when each ended, and rank 0's tests. */
static double rate_of(const char *local, double first_s, double second_s, double tested_s)
{
    struct train_request request =
        REQUEST("--learners", "2", "--local", local, "--optimizer", "sgd");
    struct train_outcome outcome = an_outcome(2, &mem_libc);
    const struct train_report begun[2] = {{.begun_s = 102}, {.begun_s = 100}};
    for (uint32_t i = 0; i < 2; i++)
        train_outcome_begun(&outcome, &begun[i]);
    for (uint32_t i = 0; i < 2; i++) {
        struct train_report report = {.rank = i,
                                      .applied = 100,
                                      .batch = 8,
                                      .samples_per_s = 1e6,
                                      .ended_s = i == 0 ? first_s : second_s,
                                      .tested_s = i == 0 ? tested_s : 0};
        train_outcome_report(&outcome, &report);
    }
    train_outcome_rate(&outcome, &request, 120);
    double rate = outcome.report.samples_per_s;
    train_outcome_fini(&outcome);
    return rate;
}

TEST(the_rate_of_learners_is_by_the_time_until_the_last_is_done)
{
    (void)state;
    assert_true(rate_of("direct", 103, 110, 0) == 80);  /* not by the 1 s of rank 0 */
    assert_true(rate_of("direct", 110, 108, 2) == 100); /* without its tests */
    assert_true(rate_of("direct", 108, 110, 2) == 80);  /* during which the other went on */
    assert_true(rate_of("sync", 110, 110, 2) == 100);   /* or waited */
    assert_true(rate_of("replicas", 110, 110, 2) == 100);
    assert_true(rate_of("server", 0, 0, 0) == 40); /* who died has not told of its end */
}

TEST(an_interrupted_run_shows_its_last_moment)
{
    (void)state;
    struct train_request request = REQUEST("--epochs", "3");
    struct train_outcome outcome = an_outcome(1, &mem_libc);
    struct cli cli = {.mem = &mem_libc};
    struct buf out;
    tri_error err = {0};
    train_outcome_moment(&outcome, &moment);
    outcome.interrupted = true;
    buf_init(&out, &mem_libc);
    assert_int_equal(train_show(&cli, &outcome, &request, &out, &err), TRI_EPEER);
    assert_true(cli.keep);
    find(err.text, "interrupted after 1.50 of 3 epochs");
    find(buf_string(&out), "50 of 100 iterations");
    buf_clear(&out);
    request.settings.json = true;
    assert_int_equal(train_show(&cli, &outcome, &request, &out, &err), TRI_EPEER);
    find(buf_string(&out), "\"complete\": false");
    find(buf_string(&out), "\"params_crc32c\": null");
    buf_fini(&out);
    train_outcome_fini(&outcome);
}

/* What is told of an outcome that a signal ended. */
static tri_error interrupted(struct train_outcome *outcome, const char *const *more, int signal)
{
    struct train_request request = a_request(more);
    struct cli cli = {.mem = &mem_libc};
    struct buf out;
    tri_error err = {0};
    outcome->interrupted = true;
    outcome->terminated = signal;
    buf_init(&out, &mem_libc);
    assert_int_equal(train_show(&cli, outcome, &request, &out, &err), TRI_EPEER);
    buf_fini(&out);
    return err;
}

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(a_signal_in_the_last_test_is_told_with_what_became_of_the_model)
{
    (void)state;
    struct train_outcome outcome = an_outcome(1, &mem_libc);
    struct train_moment last = moment;
    tri_error err;
    outcome.begun = true;
    give_report(&outcome, 0, 1); /* of a training so short that there was no moment */
    err = interrupted(&outcome, OPTIONS("--iterations", "90", "--out", "m.safetensors"), 0);
    assert_string_equal(err.text, "interrupted after the last iteration");
    assert_string_equal(err.why,
                        "the test was finished, and the model was written to 'm.safetensors'");
    err = interrupted(&outcome, OPTIONS("--epochs", "3"), SIGTERM);
    assert_string_equal(err.text, "stopped by SIGTERM after the last iteration");
    assert_string_equal(err.why, "the test was finished");
    err = interrupted(&outcome, OPTIONS("--epochs", "4"), 0);
    assert_string_equal(err.text, "interrupted after 90 iterations");
    train_outcome_fini(&outcome);
    outcome = an_outcome(2, &mem_libc); /* asked twice: there is no report */
    last.iteration = last.iterations;
    outcome.begun = true;
    train_outcome_moment(&outcome, &last);
    err = interrupted(&outcome, OPTIONS("--workers", "2", "--out", "m.safetensors"), 0);
    assert_string_equal(err.text, "interrupted after the last iteration");
    find(err.why, "the test was not finished, and the model was not written to");
    train_outcome_fini(&outcome);
}

TEST(learners_that_were_stopped_count_as_the_mean_of_them)
{
    (void)state;
    struct train_request request = REQUEST("--learners", "2", "--optimizer", "sgd");
    struct train_outcome outcome = an_outcome(2, &mem_libc);
    /* Rank 0 did 90 iterations since 50, the other one 61: 151 gradients of 10 samples. */
    struct train_report report = {.rank = 0,
                                  .first = 50,
                                  .iterations = 140,
                                  .epochs = 7,
                                  .applied = 151,
                                  .batch = 10,
                                  .train_samples = 400};
    tri_error err;
    train_outcome_even(&outcome, &request); /* without a report there is nothing to do */
    train_outcome_moment(&outcome, &moment);
    train_outcome_report(&outcome, &report);
    train_outcome_even(&outcome, &request);
    assert_int_equal(outcome.report.iterations, 125);
    assert_float_equal(outcome.report.epochs, 6.25, 1e-12);
    outcome.moment.iterations = 1000;
    outcome.moment.epochs = 50;
    err = interrupted(&outcome, OPTIONS("--learners", "2"), 0); /* not by the last moment */
    assert_string_equal(err.text, "interrupted after 6.25 of 50 epochs");
    train_outcome_fini(&outcome);
}

TEST(what_nobody_knows_of_learners_is_not_told_as_a_number)
{
    (void)state;
    struct train_request request = REQUEST("--learners", "2", "--optimizer", "sgd");
    struct train_outcome outcome = an_outcome(2, &mem_libc);
    struct buf out;
    give_report(&outcome, 0, 0xabc);
    outcome.ranks[0].loss = outcome.ranks[0].accuracy = NAN; /* it has only tested */
    outcome.report.test_accuracy = NAN;
    outcome.gone = 1;
    buf_init(&out, &mem_libc);
    train_text(&outcome, &request, &out);
    find(buf_string(&out), "\ntest accuracy  not known\n");
    find(buf_string(&out), "\nwent on with 1 of 2 learners\n");
    assert_null(strstr(buf_string(&out), "nan"));
    buf_clear(&out);
    train_json(&outcome, &request, &out);
    find(buf_string(&out), "\"train_loss\": null");
    find(buf_string(&out), "\"learners_gone\": 1");
    buf_clear(&out);
    give_report(&outcome, 1, 0xabc);
    outcome.ranks[1].loss = 0.125;
    outcome.ranks[1].accuracy = 0.5;
    train_text(&outcome, &request, &out);
    find(buf_string(&out), "loss 0.1250, accuracy 0.5000 over");
    buf_fini(&out);
    train_outcome_fini(&outcome);
}

TEST(before_the_first_iteration_is_said_where_it_is_true)
{
    (void)state;
    struct train_outcome outcome = an_outcome(1, &mem_libc);
    tri_error err = interrupted(&outcome, OPTIONS("--epochs", "3"), 0);
    assert_string_equal(err.text, "interrupted before the first iteration");
    outcome.begun = true;
    err = interrupted(&outcome, OPTIONS("--epochs", "3"), 0);
    assert_string_equal(err.text, "interrupted before the first result");
    train_outcome_fini(&outcome);
}

/* As the lines of logs say it. */
static struct train_event an_event(const char *line, bool stopping)
{
    struct train_event event = {.rank = 1};
    train_event_of(1, line, &event);
    if (stopping)
        train_event_stopping(&event);
    return event;
}

TEST(workers_that_stop_one_after_the_other_are_a_note)
{
    (void)state;
    static const char *const lines[] = {
        "trident j worker 1: error: rank 2 (with server 2) closed at clock 50, and others go on",
        "trident j worker 1: warn: rank 2 is out of the job: closed at clock 5, and others go on",
        "trident j worker 1: warn: going on without rank 2 at 127.0.0.1:9",
        "trident j worker 1: warn: clock 5 is not saved: no space left"};
    struct train_outcome outcome = an_outcome(3, &mem_libc);
    struct train_request request = REQUEST("--consistency", "asp");
    char *shown = NULL;
    size_t len = 0;
    struct train_live live;
    train_live_init(&live, open_memstream(&shown, &len));
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct train_event event = an_event(lines[i], true);
        assert_string_equal(event.kind, i < 3 ? "stopped" : "warning");
        assert_string_not_equal(an_event(lines[i], false).kind, "stopped");
        train_live_event(&live, &event);
        train_outcome_event(&outcome, &event);
    }
    fclose(live.file);
    assert_string_equal(shown,
                        "trident train: note: workers stop one after the other: rank 2 (with "
                        "server 2) closed at clock 50, and others go on\n"
                        "trident train: rank 1: clock 5 is not saved: no space left\n");
    free(shown);
    struct buf out;
    buf_init(&out, &mem_libc);
    give_report(&outcome, 0, 1);
    train_text(&outcome, &request, &out);
    find(buf_string(&out), "\n1 warning on the way");
    buf_fini(&out);
    train_outcome_fini(&outcome);
}

TEST(refused_memory_is_told_by_the_buffer)
{
    (void)state;
    struct fault fault = {0};
    struct train_request request = REQUEST("--profile");
    struct train_outcome outcome = an_outcome(1, &mem_libc);
    give_report(&outcome, 0, 1);
    FAULT_WALK(&fault)
    {
        struct buf out;
        buf_init(&out, &fault.mem);
        train_text(&outcome, &request, &out);
        assert_int_equal(buf_ok(&out), !fault.hit);
        buf_fini(&out);
    }
    train_outcome_fini(&outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_has_all_parts_where_there_is_room),
        cmocka_unit_test(the_line_fits_any_width_and_never_cuts_a_part),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(without_a_terminal_each_epoch_is_one_line),
        cmocka_unit_test(the_summary_names_what_matters),
        cmocka_unit_test(with_one_worker_nothing_travels),
        cmocka_unit_test(what_learners_with_copies_have_in_common_is_named),
        cmocka_unit_test(what_to_try_next_has_what_it_needs),
        cmocka_unit_test(what_to_try_next_is_the_same_run_but_for_one_thing),
        cmocka_unit_test(what_does_not_go_with_the_one_thing_is_left_out),
        cmocka_unit_test(the_model_is_tried_on_what_it_was_tested_with),
        cmocka_unit_test(the_document_lists_the_tests),
        cmocka_unit_test(a_test_that_finds_no_memory_is_forgotten),
        cmocka_unit_test(the_document_has_every_field_of_the_contract),
        cmocka_unit_test(the_document_of_learners_has_nothing_that_only_workers_have),
        cmocka_unit_test(replicas_that_differ_are_an_error_under_bsp_alone),
        cmocka_unit_test(the_rate_of_learners_is_by_the_time_until_the_last_is_done),
        cmocka_unit_test(learners_that_were_stopped_count_as_the_mean_of_them),
        cmocka_unit_test(an_interrupted_run_shows_its_last_moment),
        cmocka_unit_test(a_signal_in_the_last_test_is_told_with_what_became_of_the_model),
        cmocka_unit_test(what_nobody_knows_of_learners_is_not_told_as_a_number),
        cmocka_unit_test(before_the_first_iteration_is_said_where_it_is_true),
        cmocka_unit_test(workers_that_stop_one_after_the_other_are_a_note),
        cmocka_unit_test(refused_memory_is_told_by_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
