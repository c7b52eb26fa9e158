/* os/file: reading, listing and writing, in a folder of the test's own. */
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
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

/* ---- the folder ---- */

struct folder {
    char path[64];
    char file[400]; /* of the last at() */
};

static int make_folder(void **state)
{
    static struct folder folder;
    (void)snprintf(folder.path, sizeof folder.path, "/tmp/trident-file-XXXXXX");
    *state = &folder;
    return mkdtemp(folder.path) != NULL ? 0 : -1;
}

/* A path in the folder, good until the next call. */
static const char *at(void **state, const char *name)
{
    struct folder *folder = *state;
    (void)snprintf(folder->file, sizeof folder->file, "%s/%s", folder->path, name);
    return folder->file;
}

/* Calls visit on every entry; returns how many there are. */
static size_t each_entry(void **state, void (*visit)(const char *path))
{
    size_t count = 0;
    DIR *dir = opendir(((struct folder *)*state)->path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (visit != NULL)
            visit(at(state, entry->d_name));
        count++;
    }
    closedir(dir);
    return count;
}

static void discard(const char *path)
{
    assert_int_equal(remove(path), 0);
}

static int remove_folder(void **state)
{
    (void)each_entry(state, discard);
    return rmdir(((struct folder *)*state)->path);
}

/* Puts a file there without the code under test. */
static void put(void **state, const char *name, const void *bytes, size_t len)
{
    FILE *file = fopen(at(state, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void holds(void **state, const char *name, const char *text)
{
    char found[200] = {0};
    FILE *file = fopen(at(state, name), "rb");
    assert_non_null(file);
    (void)fread(found, 1, sizeof found - 1, file);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(found, text);
}

/* ---- reading ---- */

TEST(a_file_is_appended_whole)
{
    struct buf out;
    tri_error err = {0};
    buf_init(&out, &mem_libc);
    put(state, "a", "one\0two", 7);
    buf_text(&out, "before ");
    assert_int_equal(file_read(at(state, "a"), 100, &out, &err), TRI_OK);
    assert_int_equal(out.len, 14);
    assert_memory_equal(out.data, "before one\0two", 14);
    assert_int_equal(err.status, TRI_OK);
    buf_fini(&out);
}

TEST(a_file_of_many_blocks_is_read_in_order)
{
    enum { LEN = 300001 };
    char *bytes = malloc(LEN);
    struct buf out;
    assert_non_null(bytes);
    for (size_t i = 0; i < LEN; i++)
        bytes[i] = (char)(i * 2654435761U >> 13);
    put(state, "big", bytes, LEN);
    buf_init(&out, &mem_libc);
    assert_int_equal(file_read(at(state, "big"), LEN, &out, NULL), TRI_OK);
    assert_int_equal(out.len, LEN);
    assert_memory_equal(out.data, bytes, LEN);
    buf_fini(&out);
    free(bytes);
}

TEST(an_empty_file_and_the_null_device_are_empty)
{
    struct buf out;
    buf_init(&out, &mem_libc);
    put(state, "empty", "", 0);
    assert_int_equal(file_read(at(state, "empty"), 0, &out, NULL), TRI_OK);
    assert_int_equal(file_read("/dev/null", 0, &out, NULL), TRI_OK);
    assert_int_equal(out.len, 0);
    assert_string_equal(buf_string(&out), "");
    buf_fini(&out);
}

TEST(the_limit_is_the_last_length_that_fits)
{
    struct buf out;
    tri_error err = {0};
    char text[500];
    buf_init(&out, &mem_libc);
    put(state, "ten", "0123456789", 10);
    assert_int_equal(file_read(at(state, "ten"), 10, &out, &err), TRI_OK);
    assert_int_equal(file_read(at(state, "ten"), 9, &out, &err), TRI_EINPUT);
    (void)snprintf(text, sizeof text, "'%s' is longer than 9 bytes", at(state, "ten"));
    assert_string_equal(err.text, text);
    assert_int_equal(file_read(at(state, "ten"), 0, &out, &err), TRI_EINPUT);
    assert_int_equal(file_read("/dev/zero", 100000, &out, &err), TRI_EINPUT); /* has no end */
    buf_fini(&out);
}

TEST(what_cannot_be_read_is_told_with_the_reason)
{
    struct buf out;
    tri_error err = {0};
    char text[500];
    buf_init(&out, &mem_libc);
    assert_int_equal(file_read(at(state, "missing"), 10, &out, &err), TRI_EINPUT);
    (void)snprintf(text, sizeof text, "cannot open '%s'", at(state, "missing"));
    assert_string_equal(err.text, text);
    assert_string_equal(err.why, "No such file or directory");
    const char *folder = ((struct folder *)*state)->path;
    assert_int_equal(file_read(folder, 10, &out, &err), TRI_EINPUT);
    (void)snprintf(text, sizeof text, "cannot read '%s'", folder);
    assert_string_equal(err.text, text);
    assert_string_equal(err.why, "Is a directory");
    assert_int_equal(file_read("", 10, &out, &err), TRI_EINPUT);
    assert_int_equal(out.len, 0);
    buf_fini(&out);
}

/* What the child does: fill the pipe in uneven pieces, more than it holds at once. */
static void fill_pipe(const char *path, size_t len)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    for (size_t done = 0, piece = 1; fd >= 0 && done < len; piece = piece * 3 % 7919) {
        char bytes[7919];
        size_t now = piece < len - done ? piece : len - done;
        for (size_t i = 0; i < now; i++)
            bytes[i] = (char)((done + i) % 251);
        if (write(fd, bytes, now) != (ssize_t)now)
            _exit(1);
        done += now;
    }
    _exit(fd < 0);
}

TEST(a_pipe_is_read_to_its_end)
{
    enum { LEN = 200000 };
    struct buf out;
    tri_error err = {0};
    buf_init(&out, &mem_libc);
    assert_int_equal(mkfifo(at(state, "pipe"), 0600), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        fill_pipe(at(state, "pipe"), LEN);
    assert_int_equal(file_read(at(state, "pipe"), LEN, &out, &err), TRI_OK);
    int code = 0;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    assert_int_equal(out.len, LEN);
    for (size_t i = 0; i < LEN; i++)
        if ((unsigned char)out.data[i] != i % 251)
            fail_msg("byte %zu is wrong", i);
    buf_fini(&out);
}

TEST(a_read_that_finds_no_memory_leaks_nothing)
{
    enum { LEN = 150000 };
    static const char zeros[LEN];
    struct fault fault = {0};
    put(state, "big", zeros, LEN);
    FAULT_WALK(&fault)
    {
        struct buf out;
        tri_error err = {0};
        buf_init(&out, &fault.mem);
        tri_status status = file_read(at(state, "big"), LEN, &out, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        assert_int_equal(err.status, status);
        buf_fini(&out);
    }
    assert_true(fault.run > 1);
}

/* ---- listing ---- */

struct seen {
    char names[200];  /* each behind a space */
    const char *stop; /* at this name */
};

static tri_status see(void *ctx, const char *name)
{
    struct seen *seen = ctx;
    size_t used = strlen(seen->names);
    (void)snprintf(seen->names + used, sizeof seen->names - used, " %s", name);
    return seen->stop != NULL && strcmp(seen->stop, name) == 0 ? TRI_EIO : TRI_OK;
}

static void put_some(void **state)
{
    static const char *const names[] = {"b.json",  "a.json", "c.txt",   "B.json",
                                        "ab.json", "json",   "x.json~", "a1.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        put(state, names[i], "", 0);
}

TEST(entries_come_in_alphabetical_order_and_by_suffix)
{
    put_some(state);
    const char *folder = ((struct folder *)*state)->path;
    struct seen seen = {0};
    assert_int_equal(file_each(folder, ".json", &mem_libc, see, &seen, NULL), TRI_OK);
    assert_string_equal(seen.names, " B.json a.json a1.json ab.json b.json");
    seen = (struct seen){0};
    assert_int_equal(file_each(folder, "c.txt", &mem_libc, see, &seen, NULL), TRI_OK);
    assert_string_equal(seen.names, " c.txt");
    seen = (struct seen){0};
    assert_int_equal(file_each(folder, ".none", &mem_libc, see, &seen, NULL), TRI_OK);
    assert_string_equal(seen.names, "");
}

TEST(a_status_ends_the_listing_and_is_passed_on)
{
    put_some(state);
    tri_error err = {0};
    struct seen seen = {.stop = "a1.json"};
    assert_int_equal(
        file_each(((struct folder *)*state)->path, ".json", &mem_libc, see, &seen, &err), TRI_EIO);
    assert_string_equal(seen.names, " B.json a.json a1.json");
    assert_int_equal(err.status, TRI_OK); /* the callback reports for itself */
}

TEST(a_folder_that_is_none_is_told)
{
    tri_error err = {0};
    struct seen seen = {0};
    char text[500];
    assert_int_equal(file_each(at(state, "missing"), "", &mem_libc, see, &seen, &err), TRI_EINPUT);
    (void)snprintf(text, sizeof text, "cannot list the folder '%s'", at(state, "missing"));
    assert_string_equal(err.text, text);
    assert_string_equal(err.why, "No such file or directory");
    put(state, "plain", "", 0);
    assert_int_equal(file_each(at(state, "plain"), "", &mem_libc, see, &seen, &err), TRI_EINPUT);
    assert_string_equal(err.why, "Not a directory");
    assert_string_equal(seen.names, "");
}

TEST(a_listing_that_finds_no_memory_leaks_nothing)
{
    put_some(state);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        tri_error err = {0};
        struct seen seen = {0};
        tri_status status =
            file_each(((struct folder *)*state)->path, "", &fault.mem, see, &seen, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        assert_int_equal(err.status, status);
        assert_int_equal(seen.names[0] == '\0', fault.hit); /* all or nothing */
    }
    assert_true(fault.run > 2);
}

TEST(hidden_entries_are_listed_apart)
{
    static const char *const names[] = {".b.tmp", ".a.tmp", "c.tmp", ".d"};
    for (size_t i = 0; i < 4; i++)
        put(state, names[i], "", 0);
    const char *folder = ((struct folder *)*state)->path;
    struct seen seen = {0};
    assert_int_equal(file_each_hidden(folder, ".tmp", &mem_libc, see, &seen, NULL), TRI_OK);
    assert_string_equal(seen.names, " .a.tmp .b.tmp");
    seen = (struct seen){0};
    assert_int_equal(file_each_hidden(folder, "", &mem_libc, see, &seen, NULL), TRI_OK);
    assert_string_equal(seen.names, " .a.tmp .b.tmp .d"); /* "." and ".." are no entries */
    seen = (struct seen){0};
    assert_int_equal(file_each(folder, "", &mem_libc, see, &seen, NULL), TRI_OK);
    assert_string_equal(seen.names, " c.tmp");
}

/* ---- what is there ---- */

TEST(what_is_at_a_path_is_told)
{
    struct file_facts facts;
    tri_error err = {0};
    const char *folder = ((struct folder *)*state)->path;
    put(state, "file", "12345", 5);
    struct timespec times[2] = {{.tv_sec = 7}, {.tv_sec = 1700000000}};
    assert_int_equal(utimensat(AT_FDCWD, at(state, "file"), times, 0), 0);
    assert_int_equal(file_look(at(state, "file"), &facts, &err), TRI_OK);
    assert_true(facts.kind == FILE_PLAIN && facts.bytes == 5);
    assert_int_equal(facts.written_s, 1700000000);
    assert_int_equal(file_look(folder, &facts, &err), TRI_OK);
    assert_int_equal(facts.kind, FILE_FOLDER);
    assert_int_equal(file_look("/dev/null", &facts, &err), TRI_OK);
    assert_int_equal(facts.kind, FILE_OTHER);
    assert_int_equal(file_look(at(state, "none"), &facts, &err), TRI_OK);
    assert_int_equal(facts.kind, FILE_NONE);
    assert_int_equal(file_look(at(state, "file/below"), &facts, &err), TRI_OK);
    assert_int_equal(facts.kind, FILE_NONE);
    assert_int_equal(symlink("loop", at(state, "loop")), 0);
    assert_int_equal(file_look(at(state, "loop"), &facts, &err), TRI_EINPUT);
    assert_true(err.why[0] != '\0');
}

TEST(a_folder_is_made_once_and_those_above_it)
{
    struct stat found;
    tri_error err = {0};
    assert_int_equal(file_make_folder(at(state, "new"), &err), TRI_OK);
    assert_int_equal(stat(at(state, "new"), &found), 0);
    assert_true(S_ISDIR(found.st_mode));
    assert_int_equal(file_make_folder(at(state, "new"), &err), TRI_OK);
    assert_int_equal(file_make_folder(at(state, "above/below//new/"), &err), TRI_OK);
    assert_int_equal(stat(at(state, "above/below/new"), &found), 0);
    assert_int_equal(rmdir(at(state, "above/below/new")), 0);
    assert_int_equal(rmdir(at(state, "above/below")), 0);
    put(state, "file", "", 0);
    assert_int_equal(file_make_folder(at(state, "file/new"), &err), TRI_EINPUT);
    assert_string_equal(err.why, "Not a directory");
    assert_int_equal(file_make_folder(at(state, "file"), &err), TRI_EINPUT);
    assert_string_equal(err.why, "Not a directory");
    assert_int_equal(file_sync_folder(((struct folder *)*state)->path, &err), TRI_OK);
    assert_int_equal(file_sync_folder(at(state, "none"), &err), TRI_EIO);
}

TEST(a_file_is_removed_and_one_that_is_gone_is_fine)
{
    tri_error err = {0};
    put(state, "file", "", 0);
    assert_int_equal(file_remove(at(state, "file"), &err), TRI_OK);
    assert_int_equal(file_remove(at(state, "file"), &err), TRI_OK);
    assert_int_equal(each_entry(state, NULL), 0);
    assert_int_equal(mkdir(at(state, "folder"), 0700), 0);
    assert_int_equal(file_remove(at(state, "folder"), &err), TRI_EIO);
}

TEST(the_room_of_a_disk_is_known)
{
    uint64_t bytes = 0;
    assert_true(file_room(((struct folder *)*state)->path, &bytes));
    assert_false(file_room(at(state, "none"), &bytes));
    assert_false(file_room("/proc", &bytes)); /* which has no blocks at all */
}

/* ---- locks ---- */

TEST(a_lock_has_one_holder_who_is_named)
{
    struct file_lock one, two;
    tri_error err = {0};
    char path[400], who[100];
    (void)snprintf(path, sizeof path, "%s", at(state, "lock"));
    assert_int_equal(file_lock(path, "job 'a'", &mem_libc, &one, &err), TRI_OK);
    assert_int_equal(file_lock(path, "job 'b'", &mem_libc, &two, &err), TRI_EINPUT);
    (void)snprintf(who, sizeof who, "by job 'a', process %ld on ", (long)getpid());
    assert_memory_equal(err.why, who, strlen(who));
    file_unlock(&one);
    assert_int_equal(each_entry(state, NULL), 0);
    assert_int_equal(file_lock(path, "job 'b'", &mem_libc, &two, &err), TRI_OK);
    file_unlock(&two);
    put(state, "lock", "left by a process that died", 27);
    assert_int_equal(file_lock(path, "c", &mem_libc, &one, &err), TRI_OK);
    assert_int_equal(file_lock(path, "d", &mem_libc, &two, &err), TRI_EINPUT);
    assert_memory_equal(err.why, "by c, process ", 14); /* nothing of the older text */
    file_unlock(&one);
    assert_int_equal(file_lock(at(state, "none/lock"), "c", &mem_libc, &one, &err), TRI_EINPUT);
    assert_string_equal(err.why, "No such file or directory");
}

TEST(a_lock_that_finds_no_memory_is_not_taken)
{
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct file_lock lock;
        tri_error err = {0};
        tri_status status = file_lock(at(state, "lock"), "me", &fault.mem, &lock, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        assert_int_equal(each_entry(state, NULL), fault.hit ? 0 : 1);
        if (status == TRI_OK)
            file_unlock(&lock);
    }
}

enum { TAKERS = 4, TURNS = 300 };

/* Takes and gives back a lock; nobody else may be inside. */
static void take_turns(const char *lock, const char *inside)
{
    for (unsigned turn = 0; turn < TURNS;) {
        struct file_lock taken;
        if (file_lock(lock, "me", &mem_libc, &taken, NULL) != TRI_OK)
            continue;
        int fd = open(inside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            _exit(1);
        close(fd);
        (void)unlink(inside);
        file_unlock(&taken);
        turn++;
    }
    _exit(0);
}

TEST(many_that_want_a_lock_have_it_one_by_one)
{
    pid_t children[TAKERS] = {0};
    char lock[400], inside[400];
    (void)snprintf(lock, sizeof lock, "%s", at(state, "lock"));
    (void)snprintf(inside, sizeof inside, "%s", at(state, "inside"));
    int codes = 0;
    for (unsigned i = 0; i < TAKERS; i++)
        if ((children[i] = fork()) == 0)
            take_turns(lock, inside);
    for (unsigned i = 0; i < TAKERS; i++) { /* all of them, before the folder goes */
        int code = -1;
        (void)waitpid(children[i], &code, 0);
        codes |= code;
    }
    assert_int_equal(codes, 0);
    assert_int_equal(each_entry(state, NULL), 0);
}

/* ---- writing ---- */

TEST(a_write_makes_the_file_and_nothing_else)
{
    tri_error err = {0};
    assert_int_equal(file_write(at(state, "new"), "hello", 5, &err), TRI_OK);
    holds(state, "new", "hello");
    assert_int_equal(file_write(at(state, "none"), NULL, 0, &err), TRI_OK);
    holds(state, "none", "");
    assert_int_equal(each_entry(state, NULL), 2);
    assert_int_equal(err.status, TRI_OK);
}

TEST(a_write_replaces_the_whole_file_and_spares_its_readers)
{
    put(state, "file", "the old and longer text", 23);
    int reader = open(at(state, "file"), O_RDONLY | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_int_equal(file_write(at(state, "file"), "new", 3, NULL), TRI_OK);
    holds(state, "file", "new");
    char old[40] = {0};
    assert_int_equal(read(reader, old, sizeof old - 1), 23);
    assert_string_equal(old, "the old and longer text"); /* never half of one, half of the other */
    close(reader);
    assert_int_equal(each_entry(state, NULL), 1);
}

TEST(a_write_into_a_missing_folder_is_told)
{
    tri_error err = {0};
    assert_int_equal(file_write(at(state, "missing/file"), "x", 1, &err), TRI_EIO);
    assert_int_equal(err.status, TRI_EIO);
    assert_memory_equal(err.text, "cannot create '", 15);
    assert_string_equal(err.why, "No such file or directory");
    assert_int_equal(each_entry(state, NULL), 0);
}

TEST(a_write_over_a_folder_leaves_nothing_behind)
{
    tri_error err = {0};
    assert_int_equal(mkdir(at(state, "folder"), 0700), 0);
    assert_int_equal(file_write(at(state, "folder"), "x", 1, &err), TRI_EIO);
    assert_memory_equal(err.text, "cannot rename '", 15);
    assert_string_equal(err.why, "Is a directory");
    assert_int_equal(each_entry(state, NULL), 1);
}

TEST(a_disk_that_is_full_keeps_the_old_file_and_nothing_else)
{
    static const char bytes[1000];
    tri_error err = {0};
    struct rlimit before, small;
    put(state, "file", "old", 3);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100; /* a file may grow to this: the next best thing to a full disk */
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tri_status status = file_write(at(state, "file"), bytes, sizeof bytes, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, TRI_EIO);
    assert_memory_equal(err.text, "cannot write '", 14);
    assert_string_equal(err.why, "File too large");
    holds(state, "file", "old");
    assert_int_equal(each_entry(state, NULL), 1);
}

TEST(a_path_that_is_too_long_is_told)
{
    (void)state;
    tri_error err = {0};
    char path[5000];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(file_write(path, "x", 1, &err), TRI_EINPUT);
    assert_memory_equal(err.text, "the path 'pppp", 14);
}

/* ---- several files together ---- */

struct pair {
    char paths[2][400];
    struct file_part parts[3];
    struct file_whole files[2];
};

/* "first" in two parts, "second" in one. */
static void make_pair(void **state, struct pair *pair, const char *first, const char *second)
{
    (void)snprintf(pair->paths[0], sizeof pair->paths[0], "%s", at(state, first));
    (void)snprintf(pair->paths[1], sizeof pair->paths[1], "%s", at(state, second));
    pair->parts[0] = (struct file_part){"one ", 4};
    pair->parts[1] = (struct file_part){"two", 3};
    pair->parts[2] = (struct file_part){"three", 5};
    pair->files[0] = (struct file_whole){pair->paths[0], pair->parts, 2};
    pair->files[1] = (struct file_whole){pair->paths[1], pair->parts + 2, 1};
}

TEST(files_written_together_are_there_whole)
{
    struct pair pair;
    tri_error err = {0};
    make_pair(state, &pair, "a", "b");
    put(state, "b", "old and longer", 14);
    assert_int_equal(file_write_together(pair.files, 2, &err), TRI_OK);
    holds(state, "a", "one two");
    holds(state, "b", "three");
    assert_int_equal(each_entry(state, NULL), 2);
    assert_int_equal(err.status, TRI_OK);
}

TEST(a_path_without_a_folder_is_in_the_one_we_are_in)
{
    char before[4096];
    const struct file_part part = {"x", 1};
    const struct file_whole file = {"bare", &part, 1};
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(((struct folder *)*state)->path), 0);
    tri_status checked = file_check_new("bare", NULL);
    tri_status status = file_write_together(&file, 1, NULL);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(checked, TRI_OK);
    assert_int_equal(status, TRI_OK);
    holds(state, "bare", "x");
}

TEST(files_written_together_are_written_all_or_none)
{
    struct pair pair;
    tri_error err = {0};
    put(state, "a", "old", 3);
    assert_int_equal(mkdir(at(state, "folder"), 0700), 0);
    make_pair(state, &pair, "a", "folder");
    assert_int_equal(file_write_together(pair.files, 2, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "/folder' is a folder"));
    make_pair(state, &pair, "a", "missing/b");
    assert_int_equal(file_write_together(pair.files, 2, &err), TRI_EIO);
    assert_string_equal(err.why, "No such file or directory");
    holds(state, "a", "old");
    assert_int_equal(each_entry(state, NULL), 2);
}

TEST(a_disk_that_is_full_keeps_all_old_files)
{
    static const char bytes[1000];
    struct pair pair;
    tri_error err = {0};
    struct rlimit before, small;
    put(state, "a", "old", 3);
    make_pair(state, &pair, "a", "b");
    pair.parts[2] = (struct file_part){bytes, sizeof bytes};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tri_status status = file_write_together(pair.files, 2, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, TRI_EIO);
    assert_string_equal(err.why, "File too large");
    holds(state, "a", "old");
    assert_int_equal(each_entry(state, NULL), 1);
}

TEST(a_place_for_a_file_is_tried_without_a_trace)
{
    tri_error err = {0};
    put(state, "there", "old", 3);
    assert_int_equal(file_check_new(at(state, "there"), &err), TRI_OK);
    assert_int_equal(file_check_new(at(state, "new"), &err), TRI_OK);
    holds(state, "there", "old");
    assert_int_equal(each_entry(state, NULL), 1);
    assert_int_equal(file_check_new(at(state, "none/new"), &err), TRI_EINPUT);
    assert_string_equal(err.why, "No such file or directory");
    assert_memory_equal(err.next, "make the folder '", 17);
    assert_int_equal(file_check_new(at(state, "there/new"), &err), TRI_EINPUT);
    assert_string_equal(err.why, "Not a directory");
    assert_int_equal(file_check_new(((struct folder *)*state)->path, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "is a folder"));
    assert_int_equal(file_check_new("/proc/new", &err), TRI_EINPUT);
    assert_int_equal(each_entry(state, NULL), 1);
}

/* ---- the program's folder ---- */

TEST(the_program_lies_in_its_folder)
{
    (void)state;
    struct buf out;
    struct stat mine, found;
    buf_init(&out, &mem_libc);
    assert_int_equal(file_program_folder(&out, NULL), TRI_OK);
    assert_int_equal(out.data[0], '/');
    assert_int_not_equal(out.data[out.len - 1], '/');
    buf_format(&out, "/%s", program_invocation_short_name);
    assert_int_equal(stat("/proc/self/exe", &mine), 0);
    assert_int_equal(stat(buf_string(&out), &found), 0);
    assert_true(mine.st_dev == found.st_dev && mine.st_ino == found.st_ino);
    buf_fini(&out);
}

TEST(the_program_folder_is_appended_or_refused)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct buf out;
        tri_error err = {0};
        buf_init(&out, &fault.mem);
        buf_text(&out, "x");
        tri_status status = file_program_folder(&out, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        assert_int_equal(err.status, status);
        if (status == TRI_OK)
            assert_memory_equal(out.data, "x/", 2);
        buf_fini(&out);
    }
    assert_true(fault.run > 1);
}

#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_file_is_appended_whole),
        IN_FOLDER(a_file_of_many_blocks_is_read_in_order),
        IN_FOLDER(an_empty_file_and_the_null_device_are_empty),
        IN_FOLDER(the_limit_is_the_last_length_that_fits),
        IN_FOLDER(what_cannot_be_read_is_told_with_the_reason),
        IN_FOLDER(a_pipe_is_read_to_its_end),
        IN_FOLDER(a_read_that_finds_no_memory_leaks_nothing),
        IN_FOLDER(entries_come_in_alphabetical_order_and_by_suffix),
        IN_FOLDER(a_status_ends_the_listing_and_is_passed_on),
        IN_FOLDER(a_folder_that_is_none_is_told),
        IN_FOLDER(a_listing_that_finds_no_memory_leaks_nothing),
        IN_FOLDER(hidden_entries_are_listed_apart),
        IN_FOLDER(what_is_at_a_path_is_told),
        IN_FOLDER(a_folder_is_made_once_and_those_above_it),
        IN_FOLDER(a_file_is_removed_and_one_that_is_gone_is_fine),
        IN_FOLDER(the_room_of_a_disk_is_known),
        IN_FOLDER(a_lock_has_one_holder_who_is_named),
        IN_FOLDER(a_lock_that_finds_no_memory_is_not_taken),
        IN_FOLDER(many_that_want_a_lock_have_it_one_by_one),
        IN_FOLDER(a_write_makes_the_file_and_nothing_else),
        IN_FOLDER(a_write_replaces_the_whole_file_and_spares_its_readers),
        IN_FOLDER(a_write_into_a_missing_folder_is_told),
        IN_FOLDER(a_write_over_a_folder_leaves_nothing_behind),
        IN_FOLDER(a_disk_that_is_full_keeps_the_old_file_and_nothing_else),
        IN_FOLDER(a_path_that_is_too_long_is_told),
        IN_FOLDER(files_written_together_are_there_whole),
        IN_FOLDER(a_path_without_a_folder_is_in_the_one_we_are_in),
        IN_FOLDER(files_written_together_are_written_all_or_none),
        IN_FOLDER(a_disk_that_is_full_keeps_all_old_files),
        IN_FOLDER(a_place_for_a_file_is_tried_without_a_trace),
        cmocka_unit_test(the_program_lies_in_its_folder),
        cmocka_unit_test(the_program_folder_is_appended_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
