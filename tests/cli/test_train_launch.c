/* trident train with a stand-in for the engine: in process, as a rank of somebody else's job, and
 * as a launcher, whose workers are processes of this test. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/train.h"
#include "lib/test.h"

/* ---- the stand-in ---- */

/* --data says what happens; rank 1 is the one it happens to, where it matters. */
struct play {
    const struct train_options *options;
    const struct train_calls *calls;
    uint32_t rank, workers;
};

static uint32_t number_of(const char *name, uint32_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : fallback;
}

static bool plays(const struct play *play, const char *what)
{
    return strcmp(play->options->data.data, what) == 0;
}

static tri_status refuse(tri_error *err, tri_status status, const char *text)
{
    *err = (tri_error){.status = status};
    (void)snprintf(err->text, sizeof err->text, "%s", text);
    (void)snprintf(err->next, sizeof err->next, "do better");
    return status;
}

/* Until the launcher has seen rank 0 end; a signal of the launcher may end it. */
static void await_end_of_rank_0(void)
{
    char first = 0;
    while (first != '0') {
        FILE *ended = fopen(getenv("TRIDENT_ENDED"), "re");
        first = ended != NULL ? (char)fgetc(ended) : '0';
        if (ended != NULL)
            fclose(ended);
        (void)usleep(1000);
    }
}

/* Rank 0 only says that another is gone, and is first to end; rank 1 has the reason. */
static tri_status fail_in_start_up(const struct play *play, tri_error *err)
{
    if (play->rank == 0)
        return refuse(err, TRI_EPEER, "rank 1 is gone");
    await_end_of_rank_0();
    return refuse(err, TRI_EINPUT, "the data is bad");
}

static struct train_report report_of(const struct play *play, uint64_t iterations,
                                     const struct mem *mem)
{
    uint32_t crc = plays(play, "differ") ? 7 + play->rank : 7;
    struct train_report report = {.rank = play->rank,
                                  .workers = play->workers,
                                  .iterations = iterations,
                                  .epochs = 2,
                                  .test_accuracy = 0.5,
                                  .sent_bytes = 10,
                                  .params_crc32c = crc,
                                  .layer_count = 1};
    report.layers = mem_array(mem, 1, sizeof *report.layers);
    assert_non_null(report.layers);
    report.layers[0] = (struct train_layer){"fc1", "sfb", 3, 4, false};
    return report;
}

/* Ends when it is told to, or never. */
static uint64_t iterate(const struct play *play)
{
    bool forever = plays(play, "forever") || plays(play, "killed") || plays(play, "one-fails");
    uint64_t last = forever ? UINT64_MAX : 4;
    for (uint64_t i = 1; i <= last; i++) {
        struct train_moment moment = {
            .iteration = i, .iterations = 4, .epoch = 0.5 * (double)i, .epochs = 2};
        if (!play->calls->moment(play->calls->ctx, &moment))
            return i;
        if (forever)
            (void)usleep(10000);
    }
    return last;
}

static tri_status stand_in(const struct train_options *options, const struct train_calls *calls,
                           const struct mem *mem, struct train_report *out, tri_error *err)
{
    struct play play = {options, calls, number_of("RANK", 0), number_of("WORLD_SIZE", 1)};
    if (plays(&play, "bad-data"))
        return refuse(err, TRI_EINPUT, "the data is bad");
    if (plays(&play, "reason-comes-later"))
        return fail_in_start_up(&play, err);
    if (play.rank == 1 && plays(&play, "killed"))
        (void)raise(SIGKILL);
    if (play.rank == 1 && plays(&play, "one-fails"))
        return refuse(err, TRI_EIO, "the disk is gone");
    if (play.rank == 1 && plays(&play, "silent"))
        _exit(0);
    struct train_report begun = {.workers = play.workers, .train_samples = 100};
    calls->begun(calls->ctx, &begun);
    calls->log(calls->ctx, 1, "trident x worker 0: warn: going on without rank 9");
    if (plays(&play, "chatty")) {
        puts("not for the launcher");
        (void)fflush(stdout);
        fputs("for everybody\n", stderr);
    }
    if (plays(&play, "told-in-test")) { /* too short a training for a moment */
        (void)raise(SIGINT);
        *out = report_of(&play, 4, mem);
        return TRI_OK;
    }
    *out = report_of(&play, iterate(&play), mem);
    return TRI_OK;
}

