/* The configuration file: lines of `name = value`. docs/config.md has the format. */
#ifndef TRIDENT_SETTINGS_FILE_H
#define TRIDENT_SETTINGS_FILE_H

#include "base/buf.h"
#include "settings/table.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SETTINGS_FILE_MOST = 64 * 1024 }; /* bytes */

struct settings_entry {
    const char *value; /* in the file's text; NULL: the setting is not in the file */
    uint32_t line, column;
};

struct settings_file {
    const char *name; /* for errors and origins; borrowed. NULL: there is no file */
    struct buf text;
    struct settings_entry entries[SETTINGS_MOST]; /* by place in the table */
};

void settings_file_init(struct settings_file *file, const struct mem *mem);
void settings_file_fini(struct settings_file *file);

/* Reads and checks all of it, also what is then overruled. TRI_EINPUT has file:line:column and the
 * next step; also for a file that holds the token and that others may read. path is borrowed. */
tri_status settings_file_read(struct settings_file *file, const char *path, tri_error *err);

/* As settings_file_read(), of name and text, which it takes apart; without a look at the file. */
tri_status settings_file_parse(struct settings_file *file, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
