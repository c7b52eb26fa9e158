/* os/marks: nothing that was added is lost, whoever adds it. */
#include "os/marks.h"

#include <pthread.h>
#include <stdatomic.h>

#include "lib/test.h"

enum { NUMBERS = 10000, THREADS = 3, TURNS = 100000 };

struct taken {
    unsigned calls;
    uint8_t seen[NUMBERS];
};

static void note(void *ctx, uint32_t number)
{
    struct taken *taken = ctx;
    taken->calls++;
    taken->seen[number]++;
}

TEST(what_is_added_is_taken_once)
{
    (void)state;
    static struct taken taken;
    static const uint32_t added[] = {0, 63, 64, 4095, 4096, 9999, 64};
    struct marks *marks = marks_new(&mem_libc, NUMBERS);
    assert_non_null(marks);
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++)
        marks_add(marks, added[i]);
    marks_take(marks, note, &taken);
    assert_int_equal(taken.calls, 6);
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++)
        assert_int_equal(taken.seen[added[i]], 1);
    marks_take(marks, note, &taken);
    assert_int_equal(taken.calls, 6);
    marks_free(marks);
}

/* Threads count up, each in a place of its own, and add its number; who takes looks there. */
struct adder {
    struct marks *marks;
    uint32_t number;
    atomic_uint turns;
    unsigned looked;
};

static void *add_often(void *arg)
{
    struct adder *adder = arg;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        atomic_fetch_add_explicit(&adder->turns, 1, memory_order_relaxed);
        marks_add(adder->marks, adder->number);
    }
    return NULL;
}

static void look(void *ctx, uint32_t number)
{
    struct adder *adders = ctx;
    for (size_t i = 0; i < THREADS; i++)
        if (adders[i].number == number)
            adders[i].looked = atomic_load_explicit(&adders[i].turns, memory_order_relaxed);
}

TEST(the_last_word_of_every_thread_is_heard)
{
    (void)state;
    static struct adder adders[THREADS];
    pthread_t threads[THREADS];
    struct marks *marks = marks_new(&mem_libc, NUMBERS);
    assert_non_null(marks);
    for (uint32_t i = 0; i < THREADS; i++) { /* two share a word */
        adders[i].marks = marks;
        adders[i].number = i == 2 ? 5000 : 70 + i;
        assert_int_equal(pthread_create(&threads[i], NULL, add_often, &adders[i]), 0);
    }
    while (atomic_load(&adders[0].turns) < TURNS)
        marks_take(marks, look, adders);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    marks_take(marks, look, adders);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(adders[i].looked, TURNS);
    marks_free(marks);
}

TEST(refused_memory_is_told)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        marks_free(marks_new(&fault.mem, 70));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_added_is_taken_once),
        cmocka_unit_test(the_last_word_of_every_thread_is_heard),
        cmocka_unit_test(refused_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
