/* Sums over terms in plain C, for every processor. */
#include "math/sparse_tile.h"

const struct sparse_kernel sparse_plain = {.width = WIDTH,
                                           .go_on = go_on,
                                           .add = add,
                                           .store = store,
                                           .pack = pack,
                                           .turn_rows = TURN_ROWS,
                                           .turn = turn};
