/* Windows over images: a lane at a time, or eight with AVX2; the same numbers either way. */
#include "engine/window.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2     __attribute__((target("avx2")))
#define HAS_AVX2 __builtin_cpu_supports("avx2")
#else
#define AVX2
#define HAS_AVX2 0
#endif
#define INLINE static inline __attribute__((always_inline))

enum { VECTOR = 8 };

/* A window inside the image: where it begins, and its size. */
struct cell {
    size_t from;          /* of its first position, in floats from that of the plane */
    size_t rows, cols;    /* inside the image */
    size_t row, lanes;    /* floats from one row to the next, and from one column */
    uint32_t first, over; /* number of its first place, and from one row's last to the next */
};

static struct cell cell_at(const struct window *w, uint32_t y, uint32_t x)
{
    const int64_t top = (int64_t)y * w->stride - w->pad, left = (int64_t)x * w->stride - w->pad;
    const int64_t above = top < 0 ? -top : 0, before = left < 0 ? -left : 0;
    const int64_t bottom = top + w->kernel, right = left + w->kernel;
    const int64_t rows = (bottom < w->in_height ? bottom : w->in_height) - (top + above);
    const int64_t cols = (right < w->in_width ? right : w->in_width) - (left + before);
    return (struct cell){
        .from = ((size_t)(top + above) * w->in_width + (size_t)(left + before)) * w->lanes,
        .rows = (size_t)rows,
        .cols = (size_t)cols,
        .row = w->in_width * w->lanes,
        .lanes = w->lanes,
        .first = (uint32_t)(above * w->kernel + before),
        .over = w->kernel - (uint32_t)cols,
    };
}

static size_t in_floats(const struct window *w)
{
    return (size_t)w->in_height * w->in_width * w->lanes;
}

static bool uses_vectors(const struct window *w)
{
    return HAS_AVX2 && !w->plain && w->lanes % VECTOR == 0;
}

/* ---- at a window, a lane at a time ---- */

static void max_lane(const struct cell *c, const float *in, float *out, uint8_t *which)
{
    float best = in[0];
    uint32_t place = c->first, best_place = place;
    for (size_t y = 0; y < c->rows; y++, place += c->over)
        for (size_t x = 0; x < c->cols; x++, place++)
            if (in[y * c->row + x * c->lanes] > best) {
                best = in[y * c->row + x * c->lanes];
                best_place = place;
            }
    *out = best;
    *which = (uint8_t)best_place;
}

static void max_back_lane(const struct cell *c, float diff, uint32_t which, float *in_diff)
{
    uint32_t place = c->first;
    for (size_t y = 0; y < c->rows; y++, place += c->over)
        for (size_t x = 0; x < c->cols; x++, place++)
            if (place == which)
                in_diff[y * c->row + x * c->lanes] += diff;
}

static float sum_lane(const struct cell *c, const float *in)
{
    float sum = 0;
    for (size_t y = 0; y < c->rows; y++)
        for (size_t x = 0; x < c->cols; x++)
            sum += in[y * c->row + x * c->lanes];
    return sum;
}

static void spread_lane(const struct cell *c, float diff, float *in_diff)
{
    for (size_t y = 0; y < c->rows; y++)
        for (size_t x = 0; x < c->cols; x++)
            in_diff[y * c->row + x * c->lanes] += diff;
}

static void mask_plain(const float *in, float *diff, size_t floats)
{
    for (size_t i = 0; i < floats; i++)
        diff[i] = in[i] > 0 ? diff[i] : 0;
}

/* ---- at a window, eight lanes at a time ---- */

#if defined(__x86_64__)
AVX2 INLINE void max_vector(const struct cell *c, const float *in, float *out, uint8_t *which)
{
    const __m256i one = _mm256_set1_epi32(1), over = _mm256_set1_epi32((int)c->over);
    __m256i place = _mm256_set1_epi32((int)c->first);
    __m256 best = _mm256_loadu_ps(in), best_place = _mm256_castsi256_ps(place);
    for (size_t y = 0; y < c->rows; y++, place = _mm256_add_epi32(place, over))
        for (size_t x = 0; x < c->cols; x++, place = _mm256_add_epi32(place, one)) {
            const __m256 value = _mm256_loadu_ps(in + y * c->row + x * c->lanes);
            const __m256 more = _mm256_cmp_ps(value, best, _CMP_GT_OQ);
            best = _mm256_blendv_ps(best, value, more);
            best_place = _mm256_blendv_ps(best_place, _mm256_castsi256_ps(place), more);
        }
    _mm256_storeu_ps(out, best);
    const __m256i places = _mm256_castps_si256(best_place);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(places), _mm256_extracti128_si256(places, 1));
    _mm_storel_epi64((__m128i *)which, _mm_packus_epi16(words, words));
}

