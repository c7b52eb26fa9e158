/* api: what a program can get wrong in each call, and that the job is as it was after it. */
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "trident/trident.h"

enum { ROWS = 4, COLS = 3, MATRIX = ROWS * COLS, K = 2 };

struct fixture {
    tri_job *job;
    float weights[2][MATRIX], bias[ROWS], result[2][MATRIX + ROWS];
    float gradient[MATRIX], gradient_bias[ROWS], u[K * ROWS], v[K * COLS];
};

static tri_error err;

static int clear(void **state)
{
    static const char *const names[] = {
        "TRIDENT_RANK",      "TRIDENT_WORKERS",     "TRIDENT_COORDINATOR",
        "TRIDENT_SERVERS",   "TRIDENT_COLOCATE",    "TRIDENT_SCHEME",
        "TRIDENT_OPTIMIZER", "TRIDENT_CONSISTENCY", "RANK",
        "WORLD_SIZE",        "MASTER_ADDR",         "MASTER_PORT"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
    return 0;
}

static void refused(tri_status status, const char *text)
{
    if (status != TRI_EARG || err.status != TRI_EARG || strstr(err.text, text) == NULL)
        fail_msg("%s: '%s' instead of '%s'", tri_status_name(status), err.text, text);
    memset(&err, 0, sizeof err);
}

static void open_job(struct fixture *f, tri_result result)
{
    tri_options options = TRI_OPTIONS_INIT;
    memset(f, 0, sizeof *f);
    options.result = result;
    assert_int_equal(tri_open(&options, &f->job, &err), TRI_OK);
}

static tri_layer_info layer_a(struct fixture *f)
{
    tri_layer_info info = TRI_LAYER_INIT;
    info.name = "a";
    info.rows = ROWS;
    info.cols = COLS;
    info.max_factor_rows = K;
    info.weights = f->weights[0];
    info.bias = f->bias;
    return info;
}

static tri_layer_info layer_b(struct fixture *f)
{
    tri_layer_info info = layer_a(f);
    info.name = "b";
    info.kind = TRI_EMBED;
    info.max_factor_rows = 0;
    info.weights = f->weights[1];
    info.bias = NULL;
    return info;
}

static void start(struct fixture *f)
{
    tri_layer_info a = layer_a(f), b = layer_b(f);
    uint32_t number = 9;
    open_job(f, TRI_PARAMETERS);
    assert_int_equal(tri_layer(f->job, &a, &number, &err), TRI_OK);
    assert_int_equal(number, 0);
    assert_int_equal(tri_layer(f->job, &b, &number, &err), TRI_OK);
    assert_int_equal(number, 1);
    assert_int_equal(tri_start(f->job, &err), TRI_OK);
}

static tri_update_info dense(struct fixture *f)
{
    tri_update_info info = TRI_UPDATE_INIT;
    info.dense = f->gradient;
    info.dense_bias = f->gradient_bias;
    info.lr = 0.5f;
    return info;
}

TEST(opening_needs_a_place_for_the_job_and_options_with_a_size)
{
    (void)state;
    tri_job *job = (tri_job *)&err;
    tri_options options = TRI_OPTIONS_INIT;
    refused(tri_open(&options, NULL, &err), "nowhere to put the job");
    options.size = 0;
    refused(tri_open(&options, &job, &err), "options of size 0");
    assert_ptr_equal(job, &err); /* untouched */
    assert_int_equal(tri_open(&options, NULL, NULL), TRI_EARG);
}

TEST(a_job_of_one_needs_nothing)
{
    (void)state;
    tri_job *job = NULL;
    assert_int_equal(tri_open(NULL, &job, NULL), TRI_OK);
    assert_int_equal(tri_rank(job), 0);
    assert_int_equal(tri_workers(job), 1);
    tri_close(job);
    tri_close(NULL);
}

TEST(options_of_an_older_program_are_shorter)
{
    (void)state;
    tri_job *job = NULL;
    tri_options options = TRI_OPTIONS_INIT;
    options.workers = 1;
    options.rank = 0;
    options.scheme = "no such scheme"; /* a field behind the end of the older one */
    options.log = (void (*)(void *, int, const char *))1; /* never called */
    options.size = offsetof(tri_options, scheme);
    assert_int_equal(tri_open(&options, &job, &err), TRI_OK);
    tri_close(job);
}

TEST(layers_that_cannot_be_are_refused_by_name)
{
    (void)state;
    static struct fixture f;
    open_job(&f, TRI_PARAMETERS);
    tri_layer_info info = layer_a(&f);
    refused(tri_layer(NULL, &info, NULL, &err), "no job");
    refused(tri_layer(f.job, NULL, NULL, &err), "no layer");
    refused(tri_start(f.job, &err), "a job without layers");
    info.size = 0;
    refused(tri_layer(f.job, &info, NULL, &err), "no layer");
    info = layer_a(&f);
    info.name = NULL;
    refused(tri_layer(f.job, &info, NULL, &err), "has no name");
    info.name = "";
    refused(tri_layer(f.job, &info, NULL, &err), "has no name");
    info = layer_a(&f);
    info.rows = 0;
    refused(tri_layer(f.job, &info, NULL, &err), "'a' has no rows or no columns");
    info = layer_a(&f);
    info.cols = 0;
    refused(tri_layer(f.job, &info, NULL, &err), "'a' has no rows or no columns");
    info = layer_a(&f);
    info.weights = NULL;
    refused(tri_layer(f.job, &info, NULL, &err), "'a' has no weights");
    info = layer_a(&f);
    info.kind = (tri_kind)5;
    refused(tri_layer(f.job, &info, NULL, &err), "'a' is of a kind");
    info = layer_a(&f);
    assert_int_equal(tri_layer(f.job, &info, NULL, &err), TRI_OK);
    refused(tri_layer(f.job, &info, NULL, &err), "'a' was described before");
    assert_int_equal(tri_start(f.job, &err), TRI_OK);
    info = layer_b(&f);
    refused(tri_layer(f.job, &info, NULL, &err), "'b' comes after tri_start");
    refused(tri_start(f.job, &err), "a job that has started");
    refused(tri_start(NULL, &err), "no job");
    tri_close(f.job);
}

TEST(names_are_copied)
{
    (void)state;
    static struct fixture f;
    char name[] = "a", text[20];
    open_job(&f, TRI_PARAMETERS);
    tri_layer_info info = layer_a(&f);
    info.name = name;
    assert_int_equal(tri_layer(f.job, &info, NULL, &err), TRI_OK);
    name[0] = 'z';
    assert_int_equal(tri_start(f.job, &err), TRI_OK);
    assert_int_equal(tri_query(f.job, "rows.a", text, sizeof text, &err), TRI_OK);
    assert_string_equal(text, "4");
    tri_close(f.job);
}

TEST(an_aggregate_needs_room_for_its_result)
{
    (void)state;
    static struct fixture f;
    open_job(&f, TRI_AGGREGATE);
    tri_layer_info info = layer_a(&f);
    refused(tri_layer(f.job, &info, NULL, &err), "'a' has no room for the result");
    info.size = offsetof(tri_layer_info, result); /* an older program cannot have it either */
    info.result = f.result[0];
    refused(tri_layer(f.job, &info, NULL, &err), "'a' has no room for the result");
    info = layer_a(&f);
    info.result = f.result[0];
    assert_int_equal(tri_layer(f.job, &info, NULL, &err), TRI_OK);
    assert_int_equal(tri_start(f.job, &err), TRI_OK);
    tri_update_info update = dense(&f);
    f.gradient[5] = 6;
    f.gradient_bias[1] = 8;
    update.count = 2;
    assert_int_equal(tri_update(f.job, 0, &update, &err), TRI_OK);
    assert_int_equal(tri_clock(f.job, NULL, &err), TRI_OK);
    assert_int_equal(tri_sync(f.job, 0, &err), TRI_OK);
    assert_true(f.result[0][5] == 3 && f.result[0][MATRIX + 1] == 4 && f.weights[0][5] == 0);
    tri_close(f.job);
}

TEST(nothing_of_the_loop_works_before_the_start)
{
    (void)state;
    static struct fixture f;
    uint32_t crc = 7;
    uint64_t clock = 7;
    char text[20];
    open_job(&f, TRI_PARAMETERS);
    tri_layer_info info = layer_a(&f);
    tri_update_info update = dense(&f);
    assert_int_equal(tri_layer(f.job, &info, NULL, &err), TRI_OK);
    refused(tri_update(f.job, 0, &update, &err), "tri_update comes before tri_start");
    refused(tri_sync(f.job, 0, &err), "tri_sync comes before tri_start");
    refused(tri_clock(f.job, &clock, &err), "tri_clock comes before tri_start");
    refused(tri_checksum(f.job, &crc, &err), "tri_checksum comes before tri_start");
    refused(tri_query(f.job, "workers", text, sizeof text, &err), "has started");
    assert_null(tri_scheme_of(f.job, 0));
    assert_int_equal(crc, 7);
    assert_int_equal(clock, 7);
    tri_close(f.job);
}

TEST(calls_without_a_job_or_with_a_layer_too_many_are_refused)
{
    (void)state;
    static struct fixture f;
    uint32_t crc;
    start(&f);
    tri_update_info update = dense(&f);
    refused(tri_update(NULL, 0, &update, &err), "no job");
    refused(tri_sync(NULL, 0, &err), "no job");
    refused(tri_clock(NULL, NULL, &err), "no job");
    refused(tri_checksum(NULL, &crc, &err), "no job");
    refused(tri_checksum(f.job, NULL, &err), "checksum");
    refused(tri_update(f.job, 2, &update, &err), "tri_update got layer 2, there are 2");
    refused(tri_sync(f.job, UINT32_MAX, &err), "tri_sync got layer");
    assert_null(tri_scheme_of(f.job, 2));
    assert_null(tri_scheme_of(NULL, 0));
    assert_string_equal(tri_scheme_of(f.job, 1), "ps");
    assert_int_equal(tri_sync(f.job, 0, NULL), TRI_OK);
    tri_close(f.job);
}

TEST(updates_that_cannot_be_are_refused_and_one_that_can_still_goes)
{
    (void)state;
    static struct fixture f;
    uint32_t number = 0;
    start(&f);
    tri_update_info update = dense(&f);
    refused(tri_update(f.job, 0, NULL, &err), "no update");
    update.size = 0;
    refused(tri_update(f.job, 0, &update, &err), "no update");
    update = (tri_update_info)TRI_UPDATE_INIT;
    refused(tri_update(f.job, 0, &update, &err), "'a' has no form");
    update = dense(&f);
    update.u = f.u;
    update.v = f.v;
    update.factor_rows = 1;
    refused(tri_update(f.job, 0, &update, &err), "'a' has several forms");
    update.dense = NULL;
    update.dense_bias = NULL;
    update.v = NULL;
    refused(tri_update(f.job, 0, &update, &err), "u or v, not both");
    update.v = f.v;
    update.factor_rows = 0;
    refused(tri_update(f.job, 0, &update, &err), "0 rows of factors, from 1 to 2");
    update.factor_rows = K + 1;
    refused(tri_update(f.job, 0, &update, &err), "3 rows of factors, from 1 to 2");
    update.factor_rows = 1;
    refused(tri_update(f.job, 1, &update, &err), "'b' has 1 rows of factors");
    update.count = 0;
    refused(tri_update(f.job, 0, &update, &err), "'a' has count 0");
    update = dense(&f);
    update.dense_bias = NULL;
    refused(tri_update(f.job, 0, &update, &err), "'a' has no gradient of its bias");
    update = dense(&f);
    refused(tri_update(f.job, 1, &update, &err), "'b' has a gradient of a bias");
    update = (tri_update_info)TRI_UPDATE_INIT;
    update.row_values = f.gradient;
    update.row_count = 1;
    refused(tri_update(f.job, 1, &update, &err), "rows or numbers, not both");
    number = ROWS;
    update.row_numbers = &number;
    refused(tri_update(f.job, 1, &update, &err), "'b' has no row 4, only 4 rows");
    number = ROWS - 1;
    assert_int_equal(tri_update(f.job, 1, &update, &err), TRI_OK);
    refused(tri_update(f.job, 1, &update, &err), "'b' was not synced since its last update");
    update = dense(&f);
    assert_int_equal(tri_update(f.job, 0, &update, &err), TRI_OK);
    tri_close(f.job);
}

TEST(an_update_of_an_older_program_counts_one_sample)
{
    (void)state;
    static struct fixture f;
    start(&f);
    tri_update_info update = dense(&f);
    f.gradient[0] = 4;
    update.count = 0; /* behind the end */
    update.lr = 99;
    update.params_busy = 1;
    update.size = offsetof(tri_update_info, count);
    assert_int_equal(tri_update(f.job, 0, &update, &err), TRI_OK);
    tri_close(f.job);
}

TEST(the_loop_counts_steps_and_sums_up)
{
    (void)state;
    static struct fixture f;
    uint32_t crc[3];
    uint64_t clock = 0;
    tri_stats stats;
    start(&f);
    tri_update_info update = dense(&f);
    f.gradient[0] = 4;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tri_sync(f.job, 0, &err), TRI_OK);
        assert_int_equal(tri_update(f.job, 0, &update, &err), TRI_OK);
        assert_int_equal(tri_clock(f.job, &clock, &err), TRI_OK);
        assert_int_equal(clock, i + 1);
        assert_int_equal(tri_checksum(f.job, &crc[i], &err), TRI_OK);
    }
    assert_true(f.weights[0][0] == -6); /* three steps of 0.5 x 4 */
    assert_true(crc[0] != crc[1] && crc[1] != crc[2]);
    tri_get_stats(f.job, &stats);
    assert_int_equal(stats.clocks, 3);
    assert_int_equal(stats.live_workers, 1);
    assert_int_equal(stats.view, 1);
    assert_int_equal(stats.messages, 0);
    tri_close(f.job);
}

