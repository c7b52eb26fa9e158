/* base/json: what is read, what is refused, and where the finger points. */
#include "base/json.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test.h"

/* Reads the whole of a text that needs not end in NUL, keeping nothing. */
static tri_status check_text(const char *text, size_t len, tri_error *err)
{
    struct json json;
    json_open(&json, "x.json", text, len, err);
    json_skip(&json);
    json_end(&json);
    return json.status;
}

/* A reader on a text that the test wrote down. */
static struct json reader(const char *text, tri_error *err)
{
    struct json json;
    json_open(&json, "x.json", text, strlen(text), err);
    return json;
}

/* ---- what is read ---- */

TEST(every_kind_of_value_is_read)
{
    (void)state;
    tri_error err;
    struct json json = reader(" [ 0, -2.5e1, true, false, \"a\\u00e9\", null, [], {} ]\n", &err);
    struct buf text;
    buf_init(&text, &mem_libc);
    json_array(&json);
    assert_true(json_element(&json));
    assert_int_equal(json_count(&json, 0, 9), 0);
    assert_true(json_element(&json));
    assert_true(json_number(&json) == -25);
    assert_int_equal(json.value, 6); /* where -2.5e1 begins */
    assert_true(json_element(&json));
    assert_true(json_bool(&json));
    assert_true(json_element(&json));
    assert_false(json_bool(&json));
    assert_true(json_element(&json));
    json_string(&json, &text);
    assert_string_equal(buf_string(&text), "a\xC3\xA9");
    assert_true(json_element(&json));
    assert_true(json_is(&json, 'n'));
    json_skip(&json);
    assert_true(json_element(&json));
    json_array(&json);
    assert_false(json_element(&json));
    assert_true(json_element(&json));
    json_object(&json);
    assert_false(json_member(&json));
    assert_false(json_element(&json));
    json_end(&json);
    assert_int_equal(json.status, TRI_OK);
    buf_fini(&text);
}

TEST(containers_nest_and_members_come_with_their_keys)
{
    (void)state;
    tri_error err;
    struct json json = reader("{\"a\":[[1],[2,{\"b\":3}]],\"\\u0063\":{}}", &err);
    json_object(&json);
    assert_true(json_member(&json));
    assert_string_equal(json.key, "a");
    assert_int_equal(json.key_at, 1);
    json_array(&json);
    assert_true(json_element(&json));
    json_array(&json);
    assert_true(json_element(&json));
    assert_int_equal(json_count(&json, 1, 1), 1);
    assert_false(json_element(&json));
    assert_true(json_element(&json));
    json_array(&json);
    assert_true(json_element(&json));
    assert_int_equal(json_count(&json, 2, 2), 2);
    assert_true(json_element(&json));
    json_object(&json);
    assert_int_equal(json.depth, 4);
    assert_true(json_member(&json));
    assert_string_equal(json.key, "b");
    assert_int_equal(json_count(&json, 3, 3), 3);
    assert_false(json_member(&json));
    assert_false(json_element(&json));
    assert_false(json_element(&json));
    assert_true(json_member(&json));
    assert_string_equal(json.key, "c");
    json_object(&json);
    assert_false(json_member(&json));
    assert_false(json_member(&json));
    json_end(&json);
    assert_int_equal(json.status, TRI_OK);
    assert_int_equal(json.depth, 0);
}

TEST(every_escape_is_decoded)
{
    (void)state;
    tri_error err;
    struct json json =
        reader("\"\\\"\\\\\\/\\b\\f\\n\\r\\t \\u0041\\u00DF\\u20ac\\uD83D\\ude00\"", &err);
    struct buf text;
    buf_init(&text, &mem_libc);
    buf_text(&text, "is replaced");
    json_string(&json, &text);
    json_end(&json);
    assert_int_equal(json.status, TRI_OK);
    assert_string_equal(buf_string(&text), "\"\\/\b\f\n\r\t A\xC3\x9F\xE2\x82\xAC\xF0\x9F\x98\x80");
    json = reader("\"a\\u0000b\"", &err);
    json_string(&json, &text);
    assert_int_equal(json.status, TRI_EINPUT); /* a C string could not hold it */
    buf_fini(&text);
}

