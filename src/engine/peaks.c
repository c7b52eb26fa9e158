/* Weight gradients from the maxima of windows.
 *
 * For each image and filter the values that are not zero are listed, with the place of the patch
 * of the image that made them. Value times patch, summed up, is the gradient: a row of the patch
 * is one vector, of which the kernel uses the first few lanes. */
#include "engine/peaks.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2_FMA __attribute__((target("avx2,fma")))
#endif

#define ROWS  ((size_t)5)
#define LANES ((size_t)8)
enum { PLACES = WINDOW_MAX_KERNEL * WINDOW_MAX_KERNEL, MAX_SIDE = 1 << 14 };

struct peaks_sum {
    const struct mem *mem;
    struct shape3 in, out;
    struct op_conv conv;
    size_t height, width; /* of an image with its borders, and room for whole vectors */
    float *image;         /* channels x height x width */
    float *sums;          /* filters x channels x ROWS x LANES */
    size_t count;         /* of the list: */
    int32_t *places;      /* floats from the beginning of the image */
    float *values;
};

bool peaks_can(struct shape3 in, const struct op_conv *conv)
{
#if defined(__x86_64__)
    return conv->kernel <= ROWS && in.height <= MAX_SIDE && in.width <= MAX_SIDE &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    (void)in, (void)conv;
    return false;
#endif
}

struct peaks_sum *peaks_new(const struct mem *mem, struct shape3 in, struct shape3 out,
                            const struct op_conv *conv)
{
    struct peaks_sum *s = mem_array(mem, 1, sizeof *s);
    if (s == NULL)
        return NULL;
    *s = (struct peaks_sum){.mem = mem, .in = in, .out = out, .conv = *conv};
    s->height = in.height + 2 * (size_t)conv->pad + ROWS;
    s->width = in.width + 2 * (size_t)conv->pad + LANES;
    /* Windows reach over the border by less than their size. */
    const size_t windows =
        ((size_t)out.height + WINDOW_MAX_KERNEL) * ((size_t)out.width + WINDOW_MAX_KERNEL);
    s->image = op_floats(mem, in.channels * s->height * s->width);
    s->sums = op_floats(mem, (size_t)out.channels * in.channels * ROWS * LANES);
    s->places = mem_array(mem, windows, sizeof *s->places);
    s->values = op_floats(mem, windows);
    if (s->image == NULL || s->sums == NULL || s->places == NULL || s->values == NULL) {
        peaks_free(s);
        return NULL;
    }
    return s;
}

void peaks_free(struct peaks_sum *s)
{
    if (s == NULL)
        return;
    op_floats_free(s->mem, s->image);
    op_floats_free(s->mem, s->sums);
    op_floats_free(s->mem, s->values);
    mem_free(s->mem, s->places);
    mem_free(s->mem, s);
}

#if defined(__x86_64__)
/* The borders stay zero. */
static void take_image(struct peaks_sum *s, const float *in)
{
    for (size_t c = 0; c < s->in.channels; c++)
        for (size_t y = 0; y < s->in.height; y++) {
            float *row = s->image + (c * s->height + y + s->conv.pad) * s->width + s->conv.pad;
            memcpy(row, in + (c * s->in.height + y) * s->in.width, s->in.width * sizeof *row);
        }
}

/* Where the patch of a window's first place lies, and how much further that of another place. */
struct map {
    ptrdiff_t corner, down, right; /* down, right: from one window to the next */
    int32_t places[PLACES];
};

static void map_make(const struct peaks_sum *s, const struct window *w, struct map *map)
{
    const ptrdiff_t row = (ptrdiff_t)(s->conv.stride * s->width), col = s->conv.stride;
    map->corner = -(ptrdiff_t)w->pad * (row + col);
    map->down = w->stride * row;
    map->right = w->stride * col;
    for (uint32_t k = 0; k < w->kernel * w->kernel; k++)
        map->places[k] = (int32_t)(k / w->kernel * row + k % w->kernel * col);
}

/* Lists a filter's peaks in one image; at: the first of its values. Without branches: which values
 * are zero nobody can predict. */