/* ---- running it ---- */

struct run {
    int code;
    char *out, *err;
    tri_error error;
};

/* As commands.c does it, with the stand-in. */
static int command(struct cli *cli, int argc, const char *const *argv, tri_error *err)
{
    struct buf out;
    buf_init(&out, cli->mem);
    tri_status status = train_with(cli, argc, argv, stand_in, &out, err);
    if (status == TRI_OK || cli->keep)
        fputs(buf_string(&out), cli->out);
    if (status != TRI_OK && !cli->told)
        fprintf(cli->err, "failed: %s\n", err->text);
    buf_fini(&out);
    if (cli->interrupted)
        return CLI_INTERRUPTED;
    return status == TRI_OK ? CLI_DONE : status == TRI_EINPUT ? CLI_USAGE : CLI_FAILED;
}

static struct run run(const char *data, const char *workers, const char *more)
{
    const char *argv[8] = {"--data", data, "--model", "lenet"};
    int argc = 4;
    if (workers != NULL) {
        argv[argc++] = "--workers";
        argv[argc++] = workers;
    }
    if (more != NULL)
        argv[argc++] = more;
    struct run run = {0};
    size_t out_len = 0, err_len = 0;
    struct fault fault;
    fault_init(&fault);
    struct cli cli = {.mem = &fault.mem,
                      .out = open_memstream(&run.out, &out_len),
                      .err = open_memstream(&run.err, &err_len)};
    assert_non_null(cli.out);
    assert_non_null(cli.err);
    run.code = command(&cli, argc, argv, &run.error);
    fclose(cli.out);
    fclose(cli.err);
    assert_int_equal(fault.live, 0);
    return run;
}

static void run_free(struct run *run)
{
    free(run->out);
    free(run->err);
}

static void find(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in\n%s", part, text);
}

/* Of a document, without the spaces and line ends that JSON does not mind. */
static void find_packed(char *json, const char *part)
{
    size_t len = 0;
    for (const char *at = json; *at != '\0'; at++)
        if (*at != ' ' && *at != '\n')
            json[len++] = *at;
    json[len] = '\0';
    find(json, part);
}

