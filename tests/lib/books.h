/* Profiles and books for tests. */
#ifndef TRIDENT_TESTS_LIB_BOOKS_H
#define TRIDENT_TESTS_LIB_BOOKS_H

#include "plan/plan.h"

/* A model with one layer; the test ends if it cannot be made. Freed by profile_free(). */
struct profile *book_one_layer(const char *kind, unsigned rows, unsigned cols, unsigned bias);

/* A profile of models/, by file name. */
struct profile *book_model(const char *name);

/* As many workers as servers on the same nodes, batch 32, 10 Gbit/s, no latency,
 * no message cost, 1 TFLOP/s, rule time among all schemes, placement hash. */
struct book book_of(const struct profile *profile, unsigned workers);

/* A plan that must succeed; freed by plan_free(). */
struct plan *book_plan(const struct book *book);

/* The bit of a scheme in book.schemes, and its place. */
uint32_t book_scheme(const char *name);
size_t book_scheme_index(const char *name);

#endif
