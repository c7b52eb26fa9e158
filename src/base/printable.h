/* Text from outside (files, arguments, peers) made safe to show on a terminal.
 *
 * Escape sequences in a name could otherwise recolour, overwrite or reorder what
 * a person reads, or drive the terminal. */
#ifndef TRIDENT_BASE_PRINTABLE_H
#define TRIDENT_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Is this character harmless: no control (C0, DEL, C1), no line or paragraph
 * separator, none that turns the direction of writing? */
bool printable_code(uint32_t code);

/* Cleans text in place; it never grows. Characters that are not harmless and bytes
 * that cannot be UTF-8 become '?'; a UTF-8 character that a cut left incomplete
 * goes. Newlines are not harmless: what comes out is one line. */
void printable(char *text);

/* Screen columns of UTF-8 text, wide characters aside. */
size_t printable_columns(const char *text);

#ifdef __cplusplus
}
#endif

#endif
