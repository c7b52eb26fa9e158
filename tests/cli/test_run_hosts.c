/* Lists of hosts, which process goes where, and what a host is told. */
#include "cli/run_hosts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run_part.h"
#include "cli/run_ssh.h"
#include "lib/test.h"

/* "a:2 b:1", as they were read. */
static void show(const struct run_hosts *hosts, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < hosts->count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s:%u", i > 0 ? " " : "",
                                 hosts->at[i].name, (unsigned)hosts->at[i].slots);
}

static tri_status parse(bool file, const char *text, char *out, size_t size, tri_error *err)
{
    struct run_hosts hosts;
    run_hosts_init(&hosts, &mem_libc);
    tri_status status = file ? run_hosts_parse_file("my.hosts", text, strlen(text), &hosts, err)
                             : run_hosts_parse_list(text, &hosts, err);
    show(&hosts, out, size);
    run_hosts_fini(&hosts);
    return status;
}

TEST(hostfiles_are_read_as_open_mpi_has_them)
{
    (void)state;
    static const char *const rows[][2] = {
        {"h1\nh2\n", "h1:1 h2:1"},
        {"h1 slots=4\nh2 slots=2 max_slots=8\nh3 max-slots=2", "h1:4 h2:2 h3:1"},
        {"# all\n\n  h1\tslots = 3 # big\r\n   \nuser@h2.example.org\n",
         "h1:3 user@h2.example.org:1"},
        {"h1\nh2\nh1 slots=2\n", "h1:3 h2:1"},
        {"192.0.2.7 slots=2\nfd00::7\n", "192.0.2.7:2 fd00::7:1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[200];
        tri_error err = {0};
        if (parse(true, rows[i][0], text, sizeof text, &err) != TRI_OK)
            fail_msg("%s: %s", rows[i][0], err.text);
        assert_string_equal(text, rows[i][1]);
    }
}

TEST(what_is_wrong_in_a_hostfile_is_told_with_its_line)
{
    (void)state;
    static const char *const rows[][3] = {
        {"h1\nh2 slots=0\n", "slots cannot be '0'", "my.hosts:2"},
        {"h1 slots=many", "slots cannot be 'many'", "my.hosts:1"},
        {"h1 slots=", "slots cannot be ''", "my.hosts:1"},
        {"h1 slots 4", "slots cannot be ''", "my.hosts:1"},
        {"h1 slots=2000", "slots cannot be '2000'", "my.hosts:1"},
        {"h1 slots=99999999999999999999999999", "slots cannot be '99999999999999999999999999'",
         "my.hosts:1"},
        {"\n\nh1 slot=2", "'slot' is not known", "my.hosts:3"},
        {"h1 slots=4 max_slots=2", "max_slots=2 is less than slots=4", "my.hosts:1"},
        {"-oProxyCommand=x", "'=' is not known", "my.hosts:1"},
        {"-v", "'-v' is not the name of a host", "my.hosts:1"},
        {"h1;reboot", "'h1;reboot' is not the name of a host", "my.hosts:1"},
        {"h1 =2", "'=' is not known", "my.hosts:1"},
        {"$(h)", "'$(h)' is not the name of a host", "my.hosts:1"},
        {"# nothing\n", "the file 'my.hosts' names no host", ""},
        {"", "the file 'my.hosts' names no host", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[200];
        tri_error err = {0};
        assert_int_equal(parse(true, rows[i][0], text, sizeof text, &err), TRI_EINPUT);
        assert_string_equal(err.text, rows[i][1]);
        assert_string_equal(err.where, rows[i][2]);
        assert_true(err.next[0] != '\0');
    }
}

#define BYTES(text) text, sizeof(text) - 1

TEST(a_nul_in_a_hostfile_is_told_with_its_line)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
    } rows[] = {{BYTES("h1\nh\0x\n")},
                {BYTES("h1\nh2 slots=2\0\n")},
                {BYTES("h1\nh2 slots=2\0\n0\n")},
                {BYTES("h1\nh2 # \0\n")},
                {BYTES("h1\n\0")}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run_hosts hosts;
        tri_error err = {0};
        run_hosts_init(&hosts, &mem_libc);
        assert_int_equal(run_hosts_parse_file("f", rows[i].text, rows[i].len, &hosts, &err),
                         TRI_EINPUT);
        assert_string_equal(err.text, "there is a NUL byte, which no text has");
        assert_string_equal(err.where, "f:2");
        assert_true(err.next[0] != '\0');
        run_hosts_fini(&hosts);
    }
}

