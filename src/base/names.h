/* Names that users type: models, layers, parts, options. */
#ifndef TRIDENT_BASE_NAMES_H
#define TRIDENT_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Equal as names: '-' and '_' are the same. */
bool names_equal(const char *a, const char *b);

/* The ith name of a list, NULL past its end. */
typedef const char *names_candidate(const void *ctx, size_t i);

enum { NAMES_TEXT = 200 };

/* Writes into out the candidates closest to what was typed, best first, at most
 * three, as "a, b or c"; false and "" when none is near. Near: a few edits away,
 * or one begins with the other. Names longer than 60 bytes are not compared. */
bool names_suggest(const char *typed, names_candidate *candidate, const void *ctx,
                   char out[NAMES_TEXT]);

/* The next step after a name that is not known: "did you mean a or b?", or, when
 * nothing is near, "choose one of: a, b, c", cut to fit. */
void names_advise(const char *typed, names_candidate *candidate, const void *ctx,
                  char out[NAMES_TEXT]);

#ifdef __cplusplus
}
#endif

#endif
