/* checkpoint/writer: the caller goes on while a checkpoint is written. */
#include "checkpoint/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/slow_disk.h"
#include "lib/test.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/trident-writer-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[96];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command); /* NOLINT: of a test */
}

static float values[6] = {1, 2, 3, 4, 5, 6};
static struct checkpoint_layer layer = {.name = "fc", .rows = 2, .cols = 3, .values = values};

static struct checkpoint at_clock(uint64_t clock)
{
    return (struct checkpoint){
        .clock = clock, .job = "job", .optimizer = "sgd", .layer_count = 1, .layers = &layer};
}

static size_t count_all(void)
{
    struct checkpoint_entry *entries = NULL;
    size_t count = 0;
    assert_int_equal(checkpoint_list(folder, &mem_libc, &entries, &count, NULL), TRI_OK);
    mem_free(&mem_libc, entries);
    return count;
}

TEST(the_caller_goes_on_while_it_is_written)
{
    (void)state;
    struct checkpoint_writer writer = {.folder = folder, .keep = 1, .mem = &mem_libc};
    struct checkpoint first = at_clock(3), second = at_clock(4);
    tri_status status = TRI_EARG;
    tri_error err;
    slow_disk_set(true);
    assert_int_equal(checkpoint_writer_begin(&writer, &first, NULL), TRI_OK);
    slow_disk_await();
    assert_true(checkpoint_writer_is_busy(&writer));
    assert_false(checkpoint_writer_ended(&writer, false, &status, &err));
    assert_int_equal(count_all(), 0);
    slow_disk_set(false);
    assert_true(checkpoint_writer_ended(&writer, true, &status, &err));
    assert_int_equal(status, TRI_OK);
    assert_false(checkpoint_writer_is_busy(&writer));
    assert_int_equal(checkpoint_writer_begin(&writer, &second, NULL), TRI_OK);
    assert_true(checkpoint_writer_ended(&writer, true, &status, &err));
    struct checkpoint *read = NULL;
    assert_int_equal(checkpoint_newest(folder, &mem_libc, NULL, NULL, &read, NULL), TRI_OK);
    assert_int_equal(read->clock, 4);
    assert_memory_equal(read->layers[0].values, values, sizeof values);
    assert_int_equal(count_all(), 1); /* the other one is pruned */
    checkpoint_free(read, &mem_libc);
}

TEST(one_that_cannot_be_written_says_why)
{
    (void)state;
    struct checkpoint_writer writer = {.folder = "/proc/nowhere", .keep = 1, .mem = &mem_libc};
    struct checkpoint what = at_clock(3);
    tri_status status = TRI_OK;
    tri_error err;
    assert_int_equal(checkpoint_writer_begin(&writer, &what, NULL), TRI_OK);
    assert_true(checkpoint_writer_ended(&writer, true, &status, &err));
    assert_int_not_equal(status, TRI_OK);
    assert_non_null(strstr(err.text, "/proc/nowhere"));
}

TEST(where_none_is_written_none_is_waited_for)
{
    (void)state;
    struct checkpoint_writer writer = {.folder = folder, .keep = 1, .mem = &mem_libc};
    tri_status status = TRI_OK;
    tri_error err;
    assert_false(checkpoint_writer_ended(&writer, true, &status, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_caller_goes_on_while_it_is_written, make_folder,
                                        remove_folder),
        cmocka_unit_test(one_that_cannot_be_written_says_why),
        cmocka_unit_test(where_none_is_written_none_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