static void outside_a_job(void)
{
    static const char *const names[] = {"RANK", "WORLD_SIZE", "TRIDENT_RANK", "TRIDENT_WORKERS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
}

static int leave_job(void **state)
{
    (void)state;
    outside_a_job();
    return 0;
}

/* ---- one process ---- */

TEST(one_worker_runs_in_this_process)
{
    (void)state;
    struct run alone = run("x", "1", "--json");
    assert_int_equal(alone.code, CLI_DONE);
    find(alone.out, "\"workers\": 1");
    find_packed(alone.out, "\"params_crc32c_by_rank\":[\"00000007\"]");
    find(alone.out, "\"kind\":\"evicted\"");
    find(alone.err, "epoch 1.00/2");
    run_free(&alone);
}

TEST(a_failure_in_this_process_prints_nothing_on_standard_output)
{
    (void)state;
    struct run alone = run("bad-data", NULL, NULL);
    assert_int_equal(alone.code, CLI_USAGE);
    assert_string_equal(alone.out, "");
    assert_string_equal(alone.err, "failed: the data is bad\n");
    assert_string_equal(alone.error.next, "do better");
    run_free(&alone);
}

TEST(under_a_launcher_only_rank_0_speaks)
{
    (void)state;
    (void)setenv("MASTER_ADDR", "127.0.0.1", 1);
    (void)setenv("MASTER_PORT", "9", 1);
    (void)setenv("WORLD_SIZE", "3", 1);
    (void)setenv("RANK", "1", 1);
    struct run other = run("x", "3", NULL);
    assert_int_equal(other.code, CLI_DONE);
    assert_string_equal(other.out, "");
    assert_string_equal(other.err, "");
    run_free(&other);
    (void)setenv("RANK", "0", 1);
    struct run first = run("x", NULL, "--json");
    assert_int_equal(first.code, CLI_DONE);
    find_packed(first.out, "\"params_crc32c_by_rank\":[\"00000007\",null,null]");
    run_free(&first);
    struct run wrong = run("x", "2", NULL);
    assert_int_equal(wrong.code, CLI_USAGE);
    find(wrong.error.why, "one of 3 that a launcher has started");
    run_free(&wrong);
}

/* ---- several ---- */

TEST(all_workers_report_to_the_launcher)
{
    (void)state;
    struct run job = run("x", "3", "--json");
    assert_int_equal(job.code, CLI_DONE);
    find_packed(job.out, "\"workers\":3,");
    find(job.out, "\"params_crc32c_by_rank\":[\"00000007\",\"00000007\",\"00000007\"]");
    find(job.out, "\"sent_bytes\":30,");
    find(job.out, "\"fc1\":\"sfb\"");
    find(job.err, "100 samples, 3 workers");
    find(job.err, "epoch 2.00/2");
    run_free(&job);
}

TEST(other_output_of_workers_goes_to_standard_error_with_their_rank)
{
    (void)state;
    struct run job = run("chatty", "2", "--json");
    assert_int_equal(job.code, CLI_DONE);
    assert_int_equal(job.out[0], '{');
    find(job.err, "[0] not for the launcher\n");
    find(job.err, "[1] not for the launcher\n");
    find(job.err, "[1] for everybody\n");
    run_free(&job);
}

TEST(bad_data_is_told_once)
{
    (void)state;
    struct run job = run("bad-data", "3", NULL);
    assert_int_equal(job.code, CLI_USAGE);
    assert_string_equal(job.out, "");
    assert_string_equal(job.err, "failed: the data is bad\n");
    assert_string_equal(job.error.next, "do better");
    run_free(&job);
}

TEST(a_worker_that_fails_is_named_and_stops_the_others)
{
    (void)state;
    struct run job = run("one-fails", "3", NULL);
    assert_int_equal(job.code, CLI_FAILED);
    find(job.error.text, "rank 1 failed: the disk is gone");
    assert_string_equal(job.out, "");
    run_free(&job);
}

TEST(a_worker_that_is_killed_is_named)
{
    (void)state;
    struct run job = run("killed", "2", NULL);
    assert_int_equal(job.code, CLI_FAILED);
    find(job.error.text, "rank 1 (pid ");
    find(job.error.text, "was killed by SIGKILL");
    run_free(&job);
}

TEST(a_worker_without_a_result_is_an_error)
{
    (void)state;
    struct run job = run("silent", "2", NULL);
    assert_int_equal(job.code, CLI_FAILED);
    assert_string_equal(job.error.text, "rank 1 ended without a result");
    run_free(&job);
}

TEST(parameters_that_differ_are_an_error)
{
    (void)state;
    struct run job = run("differ", "2", NULL);
    assert_int_equal(job.code, CLI_FAILED);
    assert_int_equal(job.error.status, TRI_EMISMATCH);
    assert_string_equal(job.out, "");
    run_free(&job);
}

/* The moment that the others have is short for a machine that is busy: one of some tries is
 * enough. */
TEST(the_reason_comes_through_though_another_rank_fails_first)
{
    (void)state;
    enum { TRIES = 10 };
    struct run job = run("reason-comes-later", "2", NULL);
    for (int i = 1; i < TRIES && job.code != CLI_USAGE; i++) {
        run_free(&job);
        job = run("reason-comes-later", "2", NULL);
    }
    assert_int_equal(job.code, CLI_USAGE);
    assert_string_equal(job.error.text, "the data is bad");
    assert_string_equal(job.error.next, "do better");
    run_free(&job);
}

/* Rank 0 may be heard of first: it ends when it sees that rank 1 is gone. */
TEST(who_only_blames_another_is_not_told_of)
{
    (void)state;
    const tri_error none = {0}, mine = {.status = TRI_EIO}, gone = {.status = TRI_EPEER};
    assert_true(train_blames(&gone, &mine));
    assert_true(train_blames(&gone, &none)); /* it was killed */
    assert_false(train_blames(&gone, &gone));
    assert_false(train_blames(&mine, &mine));
    assert_false(train_blames(&mine, &gone));
    assert_false(train_blames(&none, &mine));
}

/* A copy of this process gets Ctrl-C when its job is under way. */
static int interrupt(const char *workers)
{
    int pipes[2];
    char byte = 0;
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const char *argv[] = {"--data", "forever", "--model", "lenet", "--workers", workers};
        tri_error err = {0};
        struct cli cli = {
            .mem = &mem_libc, .out = fdopen(pipes[1], "w"), .err = fdopen(dup(pipes[1]), "w")};
        setvbuf(cli.err, NULL, _IONBF, 0);
        int code = command(&cli, 6, argv, &err);
        (void)fflush(cli.out);
        _exit(code);
    }
    (void)close(pipes[1]);
    char text[20000];
    size_t len = 0;
    bool told = false;
    while (read(pipes[0], &byte, 1) == 1 && len + 1 < sizeof text) {
        text[len++] = byte;
        text[len] = '\0';
        if (!told && strstr(text, "epoch 1.00") != NULL) {
            told = true;
            (void)kill(pid, SIGINT);
        }
    }
    (void)close(pipes[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    find(text, "failed: interrupted after ");
    find(text, "test accuracy  0.5000");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ctrl_c_prints_what_there_is)
{
    (void)state;
    assert_int_equal(interrupt("1"), CLI_INTERRUPTED);
    assert_int_equal(interrupt("3"), CLI_INTERRUPTED);
}

TEST(ctrl_c_in_the_last_test_is_told_as_that)
{
    (void)state;
    struct run alone = run("told-in-test", "1", "--iterations=4");
    assert_int_equal(alone.code, CLI_INTERRUPTED);
    find(alone.err, "failed: interrupted after the last iteration\n");
    assert_string_equal(alone.error.why, "the test was finished");
    find(alone.out, "test accuracy  0.5000");
    run_free(&alone);
}

/* What can be found out without the data is, before anything is started. */
TEST(impossible_requests_start_nothing)
{
    (void)state;
    struct run servers = run("x", "2", "--servers=3");
    assert_int_equal(servers.code, CLI_USAGE);
    find(servers.error.text, "--servers");
    run_free(&servers);
    struct run path = run("x", "2", "--out=/nowhere/at/all.safetensors");
    assert_int_equal(path.code, CLI_USAGE);
    find(path.error.text, "/nowhere/at/all");
    run_free(&path);
}

/* The launcher starts this program again: then it is a worker. */
static int be_worker(int argc, char **argv)
{
    tri_error err = {0};
    struct cli cli = {.mem = &mem_libc, .out = stdout, .err = stderr};
    return command(&cli, argc - 2, (const char *const *)argv + 2, &err);
}

int main(int argc, char **argv)
{
    if (getenv(TRAIN_WORKER) != NULL)
        return be_worker(argc, argv);
    outside_a_job();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_runs_in_this_process),
        cmocka_unit_test(a_failure_in_this_process_prints_nothing_on_standard_output),
        cmocka_unit_test_teardown(under_a_launcher_only_rank_0_speaks, leave_job),
        cmocka_unit_test(all_workers_report_to_the_launcher),
        cmocka_unit_test(other_output_of_workers_goes_to_standard_error_with_their_rank),
        cmocka_unit_test(bad_data_is_told_once),
        cmocka_unit_test(a_worker_that_fails_is_named_and_stops_the_others),
        cmocka_unit_test(a_worker_that_is_killed_is_named),
        cmocka_unit_test(a_worker_without_a_result_is_an_error),
        cmocka_unit_test(parameters_that_differ_are_an_error),
        cmocka_unit_test(the_reason_comes_through_though_another_rank_fails_first),
        cmocka_unit_test(who_only_blames_another_is_not_told_of),
        cmocka_unit_test(ctrl_c_prints_what_there_is),
        cmocka_unit_test(ctrl_c_in_the_last_test_is_told_as_that),
        cmocka_unit_test(impossible_requests_start_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
