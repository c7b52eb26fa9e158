/* Learning in place: net_learn() comes to what net_backward() and a plain SGD step come to, for
 * every net, and with parameters that lie elsewhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/batch.h"
#include "engine/check.h"
#include "engine/net.h"
#include "lib/fault.h"

static const struct net_data grey = {.image = {1, 28, 28}, .classes = 10};
static const struct net_data tiny = {.image = {2, 16, 16}, .classes = 3};
static const struct net_data words = {.length = 7, .words = 23, .classes = 5};
static const float alpha = -0.0625F;

static struct net *open_net(const char *model, const struct net_data *data, uint32_t batch)
{
    struct net *net = NULL;
    tri_error err = {0};
    if (net_new(model, data, batch, 7, &mem_libc, &net, &err) != TRI_OK)
        fail_msg("%s: %s", model, err.text);
    return net;
}

static size_t floats_of(const struct param *param)
{
    return (size_t)param->rows * param->cols;
}

/* ---- the long way ---- */

/* Adds alpha * gradient to rows x cols doubles, and rows of bias behind them. */
static void step_copy(const struct param *param, double *to)
{
    const size_t cols = param->cols;
    double *bias = to + floats_of(param);
    for (uint32_t i = 0; param->row_numbers != NULL && i < param->row_count; i++)
        for (size_t n = 0; n < cols; n++)
            to[param->row_numbers[i] * cols + n] +=
                (double)alpha * (double)param->row_values[i * cols + n];
    for (uint32_t k = 0; k < param->factor_rows; k++)
        for (uint32_t m = 0; m < param->rows; m++) {
            const double u = (double)param->u[(size_t)k * param->rows + m];
            for (size_t n = 0; n < cols; n++)
                to[m * cols + n] += (double)alpha * u * (double)param->v[k * cols + n];
            bias[m] += (double)alpha * u;
        }
    for (size_t i = 0; param->dense != NULL && i < floats_of(param); i++)
        to[i] += (double)alpha * (double)param->dense[i];
    for (size_t m = 0; param->dense_bias != NULL && m < param->rows; m++)
        bias[m] += (double)alpha * (double)param->dense_bias[m];
}

static double *copy_of(const struct param *param)
{
    const size_t count = floats_of(param);
    double *to = calloc(count + param->rows, sizeof *to);
    assert_non_null(to);
    for (size_t i = 0; i < count; i++)
        to[i] = (double)param->weights[i];
    for (size_t m = 0; param->bias != NULL && m < param->rows; m++)
        to[count + m] = (double)param->bias[m];
    return to;
}

static void check_param(const char *model, uint32_t batch, const struct param *param,
                        const double *wanted)
{
    const size_t count = floats_of(param);
    const double slack = 3e-7 * (2 + sqrt((double)batch));
    for (size_t i = 0; i < count + (param->bias != NULL ? param->rows : 0); i++) {
        const double got = (double)(i < count ? param->weights[i] : param->bias[i - count]);
        if (!(fabs(got - wanted[i]) <= slack * (1 + fabs(wanted[i]))))
            fail_msg("%s, batch %u: %s[%zu] is %.9g, not %.9g", model, (unsigned)batch, param->name,
                     i, got, wanted[i]);
    }
}

/* ---- parameters elsewhere ---- */

struct elsewhere {
    float *blocks[64];
    size_t count;
};

/* Rows with a float before them: no address is a round one. */
static void move(struct net *net, struct elsewhere *to)
{
    for (size_t i = 0; i < net_params(net); i++) {
        const struct param *param = net_param(net, i);
        const size_t count = floats_of(param), bias = param->bias != NULL ? param->rows : 0;
        float *block = malloc((1 + count + bias) * sizeof *block);
        assert_non_null(block);
        assert_true(to->count < sizeof to->blocks / sizeof to->blocks[0]);
        to->blocks[to->count++] = block;
        memcpy(block + 1, param->weights, count * sizeof *block);
        if (bias > 0)
            memcpy(block + 1 + count, param->bias, bias * sizeof *block);
        net_use_weights(net, i, block + 1, block + 1 + count);
    }
}

static void free_blocks(struct elsewhere *elsewhere)
{
    while (elsewhere->count > 0)
        free(elsewhere->blocks[--elsewhere->count]);
}

static const struct {
    const char *model;
    const struct net_data *data;
} nets[] = {{"mlp:33x2", &tiny},
            {"textcnn:embed=9,filters=13,hidden=21,dropout=0", &words},
            {"textcnn:embed=9,filters=13,hidden=21,dropout=0.5", &words},
            {"textcnn:embed=24,filters=5,hidden=0,dropout=0", &words},
            {"lenet", &grey},
            {"cifar10-quick", &tiny},
            {"resnet20:blocks=1", &tiny}};
