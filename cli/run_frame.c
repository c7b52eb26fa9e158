/* Frames: a kind, a process, a length, and so many bytes. */
#include "cli/run_frame.h"

#include <string.h>

static void put_u32(char *out, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        out[i] = (char)(value >> (8 * i));
}

static uint32_t get_u32(const char *at)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; i++)
        value |= (uint32_t)(unsigned char)at[i] << (8 * i);
    return value;
}

void run_frame_head(char out[RUN_FRAME_HEAD], enum run_frame_kind kind, size_t process, size_t len)
{
    out[0] = (char)kind;
    put_u32(out + 1, (uint32_t)process);
    put_u32(out + 5, (uint32_t)len);
}

void run_frame_add(struct buf *out, enum run_frame_kind kind, size_t process, const void *body,
                   size_t len)
{
    char head[RUN_FRAME_HEAD];
    run_frame_head(head, kind, process, len);
    buf_add(out, head, sizeof head);
    if (len > 0)
        buf_add(out, body, len);
    buf_char(out, '\0');
}

/* Moves past the mark if it is there. */
static bool find_mark(struct run_frames *frames)
{
    static const char mark[] = RUN_FRAME_MARK;
    size_t len = sizeof mark - 1, left = frames->bytes.len - frames->at;
    const char *from = frames->bytes.data + frames->at;
    const char *found = left >= len ? memmem(from, left, mark, len) : NULL;
    if (found == NULL)
        return false;
    frames->at = (size_t)(found - frames->bytes.data) + len;
    return true;
}

/* Forgets what has been read, so that the buffer does not grow. */
static void forget(struct run_frames *frames)
{
    struct buf *bytes = &frames->bytes;
    if (frames->at == 0)
        return;
    memmove(bytes->data, bytes->data + frames->at, bytes->len - frames->at);
    bytes->len -= frames->at;
    frames->at = 0;
}

enum run_frames_result run_frames_next(struct run_frames *frames, struct run_frame *out)
{
    enum { NOISE_MOST = 1 << 20 };
    if (frames->bytes.data == NULL)
        return RUN_FRAMES_WANT;
    if (!frames->marked) {
        frames->marked = find_mark(frames);
        if (!frames->marked)
            return frames->bytes.len < NOISE_MOST ? RUN_FRAMES_WANT : RUN_FRAMES_BAD;
    }
    size_t left = frames->bytes.len - frames->at;
    const char *head = frames->bytes.data + frames->at;
    if (left >= RUN_FRAME_HEAD) {
        size_t len = get_u32(head + 5);
        if (len > RUN_FRAME_MOST)
            return RUN_FRAMES_BAD;
        if (left > RUN_FRAME_HEAD + len) {
            *out = (struct run_frame){.kind = (uint8_t)head[0],
                                      .process = get_u32(head + 1),
                                      .body = head + RUN_FRAME_HEAD,
                                      .len = len};
            if (head[RUN_FRAME_HEAD + len] != '\0')
                return RUN_FRAMES_BAD;
            frames->at += RUN_FRAME_HEAD + len + 1;
            return RUN_FRAMES_GOT;
        }
    }
    forget(frames);
    return RUN_FRAMES_WANT;
}

const char *run_frame_text(const struct run_frame *frame, size_t *at)
{
    if (*at >= frame->len)
        return "";
    const char *text = frame->body + *at;
    *at += strlen(text) + 1;
    return text;
}

void run_frame_put_text(struct buf *body, const char *text)
{
    buf_add(body, text, strlen(text) + 1);
}

uint32_t run_frame_number(const struct run_frame *frame, size_t at)
{
    return at + 4 <= frame->len ? get_u32(frame->body + at) : 0;
}

void run_frame_put_number(struct buf *body, uint32_t number)
{
    char bytes[4];
    put_u32(bytes, number);
    buf_add(body, bytes, sizeof bytes);
}
