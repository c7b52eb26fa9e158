/* base/json_out: what it writes is what base/json reads. */
#include "base/json_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/rng.h"
#include "lib/test.h"

/* ---- layout ---- */

/* Two containers in a container, and one value of each kind. */
static void write_sample(struct buf *buf, unsigned wrap)
{
    struct json_out out;
    json_out_init(&out, buf, wrap);
    json_out_object(&out, NULL);
    json_out_count(&out, "a", 1);
    json_out_array(&out, "b");
    json_out_number(&out, NULL, 0.5);
    json_out_object(&out, NULL);
    json_out_bool(&out, "c", true);
    json_out_string(&out, "d", NULL);
    json_out_close(&out);
    json_out_close(&out);
    json_out_bool(&out, "e", false);
    json_out_close(&out);
}

TEST(the_outer_levels_wrap_and_the_rest_stays_on_a_line)
{
    (void)state;
    static const char *const texts[] = {
        "{\"a\": 1, \"b\": [0.5, {\"c\": true, \"d\": null}], \"e\": false}\n",
        "{\n \"a\": 1,\n \"b\": [0.5, {\"c\": true, \"d\": null}],\n \"e\": false\n}\n",
        "{\n \"a\": 1,\n \"b\": [\n  0.5,\n  {\"c\": true, \"d\": null}\n ],\n \"e\": false\n}\n",
        ("{\n \"a\": 1,\n \"b\": [\n  0.5,\n  {\n   \"c\": true,\n   \"d\": null\n  }\n ],\n"
         " \"e\": false\n}\n"),
    };
    for (unsigned wrap = 0; wrap < 4; wrap++) {
        struct buf buf;
        buf_init(&buf, &mem_libc);
        write_sample(&buf, wrap);
        assert_string_equal(buf_string(&buf), texts[wrap]);
        buf_fini(&buf);
    }
}

TEST(empty_containers_stay_closed)
{
    (void)state;
    struct buf buf;
    struct json_out out;
    buf_init(&buf, &mem_libc);
    json_out_init(&out, &buf, 9);
    json_out_object(&out, NULL);
    json_out_close(&out);
    assert_string_equal(buf_string(&buf), "{}\n");
    buf_clear(&buf);
    json_out_init(&out, &buf, 1);
    json_out_array(&out, NULL);
    json_out_array(&out, NULL);
    json_out_close(&out);
    json_out_object(&out, NULL);
    json_out_close(&out);
    json_out_close(&out);
    assert_string_equal(buf_string(&buf), "[\n [],\n {}\n]\n");
    buf_fini(&buf);
}

TEST(deep_nesting_closes_in_order)
{
    (void)state;
    struct buf buf;
    struct json_out out;
    buf_init(&buf, &mem_libc);
    json_out_init(&out, &buf, 0);
    for (int i = 0; i < 63; i++)
        if (i % 3 == 0)
            json_out_array(&out, i == 0 ? NULL : "k");
        else
            json_out_object(&out, i % 3 == 2 ? "k" : NULL);
    for (int i = 0; i < 63; i++)
        json_out_close(&out);
    tri_error err = {0};
    struct json json;
    json_open(&json, "out", buf.data, buf.len, &err);
    json_skip(&json);
    json_end(&json);
    if (json.status != TRI_OK)
        fail_msg("%s at %s", err.text, err.where);
    buf_fini(&buf);
}

/* ---- strings ---- */

/* Writes the text as key and as value, and reads both. */
static void check_string(const char *text)
{
    struct buf buf, back;
    struct json_out out;
    struct json json;
    tri_error err = {0};
    buf_init(&buf, &mem_libc);
    buf_init(&back, &mem_libc);
    json_out_init(&out, &buf, 0);
    json_out_object(&out, NULL);
    json_out_string(&out, text, text);
    json_out_close(&out);
    json_open(&json, "out", buf.data, buf.len, &err);
    json_object(&json);
    assert_true(json_member(&json));
    json_string(&json, &back);
    assert_false(json_member(&json));
    json_end(&json);
    if (json.status != TRI_OK)
        fail_msg("'%s': %s at %s", text, err.text, err.where);
    assert_string_equal(buf_string(&back), text);
    if (strlen(text) <= JSON_KEY_MAX)
        assert_string_equal(json.key, text);
    buf_fini(&buf);
    buf_fini(&back);
}

