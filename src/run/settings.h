/* The settings of a job: what the program set, else the environment, else the default. */
#ifndef TRIDENT_RUN_SETTINGS_H
#define TRIDENT_RUN_SETTINGS_H

#include "base/error.h"
#include "base/log.h"
#include "run/host.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SETTINGS_ADDRESS = 300 };

/* Texts are borrowed from the program's options and from the environment. */
struct settings {
    uint32_t node; /* of this process: its rank, or one behind the workers for a server */
    const char *job;
    char coordinator[SETTINGS_ADDRESS];
    const char *listen; /* NULL: chosen; may be `picked` */
    char picked[SETTINGS_ADDRESS];
    const char *transport; /* "tcp"; "fault:tcp" for one that breaks things */
    const char *trace;     /* a file for the core's events; NULL: none */
    uint32_t sockets, helpers;
    uint32_t timeout_ms, heartbeat_ms;
    uint32_t checksum_every;
    bool stop_on_failure;
    const char *token;      /* NULL: none */
    const char *checkpoint; /* folder; NULL: none */
    uint32_t checkpoint_every, checkpoint_keep;
    bool resume;
    const char *flight; /* folder for trident-flight-<rank>.json; NULL: none is written */
    struct agree_options agree;
    struct log log; /* as TRIDENT_LOG says, if the program has none of its own */
};

/* options may be NULL. server: this process has no program, its number is TRIDENT_NODE.
 * TRI_EINPUT names the variable or field, what is wrong with it and what would be right. */
tri_status settings_read(const tri_options *options, bool server, struct settings *out,
                         tri_error *err);

/* What a host is made with; the caller adds its memory and its log. Texts stay the settings'. */
struct host_options settings_host(const struct settings *settings);

#ifdef __cplusplus
}
#endif

#endif
