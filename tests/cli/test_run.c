/* trident run from outside: what signals do to it, and that nothing outlives it. And what its
 * servers are told, which no program of ours prints. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run.h"
#include "lib/test.h"
#include "os/file.h"

enum { PATIENCE_MS = 20000 };

/* A trident run. Every process that it has started holds `alive`, until it ends. */
struct job {
    pid_t pid;
    int out, alive;
};

static void command_path(char path[4096])
{
    struct buf folder;
    buf_init(&folder, &mem_libc);
    assert_int_equal(file_program_folder(&folder, NULL), TRI_OK);
    (void)snprintf(path, 4096, "%s/trident", buf_string(&folder));
    buf_fini(&folder);
}

/* Starts two processes of a shell script; what they print is job->out, with errors or without. */
static void start(struct job *job, const char *script, const char *option, bool errors)
{
    char path[4096];
    int out[2], alive[2];
    command_path(path);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(alive, O_CLOEXEC), 0);
    job->pid = fork();
    assert_true(job->pid >= 0);
    if (job->pid == 0) {
        (void)dup2(out[1], 1);
        (void)dup2(errors ? out[1] : open("/dev/null", O_WRONLY), 2);
        (void)fcntl(alive[1], F_SETFD, 0);
        (void)execl(path, "trident", "run", "-n", "2", option, "--", "sh", "-c", script,
                    (char *)NULL);
        _exit(99);
    }
    close(out[1]);
    close(alive[1]);
    job->out = out[0];
    job->alive = alive[0];
}

static bool ready(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, PATIENCE_MS) == 1;
}

/* Reads until `count` lines have come, or the end. */
static size_t read_lines(int fd, size_t count, char *text, size_t size)
{
    size_t len = 0, lines = 0;
    while (lines < count && len + 1 < size) {
        assert_true(ready(fd));
        ssize_t got = read(fd, text + len, 1);
        if (got <= 0)
            break;
        lines += text[len++] == '\n';
    }
    text[len] = '\0';
    return lines;
}

static void await_ready(const struct job *job)
{
    char text[400];
    if (read_lines(job->out, 2, text, sizeof text) != 2)
        fail_msg("trident run did not start its processes: %s", text);
}

static void start_ready(struct job *job, const char *script)
{
    start(job, script, "--timeout=100s", true);
    await_ready(job);
}