TEST(strings_survive)
{
    (void)state;
    check_string("");
    check_string("plain");
    check_string("\"quotes\" and \\ and / and 'these'");
    check_string("\\\"");
    check_string("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xEF\xBF\xBF \xF4\x8F\xBF\xBF");
    for (char c = 1; c < 0x7F; c++)
        check_string((char[]){'a', c, 'b', '\0'});
    check_string("\x7F");
}

TEST(control_characters_leave_as_escapes)
{
    (void)state;
    struct buf buf;
    struct json_out out;
    buf_init(&buf, &mem_libc);
    json_out_init(&out, &buf, 0);
    json_out_string(&out, NULL, "\x01\n\x1F\"\\");
    assert_string_equal(buf_string(&buf), "\"\\u0001\\u000a\\u001f\\\"\\\\\"");
    buf_fini(&buf);
}

TEST(random_strings_survive)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 77);
    for (int round = 0; round < 3000; round++) {
        struct buf text;
        buf_init(&text, &mem_libc);
        for (uint64_t n = rng_below(&rng, 40); n > 0; n--)
            switch (rng_below(&rng, 4)) {
            case 0:
                buf_char(&text, (char)(1 + rng_below(&rng, 0x7F)));
                break;
            case 1: /* U+0080 to U+07FF */
                buf_char(&text, (char)(0xC2 + rng_below(&rng, 0x1E)));
                buf_char(&text, (char)(0x80 + rng_below(&rng, 0x40)));
                break;
            case 2: /* U+1000 to U+CFFF */
                buf_char(&text, (char)(0xE1 + rng_below(&rng, 0xC)));
                buf_char(&text, (char)(0x80 + rng_below(&rng, 0x40)));
                buf_char(&text, (char)(0x80 + rng_below(&rng, 0x40)));
                break;
            default: /* U+40000 to U+FFFFF */
                buf_char(&text, (char)(0xF1 + rng_below(&rng, 3)));
                for (int i = 0; i < 3; i++)
                    buf_char(&text, (char)(0x80 + rng_below(&rng, 0x40)));
            }
        check_string(buf_string(&text));
        buf_fini(&text);
    }
}

/* ---- numbers ---- */

/* The text of a number, in memory that lasts until the next call's buffer is freed. */
static const char *number_text(struct buf *buf, double value)
{
    struct json_out out;
    buf_clear(buf);
    json_out_init(&out, buf, 0);
    json_out_number(&out, NULL, value);
    return buf_string(buf);
}

static double read_number(const char *text)
{
    struct json json;
    tri_error err = {0};
    json_open(&json, "out", text, strlen(text), &err);
    double value = json_number(&json);
    json_end(&json);
    if (json.status != TRI_OK)
        fail_msg("'%s': %s", text, err.text);
    return value;
}

TEST(numbers_take_their_shortest_form)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {1, "1"},
        {-1, "-1"},
        {0.1, "0.1"},
        {-2.5, "-2.5"},
        {1e15, "1000000000000000"},
        {123456789012, "123456789012"},
        {9007199254740991, "9007199254740991"},
        {-9007199254740991, "-9007199254740991"},
        {9007199254740992, "9007199254740992"},
        {1e300, "1e+300"},
        {1e-7, "1e-07"},
        {0.30000000000000004, "0.30000000000000004"},
        {NAN, "null"},
        {INFINITY, "null"},
        {-INFINITY, "null"},
    };
    struct buf buf;
    buf_init(&buf, &mem_libc);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(number_text(&buf, cases[i].value), cases[i].text);
    buf_fini(&buf);
}