enum { NETS = sizeof nets / sizeof nets[0] };

TEST(a_net_computes_with_parameters_that_lie_elsewhere)
{
    (void)state;
    for (size_t i = 0; i < NETS; i++) {
        struct elsewhere elsewhere = {.count = 0};
        struct net *a = open_net(nets[i].model, nets[i].data, 3);
        struct net *b = open_net(nets[i].model, nets[i].data, 3);
        move(b, &elsewhere);
        fill_batch(a, nets[i].data, 5);
        fill_batch(b, nets[i].data, 5);
        assert_true(net_forward(a, true, 0, NULL) && net_forward(b, true, 0, NULL));
        const size_t values = (size_t)3 * nets[i].data->classes;
        assert_memory_equal(net_probabilities(a), net_probabilities(b), values * sizeof(float));
        const struct param *last = net_param(b, net_params(b) - 1);
        elsewhere.blocks[elsewhere.count - 1][1 + floats_of(last)] += 1; /* its first bias */
        assert_true(net_forward(b, true, 0, NULL));
        assert_memory_not_equal(net_probabilities(a), net_probabilities(b), values * sizeof(float));
        net_free(a);
        net_free(b);
        free_blocks(&elsewhere);
    }
}

/* ---- learning ---- */

/* The second step begins where the first ended, so that nothing of it is left over. */
static void compare(const char *model, const struct net_data *data, uint32_t batch, uint64_t avoid)
{
    struct elsewhere elsewhere = {.count = 0};
    struct net *a = open_net(model, data, batch), *b = open_net(model, data, batch);
    move(b, &elsewhere);
    if (avoid > 0)
        net_avoid(b, avoid);
    for (uint64_t turn = 0; turn < 2; turn++) {
        fill_batch(a, data, 3 + turn);
        fill_batch(b, data, 3 + turn);
        assert_true(net_forward(a, true, turn * batch, NULL) && net_backward(a, NULL));
        assert_true(net_forward(b, true, turn * batch, NULL) && net_learn(b, alpha, NULL));
        for (size_t i = 0; i < net_params(a); i++) {
            struct param *long_way = net_param(a, i), *short_way = net_param(b, i);
            double *wanted = copy_of(long_way);
            step_copy(long_way, wanted);
            check_param(model, batch, short_way, wanted);
            memcpy(long_way->weights, short_way->weights, floats_of(long_way) * sizeof(float));
            if (long_way->bias != NULL)
                memcpy(long_way->bias, short_way->bias, long_way->rows * sizeof(float));
            free(wanted);
        }
    }
    net_free(a);
    net_free(b);
    free_blocks(&elsewhere);
}

TEST(learning_in_place_is_a_step_of_plain_sgd)
{
    (void)state;
    static const uint32_t batches[] = {1, 2, 8, 32};
    for (size_t i = 0; i < NETS; i++)
        for (size_t j = 0; j < sizeof batches / sizeof batches[0]; j++)
            compare(nets[i].model, nets[i].data, batches[j], 0);
}

/* Layers that no cache holds go another way. */
TEST(large_layers_learn_the_same)
{
    (void)state;
    static const struct net_data wide = {.image = {1030, 1, 1}, .classes = 3};
    compare("mlp:2100x2", &wide, 12, 0);
}

TEST(learners_that_avoid_each_other_learn_the_same)
{
    (void)state;
    for (uint64_t seed = 1; seed < 6; seed++) {
        compare("mlp:70x2", &tiny, 1, seed);
        compare("mlp:70x2", &tiny, 8, seed);
        compare("textcnn:embed=9,filters=113,hidden=70,dropout=0", &words, 1, seed);
        compare("textcnn:embed=9,filters=113,hidden=70,dropout=0", &words, 3, seed);
    }
}

/* Somewhere else in each pass, and not where another begins. */
TEST(layers_begin_where_the_seed_says)
{
    (void)state;
    struct net *net = open_net("mlp:997x2", &tiny, 1);
    struct net *other = open_net("mlp:997x2", &tiny, 1);
    net_avoid(net, 1);
    net_avoid(other, 2);
    fill_batch(net, &tiny, 1);
    fill_batch(other, &tiny, 1);
    assert_true(net_forward(net, true, 0, NULL) && net_learn(net, alpha, NULL));
    assert_true(net_forward(other, true, 0, NULL) && net_learn(other, alpha, NULL));
    /* Sums that begin with other rows are rounded in another way: so the layer before differs. */
    const struct param *a = net_param(net, 0), *b = net_param(other, 0);
    assert_memory_not_equal(a->weights, b->weights, floats_of(a) * sizeof(float));
    net_free(net);
    net_free(other);
}

