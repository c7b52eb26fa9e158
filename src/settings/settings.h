/* The settings of a job: what the program set, else the environment, else the configuration file,
 * else the default. docs/config.md is about them; table.h has the table of all. */
#ifndef TRIDENT_SETTINGS_SETTINGS_H
#define TRIDENT_SETTINGS_SETTINGS_H

#include "base/error.h"
#include "base/log.h"
#include "run/host.h"
#include "settings/launcher.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SETTINGS_ADDRESS = LAUNCHER_ADDRESS,
    SETTINGS_TEXT = 1024,                /* of one, with its NUL */
    SETTINGS_TEXTS = 16 * SETTINGS_TEXT, /* of all that are texts, each at its longest */
};

/* The last of the choices of `local`, behind those of enum local_mode. */
enum { SETTINGS_LOCAL_AUTO = 4 };

/* Settings that others are worked out from, as they were given. */
struct settings_asked {
    uint32_t workers, rank, node, servers, port;  /* 0 where not given */
    bool together;                                /* servers share nodes with workers */
    unsigned on_failure, log, mode, local_server; /* which of the choices */
    unsigned local;                               /* enum local_mode, or SETTINGS_LOCAL_AUTO */
    const char *coordinator, *interface, *scheme, *flight, *fault;
};

/* Holds all its texts itself, and pointers to them: not for copying. */
struct settings {
    uint32_t node; /* of this process: its rank, or one behind the workers for a server */
    const char *job;
    char coordinator[SETTINGS_ADDRESS]; /* "": the job needs none, or nobody was asked yet */
    const char *listen;                 /* NULL: chosen; may be `picked` */
    char picked[SETTINGS_ADDRESS];
    const char *transport; /* "tcp"; "fault:tcp" for one that breaks things */
    const char *trace;     /* a file for the core's events; NULL: none */
    uint32_t sockets, helpers;
    uint32_t timeout_ms, heartbeat_ms;
    uint32_t checksum_every;
    bool stop_on_failure;
    const char *token; /* NULL: none */
    char token_text[LAUNCHER_TOKEN];
    const char *checkpoint; /* folder; NULL: none */
    uint32_t checkpoint_every, checkpoint_keep;
    bool resume;
    const char *flight; /* folder for trident-flight-<rank>.json; NULL: none is written */
    bool is_local;      /* mode: processes of one machine around shared memory */
    unsigned local;     /* then: enum local_mode */
    bool locked;
    bool local_copies;       /* learners have copies of their own */
    uint32_t local_common;   /* the least weights of a layer that lies there once; 0: none */
    const char *local_fault; /* who dies on purpose; NULL: nobody */
    bool server_apart;       /* somebody else serves, watches and saves */
    struct agree_options agree;
    struct log log; /* as TRIDENT_LOG says, if the program has none of its own */
    struct settings_asked asked;
    char texts[SETTINGS_TEXTS];
    size_t texts_used;
};

/* For a process that is about to join a job: where nothing says where rank 0 is, the launcher's
 * service is asked, which waits for all processes of the job (launcher_meet()); and the log is told
 * of variables that look misspelt. options NULL: only looks; nobody is asked, so the coordinator
 * may stay "". server: this process has no program, its number is TRIDENT_NODE.
 * TRI_EINPUT names the variable, field or line, what is wrong with it and what would be right. */
tri_status settings_read(const tri_options *options, bool server, struct settings *out,
                         tri_error *err);

/* What a host is made with; the caller adds its memory and its log. Texts stay the settings'. */
struct host_options settings_host(const struct settings *settings);

#ifdef __cplusplus
}
#endif

#endif
