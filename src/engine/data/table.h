/* Tables of text: CSV as RFC 4180 has it, and TSV.
 *
 * The bytes are UTF-8 without NUL; a byte order mark is skipped. Rows end with a line feed or with
 * carriage return and line feed; blank lines are no rows. All rows have as many cells as the first.
 *
 * CSV: a cell that begins with a quotation mark goes on to the next one that is not doubled, over
 * commas and line ends; a comma or the end of the row follows. A quotation mark further inside a
 * cell is a character like others. TSV: no quoting; a cell holds neither tab nor line feed.
 *
 * A row is at most TABLE_MAX_ROW bytes long: a longer one is a file of another kind, or a quotation
 * mark that nobody closes. Reading is linear in the bytes. */
#ifndef TRIDENT_ENGINE_DATA_TABLE_H
#define TRIDENT_ENGINE_DATA_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TABLE_MAX_ROW ((size_t)1 << 20)

struct table_cell {
    const char *text; /* in the bytes that were handed over, without a NUL */
    size_t len;
};

/* Above the line: the row that table_next() found. Its cells' list is valid until the next call,
 * what they point to as long as the bytes. */
struct table {
    struct table_cell *cells;
    size_t columns;
    uint64_t line; /* where the row begins, from 1 */
    /* ---- */
    const struct mem *mem;
    const char *name;
    char separator;
    char *at, *end, *stop;
    uint64_t next_line;
    size_t wanted; /* columns of the first row; 0: none yet */
    size_t cap;
};

/* Begins with the len bytes, which are borrowed and changed in place (quotes go). separator: ','
 * or '\t'. name is for errors and borrowed. TRI_EINPUT if they are no text. table_close() is due
 * whatever the result. */
tri_status table_begin(struct table *table, const char *name, char *bytes, size_t len,
                       char separator, const struct mem *mem, tri_error *err);
void table_close(struct table *table);

/* The next row; *more is false at the end. TRI_EINPUT with file and line; TRI_ENOMEM. */
tri_status table_next(struct table *table, bool *more, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
