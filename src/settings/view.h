/* The settings with where each came from, for those who show them. */
#ifndef TRIDENT_SETTINGS_VIEW_H
#define TRIDENT_SETTINGS_VIEW_H

#include "settings/file.h"
#include "settings/launcher.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From the weakest to the strongest. */
enum settings_from {
    SETTINGS_DEFAULT,
    SETTINGS_FILE,
    SETTINGS_LAUNCHER,
    SETTINGS_ENVIRONMENT,
    SETTINGS_OPTIONS, /* of the program */
    SETTINGS_SET,     /* on the command line of trident config */
};

struct setting_given {
    enum settings_from from;
    const char *text;      /* NULL: not given */
    const char *by;        /* launcher, variable or file */
    const char *variable;  /* of a launcher */
    uint32_t line, column; /* in the file */
};

struct settings_request {
    const struct mem *mem;
    const tri_options *options; /* NULL: nobody is asked, see settings_read() */
    bool server;
    const char *file;        /* in place of TRIDENT_CONFIG; NULL: that */
    const char *const *sets; /* "name=value"; borrowed as long as the view lives */
    size_t set_count;
};

enum { SETTINGS_NUMBER = 16, SETTINGS_ORIGIN = 320 };

struct settings_view {
    struct setting_given given[SETTINGS_MOST]; /* by place in the table */
    struct settings_file file;
    struct launcher launcher;
    char numbers[SETTINGS_MOST][SETTINGS_NUMBER]; /* of options and launchers, as text */
    bool pending; /* where rank 0 is will be agreed upon when the job is joined */
};

/* All that settings_read() does, and keeps what is needed to tell where from. view must be ended
 * with settings_view_fini(), also after a failure. */
tri_status settings_explain(const struct settings_request *request, struct settings_view *view,
                            struct settings *out, tri_error *err);
void settings_view_fini(struct settings_view *view);

/* The value in effect, for people; NULL: there is none. May be made in `room`. */
const char *settings_value(const struct settings_view *view, const struct settings *settings,
                           size_t i, char room[SETTINGS_ADDRESS]);

/* "default", "environment TRIDENT_SCHEME", "file trident.conf:14", "Slurm SLURM_PROCID". */
void settings_origin(const struct settings_view *view, size_t i, char out[SETTINGS_ORIGIN]);

#ifdef __cplusplus
}
#endif

#endif