TEST(the_borders_of_utf8_are_accepted)
{
    (void)state;
    static const char *const good[] = {
        "\"\x7F\"",
        "\"\xC2\x80\"",
        "\"\xDF\xBF\"",
        "\"\xE0\xA0\x80\"",
        "\"\xED\x9F\xBF\"",
        "\"\xEE\x80\x80\"",
        "\"\xEF\xBF\xBF\"",
        "\"\xF0\x90\x80\x80\"",
        "\"\xF1\x80\x80\x80\"",
        "\"\xF4\x8F\xBF\xBF\"",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        tri_error err = {0};
        if (check_text(good[i], strlen(good[i]), &err) != TRI_OK)
            fail_msg("row %zu: %s at %s", i, err.text, err.where);
    }
}

TEST(skip_takes_one_value_and_nothing_behind_it)
{
    (void)state;
    tri_error err;
    struct json json = reader("[{\"a\":[1,{\"b\":\"]}\"}]}, 7]", &err);
    json_array(&json);
    assert_true(json_element(&json));
    json_skip(&json);
    assert_int_equal(json.value, 1); /* the value skipped, not one inside it */
    assert_true(json_element(&json));
    assert_int_equal(json_count(&json, 0, 9), 7);
    assert_false(json_element(&json));
    json_end(&json);
    assert_int_equal(json.status, TRI_OK);
}

TEST(a_long_key_is_cut_and_its_value_still_read)
{
    (void)state;
    tri_error err;
    char text[256], key[101];
    memset(key, 'k', 100);
    key[100] = '\0';
    (void)snprintf(text, sizeof text, "{\"%s\":5}", key);
    struct json json = reader(text, &err);
    json_object(&json);
    assert_true(json_member(&json));
    assert_int_equal(strlen(json.key), JSON_KEY_MAX);
    assert_memory_equal(json.key, key, JSON_KEY_MAX);
    assert_int_equal(json_count(&json, 0, 9), 5);
    assert_false(json_member(&json));
    json_end(&json);
    assert_int_equal(json.status, TRI_OK);
}

/* ---- what is refused ---- */

struct bad {
    const char *text;
    size_t len;
    const char *where; /* behind "x.json:" */
    const char *why;
};
#define BAD(text, where, why)                                                                      \
    {                                                                                              \
        text, sizeof(text) - 1, where, why                                                         \
    }