TEST(random_doubles_survive)
{
    (void)state;
    const uint64_t seed = 31337;
    struct rng rng;
    struct buf buf;
    rng_init(&rng, seed);
    buf_init(&buf, &mem_libc);
    for (int round = 0; round < 100000; round++) {
        uint64_t bits = rng_u64(&rng);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        const char *text = number_text(&buf, value);
        if (strtod(text, NULL) != value)
            fail_msg("seed %d, round %d: %a became '%s'", (int)seed, round, value, text);
        /* Our own reader rounds more than once; far from the ends it stays this near. */
        if (fabs(value) > 1e-280 && fabs(value) < 1e300 &&
            fabs(read_number(text) - value) > 2e-15 * fabs(value))
            fail_msg("seed %d, round %d: '%s' reads as %.17g", (int)seed, round, text,
                     read_number(text));
    }
    buf_fini(&buf);
}

TEST(fractions_of_common_size_are_read_back_bit_for_bit)
{
    (void)state;
    struct rng rng;
    struct buf buf;
    rng_init(&rng, 5);
    buf_init(&buf, &mem_libc);
    for (int round = 0; round < 50000; round++) {
        double value = (double)rng_below(&rng, 1000000000000000) / 1e6; /* 15 digits at most */
        assert_true(read_number(number_text(&buf, value)) == value);
    }
    buf_fini(&buf);
}

TEST(whole_numbers_survive_without_exponent)
{
    (void)state;
    struct rng rng;
    struct buf buf;
    struct json_out out;
    rng_init(&rng, 6);
    buf_init(&buf, &mem_libc);
    for (int round = 0; round < 50000; round++) {
        uint64_t value = rng_u64(&rng) >> (11 + rng_below(&rng, 53)); /* below 2^53 */
        number_text(&buf, (double)value);
        buf_char(&buf, ' ');
        json_out_init(&out, &buf, 0);
        json_out_count(&out, NULL, value);
        struct json json;
        json_open(&json, "out", buf.data, buf.len, NULL);
        assert_int_equal(json_count(&json, 0, UINT64_MAX), value);
        assert_int_equal(json_count(&json, 0, UINT64_MAX), value);
        json_end(&json);
        assert_int_equal(json.status, TRI_OK);
    }
    buf_clear(&buf);
    json_out_init(&out, &buf, 0);
    json_out_count(&out, NULL, UINT64_MAX);
    assert_string_equal(buf_string(&buf), "18446744073709551615");
    buf_fini(&buf);
}

/* ---- whole documents ---- */

/* Writes a random value; check_random() with the same seed must read just that. */
static void write_random(struct rng *rng, struct json_out *out, const char *key, unsigned depth)
{
    uint64_t kind = depth < 5 ? rng_below(rng, 6) : 2 + rng_below(rng, 4);
    uint64_t size = rng_below(rng, 5), value = rng_below(rng, 1000000);
    switch (kind) {
    case 0:
        json_out_object(out, key);
        for (; size > 0; size--)
            write_random(rng, out, size % 2 == 0 ? "even" : "o\"dd\n", depth + 1);
        json_out_close(out);
        break;
    case 1:
        json_out_array(out, key);
        for (; size > 0; size--)
            write_random(rng, out, NULL, depth + 1);
        json_out_close(out);
        break;
    case 2:
        json_out_count(out, key, value);
        break;
    case 3:
        json_out_number(out, key, -(double)value / 1024);
        break;
    case 4:
        json_out_bool(out, key, size < 2);
        break;
    default:
        json_out_string(out, key, size < 2 ? NULL : "te\txt");
    }
}

