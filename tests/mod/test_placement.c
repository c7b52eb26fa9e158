/* Placements: who gets what, and what every row of the registry must keep to. */
#include "mod/placement.h"

#include <string.h>

#include "base/rng.h"
#include "lib/test.h"

enum { PIECES = 60, SERVERS = 7 };

/* Memory for one deal, and the deal. */
struct hand {
    uint64_t bytes[PIECES], load[SERVERS];
    uint32_t owner[PIECES], order[PIECES], heap[SERVERS];
    tri_placement_deal deal;
};

static void take(struct hand *hand, const char *name, size_t pieces, uint32_t servers)
{
    memset(hand->load, 0, sizeof hand->load);
    hand->deal = (tri_placement_deal){
        .bytes = hand->bytes,
        .pieces = pieces,
        .servers = servers,
        .owner = hand->owner,
        .load = hand->load,
        .order = hand->order,
        .heap = hand->heap,
    };
    placement_find(name)->deal(&hand->deal);
}

TEST(greedy_gives_each_piece_to_the_least_loaded_in_order)
{
    (void)state;
    struct hand hand = {.bytes = {5, 3, 4, 2, 9}};
    static const uint32_t want[] = {0, 1, 1, 0, 0}; /* 5|3, 5|7, 7|7, tie to the lower */
    take(&hand, "greedy", 5, 2);
    assert_memory_equal(hand.owner, want, sizeof want);
    assert_int_equal(hand.load[0], 16);
    assert_int_equal(hand.load[1], 7);
}

TEST(lpt_takes_the_largest_first)
{
    (void)state;
    struct hand hand = {.bytes = {5, 3, 4, 2, 9}};
    take(&hand, "lpt", 5, 2);
    static const uint32_t want[] = {1, 0, 1, 1, 0}; /* 9|5, 9|9, tie: 12|9, 12|11 */
    assert_memory_equal(hand.owner, want, sizeof want);
}

TEST(least_loaded_equals_a_plain_search)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 3);
    for (int run = 0; run < 200; run++) {
        struct hand hand = {0};
        uint64_t load[SERVERS] = {0};
        for (size_t i = 0; i < PIECES; i++)
            hand.bytes[i] = rng_below(&rng, 50);
        take(&hand, "greedy", PIECES, SERVERS);
        for (size_t i = 0; i < PIECES; i++) {
            uint32_t best = 0;
            for (uint32_t s = 1; s < SERVERS; s++)
                if (load[s] < load[best])
                    best = s;
            assert_int_equal(hand.owner[i], best);
            load[best] += hand.bytes[i];
        }
    }
}

TEST(equal_sizes_keep_their_order_under_lpt)
{
    (void)state;
    struct hand hand = {0};
    for (size_t i = 0; i < PIECES; i++)
        hand.bytes[i] = 8;
    take(&hand, "lpt", PIECES, SERVERS);
    for (uint32_t i = 0; i < PIECES; i++)
        assert_int_equal(hand.owner[i], i % SERVERS);
}

TEST(every_placement_deals_every_piece_once_and_adds_up_the_loads)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 5);
    for (size_t p = 0; placement_at(p) != NULL; p++)
        for (uint32_t servers = 1; servers <= SERVERS; servers++) {
            struct hand hand = {0};
            uint64_t load[SERVERS] = {0};
            for (size_t i = 0; i < PIECES; i++)
                hand.bytes[i] = rng_below(&rng, 1000);
            take(&hand, placement_at(p)->name, PIECES, servers);
            for (size_t i = 0; i < PIECES; i++) {
                assert_true(hand.owner[i] < servers);
                load[hand.owner[i]] += hand.bytes[i];
            }
            assert_memory_equal(load, hand.load, sizeof load);
        }
}

TEST(every_placement_deals_nothing_quietly)
{
    (void)state;
    for (size_t p = 0; placement_at(p) != NULL; p++) {
        struct hand hand = {0};
        take(&hand, placement_at(p)->name, 0, SERVERS);
        for (size_t s = 0; s < SERVERS; s++)
            assert_int_equal(hand.load[s], 0);
    }
}

TEST(every_placement_has_its_table_filled)
{
    (void)state;
    for (size_t p = 0; placement_at(p) != NULL; p++) {
        const tri_placement_ops *ops = placement_at(p);
        assert_int_equal(ops->abi, TRI_PLACEMENT_ABI);
        assert_true(strlen(ops->summary) > 10);
        assert_ptr_equal(placement_find(ops->name), ops);
    }
    assert_null(placement_find("nowhere"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_gives_each_piece_to_the_least_loaded_in_order),
        cmocka_unit_test(lpt_takes_the_largest_first),
        cmocka_unit_test(least_loaded_equals_a_plain_search),
        cmocka_unit_test(equal_sizes_keep_their_order_under_lpt),
        cmocka_unit_test(every_placement_deals_every_piece_once_and_adds_up_the_loads),
        cmocka_unit_test(every_placement_deals_nothing_quietly),
        cmocka_unit_test(every_placement_has_its_table_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