static const struct bad bad[] = {
    /* cut off */
    BAD("", "1:1", "the text ends where a value should be"),
    BAD(" \n  ", "2:3", "the text ends where a value should be"),
    BAD("[", "1:2", "the text ends where a value should be"),
    BAD("[1", "1:3", "the text ends where ',' or ']' should be"),
    BAD("[1,", "1:4", "the text ends where a value should be"),
    BAD("{", "1:2", "the text ends where a key in quotes should be"),
    BAD("{\"a", "1:2", "this string has no closing quote"),
    BAD("{\"a\"", "1:5", "the text ends where ':' should be"),
    BAD("{\"a\":", "1:6", "the text ends where a value should be"),
    BAD("{\"a\":1", "1:7", "the text ends where ',' or '}' should be"),
    BAD("{\"a\":1,", "1:8", "the text ends where a key in quotes should be"),
    BAD("tru", "1:1", "found 't' where true or false should be"),
    BAD("fals", "1:1", "found 'f' where true or false should be"),
    BAD("nul", "1:1", "found 'n' where null should be"),
    BAD("[\"abc", "1:2", "this string has no closing quote"),
    BAD("\"\\", "1:3", "the text ends where an escape such as \\n should be"),
    BAD("\"\\u12", "1:6", "the text ends where a hexadecimal digit of \\uXXXX should be"),
    BAD("\"\\ud800\\u", "1:10", "the text ends where a hexadecimal digit of \\uXXXX should be"),
    BAD("-", "1:2", "the text ends where a number should be"),
    BAD("1.", "1:3", "the text ends where a digit should be"),
    BAD("1e", "1:3", "the text ends where a digit of the exponent should be"),
    BAD("1e-", "1:4", "the text ends where a digit of the exponent should be"),
    /* punctuation */
    BAD("[1,]", "1:4", "a comma must not stand before ']'"),
    BAD("{\"a\":1, }", "1:9", "a comma must not stand before '}'"),
    BAD("[,1]", "1:2", "found ',' where a value should be"),
    BAD("{,}", "1:2", "found ',' where a key in quotes should be"),
    BAD("[1 2]", "1:4", "found '2' where ',' or ']' should be"),
    BAD("[1}", "1:3", "found '}' where ',' or ']' should be"),
    BAD("{\"a\":1]", "1:7", "found ']' where ',' or '}' should be"),
    BAD("{\"a\" 1}", "1:6", "found '1' where ':' should be"),
    BAD("{a:1}", "1:2", "found 'a' where a key in quotes should be"),
    BAD("{'a':1}", "1:2", "found ''' where a key in quotes should be"),
    BAD("'a'", "1:1", "found ''' where a value should be"),
    BAD("[1] // no", "1:5", "more text after the end of the document"),
    BAD("[1]]", "1:4", "more text after the end of the document"),
    BAD("{}\n{}", "2:1", "more text after the end of the document"),
    BAD("1\0", "1:2", "more text after the end of the document"),
    BAD("\xEF\xBB\xBF{}", "1:1", "found byte 0xef where a value should be"), /* a BOM */
    BAD("[\v1]", "1:2", "found byte 0x0b where a value should be"),
    /* numbers and words */
    BAD("01", "1:1", "a number must not begin with 0"),
    BAD("[-00]", "1:3", "a number must not begin with 0"),
    BAD("1.e3", "1:3", "found 'e' where a digit should be"),
    BAD("1ex", "1:3", "found 'x' where a digit of the exponent should be"),
    BAD("-x", "1:2", "found 'x' where a number should be"),
    BAD(".5", "1:1", "found '.' where a value should be"),
    BAD("+1", "1:1", "found '+' where a value should be"),
    BAD("0x10", "1:2", "more text after the end of the document"),
    BAD("NaN", "1:1", "found 'N' where a value should be"),
    BAD("-Infinity", "1:2", "found 'I' where a number should be"),
    BAD("[1,1e400]", "1:4", "this number is too large"),
    BAD("-1e309", "1:1", "this number is too large"),
    BAD("1e99999999999999999999", "1:1", "this number is too large"),
    BAD("True", "1:1", "found 'T' where a value should be"),
    BAD("truely", "1:5", "more text after the end of the document"),
    /* strings */
    BAD("\"a\tb\"", "1:3", "byte 0x09 in a string must be written as an escape"),
    BAD("\"a\nb\"", "1:3", "byte 0x0a in a string must be written as an escape"),
    BAD("\"\0\"", "1:2", "byte 0x00 in a string must be written as an escape"),
    BAD("\"\\x41\"", "1:3", "found 'x' where an escape such as \\n should be"),
    BAD("\"\\\0\"", "1:3", "found byte 0x00 where an escape such as \\n should be"),
    BAD("\"\\u00g0\"", "1:6", "found 'g' where a hexadecimal digit of \\uXXXX should be"),
    BAD("\"\\ud800\"", "1:2", "half a surrogate pair"),
    BAD("\"\\udbff\\n\"", "1:2", "half a surrogate pair"),
    BAD("\"x\\ud800\\u0041\"", "1:3", "half a surrogate pair"),
    BAD("\"\\ud800\\ud800\"", "1:2", "half a surrogate pair"),
    BAD("\"\\udc00\"", "1:2", "half a surrogate pair"),
    BAD("{\"\\udfff\":1}", "1:3", "half a surrogate pair"),
    /* UTF-8: stray, overlong, surrogate, past U+10FFFF, cut off */
    BAD("\"\x80\"", "1:2", "byte 0x80 is not UTF-8"),
    BAD("\"\xC0\x80\"", "1:2", "byte 0xc0 is not UTF-8"),
    BAD("\"\xC1\xBF\"", "1:2", "byte 0xc1 is not UTF-8"),
    BAD("\"\xE0\x9F\xBF\"", "1:2", "byte 0xe0 is not UTF-8"),
    BAD("\"\xF0\x8F\xBF\xBF\"", "1:2", "byte 0xf0 is not UTF-8"),
    BAD("\"\xED\xA0\x80\"", "1:2", "byte 0xed is not UTF-8"),
    BAD("\"\xED\xBF\xBF\"", "1:2", "byte 0xed is not UTF-8"),
    BAD("\"\xF4\x90\x80\x80\"", "1:2", "byte 0xf4 is not UTF-8"),
    BAD("\"\xF5\x80\x80\x80\"", "1:2", "byte 0xf5 is not UTF-8"),
    BAD("\"\xFF\"", "1:2", "byte 0xff is not UTF-8"),
    BAD("\"a\xC3\"", "1:3", "byte 0xc3 is not UTF-8"),
    BAD("\"a\xC3", "1:3", "byte 0xc3 is not UTF-8"),
    BAD("\"\xE2\x82\"", "1:2", "byte 0xe2 is not UTF-8"),
    BAD("\"\xF0\x9F\x98", "1:2", "byte 0xf0 is not UTF-8"),
    BAD("{\"k\xFE\":1}", "1:4", "byte 0xfe is not UTF-8"),
    /* columns are characters, lines end in \n, with or without \r */
    BAD("[\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\", ?]", "1:9",
        "found '?' where a value should be"),
    BAD("[1,\r\n 2,\r\n  ?]", "3:3", "found '?' where a value should be"),
    BAD("[1,\n\n\t?]", "3:2", "found '?' where a value should be"),
};

