/* api: what is kept for a checkpoint, and a job of one worker that goes on from one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/file.h"
#include "trident/trident.h"

#include "lib/test.h" /* after error.h: cmocka has a macro named fail */

enum { ROWS = 70, COLS = 100, MATRIX = ROWS * COLS };

struct program {
    tri_job *job;
    float weights[MATRIX], bias[ROWS], other[ROWS];
    float statistics[3];
    uint64_t position[2];
};

static tri_error err;
static char folder[64];

static int begin(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/trident-keep-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static tri_status remove_one(void *ctx, const char *name)
{
    char path[400];
    (void)ctx;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return unlink(path) == 0 ? TRI_OK : TRI_EIO;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(file_each(folder, "", &mem_libc, remove_one, NULL, NULL), TRI_OK);
    return rmdir(folder);
}

static void keep(struct program *program, const char *name, tri_type type, void *values,
                 uint64_t count)
{
    tri_keep_info info = TRI_KEEP_INIT;
    info.name = name;
    info.type = type;
    info.values = values;
    info.count = count;
    assert_int_equal(tri_keep(program->job, &info, &err), TRI_OK);
}

static void describe(struct program *program)
{
    tri_layer_info layer = TRI_LAYER_INIT;
    uint32_t number;
    layer.name = "a";
    layer.rows = ROWS;
    layer.cols = COLS;
    layer.weights = program->weights;
    layer.bias = program->bias;
    assert_int_equal(tri_layer(program->job, &layer, &number, &err), TRI_OK);
    layer.name = "b";
    layer.cols = 1;
    layer.weights = program->other;
    layer.bias = NULL;
    assert_int_equal(tri_layer(program->job, &layer, &number, &err), TRI_OK);
    keep(program, "statistics", TRI_F32, program->statistics, 3);
    keep(program, "position", TRI_U64, program->position, 2);
}

static tri_status open_program(struct program *program, const char *optimizer, bool resume)
{
    tri_options options = TRI_OPTIONS_INIT;
    memset(program, 0, sizeof *program);
    options.optimizer = optimizer;
    options.checkpoint = folder;
    options.checkpoint_every = 4;
    options.resume = resume ? 1 : -1;
    assert_int_equal(tri_open(&options, &program->job, &err), TRI_OK);
    for (size_t i = 0; i < MATRIX; i++)
        program->weights[i] = (float)(i % 13) - 6;
    describe(program);
    return tri_start(program->job, &err);
}

/* Layer b has an update in every third iteration only: its optimiser steps less often. */
static void train(struct program *program, uint64_t until)
{
    static float gradient[MATRIX], of_bias[ROWS];
    tri_stats stats;
    tri_get_stats(program->job, &stats);
    for (uint64_t clock = stats.clocks; clock < until;) {
        tri_update_info update = TRI_UPDATE_INIT;
        for (size_t i = 0; i < MATRIX; i++)
            gradient[i] = (float)((i * 7 + clock * 3) % 11) * 0.1F - program->weights[i] * 0.01F;
        memcpy(of_bias, gradient, sizeof of_bias);
        update.lr = 0.01F;
        update.dense = gradient;
        update.dense_bias = of_bias;
        assert_int_equal(tri_update(program->job, 0, &update, &err), TRI_OK);
        update.dense_bias = NULL;
        if (clock % 3 == 0)
            assert_int_equal(tri_update(program->job, 1, &update, &err), TRI_OK);
        program->statistics[1] += 0.25F;
        program->position[0] = clock + 1;
        assert_int_equal(tri_clock(program->job, &clock, &err), TRI_OK);
        assert_int_equal(tri_sync(program->job, 0, &err), TRI_OK);
        assert_int_equal(tri_sync(program->job, 1, &err), TRI_OK);
    }
}

static uint32_t crc_of(struct program *program)
{
    uint32_t crc = 0;
    assert_int_equal(tri_checksum(program->job, &crc, &err), TRI_OK);
    return crc;
}

TEST(a_resumed_job_ends_with_the_same_bits)
{
    static const char *const optimizers[] = {"sgd", "momentum:0.9", "adam"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct program whole, half, rest;
        assert_int_equal(open_program(&whole, optimizers[i], false), TRI_OK);
        train(&whole, 12);
        uint32_t wanted = crc_of(&whole);
        tri_close(whole.job);
        (void)end(NULL); /* only the next one's */
        (void)begin(NULL);
        assert_int_equal(open_program(&half, optimizers[i], false), TRI_OK);
        assert_int_equal(tri_save(half.job, 7, &err), TRI_OK);
        train(&half, 7);
        tri_close(half.job);
        assert_int_equal(open_program(&rest, optimizers[i], true), TRI_OK);
        assert_int_equal(rest.position[0], 7);
        assert_true(rest.statistics[1] == 7 * 0.25F);
        tri_stats stats;
        tri_get_stats(rest.job, &stats);
        assert_int_equal(stats.clocks, 7);
        train(&rest, 12);
        assert_int_equal(crc_of(&rest), wanted);
        tri_close(rest.job);
        (void)end(NULL);
        (void)begin(NULL);
    }
}

TEST(without_a_checkpoint_a_resumed_job_begins_at_the_beginning)
{
    (void)state;
    struct program program;
    assert_int_equal(open_program(&program, "sgd", true), TRI_OK);
    tri_stats stats;
    tri_get_stats(program.job, &stats);
    assert_int_equal(stats.clocks, 0);
    assert_true(program.weights[1] == -5);
    tri_close(program.job);
}

TEST(a_checkpoint_of_another_optimiser_is_refused_by_name)
{
    (void)state;
    struct program program;
    assert_int_equal(open_program(&program, "momentum:0.9", false), TRI_OK);
    train(&program, 4);
    tri_close(program.job);
    assert_int_equal(open_program(&program, "adam", true), TRI_EINPUT);
    assert_non_null(strstr(err.text, "momentum:0.9"));
    assert_non_null(strstr(err.text, "adam"));
    tri_close(program.job);
}

static void refused(tri_job *job, tri_keep_info info, const char *text)
{
    if (tri_keep(job, &info, &err) != TRI_EARG || strstr(err.text, text) == NULL)
        fail_msg("'%s' instead of '%s'", err.text, text);
}

TEST(what_cannot_be_kept_is_refused)
{
    (void)state;
    struct program program;
    float value = 0;
    assert_int_equal(open_program(&program, "sgd", false), TRI_OK);
    tri_keep_info info = TRI_KEEP_INIT;
    info.name = "late";
    info.values = &value;
    info.count = 1;
    refused(program.job, info, "after tri_start");
    tri_close(program.job);

    tri_options options = TRI_OPTIONS_INIT;
    assert_int_equal(tri_open(&options, &program.job, &err), TRI_OK);
    refused(NULL, info, "no job");
    info.count = 0;
    refused(program.job, info, "are none");
    info.count = 1;
    info.type = (tri_type)9;
    refused(program.job, info, "type");
    info.type = TRI_F32;
    info.name = "";
    refused(program.job, info, "no name");
    info.name = "twice";
    assert_int_equal(tri_keep(program.job, &info, &err), TRI_OK);
    refused(program.job, info, "before");
    tri_close(program.job);
}

TEST(a_program_that_steps_itself_has_no_checkpoints)
{
    (void)state;
    static float weights[4], result[4];
    tri_options options = TRI_OPTIONS_INIT;
    tri_layer_info layer = TRI_LAYER_INIT;
    tri_job *job = NULL;
    options.checkpoint = folder;
    options.result = TRI_AGGREGATE;
    layer.name = "a";
    layer.rows = layer.cols = 2;
    layer.weights = weights;
    layer.result = result;
    assert_int_equal(tri_open(&options, &job, &err), TRI_OK);
    assert_int_equal(tri_layer(job, &layer, NULL, &err), TRI_OK);
    assert_int_equal(tri_start(job, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "no checkpoints"));
    tri_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_resumed_job_ends_with_the_same_bits, begin, end),
        cmocka_unit_test_setup_teardown(without_a_checkpoint_a_resumed_job_begins_at_the_beginning,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_checkpoint_of_another_optimiser_is_refused_by_name, begin,
                                        end),
        cmocka_unit_test_setup_teardown(what_cannot_be_kept_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_program_that_steps_itself_has_no_checkpoints, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
