/* bench/exchange: two learners by every way; what they gave is in the weights. */
#include "bench/exchange.h"

#include "cli/cli.h"
#include "lib/test.h"

extern const struct command command_server;

static tri_status serve(const struct mem *mem, tri_error *err)
{
    struct cli cli = {.mem = mem};
    struct arguments none = {.count = 0};
    return command_server.run(&cli, NULL, &none, NULL, err);
}

/* Small, so that a step is nothing. */
static const struct learner_net net = {.name = "small",
                                       .model = "textcnn:embed=8,filters=6,hidden=10,dropout=0",
                                       .data = {.length = 6, .words = 60, .classes = 3},
                                       .warm_up = 2};

static void learns(enum exchange_way way, bool in_workers, uint32_t batch)
{
    tri_error err = {0};
    double rate = 0;
    const struct exchange_run run = {.net = &net,
                                     .batch = batch,
                                     .way = way,
                                     .in_workers = in_workers,
                                     .seconds = 0.05,
                                     .serve = serve};
    struct crew_board *board = crew_board_open(&err);
    assert_non_null(board);
    if (exchange(&run, board, &rate, &err) != TRI_OK)
        fail_msg("way %d: %s: %s", (int)way, err.text, err.why);
    assert_true(rate > 0);
    for (size_t i = 0; i < 2; i++) /* both took part, and ended together, but for copies */
        assert_true(atomic_load(&board->work[i]) >= 3ULL * batch);
    if (way != EXCHANGE_REPLICAS)
        assert_int_equal(atomic_load(&board->work[0]), atomic_load(&board->work[1]));
    crew_board_close(board);
}

TEST(learners_around_a_dense_queue_lose_no_gradient)
{
    (void)state;
    learns(EXCHANGE_QUEUE, false, 1);
    learns(EXCHANGE_QUEUE, false, 4);
}

TEST(learners_in_rounds_lose_no_gradient)
{
    (void)state;
    learns(EXCHANGE_SYNC, false, 1);
    learns(EXCHANGE_SYNC, false, 4);
}

TEST(learners_with_copies_lose_no_gradient)
{
    (void)state;
    learns(EXCHANGE_REPLICAS, false, 1);
    learns(EXCHANGE_REPLICAS, false, 4);
    learns(EXCHANGE_REPLICAS, false, 8);
}

TEST(learners_that_send_messages_lose_no_gradient)
{
    (void)state;
    learns(EXCHANGE_ASP, false, 1);
    learns(EXCHANGE_ASP, true, 2);
    learns(EXCHANGE_BSP, false, 4);
    learns(EXCHANGE_BSP, true, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learners_around_a_dense_queue_lose_no_gradient),
        cmocka_unit_test(learners_in_rounds_lose_no_gradient),
        cmocka_unit_test(learners_with_copies_lose_no_gradient),
        cmocka_unit_test(learners_that_send_messages_lose_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
