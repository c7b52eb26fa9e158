/* base/crc32c: published values, and hardware == table == bit by bit. */
#include "base/crc32c.h"

#include <string.h>

#include "base/rng.h"
#include "lib/test.h"

/* The definition, one bit at a time. */
static uint32_t bitwise(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *at = data;
    uint32_t reg = ~crc;
    for (size_t i = 0; i < len; i++) {
        reg ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            reg = reg >> 1 ^ (0x82F63B78u & (0 - (reg & 1)));
    }
    return ~reg;
}

static void fill(uint8_t *bytes, size_t len, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)rng_u64(&rng);
}

static void expect(const void *data, size_t len, uint32_t want)
{
    assert_int_equal(crc32c(0, data, len), want);
    assert_int_equal(crc32c_table(0, data, len), want);
    assert_int_equal(bitwise(0, data, len), want);
}

TEST(the_standard_check_value_comes_out)
{
    (void)state;
    expect("123456789", 9, 0xE3069283);
}

TEST(the_values_of_rfc_3720_come_out)
{
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xFF, sizeof ones);
    for (int i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    expect(zeros, 32, 0x8A9136AA);
    expect(ones, 32, 0x62A8AB43);
    expect(up, 32, 0x46DD794E);
    expect(down, 32, 0x113FDB5C);
}

TEST(no_bytes_change_nothing)
{
    (void)state;
    assert_int_equal(crc32c(0, NULL, 0), 0);
    assert_int_equal(crc32c_table(0, NULL, 0), 0);
    assert_int_equal(crc32c(0x1234, "x", 0), 0x1234);
}

TEST(every_table_entry_is_right)
{
    (void)state;
    /* From ~0 the inner state is 0, so that a block with one byte set shows the
     * one entry for that place and value, and nothing else. */
    for (size_t place = 0; place < 8; place++)
        for (unsigned value = 0; value < 256; value++) {
            uint8_t block[8] = {0};
            block[place] = (uint8_t)value;
            assert_int_equal(crc32c_table(UINT32_MAX, block, 8), bitwise(UINT32_MAX, block, 8));
        }
}

TEST(every_alignment_and_length_agrees_with_the_definition)
{
    (void)state;
    static uint8_t bytes[16 + 300];
    fill(bytes, sizeof bytes, 42);
    for (size_t at = 0; at < 16; at++)
        for (size_t len = 0; len <= 300; len++) {
            uint32_t want = bitwise(0, bytes + at, len);
            assert_int_equal(crc32c(0, bytes + at, len), want);
            assert_int_equal(crc32c_table(0, bytes + at, len), want);
        }
}

TEST(long_runs_agree_with_the_table)
{
    (void)state;
    /* Lengths around one to three times the widest step of the hardware path,
     * then enough data to look up every entry used to join its lanes: 8192
     * draws from each table of 256. */
    static uint8_t bytes[768 * 4096];
    fill(bytes, sizeof bytes, 43);
    for (size_t len = 700; len < 2400; len++)
        assert_int_equal(crc32c(0, bytes + len % 16, len), crc32c_table(0, bytes + len % 16, len));
    for (size_t at = 0; at < sizeof bytes; at += 768)
        assert_int_equal(crc32c(0, bytes + at, 768), crc32c_table(0, bytes + at, 768));
    assert_int_equal(crc32c(0, bytes, sizeof bytes), crc32c_table(0, bytes, sizeof bytes));
}

TEST(pieces_chain_to_the_checksum_of_the_whole)
{
    (void)state;
    static uint8_t bytes[5000];
    fill(bytes, sizeof bytes, 44);
    uint32_t whole = bitwise(0, bytes, sizeof bytes);
    struct rng rng;
    rng_init(&rng, 45);
    for (int round = 0; round < 500; round++) {
        uint32_t fast = 0, slow = 0;
        for (size_t at = 0, len; at < sizeof bytes; at += len) {
            len = (size_t)rng_below(&rng, 2000);
            if (len > sizeof bytes - at)
                len = sizeof bytes - at;
            fast = crc32c(fast, bytes + at, len);
            slow = crc32c_table(slow, bytes + at, len);
        }
        assert_int_equal(fast, whole);
        assert_int_equal(slow, whole);
    }
}

TEST(any_single_flipped_bit_shows)
{
    (void)state;
    uint8_t bytes[100];
    fill(bytes, sizeof bytes, 46);
    uint32_t good = crc32c(0, bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(crc32c(0, bytes, sizeof bytes), good);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

TEST(the_way_it_works_is_one_of_three)
{
    (void)state;
    const char *how = crc32c_how();
    assert_true(strcmp(how, "sse4.2") == 0 || strcmp(how, "armv8") == 0 ||
                strcmp(how, "table") == 0);
#ifdef __x86_64__
    assert_int_equal(strcmp(how, "sse4.2") == 0, __builtin_cpu_supports("sse4.2") != 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_standard_check_value_comes_out),
        cmocka_unit_test(the_values_of_rfc_3720_come_out),
        cmocka_unit_test(no_bytes_change_nothing),
        cmocka_unit_test(every_table_entry_is_right),
        cmocka_unit_test(every_alignment_and_length_agrees_with_the_definition),
        cmocka_unit_test(long_runs_agree_with_the_table),
        cmocka_unit_test(pieces_chain_to_the_checksum_of_the_whole),
        cmocka_unit_test(any_single_flipped_bit_shows),
        cmocka_unit_test(the_way_it_works_is_one_of_three),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
