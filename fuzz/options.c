/* Bytes to a command line, run in process: arguments stand between NUL bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { MAX_ARGUMENTS = 64 };

/* Refuses what would only make the machine slow. */
static void *modest_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    if (bytes == 0) {
        free(ptr);
        return NULL;
    }
    return bytes <= (size_t)8 << 20 ? realloc(ptr, bytes) : NULL;
}
static const struct mem modest = {.resize = modest_resize};

/* One of /dev/null for all runs: opening it anew would cost more than a run. */
static FILE *nowhere(void)
{
    static FILE *file;
    if (file == NULL)
        file = fopen("/dev/null", "w");
    if (file == NULL)
        abort();
    return file;
}

/* A model may be any file; those that never end or that wait for somebody are left out,
 * and so are man pages, which would be written to a folder of the input's choice. */
static int leaves_the_box(const uint8_t *data, size_t size)
{
    static const char *const never[] = {"man-pages", "/dev", "/proc", "/sys"};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        if (size > 0 && memmem(data, size, never[i], strlen(never[i])) != NULL)
            return 1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (leaves_the_box(data, size))
        return 0;
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    const char *argv[MAX_ARGUMENTS + 2] = {"trident"};
    int argc = 1;
    for (size_t at = 0; at < size && argc <= MAX_ARGUMENTS; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    struct cli cli = {
        .mem = &modest, .out = nowhere(), .err = nowhere(), .models = "no-such-folder/models"};
    int code = cli_main(&cli, argc, argv);
    if (code != CLI_DONE && code != CLI_FAILED && code != CLI_USAGE)
        abort();
    free(text);
    return 0;
}