struct seen {
    struct net *net;
    float before[8];
    size_t order[8], count, stop;
};

static bool see(void *ctx, size_t param)
{
    struct seen *seen = ctx;
    assert_true(net_param(seen->net, param)->bias[0] != seen->before[param]);
    seen->order[seen->count++] = param;
    return seen->count != seen->stop;
}

TEST(each_layer_is_told_of_when_it_has_been_stepped)
{
    (void)state;
    struct net *net = open_net("lenet", &grey, 4);
    struct seen seen = {.net = net};
    struct net_calls calls = {.ctx = &seen, .ready = see};
    fill_batch(net, &grey, 1);
    for (size_t i = 0; i < net_params(net); i++)
        seen.before[i] = net_param(net, i)->bias[0];
    assert_true(net_forward(net, true, 0, NULL) && net_learn(net, alpha, &calls));
    assert_int_equal(seen.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(seen.order[i], 3 - i);
    seen.count = 0;
    seen.stop = 2;
    assert_true(net_forward(net, true, 0, NULL));
    assert_false(net_learn(net, alpha, &calls));
    assert_int_equal(seen.count, 2);
    net_free(net);
}

/* ---- steps of others, along the way ---- */

enum { LAYERS_MOST = 8 };

/* Samples of somebody else for each layer that can take them. */
struct company {
    struct net *net;
    size_t count;
    float *u[LAYERS_MOST], *v[LAYERS_MOST];
    uint32_t *at[LAYERS_MOST];
    size_t asked, ready, told; /* learns(), ready(), layers that were to be stepped */
    size_t here;               /* every `here`th layer is */
};

static size_t width_of(const struct param *param)
{
    return param->as_windows ? param->window_floats : param->cols;
}

static void company_init(struct company *company, struct net *net, size_t count)
{
    *company = (struct company){.net = net, .count = count, .here = 1};
    struct rng rng;
    rng_init(&rng, count);
    assert_true(net_params(net) <= LAYERS_MOST);
    for (size_t i = 0; i < net_params(net) && i < LAYERS_MOST; i++) {
        const struct param *param = net_param(net, i);
        const size_t us = count * param->rows, vs = count * width_of(param);
        company->u[i] = calloc(us + 1, sizeof(float));
        company->v[i] = calloc(vs + 1, sizeof(float));
        company->at[i] = calloc(us + 1, sizeof(uint32_t));
        assert_non_null(company->u[i]);
        assert_non_null(company->v[i]);
        assert_non_null(company->at[i]);
        for (size_t k = 0; k < us; k++) {
            company->u[i][k] = rng_below(&rng, 2) == 0 ? 0 : 0.1F * (float)rng_normal(&rng);
            if (param->as_windows)
                company->at[i][k] =
                    (uint32_t)rng_below(&rng, param->window_floats - param->cols + 1);
        }
        for (size_t k = 0; k < vs; k++)
            company->v[i][k] = 0.1F * (float)rng_normal(&rng);
    }
}

static void company_fini(struct company *company)
{
    for (size_t i = 0; i < LAYERS_MOST; i++) {
        free(company->u[i]);
        free(company->v[i]);
        free(company->at[i]);
    }
}

static float by_of(size_t k)
{
    return k % 3 == 0 ? 1 : 0.25F * (float)k;
}

static bool join_in(void *ctx, size_t number, bool *here, struct op_step *step)
{
    struct company *company = ctx;
    const struct param *param = net_param(company->net, number);
    *here = ++company->asked % company->here == 0;
    if (!*here)
        return true;
    company->told |= (size_t)1 << number;
    step->alpha = alpha;
    step->count = company->count;
    for (size_t k = 0; k < company->count; k++)
        step->others[k] = (struct op_other){
            .u = company->u[number] + k * param->rows,
            .v = company->v[number] + k * width_of(param),
            .at = param->as_windows ? company->at[number] + k * param->rows : NULL,
            .by = by_of(k)};
    return true;
}

static bool count_ready(void *ctx, size_t number)
{
    struct company *company = ctx;
    assert_true(net_param(company->net, number)->kind == TRI_EMBED);
    company->ready++;
    return true;
}

/* alpha times all samples of one's own, by u, v and at, and of others. */
static void step_company(const struct company *company, size_t number, const struct param *own,
                         double *to)
{
    const size_t rows = own->rows, cols = own->cols, width = width_of(own);
    for (size_t k = 0; k < own->factor_rows + company->count; k++) {
        const bool mine = k < own->factor_rows;
        const size_t other = mine ? 0 : k - own->factor_rows;
        const float *u = mine ? own->u + k * rows : company->u[number] + other * rows;
        const float *v = mine ? own->v + k * width : company->v[number] + other * width;
        for (size_t m = 0; m < rows; m++) {
            const double by = (double)alpha * (mine ? 1 : (double)by_of(other)) * (double)u[m];
            const size_t at = !own->as_windows ? 0
                              : mine           ? own->at[k * rows + m]
                                               : company->at[number][other * rows + m];
            for (size_t n = 0; n < cols; n++)
                to[m * cols + n] += by * (double)v[at + n];
            to[rows * cols + m] += by;
        }
    }
}

/* The gradient that goes back is of one's own samples: then the embedding's rows are the same. */
static void check_rows(const struct param *got, const struct param *want)
{
    assert_int_equal(got->row_count, want->row_count);
    for (size_t i = 0; i < (size_t)got->row_count * got->cols; i++)
        assert_float_equal(got->row_values[i], want->row_values[i],
                           1e-5F * (1 + fabsf(want->row_values[i])));
}

static void check_company(const char *model, const struct net_data *data, uint32_t batch,
                          size_t count, size_t here)
{
    struct net *plain = open_net(model, data, batch), *net = open_net(model, data, batch);
    struct company company;
    net_give_windows(plain);
    net_give_windows(net);
    company_init(&company, net, count);
    company.here = here;
    fill_batch(plain, data, 9);
    fill_batch(net, data, 9);
    const struct net_calls calls = {.ctx = &company, .ready = count_ready, .learns = join_in};
    assert_true(net_forward(plain, true, 0, NULL) && net_backward(plain, NULL));
    assert_true(net_forward(net, true, 0, NULL) && net_backward(net, &calls));
    assert_int_equal(company.asked + company.ready, net_params(net));
    for (size_t i = 0; i < net_params(net); i++) {
        const struct param *want = net_param(plain, i);
        double *wanted = copy_of(want);
        if ((company.told >> i & 1) != 0)
            step_company(&company, i, want, wanted);
        check_param(model, batch, net_param(net, i), wanted);
        if (want->kind == TRI_EMBED)
            check_rows(net_param(net, i), want);
        free(wanted);
    }
    company_fini(&company);
    net_free(plain);
    net_free(net);
}

TEST(steps_of_others_are_made_along_with_ones_own)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 5, OP_OTHERS};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (uint32_t batch = 1; batch <= 4; batch++)
            for (size_t here = 1; here <= 2; here++) {
                check_company("mlp:33x2", &tiny, batch, counts[i], here);
                check_company("textcnn:embed=9,filters=13,hidden=21,dropout=0", &words, batch,
                              counts[i], here);
                check_company("textcnn:embed=24,filters=50,hidden=0,dropout=0.5", &words, batch,
                              counts[i], here);
            }
}

