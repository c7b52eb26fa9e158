/* Error reports: bounded text, built in place. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

__attribute__((format(printf, 3, 0))) static void put(char *text, size_t cap, const char *format,
                                                      va_list args)
{
    int len = vsnprintf(text, cap, format, args);
    if (len < 0)
        text[0] = '\0';
    /* Names in it may come from anywhere and may have been cut, here or before. */
    printable(text);
}

__attribute__((format(printf, 3, 0))) static void start(tri_error *err, tri_status status,
                                                        const char *format, va_list args)
{
    err->status = status;
    err->where[0] = err->why[0] = err->next[0] = '\0';
    put(err->text, sizeof err->text, format, args);
}

tri_status fail(tri_error *err, tri_status status, const char *format, ...)
{
    if (err == NULL)
        return status;
    va_list args;
    va_start(args, format);
    start(err, status, format, args);
    va_end(args);
    return status;
}

tri_status fail_errno(tri_error *err, tri_status status, const char *format, ...)
{
    int reason = errno;
    if (err == NULL)
        return status;
    va_list args;
    va_start(args, format);
    start(err, status, format, args);
    va_end(args);
    /* Neither strerror nor GNU strerror_r: one is not thread-safe, the other
     * is not the POSIX one. A failed look-up still names the number. */
    const char *name = strerrordesc_np(reason);
    if (name != NULL)
        fail_why(err, "%s", name);
    else
        fail_why(err, "error number %d", reason);
    return status;
}

tri_status fail_nomem(tri_error *err, const char *what)
{
    fail(err, TRI_ENOMEM, "out of memory for %s", what);
    fail_next(err, "free some memory or raise the limit (ulimit -v), then run it again");
    return TRI_ENOMEM;
}

#define ADD(field)                                                                                 \
    do {                                                                                           \
        if (err != NULL) {                                                                         \
            va_list args;                                                                          \
            va_start(args, format);                                                                \
            put(err->field, sizeof err->field, format, args);                                      \
            va_end(args);                                                                          \
        }                                                                                          \
    } while (0)

void fail_where(tri_error *err, const char *format, ...)
{
    ADD(where);
}

void fail_why(tri_error *err, const char *format, ...)
{
    ADD(why);
}

void fail_next(tri_error *err, const char *format, ...)
{
    ADD(next);
}
