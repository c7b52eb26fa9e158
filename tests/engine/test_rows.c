/* net_calls.rows: whoever brings rows up to date when they are told of has them in time, and the
 * outputs are those of a plain forward pass. net_calls.pending: so they are with steps that are
 * still to be made. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/batch.h"
#include "engine/net.h"
#include "lib/test.h"

static const struct net_data tiny = {.image = {2, 16, 16}, .classes = 3};
static const struct net_data grey = {.image = {1, 28, 28}, .classes = 10};
static const struct net_data words = {.length = 7, .words = 23, .classes = 5};
static const struct net_data long_texts = {.length = 40, .words = 90, .classes = 5};

enum { LAYERS = 40, BLOCK = 48 };

/* Parameters of which nothing is there until it is told of. */
struct late {
    struct net *net;
    float *weights[LAYERS], *bias[LAYERS]; /* what they are to be */
    size_t told[LAYERS];                   /* rows */
    size_t calls[LAYERS];
    size_t layer;       /* told of last */
    size_t count, stop; /* calls; the one that stops */
    size_t before;      /* calls of before() */
};

static struct net *open_net(const char *model, const struct net_data *data, uint32_t batch)
{
    struct net *net = NULL;
    tri_error err = {0};
    if (net_new(model, data, batch, 7, &mem_libc, &net, &err) != TRI_OK)
        fail_msg("%s: %s", model, err.text);
    return net;
}

static float *taken(float *from, size_t count)
{
    float *to = malloc(count * sizeof *to);
    assert_non_null(to);
    memcpy(to, from, count * sizeof *to);
    for (size_t i = 0; i < count; i++)
        from[i] = NAN;
    return to;
}

static void late_init(struct late *late, struct net *net)
{
    *late = (struct late){.net = net};
    assert_true(net_params(net) <= LAYERS);
    for (size_t i = 0; i < net_params(net); i++) {
        struct param *param = net_param(net, i);
        late->weights[i] = taken(param->weights, (size_t)param->rows * param->cols);
        late->bias[i] = param->bias != NULL ? taken(param->bias, param->rows) : NULL;
    }
}

static void late_fini(struct late *late)
{
    for (size_t i = 0; i < net_params(late->net); i++) {
        free(late->weights[i]);
        free(late->bias[i]);
    }
}

static bool rows_are_read(void *ctx, size_t number, size_t rows)
{
    struct late *late = ctx;
    struct param *param = net_param(late->net, number);
    const size_t from = late->told[number], cols = param->cols;
    assert_true(number >= late->layer && rows > from && rows <= param->rows);
    memcpy(param->weights + from * cols, late->weights[number] + from * cols,
           (rows - from) * cols * sizeof(float));
    if (param->bias != NULL)
        memcpy(param->bias + from, late->bias[number] + from, (rows - from) * sizeof(float));
    late->told[number] = rows;
    late->layer = number;
    late->calls[number]++;
    return ++late->count != late->stop;
}

static bool count_before(void *ctx, size_t param)
{
    struct late *late = ctx;
    (void)param;
    late->before++;
    return true;
}

static size_t most_calls(const struct param *param)
{
    return (param->rows + BLOCK - 1) / BLOCK;
}

static void check(const char *model, const struct net_data *data, uint32_t batch)
{
    struct net *plain = open_net(model, data, batch), *net = open_net(model, data, batch);
    struct late late;
    fill_batch(plain, data, 5);
    fill_batch(net, data, 5);
    late_init(&late, net);
    const struct net_calls calls = {.ctx = &late, .before = count_before, .rows = rows_are_read};
    assert_true(net_forward(plain, true, 0, NULL));
    assert_true(net_forward(net, true, 0, &calls));
    assert_memory_equal(net_probabilities(plain), net_probabilities(net),
                        (size_t)batch * data->classes * sizeof(float));
    assert_int_equal(late.before, 0);
    for (size_t i = 0; i < net_params(net); i++) {
        assert_int_equal(late.told[i], net_param(net, i)->rows);
        assert_true(late.calls[i] == 1 || late.calls[i] == most_calls(net_param(net, i)));
    }
    /* Nobody is told any more who did not ask. */
    const size_t count = late.count;
    assert_true(net_forward(net, true, 0, NULL));
    assert_int_equal(late.count, count);
    late_fini(&late);
    net_free(plain);
    net_free(net);
}

TEST(rows_are_told_of_before_they_are_read)
{
    (void)state;
    static const struct {
        const char *model;
        const struct net_data *data;
    } nets[] = {{"mlp:33x2", &tiny},
                {"mlp:149x2", &tiny},
                {"mlp:96x1", &tiny},
                {"textcnn:embed=9,filters=13,hidden=21,dropout=0", &words},
                {"textcnn:embed=9,filters=113,hidden=70,dropout=0.5", &words},
                {"textcnn:embed=8,filters=101,hidden=50,dropout=0", &long_texts},
                {"lenet", &grey},
                {"resnet20:blocks=1", &tiny}};
    static const uint32_t batches[] = {1, 2, 3, 4, 5, 33};
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++)
        for (size_t j = 0; j < sizeof batches / sizeof batches[0]; j++)
            check(nets[i].model, nets[i].data, batches[j]);
}