TEST(a_byte_order_mark_is_skipped_where_a_file_begins)
{
    (void)state;
    char text[200];
    assert_int_equal(parse(true, "\xEF\xBB\xBFh1 slots=2\nh2\n", text, sizeof text, NULL), TRI_OK);
    assert_string_equal(text, "h1:2 h2:1");
    assert_int_equal(parse(true, "h1\n\xEF\xBB\xBFh2\n", text, sizeof text, NULL), TRI_EINPUT);
    assert_int_equal(parse(true, "\xEF\xBB", text, sizeof text, NULL), TRI_EINPUT);
}

TEST(lists_are_read)
{
    (void)state;
    static const char *const rows[][2] = {
        {"h1", "h1:1"},
        {"h1:2,h2", "h1:2 h2:1"},
        {"h1,h2:3,h1", "h1:2 h2:3"},
        {"[fd00::1]:4,[fd00::2]", "fd00::1:4 fd00::2:1"},
    };
    static const char *const wrong[] = {"",     ",h1",   "h1,",      "h1:",    "h1:0",  "h1:x",
                                        "-h1",  "h1 h2", "[fd00::1", "[::1]4", "[]:1",  "h1:2:3",
                                        "h'1'", "h1:1k", "h1:-1",    "h1\n",   "h/1:2", "\xc3\xa4"};
    char text[200];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(parse(false, rows[i][0], text, sizeof text, NULL), TRI_OK);
        assert_string_equal(text, rows[i][1]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (parse(false, wrong[i], text, sizeof text, NULL) != TRI_EINPUT)
            fail_msg("'%s' is taken as '%s'", wrong[i], text);
}

TEST(processes_go_where_slots_are)
{
    (void)state;
    static const struct {
        const char *list;
        size_t workers, servers;
        const char *places;
    } rows[] = {
        {"a:2,b:2", 4, 0, "0011"},    {"a:2,b:2", 3, 0, "001"},
        {"a,b,c", 2, 1, "012"}, /* a host of its own, if the list has one */
        {"a:2,b:1", 3, 4, "0010101"}, {"a:4", 2, 3, "00000"},
        {"a:1,b:3", 2, 4, "011101"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run_hosts hosts;
        size_t places[16], count = rows[i].workers + rows[i].servers;
        char text[17] = "";
        run_hosts_init(&hosts, &mem_libc);
        assert_int_equal(run_hosts_parse_list(rows[i].list, &hosts, NULL), TRI_OK);
        assert_int_equal(run_hosts_place(&hosts, rows[i].workers, rows[i].servers, places, NULL),
                         TRI_OK);
        for (size_t k = 0; k < count; k++)
            text[k] = (char)('0' + places[k]);
        assert_string_equal(text, rows[i].places);
        run_hosts_fini(&hosts);
    }
}

TEST(more_ranks_than_slots_are_refused)
{
    (void)state;
    struct run_hosts hosts;
    size_t places[8];
    tri_error err = {0};
    run_hosts_init(&hosts, &mem_libc);
    assert_int_equal(run_hosts_parse_list("a:2,b", &hosts, NULL), TRI_OK);
    assert_int_equal(run_hosts_place(&hosts, 4, 0, places, &err), TRI_EINPUT);
    assert_string_equal(err.text, "-n 4 is more than the 3 slots of the hosts");
    run_hosts_fini(&hosts);
}

TEST(without_memory_a_list_is_not_read)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct run_hosts hosts;
        run_hosts_init(&hosts, &fault.mem);
        tri_status status = run_hosts_parse_list("a:2,b,c,d,e,f,g", &hosts, NULL);
        run_hosts_fini(&hosts);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
    }
}

/* ---- what --hosts names ---- */

static tri_status read_given(const char *given, char *out, size_t size, tri_error *err)
{
    struct run_hosts hosts;
    run_hosts_init(&hosts, &mem_libc);
    tri_status status = run_hosts_read(given, 50, &hosts, err);
    show(&hosts, out, size);
    run_hosts_fini(&hosts);
    return status;
}