static void check_random(struct rng *rng, struct json *json, unsigned depth)
{
    uint64_t kind = depth < 5 ? rng_below(rng, 6) : 2 + rng_below(rng, 4);
    uint64_t size = rng_below(rng, 5), value = rng_below(rng, 1000000);
    switch (kind) {
    case 0:
        json_object(json);
        for (; size > 0; size--) {
            assert_true(json_member(json));
            assert_string_equal(json->key, size % 2 == 0 ? "even" : "o\"dd\n");
            check_random(rng, json, depth + 1);
        }
        assert_false(json_member(json));
        break;
    case 1:
        json_array(json);
        for (; size > 0; size--) {
            assert_true(json_element(json));
            check_random(rng, json, depth + 1);
        }
        assert_false(json_element(json));
        break;
    case 2:
        assert_int_equal(json_count(json, 0, UINT64_MAX), value);
        break;
    case 3:
        assert_true(json_number(json) == -(double)value / 1024);
        break;
    case 4:
        assert_int_equal(json_bool(json), size < 2);
        break;
    default:
        assert_true(json_is(json, size < 2 ? 'n' : '"'));
        json_skip(json);
    }
}

TEST(random_documents_are_read_back_value_by_value)
{
    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct rng rng;
        struct buf buf;
        struct json_out out;
        struct json json;
        tri_error err = {0};
        buf_init(&buf, &mem_libc);
        json_out_init(&out, &buf, (unsigned)(seed % 7));
        json_out_array(&out, NULL);
        rng_init(&rng, seed);
        write_random(&rng, &out, NULL, 0);
        json_out_close(&out);

        rng_init(&rng, seed);
        json_open(&json, "out", buf.data, buf.len, &err);
        json_array(&json);
        assert_true(json_element(&json));
        check_random(&rng, &json, 0);
        assert_false(json_element(&json));
        json_end(&json);
        if (json.status != TRI_OK)
            fail_msg("seed %llu: %s at %s", (unsigned long long)seed, err.text, err.where);
        buf_fini(&buf);
    }
}

TEST(refused_memory_is_told_by_the_buffer)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct buf buf;
        buf_init(&buf, &fault.mem);
        for (int i = 0; i < 10; i++)
            write_sample(&buf, 3);
        assert_int_equal(buf_ok(&buf), !fault.hit);
        buf_fini(&buf);
    }
    assert_true(fault.run > 2);
}

TEST(what_could_drive_a_terminal_is_written_as_an_escape)
{
    (void)state;
    struct buf buf;
    struct json_out out;
    buf_init(&buf, &mem_libc);
    json_out_init(&out, &buf, 0);
    json_out_array(&out, NULL);
    json_out_string(&out, NULL, "\x1B\x7F\xC2\x9B\xE2\x80\xAE\xE2\x81\xA6\xC3\xA9");
    json_out_string(&out, NULL, "a\xFF\xC3");
    json_out_close(&out);
    assert_string_equal(buf_string(&buf), "[\"\\u001b\\u007f\\u009b\\u202e\\u2066\xC3\xA9\", "
                                          "\"a\\ufffd\\ufffd\"]\n");
    buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_outer_levels_wrap_and_the_rest_stays_on_a_line),
        cmocka_unit_test(empty_containers_stay_closed),
        cmocka_unit_test(deep_nesting_closes_in_order),
        cmocka_unit_test(strings_survive),
        cmocka_unit_test(control_characters_leave_as_escapes),
        cmocka_unit_test(random_strings_survive),
        cmocka_unit_test(numbers_take_their_shortest_form),
        cmocka_unit_test(random_doubles_survive),
        cmocka_unit_test(fractions_of_common_size_are_read_back_bit_for_bit),
        cmocka_unit_test(whole_numbers_survive_without_exponent),
        cmocka_unit_test(random_documents_are_read_back_value_by_value),
        cmocka_unit_test(refused_memory_is_told_by_the_buffer),
        cmocka_unit_test(what_could_drive_a_terminal_is_written_as_an_escape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