static void list(struct peaks_sum *s, const struct peaks *peaks, const struct map *map, size_t at)
{
    const struct window *w = peaks->window;
    const float *out = peaks->out != NULL ? peaks->out : peaks->diff;
    const uint32_t all = peaks->out != NULL ? 0 : UINT32_MAX;
    const float *diff = peaks->diff;
    const uint8_t *which = peaks->which;
    const size_t lanes = w->lanes;
    float *values = s->values;
    int32_t *places = s->places;
    size_t count = 0;
    for (uint32_t y = 0; y < w->out_height; y++) {
        ptrdiff_t place = map->corner + (ptrdiff_t)y * map->down;
        for (uint32_t x = 0; x < w->out_width; x++, at += lanes, place += map->right) {
            uint32_t bits;
            memcpy(&bits, &diff[at], sizeof bits);
            bits &= (0U - (uint32_t)(out[at] > 0)) | all;
            memcpy(&values[count], &bits, sizeof bits);
            places[count] = (int32_t)(place + map->places[which[at]]);
            count += bits << 1 != 0; /* a zero may have a sign */
        }
    }
    s->count = count;
}

/* Adds the patches of one channel: the rows of a kernel, and some that are not looked at. Returns
 * the sum of the values. */
AVX2_FMA static float add_patches(const struct peaks_sum *s, const float *image, float *sums)
{
    const size_t width = s->width;
    __m256 a = _mm256_loadu_ps(sums), b = _mm256_loadu_ps(sums + LANES);
    __m256 c = _mm256_loadu_ps(sums + 2 * LANES), d = _mm256_loadu_ps(sums + 3 * LANES);
    __m256 e = _mm256_loadu_ps(sums + 4 * LANES), total = _mm256_setzero_ps();
    for (size_t i = 0; i < s->count; i++) {
        const __m256 value = _mm256_broadcast_ss(s->values + i);
        const float *patch = image + s->places[i];
        total = _mm256_add_ps(total, value);
        a = _mm256_fmadd_ps(value, _mm256_loadu_ps(patch), a);
        b = _mm256_fmadd_ps(value, _mm256_loadu_ps(patch + width), b);
        c = _mm256_fmadd_ps(value, _mm256_loadu_ps(patch + 2 * width), c);
        d = _mm256_fmadd_ps(value, _mm256_loadu_ps(patch + 3 * width), d);
        e = _mm256_fmadd_ps(value, _mm256_loadu_ps(patch + 4 * width), e);
    }
    _mm256_storeu_ps(sums, a);
    _mm256_storeu_ps(sums + LANES, b);
    _mm256_storeu_ps(sums + 2 * LANES, c);
    _mm256_storeu_ps(sums + 3 * LANES, d);
    _mm256_storeu_ps(sums + 4 * LANES, e);
    return _mm256_cvtss_f32(total);
}

static void give_dense(const struct peaks_sum *s, float *dense)
{
    const size_t kernel = s->conv.kernel, planes = (size_t)s->out.channels * s->in.channels;
    for (size_t i = 0; i < planes * kernel * kernel; i++)
        dense[i] = s->sums[(i / kernel / kernel * ROWS + i / kernel % kernel) * LANES + i % kernel];
}

/* One filter over one image. */
static void add_filter(struct peaks_sum *s, size_t filter, struct param *param)
{
    float total = 0;
    for (size_t c = 0; c < s->in.channels; c++)
        total = add_patches(s, s->image + c * s->height * s->width,
                            s->sums + (filter * s->in.channels + c) * ROWS * LANES);
    if (param->dense_bias != NULL)
        param->dense_bias[filter] += total;
}

void peaks_weigh(struct peaks_sum *s, const struct peaks *peaks, uint32_t batch, const float *in,
                 struct param *param)
{
    const struct window *w = peaks->window;
    const size_t blocks = w->planes / batch;
    const size_t plane = (size_t)w->out_height * w->out_width * w->lanes;
    const size_t sums = (size_t)s->out.channels * s->in.channels * ROWS * LANES;
    struct map map;
    map_make(s, w, &map);
    memset(s->sums, 0, sums * sizeof(float));
    if (param->dense_bias != NULL)
        memset(param->dense_bias, 0, s->out.channels * sizeof(float));
    for (uint32_t n = 0; n < batch; n++) {
        take_image(s, in + n * shape3_floats(s->in));
        for (size_t f = 0; f < s->out.channels; f++) {
            list(s, peaks, &map, (n * blocks + f / w->lanes) * plane + f % w->lanes);
            add_filter(s, f, param);
        }
    }
    give_dense(s, param->dense);
}
#else
void peaks_weigh(struct peaks_sum *s, const struct peaks *peaks, uint32_t batch, const float *in,
                 struct param *param)
{
    (void)s, (void)peaks, (void)batch, (void)in, (void)param; /* peaks_can() said no */
}
#endif
