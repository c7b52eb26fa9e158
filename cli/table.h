/* A table of text cells with columns as wide as their widest cell. */
#ifndef TRIDENT_CLI_TABLE_H
#define TRIDENT_CLI_TABLE_H

#include "base/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TABLE_MAX_COLUMNS = 12, TABLE_COLUMNS = 100, TABLE_LEAST = 8 };

/* Cells are appended one by one, row by row, the header first; the texts are
 * copied, cleaned by printable(). Memory that is refused is told by table_print() through its
 * buffer. */
struct table {
    struct buf cells; /* texts, each with its NUL */
    size_t columns;
    size_t count;           /* of cells */
    const char *alignments; /* one letter a column: l or r */
};

void table_init(struct table *table, const struct mem *mem, const char *alignments);
void table_fini(struct table *table);
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Two spaces between columns, no trailing spaces. Cells of the first column are cut
 * to `most` characters, and further, down to TABLE_LEAST, where a line would be
 * longer than TABLE_COLUMNS. */
void table_print(const struct table *table, size_t most, struct buf *out);

#ifdef __cplusplus
}
#endif

#endif
