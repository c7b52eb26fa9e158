/* Filling in a tri_error: the function that first knows the cause writes the text.
 *
 * Every call takes err = NULL for "the caller does not care" and returns the
 * status it was given, so that `return fail(err, TRI_EIO, ...)` reads as one
 * step. fail() starts a new report; the other calls add to it. Texts that do
 * not fit are cut on a character boundary; control characters become '?', so
 * that names from outside may be put in as they are (base/printable.h). */
#ifndef TRIDENT_BASE_ERROR_H
#define TRIDENT_BASE_ERROR_H

#include "trident/trident.h"

#ifdef __cplusplus
extern "C" {
#endif

tri_status fail(tri_error *err, tri_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As fail(), and takes the reason from errno, which must not have been
 * disturbed since the failing call. */
tri_status fail_errno(tri_error *err, tri_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The one text for an allocator that refused; `what` names the thing wanted. */
tri_status fail_nomem(tri_error *err, const char *what);

void fail_where(tri_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fail_why(tri_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fail_next(tri_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
