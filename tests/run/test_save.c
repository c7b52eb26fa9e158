/* run/save: what comes to a checkpoint, in which order, and what is written of it. */
#include "run/save.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#include "lib/test.h" /* after error.h: cmocka has a macro named fail */

enum { LAYERS = 3, ROWS = 5, COLS = 7, FLOATS = ROWS * (COLS + 1), PLANES = 2 };

static char folder[64];
static struct agreement *agreement;
static struct log silent;
static struct save *save;

static int set_up(void **state)
{
    (void)state;
    static const char *const names[LAYERS] = {"a", "b", "c"};
    struct agree_layer layers[LAYERS];
    struct agree_options options = {.workers = 2,
                                    .servers = 2,
                                    .colocated = 2,
                                    .bits_s = 1e9,
                                    .flops_s = 1e9,
                                    .scheme = "ps",
                                    .optimizer = "momentum:0.9"};
    tri_error err = {0};
    for (size_t i = 0; i < LAYERS; i++)
        layers[i] =
            (struct agree_layer){.name = names[i], .rows = ROWS, .cols = COLS, .bias = true};
    (void)snprintf(folder, sizeof folder, "/tmp/trident-save-XXXXXX");
    log_init(&silent, LOG_ERROR, NULL, NULL);
    if (mkdtemp(folder) == NULL ||
        agree_make(layers, LAYERS, &options, &mem_libc, &agreement, &err) != TRI_OK)
        return -1;
    struct save_options with = {.mem = &mem_libc,
                                .log = &silent,
                                .folder = folder,
                                .job = "test",
                                .every = 10,
                                .keep = 2,
                                .agreement = agreement};
    return save_open(&with, &save, &err) == TRI_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    save_close(save);
    agree_free(agreement);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[400];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)unlink(path);
    }
    if (dir != NULL)
        closedir(dir);
    return rmdir(folder);
}

/* What float i of a plane is to be at a clock. */
static float number(uint64_t clock, uint32_t layer, uint32_t plane, uint64_t i)
{
    return (float)(clock * 1000 + (uint64_t)layer * 100 + (uint64_t)plane * 50 + i);
}

static struct save_part part_at(uint32_t part, uint32_t plane, uint64_t clock)
{
    return (struct save_part){.part = part, .plane = plane, .clock = clock, .steps = clock + 1};
}

static void fill(uint32_t number_of_part, uint32_t plane, uint64_t clock)
{
    const struct layout_part *part = &agreement->layout->parts[number_of_part];
    uint32_t layer = agreement->layout->units[part->unit].layer;
    float *at = save_plane(save, layer, plane);
    for (uint64_t i = part->first; i < part->first + part->floats; i++)
        at[i] = number(clock, layer, plane, i);
}

/* All parts but `but`, every second plane of them straight into place. */
static void come(uint64_t clock, uint32_t but)
{
    for (uint32_t p = 0; p < agreement->layout->part_count; p++)
        for (uint32_t k = 0; k < PLANES && p != but; k++) {
            struct save_part part = part_at(p, k, clock);
            if (k == 1)
                assert_true(save_land(save, &part));
            fill(p, k, clock);
            if (k == 1)
                save_landed(save, &part, true);
            else
                save_take(save, &part);
        }
}

enum { NONE = UINT32_MAX };

static void holds(uint64_t clock)
{
    struct checkpoint *found = NULL;
    tri_error err = {0};
    save_wait_written(save);
    assert_int_equal(checkpoint_newest(folder, &mem_libc, NULL, NULL, &found, &err), TRI_OK);
    if (clock == 0) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_int_equal(found->clock, clock);
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint64_t i = 0; i < FLOATS; i++) {
            assert_true(found->layers[l].values[i] == number(clock, l, 0, i));
            assert_true(found->layers[l].state[0][i] == number(clock, l, 1, i));
            assert_int_equal(found->layers[l].steps, clock + 1);
        }
    checkpoint_free(found, &mem_libc);
}

