/* The product in plain C, for every processor. */
#include "math/product_tile.h"

static bool here(void)
{
    return true;
}

extern const struct product_kernel product_plain;
const struct product_kernel product_plain = {
    .name = "plain",
    .rows = TILE_ROWS,
    .cols = TILE_COLS,
    .here = here,
    .pack_u = pack_u,
    .pack_v = pack_v,
    .strip = strip,
    .sparse = &sparse_plain,
};
