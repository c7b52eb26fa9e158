/* Trident: make a training loop that runs on one machine run on many.
 *
 * This header is the whole public face of the library. Today it carries the
 * version and the vocabulary of errors; the six calls that synchronise a
 * training loop join it with the protocol they serve.
 */
#ifndef TRIDENT_TRIDENT_H
#define TRIDENT_TRIDENT_H

#ifdef __cplusplus
extern "C" {
#endif

#define TRI_VERSION_MAJOR 0
#define TRI_VERSION_MINOR 1
#define TRI_VERSION_PATCH 0

/* What a call came to. Programs test these; values are frozen once released. */
typedef enum tri_status {
    TRI_OK = 0,
    TRI_EARG = -1,   /* impossible argument: fix the calling code */
    TRI_ENOMEM = -2, /* the allocator refused */
    TRI_EIO = -3,    /* the operating system refused; the text carries its reason */
    TRI_EINPUT = -4  /* a file or a setting given by the user is unusable */
} tri_status;

/* Why a call failed, for a person. Every string ends in NUL and is cut, never
 * overrun, when it is too long; `where`, `why` and `next` may be empty.
 * A call that succeeds leaves the struct alone. */
typedef struct tri_error {
    tri_status status;
    char text[240];  /* what failed: one sentence, lower case, the subject quoted */
    char where[240]; /* file:line:column, flag or peer it came from */
    char why[240];   /* the cause, when the text does not already say it */
    char next[240];  /* what to try */
} tri_error;

/* The version of the library that is running, as "0.1.0". Static storage. */
const char *tri_version(void);

/* The name of a status, as "TRI_EIO"; "TRI_?" for a value of another version.
 * Static storage. */
const char *tri_status_name(tri_status status);

#ifdef __cplusplus
}
#endif

#endif
