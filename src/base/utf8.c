/* Reading UTF-8. */
#include "base/utf8.h"

size_t utf8_length(const char *p, size_t room)
{
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] < 0x80)
        return 1;
    size_t len = u[0] < 0xE0 ? 2 : u[0] < 0xF0 ? 3 : 4;
    if (u[0] < 0xC2 || u[0] > 0xF4 || room < len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((u[i] & 0xC0) != 0x80)
            return 0;
    if ((u[0] == 0xE0 && u[1] < 0xA0) || (u[0] == 0xED && u[1] > 0x9F) ||
        (u[0] == 0xF0 && u[1] < 0x90) || (u[0] == 0xF4 && u[1] > 0x8F))
        return 0;
    return len;
}

uint32_t utf8_code(const char *p, size_t len)
{
    static const unsigned char lead[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = (unsigned char)p[0] & lead[len];
    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)p[i] & 0x3F);
    return code;
}
