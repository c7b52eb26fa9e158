/* engine/net, engine/nets: what the models are made of, and gradients of whole nets. */
#include "engine/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/batch.h"
#include "lib/fault.h"
#include "lib/test.h"

static const struct net_data cifar = {.image = {3, 32, 32}, .classes = 10};
static const struct net_data grey = {.image = {1, 28, 28}, .classes = 10};
static const struct net_data tiny = {.image = {2, 16, 16}, .classes = 3};
static const struct net_data reviews = {.length = 21, .words = 19349, .classes = 2};
static const struct net_data words = {.length = 7, .words = 11, .classes = 3};

static struct net *open_net(const char *model, const struct net_data *data, uint32_t batch)
{
    struct net *net = NULL;
    tri_error err = {0};
    if (net_new(model, data, batch, 7, &mem_libc, &net, &err) != TRI_OK)
        fail_msg("%s: %s", model, err.text);
    return net;
}

static uint64_t params_of(const char *model, const struct net_data *data)
{
    struct net *net = open_net(model, data, 2);
    uint64_t sum = 0;
    for (size_t i = 0; i < net_params(net); i++) {
        const struct param *param = net_param(net, i);
        sum += (uint64_t)param->rows * param->cols + (param->bias != NULL ? param->rows : 0);
    }
    net_free(net);
    return sum;
}

TEST(models_have_the_parameters_of_their_profiles)
{
    (void)state;
    assert_int_equal(params_of("cifar10-quick", &cifar), 145578);
    assert_int_equal(params_of("cifar10_quick", &cifar), 145578);
    assert_int_equal(params_of("lenet", &grey), 431080);
    assert_int_equal(params_of("textcnn", &reviews), 3567482); /* models/gadei_mr.json */
    assert_int_equal(params_of("mlp:32x2", &grey), 784 * 32 + 32 + 32 * 32 + 32 + 32 * 10 + 10);
    assert_int_equal(params_of("mlp:width=32,layers=1", &grey), 784 * 32 + 32 + 32 * 10 + 10);
    assert_int_equal(params_of("textcnn:embed=4,filters=5,hidden=0", &words),
                     11 * 4 + 5 * (3 + 4 + 5) * 4 + 15 + 15 * 3 + 3);
}

static void refuse(const char *model, const struct net_data *data, const char *text,
                   const char *next)
{
    struct net *net = NULL;
    tri_error err = {0};
    assert_int_equal(net_new(model, data, 2, 7, &mem_libc, &net, &err), TRI_EINPUT);
    assert_string_equal(err.text, text);
    assert_non_null(strstr(err.next, next));
    assert_null(net);
}

TEST(what_is_no_model_or_no_size_is_refused_by_name)
{
    (void)state;
    refuse("lenett", &grey, "there is no model 'lenett' to train", "lenet");
    refuse("lenet:3", &grey, "'3' is no size of the model 'lenet'", "write 'lenet'");
    refuse("mlp:3", &grey, "'3' is no size of the model 'mlp'", "WIDTHxLAYERS");
    refuse("mlp:0x2", &grey, "'0x2' is no size of the model 'mlp'", "WIDTHxLAYERS");
    refuse("textcnn:filter=3", &words, "'filter' is no size of the model 'textcnn'", "filters");
    refuse("textcnn:dropout=1", &words,
           "dropout '1' of the model 'textcnn' is not between 0 and 0.95", "");
    refuse("textcnn", &grey, "the model 'textcnn' takes text, and the data is images", "lenet");
    refuse("lenet", &words, "the model 'lenet' takes images, and the data is text", "textcnn");
}

/* ---- gradients ---- */

static double loss_now(struct net *net)
{
    double loss;
    uint32_t right;
    assert_true(net_forward(net, true, 40, NULL));
    net_loss(net, net_batch_size(net), &loss, &right);
    return loss;
}

/* The gradient at one weight, whatever form it has. */
static double gradient_at(const struct param *param, size_t row, size_t col)
{
    double sum = 0;
    if (param->row_numbers != NULL) {
        for (uint32_t i = 0; i < param->row_count; i++)
            if (param->row_numbers[i] == row)
                sum += (double)param->row_values[(size_t)i * param->cols + col];
        return sum;
    }
    if (param->factor_rows == 0)
        return (double)param->dense[row * param->cols + col];
    for (uint32_t k = 0; k < param->factor_rows; k++)
        sum += (double)param->u[(size_t)k * param->rows + row] *
               (double)param->v[(size_t)k * param->cols + col];
    return sum;
}

