/* c += a b for a strip: some rows of a, and a panel b. Written once; kernels.c includes
 * it for every kind of processor, with these names defined:
 *
 *     TILE        the name of the function
 *     TARGET      the attribute that lets the compiler use the instructions
 *     TILE_ROWS   rows of a at a time: TILE_ROWS x PANEL sums should fit in registers
 *     VEC, VEC_FLOATS, VEC_LOAD, VEC_STORE, VEC_ALL, VEC_FMA   a vector of floats
 *
 * and it takes them away again. No include guard, for that reason. */

#define VECS         (PANEL / VEC_FLOATS)
#define JOINED(a, b) a##b
#define JOIN(a, b)   JOINED(a, b)
#define TILE_SUMS    JOIN(TILE, _sums)
#define TILE_LINK    JOIN(TILE, _link)

/* One more step of every chain. */
TARGET INLINE void TILE_LINK(VEC sums[][VECS], const float *a, size_t stride, const float *b,
                             size_t rows)
{
    VEC all[TILE_ROWS];
    UNROLL
    for (size_t r = 0; r < rows; r++)
        all[r] = VEC_ALL(a[r * stride]);
    UNROLL
    for (size_t v = 0; v < VECS; v++) {
        VEC x = VEC_LOAD(b + v * VEC_FLOATS);
        UNROLL
        for (size_t r = 0; r < rows; r++)
            sums[r][v] = VEC_FMA(all[r], x, sums[r][v]);
    }
}

/* The chains of `rows` rows: TILE_ROWS, 2 or 1, a constant for the compiler, which unrolls. */
TARGET INLINE void TILE_SUMS(const struct strip *s, const float *a, float *c, const size_t rows)
{
    const size_t stride = s->a_stride, depth = s->depth;
    const float *b = s->b;
    VEC sums[TILE_ROWS][VECS];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < VECS; v++)
            sums[r][v] = s->starts ? VEC_ALL(0) : VEC_LOAD(c + r * s->c_stride + v * VEC_FLOATS);
    }
    size_t k = 0;
    for (; k + STEP <= depth; k += STEP) {
        fetch(s->ahead, (rows * STEP + LINE_FLOATS - 1) / LINE_FLOATS);
        UNROLL
        for (size_t i = 0; i < STEP; i++, b += PANEL)
            TILE_LINK(sums, a + k + i, stride, b, rows);
    }
    for (; k < depth; k++, b += PANEL)
        TILE_LINK(sums, a + k, stride, b, rows);
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < VECS; v++)
            VEC_STORE(c + r * s->c_stride + v * VEC_FLOATS, sums[r][v]);
    }
}

TARGET static void TILE(const struct strip *s)
{
    const float *a = s->a;
    float *c = s->c;
    size_t left = s->rows;
    for (; left >= TILE_ROWS; left -= TILE_ROWS) {
        TILE_SUMS(s, a, c, TILE_ROWS);
        a += TILE_ROWS * s->a_stride;
        c += TILE_ROWS * s->c_stride;
    }
    for (; left >= 2; left -= 2) {
        TILE_SUMS(s, a, c, 2);
        a += 2 * s->a_stride;
        c += 2 * s->c_stride;
    }
    if (left > 0)
        TILE_SUMS(s, a, c, 1);
}

#undef VECS
#undef JOINED
#undef JOIN
#undef TILE_SUMS
#undef TILE_LINK
#undef TILE
#undef TARGET
#undef TILE_ROWS
#undef VEC
#undef VEC_FLOATS
#undef VEC_LOAD
#undef VEC_STORE
#undef VEC_ALL
#undef VEC_FMA
