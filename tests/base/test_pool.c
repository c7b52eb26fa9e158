/* base/pool: taking, giving, running out, and mistakes that assert catches. */
#include "base/pool.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/test.h"

TEST(blocks_are_aligned_apart_and_zeroed)
{
    (void)state;
    static const size_t sizes[] = {1, 63, 64, 65, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct pool pool;
        assert_int_equal(pool_init(&pool, &mem_libc, sizes[s], 5, NULL), TRI_OK);
        assert_int_equal(pool.block_bytes, sizes[s]);
        unsigned char *block[5];
        for (int i = 0; i < 5; i++) {
            block[i] = pool_take(&pool);
            assert_non_null(block[i]);
            assert_int_equal((uintptr_t)block[i] % POOL_ALIGN, 0);
            for (size_t b = 0; b < sizes[s]; b++)
                assert_int_equal(block[i][b], 0);
            memset(block[i], i + 1, sizes[s]);
        }
        for (int i = 0; i < 5; i++)
            for (size_t b = 0; b < sizes[s]; b++)
                assert_int_equal(block[i][b], i + 1);
        pool_fini(&pool);
    }
}

TEST(an_empty_pool_hands_out_null_until_a_block_comes_back)
{
    (void)state;
    struct pool pool;
    assert_int_equal(pool_init(&pool, &mem_libc, 10, 2, NULL), TRI_OK);
    void *a = pool_take(&pool);
    void *b = pool_take(&pool);
    assert_ptr_not_equal(a, b);
    assert_null(pool_take(&pool));
    assert_null(pool_take(&pool));
    pool_give(&pool, a);
    assert_ptr_equal(pool_take(&pool), a);
    assert_null(pool_take(&pool));
    pool_fini(&pool);
}

TEST(the_block_given_last_is_taken_first_with_its_content)
{
    (void)state;
    struct pool pool;
    assert_int_equal(pool_init(&pool, &mem_libc, 64, 3, NULL), TRI_OK);
    char *a = pool_take(&pool);
    char *b = pool_take(&pool);
    memcpy(a, "left here", 10);
    pool_give(&pool, b);
    pool_give(&pool, a);
    assert_ptr_equal(pool_take(&pool), a);
    assert_string_equal(a, "left here");
    assert_ptr_equal(pool_take(&pool), b);
    pool_fini(&pool);
}

TEST(the_counters_follow_every_take_and_give)
{
    (void)state;
    struct pool pool;
    assert_int_equal(pool_init(&pool, &mem_libc, 8, 4, NULL), TRI_OK);
    assert_int_equal(pool.free, 4);
    assert_int_equal(pool.most_out, 0);
    void *a = pool_take(&pool), *b = pool_take(&pool), *c = pool_take(&pool);
    assert_int_equal(pool.free, 1);
    assert_int_equal(pool.most_out, 3);
    pool_give(&pool, b);
    pool_give(&pool, a);
    pool_give(&pool, NULL);
    assert_int_equal(pool.free, 3);
    assert_int_equal(pool.most_out, 3); /* the mark stays */
    pool_take(&pool);
    assert_int_equal(pool.most_out, 3);
    pool_give(&pool, c);
    assert_int_equal(pool.free, 3);
    pool_fini(&pool);
}

TEST(taking_and_giving_never_allocates)
{
    (void)state;
    struct fault fault;
    fault_init(&fault);
    struct pool pool;
    assert_int_equal(pool_init(&pool, &fault.mem, 100, 16, NULL), TRI_OK);
    size_t calls = fault.calls;
    for (int round = 0; round < 100; round++) {
        void *block[16];
        for (int i = 0; i < 16; i++)
            block[i] = pool_take(&pool);
        assert_null(pool_take(&pool));
        for (int i = 0; i < 16; i++)
            pool_give(&pool, block[(i * 7 + round) % 16]);
    }
    assert_int_equal(fault.calls, calls);
    assert_int_equal(pool.free, 16);
    pool_fini(&pool);
    assert_int_equal(fault.live, 0);
}

TEST(a_pool_of_no_blocks_is_always_empty)
{
    (void)state;
    struct pool pool;
    assert_int_equal(pool_init(&pool, &mem_libc, 8, 0, NULL), TRI_OK);
    assert_null(pool_take(&pool));
    assert_int_equal(pool.free, 0);
    pool_fini(&pool);
}

TEST(refused_memory_is_reported_and_leaks_nothing)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct pool pool;
        tri_error err = {0};
        tri_status st = pool_init(&pool, &fault.mem, 100, 10, &err);
        assert_int_equal(st, fault.hit ? TRI_ENOMEM : TRI_OK);
        assert_int_equal(err.status, st);
        assert_int_equal(err.text[0] != '\0', fault.hit);
        if (st != TRI_OK)
            assert_null(pool_take(&pool));
        pool_fini(&pool); /* fine after a failure, too */
    }
    assert_int_equal(fault.run, 3);
}

