/* The machines of a job: reading lists of them, and which process goes where. */
#ifndef TRIDENT_CLI_RUN_HOSTS_H
#define TRIDENT_CLI_RUN_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RUN_HOST_NAME = 256, RUN_HOSTS_MAX = 1024, RUN_SLOTS_MAX = 1024 };

struct run_host {
    char name[RUN_HOST_NAME]; /* what ssh is given; harmless to it */
    uint32_t slots;           /* processes it takes, at least 1 */
};

struct run_hosts {
    const struct mem *mem;
    struct run_host *at;
    size_t count, cap;
};

void run_hosts_init(struct run_hosts *hosts, const struct mem *mem);
void run_hosts_fini(struct run_hosts *hosts);

/* What --hosts says: the name of a file, or "h1:2,h2". A name is a file's if it has a "/", ends as
 * hostfiles do (.txt, .hosts, .conf, .list, hostfile), or is there. A pipe may be silent for
 * limit_ms. TRI_EINPUT, with the file and line. */
enum { RUN_HOSTS_LIMIT_MS = 30000 };
tri_status run_hosts_read(const char *given, int limit_ms, struct run_hosts *hosts, tri_error *err);

/* Lines "host slots=N max_slots=M", as Open MPI has them: without slots a line counts 1, what
 * several lines say of one host adds up, "#" begins a comment, a byte order mark is skipped. name
 * is for errors. Pure. */
tri_status run_hosts_parse_file(const char *name, const char *text, size_t len,
                                struct run_hosts *hosts, tri_error *err);
/* "h1:2,h2,[fd00::1]:4". Pure. */
tri_status run_hosts_parse_list(const char *list, struct run_hosts *hosts, tri_error *err);

/* Fills out[workers + servers] with places in the list. Workers take the slots in order, host by
 * host. Servers take the slots that are left in the same way, and when there are none one host
 * after the other, from the first. TRI_EINPUT when there are more workers than slots. Pure. */
tri_status run_hosts_place(const struct run_hosts *hosts, size_t workers, size_t servers,
                           size_t *out, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
