/* base/rng: known answers, ranges, evenness, and forks that differ. */
#include "base/rng.h"

#include <math.h>
#include <string.h>

#include "lib/test.h"

/* A run that should not depend on its seed takes this one, and says so by name. */
#define ANY_SEED 41

TEST(the_seed_goes_through_splitmix64)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 1234567);
    assert_true(rng.s[0] == 6457827717110365317u);
    assert_true(rng.s[1] == 3203168211198807973u);
    assert_true(rng.s[2] == 9817491932198370423u);
    assert_true(rng.s[3] == 4593380528125082431u);
}

TEST(numbers_are_those_of_xoshiro256starstar)
{
    (void)state;
    static const uint64_t want[] = {
        11520,
        0,
        1509978240,
        1215971899390074240,
        1216172134540287360,
        607988272756665600,
        16172922978634559625u,
        8476171486693032832,
    };
    struct rng rng = {.s = {1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_true(rng_u64(&rng) == want[i]);
    rng_init(&rng, 42);
    assert_true(rng_u64(&rng) == 0x15780b2e0c2ec716);
    assert_true(rng_u64(&rng) == 0x6104d9866d113a7e);
}

TEST(the_same_seed_gives_the_same_run_and_another_seed_another)
{
    (void)state;
    struct rng a, b, c;
    rng_init(&a, 0);
    rng_init(&b, 0);
    rng_init(&c, 1);
    int equal_to_c = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_u64(&a);
        assert_true(x == rng_u64(&b));
        equal_to_c += x == rng_u64(&c);
    }
    assert_int_equal(equal_to_c, 0);
}

TEST(below_zero_is_zero_and_below_one_is_zero)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, ANY_SEED);
    for (int i = 0; i < 100; i++) {
        assert_true(rng_below(&rng, 0) == 0);
        assert_true(rng_below(&rng, 1) == 0);
    }
}

TEST(below_stays_in_range_for_every_size_of_n)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, ANY_SEED);
    for (int bit = 1; bit < 64; bit++)
        for (int i = 0; i < 100; i++) {
            uint64_t n = ((uint64_t)1 << bit) + rng_below(&rng, (uint64_t)1 << bit);
            assert_true(rng_below(&rng, n) < n);
        }
    for (int i = 0; i < 100; i++)
        assert_true(rng_below(&rng, UINT64_MAX) < UINT64_MAX);
}

TEST(below_is_even)
{
    (void)state;
    enum { N = 10, DRAWS = 100000 };
    int seen[N] = {0};
    struct rng rng;
    rng_init(&rng, ANY_SEED);
    for (int i = 0; i < DRAWS; i++)
        seen[rng_below(&rng, N)]++;
    /* Binomial: the standard deviation is 95; five of them on either side. */
    for (int i = 0; i < N; i++)
        assert_in_range(seen[i], DRAWS / N - 475, DRAWS / N + 475);
}

TEST(below_has_no_bias_where_a_plain_remainder_would)
{
    (void)state;
    /* For n = 3/4 of 2^64, u64 % n is twice as likely in the lowest third. */
    enum { DRAWS = 30000 };
    uint64_t n = (uint64_t)3 << 62;
    int low = 0;
    struct rng rng;
    rng_init(&rng, ANY_SEED);
    for (int i = 0; i < DRAWS; i++)
        low += rng_below(&rng, n) < n / 3;
    assert_in_range(low, DRAWS / 3 - 410, DRAWS / 3 + 410); /* deviation 82 */
}

TEST(unit_is_at_least_zero_and_below_one_with_mean_a_half)
{
    (void)state;
    enum { DRAWS = 100000 };
    struct rng rng;
    rng_init(&rng, ANY_SEED);
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) {
        double x = rng_unit(&rng);
        assert_true(x >= 0 && x < 1);
        sum += x;
    }
    assert_true(fabs(sum / DRAWS - 0.5) < 5 * 0.2887 / sqrt(DRAWS));
}

TEST(unit_uses_53_bits)
{
    (void)state;
    /* With s[1] all ones the next number is rotate(-5, 7) * 9. */
    struct rng rng = {.s = {0, UINT64_MAX, 0, 0}}, copy = rng;
    uint64_t bits = rng_u64(&copy);
    assert_true(rng_unit(&rng) == ldexp((double)(bits >> 11), -53));
    int odd = 0;
    for (int i = 0; i < 1000; i++)
        odd += fmod(ldexp(rng_unit(&rng), 53), 2) != 0;
    assert_in_range(odd, 400, 600);
}

