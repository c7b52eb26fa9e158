/* The option parser. */
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/units.h"

enum { RANGE_TEXT = 100 };

/* "a whole number from 1 to 65536" and the like. */
static void wanted(const struct option_row *row, char out[RANGE_TEXT])
{
    char low[UNITS_TEXT], high[UNITS_TEXT];
    switch (row->type) {
    case OPTION_COUNT:
        (void)snprintf(out, RANGE_TEXT, "a whole number from %.0f to %.0f", row->min, row->max);
        break;
    case OPTION_SIZE:
        (void)snprintf(out, RANGE_TEXT, "a size from %s to %s, such as 2MB or 64KiB",
                       units_show_bytes(row->min, low), units_show_bytes(row->max, high));
        break;
    case OPTION_RATE:
        (void)snprintf(out, RANGE_TEXT, "a rate from %s to %s, such as 10Gbit or 1.25GB/s",
                       units_show_rate(row->min, low), units_show_rate(row->max, high));
        break;
    case OPTION_TIME:
        (void)snprintf(out, RANGE_TEXT, "a time from %s to %s, such as 50us or 2ms",
                       units_show_time(row->min, low), units_show_time(row->max, high));
        break;
    case OPTION_FLOPS:
        (void)snprintf(out, RANGE_TEXT, "a rate from %s to %s, such as 100G or 6T",
                       units_show_flops(row->min, low), units_show_flops(row->max, high));
        break;
    case OPTION_CHOICE:
    case OPTION_TEXT:
    case OPTION_FLAG:
        out[0] = '\0';
        break;
    }
}

static bool read_double(const struct option_row *row, const char *text, double *out)
{
    double value = 0;
    bool ok = row->type == OPTION_RATE   ? units_rate(text, &value)
              : row->type == OPTION_TIME ? units_time(text, &value)
                                         : units_flops(text, &value);
    if (!ok || value < row->min || value > row->max)
        return false;
    *out = value;
    return true;
}

static bool read_whole(const struct option_row *row, const char *text, uint64_t *out)
{
    uint64_t value = 0;
    bool ok = row->type == OPTION_SIZE ? units_size(text, &value) : units_count(text, &value);
    if (!ok || (double)value < row->min || (double)value > row->max)
        return false;
    *out = value;
    return true;
}

static const char *choice_candidate(const void *ctx, size_t i)
{
    return ((const char *const *)ctx)[i];
}

static tri_status set_choice(const struct option_row *row, const char *text, unsigned *out,
                             tri_error *err)
{
    for (unsigned i = 0; row->choices[i] != NULL; i++)
        if (names_equal(row->choices[i], text)) {
            *out = i;
            return TRI_OK;
        }
    char next[NAMES_TEXT];
    names_advise(text, choice_candidate, row->choices, next);
    fail(err, TRI_EINPUT, "option '--%s' does not know '%.60s'", row->name, text);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

/* Puts a value where the row says. */
static tri_status set(const struct option_row *row, const char *text, void *settings,
                      tri_error *err)
{
    char *field = (char *)settings + row->offset;
    bool ok = true;
    switch (row->type) {
    case OPTION_FLAG:
        *(bool *)(void *)field = true;
        break;
    case OPTION_TEXT:
        if (text[0] == '\0') {
            fail(err, TRI_EINPUT, "option '--%s' cannot be empty", row->name);
            fail_next(err, "write --%s %s", row->name, row->value);
            return TRI_EINPUT;
        }
        *(const char **)(void *)field = text;
        break;
    case OPTION_COUNT:
    case OPTION_SIZE:
        ok = read_whole(row, text, (uint64_t *)(void *)field);
        break;
    case OPTION_RATE:
    case OPTION_TIME:
    case OPTION_FLOPS:
        ok = read_double(row, text, (double *)(void *)field);
        break;
    case OPTION_CHOICE:
        return set_choice(row, text, (unsigned *)(void *)field, err);
    }
    if (ok)
        return TRI_OK;
    char range[RANGE_TEXT];
    wanted(row, range);
    fail(err, TRI_EINPUT, "option '--%s' cannot be '%.60s'", row->name, text);
    fail_next(err, "give %s", range);
    return TRI_EINPUT;
}

static const char *row_candidate(const void *ctx, size_t i)
{
    return ((const struct option_row *)ctx)[i].name;
}

/* "nodes, model or codec" with the dashes of every option. */
static const char *with_dashes(const char *names, char out[NAMES_TEXT])
{
    size_t used = 0;
    for (const char *at = names; *at != '\0' && used < NAMES_TEXT;) {
        size_t len = strcspn(at, " ");
        bool word = len == 2 && memcmp(at, "or", 2) == 0;
        used += (size_t)snprintf(out + used, NAMES_TEXT - used, "%s%s%.*s", used > 0 ? " " : "",
                                 word ? "" : "--", (int)len, at);
        at += len + (at[len] == ' ');
    }
    return out;
}

static tri_status unknown_option(const struct option_row *rows, const char *typed, size_t len,
                                 tri_error *err)
{
    char name[64], near[NAMES_TEXT], dashed[NAMES_TEXT];
    (void)snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), typed);
    fail(err, TRI_EINPUT, "unknown option '--%s'", name);
    if (names_suggest(name, row_candidate, rows, near))
        fail_next(err, "did you mean %s?", with_dashes(near, dashed));
    else
        fail_next(err, "--help lists the options");
    return TRI_EINPUT;
}