/* Of more samples one pass would be slower than two; filters go along all the same. */
static bool is_windows(void *ctx, size_t number, bool *here, struct op_step *step)
{
    struct company *company = ctx;
    assert_true(net_param(company->net, number)->as_windows);
    return join_in(ctx, number, here, step);
}

static bool count_any(void *ctx, size_t number)
{
    (void)number;
    ((struct company *)ctx)->ready++;
    return true;
}

TEST(layers_of_many_samples_are_handed_over_as_ever)
{
    (void)state;
    struct net *net = open_net("textcnn:embed=9,filters=13,hidden=21,dropout=0", &words, 8);
    struct company company;
    net_give_windows(net);
    company_init(&company, net, 3);
    fill_batch(net, &words, 9);
    const struct net_calls calls = {.ctx = &company, .ready = count_any, .learns = is_windows};
    assert_true(net_forward(net, true, 0, NULL) && net_backward(net, &calls));
    assert_int_equal(company.asked, 3);
    assert_int_equal(company.ready, 3);
    company_fini(&company);
    net_free(net);
}

static bool refuse(void *ctx, size_t number, bool *here, struct op_step *step)
{
    (void)number, (void)here, (void)step;
    ++*(size_t *)ctx;
    return false;
}

TEST(who_says_no_stops_the_backward_pass)
{
    (void)state;
    struct net *net = open_net("mlp:33x2", &tiny, 1);
    size_t asked = 0;
    const struct net_calls calls = {.ctx = &asked, .learns = refuse};
    fill_batch(net, &tiny, 9);
    assert_true(net_forward(net, true, 0, NULL));
    assert_false(net_backward(net, &calls));
    assert_int_equal(asked, 1);
    net_free(net);
}

