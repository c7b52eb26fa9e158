/* base/buf and base/mem: growth, text, and memory that is refused. */
#include "base/buf.h"

#include <string.h>

#include "lib/test.h"

TEST(an_empty_buffer_is_an_empty_string)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, &mem_libc);
    assert_string_equal(buf_string(&buf), "");
    buf_fini(&buf);
}

TEST(appends_keep_order_across_growth)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, &mem_libc);
    for (int i = 0; i < 1000; i++)
        buf_format(&buf, "%03d,", i);
    assert_true(buf_ok(&buf));
    assert_int_equal(buf.len, 4000);
    assert_memory_equal(buf.data + (size_t)4 * 777, "777,", 4);
    buf_fini(&buf);
}

TEST(fill_char_and_clear_do_what_they_say)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, &mem_libc);
    buf_fill(&buf, '-', 5);
    buf_char(&buf, '>');
    buf_add(&buf, "", 0);
    assert_string_equal(buf_string(&buf), "----->");
    buf_clear(&buf);
    assert_string_equal(buf_string(&buf), "");
    buf_text(&buf, "again");
    assert_string_equal(buf_string(&buf), "again");
    buf_fini(&buf);
}

TEST(a_refusal_sticks_and_leaks_nothing)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct buf buf;
        buf_init(&buf, &fault.mem);
        for (int i = 0; i < 100; i++)
            buf_text(&buf, "0123456789");
        buf_fill(&buf, 'x', 5000);
        buf_format(&buf, "%d", 7);
        assert_int_equal(buf_ok(&buf), !fault.hit);
        if (buf_ok(&buf))
            assert_int_equal(buf.len, 6001);
        buf_fini(&buf);
    }
    assert_true(fault.run > 3);
}

TEST(an_array_whose_size_overflows_is_refused)
{
    (void)state;
    assert_null(mem_array(&mem_libc, SIZE_MAX / 2, 3));
    void *array = NULL;
    size_t cap = 0;
    assert_null(mem_grow(&mem_libc, &array, &cap, SIZE_MAX / 2, 8));
    assert_null(mem_grow(&mem_libc, &array, &cap, SIZE_MAX, 1));
    assert_null(array);
    assert_int_equal(cap, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_is_an_empty_string),
        cmocka_unit_test(appends_keep_order_across_growth),
        cmocka_unit_test(fill_char_and_clear_do_what_they_say),
        cmocka_unit_test(a_refusal_sticks_and_leaks_nothing),
        cmocka_unit_test(an_array_whose_size_overflows_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