static const struct option_row *find(const struct option_row *rows, const char *name, size_t len)
{
    for (; rows->name != NULL; rows++)
        if (strlen(rows->name) == len && memcmp(rows->name, name, len) == 0)
            return rows;
    return NULL;
}

/* One "--name", "--name value" or "--name=value"; *i moves past what it used. */
static tri_status take_option(const struct option_row *rows, int argc, const char *const *argv,
                              int *i, void *settings, uint64_t *given, tri_error *err)
{
    const char *name = argv[(*i)++] + 2;
    const char *equals = strchr(name, '=');
    size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct option_row *row = find(rows, name, len);
    if (row == NULL)
        return unknown_option(rows, name, len, err);
    *given |= UINT64_C(1) << (row - rows);
    if (row->type == OPTION_FLAG) {
        if (equals == NULL)
            return set(row, NULL, settings, err);
        fail(err, TRI_EINPUT, "option '--%s' takes no value", row->name);
        fail_next(err, "write --%s alone", row->name);
        return TRI_EINPUT;
    }
    const char *value = equals != NULL ? equals + 1 : *i < argc ? argv[(*i)++] : NULL;
    if (value == NULL || (equals == NULL && strncmp(value, "--", 2) == 0)) {
        fail(err, TRI_EINPUT, "option '--%s' needs a value", row->name);
        fail_next(err, "write --%s %s", row->name, row->value);
        return TRI_EINPUT;
    }
    return set(row, value, settings, err);
}

static tri_status take_argument(const char *text, size_t max, struct arguments *arguments,
                                tri_error *err)
{
    if (arguments->count < max) {
        arguments->at[arguments->count++] = text;
        return TRI_OK;
    }
    fail(err, TRI_EINPUT, "unexpected argument '%.60s'", text);
    if (max > 0)
        fail_why(err, "the command takes at most %zu argument%s", max, max == 1 ? "" : "s");
    fail_next(err, text[0] == '-' ? "options begin with two dashes; --help lists them"
                                  : "options are written as --name value; --help lists them");
    return TRI_EINPUT;
}

static bool asks_help(int argc, const char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static tri_status set_defaults(const struct option_row *rows, void *settings, tri_error *err)
{
    tri_status status = TRI_OK;
    for (; rows->name != NULL && status == TRI_OK; rows++)
        if (rows->fallback != NULL)
            status = set(rows, rows->fallback, settings, err);
    return status;
}

static tri_status check_required(const struct option_row *rows, uint64_t given, tri_error *err)
{
    for (size_t i = 0; rows[i].name != NULL; i++)
        if (rows[i].required && !(given >> i & 1)) {
            fail(err, TRI_EINPUT, "option '--%s' is missing", rows[i].name);
            fail_why(err, "%s", rows[i].help);
            fail_next(err, "add --%s %s", rows[i].name, rows[i].value);
            return TRI_EINPUT;
        }
    return TRI_OK;
}

tri_status options_parse(const struct option_row *rows, size_t max_arguments, int argc,
                         const char *const *argv, void *settings, struct arguments *arguments,
                         tri_error *err)
{
    *arguments = (struct arguments){.help = asks_help(argc, argv)};
    if (arguments->help)
        return TRI_OK;
    uint64_t given = 0;
    bool only_arguments = false;
    tri_status status = set_defaults(rows, settings, err);
    for (int i = 0; i < argc && status == TRI_OK;) {
        if (!only_arguments && strcmp(argv[i], "--") == 0) {
            only_arguments = true;
            i++;
        } else if (!only_arguments && strncmp(argv[i], "--", 2) == 0) {
            status = take_option(rows, argc, argv, &i, settings, &given, err);
        } else {
            status = take_argument(argv[i++], max_arguments, arguments, err);
        }
    }
    return status == TRI_OK ? check_required(rows, given, err) : status;
}
