/* Comparing names, and guessing what was meant. */
#include "base/names.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 60, MAX_SUGGESTIONS = 3, FAR = 1000 };

static char fold(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '_' ? '-' : c;
}

bool names_equal(const char *a, const char *b)
{
    for (;; a++, b++) {
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b))
            return false;
        if (*a == '\0')
            return true;
    }
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

/* Edits (insert, delete, replace, swap neighbours) from a to b. */
static unsigned edits(const char *a, size_t la, const char *b, size_t lb)
{
    unsigned rows[3][MAX_NAME + 1];
    unsigned *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= lb; j++)
        before[j] = last[j] = (unsigned)j;
    for (size_t i = 1; i <= la; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= lb; j++) {
            char x = fold(a[i - 1]), y = fold(b[j - 1]);
            now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (x != y));
            bool swapped = i > 1 && j > 1 && x == fold(b[j - 2]) && y == fold(a[i - 2]);
            if (swapped && before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        unsigned *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[lb];
}

static bool begins(const char *text, const char *start)
{
    for (; *start != '\0'; text++, start++)
        if (fold(*text) != fold(*start))
            return false;
    return true;
}

/* How far a candidate is from what was typed; FAR when it is no help. */
static unsigned distance(const char *typed, const char *candidate)
{
    size_t la = strlen(typed), lb = strlen(candidate);
    if (la == 0 || lb == 0 || la > MAX_NAME || lb > MAX_NAME)
        return FAR;
    unsigned near = la < 3 ? 1 : la < 6 ? 2 : 3;
    unsigned d = edits(typed, la, candidate, lb);
    if (d <= near && d < la)
        return d;
    /* "vgg" for vgg19: a true start, but after every near miss */
    if ((la >= 2 && begins(candidate, typed)) || (lb >= 3 && begins(typed, candidate)))
        return 4 + (unsigned)(la > lb ? la - lb : lb - la);
    return FAR;
}

/* The nearest candidates, best first; returns how many. */
static size_t nearest(const char *typed, names_candidate *candidate, const void *ctx,
                      const char *best[MAX_SUGGESTIONS])
{
    unsigned far[MAX_SUGGESTIONS];
    size_t count = 0;
    const char *name;
    for (size_t i = 0; (name = candidate(ctx, i)) != NULL; i++) {
        unsigned d = distance(typed, name);
        if (d == FAR || (count == MAX_SUGGESTIONS && d >= far[count - 1]))
            continue;
        size_t at = count < MAX_SUGGESTIONS ? count++ : count - 1;
        for (; at > 0 && far[at - 1] > d; at--) {
            best[at] = best[at - 1];
            far[at] = far[at - 1];
        }
        best[at] = name;
        far[at] = d;
    }
    return count;
}

bool names_suggest(const char *typed, names_candidate *candidate, const void *ctx,
                   char out[NAMES_TEXT])
{
    const char *best[MAX_SUGGESTIONS];
    size_t count = nearest(typed, candidate, ctx, best), used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && used < NAMES_TEXT; i++) {
        const char *between = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        used += (size_t)snprintf(out + used, NAMES_TEXT - used, "%s%s", between, best[i]);
    }
    return count > 0;
}

void names_advise(const char *typed, names_candidate *candidate, const void *ctx,
                  char out[NAMES_TEXT])
{
    char near[NAMES_TEXT];
    if (names_suggest(typed, candidate, ctx, near)) {
        (void)snprintf(out, NAMES_TEXT, "did you mean %.180s?", near);
        return;
    }
    size_t used = (size_t)snprintf(out, NAMES_TEXT, "choose one of:");
    for (size_t i = 0; candidate(ctx, i) != NULL && used < NAMES_TEXT; i++)
        used += (size_t)snprintf(out + used, NAMES_TEXT - used, "%s %s", i > 0 ? "," : "",
                                 candidate(ctx, i));
}