TEST(questions_that_nobody_can_answer_are_refused)
{
    (void)state;
    static struct fixture f;
    char text[20] = "?";
    start(&f);
    refused(tri_query(f.job, NULL, text, sizeof text, &err), "no name");
    refused(tri_query(f.job, "workers", NULL, 4, &err), "no room");
    refused(tri_query(f.job, "workers", text, 0, &err), "no room");
    refused(tri_query(NULL, "workers", text, sizeof text, &err), "no job");
    assert_int_equal(tri_query(f.job, "worker", text, sizeof text, &err), TRI_EARG);
    assert_non_null(strstr(err.next, "workers"));
    assert_int_equal(tri_query(f.job, "layers", text, sizeof text, &err), TRI_OK);
    assert_string_equal(text, "2");
    tri_close(f.job);
}

TEST(wrong_settings_are_told_and_nothing_is_left)
{
    (void)state;
    tri_job *job = NULL;
    tri_options options = TRI_OPTIONS_INIT;
    options.rank = 3;
    assert_int_equal(tri_open(&options, &job, &err), TRI_EINPUT);
    assert_null(job);
    options = (tri_options)TRI_OPTIONS_INIT;
    options.workers = 2;
    options.rank = 0;
    options.coordinator = "nowhere";
    assert_int_equal(tri_open(&options, &job, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "nowhere"));
    assert_null(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_needs_a_place_for_the_job_and_options_with_a_size),
        cmocka_unit_test(a_job_of_one_needs_nothing),
        cmocka_unit_test(options_of_an_older_program_are_shorter),
        cmocka_unit_test(layers_that_cannot_be_are_refused_by_name),
        cmocka_unit_test(names_are_copied),
        cmocka_unit_test(an_aggregate_needs_room_for_its_result),
        cmocka_unit_test(nothing_of_the_loop_works_before_the_start),
        cmocka_unit_test(calls_without_a_job_or_with_a_layer_too_many_are_refused),
        cmocka_unit_test(updates_that_cannot_be_are_refused_and_one_that_can_still_goes),
        cmocka_unit_test(an_update_of_an_older_program_counts_one_sample),
        cmocka_unit_test(the_loop_counts_steps_and_sums_up),
        cmocka_unit_test(questions_that_nobody_can_answer_are_refused),
        cmocka_unit_test(wrong_settings_are_told_and_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, clear, NULL);
}