/* What it is for: blocks that a cache holds. */
TEST(filters_over_text_go_block_by_block)
{
    (void)state;
    struct net *net = open_net("textcnn:embed=9,filters=113,hidden=70,dropout=0", &words, 1);
    struct late late;
    fill_batch(net, &words, 5);
    late_init(&late, net);
    const struct net_calls calls = {.ctx = &late, .rows = rows_are_read};
    assert_true(net_forward(net, true, 0, &calls));
    for (size_t i = 0; i < net_params(net); i++)
        assert_int_equal(late.calls[i],
                         net_param(net, i)->kind == TRI_CONV ? most_calls(net_param(net, i)) : 1);
    assert_int_equal(late.calls[1], 3);
    late_fini(&late);
    net_free(net);
}

/* Whichever call it is, it is the last. */
TEST(a_call_that_says_no_stops_the_pass)
{
    (void)state;
    size_t all = SIZE_MAX;
    for (size_t stop = 1; stop <= all; stop++) {
        struct net *net = open_net("textcnn:embed=9,filters=113,hidden=70,dropout=0", &words, 1);
        struct late late;
        fill_batch(net, &words, 5);
        late_init(&late, net);
        late.stop = stop;
        const struct net_calls calls = {.ctx = &late, .rows = rows_are_read};
        const bool ended = net_forward(net, true, 0, &calls);
        if (ended)
            all = stop - 1;
        assert_int_equal(late.count, ended ? all : stop);
        late_fini(&late);
        net_free(net);
        if (ended)
            break;
    }
    assert_int_equal(all, 1 + 3 * 3 + 1 + 1);
}

/* ---- steps that are still to be made ---- */

/* A net whose fully connected layers lack some steps, until somebody makes them. */
struct lacking {
    struct net *net;
    size_t count;                 /* of steps */
    float *u[LAYERS], *v[LAYERS]; /* of layers that lack some, else NULL */
    float *elsewhere[LAYERS];     /* where they lie, if they are `moved` */
    size_t asked, told;           /* calls of pending, and of rows for such layers */
    bool refuses, moved;
};

static float *drawn(size_t count, double most, struct rng *rng)
{
    float *to = malloc((count + 1) * sizeof *to);
    assert_non_null(to);
    for (size_t i = 0; i < count; i++)
        to[i] = (float)(most * rng_normal(rng));
    return to;
}

static void add_steps(const struct lacking *lacking, size_t number, double by)
{
    struct param *param = net_param(lacking->net, number);
    const float *u = lacking->u[number], *v = lacking->v[number];
    for (size_t m = 0; m < param->rows; m++) {
        double bias = 0;
        for (size_t k = 0; k < lacking->count; k++)
            bias += (double)u[k * param->rows + m];
        param->bias[m] = (float)((double)param->bias[m] + by * bias);
        for (size_t n = 0; n < param->cols; n++) {
            double sum = 0;
            for (size_t k = 0; k < lacking->count; k++)
                sum += (double)u[k * param->rows + m] * (double)v[k * param->cols + n];
            float *w = &param->weights[m * param->cols + n];
            *w = (float)((double)*w + by * sum);
        }
    }
}

static void lacking_init(struct lacking *lacking, struct net *net, size_t count)
{
    struct rng rng;
    rng_init(&rng, count);
    *lacking = (struct lacking){.net = net, .count = count};
    for (size_t i = 0; i < net_params(net); i++) {
        const struct param *param = net_param(net, i);
        if (param->kind != TRI_FC)
            continue;
        lacking->u[i] = drawn(count * param->rows, 0.2, &rng);
        lacking->v[i] = drawn(count * param->cols, 0.2, &rng);
        add_steps(lacking, i, -1);
    }
}

static void lacking_fini(struct lacking *lacking)
{
    for (size_t i = 0; i < net_params(lacking->net); i++) {
        free(lacking->u[i]);
        free(lacking->v[i]);
        free(lacking->elsewhere[i]);
    }
}

/* The layer is somewhere else, and what is in its place is of no use. */
static void move_layer(struct lacking *lacking, size_t number, struct op_pending *out)
{
    struct param *param = net_param(lacking->net, number);
    const size_t matrix = (size_t)param->rows * param->cols;
    float *to = lacking->elsewhere[number] = malloc((matrix + param->rows) * sizeof *to);
    assert_non_null(to);
    memcpy(to, param->weights, matrix * sizeof *to);
    memcpy(to + matrix, param->bias, param->rows * sizeof *to);
    for (size_t i = 0; i < matrix; i++)
        param->weights[i] = NAN;
    for (size_t i = 0; i < param->rows; i++)
        param->bias[i] = NAN;
    out->weights = to;
    out->bias = to + matrix;
}

