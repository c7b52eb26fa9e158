/* How a command is started on another host. */
#ifndef TRIDENT_CLI_RUN_SSH_H
#define TRIDENT_CLI_RUN_SSH_H

#include "cli/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Is the host this one, by the names that are sure to be its own? */
bool run_ssh_is_here(const char *host);

/* The words of a command line that starts trident run --deputy on a host: those of `command`, or of
 * TRIDENT_SSH, or of ssh; the host; one for the shell there, which goes to the same folder and
 * takes the same trident, else the one in its PATH. No secret is among them. */
struct run_ssh {
    struct buf text; /* words that each end in NUL */
    char **words;    /* and NULL */
    struct buf path; /* of the first */
};

void run_ssh_init(struct run_ssh *ssh, const struct mem *mem);
tri_status run_ssh_make(struct run_ssh *ssh, const char *command, const char *host, tri_error *err);
void run_ssh_fini(struct run_ssh *ssh);

/* Appends text as one word of a shell. */
void run_ssh_quote(struct buf *out, const char *text);

#ifdef __cplusplus
}
#endif

#endif
