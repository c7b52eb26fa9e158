/* Cleaning text for terminals. */
#include "base/printable.h"

#include <string.h>

#include "base/utf8.h"

bool printable_code(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } harmful[] = {
        {0, 0x1F},        {0x7F, 0x9F},     {0x061C, 0x061C}, {0x200E, 0x200F},
        {0x2028, 0x2029}, {0x202A, 0x202E}, {0x2066, 0x2069},
    };
    for (size_t i = 0; i < sizeof harmful / sizeof harmful[0]; i++)
        if (code >= harmful[i].first && code <= harmful[i].last)
            return false;
    return true;
}

/* Bytes at p that begin a character but do not finish it; 0 if they begin none. */
static size_t incomplete(const char *p)
{
    unsigned char lead = (unsigned char)p[0];
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    size_t whole = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4, there = 1;
    while (there < whole && ((unsigned char)p[there] & 0xC0) == 0x80)
        there++;
    return there < whole ? there : 0;
}

void printable(char *text)
{
    char *to = text;
    size_t room = strlen(text);
    for (size_t len; room > 0; text += len, room -= len) {
        len = utf8_length(text, room);
        if (len > 0 && printable_code(utf8_code(text, len))) {
            memmove(to, text, len);
            to += len;
        } else if (len > 0) {
            *to++ = '?';
        } else if ((len = incomplete(text)) == 0) {
            *to++ = '?';
            len = 1;
        }
    }
    *to = '\0';
}

size_t printable_columns(const char *text)
{
    size_t columns = 0;
    for (; *text != '\0'; text++)
        columns += ((unsigned char)*text & 0xC0) != 0x80;
    return columns;
}