TEST(malformed_texts_are_refused_at_the_right_place)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tri_error err = {0};
        if (check_text(bad[i].text, bad[i].len, &err) != TRI_EINPUT || err.status != TRI_EINPUT)
            fail_msg("row %zu was not refused", i);
        char where[32];
        (void)snprintf(where, sizeof where, "x.json:%s", bad[i].where);
        if (strcmp(err.where, where) != 0 || strcmp(err.text, bad[i].why) != 0)
            fail_msg("row %zu gave '%s' at %s, not '%s' at %s", i, err.text, err.where, bad[i].why,
                     where);
    }
}

TEST(a_reader_that_wants_another_kind_says_which)
{
    (void)state;
    tri_error err;
    struct buf text;
    buf_init(&text, &mem_libc);
    struct json json = reader("{}", &err);
    json_array(&json);
    assert_string_equal(err.text, "found '{' where an array should be");
    json = reader("[]", &err);
    json_object(&json);
    assert_string_equal(err.text, "found '[' where an object should be");
    json = reader("1", &err);
    json_string(&json, &text);
    assert_string_equal(err.text, "found '1' where a string should be");
    json = reader("\"1\"", &err);
    json_number(&json);
    assert_string_equal(err.text, "found '\"' where a number should be");
    json = reader("null", &err);
    json_bool(&json);
    assert_string_equal(err.text, "found 'n' where true or false should be");
    buf_fini(&text);
}

