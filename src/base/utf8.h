/* UTF-8: where one character ends and which one it is. */
#ifndef TRIDENT_BASE_UTF8_H
#define TRIDENT_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The length of the character at p, of which `room` (at least 1) bytes are there;
 * 0 if it is none: overlong forms, surrogates and codes past U+10FFFF are not. */
size_t utf8_length(const char *p, size_t room);

/* The code of the character of that length at p. */
uint32_t utf8_code(const char *p, size_t len);

#ifdef __cplusplus
}
#endif

#endif