static void move_back(struct lacking *lacking)
{
    for (size_t i = 0; i < net_params(lacking->net); i++) {
        struct param *param = net_param(lacking->net, i);
        const size_t matrix = (size_t)param->rows * param->cols;
        if (lacking->elsewhere[i] == NULL)
            continue;
        memcpy(param->weights, lacking->elsewhere[i], matrix * sizeof(float));
        memcpy(param->bias, lacking->elsewhere[i] + matrix, param->rows * sizeof(float));
    }
}

static bool rows_are_stepped(void *ctx, size_t number, size_t rows)
{
    struct lacking *lacking = ctx;
    if (lacking->u[number] == NULL || rows < net_param(lacking->net, number)->rows)
        return true;
    add_steps(lacking, number, 1);
    lacking->told++;
    return true;
}

static bool steps_are_given(void *ctx, size_t number, struct op_pending *out)
{
    struct lacking *lacking = ctx;
    assert_non_null(lacking->u[number]);
    lacking->asked++;
    *out = (struct op_pending){
        .count = lacking->count, .u = lacking->u[number], .v = lacking->v[number]};
    if (lacking->moved)
        move_layer(lacking, number, out);
    return !lacking->refuses;
}

static void check_near(const float *got, const float *want, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - want[i]) <= 2e-4F * (1 + fabsf(want[i]))))
            fail_msg("%s, value %zu: %g, not %g", what, i, (double)got[i], (double)want[i]);
}

static void check_factors(struct net *net, struct net *plain, uint32_t batch)
{
    for (size_t i = 0; i < net_params(net); i++) {
        const struct param *got = net_param(net, i), *want = net_param(plain, i);
        if (got->kind != TRI_FC)
            continue;
        check_near(got->u, want->u, (size_t)batch * got->rows, "u");
        check_near(got->v, want->v, (size_t)batch * got->cols, "v");
    }
}

/* There and back: outputs, and what goes out as factors. */
static void check_lacking(const char *model, const struct net_data *data, uint32_t batch,
                          size_t count, bool moved)
{
    struct net *plain = open_net(model, data, batch), *net = open_net(model, data, batch);
    struct lacking lacking;
    fill_batch(plain, data, 5);
    fill_batch(net, data, 5);
    lacking_init(&lacking, net, count);
    lacking.moved = moved;
    const struct net_calls calls = {
        .ctx = &lacking, .rows = rows_are_stepped, .pending = steps_are_given};
    assert_true(net_forward(plain, true, 0, NULL) && net_backward(plain, NULL));
    assert_true(net_forward(net, true, 0, &calls) && net_backward(net, &calls));
    assert_true(batch <= 4 ? lacking.told == 0 : lacking.asked == 0);
    assert_true(lacking.told + lacking.asked > 1);
    check_near(net_probabilities(net), net_probabilities(plain), (size_t)batch * data->classes,
               model);
    check_factors(net, plain, batch);
    move_back(&lacking);
    for (size_t i = 0; i < net_params(net); i++)
        if (lacking.u[i] != NULL && batch <= 4)
            add_steps(&lacking, i, 1);
    assert_true(net_forward(net, true, 0, NULL) && net_backward(net, NULL)); /* they are made */
    check_factors(net, plain, batch);
    lacking_fini(&lacking);
    net_free(plain);
    net_free(net);
}

TEST(steps_that_are_still_to_be_made_are_reckoned_with)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 7, 16, 37};
    static const uint32_t batches[] = {1, 2, 3, 4, 5};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (size_t j = 0; j < sizeof batches / sizeof batches[0]; j++) {
            check_lacking("mlp:149x2", &tiny, batches[j], counts[i], false);
            check_lacking("textcnn:embed=9,filters=33,hidden=70,dropout=0", &words, batches[j],
                          counts[i], false);
        }
}

TEST(layers_are_read_where_they_are_said_to_lie)
{
    (void)state;
    for (uint32_t batch = 1; batch <= 4; batch++) {
        check_lacking("mlp:149x2", &tiny, batch, 3, true);
        check_lacking("textcnn:embed=9,filters=33,hidden=70,dropout=0", &words, batch, 0, true);
    }
}

TEST(who_gives_no_steps_stops_the_pass)
{
    (void)state;
    struct net *net = open_net("mlp:149x2", &tiny, 1);
    struct lacking lacking;
    fill_batch(net, &tiny, 5);
    lacking_init(&lacking, net, 0);
    lacking.refuses = true;
    const struct net_calls calls = {
        .ctx = &lacking, .rows = rows_are_stepped, .pending = steps_are_given};
    assert_false(net_forward(net, true, 0, &calls));
    assert_int_equal(lacking.asked, 1);
    lacking_fini(&lacking);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_told_of_before_they_are_read),
        cmocka_unit_test(filters_over_text_go_block_by_block),
        cmocka_unit_test(a_call_that_says_no_stops_the_pass),
        cmocka_unit_test(steps_that_are_still_to_be_made_are_reckoned_with),
        cmocka_unit_test(layers_are_read_where_they_are_said_to_lie),
        cmocka_unit_test(who_gives_no_steps_stops_the_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
