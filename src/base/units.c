/* Reading and showing quantities with units. */
#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits, fraction, exponent; returns where the number ends, NULL if there is
 * none. Locale-free, which strtod is not. */
static const char *take_number(const char *text, double *out)
{
    const char *p = text;
    double value = 0;
    int exponent = 0;
    size_t digits = 0;
    for (; is_digit(*p); p++, digits++)
        value = value * 10 + (*p - '0');
    if (*p == '.') {
        for (p++; is_digit(*p); p++, digits++, exponent--)
            value = value * 10 + (*p - '0');
    }
    if (digits == 0)
        return NULL;
    /* 'e' begins an exponent only before a digit or a sign. */
    if ((*p == 'e' || *p == 'E') &&
        (is_digit(p[1]) || ((p[1] == '-' || p[1] == '+') && is_digit(p[2])))) {
        p++;
        int sign = *p == '-' ? -1 : 1;
        p += *p == '-' || *p == '+';
        int power = 0;
        for (; is_digit(*p); p++)
            power = power < 10000 ? power * 10 + (*p - '0') : power;
        exponent += sign * power;
    }
    /* Divided, as 3 * 0.1 is not 0.3. */
    value = exponent < 0 ? value / pow(10, -exponent) : value * pow(10, exponent);
    if (!isfinite(value))
        return NULL;
    *out = value;
    return p;
}

struct unit {
    const char *name;
    double factor;
};

/* Finds the unit by exact name in a table that ends in NULL. */
static bool find_unit(const struct unit *units, const char *name, double *factor)
{
    for (; units->name != NULL; units++)
        if (strcmp(units->name, name) == 0) {
            *factor = units->factor;
            return true;
        }
    return false;
}

bool units_count(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    if (*text == '\0')
        return false;
    for (; is_digit(*text); text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (*text != '\0')
        return false;
    *out = value;
    return true;
}

bool units_number(const char *text, double *out)
{
    double value;
    const char *end = take_number(text, &value);
    if (end == NULL || *end != '\0')
        return false;
    *out = value;
    return true;
}

bool units_size(const char *text, uint64_t *bytes)
{
    static const struct unit sizes[] = {
        {"", 1},
        {"B", 1},
        {"kB", 1e3},
        {"KB", 1e3},
        {"MB", 1e6},
        {"GB", 1e9},
        {"TB", 1e12},
        {"KiB", 1024},
        {"MiB", 1048576},
        {"GiB", 1073741824},
        {"TiB", 1099511627776},
        {NULL, 0},
    };
    double value, factor;
    const char *unit = take_number(text, &value);
    if (unit == NULL || !find_unit(sizes, unit, &factor))
        return false;
    /* 1.001 times 1000 may miss 1001 by a bit, which is not a fraction. */
    double whole = round(value * factor);
    if (fabs(value * factor - whole) > 1e-15 * whole || whole > 9007199254740992.0)
        return false;
    *bytes = (uint64_t)whole;
    return true;
}

/* A prefix letter, skipped; rates and flops have no use for milli. */
static double take_prefix(const char **text)
{
    static const struct unit prefixes[] = {
        {"kK", 1e3}, {"mM", 1e6}, {"gG", 1e9}, {"tT", 1e12}, {"pP", 1e15}, {NULL, 0},
    };
    for (const struct unit *p = prefixes; p->name != NULL; p++)
        if (**text != '\0' && strchr(p->name, **text) != NULL) {
            ++*text;
            return p->factor;
        }
    return 1;
}

/* b is a bit and B a byte, whatever the case of the prefix. */
bool units_rate(const char *text, double *bits_s)
{
    static const struct unit rates[] = {
        {"bit", 1}, {"bit/s", 1}, {"bits", 1}, {"bits/s", 1}, {"bps", 1},   {"b", 1},
        {"b/s", 1}, {"B/s", 8},   {"Bps", 8},  {"Bit", 1},    {"Bit/s", 1}, {NULL, 0},
    };
    double value, factor;
    const char *unit = take_number(text, &value);
    if (unit == NULL)
        return false;
    double prefix = take_prefix(&unit);
    if (!find_unit(rates, unit, &factor) || !isfinite(value * prefix * factor))
        return false;
    *bits_s = value * prefix * factor;
    return true;
}

bool units_time(const char *text, double *seconds)
{
    static const struct unit times[] = {
        {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {NULL, 0},
    };
    double value, factor = 1;
    const char *unit = take_number(text, &value);
    if (unit == NULL)
        return false;
    /* A bare number has no unit to guess, except where none is needed. */
    if (!find_unit(times, unit, &factor) && (*unit != '\0' || value != 0))
        return false;
    if (!isfinite(value * factor))
        return false;
    /* 50/1e6 is the double nearest to 50 us; 50*1e-6 is its neighbour. */
    *seconds = factor < 1 ? value / round(1 / factor) : value * factor;
    return true;
}

bool units_flops(const char *text, double *flops_s)
{
    static const char *const names[] = {"", "f", "flop", "flops", "flop/s", "flops/s"};
    double value;
    const char *unit = take_number(text, &value);
    if (unit == NULL)
        return false;
    double prefix = take_prefix(&unit);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(unit, names[i]) == 0 && isfinite(value * prefix)) {
            *flops_s = value * prefix;
            return true;
        }
    return false;
}

/* Picks the prefix that leaves 1 to 999 before the point, counting what %.3g
 * will round to, so that 999.9 k shows as 1 M. */
static char *show(double value, const char *unit, const char *const prefixes[], char *out)
{
    size_t i = 0;
    while (prefixes[i + 1] != NULL && fabs(value) >= 999.5) {
        value /= 1000;
        i++;
    }
    const char *space = prefixes[i][0] != '\0' || unit[0] != '\0' ? " " : "";
    if (fabs(value) >= 999.5) /* no prefix left */
        (void)snprintf(out, UNITS_TEXT, fabs(value) < 1e6 ? "%.0f%s%s%s" : "%.2e%s%s%s", value,
                       space, prefixes[i], unit);
    else
        (void)snprintf(out, UNITS_TEXT, "%.3g%s%s%s", value, space, prefixes[i], unit);
    return out;
}

static const char *const prefixes_up[] = {"", "k", "M", "G", "T", "P", NULL};

char *units_show_count(double count, char out[UNITS_TEXT])
{
    return show(count, "", prefixes_up, out);
}

char *units_show_bytes(double bytes, char out[UNITS_TEXT])
{
    return show(bytes, "B", prefixes_up, out);
}

char *units_show_rate(double bits_s, char out[UNITS_TEXT])
{
    return show(bits_s, "bit/s", prefixes_up, out);
}

char *units_show_time(double seconds, char out[UNITS_TEXT])
{
    static const char *const prefixes[] = {"n", "u", "m", "", NULL};
    return seconds == 0 ? show(0, "s", prefixes + 3, out) : show(seconds * 1e9, "s", prefixes, out);
}

char *units_show_flops(double flops_s, char out[UNITS_TEXT])
{
    return show(flops_s, "FLOP/s", prefixes_up, out);
}
