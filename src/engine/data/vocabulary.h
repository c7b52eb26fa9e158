/* Names by number, and numbers by name: the words and the labels of a data set.
 *
 * Numbers count from 0 in the order in which names were added. A vocabulary that nobody adds to any
 * more may be read by any number of threads. */
#ifndef TRIDENT_ENGINE_DATA_VOCABULARY_H
#define TRIDENT_ENGINE_DATA_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vocabulary;

#define VOCABULARY_NONE UINT32_MAX

struct vocabulary *vocabulary_new(const struct mem *mem); /* empty; NULL: no memory */
void vocabulary_free(struct vocabulary *vocabulary);      /* NULL is fine */

/* The number of the len bytes at name, which are added if they are new and copied then. They hold
 * no NUL. VOCABULARY_NONE: no memory, and nothing has changed. */
uint32_t vocabulary_add(struct vocabulary *vocabulary, const char *name, size_t len);

/* VOCABULARY_NONE if it is not there. */
uint32_t vocabulary_find(const struct vocabulary *vocabulary, const char *name, size_t len);

/* One with names[i] as number i, as a saved model lists them. TRI_EINPUT if a name is there twice,
 * or TRI_ENOMEM; then *out is untouched. */
tri_status vocabulary_of(const char *const *names, size_t count, const struct mem *mem,
                         struct vocabulary **out, tri_error *err);

size_t vocabulary_size(const struct vocabulary *vocabulary); /* NULL: 0 */
/* "" past the end. Valid until the next vocabulary_add(). */
const char *vocabulary_at(const struct vocabulary *vocabulary, uint32_t number);

#ifdef __cplusplus
}
#endif

#endif
