/* Regions: found by name, checked for room, cleaned up when their job is dead, never before. */
#include <dirent.h>
#include <sys/stat.h>

#include "local/rig.h"

static int count_files(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void make_folder(char *folder)
{
    (void)snprintf(folder, 64, "/tmp/trident-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

TEST(what_is_written_in_one_handle_is_read_in_another)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 3);
    struct local_job *job = rig_create(&options), *other = NULL;
    struct local_about about;
    local_shared(job, 1)[5] = 7;
    assert_int_equal(local_attach(&options, &other, NULL), TRI_OK);
    assert_true(local_shared(other, 1)[5] == 7);
    local_about(other, &about);
    assert_int_equal(about.learners, 3);
    assert_int_equal(about.slots, 2);
    assert_int_equal(about.layer_count, RIG_LAYERS);
    assert_string_equal(about.layers[0].name, "fc");
    assert_int_equal(about.layers[0].floats, RIG_ROWS * RIG_COLS + RIG_ROWS);
    for (uint32_t l = 0; l < RIG_LAYERS; l++) {
        assert_int_equal((uintptr_t)local_shared(other, l) % 64, 0);
        assert_int_equal(about.layers[l].offset % 16, 0);
    }
    local_close(other);
    rig_remove(job);
}

/* Where the mapping begins that has this in it. */
static uint64_t mapped_at(const void *inside)
{
    char line[600];
    uint64_t found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (found == 0 && fgets(line, sizeof line, maps) != NULL) {
        char *end;
        uint64_t first = strtoull(line, &end, 16);
        if (*end == '-' && first <= (uintptr_t)inside &&
            (uintptr_t)inside < strtoull(end + 1, NULL, 16))
            found = first;
    }
    (void)fclose(maps);
    assert_true(found != 0);
    return found;
}

TEST(a_large_region_lies_where_large_pages_can_be_and_is_zero)
{
    (void)state;
    for (int i = 0; i < 4; i++) { /* one could lie so by chance */
        const struct local_layer_info layer = {.name = "w", .rows = 3000, .cols = 1000};
        struct local_options options = rig_options(LOCAL_DIRECT, 1);
        options.layers = &layer;
        options.layer_count = 1;
        struct local_job *job = rig_create(&options), *other = NULL;
        assert_int_equal(mapped_at(local_shared(job, 0)) % (2 << 20), 0);
        for (uint64_t k = 0; k < layer.rows * (uint64_t)layer.cols; k++)
            assert_true(local_shared(job, 0)[k] == 0);
        local_shared(job, 0)[2999999] = 3;
        assert_int_equal(local_attach(&options, &other, NULL), TRI_OK);
        assert_true(local_shared(other, 0)[2999999] == 3);
        local_close(job);
        assert_int_equal(mapped_at(local_shared(other, 0)) % (2 << 20), 0);
        rig_remove(other);
    }
}

TEST(a_large_region_ends_with_a_large_page_and_a_small_one_is_not_larger_for_it)
{
    (void)state;
    static const uint32_t rows[] = {2, 800};
    for (int i = 0; i < 2; i++) {
        const struct local_layer_info layer = {.name = "w", .rows = rows[i], .cols = 1000};
        struct local_options options = rig_options(LOCAL_SERVER, 1);
        struct local_about about;
        options.layers = &layer;
        options.layer_count = 1;
        struct local_job *job = rig_create(&options);
        local_about(job, &about);
        if (i == 0)
            assert_true(about.bytes < 100000);
        else
            assert_int_equal(about.bytes % (2 << 20), 0);
        rig_remove(job);
    }
}

TEST(a_name_that_is_in_use_is_refused_and_one_that_is_missing_is_said)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options), *other = NULL;
    tri_error err;
    assert_int_equal(local_create(&options, &other, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, options.name));
    assert_non_null(strstr(err.next, "another name"));
    rig_remove(job);
    options.wait_ms = 30;
    assert_int_equal(local_attach(&options, &other, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "there is no job"));
}

TEST(too_little_room_is_said_with_numbers_and_nothing_is_left)
{
    (void)state;
    char folder[64];
    make_folder(folder);
    static const struct local_layer_info huge = {.name = "huge", .rows = 1 << 20, .cols = 1 << 18};
    struct local_options options = rig_options(LOCAL_SERVER, 2);
    struct local_job *job;
    tri_error err;
    options.layers = &huge;
    options.layer_count = 1;
    options.folder = folder;
    assert_int_equal(local_create(&options, &job, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "no room for 5497560 MB"));
    assert_non_null(strstr(err.why, "MB are free there"));
    assert_non_null(strstr(err.next, "--shm-size"));
    assert_int_equal(count_files(folder), 0);
    options.folder = NULL; /* neither of the two has so much */
    assert_int_equal(local_create(&options, &job, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "/dev/shm"));
    (void)rmdir(folder);
}

