/* local: jobs of equal processes, and the optimiser's memory as checkpoints want it. */
#include "local/share.h"

#include "local/planes.h"
#include "local/rig.h"

/* ---- planes ---- */

/* A gradient whose values all differ, of all layers; the last one dense or as rows. */
static void publish(struct local_learner *learner, bool rows)
{
    struct local_gradient *gradient;
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    for (uint32_t l = 0; l < RIG_LAYERS; l++) {
        const struct local_layer_info *info = &rig_layers[l];
        if (rows && info->max_rows > 0) {
            struct local_rows out;
            assert_true(local_rows(gradient, l, 2, &out));
            for (uint32_t i = 0; i < 2 * info->cols; i++)
                out.values[i] = 1 + (float)i;
            out.numbers[0] = 3;
            out.numbers[1] = 50;
            continue;
        }
        size_t floats = (size_t)info->rows * info->cols + (info->bias ? info->rows : 0);
        float *to = local_dense(gradient, l);
        for (size_t i = 0; i < floats; i++)
            to[i] = 1 + (float)(i % 1000);
    }
    assert_int_equal(local_publish(learner, 0.1F, 1, NULL), TRI_OK);
}

static struct local_job *learnt(const char *optimizer, bool rows)
{
    static struct optim optim;
    struct local_options options = rig_options(LOCAL_DIRECT, 1);
    assert_int_equal(optim_read(optimizer, &optim, NULL), TRI_OK);
    options.optim = &optim;
    struct local_job *job = rig_create(&options);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){.seat = 0});
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    publish(learner, rows);
    local_leave(learner);
    return job;
}

static float plane[2 * RIG_WIDE], again[2 * RIG_WIDE];

/* After its first step momentum remembers the gradient, adam a share of it and of its square. */
TEST(planes_lie_like_the_layers)
{
    (void)state;
    for (int rows = 0; rows < 2; rows++) {
        struct local_job *job = learnt("adam", rows != 0);
        struct local_snapshot snapshot;
        struct local_about about;
        local_about(job, &about);
        assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
        assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
        for (uint32_t l = 0; l < RIG_LAYERS; l++)
            for (uint32_t k = 0; k < 2; k++) {
                local_plane_get(job, &snapshot, l, k, plane);
                for (uint64_t i = 0; i < about.layers[l].floats; i++) {
                    bool in = !rows || l < 2 || i / 8 == 3 || i / 8 == 50;
                    float g = !in              ? 0
                              : !rows || l < 2 ? 1 + (float)(i % 1000)
                              : i / 8 == 3     ? 1 + (float)(i % 8)
                                               : 9 + (float)(i % 8);
                    float want = k == 0 ? 0.1F * g : 0.001F * g * g;
                    if (!(plane[i] >= want - 1e-3F * want && plane[i] <= want + 1e-3F * want))
                        fail_msg("layer %u, plane %u, %llu: %g instead of %g", l, k,
                                 (unsigned long long)i, (double)plane[i], (double)want);
                }
            }
        local_snapshot_close(job, &snapshot);
        rig_remove(job);
    }
}

TEST(what_is_put_into_a_plane_is_there)
{
    (void)state;
    struct local_job *job = learnt("adam", false);
    struct local_snapshot snapshot;
    struct local_about about;
    local_about(job, &about);
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (uint32_t l = 0; l < RIG_LAYERS; l++)
        for (uint32_t k = 0; k < 2; k++) {
            for (uint64_t i = 0; i < about.layers[l].floats; i++)
                plane[i] = (float)(i + (uint64_t)7 * l + (uint64_t)3 * k);
            local_plane_put(job, &snapshot, l, k, plane);
        }
    for (uint32_t l = 0; l < RIG_LAYERS; l++)
        for (uint32_t k = 0; k < 2; k++) {
            local_plane_get(job, &snapshot, l, k, again);
            for (uint64_t i = 0; i < about.layers[l].floats; i++)
                assert_true(again[i] == (float)(i + (uint64_t)7 * l + (uint64_t)3 * k));
        }
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

/* ---- who makes the region ---- */

static struct local_layer_info with_note[RIG_LAYERS + 1];

static struct local_options share_options(uint32_t learners)
{
    struct local_options options = rig_options(LOCAL_SERVER, learners);
    memcpy(with_note, rig_layers, sizeof rig_layers);
    with_note[RIG_LAYERS] =
        (struct local_layer_info){.name = LOCAL_NOTE_NAME, .rows = 1, .cols = LOCAL_NOTE_COLS};
    options.layers = with_note;
    options.layer_count = RIG_LAYERS + 1;
    return options;
}

TEST(others_wait_until_it_is_filled)
{
    (void)state;
    struct local_options options = share_options(2);
    struct local_job *made = NULL, *found = NULL;
    tri_error err;
    bool filled;
    assert_int_equal(local_share_make(&options, false, &made, &filled, &err), TRI_OK);
    assert_false(filled);
    options.wait_ms = 30;
    assert_int_equal(local_share_find(&options, false, &found, &err), TRI_ETIMEOUT);
    assert_non_null(strstr(err.text, "did not begin"));
    local_share_filled(made, 42);
    assert_int_equal(local_share_find(&options, false, &found, &err), TRI_OK);
    assert_int_equal(local_share_first(found), 42);
    local_close(found);
    rig_remove(made);
}

static void die_with_the_region(void *ctx)
{
    struct local_job *job;
    bool filled;
    if (local_share_make(ctx, false, &job, &filled, NULL) == TRI_OK)
        local_share_filled(job, 0);
    (void)raise(SIGKILL);
}

static void run_child(void (*body)(void *ctx), void *ctx)
{
    int end;
    pid_t pid = fork();
    if (pid == 0) {
        body(ctx);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &end, 0), pid);
}