TEST(a_hostfile_that_is_missing_is_no_host)
{
    (void)state;
    static const char *const files[] = {"no/such",      "no-such.txt",  "no-such.hosts",
                                        "no-such.conf", "no-such.list", "no-such-hostfile"};
    char text[200];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        tri_error err = {0};
        assert_int_equal(read_given(files[i], text, sizeof text, &err), TRI_EINPUT);
        assert_non_null(strstr(err.text, files[i]));
        assert_string_equal(err.why, "No such file or directory");
        assert_true(err.next[0] != '\0');
    }
    assert_int_equal(read_given("no-such.example.org", text, sizeof text, NULL), TRI_OK);
    assert_string_equal(text, "no-such.example.org:1");
    assert_int_equal(read_given("h.txt:2,h", text, sizeof text, NULL), TRI_OK);
    assert_string_equal(text, "h.txt:2 h:1");
}

TEST(a_pipe_that_nobody_writes_to_is_told)
{
    (void)state;
    char folder[] = "/tmp/trident-hosts-XXXXXX", path[64], text[200];
    tri_error err = {0};
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(read_given(path, text, sizeof text, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "nobody has written to the pipe"));
    assert_non_null(strstr(err.text, path));
    assert_true(err.next[0] != '\0');
    int both = open(path, O_RDWR | O_CLOEXEC); /* one that opens it and is silent */
    assert_true(both >= 0);
    assert_int_equal(read_given(path, text, sizeof text, &err), TRI_EINPUT);
    close(both);
    unlink(path);
    rmdir(folder);
}

TEST(hosts_come_through_a_pipe)
{
    (void)state;
    char path[64], text[200];
    tri_error err = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    (void)snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_int_equal(write(ends[1], "h1 slots=2\nh2", 13), 13);
    close(ends[1]);
    assert_int_equal(read_given(path, text, sizeof text, &err), TRI_OK);
    assert_string_equal(text, "h1:2 h2:1");
    assert_int_equal(read_given(path, text, sizeof text, &err), TRI_EINPUT); /* it is empty now */
    assert_non_null(strstr(err.text, "names no host"));
    close(ends[0]);
}

/* ---- what a host is told ---- */

static const char *const words[] = {"./train", "--rate", "0.1", ""};

static void make_body(struct buf *body, const struct run_part *part)
{
    static const char *variables[] = {"A=1", "B=x=y"};
    struct run_request request = {
        .settings = {.workers = 3, .servers = 2, .colocate = 1, .on_failure = RUN_STOP},
        .variables = variables,
        .variable_count = 2,
        .program = words,
        .program_count = 4,
    };
    struct run_job job = {
        .name = "train-1", .token = "5ec2e7", .address = "192.0.2.1", .port = 4000, .threads = 9};
    run_part_write(body, &request, &job, part, false);
}

static tri_status read_back(const char *body, size_t len, struct run_order *order,
                            const struct mem *mem)
{
    const struct run_frame frame = {.kind = RUN_FRAME_JOB, .body = body, .len = len};
    return run_part_read(&frame, order, mem, NULL);
}