/* `depth` containers inside each other, arrays or objects by turns. */
static tri_status nested(unsigned depth, bool mixed, tri_error *err)
{
    struct buf text;
    buf_init(&text, &mem_libc);
    for (unsigned i = 0; i < depth; i++)
        buf_text(&text, mixed && i % 2 == 1 ? "{\"k\":" : "[");
    buf_char(&text, '1');
    for (unsigned i = depth; i-- > 0;)
        buf_char(&text, mixed && i % 2 == 1 ? '}' : ']');
    tri_status status = check_text(text.data, text.len, err);
    buf_fini(&text);
    return status;
}

TEST(nesting_ends_at_64)
{
    (void)state;
    tri_error err = {0};
    assert_int_equal(JSON_MAX_DEPTH, 64);
    assert_int_equal(nested(64, false, &err), TRI_OK);
    assert_int_equal(nested(64, true, &err), TRI_OK);
    assert_int_equal(nested(65, false, &err), TRI_EINPUT);
    assert_string_equal(err.text, "nested more than 64 deep");
    assert_string_equal(err.where, "x.json:1:65");
    assert_int_equal(nested(65, true, &err), TRI_EINPUT);
    assert_int_equal(nested(100000, false, &err), TRI_EINPUT);
}

TEST(siblings_do_not_count_as_nesting)
{
    (void)state;
    struct buf text;
    tri_error err = {0};
    buf_init(&text, &mem_libc);
    buf_char(&text, '[');
    for (int i = 0; i < 1000; i++)
        buf_text(&text, "{\"a\":[]},");
    buf_text(&text, "0]");
    assert_int_equal(check_text(text.data, text.len, &err), TRI_OK);
    buf_fini(&text);
}

/* Holds one of everything, so that its prefixes end in one of everything. */
static const char whole[] = "{\"a\\n\\u00e9\xC3\xA9\": [-1.5e+10, 0, true, false, null], "
                            "\"\\ud83d\\ude00\xE2\x82\xAC\xF0\x9F\x98\x80\": {\"b\": \"\"},\r\n"
                            "\"c\": [[], {}, [{\"d\": 1E-2}]] }";

TEST(every_prefix_is_refused_and_nothing_behind_it_is_read)
{
    (void)state;
    tri_error err = {0};
    size_t full = sizeof whole - 1;
    if (check_text(whole, full, &err) != TRI_OK)
        fail_msg("%s at %s", err.text, err.where);
    for (size_t len = 1; len < full; len++) {
        char *exact = malloc(len); /* the sanitizer guards its end */
        assert_non_null(exact);
        memcpy(exact, whole, len);
        if (check_text(exact, len, &err) != TRI_EINPUT)
            fail_msg("the first %zu bytes were accepted", len);
        free(exact);
    }
}

TEST(damaged_texts_never_read_past_their_end)
{
    (void)state;
    const uint64_t seed = 20;
    struct rng rng;
    rng_init(&rng, seed);
    for (int round = 0; round < 20000; round++) {
        size_t len = 1 + (size_t)rng_below(&rng, sizeof whole - 1);
        char *exact = malloc(len);
        assert_non_null(exact);
        memcpy(exact, whole + sizeof whole - 1 - len, len); /* a tail this time */
        for (uint64_t hits = 1 + rng_below(&rng, 4); hits > 0; hits--)
            exact[rng_below(&rng, len)] = (char)rng_below(&rng, 256);
        tri_error err = {0};
        tri_status status = check_text(exact, len, &err);
        if (status != TRI_OK && (status != TRI_EINPUT || err.text[0] == '\0'))
            fail_msg("seed %d, round %d: status %d, '%s'", (int)seed, round, status, err.text);
        free(exact);
    }
}

