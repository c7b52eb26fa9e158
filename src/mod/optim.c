/* From a text to an optimiser and its numbers. */
#include "mod/optim.h"

#include <string.h>

#include "base/names.h"
#include "base/units.h"

static const char *optim_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return optim_at(i) != NULL ? optim_at(i)->name : NULL;
}

/* Copies up to the next `stop` into word; false when it is empty or too long. */
static bool take_word(const char **text, char stop, char word[32])
{
    size_t len = 0;
    while ((*text)[len] != '\0' && (*text)[len] != stop)
        len++;
    if (len == 0 || len >= 32)
        return false;
    memcpy(word, *text, len);
    word[len] = '\0';
    *text += len + ((*text)[len] == stop);
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

tri_status optim_read(const char *text, struct optim *out, tri_error *err)
{
    const char *rest = text;
    char word[32], next[NAMES_TEXT];
    struct optim optim = {0};
    bool named = take_word(&rest, ':', word);
    for (size_t i = 0; named && optim_at(i) != NULL; i++)
        if (names_equal(optim_at(i)->name, word))
            optim.ops = optim_at(i);
    if (optim.ops == NULL) {
        names_advise(named ? word : "", optim_candidate, NULL, next);
        fail(err, TRI_EINPUT, "there is no optimizer '%.60s'", text);
        fail_next(err, "%s", next);
        return TRI_EINPUT;
    }
    for (size_t i = 0; optim.ops->options[i].name != NULL; i++) {
        double value = 0;
        const char *source = optim.ops->options[i].fallback;
        if (*rest != '\0') {
            if (!take_word(&rest, ',', word))
                return bad_number(optim.ops, text, err);
            source = word;
        }
        if (!units_number(source, &value))
            return bad_number(optim.ops, text, err);
        optim.args[i] = (float)value;
    }
    if (*rest != '\0')
        return bad_number(optim.ops, text, err);
    *out = optim;
    return TRI_OK;
}