/* Relu and maxima have corners, where differences are of no use: one in ten may be off. */
static void check_gradients(const char *model, const struct net_data *data)
{
    struct net *net = open_net(model, data, 5);
    struct rng rng;
    unsigned checked = 0, off = 0;
    rng_init(&rng, 9);
    fill_batch(net, data, 3);
    (void)loss_now(net);
    assert_true(net_backward(net, NULL));
    for (size_t i = 0; i < net_params(net); i++) {
        struct param *param = net_param(net, i);
        for (int n = 0; n < 6; n++, checked++) {
            size_t row = rng_below(&rng, param->rows), col = rng_below(&rng, param->cols);
            float *at = &param->weights[row * param->cols + col], was = *at;
            double want = gradient_at(param, row, col), h = 2e-3;
            if (param->kind == TRI_EMBED && row == 0)
                continue; /* padding: no gradient */
            *at = was + (float)h;
            double up = loss_now(net);
            *at = was - (float)h;
            double down = loss_now(net);
            *at = was;
            double got = (up - down) / (2 * h);
            off += fabs(got - want) > 0.02 + 0.05 * fabs(want);
        }
    }
    if (off * 10 > checked)
        fail_msg("%s: %u of %u gradients are off", model, off, checked);
    net_free(net);
}

TEST(gradients_of_whole_nets_are_differences_of_the_loss)
{
    (void)state;
    check_gradients("mlp:20x3", &tiny);
    check_gradients("lenet", &grey);
    check_gradients("cifar10-quick", &tiny);
    check_gradients("resnet20:blocks=1", &tiny);
    check_gradients("textcnn:embed=6,filters=5,hidden=8", &words);
}

/* ---- calls ---- */

struct seen {
    size_t params[40], count, stop;
};

static bool see(void *ctx, size_t param)
{
    struct seen *seen = ctx;
    seen->params[seen->count++] = param;
    return seen->count != seen->stop;
}

TEST(layers_are_told_in_order_forward_and_from_the_last_backward)
{
    (void)state;
    struct net *net = open_net("lenet", &grey, 2);
    struct seen seen = {.count = 0};
    struct net_calls calls = {.ctx = &seen, .before = see, .ready = see};
    fill_batch(net, &grey, 3);
    assert_true(net_forward(net, true, 0, &calls));
    assert_true(net_backward(net, &calls));
    static const size_t wanted[] = {0, 1, 2, 3, 3, 2, 1, 0};
    assert_int_equal(seen.count, 8);
    assert_memory_equal(seen.params, wanted, sizeof wanted);
    seen = (struct seen){.stop = 2};
    assert_false(net_forward(net, true, 0, &calls));
    assert_int_equal(seen.count, 2);
    net_free(net);
}

TEST(equal_seeds_give_equal_values_and_padding_is_zero)
{
    (void)state;
    struct net *a = open_net("textcnn:embed=6,filters=5", &words, 2);
    struct net *b = open_net("textcnn:embed=6,filters=5", &words, 3);
    for (size_t i = 0; i < net_params(a); i++) {
        const struct param *x = net_param(a, i), *y = net_param(b, i);
        assert_memory_equal(x->weights, y->weights, (size_t)x->rows * x->cols * sizeof(float));
    }
    for (size_t i = 0; i < 6; i++)
        assert_true(net_param(a, 0)->weights[i] == 0);
    net_free(a);
    net_free(b);
}

TEST(running_statistics_are_buffers_by_name)
{
    (void)state;
    struct net *net = open_net("resnet20:blocks=1", &tiny, 2);
    assert_int_equal(net_buffers(net), 2 * 9);
    assert_string_equal(net_buffer(net, 0).name, "conv1.bn.running_mean");
    assert_string_equal(net_buffer(net, 1).name, "conv1.bn.running_var");
    assert_int_equal(net_buffer(net, 1).floats, 16);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_have_the_parameters_of_their_profiles),
        cmocka_unit_test(what_is_no_model_or_no_size_is_refused_by_name),
        cmocka_unit_test(gradients_of_whole_nets_are_differences_of_the_loss),
        cmocka_unit_test(layers_are_told_in_order_forward_and_from_the_last_backward),
        cmocka_unit_test(equal_seeds_give_equal_values_and_padding_is_zero),
        cmocka_unit_test(running_statistics_are_buffers_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