TEST(a_part_of_a_job_travels)
{
    (void)state;
    size_t processes[] = {1, 2, 4};
    const struct run_part part = {.process = processes, .count = 3, .workers = 2};
    struct run_order order;
    struct buf body;
    buf_init(&body, &mem_libc);
    make_body(&body, &part);
    assert_int_equal(read_back(buf_string(&body), body.len, &order, &mem_libc), TRI_OK);
    assert_int_equal(order.part.count, 3);
    assert_int_equal(order.part.workers, 2);
    assert_memory_equal(order.part.process, processes, sizeof processes);
    assert_int_equal(run_workers(&order.request), 3);
    assert_int_equal(run_servers(&order.request), 2);
    assert_int_equal(order.request.settings.on_failure, RUN_STOP);
    assert_string_equal(order.job.token, "5ec2e7");
    assert_string_equal(order.job.address, "192.0.2.1");
    assert_int_equal(order.job.port, 4000);
    assert_int_equal(order.request.program_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(order.request.program[i], words[i]);
    assert_int_equal(order.request.variable_count, 2);
    assert_string_equal(order.request.variables[1], "B=x=y");
    run_part_free(&order);
    buf_fini(&body);
}

static const char *value_of(const struct run_environment *environment, const char *name)
{
    size_t len = strlen(name);
    for (char **entry = environment->list; *entry != NULL; entry++)
        if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=')
            return *entry + len + 1;
    return "";
}

TEST(ranks_of_a_host_are_counted_there)
{
    (void)state;
    size_t processes[] = {1, 2, 4};
    const struct run_part part = {.process = processes, .count = 3, .workers = 2};
    struct run_order order;
    struct run_environment environment;
    struct buf body;
    buf_init(&body, &mem_libc);
    make_body(&body, &part);
    assert_int_equal(read_back(buf_string(&body), body.len, &order, &mem_libc), TRI_OK);
    run_environment_init(&environment, &mem_libc);
    assert_int_equal(run_environment_of(&order.request, &order.job, 2, &environment, NULL), TRI_OK);
    assert_string_equal(value_of(&environment, "RANK"), "2");
    assert_string_equal(value_of(&environment, "WORLD_SIZE"), "3");
    assert_string_equal(value_of(&environment, "LOCAL_RANK"), "1");
    assert_string_equal(value_of(&environment, "LOCAL_WORLD_SIZE"), "2");
    assert_string_equal(value_of(&environment, "MASTER_ADDR"), "192.0.2.1");
    assert_string_equal(value_of(&environment, "TRIDENT_COORDINATOR"), "192.0.2.1:4001");
    run_environment_fini(&environment);
    (void)snprintf(order.job.address, sizeof order.job.address, "fd00::1");
    run_environment_init(&environment, &mem_libc);
    assert_int_equal(run_environment_of(&order.request, &order.job, 1, &environment, NULL), TRI_OK);
    assert_string_equal(value_of(&environment, "MASTER_ADDR"), "fd00::1");
    assert_string_equal(value_of(&environment, "TRIDENT_COORDINATOR"), "[fd00::1]:4001");
    run_environment_fini(&environment);
    run_part_free(&order);
    buf_fini(&body);
}

/* Every cut and every other byte: a part or a refusal, and no memory lost. */
TEST(a_part_that_is_broken_is_refused)
{
    (void)state;
    size_t processes[] = {0, 3};
    const struct run_part part = {.process = processes, .count = 2, .workers = 1};
    struct run_order order;
    struct buf body;
    buf_init(&body, &mem_libc);
    make_body(&body, &part);
    for (size_t len = 0; len < body.len; len++) {
        (void)read_back(body.data, len, &order, &mem_libc);
        run_part_free(&order);
    }
    for (size_t i = 0; i < body.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            body.data[i] = (char)(body.data[i] ^ (1 << bit));
            (void)read_back(body.data, body.len, &order, &mem_libc);
            run_part_free(&order);
            body.data[i] = (char)(body.data[i] ^ (1 << bit));
        }
    assert_int_not_equal(read_back(body.data, 0, &order, &mem_libc), TRI_OK);
    run_part_free(&order);
    buf_fini(&body);
}

TEST(without_memory_a_part_is_not_read)
{
    (void)state;
    size_t processes[] = {0};
    const struct run_part part = {.process = processes, .count = 1, .workers = 1};
    struct buf body;
    buf_init(&body, &mem_libc);
    make_body(&body, &part);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct run_order order;
        tri_status status = read_back(body.data, body.len, &order, &fault.mem);
        run_part_free(&order);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
    }
    buf_fini(&body);
}

/* ---- frames ---- */

TEST(frames_come_out_as_they_went_in_however_they_are_cut)
{
    (void)state;
    struct buf stream;
    buf_init(&stream, &mem_libc);
    buf_text(&stream, "Welcome to this host\n" RUN_FRAME_MARK);
    run_frame_add(&stream, RUN_FRAME_READY, 0, NULL, 0);
    run_frame_add(&stream, RUN_FRAME_OUT, 300, "a\0b\n", 4);
    run_frame_add(&stream, RUN_FRAME_SIGNAL, 1, "\x0f\x00\x00\x00", 4);
    for (size_t step = 1; step <= stream.len; step++) {
        struct run_frames frames = {.marked = false};
        struct run_frame frame = {0};
        unsigned got = 0;
        buf_init(&frames.bytes, &mem_libc);
        for (size_t at = 0; at < stream.len; at += step) {
            size_t len = stream.len - at < step ? stream.len - at : step;
            enum run_frames_result result;
            buf_add(&frames.bytes, stream.data + at, len);
            while ((result = run_frames_next(&frames, &frame)) == RUN_FRAMES_GOT) {
                static const uint8_t kinds[] = {RUN_FRAME_READY, RUN_FRAME_OUT, RUN_FRAME_SIGNAL};
                assert_int_equal(frame.kind, got < sizeof kinds ? kinds[got] : 0);
                if (got == 1) {
                    assert_int_equal(frame.process, 300);
                    assert_int_equal(frame.len, 4);
                    assert_memory_equal(frame.body, "a\0b\n", 5);
                }
                if (got == 2)
                    assert_int_equal(run_frame_number(&frame, 0), 15);
                got++;
            }
            assert_int_equal(result, RUN_FRAMES_WANT);
        }
        assert_int_equal(got, 3);
        buf_fini(&frames.bytes);
    }
    buf_fini(&stream);
}