/* The same numbers from libm, whose last bits may differ. */
static double normal_by_libm(struct rng *rng)
{
    for (;;) {
        double x = 2 * rng_unit(rng) - 1, y = 2 * rng_unit(rng) - 1;
        double r = x * x + y * y;
        if (r > 0 && r < 1)
            return x * sqrt(-2 * log(r) / r);
    }
}

TEST(normal_agrees_with_libm_to_the_last_bits)
{
    (void)state;
    struct rng ours, theirs;
    rng_init(&ours, ANY_SEED);
    rng_init(&theirs, ANY_SEED);
    for (int i = 0; i < 100000; i++) {
        double want = normal_by_libm(&theirs);
        assert_true(fabs(rng_normal(&ours) - want) <= 4 * 0x1p-53 * fabs(want));
    }
}

TEST(normal_has_these_very_bits)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, ANY_SEED);
    uint64_t mix = 0;
    for (int i = 0; i < 10000; i++) {
        double x = rng_normal(&rng);
        uint64_t bits;
        memcpy(&bits, &x, sizeof bits);
        mix = (mix ^ bits) * 0x9E3779B97F4A7C15;
    }
    assert_true(mix == 0xa92f8db420d9ce90);
}

TEST(normal_has_mean_zero_and_variance_one)
{
    (void)state;
    enum { DRAWS = 100000 };
    struct rng rng;
    rng_init(&rng, ANY_SEED);
    double sum = 0, squares = 0, beyond_two = 0;
    for (int i = 0; i < DRAWS; i++) {
        double x = rng_normal(&rng);
        sum += x;
        squares += x * x;
        beyond_two += fabs(x) > 2;
    }
    assert_true(fabs(sum / DRAWS) < 5 / sqrt(DRAWS));
    assert_true(fabs(squares / DRAWS - 1) < 5 * sqrt(2.0 / DRAWS));
    assert_true(fabs(beyond_two / DRAWS - 0.0455) < 0.0033);
}

TEST(forks_differ_from_each_other_and_from_the_parent)
{
    (void)state;
    enum { FORKS = 64 };
    struct rng parent, child[FORKS];
    rng_init(&parent, ANY_SEED);
    for (uint64_t i = 0; i < FORKS; i++)
        rng_fork(&parent, i, &child[i]);
    for (int step = 0; step < 100; step++) {
        uint64_t seen[FORKS + 1] = {rng_u64(&parent)};
        for (int i = 0; i < FORKS; i++) {
            seen[i + 1] = rng_u64(&child[i]);
            for (int j = 0; j <= i; j++)
                assert_true(seen[i + 1] != seen[j]);
        }
    }
}

TEST(a_fork_depends_on_parent_state_and_stream_and_moves_nothing)
{
    (void)state;
    struct rng parent, before, one, again;
    rng_init(&parent, ANY_SEED);
    before = parent;
    rng_fork(&parent, 7, &one);
    assert_memory_equal(&parent, &before, sizeof parent);
    rng_fork(&parent, 8, &again);
    rng_fork(&parent, 7, &again);
    assert_memory_equal(&one, &again, sizeof one);
    rng_u64(&parent);
    rng_fork(&parent, 7, &again);
    assert_memory_not_equal(&one, &again, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_seed_goes_through_splitmix64),
        cmocka_unit_test(numbers_are_those_of_xoshiro256starstar),
        cmocka_unit_test(the_same_seed_gives_the_same_run_and_another_seed_another),
        cmocka_unit_test(below_zero_is_zero_and_below_one_is_zero),
        cmocka_unit_test(below_stays_in_range_for_every_size_of_n),
        cmocka_unit_test(below_is_even),
        cmocka_unit_test(below_has_no_bias_where_a_plain_remainder_would),
        cmocka_unit_test(unit_is_at_least_zero_and_below_one_with_mean_a_half),
        cmocka_unit_test(unit_uses_53_bits),
        cmocka_unit_test(normal_agrees_with_libm_to_the_last_bits),
        cmocka_unit_test(normal_has_these_very_bits),
        cmocka_unit_test(normal_has_mean_zero_and_variance_one),
        cmocka_unit_test(forks_differ_from_each_other_and_from_the_parent),
        cmocka_unit_test(a_fork_depends_on_parent_state_and_stream_and_moves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