TEST(what_a_killed_job_has_left_is_not_found_and_is_replaced)
{
    (void)state;
    struct local_options options = share_options(2);
    struct local_job *job = NULL;
    bool filled;
    char folder[] = "/tmp/trident-share-XXXXXX"; /* where no other job cleans up */
    assert_non_null(mkdtemp(folder));
    options.folder = folder;
    run_child(die_with_the_region, &options);
    options.wait_ms = 30;
    assert_int_not_equal(local_share_find(&options, false, &job, NULL), TRI_OK);
    assert_int_equal(local_share_find(&options, true, &job, NULL), TRI_OK);
    local_close(job);
    assert_int_equal(local_share_make(&options, false, &job, &filled, NULL), TRI_OK);
    assert_false(filled);
    rig_remove(job);
    assert_int_equal(rmdir(folder), 0);
}

TEST(a_job_that_lives_is_not_taken_over)
{
    (void)state;
    struct local_options options = share_options(2);
    struct local_job *job = NULL, *other = NULL;
    tri_error err;
    bool filled;
    assert_int_equal(local_share_make(&options, false, &job, &filled, &err), TRI_OK);
    local_share_filled(job, 0);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){.seat = 0});
    assert_int_equal(local_share_make(&options, false, &other, &filled, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "already"));
    assert_int_equal(local_share_make(&options, true, &other, &filled, &err), TRI_OK);
    assert_true(filled);
    local_close(other);
    local_leave(learner);
    rig_remove(job);
}

TEST(the_end_is_waited_for_and_then_nobody_is_left)
{
    (void)state;
    struct local_options options = share_options(2);
    options.wait_ms = 50;
    struct local_job *job = NULL;
    tri_error err;
    bool filled;
    assert_int_equal(local_share_make(&options, false, &job, &filled, &err), TRI_OK);
    local_share_filled(job, 0);
    struct local_learner *one = rig_join(job, (struct local_learner_options){.seat = 0});
    assert_int_equal(local_share_end(job, 0, false, &err), TRI_ETIMEOUT);
    assert_non_null(strstr(err.text, "learner 1"));
    struct local_learner *other = rig_join(job, (struct local_learner_options){.seat = 1});
    assert_false(local_share_is_last(job, 0));
    local_leave(other);
    assert_int_equal(local_share_end(job, 0, false, &err), TRI_OK);
    assert_true(local_share_is_last(job, 0));
    local_leave(one);
    rig_remove(job);
}

TEST(who_leaves_waits_for_those_that_have_not_come_and_then_gives_them_up)
{
    (void)state;
    struct local_options options = share_options(2);
    options.wait_ms = 1;
    struct local_job *job = NULL;
    tri_error err;
    bool filled;
    assert_int_equal(local_share_make(&options, false, &job, &filled, &err), TRI_OK);
    local_share_filled(job, 0);
    local_leave(rig_join(job, (struct local_learner_options){.seat = 0}));
    assert_false(local_share_is_last(job, 0));
    local_share_await_all(job);
    assert_true(local_share_is_last(job, 0));
    struct local_learner *late = rig_join(job, (struct local_learner_options){.seat = 1});
    assert_false(local_share_is_last(job, 0));
    local_share_await_all(job); /* all have come */
    local_leave(late);
    assert_true(local_share_is_last(job, 1));
    rig_remove(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planes_lie_like_the_layers),
        cmocka_unit_test(what_is_put_into_a_plane_is_there),
        cmocka_unit_test(others_wait_until_it_is_filled),
        cmocka_unit_test(what_a_killed_job_has_left_is_not_found_and_is_replaced),
        cmocka_unit_test(a_job_that_lives_is_not_taken_over),
        cmocka_unit_test(the_end_is_waited_for_and_then_nobody_is_left),
        cmocka_unit_test(who_leaves_waits_for_those_that_have_not_come_and_then_gives_them_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
