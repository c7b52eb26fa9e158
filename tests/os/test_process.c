/* Children: found, started, ended. What signals do to a whole job is tests/cli/test_run.c. */
#include "os/process.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/test.h"

static struct process start_shell(const char *script)
{
    char shell[] = "sh", option[] = "-c", text[200], name[] = "NAME=value";
    (void)snprintf(text, sizeof text, "%s", script);
    char *const argv[] = {shell, option, text, NULL}, *const envp[] = {name, NULL};
    const struct process_plan plan = {.path = "/bin/sh", .argv = argv, .envp = envp, .input = -1};
    struct process process;
    assert_int_equal(process_start(&plan, &process, NULL), TRI_OK);
    return process;
}

static void await(const struct process *process, struct process_end *end)
{
    while (!process_ended(process, end))
        (void)poll(NULL, 0, 5);
}

static void read_all(int fd, char *text, size_t size)
{
    size_t len = 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (len + 1 < size && poll(&ready, 1, 10000) == 1) {
        ssize_t got = read(fd, text + len, size - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    text[len] = '\0';
}

TEST(a_child_has_its_environment_and_reads_nothing)
{
    (void)state;
    struct process process = start_shell("cat; echo $NAME; echo wrong >&2");
    char out[100], err[100];
    read_all(process.out, out, sizeof out);
    read_all(process.err, err, sizeof err);
    assert_string_equal(out, "value\n");
    assert_string_equal(err, "wrong\n");
    process_reap(&process);
    assert_int_equal(process.pid, 0);
    assert_int_equal(process.out, -1);
}

TEST(how_it_ended_can_be_asked_until_it_is_reaped)
{
    (void)state;
    struct process_end end;
    struct process process = start_shell("exit 7");
    await(&process, &end);
    assert_true(process_ended(&process, &end));
    assert_int_equal(end.code, 7);
    assert_int_equal(end.signal, 0);
    process_reap(&process);

    process = start_shell("sleep 100 & sleep 100");
    assert_false(process_ended(&process, &end));
    process_signal(&process, SIGTERM);
    await(&process, &end);
    assert_int_equal(end.code, 0);
    assert_int_equal(end.signal, SIGTERM);
    process_reap(&process);
}

TEST(what_cannot_be_started_is_said_and_leaves_nothing)
{
    (void)state;
    char name[] = "x";
    char *const argv[] = {name, NULL}, *const envp[] = {NULL};
    const struct process_plan plan = {
        .path = "/no/such/program", .argv = argv, .envp = envp, .input = -1};
    struct process process;
    tri_error err;
    int before = open("/dev/null", O_RDONLY);
    assert_int_equal(process_start(&plan, &process, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "/no/such/program"));
    int after = open("/dev/null", O_RDONLY);
    assert_int_equal(after, before + 1); /* no descriptor was left open */
    close(before);
    close(after);
}

TEST(programs_are_found_in_path_or_by_their_path)
{
    (void)state;
    struct buf path;
    tri_error err;
    buf_init(&path, &mem_libc);
    assert_int_equal(process_find("sh", &path, NULL), TRI_OK);
    assert_int_equal(access(buf_string(&path), X_OK), 0);
    buf_clear(&path);
    assert_int_equal(process_find("/bin/sh", &path, NULL), TRI_OK);
    assert_string_equal(buf_string(&path), "/bin/sh");
    buf_clear(&path);
    assert_int_equal(process_find("", &path, &err), TRI_EINPUT);
    assert_int_equal(process_find("/dev/null", &path, &err), TRI_EINPUT);
    assert_int_equal(process_find("no-such-program", &path, &err), TRI_EINPUT);
    buf_fini(&path);
}

TEST(signals_are_as_before_when_they_are_given_back)
{
    (void)state;
    struct process_signals signals;
    struct sigaction before, after;
    sigset_t mask;
    assert_int_equal(sigaction(SIGPIPE, NULL, &before), 0);
    assert_int_equal(process_signals_open(&signals, NULL), TRI_OK);
    assert_int_equal(process_signals_next(&signals), 0);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(process_signals_next(&signals), SIGTERM);
    assert_int_equal(raise(SIGTERM), 0); /* not read: it must not end the test below */
    process_signals_close(&signals);
    assert_int_equal(sigaction(SIGPIPE, NULL, &after), 0);
    assert_ptr_equal(before.sa_handler, after.sa_handler);
    assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &mask), 0);
    assert_false(sigismember(&mask, SIGTERM));
}

TEST(signals_have_names)
{
    (void)state;
    char name[PROCESS_SIGNAL_TEXT];
    assert_string_equal(process_signal_name(SIGKILL, name), "SIGKILL");
    assert_string_equal(process_signal_name(SIGSEGV, name), "SIGSEGV");
    assert_string_equal(process_signal_name(50, name), "signal 50");
}

TEST(a_keeper_needs_memory_and_ends_with_its_user)
{
    (void)state;
    struct process_keeper keeper;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        tri_status status = process_keeper_open(&keeper, 3, &fault.mem, NULL);
        if (status != TRI_OK) {
            assert_int_equal(status, TRI_ENOMEM);
            continue;
        }
        process_keeper_add(&keeper, 1 << 30); /* no such group */
        process_keeper_remove(&keeper, 1 << 30);
        process_keeper_close(&keeper);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_has_its_environment_and_reads_nothing),
        cmocka_unit_test(how_it_ended_can_be_asked_until_it_is_reaped),
        cmocka_unit_test(what_cannot_be_started_is_said_and_leaves_nothing),
        cmocka_unit_test(programs_are_found_in_path_or_by_their_path),
        cmocka_unit_test(signals_are_as_before_when_they_are_given_back),
        cmocka_unit_test(signals_have_names),
        cmocka_unit_test(a_keeper_needs_memory_and_ends_with_its_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
