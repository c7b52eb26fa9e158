/* The trident command: hands the outside world to cli_main(). */
#include <signal.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "os/file.h"

/* TRIDENT_MODELS, else the folder that was installed or built beside the program. */
static tri_status find_models(struct buf *path, tri_error *err)
{
    const char *given = getenv("TRIDENT_MODELS");
    if (given != NULL && given[0] != '\0') {
        buf_text(path, given);
        return buf_ok(path) ? TRI_OK : fail_nomem(err, "a path");
    }
    tri_status status = file_program_folder(path, err);
    buf_text(path, "/../share/trident/models");
    return status == TRI_OK && !buf_ok(path) ? fail_nomem(err, "a path") : status;
}

/* Writing past a limit on the size of files (ulimit -f) is then an error that can be told,
 * not the end of the program. */
static void ignore_file_limit(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGXFSZ, &ignore, NULL);
}

int main(int argc, char **argv)
{
    ignore_file_limit();
    struct buf models;
    tri_error err = {0};
    buf_init(&models, &mem_libc);
    if (find_models(&models, &err) != TRI_OK) {
        fprintf(stderr, "trident: %s: %s\n", err.text, err.why);
        buf_fini(&models);
        return CLI_FAILED;
    }
    struct cli cli = {
        .mem = &mem_libc, .out = stdout, .err = stderr, .models = buf_string(&models)};
    int code = cli_main(&cli, argc, (const char *const *)argv);
    buf_fini(&models);
    return code;
}
