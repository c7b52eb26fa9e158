/* From a text to an optimiser and its numbers. */
#include "mod/optim.h"

#include <math.h>
#include <string.h>

#include "base/names.h"
#include "base/units.h"

static const char *optim_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return optim_at(i) != NULL ? optim_at(i)->name : NULL;
}

/* Copies up to the next `stop` into word, and steps past both; false when it is empty or too long.
 * more: a stop was there, so that another word has to follow. */
static bool take_word(const char **text, char stop, char word[32], bool *more)
{
    size_t len = 0;
    while ((*text)[len] != '\0' && (*text)[len] != stop)
        len++;
    *more = (*text)[len] == stop;
    if (len == 0 || len >= 32)
        return false;
    memcpy(word, *text, len);
    word[len] = '\0';
    *text += len + *more;
    return true;
}

static tri_status bad_number(const tri_optimizer_ops *ops, const char *text, tri_error *err)
{
    fail(err, TRI_EINPUT, "optimizer '%.60s' is not understood", text);
    if (ops->options[0].name == NULL)
        fail_next(err, "%s takes no numbers: write %s", ops->name, ops->name);
    else
        fail_next(err, "write it as %s:%s", ops->name, ops->options[0].fallback);
    return TRI_EINPUT;
}

/* What an option of this name may be. A share of 1 or more would never forget the first step; a
 * float that is 0 would divide by it. */
static bool in_range(const char *option, float value, const char **range)
{
    static const char *const shares[] = {"momentum", "beta1", "beta2"};
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        if (strcmp(option, shares[i]) == 0) {
            *range = "from 0 to below 1";
            return value >= 0 && value < 1;
        }
    *range = strcmp(option, "epsilon") == 0 ? "above 0" : "that fits a float";
    return isfinite(value) && (value > 0 || strcmp(option, "epsilon") != 0);
}

static tri_status read_number(const tri_optimizer_ops *ops, size_t i, const char *source,
                              const char *text, float *out, tri_error *err)
{
    const tri_option_row *option = &ops->options[i];
    const char *range;
    double value = 0;
    if (!units_number(source, &value))
        return bad_number(ops, text, err);
    *out = (float)value;
    if (in_range(option->name, *out, &range))
        return TRI_OK;
    fail(err, TRI_EINPUT, "optimizer '%.60s' cannot be: %s is %s", text, option->name, source);
    fail_next(err, "give %s %s, such as %s", option->name, range, option->fallback);
    return TRI_EINPUT;
}

/* The numbers behind the name; where there are none left, the defaults. */
static tri_status read_numbers(const char *rest, bool more, const char *text, struct optim *optim,
                               tri_error *err)
{
    const tri_optimizer_ops *ops = optim->ops;
    for (size_t i = 0; ops->options[i].name != NULL; i++) {
        char word[32];
        bool given = more;
        if (given && !take_word(&rest, ',', word, &more))
            return bad_number(ops, text, err);
        tri_status status = read_number(ops, i, given ? word : ops->options[i].fallback, text,
                                        &optim->args[i], err);
        if (status != TRI_OK)
            return status;
    }
    return more ? bad_number(ops, text, err) : TRI_OK;
}

tri_status optim_read(const char *text, struct optim *out, tri_error *err)
{
    const char *rest = text;
    char word[32], next[NAMES_TEXT];
    struct optim optim = {0};
    bool more = false, named = take_word(&rest, ':', word, &more);
    for (size_t i = 0; named && optim_at(i) != NULL; i++)
        if (names_equal(optim_at(i)->name, word))
            optim.ops = optim_at(i);
    if (optim.ops == NULL) {
        names_advise(named ? word : "", optim_candidate, NULL, next);
        fail(err, TRI_EINPUT, "there is no optimizer '%.60s'", text);
        fail_next(err, "%s", next);
        return TRI_EINPUT;
    }
    tri_status status = read_numbers(rest, more, text, &optim, err);
    if (status == TRI_OK)
        *out = optim;
    return status;
}
