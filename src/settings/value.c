/* From a text to the value of a setting. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "settings/table.h"

/* "off, error or warn" */
static void list_choices(const struct setting *row, char out[SETTING_FORM])
{
    size_t used = 0;
    for (size_t i = 0; row->choices[i] != NULL && used < SETTING_FORM; i++)
        used += (size_t)snprintf(out + used, SETTING_FORM - used, "%s%s",
                                 i == 0                        ? ""
                                 : row->choices[i + 1] != NULL ? ", "
                                                               : " or ",
                                 row->choices[i]);
}

void setting_form(const struct setting *row, char out[SETTING_FORM])
{
    static const char *const forms[] = {
        [SETTING_FLAG] = "on or off",
        [SETTING_SIZE] = "a size from 1KiB to 1GiB in whole floats, such as 2MiB",
        [SETTING_RATE] = "a rate such as 10Gbit",
        [SETTING_TIME] = "a time such as 50us",
        [SETTING_FLOPS] = "a rate such as 100G",
        [SETTING_TEXT] = "a text",
        [SETTING_ADDRESS] = "host:port, such as 10.0.0.1:7000 or [fd00::1]:7000",
        [SETTING_PART] = "a name",
    };
    if (row->kind == SETTING_CHOICE)
        list_choices(row, out);
    else if (row->kind == SETTING_COUNT)
        (void)snprintf(out, SETTING_FORM, "a whole number from %llu to %llu",
                       (unsigned long long)row->min, (unsigned long long)row->max);
    else
        (void)snprintf(out, SETTING_FORM, "%s", forms[row->kind]);
}

/* ---- kinds ---- */

/* A value of any kind, before it goes to its place. */
struct value {
    uint64_t whole;
    double number;
    bool flag;
};

static bool read_flag(const char *text, bool *out)
{
    bool yes = names_equal(text, "on") || names_equal(text, "yes") || strcmp(text, "1") == 0;
    bool no = names_equal(text, "off") || names_equal(text, "no") || strcmp(text, "0") == 0;
    *out = yes;
    return yes || no;
}

static bool read_choice(const struct setting *row, const char *text, uint64_t *out)
{
    for (*out = 0; row->choices[*out] != NULL; ++*out)
        if (names_equal(row->choices[*out], text))
            return true;
    return false;
}

/* "name:1", "1.2.3.4:1", "[::1]:1". Whether there is such a host is for others to find out. */
static bool is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;
    if (colon == NULL || colon == text || strlen(text) >= SETTINGS_ADDRESS)
        return false;
    bool bare = text[0] != '[' && memchr(text, ':', (size_t)(colon - text)) == NULL;
    bool bracketed = text[0] == '[' && colon - text > 2 && colon[-1] == ']';
    return (bare || bracketed) && units_count(colon + 1, &port) && port <= 65535;
}

static bool in_range(const struct setting *row, uint64_t value)
{
    return value >= row->min && value <= row->max;
}

static bool read_value(const struct setting *row, const char *text, struct value *out)
{
    switch (row->kind) {
    case SETTING_COUNT:
        return units_count(text, &out->whole) && in_range(row, out->whole);
    case SETTING_SIZE:
        return units_size(text, &out->whole) && in_range(row, out->whole) && out->whole % 4 == 0;
    case SETTING_FLAG:
        return read_flag(text, &out->flag);
    case SETTING_CHOICE:
        return read_choice(row, text, &out->whole);
    case SETTING_RATE:
        return units_rate(text, &out->number) && out->number > 0;
    case SETTING_TIME:
        return units_time(text, &out->number);
    case SETTING_FLOPS:
        return units_flops(text, &out->number) && out->number > 0;
    case SETTING_ADDRESS:
        return is_address(text);
    case SETTING_TEXT:
    case SETTING_PART:
        break;
    }
    return true;
}

/* ---- places ---- */

static tri_status too_long(const struct setting *row, const char *called, tri_error *err)
{
    fail(err, TRI_EINPUT, "%s is longer than %d bytes", called, SETTINGS_TEXT - 1);
    fail_next(err, row->secret ? "give a shorter one" : "give a shorter one, such as a short path");
    return TRI_EINPUT;
}

/* There is room for every text of the table at its longest, once. */
static const char *keep(struct settings *out, const char *text)
{
    size_t len = strlen(text) + 1;
    if (len > sizeof out->texts - out->texts_used)
        return NULL;
    const char *kept = memcpy(out->texts + out->texts_used, text, len);
    out->texts_used += len;
    return kept;
}

static bool put(const struct setting *row, const char *text, const struct value *value,
                struct settings *out)
{
    void *place = (char *)out + row->offset;
    switch (row->kind) {
    case SETTING_COUNT:
        *(uint32_t *)place = (uint32_t)value->whole;
        break;
    case SETTING_SIZE:
        *(uint64_t *)place = value->whole;
        break;
    case SETTING_FLAG:
        *(bool *)place = value->flag;
        break;
    case SETTING_CHOICE:
        *(unsigned *)place = (unsigned)value->whole;
        break;
    case SETTING_RATE:
    case SETTING_TIME:
    case SETTING_FLOPS:
        *(double *)place = value->number;
        break;
    case SETTING_TEXT:
    case SETTING_ADDRESS:
    case SETTING_PART:
        *(const char **)place = keep(out, text);
        return *(const char **)place != NULL;
    }
    return true;
}

tri_status setting_put(const struct setting *row, const char *text, const char *called,
                       struct settings *out, tri_error *err)
{
    struct value value = {0};
    if (strlen(text) >= SETTINGS_TEXT)
        return too_long(row, called, err);
    if (!read_value(row, text, &value)) {
        char form[SETTING_FORM];
        setting_form(row, form);
        fail(err, TRI_EINPUT, "%s cannot be '%.60s'", called, text);
        fail_next(err, "give %s", form);
        return TRI_EINPUT;
    }
    tri_status status = row->check != NULL ? row->check(text, err) : TRI_OK;
    if (status == TRI_OK && out != NULL && !put(row, text, &value, out))
        return fail(err, TRI_EINPUT, "the texts of all settings together are too long");
    return status;
}
