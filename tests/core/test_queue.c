/* The order in which messages leave for one peer. */
#include "core/queue.h"

#include "base/rng.h"
#include "lib/test.h"

static void push(struct queue *queue, enum wire_kind kind, uint64_t clock, uint32_t layer,
                 uint32_t part)
{
    struct message message = {.kind = kind, .clock = clock, .layer = layer, .part = part};
    struct core_ref ref = {.space = CORE_NOWHERE};
    assert_int_equal(queue_push(queue, &message, &ref, NULL, NULL), TRI_OK);
}

static struct message pop(struct queue *queue)
{
    struct queue_entry entry;
    assert_true(queue_pop(queue, &entry));
    return entry.message;
}

TEST(older_clocks_go_first_then_lower_layers_then_parts)
{
    (void)state;
    struct queue queue;
    queue_init(&queue, &mem_libc);
    push(&queue, WIRE_PUSH, 5, 0, 0);
    push(&queue, WIRE_PUSH, 4, 9, 1);
    push(&queue, WIRE_PUSH, 4, 9, 0);
    push(&queue, WIRE_RESULT, 4, 2, 7);
    assert_int_equal(pop(&queue).layer, 2);
    assert_int_equal(pop(&queue).part, 0);
    assert_int_equal(pop(&queue).part, 1);
    assert_int_equal(pop(&queue).clock, 5);
    struct queue_entry entry;
    assert_false(queue_pop(&queue, &entry));
    queue_fini(&queue);
}

TEST(what_steers_the_job_overtakes_values_and_keeps_its_own_order)
{
    (void)state;
    struct queue queue;
    queue_init(&queue, &mem_libc);
    push(&queue, WIRE_PUSH, 0, 0, 0);
    push(&queue, WIRE_CLOCK, 9, 0, 0);
    push(&queue, WIRE_MARKED, 3, 0, 0);
    assert_int_equal(pop(&queue).kind, WIRE_CLOCK);
    assert_int_equal(pop(&queue).kind, WIRE_MARKED);
    assert_int_equal(pop(&queue).kind, WIRE_PUSH);
    queue_fini(&queue);
}

TEST(any_mixture_comes_out_in_order)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 4);
    for (int run = 0; run < 100; run++) {
        struct queue queue;
        queue_init(&queue, &mem_libc);
        size_t count = 1 + rng_below(&rng, 200);
        for (size_t i = 0; i < count; i++)
            push(&queue, WIRE_PUSH, rng_below(&rng, 3), (uint32_t)rng_below(&rng, 4),
                 (uint32_t)rng_below(&rng, 5));
        uint64_t last = 0;
        for (size_t i = 0; i < count; i++) {
            struct message message = pop(&queue);
            uint64_t key = message.clock * 100 + (uint64_t)message.layer * 10 + message.part;
            assert_true(key >= last);
            last = key;
        }
        queue_fini(&queue);
    }
}

TEST(a_queue_that_was_full_once_allocates_no_more)
{
    (void)state;
    struct fault counter;
    struct queue queue;
    fault_init(&counter);
    queue_init(&queue, &counter.mem);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 100; i++)
            push(&queue, WIRE_PUSH, 0, i, 0);
        for (uint32_t i = 0; i < 100; i++)
            assert_int_equal(pop(&queue).layer, i);
        if (round == 0)
            counter.calls = 0;
    }
    assert_int_equal(counter.calls, 0);
    queue_fini(&queue);
    assert_int_equal(counter.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_clocks_go_first_then_lower_layers_then_parts),
        cmocka_unit_test(what_steers_the_job_overtakes_values_and_keeps_its_own_order),
        cmocka_unit_test(any_mixture_comes_out_in_order),
        cmocka_unit_test(a_queue_that_was_full_once_allocates_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
