/* os/stream: files in pieces, there whole or not at all. */
#include "os/stream.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/test.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/trident-stream-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static const char *at(const char *name)
{
    static char path[400];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static size_t entries(bool discard)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (discard)
            (void)remove(at(entry->d_name));
        count++;
    }
    closedir(dir);
    return count;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)entries(true);
    return rmdir(folder);
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(at(name), "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void holds(const char *name, const char *text)
{
    char found[100] = {0};
    FILE *file = fopen(at(name), "rb");
    assert_non_null(file);
    (void)fread(found, 1, sizeof found - 1, file);
    (void)fclose(file);
    assert_string_equal(found, text);
}

/* ---- writing ---- */

TEST(a_file_appears_when_it_is_finished_and_not_before)
{
    (void)state;
    struct stream_out out;
    tri_error err = {0};
    put("file", "old");
    assert_int_equal(stream_out_open(at("file"), &out, &err), TRI_OK);
    char start[100], end[] = ".tmp";
    (void)snprintf(start, sizeof start, "%s/.file.%ld.", folder, (long)getpid());
    assert_memory_equal(out.temporary, start, strlen(start));
    assert_string_equal(out.temporary + strlen(out.temporary) - strlen(end), end);
    assert_int_equal(stream_out_put(&out, "one ", 4, &err), TRI_OK);
    assert_int_equal(stream_out_put(&out, NULL, 0, &err), TRI_OK);
    assert_int_equal(stream_out_put(&out, "two", 3, &err), TRI_OK);
    holds("file", "old");
    out.path = at("file"); /* at() has one place only */
    assert_int_equal(stream_out_finish(&out, &err), TRI_OK);
    holds("file", "one two");
    assert_int_equal(entries(false), 1);
}

/* Lengths that end before, at and behind the end of a block and of the buffer. */
TEST(past_the_page_cache_a_file_is_the_same)
{
    (void)state;
    enum { SIZE = 2 * STREAM_ALIGN, MOST = 5 * SIZE };
    static char bytes[MOST], found[MOST + 1];
    static _Alignas(STREAM_ALIGN) char buffer[SIZE];
    for (size_t i = 0; i < MOST; i++)
        bytes[i] = (char)(i % 251);
    const size_t lengths[] = {1, STREAM_ALIGN, SIZE - 1, SIZE, SIZE + 1, MOST - 7, MOST};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
        for (size_t piece = 1000; piece <= MOST; piece *= 7) {
            struct stream_out out;
            char path[400];
            (void)snprintf(path, sizeof path, "%s", at("file"));
            assert_int_equal(stream_out_open(path, &out, NULL), TRI_OK);
            stream_out_direct(&out, buffer, sizeof buffer);
            for (size_t i = 0, n; i < lengths[l]; i += n) {
                n = lengths[l] - i < piece ? lengths[l] - i : piece;
                assert_int_equal(stream_out_put(&out, bytes + i, n, NULL), TRI_OK);
            }
            assert_int_equal(stream_out_begin_with(&out, "!", 1, NULL), TRI_OK);
            assert_int_equal(stream_out_finish(&out, NULL), TRI_OK);
            FILE *file = fopen(path, "rb");
            assert_non_null(file);
            assert_int_equal(fread(found, 1, sizeof found, file), lengths[l]);
            (void)fclose(file);
            assert_int_equal(found[0], '!');
            assert_memory_equal(found + 1, bytes + 1, lengths[l] - 1);
        }
    assert_int_equal(entries(false), 1);
}

TEST(a_file_that_is_dropped_leaves_nothing)
{
    (void)state;
    struct stream_out out;
    put("file", "old");
    assert_int_equal(stream_out_open(at("file"), &out, NULL), TRI_OK);
    assert_int_equal(stream_out_put(&out, "new", 3, NULL), TRI_OK);
    stream_out_drop(&out);
    holds("file", "old");
    assert_int_equal(entries(false), 1);
}

TEST(the_same_file_is_written_twice_at_a_time)
{
    (void)state;
    struct stream_out one, two;
    char path[400];
    (void)snprintf(path, sizeof path, "%s", at("file"));
    assert_int_equal(stream_out_open(path, &one, NULL), TRI_OK);
    assert_int_equal(stream_out_open(path, &two, NULL), TRI_OK);
    assert_string_not_equal(one.temporary, two.temporary);
    assert_int_equal(stream_out_put(&one, "one", 3, NULL), TRI_OK);
    assert_int_equal(stream_out_put(&two, "two", 3, NULL), TRI_OK);
    assert_int_equal(stream_out_finish(&two, NULL), TRI_OK);
    holds("file", "two");
    assert_int_equal(stream_out_finish(&one, NULL), TRI_OK);
    holds("file", "one");
    assert_int_equal(entries(false), 1);
}

TEST(what_cannot_be_written_is_told)
{
    (void)state;
    struct stream_out out;
    tri_error err = {0};
    char path[5000];
    assert_int_equal(stream_out_open(at("none/file"), &out, &err), TRI_EIO);
    assert_string_equal(err.why, "No such file or directory");
    assert_false(out.full);
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(stream_out_open(path, &out, &err), TRI_EINPUT);
    assert_memory_equal(err.text, "the path 'pppp", 14);
    assert_int_equal(mkdir(at("folder"), 0700), 0);
    assert_int_equal(stream_out_open(at("folder"), &out, &err), TRI_OK);
    assert_int_equal(stream_out_finish(&out, &err), TRI_EIO);
    assert_string_equal(err.why, "Is a directory");
    assert_int_equal(entries(false), 1);
}

TEST(a_full_disk_is_told_apart)
{
    (void)state;
    static const char bytes[1000];
    struct stream_out out;
    tri_error err = {0};
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(stream_out_open(at("file"), &out, &err), TRI_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tri_status fits = stream_out_put(&out, bytes, 100, &err);
    tri_status status = stream_out_put(&out, bytes, sizeof bytes, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(fits, TRI_OK);
    assert_int_equal(status, TRI_EIO);
    assert_true(out.full);
    assert_string_equal(err.why, "File too large");
    stream_out_drop(&out);
    assert_int_equal(entries(false), 0);
}

TEST(what_is_left_of_a_killed_process_is_removed_and_nothing_else)
{
    (void)state;
    struct stream_out out;
    tri_error err = {0};
    char path[400];
    assert_int_equal(stream_out_open(at("file"), &out, &err), TRI_OK);
    assert_int_equal(stream_remove_left(out.temporary, &err), TRI_OK);
    assert_int_equal(entries(false), 1); /* it is being written */
    stream_out_drop(&out);
    assert_int_equal(stream_remove_left(out.temporary, &err), TRI_OK); /* gone already */
    pid_t child = fork();
    assert_true(child >= 0);
    (void)snprintf(path, sizeof path, "%s/.file.%ld.0.tmp", folder, (long)child);
    if (child == 0) {
        if (stream_out_open(at("file"), &out, NULL) != TRI_OK)
            _exit(1);
        (void)raise(SIGKILL);
    }
    int code = 0;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFSIGNALED(code));
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(stream_remove_left(path, &err), TRI_OK);
    assert_int_equal(entries(false), 0);
    assert_int_equal(err.status, TRI_OK);
}

/* ---- reading ---- */

TEST(a_file_is_read_from_front_to_back)
{
    (void)state;
    struct stream_in in;
    tri_error err = {0};
    char found[20] = {0};
    size_t got = 0;
    put("file", "0123456789");
    assert_int_equal(stream_in_open(at("file"), &in, &err), TRI_OK);
    assert_int_equal(in.bytes, 10);
    assert_int_equal(stream_in_get(&in, found, 4, &got, &err), TRI_OK);
    assert_int_equal(got, 4);
    assert_memory_equal(found, "0123", 4);
    assert_int_equal(stream_in_get(&in, found, 20, &got, &err), TRI_OK);
    assert_int_equal(got, 6);
    assert_memory_equal(found, "456789", 6);
    assert_int_equal(stream_in_get(&in, found, 20, &got, &err), TRI_OK);
    assert_int_equal(got, 0);
    stream_in_close(&in);
}

TEST(what_is_no_plain_file_is_not_opened)
{
    (void)state;
    struct stream_in in;
    tri_error err = {0};
    assert_int_equal(stream_in_open(at("none"), &in, &err), TRI_EINPUT);
    assert_string_equal(err.why, "No such file or directory");
    assert_int_equal(stream_in_open(folder, &in, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "is a folder"));
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    assert_int_equal(stream_in_open(at("pipe"), &in, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "is no plain file"));
}

#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_file_appears_when_it_is_finished_and_not_before),
        IN_FOLDER(past_the_page_cache_a_file_is_the_same),
        IN_FOLDER(a_file_that_is_dropped_leaves_nothing),
        IN_FOLDER(the_same_file_is_written_twice_at_a_time),
        IN_FOLDER(what_cannot_be_written_is_told),
        IN_FOLDER(a_full_disk_is_told_apart),
        IN_FOLDER(what_is_left_of_a_killed_process_is_removed_and_nothing_else),
        IN_FOLDER(a_file_is_read_from_front_to_back),
        IN_FOLDER(what_is_no_plain_file_is_not_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
