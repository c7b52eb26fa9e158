/* Who was turned away: told once for each host and kind of nonsense, then counted.
 *
 * An open port hears from scanners for as long as a job runs; its log should say so, and still be
 * readable. Fixed size; who finds no place in the table counts as one of "others". */
#ifndef TRIDENT_RUN_STRANGERS_H
#define TRIDENT_RUN_STRANGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    STRANGERS_MOST = 32,
    STRANGERS_FACTOR = 16, /* told again when there are so many times as many */
    STRANGERS_HOST = 64,
    STRANGERS_KIND = 40,
    STRANGERS_LAST = 200,
};

struct strangers {
    struct stranger {
        char host[STRANGERS_HOST], kind[STRANGERS_KIND];
        uint64_t count, next;   /* how many there were; at which it is told again */
    } rows[STRANGERS_MOST + 1]; /* the last row: others */
    size_t used;
    char last[STRANGERS_LAST]; /* the last one, in words; "" if there was none */
};

/* Notes one. `what` is the reason, whose kind is what stands before the first colon, quote or
 * number. How many there were of its kind from its host, if that is to be told now; 0: it is not.
 */
uint64_t strangers_note(struct strangers *strangers, const char *address, const char *what);

#ifdef __cplusplus
}
#endif

#endif