AVX2 INLINE void max_back_vector(const struct cell *c, __m256 diff, const uint8_t *which,
                                 float *in_diff)
{
    const __m256i one = _mm256_set1_epi32(1), over = _mm256_set1_epi32((int)c->over);
    const __m256i wanted = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)which));
    __m256i place = _mm256_set1_epi32((int)c->first);
    for (size_t y = 0; y < c->rows; y++, place = _mm256_add_epi32(place, over))
        for (size_t x = 0; x < c->cols; x++, place = _mm256_add_epi32(place, one)) {
            float *at = in_diff + y * c->row + x * c->lanes;
            const __m256 here = _mm256_castsi256_ps(_mm256_cmpeq_epi32(place, wanted));
            _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), _mm256_and_ps(here, diff)));
        }
}

AVX2 INLINE __m256 sum_vector(const struct cell *c, const float *in)
{
    __m256 sum = _mm256_setzero_ps();
    for (size_t y = 0; y < c->rows; y++)
        for (size_t x = 0; x < c->cols; x++)
            sum = _mm256_add_ps(sum, _mm256_loadu_ps(in + y * c->row + x * c->lanes));
    return sum;
}

AVX2 INLINE void spread_vector(const struct cell *c, __m256 diff, float *in_diff)
{
    for (size_t y = 0; y < c->rows; y++)
        for (size_t x = 0; x < c->cols; x++) {
            float *at = in_diff + y * c->row + x * c->lanes;
            _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), diff));
        }
}

AVX2 INLINE __m256 above_zero(const float *at)
{
    return _mm256_cmp_ps(_mm256_loadu_ps(at), _mm256_setzero_ps(), _CMP_GT_OQ);
}

AVX2 static void mask_avx2(const float *in, float *diff, size_t floats)
{
    for (size_t i = 0; i < floats; i += VECTOR)
        _mm256_storeu_ps(diff + i, _mm256_and_ps(_mm256_loadu_ps(diff + i), above_zero(in + i)));
}
#endif

/* ---- along a row of the output ---- */

/* What a pass over the images reads and writes; each has its own use for them. */
struct pass {
    const struct window *window;
    const float *in, *diff, *out;
    float *to; /* out, or the diff of in */
    uint8_t *which;
    const uint8_t *known;
    bool add;
};

/* `in`: first float of the plane on the side of the image, `at`: of the row on the other. */
typedef void row_fn(const struct pass *p, size_t in, size_t at, uint32_t y);

static void max_row(const struct pass *p, size_t in, size_t at, uint32_t y)
{
    for (uint32_t x = 0; x < p->window->out_width; x++) {
        const struct cell c = cell_at(p->window, y, x);
        for (size_t l = 0; l < c.lanes; l++, at++)
            max_lane(&c, p->in + in + c.from + l, p->to + at, p->which + at);
    }
}

static void max_back_row(const struct pass *p, size_t in, size_t at, uint32_t y)
{
    for (uint32_t x = 0; x < p->window->out_width; x++) {
        const struct cell c = cell_at(p->window, y, x);
        for (size_t l = 0; l < c.lanes; l++, at++)
            if (p->out == NULL || p->out[at] > 0)
                max_back_lane(&c, p->diff[at], p->known[at], p->to + in + c.from + l);
    }
}

static void average_row(const struct pass *p, size_t in, size_t at, uint32_t y)
{
    for (uint32_t x = 0; x < p->window->out_width; x++) {
        const struct cell c = cell_at(p->window, y, x);
        for (size_t l = 0; l < c.lanes; l++, at++)
            p->to[at] = sum_lane(&c, p->in + in + c.from + l) / (float)(c.rows * c.cols);
    }
}

static void average_back_row(const struct pass *p, size_t in, size_t at, uint32_t y)
{
    for (uint32_t x = 0; x < p->window->out_width; x++) {
        const struct cell c = cell_at(p->window, y, x);
        for (size_t l = 0; l < c.lanes; l++, at++)
            spread_lane(&c, p->diff[at] / (float)(c.rows * c.cols), p->to + in + c.from + l);
    }
}

