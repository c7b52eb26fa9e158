/* A length in two bytes, then the text. */
#include "wire/reason.h"

static bool control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

void wire_reason_encode(const char *text, struct buf *data)
{
    size_t len = strlen(text);
    if (len > WIRE_REASON_MAX) {
        len = WIRE_REASON_MAX;
        while (len > 0 && ((unsigned char)text[len] & 0xC0) == 0x80) /* inside a character */
            len--;
    }
    wire_put_u16(data, (uint16_t)len);
    for (size_t i = 0; i < len; i++)
        buf_char(data, control(text[i]) ? '?' : text[i]);
}

tri_status wire_reason_decode(const struct wire_header *header, const uint8_t *data,
                              struct wire_text *out, tri_error *err)
{
    struct wire_in in = wire_in_of(data, header->data_len);
    size_t len = wire_get_u16(&in);
    if (len > WIRE_REASON_MAX)
        wire_refuse(&in, "a reason is too long");
    struct wire_text text = {.at = (const char *)wire_get_bytes(&in, len), .len = len};
    for (size_t i = 0; text.at != NULL && i < len; i++)
        if (control(text.at[i]))
            wire_refuse(&in, "a text has a control character in it");
    tri_status status = wire_finish(&in, header, "data", err);
    if (status == TRI_OK)
        *out = text;
    return status;
}
