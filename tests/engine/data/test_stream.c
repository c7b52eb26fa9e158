/* engine/stream: every epoch is a permutation of its own. */
#include "engine/data/data.h"
#include "lib/test.h"

TEST(each_epoch_is_a_permutation_of_its_own)
{
    (void)state;
    enum { N = 257 };
    struct stream *stream = stream_new(&mem_libc, N, 3);
    assert_non_null(stream);
    uint64_t before[N];
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        unsigned seen[N] = {0};
        size_t same = 0;
        for (uint64_t i = 0; i < N; i++) {
            uint64_t sample = stream_at(stream, epoch * N + i);
            assert_true(sample < N);
            assert_int_equal(seen[sample]++, 0);
            same += epoch > 0 && before[i] == sample;
            before[i] = sample;
        }
        assert_true(same < N / 10);
    }
    stream_free(stream);
}

TEST(the_order_follows_from_the_seed)
{
    (void)state;
    enum { N = 100, ALL = 3 * N };
    struct stream *a = stream_new(&mem_libc, N, 1), *b = stream_new(&mem_libc, N, 1),
                  *c = stream_new(&mem_libc, N, 2);
    size_t same = 0;
    for (uint64_t i = 0; i < ALL; i++) {
        assert_int_equal(stream_at(a, i), stream_at(b, i));
        same += stream_at(a, i) == stream_at(c, i);
    }
    assert_true(same < N);
    stream_free(a);
    stream_free(b);
    stream_free(c);
}

TEST(positions_may_be_skipped_and_asked_again)
{
    (void)state;
    enum { N = 50, ALL = 6 * N };
    struct stream *whole = stream_new(&mem_libc, N, 9), *part = stream_new(&mem_libc, N, 9);
    uint64_t all[ALL];
    for (uint64_t i = 0; i < ALL; i++)
        all[i] = stream_at(whole, i);
    for (uint64_t i = 3; i < ALL; i += 17)
        assert_int_equal(stream_at(part, i), all[i]);
    for (uint64_t i = ALL; i-- > 0;)
        assert_int_equal(stream_at(part, i), all[i]);
    stream_free(whole);
    stream_free(part);
}

/* The first sample of an epoch is any of them, about equally often. */
TEST(permutations_are_fair)
{
    (void)state;
    enum { N = 5, EPOCHS = 5000 };
    unsigned first[N] = {0}, last[N] = {0};
    struct stream *stream = stream_new(&mem_libc, N, 77);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        first[stream_at(stream, epoch * N)]++;
        last[stream_at(stream, epoch * N + N - 1)]++;
    }
    for (unsigned i = 0; i < N; i++) {
        assert_in_range(first[i], 850, 1150);
        assert_in_range(last[i], 850, 1150);
    }
    stream_free(stream);
}

TEST(sizes_that_cannot_be_and_refused_memory)
{
    (void)state;
    assert_null(stream_new(&mem_libc, 0, 1));
    assert_null(stream_new(&mem_libc, (size_t)UINT32_MAX + 1, 1));
    stream_free(NULL);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct stream *stream = stream_new(&fault.mem, 10, 1);
        assert_int_equal(stream == NULL, fault.hit);
        stream_free(stream);
    }
    assert_int_equal(fault.run, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_epoch_is_a_permutation_of_its_own),
        cmocka_unit_test(the_order_follows_from_the_seed),
        cmocka_unit_test(positions_may_be_skipped_and_asked_again),
        cmocka_unit_test(permutations_are_fair),
        cmocka_unit_test(sizes_that_cannot_be_and_refused_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