/* Waits for the end of trident run, and sees that no process is left. */
static int finish(struct job *job, char *text, size_t size)
{
    int status = 0;
    char byte;
    (void)read_lines(job->out, (size_t)-1, text, size);
    assert_int_equal(waitpid(job->pid, &status, 0), job->pid);
    assert_true(ready(job->alive)); /* its end has come, as nobody writes to it */
    assert_int_equal(read(job->alive, &byte, 1), 0);
    close(job->out);
    close(job->alive);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Says a line and sleeps in a process of its own, as a script that starts python does. */
#define SLEEPS "echo ready; sleep 100 & sleep 100"

static void ends(const char *script, int number, int code, const char *says)
{
    struct job job;
    char text[2000];
    start_ready(&job, script);
    assert_int_equal(kill(job.pid, number), 0);
    int got = finish(&job, text, sizeof text);
    if (got != code || strstr(text, says) == NULL)
        fail_msg("%s and signal %d: exit code %d, '%s'", script, number, got, text);
}

TEST(signals_stop_the_job_and_all_it_started)
{
    (void)state;
    ends(SLEEPS, SIGINT, CLI_INTERRUPTED, "SIGINT: stopping 2 processes\n");
    ends(SLEEPS, SIGTERM, CLI_FAILED, "trident run: stopped by SIGTERM\n");
    ends(SLEEPS, SIGHUP, CLI_FAILED, "trident run: stopped by SIGHUP\n");
}

TEST(processes_hear_the_signal_and_may_end_in_their_own_way)
{
    (void)state;
    ends("trap 'echo by $RANK; exit 0' INT; echo ready; sleep 100 & wait", SIGINT, CLI_INTERRUPTED,
         "[1] by 1\n");
}

TEST(a_stopped_process_is_woken_to_end)
{
    (void)state;
    ends("echo ready; kill -STOP $$; sleep 100", SIGTERM, CLI_FAILED, "stopped by SIGTERM");
}

TEST(asked_twice_it_kills)
{
    (void)state;
    struct job job;
    char text[2000];
    start_ready(&job, "trap '' INT; echo ready; sleep 100; sleep 100");
    assert_int_equal(kill(job.pid, SIGINT), 0);
    assert_int_equal(read_lines(job.out, 1, text, sizeof text), 1);
    assert_int_equal(kill(job.pid, SIGINT), 0);
    assert_int_equal(finish(&job, text, sizeof text), CLI_INTERRUPTED);
    assert_non_null(strstr(text, "2 processes did not stop: killed"));
}

TEST(nothing_outlives_a_killed_trident_run)
{
    (void)state;
    struct job job;
    char text[2000];
    start_ready(&job, SLEEPS);
    assert_int_equal(kill(job.pid, SIGKILL), 0);
    assert_int_equal(finish(&job, text, sizeof text), 1000 + SIGKILL);
}

TEST(a_reader_that_stopped_reading_does_not_keep_it_from_stopping)
{
    (void)state;
    struct job job;
    start(&job, "echo ready; exec yes", "--timeout=1s", false);
    await_ready(&job);
    struct pollfd ended = {.fd = job.alive, .events = POLLIN};
    assert_int_equal(poll(&ended, 1, PATIENCE_MS), 1); /* and nobody has read another byte */
    char text[200];
    while (read(job.out, text, sizeof text) > 0)
        continue;
    assert_int_equal(finish(&job, text, sizeof text), CLI_FAILED);
}

TEST(a_reader_that_is_gone_stops_it)
{
    (void)state;
    struct job job;
    int status = 0;
    start(&job, "echo ready; exec yes", "--timeout=100s", false);
    await_ready(&job);
    close(job.out);
    assert_int_equal(waitpid(job.pid, &status, 0), job.pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == CLI_FAILED);
    close(job.alive);
}

/* ---- what a server is told ---- */

static const char *value_of(const struct run_environment *environment, const char *name)
{
    size_t len = strlen(name);
    for (char **entry = environment->list; *entry != NULL; entry++)
        if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=')
            return *entry + len + 1;
    return NULL;
}

static void read_request(struct run_request *request)
{
    static const char *const words[] = {"-n", "3",     "--servers", "2",  "--colocate",
                                        "no", "--env", "EXTRA=1",   "--", "true"};
    assert_int_equal(run_read(sizeof words / sizeof words[0], words, request, &mem_libc, NULL),
                     TRI_OK);
}

TEST(a_server_has_a_node_and_no_rank)
{
    (void)state;
    struct run_request request;
    struct run_environment environment;
    const struct run_job job = {
        .name = "true-1", .token = "secret", .address = "127.0.0.1", .port = 4000, .threads = 1};
    read_request(&request);
    assert_int_equal(run_servers(&request), 2);
    assert_int_equal(setenv("RANK", "8", 1), 0); /* of an outer job */
    run_environment_init(&environment, &mem_libc);
    assert_int_equal(run_environment_of(&request, &job, 4, &environment, NULL), TRI_OK);
    assert_null(value_of(&environment, "RANK"));
    assert_null(value_of(&environment, "TRIDENT_RANK"));
    assert_string_equal(value_of(&environment, "TRIDENT_NODE"), "4");
    assert_string_equal(value_of(&environment, "TRIDENT_WORKERS"), "3");
    assert_string_equal(value_of(&environment, "TRIDENT_SERVERS"), "2");
    assert_string_equal(value_of(&environment, "TRIDENT_COLOCATE"), "no");
    assert_string_equal(value_of(&environment, "TRIDENT_TOKEN"), "secret");
    assert_string_equal(value_of(&environment, "TRIDENT_JOB"), "true-1");
    assert_string_equal(value_of(&environment, "TRIDENT_COORDINATOR"), "127.0.0.1:4001");
    assert_string_equal(value_of(&environment, "EXTRA"), "1");
    run_environment_fini(&environment);
    run_request_free(&request, &mem_libc);
    (void)unsetenv("RANK");
}

TEST(tokens_differ_and_names_are_harmless)
{
    (void)state;
    static const char *const words[] = {"-n", "1", "--", "./a b/c d;\n"};
    struct run_request request;
    struct run_job one, two;
    assert_int_equal(run_read(4, words, &request, &mem_libc, NULL), TRI_OK);
    assert_int_equal(run_job_init(&one, &request, NULL), TRI_OK);
    assert_int_equal(run_job_init(&two, &request, NULL), TRI_OK);
    assert_int_equal(strlen(one.token), 32);
    assert_string_not_equal(one.token, two.token);
    assert_int_equal(strncmp(one.name, "c_d__-", 6), 0);
    assert_true(one.port > 1023 && one.port < 65535);
    run_request_free(&request, &mem_libc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_stop_the_job_and_all_it_started),
        cmocka_unit_test(processes_hear_the_signal_and_may_end_in_their_own_way),
        cmocka_unit_test(a_stopped_process_is_woken_to_end),
        cmocka_unit_test(asked_twice_it_kills),
        cmocka_unit_test(nothing_outlives_a_killed_trident_run),
        cmocka_unit_test(a_reader_that_stopped_reading_does_not_keep_it_from_stopping),
        cmocka_unit_test(a_reader_that_is_gone_stops_it),
        cmocka_unit_test(a_server_has_a_node_and_no_rank),
        cmocka_unit_test(tokens_differ_and_names_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