#if defined(__x86_64__)
AVX2 static void max_row_avx2(const struct pass *p, size_t in, size_t at, uint32_t y)
{
    for (uint32_t x = 0; x < p->window->out_width; x++) {
        const struct cell c = cell_at(p->window, y, x);
        for (size_t l = 0; l < c.lanes; l += VECTOR, at += VECTOR)
            max_vector(&c, p->in + in + c.from + l, p->to + at, p->which + at);
    }
}

AVX2 static void max_back_row_avx2(const struct pass *p, size_t in, size_t at, uint32_t y)
{
    for (uint32_t x = 0; x < p->window->out_width; x++) {
        const struct cell c = cell_at(p->window, y, x);
        for (size_t l = 0; l < c.lanes; l += VECTOR, at += VECTOR) {
            __m256 diff = _mm256_loadu_ps(p->diff + at);
            if (p->out != NULL)
                diff = _mm256_and_ps(diff, above_zero(p->out + at));
            max_back_vector(&c, diff, p->known + at, p->to + in + c.from + l);
        }
    }
}

AVX2 static void average_row_avx2(const struct pass *p, size_t in, size_t at, uint32_t y)
{
    for (uint32_t x = 0; x < p->window->out_width; x++) {
        const struct cell c = cell_at(p->window, y, x);
        const __m256 count = _mm256_set1_ps((float)(c.rows * c.cols));
        for (size_t l = 0; l < c.lanes; l += VECTOR, at += VECTOR)
            _mm256_storeu_ps(p->to + at,
                             _mm256_div_ps(sum_vector(&c, p->in + in + c.from + l), count));
    }
}

AVX2 static void average_back_row_avx2(const struct pass *p, size_t in, size_t at, uint32_t y)
{
    for (uint32_t x = 0; x < p->window->out_width; x++) {
        const struct cell c = cell_at(p->window, y, x);
        const __m256 count = _mm256_set1_ps((float)(c.rows * c.cols));
        for (size_t l = 0; l < c.lanes; l += VECTOR, at += VECTOR)
            spread_vector(&c, _mm256_div_ps(_mm256_loadu_ps(p->diff + at), count),
                          p->to + in + c.from + l);
    }
}
#else
#define max_row_avx2          max_row
#define max_back_row_avx2     max_back_row
#define average_row_avx2      average_row
#define average_back_row_avx2 average_back_row
#define mask_avx2             mask_plain
#endif

/* ---- over all planes ---- */

static void rows_of_plane(const struct pass *p, size_t plane, row_fn *row)
{
    const struct window *w = p->window;
    const size_t width = w->out_width * w->lanes;
    for (uint32_t y = 0; y < w->out_height; y++)
        row(p, plane * in_floats(w), (plane * w->out_height + y) * width, y);
}

static void forth(const struct pass *p, row_fn *row)
{
    for (size_t plane = 0; plane < p->window->planes; plane++)
        rows_of_plane(p, plane, row);
}

/* A plane is cleared, added to and masked while it is in the cache. */
static void back(const struct pass *p, row_fn *row)
{
    const size_t floats = in_floats(p->window);
    const bool vectors = uses_vectors(p->window);
    for (size_t plane = 0; plane < p->window->planes; plane++) {
        float *to = p->to + plane * floats;
        if (!p->add)
            memset(to, 0, floats * sizeof *to);
        rows_of_plane(p, plane, row);
        if (p->in != NULL)
            (vectors ? mask_avx2 : mask_plain)(p->in + plane * floats, to, floats);
    }
}

void window_max(const struct window *w, const float *in, float *out, uint8_t *which)
{
    const struct pass p = {.window = w, .in = in, .to = out, .which = which};
    forth(&p, uses_vectors(w) ? max_row_avx2 : max_row);
}

void window_max_back(const struct window *w, const float *diff, const uint8_t *which,
                     const float *out, float *in_diff, bool add)
{
    const struct pass p = {
        .window = w, .diff = diff, .known = which, .out = out, .to = in_diff, .add = add};
    back(&p, uses_vectors(w) ? max_back_row_avx2 : max_back_row);
}

void window_average(const struct window *w, const float *in, float *out)
{
    const struct pass p = {.window = w, .in = in, .to = out};
    forth(&p, uses_vectors(w) ? average_row_avx2 : average_row);
}

void window_average_back(const struct window *w, const float *diff, const float *in, float *in_diff,
                         bool add)
{
    const struct pass p = {.window = w, .diff = diff, .in = in, .to = in_diff, .add = add};
    back(&p, uses_vectors(w) ? average_back_row_avx2 : average_back_row);
}
