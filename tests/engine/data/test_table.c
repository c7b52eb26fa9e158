/* engine/table: rows and cells, and what is wrong with files that have none. */
#include "engine/data/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"

/* All rows, cells in [], rows ended by their line: "[a][b]1 [c][d]2 "; "!" and the error's place
 * and text at the first thing wrong. */
static const char *read_bytes(const char *bytes, size_t len, char separator)
{
    static char out[1000];
    char *copy = malloc(len > 0 ? len : 1); /* so that its end is guarded */
    struct table table;
    tri_error err = {0};
    bool more = true;
    size_t at = 0;
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    tri_status status = table_begin(&table, "f", copy, len, separator, &mem_libc, &err);
    while (status == TRI_OK && (status = table_next(&table, &more, &err)) == TRI_OK && more) {
        for (size_t i = 0; i < table.columns; i++)
            at += (size_t)snprintf(out + at, sizeof out - at, "[%.*s]", (int)table.cells[i].len,
                                   table.cells[i].text);
        at += (size_t)snprintf(out + at, sizeof out - at, "%d ", (int)table.line);
    }
    out[at] = '\0';
    if (status != TRI_OK) {
        assert_int_equal(status, TRI_EINPUT);
        assert_true(err.next[0] != '\0');
        (void)snprintf(out + at, sizeof out - at, "!%s: %s", err.where, err.text);
    }
    table_close(&table);
    free(copy);
    return out;
}

static const char *csv(const char *text)
{
    return read_bytes(text, strlen(text), ',');
}

static const char *tsv(const char *text)
{
    return read_bytes(text, strlen(text), '\t');
}

TEST(rows_end_with_either_line_end_or_the_file)
{
    (void)state;
    assert_string_equal(csv("a,b\nc,d\n"), "[a][b]1 [c][d]2 ");
    assert_string_equal(csv("a,b\r\nc,d\r\n"), "[a][b]1 [c][d]2 ");
    assert_string_equal(csv("a,b\nc,d"), "[a][b]1 [c][d]2 ");
    assert_string_equal(csv("a,\r\n,d\r"), "[a][]1 [][d]2 ");
    assert_string_equal(csv("a,"), "[a][]1 ");
}

TEST(blank_lines_and_a_byte_order_mark_are_no_rows)
{
    (void)state;
    assert_string_equal(csv("\n\r\na,b\n\n\nc,d\n\n"), "[a][b]3 [c][d]6 ");
    assert_string_equal(csv("\xEF\xBB\xBF\"a\",b\n"), "[a][b]1 ");
    assert_string_equal(csv("\xEF\xBB\xBF"), "");
}

TEST(quoted_cells_hold_commas_quotes_and_line_ends)
{
    (void)state;
    assert_string_equal(csv("\"a,b\",\"c\"\"d\"\n\"e\nf\r\n\",g\nh,i\n"),
                        "[a,b][c\"d]1 [e\nf\r\n][g]2 [h][i]5 ");
    assert_string_equal(csv("\"\",\"\"\"\"\r\n"), "[][\"]1 ");
    assert_string_equal(csv("a\"b\",c \"d\"\n"), "[a\"b\"][c \"d\"]1 ");
    assert_string_equal(csv("x,\"y\""), "[x][y]1 ");
    assert_string_equal(csv("x,\"y\"\r"), "[x][y]1 ");
}

TEST(tsv_knows_no_quotes)
{
    (void)state;
    assert_string_equal(tsv("a\t\"b, c\r\nd\te\"\n"), "[a][\"b, c]1 [d][e\"]2 ");
}

TEST(a_ragged_row_is_named_by_its_line)
{
    (void)state;
    assert_string_equal(csv("a,b\n\"c\n\",d\ne,f,g\n"),
                        "[a][b]1 [c\n][d]2 !f:4: a row of 'f' has 3 columns, and the first row "
                        "has 2");
    assert_string_equal(tsv("a\tb\nc\n"),
                        "[a][b]1 !f:2: a row of 'f' has 1 column, and the first row has 2");
}

