/* Whole gradients: what a parameter server without rows and factors is sent. */
#ifndef TRIDENT_BENCH_GRADIENT_H
#define TRIDENT_BENCH_GRADIENT_H

#include "engine/op.h"

/* Places that one embedding's gradient is written to by turns. */
enum { GRADIENT_PLACES = 4 };

struct gradient_maker {
    void *scratch; /* of products */
    struct gradient_place {
        const float *at; /* all of it is zero but for these rows; NULL: not known yet */
        uint32_t *rows;
        uint32_t count, room;
    } places[GRADIENT_PLACES];
};

/* For embeddings that give at most `rows` rows. */
tri_status gradient_open(struct gradient_maker *maker, uint32_t rows, tri_error *err);
void gradient_close(struct gradient_maker *maker); /* zeroed is fine */

/* Writes the gradient that weigh() left, rows x cols floats and the bias behind them, to `to`.
 * Factors are multiplied out where they go. Rows: what is at `to` must be what this call left there
 * the last time, for only those rows are made zero again; the first time all of it is. */
void gradient_put(struct gradient_maker *maker, const struct param *param, float *to);

#endif
