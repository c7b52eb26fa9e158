/* Checkpoints of learners: which of the snapshots are saved, and what is told of them, while the
 * disk takes its time. */
#include <stdlib.h>

#include "cli/train_learners.h"
#include "lib/slow_disk.h"
#include "local/rig.h"

enum { SEATS = 2, EVERY = 5, FLOATS = 6 };

/* A job that has begun, and what it says. */
struct rig {
    char folder[64];
    struct local_job *job;
    struct local_snapshot snapshot;
    struct train_request request;
    struct log log;
    struct train_keep keep;
    char said[200]; /* the last warning */
    unsigned warnings;
};

static void on_log(void *ctx, enum log_level level, const char *line)
{
    struct rig *rig = ctx;
    if (level != LOG_WARN)
        return;
    rig->warnings++;
    (void)snprintf(rig->said, sizeof rig->said, "%s", line);
}

static int begin(void **state)
{
    static const struct local_layer_info layers[] = {
        {.name = "fc", .rows = 2, .cols = 3},
        {.name = LOCAL_NOTE_NAME, .rows = 1, .cols = LOCAL_NOTE_COLS}};
    struct rig *rig = calloc(1, sizeof *rig);
    if (rig == NULL)
        return -1;
    struct local_options options = rig_options(LOCAL_DIRECT, SEATS);
    options.layers = layers;
    options.layer_count = 2;
    rig->job = rig_create(&options);
    local_share_filled(rig->job, 0);
    (void)snprintf(rig->folder, sizeof rig->folder, "/tmp/trident-keep-XXXXXX");
    if (mkdtemp(rig->folder) == NULL)
        return -1;
    rig->request.settings.checkpoint = rig->folder;
    rig->request.settings.checkpoint_every = EVERY;
    (void)snprintf(rig->request.optimizer, sizeof rig->request.optimizer, "sgd");
    log_init(&rig->log, LOG_DEBUG, on_log, rig);
    rig->keep = (struct train_keep){.mem = &mem_libc,
                                    .log = &rig->log,
                                    .request = &rig->request,
                                    .job = rig->job,
                                    .batch_of_all = 4,
                                    .samples = 40};
    *state = rig;
    return local_snapshot_open(rig->job, &rig->snapshot, NULL) == TRI_OK &&
                   train_keep_open(&rig->keep, "job", NULL) == TRI_OK
               ? 0
               : -1;
}

static int end(void **state)
{
    struct rig *rig = *state;
    char command[96];
    train_keep_close(&rig->keep);
    local_snapshot_close(rig->job, &rig->snapshot);
    rig_remove(rig->job);
    (void)snprintf(command, sizeof command, "rm -rf %s", rig->folder);
    free(rig);
    return system(command); /* NOLINT: of a test */
}

/* A snapshot at that clock, whose weights are the clock. */
static void save(struct rig *rig, uint64_t clock, bool last)
{
    for (uint32_t i = 0; i < SEATS; i++)
        rig->snapshot.applied[i] = clock;
    for (uint32_t i = 0; i < FLOATS; i++)
        rig->snapshot.weights[i] = (float)clock;
    assert_int_equal(train_keep_save(&rig->keep, &rig->snapshot, last, NULL), TRI_OK);
}

/* Clocks of what is there, the newest first: "7 5". All are whole, and of their clock. */
static const char *there(const struct rig *rig)
{
    static char text[80];
    struct checkpoint_entry *entries = NULL;
    size_t count = 0;
    text[0] = '\0';
    assert_int_equal(checkpoint_list(rig->folder, &mem_libc, &entries, &count, NULL), TRI_OK);
    for (size_t i = 0; i < count; i++) {
        struct checkpoint *read = NULL;
        char path[200];
        size_t used = strlen(text);
        (void)snprintf(path, sizeof path, "%s/%s", rig->folder, entries[i].name);
        assert_int_equal(checkpoint_read(path, &mem_libc, &read, NULL), TRI_OK);
        assert_true(read->layers[0].values[0] == (float)read->clock);
        (void)snprintf(text + used, sizeof text - used, "%s%llu", i > 0 ? " " : "",
                       (unsigned long long)read->clock);
        checkpoint_free(read, &mem_libc);
    }
    mem_free(&mem_libc, entries);
    return text;
}

