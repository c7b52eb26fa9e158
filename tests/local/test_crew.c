/* Threads that step blocks together: every block once, and who is woken when. */
#include <sched.h>
#include <stdio.h>

#include "local/inside.h"
#include "local/rig.h"
#include "os/thread.h"

enum { BLOCKS = 300, RUNS = 200 };

struct seen {
    uint32_t times[BLOCKS];
};

static void see(void *ctx, size_t block, float *scratch)
{
    struct seen *seen = ctx;
    (void)scratch;
    (void)__atomic_add_fetch(&seen->times[block], 1, __ATOMIC_RELAXED);
}

static struct crew *open_crew(struct local_job *job, uint32_t threads)
{
    struct crew *crew = NULL;
    assert_int_equal(crew_open(job, threads, &crew, NULL), TRI_OK);
    return crew;
}

TEST(every_block_is_worked_on_once_also_when_runs_differ_in_size)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct crew *crew = open_crew(job, 3);
    for (uint32_t run = 0; run < RUNS; run++) {
        struct seen seen = {{0}};
        uint32_t blocks = 1 + run * 7 % BLOCKS;
        crew_share(crew, see, &seen, blocks);
        for (uint32_t i = 0; i < BLOCKS; i++)
            assert_int_equal(seen.times[i], i < blocks);
    }
    crew_close(crew);
    rig_remove(job);
}

struct looks {
    struct seen seen; /* first: what see() takes */
    pthread_t caller;
    uint32_t own, between;
};

static void see_own(void *ctx, size_t block, float *scratch)
{
    struct looks *looks = ctx;
    see(&looks->seen, block, scratch);
    looks->own += pthread_equal(pthread_self(), looks->caller) != 0;
}

static void count_look(void *ctx)
{
    struct looks *looks = ctx;
    assert_true(pthread_equal(pthread_self(), looks->caller));
    assert_int_equal(++looks->between, looks->own);
}

TEST(the_caller_looks_up_after_each_block_of_its_own)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct looks looks = {.caller = pthread_self()};
    struct crew *crew = open_crew(job, 1);
    crew_share_between(crew, see_own, count_look, &looks, BLOCKS);
    assert_int_equal(looks.between, BLOCKS);
    crew_share(crew, see, &looks.seen, BLOCKS); /* and not when nobody asks for it */
    assert_int_equal(looks.between, BLOCKS);
    crew_close(crew);
    rig_remove(job);
}

/* On a processor that is none nobody looks out. */
TEST(one_thread_wakes_at_once_and_several_when_the_next_run_is_on)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t threads = 1 + i / 2;
        const uint32_t cpu = i % 2 == 0 ? thread_cpu() : UINT32_MAX;
        struct crew *crew = open_crew(job, threads);
        uint32_t event = 0, key = event_key(&event);
        struct seen seen = {{0}};
        crew_wake_later(crew, &event, cpu);
        if (threads == 1 || cpu == UINT32_MAX)
            assert_int_equal(load32(&event) == key, threads == 2);
        crew_share(crew, see, &seen, BLOCKS);
        while (load32(&event) == key) /* who has taken it over may have been put aside */
            thread_yield();
        key = event_key(&event); /* what was due is done with */
        crew_share(crew, see, &seen, BLOCKS);
        assert_int_equal(event, key);
        crew_close(crew);
    }
    rig_remove(job);
}

/* A run of one block is the caller's, and a second event does not push out the first. */
TEST(whoever_is_due_is_woken_before_the_caller_does_anything_else)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct crew *crew = open_crew(job, 2);
    uint32_t first = 0, second = 0, key = event_key(&first), other = event_key(&second);
    struct seen seen = {{0}};
    crew_wake_later(crew, &first, UINT32_MAX);
    crew_wake_later(crew, &second, UINT32_MAX);
    assert_int_not_equal(first, key);
    assert_int_equal(second, other);
    crew_share(crew, see, &seen, 1);
    assert_int_not_equal(second, other);
    key = event_key(&first);
    crew_wake_later(crew, &first, UINT32_MAX);
    crew_wake_due(crew);
    assert_int_not_equal(first, key);
    crew_close(crew);
    rig_remove(job);
}

struct place {
    pthread_t caller;
    uint32_t cpu; /* of another thread */
};

static void note_place(void *ctx, size_t block, float *scratch)
{
    struct place *place = ctx;
    (void)block;
    (void)scratch;
    if (!pthread_equal(pthread_self(), place->caller))
        store32(&place->cpu, thread_cpu());
    event_pause(); /* or the caller is done before the other has begun */
}

/* A thread looks out for a moment only, and on a busy machine may be put aside in it. One that has
 * not taken part in the run may still come to it, and wakes at its beginning: that does not count.
 */
TEST(a_thread_that_looks_out_for_a_run_wakes_who_is_due_on_its_processor)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct crew *crew = open_crew(job, 2);
    struct place place = {pthread_self(), UINT32_MAX};
    uint32_t event = 0, woken = 0;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) {
        (void)fputs("skipped: it takes two processors\n", stderr);
        crew_close(crew);
        rig_remove(job);
        skip();
    }
    for (uint32_t run = 0; run < 5000 && woken == 0; run++) {
        uint32_t key = event_key(&event);
        place.cpu = UINT32_MAX;
        crew_share(crew, note_place, &place, BLOCKS);
        crew_wake_later(crew, &event, load32(&place.cpu));
        for (int i = 0; i < 20 && load32(&event) == key; i++)
            thread_yield();
        woken += load32(&event) != key;
        (void)crew_wake_due(crew);
        while (load32(&event) == key) /* the other thread has taken it over */
            thread_yield();
    }
    assert_int_equal(woken, 1);
    crew_close(crew);
    rig_remove(job);
}

TEST(only_who_is_due_here_is_woken_here)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct crew *crew = open_crew(job, 2);
    uint32_t event = 0, key = event_key(&event);
    bool here = false;
    assert_false(crew_wake_here(crew)); /* nobody is due */
    crew_wake_later(crew, &event, UINT32_MAX);
    assert_false(crew_wake_here(crew));
    assert_int_equal(event, key);
    assert_true(crew_wake_due(crew));
    assert_int_not_equal(event, key);
    crew_wake_later(crew, &event, UINT32_MAX);
    assert_false(crew_wake_due(crew));             /* it was, but nobody slept */
    for (uint32_t i = 0; i < 1000 && !here; i++) { /* the other thread may come first */
        key = event_key(&event);
        crew_wake_later(crew, &event, thread_cpu());
        here = crew_wake_here(crew);
        (void)crew_wake_due(crew);
    }
    assert_true(here);
    crew_close(crew);
    rig_remove(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_is_worked_on_once_also_when_runs_differ_in_size),
        cmocka_unit_test(the_caller_looks_up_after_each_block_of_its_own),
        cmocka_unit_test(one_thread_wakes_at_once_and_several_when_the_next_run_is_on),
        cmocka_unit_test(whoever_is_due_is_woken_before_the_caller_does_anything_else),
        cmocka_unit_test(a_thread_that_looks_out_for_a_run_wakes_who_is_due_on_its_processor),
        cmocka_unit_test(only_who_is_due_here_is_woken_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