/* ---- operators ---- */

TEST(a_row_that_comes_twice_is_stepped_twice)
{
    (void)state;
    struct op_frame frame = check_frame(&mem_libc, 1);
    struct op *tokens = NULL, *op = NULL;
    assert_int_equal(op_tokens_new(&frame, 4, &tokens, NULL), TRI_OK);
    assert_int_equal(op_embed_new(&frame, tokens, 6, 3, &op, NULL), TRI_OK);
    memcpy(op_tokens(tokens), (const uint32_t[]){2, 0, 2, 5}, 4 * sizeof(uint32_t));
    op->kind->forward(op, true);
    for (size_t i = 0; i < 12; i++)
        op->diff.data[i] = (float)(i + 1);
    op_learn(op, 0.5F);
    for (size_t n = 0; n < 3; n++) {
        const float first = (float)(n + 1), third = (float)(n + 7), last = (float)(n + 10);
        assert_float_equal(op->param->weights[(size_t)2 * 3 + n], 0.5F * (first + third), 1e-6F);
        assert_float_equal(op->param->weights[(size_t)5 * 3 + n], 0.5F * last, 1e-6F);
        assert_true(op->param->weights[n] == 0); /* padding */
    }
    op_free(op);
    op_free(tokens);
}

/* Two users of one input: learn() of the second adds to what the first left. */
static void check_second_user(struct op *(*make)(struct op *in))
{
    struct op *in = check_source(2, (struct shape3){6, 1, 8}, 4), *op = make(in);
    const size_t count = check_values(in);
    check_fill_param(op->param, 9);
    op->kind->forward(op, true);
    check_fill(op->diff.data, check_values(op), 11);
    in->diff_written = false;
    for (size_t i = 0; i < count; i++)
        in->diff.data[i] = NAN;
    op_learn(op, 0);
    float *once = malloc((count + 1) * sizeof *once);
    assert_non_null(once);
    memcpy(once, in->diff.data, count * sizeof *once);
    assert_true(in->diff_written);
    for (size_t i = 0; i < count; i++)
        in->diff.data[i] = (float)(i % 7);
    op_learn(op, 0);
    for (size_t i = 0; i < count; i++)
        assert_float_equal(in->diff.data[i], (float)(i % 7) + once[i], 1e-5F);
    free(once);
    op_free(op);
    op_free(in);
}

static struct op *make_fc(struct op *in)
{
    struct op_frame frame = check_frame(&mem_libc, 2);
    struct op *op = NULL;
    assert_int_equal(op_fc_new(&frame, in, 9, true, &op, NULL), TRI_OK);
    return op;
}

static struct op *make_textconv(struct op *in)
{
    struct op_frame frame = check_frame(&mem_libc, 2);
    struct op *op = NULL;
    assert_int_equal(op_textconv_new(&frame, in, 9, 3, &op, NULL), TRI_OK);
    return op;
}

TEST(a_second_user_of_an_input_adds_its_gradient)
{
    (void)state;
    check_second_user(make_fc);
    check_second_user(make_textconv);
}

/* ---- memory ---- */

TEST(refused_memory_for_a_large_layer_leaves_nothing_behind)
{
    (void)state;
    struct op *in = check_source(12, (struct shape3){1024, 1, 1}, 1);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        const struct op_frame frame = check_frame(&fault.mem, 12);
        struct op *op = NULL;
        tri_status status = op_fc_new(&frame, in, 2048, true, &op, NULL);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        op_free(op);
    }
    op_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_net_computes_with_parameters_that_lie_elsewhere),
        cmocka_unit_test(learning_in_place_is_a_step_of_plain_sgd),
        cmocka_unit_test(large_layers_learn_the_same),
        cmocka_unit_test(learners_that_avoid_each_other_learn_the_same),
        cmocka_unit_test(layers_begin_where_the_seed_says),
        cmocka_unit_test(each_layer_is_told_of_when_it_has_been_stepped),
        cmocka_unit_test(steps_of_others_are_made_along_with_ones_own),
        cmocka_unit_test(layers_of_many_samples_are_handed_over_as_ever),
        cmocka_unit_test(who_says_no_stops_the_backward_pass),
        cmocka_unit_test(a_row_that_comes_twice_is_stepped_twice),
        cmocka_unit_test(a_second_user_of_an_input_adds_its_gradient),
        cmocka_unit_test(refused_memory_for_a_large_layer_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