TEST(the_first_error_wins_and_later_calls_do_nothing)
{
    (void)state;
    tri_error err = {0};
    struct json json = reader("[1, ?, 2, {\"a\": 3}]", &err);
    struct buf text;
    buf_init(&text, &mem_libc);
    buf_text(&text, "old");
    json_array(&json);
    assert_true(json_element(&json));
    assert_int_equal(json_count(&json, 5, 9), 5); /* refused: 1 is not 5 to 9 */
    tri_error first = err;
    size_t pos = json.pos;
    assert_string_equal(first.text, "1 is not between 5 and 9");
    assert_string_equal(first.where, "x.json:1:2");

    assert_false(json_element(&json));
    assert_false(json_member(&json));
    assert_false(json_is(&json, ','));
    assert_false(json_bool(&json));
    assert_int_equal(json_count(&json, 3, 9), 3);
    assert_true(json_number(&json) == 0);
    json_string(&json, &text);
    assert_string_equal(buf_string(&text), "");
    json_object(&json);
    json_array(&json);
    json_skip(&json);
    json_end(&json);
    json_refuse(&json, 0, "another");
    assert_int_equal(json.pos, pos);
    assert_int_equal(json.status, TRI_EINPUT);
    assert_memory_equal(&err, &first, sizeof err);
    buf_fini(&text);
}

TEST(a_caller_may_refuse_and_nobody_needs_to_listen)
{
    (void)state;
    tri_error err = {0};
    struct json json = reader("\n\n {\"rows\": 7}", &err);
    json_object(&json);
    assert_true(json_member(&json));
    json_skip(&json);
    json_refuse(&json, json.value, "%d rows are too many", 7);
    assert_string_equal(err.text, "7 rows are too many");
    assert_string_equal(err.where, "x.json:3:11");
    json_refuse(&json, 9999, "too late");
    assert_string_equal(err.where, "x.json:3:11");

    json = reader("[", NULL);
    json_skip(&json);
    assert_int_equal(json.status, TRI_EINPUT);
}

TEST(a_string_that_finds_no_memory_is_the_buffers_business)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct buf text;
        buf_init(&text, &fault.mem);
        tri_error err = {0};
        struct json json = reader("\"a text that needs room, some of it\\n more than once ........"
                                  "........................................................\"",
                                  &err);
        json_string(&json, &text);
        json_end(&json);
        assert_int_equal(json.status, TRI_OK);
        assert_int_equal(buf_ok(&text), !fault.hit);
        buf_fini(&text);
    }
    assert_true(fault.run > 1);
}

/* ---- numbers ---- */

#define TWO_53 9007199254740992

static const struct {
    const char *text;
    uint64_t min, max;
    uint64_t value;
    const char *refused; /* NULL: accepted */
} counts[] = {
    {"0", 0, 0, 0, NULL},
    {"-0", 0, 9, 0, NULL},
    {"3", 3, 5, 3, NULL},
    {"5", 3, 5, 5, NULL},
    {"2", 3, 5, 0, "2 is not between 3 and 5"},
    {"6", 3, 5, 0, "6 is not between 3 and 5"},
    {"-1", 0, 5, 0, "-1 is not between 0 and 5"},
    {"-0", 1, 5, 0, "-0 is not between 1 and 5"},
    {"1.0", 0, 5, 0, "1.0 is not a whole number"},
    {"0.5", 0, 5, 0, "0.5 is not a whole number"},
    {"1e3", 0, 5000, 0, "1e3 is not a whole number"},
    {"2E0", 0, 5000, 0, "2E0 is not a whole number"},
    {"9007199254740992", 0, TWO_53, TWO_53, NULL},
    {"9007199254740993", 0, TWO_53, 0, "9007199254740993 is not between 0 and 9007199254740992"},
    {"9007199254740993", 0, TWO_53 + 1, TWO_53 + 1, NULL}, /* no double in between */
    {"12345678901234567890", 0, UINT64_MAX, UINT64_C(12345678901234567890), NULL},
    {"18446744073709551616", 0, UINT64_MAX, 0,
     "18446744073709551616 is not between 0 and 18446744073709551615"},
    {"99999999999999999999", 0, UINT64_MAX, 0,
     "99999999999999999999 is not between 0 and 18446744073709551615"},
    {"-99999999999999999999", 0, 5, 0, "-99999999999999999999 is not between 0 and 5"},
    {"100000000000000000000000000000000000000000000000", 0, 5, 0,
     "1000000000000000000000000000000000000000 is not between 0 and 5"}, /* shown cut */
};