TEST(sizes_that_overflow_are_refused)
{
    (void)state;
    static const struct {
        size_t block_bytes, count;
    } cases[] = {
        {SIZE_MAX, 1},      {SIZE_MAX - 62, 1}, {64, SIZE_MAX / 64 + 1},
        {1, SIZE_MAX / 32}, {SIZE_MAX / 2, 3},  {(size_t)1 << 40, (size_t)1 << 24},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fault fault;
        fault_init(&fault);
        struct pool pool;
        tri_error err;
        assert_int_equal(pool_init(&pool, &fault.mem, cases[i].block_bytes, cases[i].count, &err),
                         TRI_ENOMEM);
        assert_int_equal(err.status, TRI_ENOMEM);
        assert_int_equal(fault.calls, 0); /* refused by us, not by the allocator */
        pool_fini(&pool);
    }
}

TEST(blocks_of_no_bytes_are_refused)
{
    (void)state;
    struct pool pool;
    tri_error err;
    assert_int_equal(pool_init(&pool, &mem_libc, 0, 3, &err), TRI_EARG);
    assert_string_equal(err.text, "a pool of blocks of 0 bytes");
    assert_null(pool_take(&pool));
    pool_fini(&pool);
}

TEST(a_pool_may_be_ended_twice_and_begun_again)
{
    (void)state;
    struct pool pool = {0};
    pool_fini(&pool);
    assert_int_equal(pool_init(&pool, &mem_libc, 8, 1, NULL), TRI_OK);
    pool_fini(&pool);
    pool_fini(&pool);
    assert_null(pool_take(&pool));
    assert_int_equal(pool_init(&pool, &mem_libc, 8, 1, NULL), TRI_OK);
    assert_non_null(pool_take(&pool));
    pool_fini(&pool);
}

/* Runs body on a pool of 3 in a child; true when an assertion stopped it. */
static bool aborts(void (*body)(struct pool *pool))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0};
        setrlimit(RLIMIT_CORE, &no_core);
        int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(quiet, STDERR_FILENO);
        signal(SIGABRT, SIG_DFL); /* cmocka may hold a handler for it */
        struct pool pool;
        if (pool_init(&pool, &mem_libc, 100, 3, NULL) == TRI_OK)
            body(&pool);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void no_mistake(struct pool *pool)
{
    pool_give(pool, pool_take(pool));
}

static void give_twice(struct pool *pool)
{
    void *block = pool_take(pool);
    pool_give(pool, block);
    pool_give(pool, block);
}

static void give_what_was_never_taken(struct pool *pool)
{
    char *block = pool_take(pool);
    pool_give(pool, block + 128);
}

static void give_the_inside_of_a_block(struct pool *pool)
{
    char *block = pool_take(pool);
    pool_give(pool, block + 64);
}

static void give_below_the_blocks(struct pool *pool)
{
    char *block = pool_take(pool);
    pool_give(pool, (void *)((uintptr_t)block - 128));
}

static void give_behind_the_blocks(struct pool *pool)
{
    char *block = pool_take(pool);
    pool_give(pool, (void *)((uintptr_t)block + (uintptr_t)3 * 128));
}

static void give_a_block_of_another_pool(struct pool *pool)
{
    struct pool other;
    if (pool_init(&other, &mem_libc, 100, 3, NULL) == TRI_OK)
        pool_give(pool, pool_take(&other));
}

TEST(mistakes_in_giving_stop_a_build_with_assertions)
{
    (void)state;
#ifdef NDEBUG
    skip();
#endif
    assert_false(aborts(no_mistake));
    assert_true(aborts(give_twice));
    assert_true(aborts(give_what_was_never_taken));
    assert_true(aborts(give_the_inside_of_a_block));
    assert_true(aborts(give_below_the_blocks));
    assert_true(aborts(give_behind_the_blocks));
    assert_true(aborts(give_a_block_of_another_pool));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_apart_and_zeroed),
        cmocka_unit_test(an_empty_pool_hands_out_null_until_a_block_comes_back),
        cmocka_unit_test(the_block_given_last_is_taken_first_with_its_content),
        cmocka_unit_test(the_counters_follow_every_take_and_give),
        cmocka_unit_test(taking_and_giving_never_allocates),
        cmocka_unit_test(a_pool_of_no_blocks_is_always_empty),
        cmocka_unit_test(refused_memory_is_reported_and_leaks_nothing),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(blocks_of_no_bytes_are_refused),
        cmocka_unit_test(a_pool_may_be_ended_twice_and_begun_again),
        cmocka_unit_test(mistakes_in_giving_stop_a_build_with_assertions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