TEST(what_is_due_is_written_while_the_caller_goes_on)
{
    struct rig *rig = *state;
    slow_disk_set(true);
    save(rig, EVERY - 1, false);
    assert_false(checkpoint_writer_is_busy(&rig->keep.writer));
    save(rig, EVERY, false);
    slow_disk_await();
    train_keep_look(&rig->keep);
    assert_string_equal(there(rig), "");
    save(rig, EVERY + 1, false); /* the snapshot's memory has other values now */
    slow_disk_set(false);
    assert_int_equal(train_keep_end(&rig->keep, NULL), TRI_OK);
    assert_string_equal(there(rig), "5");
    assert_int_equal(rig->keep.saved, EVERY);
}

TEST(one_that_is_due_meanwhile_is_made_up_for_by_the_next)
{
    struct rig *rig = *state;
    slow_disk_set(true);
    save(rig, 5, false);
    save(rig, 10, false);
    slow_disk_set(false);
    assert_int_equal(train_keep_end(&rig->keep, NULL), TRI_OK);
    save(rig, 11, false);
    assert_int_equal(train_keep_end(&rig->keep, NULL), TRI_OK);
    assert_string_equal(there(rig), "11 5");
}

TEST(the_last_one_follows_the_one_that_is_being_written)
{
    struct rig *rig = *state;
    slow_disk_set(true);
    save(rig, 5, false);
    slow_disk_await();
    save(rig, 7, true);
    assert_string_equal(there(rig), "");
    slow_disk_set(false);
    assert_int_equal(train_keep_end(&rig->keep, NULL), TRI_OK);
    assert_string_equal(there(rig), "7 5");
    save(rig, 7, true);
    assert_false(checkpoint_writer_is_busy(&rig->keep.writer)); /* it is there already */
}

TEST(the_last_one_is_not_written_twice)
{
    struct rig *rig = *state;
    slow_disk_set(true);
    save(rig, 5, false);
    save(rig, 5, true);
    assert_null(rig->keep.last);
    slow_disk_set(false);
    assert_int_equal(train_keep_end(&rig->keep, NULL), TRI_OK);
    assert_string_equal(there(rig), "5");
}

TEST(an_error_on_the_way_is_told_and_the_next_is_tried)
{
    struct rig *rig = *state;
    rig->keep.writer.folder = "/proc/nowhere";
    save(rig, 5, false);
    assert_int_equal(train_keep_end(&rig->keep, NULL), TRI_OK);
    assert_int_equal(rig->warnings, 1);
    assert_non_null(strstr(rig->said, "no checkpoint: cannot make the folder '/proc/nowhere'"));
    rig->keep.writer.folder = rig->folder;
    save(rig, 6, false);
    assert_int_equal(train_keep_end(&rig->keep, NULL), TRI_OK);
    assert_string_equal(there(rig), "6");
}

TEST(an_error_of_the_last_one_is_that_of_the_end)
{
    struct rig *rig = *state;
    tri_error err = {0};
    rig->keep.writer.folder = "/proc/nowhere";
    save(rig, 5, false);
    save(rig, 7, true);
    assert_int_not_equal(train_keep_end(&rig->keep, &err), TRI_OK);
    assert_non_null(strstr(err.text, "/proc/nowhere"));
    assert_int_equal(rig->warnings, 1); /* of the one before */
}

#define WITH_JOB(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_JOB(what_is_due_is_written_while_the_caller_goes_on),
        WITH_JOB(one_that_is_due_meanwhile_is_made_up_for_by_the_next),
        WITH_JOB(the_last_one_follows_the_one_that_is_being_written),
        WITH_JOB(the_last_one_is_not_written_twice),
        WITH_JOB(an_error_on_the_way_is_told_and_the_next_is_tried),
        WITH_JOB(an_error_of_the_last_one_is_that_of_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
