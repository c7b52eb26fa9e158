/* Laying out tables. */
#include "cli/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void table_init(struct table *table, const struct mem *mem, const char *alignments)
{
    *table = (struct table){.columns = strlen(alignments), .alignments = alignments};
    assert(table->columns <= TABLE_MAX_COLUMNS);
    buf_init(&table->cells, mem);
}

void table_fini(struct table *table)
{
    buf_fini(&table->cells);
}

void table_cell(struct table *table, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t used = len < 0 ? 0 : (size_t)len < sizeof text ? (size_t)len : sizeof text - 1;
    text[used] = '\0';
    buf_add(&table->cells, text, used + 1);
    table->count++;
}

/* Screen columns of UTF-8 text, wide characters aside. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

/* The first cells of very long names lose their tail, not the table its shape. */
static size_t shown(const char *cell, size_t column, size_t most)
{
    size_t width = width_of(cell);
    return column == 0 && width > most ? most : width;
}

static void print_cell(const char *cell, size_t width, struct buf *out)
{
    if (width_of(cell) <= width) {
        buf_text(out, cell);
        return;
    }
    const char *end = cell;
    for (size_t left = width - 2; left > 0; left--)
        do
            end++;
        while (((unsigned char)*end & 0xC0) == 0x80);
    buf_add(out, cell, (size_t)(end - cell));
    buf_text(out, "..");
}

void table_print(const struct table *table, size_t most, struct buf *out)
{
    if (!buf_ok(&table->cells)) {
        out->refused = true;
        return;
    }
    size_t widths[TABLE_MAX_COLUMNS] = {0};
    const char *cell = table->cells.data;
    for (size_t i = 0; i < table->count; i++, cell += strlen(cell) + 1) {
        size_t column = i % table->columns, width = shown(cell, column, most);
        if (width > widths[column])
            widths[column] = width;
    }
    size_t pending = 0; /* spaces owed before the next text, so that lines end without any */
    cell = table->cells.data;
    for (size_t i = 0; i < table->count; i++, cell += strlen(cell) + 1) {
        size_t column = i % table->columns, width = shown(cell, column, most);
        size_t pad = widths[column] - width;
        bool right = table->alignments[column] == 'r';
        pending += right ? pad : 0;
        if (width > 0) {
            buf_fill(out, ' ', pending);
            print_cell(cell, width, out);
            pending = 0;
        }
        pending += (right ? 0 : pad) + 2;
        if (column + 1 == table->columns) {
            buf_char(out, '\n');
            pending = 0;
        }
    }
}
