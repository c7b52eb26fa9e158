/* A layer as HELLO and BOOK describe it. */
#ifndef TRIDENT_WIRE_LAYER_H
#define TRIDENT_WIRE_LAYER_H

#include <stdint.h>

#include "base/error.h"
#include "wire/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The values of tri_kind in trident.h, and as frozen: FC 0, CONV 1, EMBED 2, NORM 3,
 * OTHER 4. */
enum { WIRE_LAYER_KINDS = 5 };

#define WIRE_MAX_SIDE   ((UINT32_C(1) << 31) - 1)
#define WIRE_MAX_PARAMS ((uint64_t)1 << 48) /* of one layer */

struct wire_layer {
    struct wire_text name; /* not empty */
    uint8_t kind;
    uint32_t rows, cols;
    uint32_t bias;            /* 0 or rows */
    uint32_t max_factor_rows; /* K; 0: never gives factors */
};

enum { WIRE_LAYER_LEAST = 1 + 1 + 1 + 4 * 4 }; /* bytes of a layer with the shortest name */

/* What cannot be about it, as "a layer has no name"; NULL when all is right. Both
 * ways ask it, so whatever was written can be read. Static storage. */
const char *wire_layer_wrong(const struct wire_layer *layer);

void wire_put_layer(struct buf *buf, const struct wire_layer *layer); /* a right one (asserted) */
struct wire_layer wire_get_layer(struct wire_in *in);

/* Takes the next layer of a list that was checked (struct wire_hello_data, struct
 * wire_book); false at its end. The name is borrowed from the message. */
bool wire_layer_next(struct wire_in *list, struct wire_layer *out);

#ifdef __cplusplus
}
#endif

#endif
