/* What trident run and its deputy on another host say to each other: frames on a stream of bytes.
 */
#ifndef TRIDENT_CLI_RUN_FRAME_H
#define TRIDENT_CLI_RUN_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum run_frame_kind {
    /* from the deputy */
    RUN_FRAME_HELLO = 'H',   /* its version, its address and ours as ssh has them; texts */
    RUN_FRAME_PORTS = 'P',   /* the first of two free ports, an address or ""; texts */
    RUN_FRAME_READY = 'R',   /* the program is there */
    RUN_FRAME_FAILED = 'F',  /* a status and the four texts of an error */
    RUN_FRAME_STARTED = 'S', /* pid */
    RUN_FRAME_OUT = 'O',     /* bytes of standard output */
    RUN_FRAME_ERR = 'E',
    RUN_FRAME_ENDED = 'X', /* exit code, signal */
    /* to the deputy */
    RUN_FRAME_ASK_PORTS = 'Q', /* TRIDENT_INTERFACE or "" */
    RUN_FRAME_JOB = 'J',       /* see run_part.c */
    RUN_FRAME_GO = 'G',
    RUN_FRAME_SIGNAL = 'K', /* a number: for all its processes */
    RUN_FRAME_NEWS = 'N',   /* a line for its list of processes that have ended, see run_ended.c */
};

enum { RUN_FRAME_HEAD = 9, RUN_FRAME_MOST = 1 << 24 };

struct run_frame {
    uint8_t kind;
    uint32_t process; /* of the job: workers first, servers behind them */
    const char *body; /* len bytes, and a NUL that is not counted */
    size_t len;
};

void run_frame_head(char out[RUN_FRAME_HEAD], enum run_frame_kind kind, size_t process, size_t len);
void run_frame_add(struct buf *out, enum run_frame_kind kind, size_t process, const void *body,
                   size_t len);

/* What a shell on the other host prints before the deputy runs is no frame: the first frame comes
 * behind this text. */
#define RUN_FRAME_MARK "\001trident run deputy\002"

/* A stream that is being read. */
struct run_frames {
    struct buf bytes;
    size_t at;
    bool marked; /* the mark has been seen; set it where there is none */
};

enum run_frames_result { RUN_FRAMES_WANT, RUN_FRAMES_GOT, RUN_FRAMES_BAD };
/* The next whole frame; its body is valid until bytes are added. */
enum run_frames_result run_frames_next(struct run_frames *frames, struct run_frame *out);

/* The next text of a body of texts that each end in NUL; "" past the last one. */
const char *run_frame_text(const struct run_frame *frame, size_t *at);
void run_frame_put_text(struct buf *body, const char *text);
uint32_t run_frame_number(const struct run_frame *frame, size_t at); /* 0 past the end */
void run_frame_put_number(struct buf *body, uint32_t number);

#ifdef __cplusplus
}
#endif

#endif