TEST(broken_quoting_is_named_by_its_line)
{
    (void)state;
    assert_string_equal(csv("a,b\nc,\"d\ne,f\n"),
                        "[a][b]1 !f:2: a quotation mark in 'f' is never closed");
    assert_string_equal(csv("a,\"b\"c\n"), "!f:1: text follows a closing quotation mark in 'f'");
    assert_string_equal(csv("a,\"\n\"c\n"), "!f:2: text follows a closing quotation mark in 'f'");
}

TEST(what_is_no_text_is_named_by_line_and_offset)
{
    (void)state;
    assert_string_equal(read_bytes("", 0, ','), "!f:1: 'f' is empty");
    assert_string_equal(read_bytes("a,b\nc,\0d\n", 9, ','),
                        "!f:2, offset 6: 'f' is not UTF-8 text");
    assert_string_equal(csv("0123456789abcdef,\nx,\xFF\n"),
                        "!f:2, offset 20: 'f' is not UTF-8 text");
    assert_string_equal(csv("caf\xE9"), "!f:1, offset 3: 'f' is not UTF-8 text");
    /* NUL among eight characters that are looked at together */
    assert_string_equal(read_bytes("abc\0efghijkl", 12, ','),
                        "!f:1, offset 3: 'f' is not UTF-8 text");
}

static void check_long(size_t len, const char *head, char fill, const char *tail,
                       const char *expected)
{
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, fill, len);
    for (size_t i = 0; head[i] != '\0'; i++)
        text[i] = head[i];
    for (size_t i = 0, from = len - strlen(tail); tail[i] != '\0'; i++)
        text[from + i] = tail[i];
    if (expected[0] == '!') {
        assert_string_equal(read_bytes(text, len, ','), expected);
        free(text);
        return;
    }
    struct table table;
    bool more;
    assert_int_equal(table_begin(&table, "f", text, len, ',', &mem_libc, NULL), TRI_OK);
    assert_int_equal(table_next(&table, &more, NULL), TRI_OK);
    assert_true(more);
    assert_int_equal(table_next(&table, &more, NULL), TRI_OK);
    assert_false(more);
    table_close(&table);
    free(text);
}

TEST(a_row_that_never_ends_is_refused_at_once)
{
    (void)state;
    const char *refused = "!f:1: a row of 'f' is longer than 1048576 bytes";
    check_long((size_t)100 << 20, "a,b", 'x', "\n", refused);
    check_long((size_t)100 << 20, "a,\"b", 'x', "\n", refused);
    check_long((size_t)4 << 20, "a,\"b", '"', "\n", refused);
    check_long((size_t)4 << 20, "a,b", ',', "\n", refused);
    check_long(TABLE_MAX_ROW, "a,b", 'x', "x", "");
    check_long(TABLE_MAX_ROW + 1, "a,b", 'x', "x", refused);
    check_long(TABLE_MAX_ROW + 5, "a,\"b", 'x', "\"\"xyz\n", refused);
    /* quotes that close or double just where a row may end at the latest */
    for (size_t over = 0; over < 6; over++) {
        check_long(TABLE_MAX_ROW + over, "a,\"b", 'x', "\"", over == 0 ? "" : refused);
        check_long(TABLE_MAX_ROW + over, "a,\"b", 'x', "\"\"\"", over == 0 ? "" : refused);
    }
}

TEST(reading_survives_refused_memory)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        char text[] = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\n";
        struct table table;
        bool more;
        tri_status status = table_begin(&table, "f", text, sizeof text - 1, ',', &fault.mem, NULL);
        if (status == TRI_OK)
            status = table_next(&table, &more, NULL);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        table_close(&table);
    }
    assert_true(fault.run > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_end_with_either_line_end_or_the_file),
        cmocka_unit_test(blank_lines_and_a_byte_order_mark_are_no_rows),
        cmocka_unit_test(quoted_cells_hold_commas_quotes_and_line_ends),
        cmocka_unit_test(tsv_knows_no_quotes),
        cmocka_unit_test(a_ragged_row_is_named_by_its_line),
        cmocka_unit_test(broken_quoting_is_named_by_its_line),
        cmocka_unit_test(what_is_no_text_is_named_by_line_and_offset),
        cmocka_unit_test(a_row_that_never_ends_is_refused_at_once),
        cmocka_unit_test(reading_survives_refused_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
