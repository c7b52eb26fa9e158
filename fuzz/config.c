/* Bytes to a configuration file: what is taken stands in the text and can be put in its place, what
 * is refused has a line and a way out. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "settings/file.h"

/* A broken promise is a crash, whatever NDEBUG says. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_entries(const struct settings_file *file, struct settings *settings)
{
    for (size_t i = 0; i < SETTINGS_MOST; i++) {
        const struct settings_entry *entry = &file->entries[i];
        const struct setting *row = setting_at(i);
        if (entry->value == NULL)
            continue;
        must(row != NULL && !row->process);
        must(entry->value > file->text.data);
        must(entry->value + strlen(entry->value) <= file->text.data + file->text.len);
        must(entry->value[0] != '\0' && entry->line >= 1 && entry->column >= 2);
        must(setting_put(row, entry->value, row->name, settings, NULL) == TRI_OK);
    }
    must(settings->texts_used <= sizeof settings->texts);
}

static void check_refusal(const tri_error *err)
{
    must(err->status == TRI_EINPUT && err->text[0] != '\0' && err->next[0] != '\0');
    must(strncmp(err->where, "fuzz:", 5) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct settings settings;
    struct settings_file file;
    tri_error err = {0};
    if (size == 0 || size > SETTINGS_FILE_MOST)
        return 0;
    settings_file_init(&file, &mem_libc);
    file.name = "fuzz";
    buf_add(&file.text, data, size);
    if (!buf_ok(&file.text)) {
        settings_file_fini(&file);
        return 0;
    }
    memset(&settings, 0, sizeof settings);
    tri_status status = settings_file_parse(&file, &err);
    must(status == err.status);
    if (status == TRI_OK)
        check_entries(&file, &settings);
    else
        check_refusal(&err);
    settings_file_fini(&file);
    return 0;
}
