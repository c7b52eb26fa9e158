/* Steps in place, written once for every instruction set.
 *
 * An inplace_ISA.c defines what is listed below, includes this file and puts the functions in its
 * struct inplace_kernel. Without that, it is plain C with a vector of one float. */
#ifndef TRIDENT_MATH_INPLACE_TILE_H
#define TRIDENT_MATH_INPLACE_TILE_H

#include <math.h>
#include <string.h>

#include "math/dense_kernel.h"
#include "math/inplace_kernel.h"

#ifndef TARGET
#define TARGET /* the function attribute that lets the compiler use the instructions */

typedef float vec;
#define VEC_FLOATS ((size_t)1)
#define TILE_ROWS  ((size_t)4) /* twice as many vectors, and three more, fit in registers */

static inline vec vec_load(const float *from) /* any alignment */
{
    return *from;
}

static inline void vec_store(float *to, vec x)
{
    *to = x;
}

static inline vec vec_load_part(const float *from, size_t count) /* fewer than VEC_FLOATS */
{
    (void)count;
    return *from;
}

static inline void vec_store_part(float *to, vec x, size_t count)
{
    (void)count;
    *to = x;
}

static inline vec vec_all(float x) /* every element is x */
{
    return x;
}

static inline vec vec_fma(vec a, vec b, vec c) /* a * b + c, rounded once */
{
    return fmaf(a, b, c);
}
#endif

/* Weights that several learners step at once are read and written without any order, on purpose:
 * a lost step is one of many. The sanitizer would report every one of them. */
#define RACES  TARGET __attribute__((no_sanitize("thread")))
#define INLINE RACES static inline __attribute__((always_inline))
#define UNROLL DENSE_UNROLL

#define ROW_VECS TILE_ROWS /* of one row at a time: as many registers */

/* What a tile is made for: constants for the compiler. */
struct tile {
    size_t rows, batch, back; /* batch 0: whatever it is, and back */
    bool wants_dx, steps;
};

/* Where the rows of a tile are, and those of the next. */
struct places {
    float *w[TILE_ROWS];
    const float *next[TILE_ROWS];
};

/* A vector of columns, `count` of them inside. The dy of a tile are TILE_ROWS apart, even if it has
 * fewer rows. */
INLINE void tile_step(const struct inplace_strip *s, const struct places *p, const float *dy,
                      size_t n, size_t count, const struct tile t)
{
    const size_t batch = t.batch > 0 ? t.batch : s->batch, packed = s->packed;
    const size_t back = !t.wants_dx ? 0 : t.batch > 0 ? t.back : s->back;
    const vec alpha = vec_all(s->alpha);
    vec w[TILE_ROWS], g[TILE_ROWS];
    UNROLL
    for (size_t r = 0; r < t.rows; r++) {
        w[r] = count == VEC_FLOATS ? vec_load(p->w[r] + n) : vec_load_part(p->w[r] + n, count);
        g[r] = vec_all(0);
    }
    size_t k = 0;
    for (; k < back; k++, dy += TILE_ROWS) {
        const vec xs = t.steps ? vec_load(s->x + k * packed + n) : alpha;
        float *dx = s->dx + k * packed + n;
        vec sum = vec_load(dx);
        UNROLL
        for (size_t r = 0; r < t.rows; r++) {
            const vec by = vec_all(dy[r]);
            if (t.steps)
                g[r] = vec_fma(by, xs, g[r]);
            sum = vec_fma(by, w[r], sum);
        }
        vec_store(dx, sum);
    }
    for (; k < batch; k++, dy += TILE_ROWS) {
        const vec xs = vec_load(s->x + k * packed + n);
        UNROLL
        for (size_t r = 0; r < t.rows; r++)
            g[r] = vec_fma(vec_all(dy[r]), xs, g[r]);
    }
    if (!t.steps)
        return;
    UNROLL
    for (size_t r = 0; r < t.rows; r++) {
        const vec stepped = vec_fma(alpha, g[r], w[r]);
        if (count == VEC_FLOATS)
            vec_store(p->w[r] + n, stepped);
        else
            vec_store_part(p->w[r] + n, stepped, count);
    }
}

/* What is only read stays where other learners have it, too. */
INLINE void tile_fetch(const float *w, const bool to_write)
{
    if (to_write)
        __builtin_prefetch(w, 1);
    else
        __builtin_prefetch(w, 0);
}

INLINE void tile_run(const struct inplace_strip *s, const struct places *p, const float *dy,
                     const struct tile t)
{
    size_t n = 0;
    for (; n + VEC_FLOATS <= s->cols; n += VEC_FLOATS) {
        if (n % INPLACE_LINE == 0) {
            UNROLL
            for (size_t r = 0; r < t.rows; r++)
                tile_fetch(p->next[r] + n, t.steps);
        }
        tile_step(s, p, dy, n, VEC_FLOATS, t);
    }
    if (n < s->cols)
        tile_step(s, p, dy, n, s->cols - n, t);
}

/* At the end of the list the next rows are these: a fetch of what is there costs nothing. */
INLINE void places_of(const struct inplace_strip *s, size_t first, const size_t rows,
                      struct places *to)
{
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        const size_t next = first + rows + r < s->count ? first + rows + r : first + r;
        to->w[r] = s->w + s->rows[first + r] * s->stride;
        to->next[r] = s->w + s->rows[next] * s->stride;
    }
}

