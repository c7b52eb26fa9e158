/* Bytes to rows, and texts to words.
 *
 * The first byte picks: odd is TSV, even CSV. Rows that were read are written again, every cell
 * quoted, and must be the same rows when they are read from that. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "engine/data/table.h"
#include "engine/data/words.h"

/* A broken promise is a crash, whatever NDEBUG says. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_words(struct table_cell cell)
{
    struct words words;
    size_t bytes = 0;
    words_begin(&words, cell.text, cell.len);
    while (words_next(&words)) {
        must(words.len > 0 && words.len <= WORDS_MAX);
        for (size_t at = 0, len; at < words.len; at += len) {
            len = utf8_length(words.word + at, words.len - at);
            must(len > 0);
            must(len > 1 || words.word[at] < 'A' || words.word[at] > 'Z');
        }
        bytes += words.len;
    }
    must(bytes <= cell.len);
}

static void put_cell(struct buf *out, struct table_cell cell)
{
    buf_char(out, '"');
    for (size_t i = 0; i < cell.len; i++) {
        if (cell.text[i] == '"')
            buf_char(out, '"');
        buf_char(out, cell.text[i]);
    }
    buf_char(out, '"');
}

/* All rows as CSV; false if something is wrong with them. */
static bool read_all(char *bytes, size_t len, char separator, struct buf *out)
{
    struct table table;
    tri_error err = {0};
    bool more = true;
    size_t columns = 0;
    uint64_t line = 0;
    tri_status status = table_begin(&table, "fuzz", bytes, len, separator, &mem_libc, &err);
    while (status == TRI_OK && (status = table_next(&table, &more, &err)) == TRI_OK && more) {
        must(table.columns > 0 && (columns == 0 || table.columns == columns));
        must(table.line > line);
        line = table.line;
        columns = table.columns;
        for (size_t i = 0; i < columns; i++) {
            must(table.cells[i].text >= bytes);
            must(table.cells[i].text + table.cells[i].len <= bytes + len);
            check_words(table.cells[i]);
            if (i > 0)
                buf_char(out, ',');
            put_cell(out, table.cells[i]);
        }
        buf_text(out, "\r\n");
    }
    table_close(&table);
    if (status != TRI_OK) {
        must(status == TRI_EINPUT && err.status == status);
        must(err.text[0] != '\0' && err.where[0] != '\0' && err.next[0] != '\0');
    }
    return status == TRI_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    char *bytes = malloc(size - 1); /* so that its end is guarded */
    must(bytes != NULL);
    memcpy(bytes, data + 1, size - 1);
    struct buf once, copy, twice;
    buf_init(&once, &mem_libc);
    buf_init(&copy, &mem_libc);
    buf_init(&twice, &mem_libc);
    if (read_all(bytes, size - 1, data[0] % 2 == 1 ? '\t' : ',', &once) && once.len > 0) {
        buf_add(&copy, once.data, once.len);
        must(read_all(copy.data, copy.len, ',', &twice));
        must(twice.len == once.len && memcmp(twice.data, once.data, once.len) == 0);
    }
    buf_fini(&once);
    buf_fini(&copy);
    buf_fini(&twice);
    free(bytes);
    return 0;
}