TEST(a_stream_that_is_none_is_found_out)
{
    (void)state;
    struct run_frames frames = {.marked = true};
    struct run_frame frame = {0};
    buf_init(&frames.bytes, &mem_libc);
    buf_add(&frames.bytes, "O\0\0\0\0\xff\xff\xff\xff", 9);
    assert_int_equal(run_frames_next(&frames, &frame), RUN_FRAMES_BAD);
    buf_clear(&frames.bytes);
    buf_add(&frames.bytes, "O\0\0\0\0\x01\0\0\0ab", 11); /* no NUL behind it */
    assert_int_equal(run_frames_next(&frames, &frame), RUN_FRAMES_BAD);
    frames.marked = false;
    buf_clear(&frames.bytes);
    for (int i = 0; i < 1 << 18; i++)
        buf_text(&frames.bytes, "noise\n");
    assert_int_equal(run_frames_next(&frames, &frame), RUN_FRAMES_BAD);
    buf_fini(&frames.bytes);
}

/* ---- the command line ---- */

TEST(a_shell_gets_back_what_was_quoted)
{
    (void)state;
    struct buf line;
    buf_init(&line, &mem_libc);
    run_ssh_quote(&line, "/it's a $(folder) \"\\`!");
    assert_string_equal(buf_string(&line), "'/it'\\''s a $(folder) \"\\`!'");
    buf_fini(&line);
}

TEST(a_command_line_has_the_host_and_one_line_for_its_shell)
{
    (void)state;
    struct run_ssh ssh;
    run_ssh_init(&ssh, &mem_libc);
    assert_int_equal(run_ssh_make(&ssh, "  sh -p  22", "h1", NULL), TRI_OK);
    assert_string_equal(ssh.words[0], "sh");
    assert_string_equal(ssh.words[1], "-p");
    assert_string_equal(ssh.words[2], "22");
    assert_string_equal(ssh.words[3], "h1");
    assert_int_equal(strncmp(ssh.words[4], "exec sh -c 'cd '\\''/", 19), 0);
    assert_non_null(strstr(ssh.words[4], "run --deputy"));
    assert_null(ssh.words[5]);
    run_ssh_fini(&ssh);
    run_ssh_init(&ssh, &mem_libc);
    assert_int_equal(run_ssh_make(&ssh, " ", "h1", NULL), TRI_EINPUT);
    run_ssh_fini(&ssh);
    run_ssh_init(&ssh, &mem_libc);
    assert_int_equal(run_ssh_make(&ssh, "no-such-command-here", "h1", NULL), TRI_EINPUT);
    run_ssh_fini(&ssh);
    assert_true(run_ssh_is_here("localhost"));
    assert_false(run_ssh_is_here("localhost.example.org"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostfiles_are_read_as_open_mpi_has_them),
        cmocka_unit_test(what_is_wrong_in_a_hostfile_is_told_with_its_line),
        cmocka_unit_test(a_nul_in_a_hostfile_is_told_with_its_line),
        cmocka_unit_test(a_byte_order_mark_is_skipped_where_a_file_begins),
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(processes_go_where_slots_are),
        cmocka_unit_test(more_ranks_than_slots_are_refused),
        cmocka_unit_test(without_memory_a_list_is_not_read),
        cmocka_unit_test(a_hostfile_that_is_missing_is_no_host),
        cmocka_unit_test(a_pipe_that_nobody_writes_to_is_told),
        cmocka_unit_test(hosts_come_through_a_pipe),
        cmocka_unit_test(a_part_of_a_job_travels),
        cmocka_unit_test(ranks_of_a_host_are_counted_there),
        cmocka_unit_test(a_part_that_is_broken_is_refused),
        cmocka_unit_test(without_memory_a_part_is_not_read),
        cmocka_unit_test(frames_come_out_as_they_went_in_however_they_are_cut),
        cmocka_unit_test(a_stream_that_is_none_is_found_out),
        cmocka_unit_test(a_shell_gets_back_what_was_quoted),
        cmocka_unit_test(a_command_line_has_the_host_and_one_line_for_its_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
