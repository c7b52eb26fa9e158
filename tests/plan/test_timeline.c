/* The estimate of an iteration, and the choice that follows from it. */
#include "plan/timeline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/books.h"
#include "lib/test.h"

/* One layer of 1,000 x 1,000 that computes for `seconds`. */
static struct profile *one_layer(double seconds)
{
    struct profile *profile = book_one_layer("FC", 1000, 1000, 0);
    profile->iteration_s = seconds;
    profile->compute_batch = 32;
    profile->layers[0].fwd_share = 1;
    profile->layers[0].bwd_share = 2;
    return profile;
}

static struct plan *plan_by(const struct profile *profile, unsigned workers, const char *scheme)
{
    struct book book = book_of(profile, workers);
    book.schemes = book_scheme(scheme);
    book.chunk_bytes = 1 << 20;
    return book_plan(&book);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static void compute_is_split_by_the_profiles_shares(void **state)
{
    (void)state;
    struct profile *profile = one_layer(3);
    struct book book = book_of(profile, 2);
    struct plan *plan = book_plan(&book);
    assert_true(near(plan->layers[0].forward_s, 1));
    assert_true(near(plan->layers[0].backward_s, 2));
    plan_free(plan);
    profile_free(profile);
}

static struct profile *read_profile(const char *layers)
{
    char text[600];
    struct profile *profile = NULL;
    tri_error err = {0};
    (void)snprintf(text, sizeof text,
                   "{\"format\": \"layer-profile/1\", \"name\": \"m\", \"default_batch\": 32, "
                   "\"compute\": {\"default\": {\"iteration_s\": 3, \"batch\": 32}}, \"layers\": "
                   "[%s]}",
                   layers);
    if (profile_read("m", text, strlen(text), &mem_libc, &profile, &err) != TRI_OK)
        fail_msg("%s", err.text);
    return profile;
}

/* A time for the whole iteration is all that it has. */
static void compute_is_split_by_parameters_where_nothing_else_is_known(void **state)
{
    (void)state;
    struct profile *profile =
        read_profile("{\"name\": \"a\", \"type\": \"FC\", \"M\": 10, \"N\": 10},"
                     "{\"name\": \"pool\", \"type\": \"OTHER\", \"M\": 0, \"N\": 0},"
                     "{\"name\": \"b\", \"type\": \"CONV\", \"M\": 10, \"N\": 20}");
    struct book book = book_of(profile, 2);
    struct plan *plan = book_plan(&book);
    assert_int_equal(plan->count, 2);
    assert_true(near(plan->layers[0].forward_s, 1.0 / 3));
    assert_true(near(plan->layers[0].backward_s, 2.0 / 3));
    assert_true(near(plan->layers[1].forward_s, 2.0 / 3));
    assert_true(near(plan->layers[1].backward_s, 4.0 / 3));
    assert_true(isfinite(plan->iteration_s) && plan->iteration_s >= 3);
    plan_free(plan);
    profile_free(profile);
}

static void one_worker_only_computes(void **state)
{
    (void)state;
    struct profile *profile = one_layer(3);
    struct book book = book_of(profile, 1);
    struct plan *plan = book_plan(&book);
    assert_true(near(plan->iteration_s, 3));
    plan_free(plan);
    profile_free(profile);
}

static void a_profile_without_compute_has_no_estimate(void **state)
{
    (void)state;
    struct profile *profile = book_one_layer("FC", 1000, 1000, 0);
    struct book book = book_of(profile, 4);
    struct plan *plan = book_plan(&book);
    assert_true(isnan(plan->iteration_s));
    plan_free(plan);
    profile_free(profile);
}

/* Factors of 32 rows: 256 kB to the other, 204.8 us at 10 Gbit/s, and 64 Mflop at 1 TFLOP/s. */
static void factors_come_after_the_last_layer_and_are_multiplied_out(void **state)
{
    (void)state;
    struct profile *profile = one_layer(3e-3);
    struct book book = book_of(profile, 2);
    book.schemes = book_scheme("sfb");
    struct plan *plan = book_plan(&book);
    assert_true(near(plan->iteration_s, 3e-3 + 204.8e-6 + 64e-6));
    assert_true(near(plan->iteration_slow_s, 3e-3 + 1.25 * 204.8e-6 + 64e-6));
    plan_free(plan);
    profile_free(profile);
}

/* All of the layer on one of two servers: up, then down. */
static void a_whole_layer_goes_up_and_then_comes_back(void **state)
{
    (void)state;
    struct profile *profile = one_layer(3e-3);
    struct book book = book_of(profile, 2);
    book.schemes = book_scheme("ps");
    book.chunk_bytes = 1 << 24;
    struct plan *plan = book_plan(&book);
    double one_way = 8 * 4e6 / 1e10;
    assert_true(plan->iteration_s >= 3e-3 + 2 * one_way * 0.99);
    assert_true(plan->iteration_s <= 3e-3 + 2 * one_way * 1.01);
    plan_free(plan);
    profile_free(profile);
}

static void what_compute_hides_costs_nothing(void **state)
{
    (void)state;
    struct profile *vgg = book_model("vgg19");
    struct book book = book_of(vgg, 4);
    book.bits_s = 1e12;
    book.flops_s = vgg->flops_s;
    book.schemes = book_scheme("ps");
    struct plan *plan = book_plan(&book);
    assert_true(plan->iteration_s < 1.001 * plan->compute_s);
    plan_free(plan);
    profile_free(vgg);
}

/* A slow device and a link that compute hides: factors would only be multiplied. Alone, a layer is
 * still cheaper by sfb. */
static void products_are_not_taken_where_the_link_has_time(void **state)
{
    (void)state;
    struct profile *vgg = book_model("vgg19");
    struct book book = book_of(vgg, 32);
    book.bits_s = 100e9;
    book.flops_s = vgg->flops_s;
    book.schemes = book_scheme("ps") | book_scheme("sfb");
    book.rule = PLAN_BYTES;
    struct plan *bytes = book_plan(&book);
    book.rule = PLAN_TIME;
    struct plan *time = book_plan(&book);
    const struct plan_layer *fc6 = NULL;
    for (size_t i = 0; i < time->count; i++)
        if (time->layers[i].profile == profile_layer(vgg, "fc6"))
            fc6 = &time->layers[i];
    assert_non_null(fc6);
    if (fc6 == NULL)
        return;
    assert_string_equal(scheme_at(fc6->scheme)->name, "ps");
    size_t sfb = book_scheme_index("sfb");
    assert_true(fc6->costs[sfb].time_s < fc6->costs[fc6->scheme].time_s);
    assert_true(time->iteration_s < 0.99 * bytes->iteration_s);
    size_t other = 0;
    assert_int_equal(plan_leaves(time, fc6, 64, &other), 0);
    assert_int_equal(plan_came(time, fc6, &other), 0);
    plan_free(bytes);
    plan_free(time);
    profile_free(vgg);
}

/* What the planner is judged by in tools/rules: one of its cases in which neither ps nor sfb for
 * all FC layers is best. */
static struct book mixed_case(const struct profile *alexnet)
{
    struct book book = book_of(alexnet, 16);
    book.bits_s = 100e9;
    book.latency_s = 50e-6;
    book.message_s = 5e-6;
    book.memory_bytes_s = 10e9;
    book.flops_s = alexnet->flops_s;
    book.schemes = book_scheme("ps") | book_scheme("sfb");
    return book;
}

static void schemes_are_mixed_layer_by_layer_where_that_is_shorter(void **state)
{
    (void)state;
    struct profile *alexnet = book_model("alexnet");
    struct book book = mixed_case(alexnet);
    struct plan *mixed = book_plan(&book);
    book.rule = PLAN_BYTES;
    struct plan *bytes = book_plan(&book);
    book.schemes = book_scheme("ps");
    struct plan *ps = book_plan(&book);
    assert_true(mixed->iteration_s < 0.95 * bytes->iteration_s);
    assert_true(mixed->iteration_s < 0.95 * ps->iteration_s);
    plan_free(mixed);
    plan_free(bytes);
    plan_free(ps);
    profile_free(alexnet);
}

/* With so many layers trying each would take long: the plan is one of the four. */
static void large_models_are_not_tried_layer_by_layer(void **state)
{
    (void)state;
    struct profile *alexnet = book_model("alexnet");
    struct book book = mixed_case(alexnet);
    book.chunk_bytes = 256; /* a million pieces */
    struct plan *plan = book_plan(&book);
    for (size_t i = 0; i < plan->count; i++)
        for (size_t k = 0; scheme_at(k) != NULL; k++)
            assert_true(isnan(plan->layers[i].costs[k].iteration_s));
    plan_free(plan);
    profile_free(alexnet);
}

/* Where the price alone would have taken another scheme, the plan knows what that would make of the
 * iteration, and nothing is foretold. */
static void what_a_cheaper_scheme_would_make_of_the_iteration_is_known(void **state)
{
    (void)state;
    struct profile *profile = book_model("inception_v3");
    struct book book = book_of(profile, 32);
    book.bits_s = 40e9;
    book.flops_s = profile->flops_s;
    book.schemes = book_scheme("ps") | book_scheme("sfb");
    struct plan *plan = book_plan(&book);
    const struct plan_layer *logits = &plan->layers[plan->count - 1];
    size_t ps = book_scheme_index("ps"), sfb = book_scheme_index("sfb"), other = SCHEME_MAX;
    assert_int_equal(logits->scheme, sfb);
    assert_true(logits->costs[ps].time_s < logits->costs[sfb].time_s);
    assert_true(logits->costs[ps].iteration_s < plan->iteration_s); /* by too little */
    assert_true(logits->costs[ps].iteration_s > 0.99 * plan->iteration_s);
    assert_true(isnan(logits->costs[sfb].iteration_s));
    assert_false(plan_by_price(plan, logits));
    assert_int_equal(plan_leaves(plan, logits, 4096, &other), 0);
    assert_int_equal(plan_came(plan, logits, &other), 0);
    plan_free(plan);
    profile_free(profile);
}

static void more_servers_behind_one_layer_make_it_no_slower(void **state)
{
    (void)state;
    struct profile *profile = one_layer(1e-3);
    double last = INFINITY;
    for (unsigned workers = 8; workers >= 2; workers /= 2) {
        struct plan *plan = plan_by(profile, workers, "ps");
        assert_true(plan->iteration_s <= last);
        assert_true(plan->iteration_slow_s > plan->iteration_s);
        last = plan->iteration_s;
        plan_free(plan);
    }
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compute_is_split_by_the_profiles_shares),
        cmocka_unit_test(compute_is_split_by_parameters_where_nothing_else_is_known),
        cmocka_unit_test(one_worker_only_computes),
        cmocka_unit_test(a_profile_without_compute_has_no_estimate),
        cmocka_unit_test(factors_come_after_the_last_layer_and_are_multiplied_out),
        cmocka_unit_test(a_whole_layer_goes_up_and_then_comes_back),
        cmocka_unit_test(what_compute_hides_costs_nothing),
        cmocka_unit_test(products_are_not_taken_where_the_link_has_time),
        cmocka_unit_test(schemes_are_mixed_layer_by_layer_where_that_is_shorter),
        cmocka_unit_test(large_models_are_not_tried_layer_by_layer),
        cmocka_unit_test(what_a_cheaper_scheme_would_make_of_the_iteration_is_known),
        cmocka_unit_test(more_servers_behind_one_layer_make_it_no_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