TEST(counts_keep_their_limits)
{
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        tri_error err = {0};
        struct json json = reader(counts[i].text, &err);
        uint64_t value = json_count(&json, counts[i].min, counts[i].max);
        json_end(&json);
        uint64_t wanted = counts[i].refused != NULL ? counts[i].min : counts[i].value;
        const char *text = counts[i].refused != NULL ? counts[i].refused : "";
        if (value != wanted || strcmp(err.text, text) != 0)
            fail_msg("'%s' gave %llu and '%s'", counts[i].text, (unsigned long long)value,
                     err.text);
    }
}

/* Bit for bit, so that -0 is not 0. */
static bool same(double a, double b)
{
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

static double number(const char *text)
{
    tri_error err = {0};
    struct json json = reader(text, &err);
    double value = json_number(&json);
    json_end(&json);
    if (json.status != TRI_OK)
        fail_msg("'%s': %s", text, err.text);
    return value;
}

TEST(numbers_at_the_edges)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"0", 0},
        {"-0", -0.0},
        {"-0.0e0", -0.0},
        {"0e999999", 0},
        {"1e-400", 0},
        {"-1e-400", -0.0},
        {"1e-99999999999999999999", 0},
        {"0.5", 0.5},
        {"1E2", 100},
        {"1e+2", 100},
        {"1e22", 1e22},
        {"9007199254740992", 9007199254740992.0},
        {"18446744073709551616", 18446744073709551616.0},
        {"100000000000000000000000000000", 1e29},
        {"0.0000000000000000000001", 1e-22},
        {"1.0000000000000000000000000000000000000", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double got = number(cases[i].text);
        if (!same(got, cases[i].value))
            fail_msg("'%s' gave %.17g", cases[i].text, got);
    }
}

/* A decimal of at most 15 digits, with its point anywhere and a power of ten
 * that leaves digits x 10^-22 to 10^22. */
static void random_decimal(struct rng *rng, char *out, size_t cap)
{
    char digits[20];
    uint64_t below = 10;
    for (uint64_t i = rng_below(rng, 15); i > 0; i--)
        below *= 10;
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)rng_below(rng, below));
    int behind = (int)rng_below(rng, (uint64_t)len); /* digits behind the point */
    int power = (int)rng_below(rng, 45) - 22 + behind;
    const char *sign = rng_below(rng, 2) == 0 ? "" : "-";
    (void)snprintf(out, cap, "%s%.*s%s%se%d", sign, len - behind, digits, behind > 0 ? "." : "",
                   digits + len - behind, power);
}

TEST(short_decimals_equal_strtod_bit_for_bit)
{
    (void)state;
    const uint64_t seed = 1729;
    struct rng rng;
    rng_init(&rng, seed);
    assert_string_equal(localeconv()->decimal_point, "."); /* strtod follows the locale */
    for (int round = 0; round < 200000; round++) {
        char text[64];
        random_decimal(&rng, text, sizeof text);
        double wanted = strtod(text, NULL), got = number(text);
        if (!same(got, wanted))
            fail_msg("seed %d, round %d: '%s' gave %.17g, not %.17g", (int)seed, round, text, got,
                     wanted);
    }
}

TEST(long_decimals_are_off_by_a_few_units_at_most)
{
    (void)state;
    const uint64_t seed = 4104;
    struct rng rng;
    rng_init(&rng, seed);
    for (int round = 0; round < 100000; round++) {
        uint64_t bits = rng_u64(&rng);
        double wanted;
        memcpy(&wanted, &bits, sizeof wanted);
        if (!isfinite(wanted) || fabs(wanted) < 1e-280 || fabs(wanted) > 1e300)
            continue;
        char text[40];
        (void)snprintf(text, sizeof text, "%.17g", wanted);
        double got = number(text);
        if (fabs(got - wanted) > 2e-15 * fabs(wanted))
            fail_msg("seed %d, round %d: '%s' gave %.17g", (int)seed, round, text, got);
    }
}

