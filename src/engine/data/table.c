/* Splits text into rows and cells. */
#include "engine/data/table.h"

#include <string.h>

#include "base/utf8.h"

/* Eight characters of ASCII, none of them NUL. */
static bool plain8(const char *p)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t eight;
    memcpy(&eight, p, sizeof eight);
    return (eight & tops) == 0 && ((eight - ones) & ~eight & tops) == 0;
}

/* The first byte that is NUL or no UTF-8; end if there is none. */
static const char *find_bad(const char *p, const char *end)
{
    while (p < end) {
        if (end - p >= 8 && plain8(p)) {
            p += 8;
            continue;
        }
        size_t len = *p != '\0' ? utf8_length(p, (size_t)(end - p)) : 0;
        if (len == 0)
            return p;
        p += len;
    }
    return end;
}

static uint64_t count_lines(const char *p, const char *end)
{
    uint64_t lines = 0;
    while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
        lines++;
        p++;
    }
    return lines;
}

static tri_status no_text(const struct table *table, const char *bytes, const char *bad,
                          tri_error *err)
{
    fail(err, TRI_EINPUT, "'%s' is not UTF-8 text", table->name);
    fail_where(err, "%s:%llu, offset %zu", table->name,
               (unsigned long long)count_lines(bytes, bad) + 1, (size_t)(bad - bytes));
    fail_why(err, "the byte 0x%02x cannot stand there", (unsigned char)*bad);
    fail_next(err, "if it is text, convert it: iconv -f latin1 -t utf-8 OLD >NEW");
    return TRI_EINPUT;
}

tri_status table_begin(struct table *table, const char *name, char *bytes, size_t len,
                       char separator, const struct mem *mem, tri_error *err)
{
    *table = (struct table){.mem = mem, .name = name, .separator = separator, .next_line = 1};
    if (len == 0) {
        fail(err, TRI_EINPUT, "'%s' is empty", name);
        fail_where(err, "%s:1", name);
        fail_next(err, "give a file with a label and a text in each row");
        return TRI_EINPUT;
    }
    table->at = bytes;
    table->end = bytes + len;
    const char *bad = find_bad(bytes, table->end);
    if (bad != table->end)
        return no_text(table, bytes, bad, err);
    if (len >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0)
        table->at += 3;
    return TRI_OK;
}

void table_close(struct table *table)
{
    mem_free(table->mem, table->cells);
    table->cells = NULL;
    table->cap = 0;
}

static void skip_line_end(struct table *table)
{
    if (table->at < table->end && *table->at == '\r')
        table->at++;
    if (table->at < table->end && *table->at == '\n') {
        table->at++;
        table->next_line++;
    }
}

static bool at_line_end(const struct table *table)
{
    const char *p = table->at;
    if (p < table->end && *p == '\r')
        p++;
    return p == table->end || *p == '\n';
}

static tri_status wrong(const struct table *table, uint64_t line, tri_error *err)
{
    fail_where(err, "%s:%llu", table->name, (unsigned long long)line);
    return TRI_EINPUT;
}

static tri_status too_long(const struct table *table, bool quoted, tri_error *err)
{
    fail(err, TRI_EINPUT, "a row of '%s' is longer than %zu bytes", table->name, TABLE_MAX_ROW);
    if (quoted)
        fail_why(err, "a quotation mark opens a cell and is not closed for long");
    fail_next(err, quoted ? "close the quotation mark" : "give a file with one sample in a line");
    return wrong(table, table->line, err);
}

static tri_status plain_cell(struct table *table, struct table_cell *cell, tri_error *err)
{
    char *from = table->at, *p = from;
    const char separator = table->separator;
    while (p < table->stop && *p != separator && *p != '\n')
        p++;
    table->at = p;
    if (p == table->stop && p < table->end)
        return too_long(table, false, err);
    if (p > from && p[-1] == '\r' && (p == table->end || *p == '\n'))
        p--;
    *cell = (struct table_cell){.text = from, .len = (size_t)(p - from)};
    return TRI_OK;
}

static tri_status quoted_cell(struct table *table, struct table_cell *cell, tri_error *err)
{
    char *from = ++table->at, *to = from;
    uint64_t opened = table->next_line;
    for (;;) {
        if (table->at >= table->stop && table->stop < table->end)
            return too_long(table, true, err);
        char *quote = memchr(table->at, '"', (size_t)(table->stop - table->at));
        if (quote == NULL && table->stop < table->end)
            return too_long(table, true, err);
        if (quote == NULL) {
            fail(err, TRI_EINPUT, "a quotation mark in '%s' is never closed", table->name);
            fail_next(err, "close it, or double it if it belongs to the text");
            return wrong(table, opened, err);
        }
        size_t len = (size_t)(quote - table->at);
        table->next_line += count_lines(table->at, quote);
        memmove(to, table->at, len);
        to += len;
        table->at = quote + 1;
        if (table->at == table->end || *table->at != '"')
            break;
        *to++ = '"';
        table->at++;
    }
    if (table->at >= table->stop && table->stop < table->end)
        return too_long(table, false, err);
    if (!at_line_end(table) && *table->at != table->separator) {
        fail(err, TRI_EINPUT, "text follows a closing quotation mark in '%s'", table->name);
        fail_next(err, "double quotation marks that belong to the text: \"\"");
        return wrong(table, table->next_line, err);
    }
    *cell = (struct table_cell){.text = from, .len = (size_t)(to - from)};
    return TRI_OK;
}

static tri_status add_cell(struct table *table, tri_error *err)
{
    void *cells = table->cells;
    if (mem_grow(table->mem, &cells, &table->cap, table->columns + 1, sizeof *table->cells) == NULL)
        return fail_nomem(err, "the cells of a row");
    table->cells = cells;
    struct table_cell *cell = &table->cells[table->columns++];
    bool quoted = table->separator == ',' && table->at < table->stop && *table->at == '"';
    return quoted ? quoted_cell(table, cell, err) : plain_cell(table, cell, err);
}

static tri_status check_columns(struct table *table, tri_error *err)
{
    if (table->wanted == 0)
        table->wanted = table->columns;
    if (table->columns == table->wanted)
        return TRI_OK;
    fail(err, TRI_EINPUT, "a row of '%s' has %zu column%s, and the first row has %zu", table->name,
         table->columns, table->columns == 1 ? "" : "s", table->wanted);
    fail_next(err, table->separator == ',' ? "put cells that hold commas in quotation marks"
                                           : "write a label, a tab, and a text without tabs");
    return wrong(table, table->line, err);
}

tri_status table_next(struct table *table, bool *more, tri_error *err)
{
    while (table->at < table->end && at_line_end(table))
        skip_line_end(table);
    *more = table->at < table->end;
    if (!*more)
        return TRI_OK;
    table->line = table->next_line;
    table->columns = 0;
    size_t left = (size_t)(table->end - table->at);
    table->stop = left > TABLE_MAX_ROW ? table->at + TABLE_MAX_ROW : table->end;
    for (bool go_on = true; go_on; table->at += go_on) {
        tri_status status = add_cell(table, err);
        if (status != TRI_OK)
            return status;
        go_on = table->at < table->end && *table->at == table->separator;
    }
    skip_line_end(table);
    return check_columns(table, err);
}
