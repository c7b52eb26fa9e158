/* wire/bytes, wire/hash: byte order, sticky refusals, texts. */
#include "wire/bytes.h"

#include <math.h>

#include "lib/test.h"
#include "wire/hash.h"

TEST(numbers_are_little_endian_whatever_the_machine)
{
    (void)state;
    static const uint8_t wanted[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f,
                                     0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, 0,
                                     0,    0,    0,    0,    0,    0xf0, 0xbf};
    struct buf buf;
    buf_init(&buf, &mem_libc);
    wire_put_u8(&buf, 0x01);
    wire_put_u16(&buf, 0x0203);
    wire_put_u32(&buf, 0x04050607);
    wire_put_u64(&buf, 0x08090a0b0c0d0e0f);
    wire_put_f64(&buf, -1);
    assert_int_equal(buf.len, sizeof wanted);
    assert_memory_equal(buf.data, wanted, sizeof wanted);

    struct wire_in in = wire_in_of(wanted, sizeof wanted);
    assert_int_equal(wire_get_u8(&in), 0x01);
    assert_int_equal(wire_get_u16(&in), 0x0203);
    assert_int_equal(wire_get_u32(&in), 0x04050607);
    assert_true(wire_get_u64(&in) == 0x08090a0b0c0d0e0f);
    assert_true(wire_get_f64(&in) == -1);
    assert_true(in.failed == NULL && wire_left(&in) == 0);
    buf_fini(&buf);
}

TEST(the_bits_of_a_float_survive_also_a_nan)
{
    (void)state;
    static const uint32_t bits[] = {0, 0x80000000, 0x3e000000, 0x7f800000, 0x7fc01234, 0xff812345};
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
        assert_int_equal(wire_float_bits(wire_bits_float(bits[i])), bits[i]);
    assert_true(isnan(wire_bits_float(0x7fc01234)));
}

TEST(the_first_refusal_sticks_and_ends_the_input)
{
    (void)state;
    static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6};
    struct wire_in in = wire_in_of(bytes, sizeof bytes);
    assert_int_equal(wire_get_u32(&in), 0x04030201);
    assert_int_equal(wire_get_u32(&in), 0); /* two bytes are left */
    assert_string_equal(in.failed, "it ends early");
    wire_refuse(&in, "something else");
    assert_string_equal(in.failed, "it ends early");
    assert_int_equal(wire_get_u8(&in), 0);
    assert_int_equal(wire_left(&in), 0);
}

TEST(a_count_is_held_against_the_bytes_that_are_left)
{
    (void)state;
    static const uint8_t bytes[] = {3, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    struct wire_in in = wire_in_of(bytes, sizeof bytes);
    assert_int_equal(wire_get_count(&in, 4), 3);
    in = wire_in_of(bytes, sizeof bytes - 1);
    assert_int_equal(wire_get_count(&in, 4), 0);
    assert_string_equal(in.failed, "it announces more items than it has bytes for");
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0};
    in = wire_in_of(huge, sizeof huge);
    assert_int_equal(wire_get_count(&in, 1), 0);
    assert_non_null(in.failed);
}

TEST(no_bytes_at_all_are_an_input_that_ends)
{
    (void)state;
    struct wire_in in = wire_in_of(NULL, 0);
    assert_int_equal(wire_left(&in), 0);
    assert_int_equal(wire_get_u8(&in), 0);
    assert_non_null(in.failed);
}

TEST(a_text_has_no_control_characters_and_255_bytes_at_most)
{
    (void)state;
    char longest[257];
    memset(longest, 'x', sizeof longest);
    assert_true(wire_text_fits((struct wire_text){longest, 255}));
    assert_false(wire_text_fits((struct wire_text){longest, 256}));
    assert_true(wire_text_fits(wire_text_of("caf\xc3\xa9 1/2 ~")));
    assert_true(wire_text_fits(wire_text_of("")));
    assert_false(wire_text_fits(wire_text_of("a\nb")));
    assert_false(wire_text_fits(wire_text_of("a\x7f")));
    assert_false(wire_text_fits((struct wire_text){"a\0b", 3}));
    static const uint8_t bell[] = {3, 'a', 7, 'b'};
    struct wire_in in = wire_in_of(bell, sizeof bell);
    assert_int_equal(wire_get_text(&in).len, 0);
    assert_string_equal(in.failed, "a text has a control character in it");
}

TEST(texts_are_ordered_byte_by_byte)
{
    (void)state;
    static const char *const ascending[] = {"", "a", "aa", "ab", "b", "\xc3\xa9"};
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < 6; k++) {
            struct wire_text a = wire_text_of(ascending[i]), b = wire_text_of(ascending[k]);
            int order = wire_text_order(a, b);
            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
            assert_int_equal(wire_text_equal(a, b), i == k);
        }
}

TEST(a_yes_or_no_is_0_or_1)
{
    (void)state;
    static const uint8_t bytes[] = {0, 1, 2};
    struct wire_in in = wire_in_of(bytes, sizeof bytes);
    assert_false(wire_get_bool(&in));
    assert_true(wire_get_bool(&in));
    assert_null(in.failed);
    (void)wire_get_bool(&in);
    assert_non_null(in.failed);
}

TEST(the_hash_is_fnv_1a_and_goes_on_where_it_stopped)
{
    (void)state;
    /* the authors' own test vectors */
    assert_true(wire_hash64(WIRE_HASH_START, NULL, 0) == 0xcbf29ce484222325);
    assert_true(wire_hash64(WIRE_HASH_START, "a", 1) == 0xaf63dc4c8601ec8c);
    assert_true(wire_hash64(WIRE_HASH_START, "foobar", 6) == 0x85944171f73967e8);
    uint64_t half = wire_hash64(WIRE_HASH_START, "foo", 3);
    assert_true(wire_hash64(half, "bar", 3) == 0x85944171f73967e8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_little_endian_whatever_the_machine),
        cmocka_unit_test(the_bits_of_a_float_survive_also_a_nan),
        cmocka_unit_test(the_first_refusal_sticks_and_ends_the_input),
        cmocka_unit_test(a_count_is_held_against_the_bytes_that_are_left),
        cmocka_unit_test(no_bytes_at_all_are_an_input_that_ends),
        cmocka_unit_test(a_text_has_no_control_characters_and_255_bytes_at_most),
        cmocka_unit_test(texts_are_ordered_byte_by_byte),
        cmocka_unit_test(a_yes_or_no_is_0_or_1),
        cmocka_unit_test(the_hash_is_fnv_1a_and_goes_on_where_it_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