TEST(what_comes_straight_into_place_is_written_once_all_of_it_is_there)
{
    (void)state;
    assert_int_equal(save_due(save, 6, 4), 10);
    come(10, 0);
    save_commit(save, 10);
    assert_true(save_waits(save));
    for (uint32_t k = 0; k < PLANES; k++) {
        struct save_part part = part_at(0, k, 10);
        assert_true(save_land(save, &part));
        holds(0);
        fill(0, k, 10);
        save_landed(save, &part, true);
        assert_false(save_land(save, &part)); /* a second one */
    }
    assert_false(save_waits(save));
    holds(10);
}

TEST(a_part_that_is_lost_on_its_way_may_come_again)
{
    (void)state;
    struct save_part part = part_at(0, 0, 10);
    assert_false(save_land(save, &part)); /* nobody asked for it */
    assert_int_equal(save_due(save, 6, 4), 10);
    assert_true(save_land(save, &part));
    save_landed(save, &part, false);
    come(10, NONE);
    save_commit(save, 10);
    holds(10);
}

TEST(a_later_clock_takes_the_place_of_one_that_somebody_was_past)
{
    (void)state;
    struct save_part late = part_at(0, 0, 10);
    assert_int_equal(save_due(save, 6, 4), 10);
    come(10, 0);
    come(12, 0);
    assert_false(save_land(save, &late));
    for (uint32_t k = 0; k < PLANES; k++) {
        struct save_part part = part_at(0, k, 12);
        fill(0, k, 12);
        save_take(save, &part);
    }
    save_commit(save, 12);
    holds(12);
}

/* The bytes of the older one would come over those of the newer. */
TEST(clocks_that_come_into_one_place_at_once_are_given_up_and_the_next_is_saved)
{
    (void)state;
    struct save_part old = part_at(0, 1, 10), new = part_at(0, 1, 12);
    assert_int_equal(save_due(save, 6, 4), 10);
    assert_true(save_land(save, &old));
    assert_false(save_land(save, &new));
    assert_false(save_gathers(save));
    assert_int_equal(save_due(save, 16, 4), 0); /* not while it still comes */
    save_landed(save, &old, true);
    save_commit(save, 12);
    holds(0);
    assert_int_equal(save_due(save, 16, 4), 20);
    come(20, NONE);
    save_commit(save, 20);
    holds(20);
}

/* ---- one worker ---- */

static unsigned copies[LAYERS];

static uint64_t copy(void *ctx, uint32_t layer)
{
    (void)__atomic_fetch_add(&copies[layer], 1, __ATOMIC_RELAXED);
    for (uint32_t k = 0; k < PLANES; k++)
        for (uint64_t i = 0; i < FLOATS; i++)
            save_plane(ctx, layer, k)[i] = number(10, layer, k, i);
    return 11;
}

TEST(a_layer_is_copied_once_by_the_thread_or_by_who_cannot_wait_for_it)
{
    (void)state;
    memset(copies, 0, sizeof copies);
    assert_int_equal(save_due(save, 10, 0), 10);
    save_begin(save, 10, (struct save_source){save, copy});
    for (uint32_t l = 0; l < LAYERS; l++) {
        save_wait_copied(save, l);
        assert_int_equal(__atomic_load_n(&copies[l], __ATOMIC_RELAXED), 1);
    }
    holds(10);
    for (uint32_t l = 0; l < LAYERS; l++) {
        save_wait_copied(save, l);
        assert_int_equal(copies[l], 1);
    }
}

int main(void)
{
#define WITH_SAVE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_SAVE(what_comes_straight_into_place_is_written_once_all_of_it_is_there),
        WITH_SAVE(a_part_that_is_lost_on_its_way_may_come_again),
        WITH_SAVE(a_later_clock_takes_the_place_of_one_that_somebody_was_past),
        WITH_SAVE(clocks_that_come_into_one_place_at_once_are_given_up_and_the_next_is_saved),
        WITH_SAVE(a_layer_is_copied_once_by_the_thread_or_by_who_cannot_wait_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
