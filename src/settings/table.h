/* The table of all settings: it feeds the readers of the configuration file and of the
 * environment, trident config, docs/config.md and the tests. */
#ifndef TRIDENT_SETTINGS_TABLE_H
#define TRIDENT_SETTINGS_TABLE_H

#include "base/names.h"
#include "settings/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

enum setting_kind {
    SETTING_COUNT,   /* uint32_t in [min, max] */
    SETTING_FLAG,    /* bool: on, yes, 1; off, no, 0 */
    SETTING_SIZE,    /* uint64_t bytes in [min, max], whole floats */
    SETTING_RATE,    /* double bit/s above 0 */
    SETTING_TIME,    /* double seconds */
    SETTING_FLOPS,   /* double FLOP/s above 0 */
    SETTING_TEXT,    /* const char * */
    SETTING_ADDRESS, /* const char *, "host:port" */
    SETTING_CHOICE,  /* unsigned, the place in choices */
    SETTING_PART,    /* const char *, what check() knows */
};

struct setting {
    const char *group;     /* "network": the heading it may stand under in a file */
    const char *name;      /* in files, "timeout_ms" */
    const char *variable;  /* "TRIDENT_TIMEOUT_MS" */
    const char *fallback;  /* the default as a user would write it; NULL: none, or worked out */
    const char *otherwise; /* what is said of the default where fallback is NULL */
    const char *help;      /* one line */
    enum setting_kind kind;
    size_t offset; /* of its place in struct settings */
    uint64_t min, max;
    const char *const *choices; /* ended by NULL */
    tri_status (*check)(const char *text, tri_error *err);
    bool secret;  /* never shown */
    bool process; /* differs from process to process, or is read elsewhere: not for files */
};

enum { SETTINGS_MOST = 48, SETTING_FORM = 120 };

const struct setting *setting_at(size_t i); /* NULL past the end; grouped */
/* By name ('-' and '_' are the same); NULL if there is none, else *index is its place. */
const struct setting *setting_find(const char *name, size_t *index);
/* The place of the one whose value goes there. */
size_t setting_of(size_t offset);

/* What to do after a name that is none: "did you mean timeout_ms?" */
void setting_advise(const char *typed, char out[NAMES_TEXT]);

/* "a whole number from 1 to 16": what can be given, for people. */
void setting_form(const struct setting *row, char out[SETTING_FORM]);

/* Reads text, which is not empty, and puts the value in its place; texts are copied. out NULL: only
 * checks. called: what the setting is called in an error, its variable for instance. */
tri_status setting_put(const struct setting *row, const char *text, const char *called,
                       struct settings *out, tri_error *err);

/* Variables that begin with TRIDENT_, are neither settings nor otherwise known, and look like a
 * setting misspelt: tells each with the one that may have been meant. They are no errors, since
 * they may be somebody else's. */
void settings_strangers(const char *const *environment,
                        void (*found)(void *ctx, const char *name, const char *meant), void *ctx);

#ifdef __cplusplus
}
#endif

#endif
