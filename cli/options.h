/* Command-line options: one table per command feeds the parser, the help and the man page. */
#ifndef TRIDENT_CLI_OPTIONS_H
#define TRIDENT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum option_type {
    OPTION_FLAG,   /* bool, takes no value */
    OPTION_TEXT,   /* const char *, points into argv */
    OPTION_COUNT,  /* uint64_t, whole number in [min, max] */
    OPTION_SIZE,   /* uint64_t bytes in [min, max] */
    OPTION_RATE,   /* double bit/s in [min, max] */
    OPTION_TIME,   /* double seconds */
    OPTION_FLOPS,  /* double FLOP/s */
    OPTION_CHOICE, /* unsigned, the place in choices */
};

struct option_row {
    const char *name;      /* without the dashes; NULL ends a table */
    const char *value;     /* what the value is called in help; NULL for flags */
    const char *fallback;  /* the value when not given, parsed like one that is; NULL: zero */
    const char *otherwise; /* what help says of the default when fallback is NULL */
    const char *help;
    enum option_type type;
    size_t offset; /* of the field in the command's settings */
    double min, max;
    const char *const *choices; /* ended by NULL */
    bool required;
};

/* What is left of the command line: at most max positional arguments. */
enum { ARGUMENTS_MAX = 64 };
struct arguments {
    const char *at[ARGUMENTS_MAX];
    size_t count;
    bool help; /* --help or -h was given: nothing else was checked */
};

/* Fills settings from the defaults and argv. TRI_EINPUT names the option, what is
 * wrong with it and what would be right. Later values replace earlier ones. */
tri_status options_parse(const struct option_row *rows, size_t max_arguments, int argc,
                         const char *const *argv, void *settings, struct arguments *arguments,
                         tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
