/* Optimisers: against their formulas in doubles, and what every row keeps to. */
#include "mod/optim.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test.h"

enum { N = 50 };

/* One parameter, stepped in doubles by the textbook. */
struct slow {
    double w, a, b;
};

static void slow_step(const char *name, const float *args, struct slow *s, double g, double lr,
                      uint64_t steps)
{
    double m = (double)args[0];
    if (strcmp(name, "sgd") == 0) {
        s->w -= lr * g;
    } else if (strcmp(name, "momentum") == 0) {
        s->a = m * s->a + g;
        s->w -= lr * s->a;
    } else if (strcmp(name, "nesterov") == 0) {
        s->a = m * s->a + g;
        s->w -= lr * (g + m * s->a);
    } else if (strcmp(name, "adagrad") == 0) {
        s->a += g * g;
        s->w -= lr * g / (sqrt(s->a) + m);
    } else {
        double b2 = (double)args[1], t = (double)steps + 1;
        s->a = m * s->a + (1 - m) * g;
        s->b = b2 * s->b + (1 - b2) * g * g;
        s->w -= lr * (s->a / (1 - pow(m, t))) / (sqrt(s->b / (1 - pow(b2, t))) + (double)args[2]);
    }
}

TEST(every_optimizer_follows_its_formula)
{
    (void)state;
    for (size_t o = 0; optim_at(o) != NULL; o++) {
        struct optim optim;
        struct rng rng;
        float params[N], state_floats[4 * N] = {0}, mean[N];
        struct slow slow[N] = {{0}};
        assert_int_equal(optim_read(optim_at(o)->name, &optim, NULL), TRI_OK);
        rng_init(&rng, o);
        for (size_t i = 0; i < N; i++)
            slow[i].w = (double)(params[i] = (float)rng_normal(&rng));
        for (uint64_t step = 0; step < 30; step++) {
            for (size_t i = 0; i < N; i++) {
                mean[i] = (float)rng_normal(&rng);
                slow_step(optim.ops->name, optim.args, &slow[i], (double)mean[i], 0.01, step);
            }
            optim.ops->step(optim.args, params, state_floats, mean, N, 0.01f, step);
        }
        for (size_t i = 0; i < N; i++)
            assert_true(fabs((double)params[i] - slow[i].w) < 1e-5);
    }
}

TEST(any_cutting_gives_the_same_bits)
{
    (void)state;
    for (size_t o = 0; optim_at(o) != NULL; o++) {
        struct optim optim;
        struct rng rng;
        float whole[N], cut[N], mean[N], a[2 * N] = {0}, b[2 * N] = {0}, c[2 * N] = {0};
        assert_int_equal(optim_read(optim_at(o)->name, &optim, NULL), TRI_OK);
        rng_init(&rng, o);
        for (size_t i = 0; i < N; i++)
            whole[i] = cut[i] = (float)rng_normal(&rng);
        for (uint64_t step = 0; step < 5; step++) {
            for (size_t i = 0; i < N; i++)
                mean[i] = (float)rng_normal(&rng);
            optim.ops->step(optim.args, whole, a, mean, N, 0.1f, step);
            optim.ops->step(optim.args, cut, b, mean, 17, 0.1f, step);
            optim.ops->step(optim.args, cut + 17, c, mean + 17, N - 17, 0.1f, step);
        }
        assert_memory_equal(whole, cut, sizeof whole);
    }
}

TEST(numbers_are_read_and_defaults_filled_in)
{
    (void)state;
    struct optim optim;
    assert_int_equal(optim_read("adam:0.5,0.25", &optim, NULL), TRI_OK);
    assert_true(optim.args[0] == 0.5f && optim.args[1] == 0.25f && optim.args[2] == 1e-8f);
    assert_int_equal(optim_read("momentum", &optim, NULL), TRI_OK);
    assert_true(optim.args[0] == 0.9f);
}

TEST(what_is_not_understood_is_named)
{
    (void)state;
    static const char *const wrong[] = {
        "",          ":",          "sgd:",           "sgd:1",
        "momentum:", "momentum:x", "momentum:0.9,",  "adam:0.1,0.2,0.3,0.4",
        "adam:,0.9", "adam:0.9,",  "adam:0.9,,1e-8", "momentun"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct optim optim = {0};
        tri_error err = {0};
        if (optim_read(wrong[i], &optim, &err) != TRI_EINPUT)
            fail_msg("'%s' was read", wrong[i]);
        assert_true(err.next[0] != '\0');
        assert_null(optim.ops);
    }
    tri_error err = {0};
    struct optim optim;
    (void)optim_read("momentun:0.9", &optim, &err);
    assert_string_equal(err.next, "did you mean momentum?");
}

TEST(numbers_that_would_not_train_are_refused_with_their_range)
{
    (void)state;
    static const struct {
        const char *text, *what, *next;
    } rows[] = {
        {"momentum:1", "momentum is 1", "give momentum from 0 to below 1, such as 0.9"},
        {"momentum:2", "momentum is 2", "from 0 to below 1"},
        {"momentum:0.99999999999", "momentum is 0.99999999999", "from 0 to below 1"}, /* 1.0f */
        {"nesterov:1.5", "momentum is 1.5", "from 0 to below 1"},
        {"adam:1", "beta1 is 1", "give beta1 from 0 to below 1, such as 0.9"},
        {"adam:0.9,1", "beta2 is 1", "such as 0.999"},
        {"adam:0.9,0.999,0", "epsilon is 0", "epsilon above 0, such as 1e-8"},
        {"adagrad:0", "epsilon is 0", "above 0"},
        {"adagrad:1e-60", "epsilon is 1e-60", "above 0"}, /* 0 as a float */
        {"adagrad:1e60", "epsilon is 1e60", "above 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct optim optim = {0};
        tri_error err = {0};
        if (optim_read(rows[i].text, &optim, &err) != TRI_EINPUT ||
            strstr(err.text, rows[i].what) == NULL || strstr(err.next, rows[i].next) == NULL)
            fail_msg("%s: '%s', try '%s'", rows[i].text, err.text, err.next);
        assert_null(optim.ops);
    }
    static const char *const right[] = {"momentum:0", "nesterov:0.999", "adam:0,0,1e-30",
                                        "adagrad:5"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        struct optim optim;
        assert_int_equal(optim_read(right[i], &optim, NULL), TRI_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_follows_its_formula),
        cmocka_unit_test(any_cutting_gives_the_same_bits),
        cmocka_unit_test(numbers_are_read_and_defaults_filled_in),
        cmocka_unit_test(what_is_not_understood_is_named),
        cmocka_unit_test(numbers_that_would_not_train_are_refused_with_their_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