INLINE void strip_run(const struct inplace_strip *s, const struct tile like)
{
    const struct tile many = {TILE_ROWS, like.batch, like.back, like.wants_dx, like.steps};
    const struct tile one = {1, like.batch, like.back, like.wants_dx, like.steps};
    struct places places;
    size_t i = 0;
    const float *dy = s->dy;
    for (; i + TILE_ROWS <= s->count; i += TILE_ROWS, dy += TILE_ROWS * s->batch) {
        places_of(s, i, TILE_ROWS, &places);
        tile_run(s, &places, dy, many);
    }
    for (; i < s->count; i++, dy++) {
        places_of(s, i, 1, &places);
        tile_run(s, &places, dy, one);
    }
}

/* One sample and two, and one of another's, are by far the most common where it matters. */
INLINE void strip_any(const struct inplace_strip *s, const bool wants_dx, const bool steps)
{
    if (s->batch == 1)
        strip_run(s, (struct tile){0, 1, 1, wants_dx, steps});
    else if (s->batch == 2 && s->back == 2)
        strip_run(s, (struct tile){0, 2, 2, wants_dx, steps});
    else if (s->batch == 2 && steps)
        strip_run(s, (struct tile){0, 2, 1, wants_dx, steps});
    else
        strip_run(s, (struct tile){0, 0, 0, wants_dx, steps});
}

/* A copy of what is told: a store of a vector might change any other memory, for all that the
 * compiler knows, and it would read all of it again after each. */
RACES static void strip(const struct inplace_strip *told)
{
    const struct inplace_strip s = *told;
    if (s.x == NULL)
        strip_any(&s, true, false);
    else if (s.dx == NULL)
        strip_any(&s, false, true);
    else
        strip_any(&s, true, true);
}

/* `vecs` vectors of a row, or `part` floats of one. */
INLINE void row_step(const struct inplace_row *r, size_t n, const size_t vecs, size_t part,
                     const bool wants_dx)
{
    const bool whole = part == 0;
    const vec alpha = vec_all(r->alpha);
    vec w[ROW_VECS], g[ROW_VECS];
    UNROLL
    for (size_t v = 0; v < vecs; v++) {
        const float *at = r->w + n + v * VEC_FLOATS;
        w[v] = whole ? vec_load(at) : vec_load_part(at, part);
        g[v] = vec_all(0);
    }
    for (size_t k = 0; wants_dx && k < r->back; k++) {
        const vec by = vec_all(r->by[k]);
        float *dx = r->dx[k] + n;
        UNROLL
        for (size_t v = 0; v < vecs; v++) {
            float *to = dx + v * VEC_FLOATS;
            const vec sum = vec_fma(by, w[v], whole ? vec_load(to) : vec_load_part(to, part));
            if (whole)
                vec_store(to, sum);
            else
                vec_store_part(to, sum, part);
        }
    }
    for (size_t k = 0; k < r->count; k++) {
        const vec by = vec_all(r->by[k]);
        const float *x = r->x[k] + n;
        UNROLL
        for (size_t v = 0; v < vecs; v++) {
            const float *from = x + v * VEC_FLOATS;
            g[v] = vec_fma(by, whole ? vec_load(from) : vec_load_part(from, part), g[v]);
        }
    }
    UNROLL
    for (size_t v = 0; v < vecs; v++) {
        const vec stepped = vec_fma(alpha, g[v], w[v]);
        if (whole)
            vec_store(r->w + n + v * VEC_FLOATS, stepped);
        else
            vec_store_part(r->w + n + v * VEC_FLOATS, stepped, part);
    }
}

INLINE void row_run(const struct inplace_row *r, const bool wants_dx)
{
    const size_t wide = ROW_VECS * VEC_FLOATS;
    const uintptr_t next = (uintptr_t)(r->next != NULL ? r->next : r->w);
    size_t n = 0;
    for (; n + wide <= r->cols; n += wide) {
        UNROLL
        for (size_t i = 0; i < wide; i += INPLACE_LINE)
            __builtin_prefetch((const void *)(next + (n + i) * sizeof(float)), 1);
        row_step(r, n, ROW_VECS, 0, wants_dx);
    }
    for (; n + VEC_FLOATS <= r->cols; n += VEC_FLOATS) {
        __builtin_prefetch((const void *)(next + n * sizeof(float)), 1);
        row_step(r, n, 1, 0, wants_dx);
    }
    if (n < r->cols)
        row_step(r, n, 1, r->cols - n, wants_dx);
}

RACES static void row(const struct inplace_row *told)
{
    const struct inplace_row r = *told;
    if (r.back > 0)
        row_run(&r, true);
    else
        row_run(&r, false);
}

RACES static void add(float by, const float *from, float *to, size_t count)
{
    const vec all = vec_all(by);
    size_t i = 0;
    for (; i + VEC_FLOATS <= count; i += VEC_FLOATS)
        vec_store(to + i, vec_fma(all, vec_load(from + i), vec_load(to + i)));
    if (i < count)
        vec_store_part(
            to + i,
            vec_fma(all, vec_load_part(from + i, count - i), vec_load_part(to + i, count - i)),
            count - i);
}

RACES static void copy(const float *from, float *to, size_t count)
{
    size_t i = 0;
    for (; i + VEC_FLOATS <= count; i += VEC_FLOATS)
        vec_store(to + i, vec_load(from + i));
    if (i < count)
        vec_store_part(to + i, vec_load_part(from + i, count - i), count - i);
}

RACES static void ahead(const float *w, size_t count)
{
    for (size_t i = 0; i < count; i += INPLACE_LINE)
        __builtin_prefetch(w + i, 1);
}

#endif
