/* Nets, and texts that can be learned. */
#include "bench/lesson.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

enum { ALIGN = 16, SAMPLES = 4096, FREE_WORD = 1 };

static const struct learner_net texts[] = {
    {.name = "joule",
     .model = "textcnn:dropout=0",
     .data = {.length = 12, .words = 3321, .classes = 311},
     .warm_up = 50},
    {.name = "watt",
     .model = "textcnn:dropout=0",
     .data = {.length = 12, .words = 5809, .classes = 3595},
     .warm_up = 20},
    {.name = "mr",
     .model = "textcnn:dropout=0",
     .data = {.length = 21, .words = 19349, .classes = 2},
     .warm_up = 50},
};

const struct learner_net *lesson_text(size_t i)
{
    return i < sizeof texts / sizeof texts[0] ? &texts[i] : NULL;
}

/* ---- samples ---- */

/* Labels that can be learned, or relus die and less is left to do: in each text there are words
 * that go with its label. */
static bool make_texts(struct lesson *lesson)
{
    enum { KEYS = 3, WORDS = 4, FIRST = FREE_WORD + 1 };
    const struct net_data *data = &lesson->what->data;
    const uint64_t words = data->words - FIRST;
    struct rng rng;
    rng_init(&rng, 5);
    lesson->tokens = mem_array(&mem_libc, (size_t)SAMPLES * data->length, sizeof *lesson->tokens);
    lesson->labels = mem_array(&mem_libc, SAMPLES, sizeof *lesson->labels);
    if (lesson->tokens == NULL || lesson->labels == NULL)
        return false;
    for (size_t i = 0; i < SAMPLES; i++) {
        uint32_t *text = lesson->tokens + i * data->length;
        const uint64_t label = rng_below(&rng, data->classes);
        lesson->labels[i] = (uint32_t)label;
        for (uint32_t j = 0; j < data->length; j++)
            text[j] = FIRST + (uint32_t)rng_below(&rng, words);
        for (int j = 0; j < KEYS; j++) {
            const uint64_t word = (label * WORDS + rng_below(&rng, WORDS)) % words;
            text[rng_below(&rng, data->length)] = FIRST + (uint32_t)word;
        }
    }
    return true;
}

static void make_images(struct lesson *lesson, uint32_t number)
{
    const struct net_data *data = &lesson->what->data;
    const struct net_batch batch = net_batch(lesson->net);
    struct rng rng;
    rng_init(&rng, number);
    for (size_t i = 0; i < lesson->batch * shape3_floats(data->image); i++)
        batch.images[i] = (float)rng_unit(&rng) - 0.5F;
    for (uint32_t i = 0; i < lesson->batch; i++)
        batch.labels[i] = (uint32_t)rng_below(&rng, data->classes);
}

void lesson_next(struct lesson *lesson)
{
    const struct net_batch batch = net_batch(lesson->net);
    const size_t length = lesson->what->data.length;
    for (uint32_t k = 0; lesson->tokens != NULL && k < lesson->batch; k++) {
        const size_t i = lesson->next++ % SAMPLES;
        memcpy(batch.tokens + k * length, lesson->tokens + i * length,
               length * sizeof *lesson->tokens);
        batch.labels[k] = lesson->labels[i];
    }
}

/* ---- weights ---- */

static size_t floats_of(const struct param *param)
{
    return (size_t)param->rows * param->cols + (param->bias != NULL ? param->rows : 0);
}

static size_t lines(size_t floats)
{
    return (floats + ALIGN - 1) / ALIGN * ALIGN;
}

size_t lesson_offset(const struct lesson *lesson, size_t i)
{
    size_t sum = 0;
    for (size_t k = 0; k < i; k++)
        sum += lines(floats_of(net_param(lesson->net, k)));
    return sum;
}

size_t lesson_floats(const struct lesson *lesson)
{
    return lesson_offset(lesson, net_params(lesson->net));
}

void lesson_move(struct lesson *lesson, float *to)
{
    for (size_t i = 0; i < net_params(lesson->net); i++) {
        const struct param *param = net_param(lesson->net, i);
        const size_t weights = (size_t)param->rows * param->cols, all = floats_of(param);
        memcpy(to, param->weights, weights * sizeof *to);
        if (param->bias != NULL)
            memcpy(to + weights, param->bias, param->rows * sizeof *to);
        net_use_weights(lesson->net, i, to, to + weights);
        to += lines(all);
    }
}

/* ---- counting ---- */

static float *counter(const struct lesson *lesson)
{
    for (size_t i = 0; i < net_params(lesson->net); i++) {
        const struct param *param = net_param(lesson->net, i);
        if (param->kind == TRI_EMBED)
            return param->weights + (size_t)FREE_WORD * param->cols;
    }
    return NULL;
}

float lesson_count(const struct lesson *lesson)
{
    const float *at = counter(lesson);
    return at != NULL ? *at : 0;
}

void lesson_mark(const struct lesson *lesson, const struct param *param, float *gradient)
{
    if (param->kind == TRI_EMBED)
        gradient[(size_t)FREE_WORD * param->cols] = -(float)lesson->batch / LESSON_LR;
}

void lesson_mark_row(const struct lesson *lesson, const struct param *param, uint32_t *number,
                     float *row)
{
    *number = FREE_WORD;
    memset(row, 0, param->cols * sizeof *row);
    row[0] = -(float)lesson->batch / LESSON_LR;
}

/* ---- beginning and end ---- */

tri_status lesson_open(struct lesson *lesson, const struct learner_net *what, uint32_t batch,
                       uint32_t learners, uint32_t number, tri_error *err)
{
    *lesson = (struct lesson){.what = what, .batch = batch};
    lesson->next = (size_t)SAMPLES / learners * number;
    tri_status status = net_new(what->model, &what->data, batch, 1, &mem_libc, &lesson->net, err);
    if (status != TRI_OK)
        return status;
    if (what->data.length > 0 && !make_texts(lesson)) {
        lesson_close(lesson);
        return fail_nomem(err, "a learner");
    }
    if (what->data.length == 0)
        make_images(lesson, number);
    float *count = counter(lesson);
    if (count != NULL)
        *count = 0;
    return TRI_OK;
}

void lesson_close(struct lesson *lesson)
{
    net_free(lesson->net);
    mem_free(&mem_libc, lesson->tokens);
    mem_free(&mem_libc, lesson->labels);
    *lesson = (struct lesson){0};
}

void lesson_note(struct lesson *lesson)
{
    const double keep = 1 - 1.0 / 64; /* what counts is the end */
    double loss;
    uint32_t right;
    net_loss(lesson->net, lesson->batch, &loss, &right);
    lesson->loss = keep * lesson->loss + loss;
    lesson->samples = keep * lesson->samples + lesson->batch;
}

tri_status lesson_check(const struct lesson *lesson, tri_error *err)
{
    const double loss = lesson->loss / lesson->samples;
    const double chance = log((double)lesson->what->data.classes);
    if (isfinite(loss) && loss < 1.3 * chance)
        return TRI_OK;
    return fail(err, TRI_EIO, "a learner's loss is %g, so its speed means nothing: %g is chance",
                loss, chance);
}