TEST(wrong_options_are_refused)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job;
    tri_error err;
    static const char *const names[] = {"", "a/b", "..", "white space"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct local_options bad = options;
        bad.name = names[i];
        assert_int_equal(local_create(&bad, &job, &err), TRI_EINPUT);
    }
    struct local_options bad = options;
    bad.learners = 0;
    assert_int_equal(local_create(&bad, &job, &err), TRI_EINPUT);
    bad = options;
    bad.slots = LOCAL_SLOTS_MAX + 1;
    assert_int_equal(local_create(&bad, &job, &err), TRI_EINPUT);
    bad = options;
    bad.layer_count = 0;
    assert_int_equal(local_create(&bad, &job, &err), TRI_EARG);
}

TEST(a_region_of_another_layout_is_refused)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options), *other;
    struct local_about about;
    tri_error err;
    local_about(job, &about);
    FILE *file = fopen(about.path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 8, SEEK_SET), 0);
    assert_int_equal(fputc(99, file), 99);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(local_attach(&options, &other, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "another layout (99"));
    rig_remove(job);
}

static int do_nothing(struct local_job *job, void *arg)
{
    (void)job, (void)arg;
    return 0;
}

TEST(attaching_waits_for_a_job_that_is_about_to_be_created)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    pid_t child = rig_fork(&options, LOCAL_AT_NOTHING, 0, do_nothing, NULL);
    struct local_job *job = rig_create(&options);
    assert_int_equal(rig_wait(child), 0);
    rig_remove(job);
}

static int create_and_die(const struct local_options *options)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct local_job *job;
        if (local_create(options, &job, NULL) != TRI_OK)
            _exit(1);
        (void)kill(getpid(), SIGKILL);
    }
    return rig_wait(pid);
}

TEST(regions_of_dead_jobs_are_swept_and_those_of_live_ones_never)
{
    (void)state;
    char folder[64];
    make_folder(folder);
    uint32_t removed;
    struct local_options dead = rig_options(LOCAL_SERVER, 1), live = rig_options(LOCAL_SERVER, 1);
    dead.folder = live.folder = folder;
    struct local_job *job = rig_create(&live);
    assert_int_equal(create_and_die(&dead), -SIGKILL);
    assert_int_equal(count_files(folder), 2);
    assert_int_equal(local_sweep(folder, &mem_libc, NULL, &removed, NULL), TRI_OK);
    assert_int_equal(removed, 1);
    assert_int_equal(count_files(folder), 1);
    /* Without its handle the region has no lock any more, but its creator lives. */
    local_close(job);
    assert_int_equal(local_sweep(folder, &mem_libc, NULL, &removed, NULL), TRI_OK);
    assert_int_equal(removed, 0);
    assert_int_equal(rig_wait(rig_fork(&live, LOCAL_AT_NOTHING, 0, do_nothing, NULL)), 0);
    assert_int_equal(local_attach(&live, &job, NULL), TRI_OK);
    rig_remove(job);
    assert_int_equal(rmdir(folder), 0);
}

TEST(the_name_of_a_dead_job_can_be_used_again)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    assert_int_equal(create_and_die(&options), -SIGKILL);
    struct local_job *job = rig_create(&options);
    rig_remove(job);
}

TEST(every_refused_allocation_is_survived)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SYNC, 2);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct local_job *job;
        struct local_learner *learner;
        struct local_learner_options wish = {.push_thread = true, .pull_thread = true};
        options.mem = &fault.mem;
        tri_status status = local_create(&options, &job, NULL);
        if (status != TRI_OK) {
            assert_int_equal(status, TRI_ENOMEM);
            continue;
        }
        status = local_join(job, &wish, &learner, NULL);
        if (status == TRI_OK)
            local_leave(learner);
        struct local_snapshot snapshot;
        if (status == TRI_OK)
            status = local_snapshot_open(job, &snapshot, NULL);
        if (status == TRI_OK)
            local_snapshot_close(job, &snapshot);
        assert_true(status == TRI_OK || status == TRI_ENOMEM);
        rig_remove(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_in_one_handle_is_read_in_another),
        cmocka_unit_test(a_large_region_lies_where_large_pages_can_be_and_is_zero),
        cmocka_unit_test(
            a_large_region_ends_with_a_large_page_and_a_small_one_is_not_larger_for_it),
        cmocka_unit_test(a_name_that_is_in_use_is_refused_and_one_that_is_missing_is_said),
        cmocka_unit_test(attaching_waits_for_a_job_that_is_about_to_be_created),
        cmocka_unit_test(too_little_room_is_said_with_numbers_and_nothing_is_left),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(a_region_of_another_layout_is_refused),
        cmocka_unit_test(regions_of_dead_jobs_are_swept_and_those_of_live_ones_never),
        cmocka_unit_test(the_name_of_a_dead_job_can_be_used_again),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
