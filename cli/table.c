/* Laying out tables. */
#include "cli/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

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
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    va_end(args);
    printable(text); /* names in it may come from anywhere, and may have been cut */
    buf_add(&table->cells, text, strlen(text) + 1);
    table->count++;
}

/* The first cells of very long names lose their tail, not the table its shape. */
static size_t shown(const char *cell, size_t column, size_t most)
{
    size_t width = printable_columns(cell);
    return column == 0 && width > most ? most : width;
}

/* Prints a cell; returns the spaces at its end, which it leaves out. */
static size_t print_cell(const char *cell, size_t width, struct buf *out)
{
    if (printable_columns(cell) <= width) {
        size_t len = strlen(cell), end = len;
        while (end > 0 && cell[end - 1] == ' ')
            end--;
        buf_add(out, cell, end);
        return len - end;
    }
    const char *end = cell;
    for (size_t left = width - 2; left > 0; left--)
        do
            end++;
        while (((unsigned char)*end & 0xC0) == 0x80);
    buf_add(out, cell, (size_t)(end - cell));
    buf_text(out, "..");
    return 0;
}

/* The widths of the columns; the first gives way where the lines would be too long. */
static void measure(const struct table *table, size_t *most, size_t widths[TABLE_MAX_COLUMNS])
{
    const char *cell = table->cells.data;
    for (size_t i = 0; i < table->count; i++, cell += strlen(cell) + 1) {
        size_t column = i % table->columns, width = shown(cell, column, *most);
        if (width > widths[column])
            widths[column] = width;
    }
    size_t others = 2 * (table->columns - 1);
    for (size_t i = 1; i < table->columns; i++)
        others += widths[i];
    if (widths[0] + others > TABLE_COLUMNS)
        *most = others + TABLE_LEAST > TABLE_COLUMNS ? TABLE_LEAST : TABLE_COLUMNS - others;
    if (widths[0] > *most)
        widths[0] = *most;
}

void table_print(const struct table *table, size_t most, struct buf *out)
{
    if (!buf_ok(&table->cells)) {
        out->refused = true;
        return;
    }
    size_t widths[TABLE_MAX_COLUMNS] = {0};
    measure(table, &most, widths);
    size_t pending = 0; /* spaces owed before the next text, so that lines end without any */
    const char *cell = table->cells.data;
    for (size_t i = 0; i < table->count; i++, cell += strlen(cell) + 1) {
        size_t column = i % table->columns, width = shown(cell, column, most);
        size_t pad = widths[column] - width;
        bool right = table->alignments[column] == 'r';
        pending += right ? pad : 0;
        if (width > 0) {
            buf_fill(out, ' ', pending);
            pending = print_cell(cell, width, out);
        }
        pending += (right ? 0 : pad) + 2;
        if (column + 1 == table->columns) {
            buf_char(out, '\n');
            pending = 0;
        }
    }
}