TEST(a_number_names_its_key_when_the_object_has_a_name)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"M\": -1}", "'M' of a layer: -1 is not between 0 and 9"},
        {"{\"M\": 1.0}", "'M' of a layer: 1.0 is not a whole number"},
        {"{\"M\": \"x\"}", "found '\"' where the number 'M' of a layer should be"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tri_error err = {0};
        struct json json = reader(cases[i].text, &err);
        json_object(&json);
        json.object = "a layer";
        assert_true(json_member(&json));
        (void)json_count(&json, 0, 9);
        assert_string_equal(err.text, cases[i].says);
    }
}

TEST(a_number_outside_its_bounds_is_refused)
{
    (void)state;
    tri_error err = {0};
    struct json json = reader("0.5", &err);
    assert_true(json_between(&json, 0.5, 1) == 0.5);
    json = reader("-2", &err);
    assert_true(json_between(&json, -1, 1) == -1);
    assert_string_equal(err.text, "-2 is not between -1 and 1");
    json = reader("1.25", &err);
    assert_true(json_between(&json, -1, 1) == -1);
    assert_string_equal(err.text, "1.25 is not between -1 and 1");
}

TEST(skipped_values_do_not_speak_of_the_object_around_them)
{
    (void)state;
    tri_error err = {0};
    struct json json = reader("{\"a\": {\"b\": 1e999}}", &err);
    json_object(&json);
    json.object = "a layer";
    assert_true(json_member(&json));
    json_skip(&json);
    assert_string_equal(err.text, "this number is too large");
    assert_string_equal(json.object, "a layer");
}

TEST(the_first_advice_stays)
{
    (void)state;
    tri_error err = {0};
    struct json json = reader("1e2", &err);
    (void)json_count(&json, 0, 900);
    assert_string_equal(err.next, "write it without point or exponent");
    json_advise(&json, "something else");
    assert_string_equal(err.next, "write it without point or exponent");
    json = reader("x", NULL);
    json_skip(&json);
    json_advise(&json, "nobody listens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_is_read),
        cmocka_unit_test(containers_nest_and_members_come_with_their_keys),
        cmocka_unit_test(every_escape_is_decoded),
        cmocka_unit_test(the_borders_of_utf8_are_accepted),
        cmocka_unit_test(skip_takes_one_value_and_nothing_behind_it),
        cmocka_unit_test(a_long_key_is_cut_and_its_value_still_read),
        cmocka_unit_test(malformed_texts_are_refused_at_the_right_place),
        cmocka_unit_test(a_reader_that_wants_another_kind_says_which),
        cmocka_unit_test(nesting_ends_at_64),
        cmocka_unit_test(siblings_do_not_count_as_nesting),
        cmocka_unit_test(every_prefix_is_refused_and_nothing_behind_it_is_read),
        cmocka_unit_test(damaged_texts_never_read_past_their_end),
        cmocka_unit_test(the_first_error_wins_and_later_calls_do_nothing),
        cmocka_unit_test(a_caller_may_refuse_and_nobody_needs_to_listen),
        cmocka_unit_test(a_string_that_finds_no_memory_is_the_buffers_business),
        cmocka_unit_test(counts_keep_their_limits),
        cmocka_unit_test(numbers_at_the_edges),
        cmocka_unit_test(short_decimals_equal_strtod_bit_for_bit),
        cmocka_unit_test(long_decimals_are_off_by_a_few_units_at_most),
        cmocka_unit_test(a_number_names_its_key_when_the_object_has_a_name),
        cmocka_unit_test(a_number_outside_its_bounds_is_refused),
        cmocka_unit_test(skipped_values_do_not_speak_of_the_object_around_them),
        cmocka_unit_test(the_first_advice_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
