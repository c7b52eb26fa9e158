/* The planner: what it must show for the papers' models, and the edges of the book. */
#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "lib/books.h"
#include "lib/test.h"
#include "plan/place.h"

static const char *scheme_of(const struct plan *plan, size_t i)
{
    return scheme_at(plan->layers[i].scheme)->name;
}

/* The scheme that one FC layer gets. */
static const char *choice(struct book *book, unsigned workers)
{
    book->workers = book->servers = book->colocated = workers;
    struct plan *plan = book_plan(book);
    const char *name = scheme_of(plan, 0);
    plan_free(plan);
    return name;
}

/* The first number of workers at which the layer does not take sfb. */
static unsigned leaves_sfb(struct book *book)
{
    for (unsigned p = 2; p < 300; p++)
        if (strcmp(choice(book, p), "sfb") != 0)
            return p;
    return 0;
}

/* ---- rule bytes ---- */

static void check_vgg(const char *model)
{
    struct profile *profile = book_model(model);
    struct book book = book_of(profile, 16);
    book.rule = PLAN_BYTES;
    struct plan *plan = book_plan(&book);
    assert_int_equal(plan->count, 19);
    for (size_t i = 0; i < plan->count; i++) {
        bool fc = plan->layers[i].profile->kind == TRI_FC;
        assert_string_equal(scheme_of(plan, i), fc ? "sfb" : "ps");
    }
    plan_free(plan);
    profile_free(profile);
}

TEST(vgg19_takes_sfb_for_its_three_fc_layers_by_bytes)
{
    (void)state;
    check_vgg("vgg19");
    check_vgg("vgg19_22k");
}

TEST(googlenets_fc_layer_takes_ps_by_bytes)
{
    (void)state;
    struct profile *profile = book_model("googlenet");
    struct book book = book_of(profile, 16);
    book.rule = PLAN_BYTES;
    book.batch = 128;
    struct plan *plan = book_plan(&book);
    const struct plan_layer *fc = &plan->layers[plan->count - 1];
    assert_int_equal(fc->profile->kind, TRI_FC);
    assert_string_equal(scheme_of(plan, plan->count - 1), "ps");
    assert_true(fc->costs[book_scheme_index("sfb")].cost.floats_both == 7772160);
    assert_true(fc->costs[book_scheme_index("ps")].cost.floats_both == 3840000);
    plan_free(plan);
    profile_free(profile);
}

TEST(a_layer_of_4096x1000_leaves_sfb_after_50_workers_by_bytes)
{
    (void)state;
    struct profile *profile = book_one_layer("FC", 4096, 1000, 0);
    struct book book = book_of(profile, 2);
    book.rule = PLAN_BYTES;
    assert_int_equal(leaves_sfb(&book), 51);
    profile_free(profile);
}

TEST(rule_bytes_counts_every_application_of_a_layer)
{
    (void)state;
    struct profile *profile = book_one_layer("FC", 4096, 1000, 0);
    struct book book = book_of(profile, 2);
    book.rule = PLAN_BYTES;
    profile->layers[0].applications = 5; /* K = 160: the bound is 50.2 / 5 */
    assert_int_equal(leaves_sfb(&book), 11);
    profile_free(profile);
}

/* ---- rule time ---- */

TEST(fc7_leaves_sfb_early_on_slow_nodes_and_late_on_fast_ones)
{
    (void)state;
    struct profile *profile = book_one_layer("FC", 4096, 4096, 0);
    struct book book = book_of(profile, 2);
    book.flops_s = 1e11;
    assert_int_equal(leaves_sfb(&book), 5);
    book.flops_s = 6e12;
    assert_in_range(leaves_sfb(&book), 58, 62);
    book.schemes = book_scheme("ps") | book_scheme("sfb");
    book.flops_s = 1e11;
    assert_int_equal(leaves_sfb(&book), 10);
    book.flops_s = 6e12;
    assert_int_equal(leaves_sfb(&book), 106);
    profile_free(profile);
}

TEST(time_is_the_sum_of_its_parts)
{
    (void)state;
    struct profile *profile = book_one_layer("FC", 1000, 2000, 1000);
    struct book book = book_of(profile, 4);
    book.latency_s = 1e-3;
    book.message_s = 1e-4;
    book.chunk_bytes = 65536;
    struct plan *plan = book_plan(&book);
    const struct plan_cost *sfb = &plan->layers[0].costs[book_scheme_index("sfb")];
    double bytes = 3.0 * 32 * 3000 * 4, messages = 3 * ceil(32.0 * 3000 * 4 / 65536);
    double want = 1e-3 + bytes * 8 / 1e10 + 2.0 * 3 * 32 * 2e6 / 1e12 + messages * 1e-4;
    assert_true(fabs(sfb->time_s - want) < 1e-12);
    plan_free(plan);
    profile_free(profile);
}

TEST(leaving_is_foretold_where_planning_again_finds_it)
{
    (void)state;
    struct profile *profile = book_one_layer("FC", 4096, 4096, 0);
    struct book book = book_of(profile, 2);
    book.schemes = book_scheme("ps") | book_scheme("sfb");
    book.flops_s = 1e11;
    book.servers_follow = true;
    struct plan *plan = book_plan(&book);
    size_t other = SCHEME_MAX;
    assert_int_equal(plan_leaves(plan, &plan->layers[0], 300, &other), 10);
    assert_string_equal(scheme_at(other)->name, "ps");
    assert_int_equal(plan_leaves(plan, &plan->layers[0], 9, &other), 0);
    plan_free(plan);
    profile_free(profile);
}

/* ---- the table of megabytes: ring, sfb, shard-sf for VGG's FC layers at K = 32 ---- */

struct megabytes {
    unsigned workers;
    double fc6[3], fc7[3], fc8[3], fc8_22k[3];
};

static const struct megabytes published[] = {
    {2, {411.0, 3.7, 207.7}, {67.1, 1.0, 34.3}, {16.4, 0.7, 8.6}, {357.8, 3.3, 180.8}},
    {4, {616.6, 11.2, 312.3}, {100.7, 3.1, 51.9}, {24.6, 2.0, 13.1}, {536.8, 10.0, 272.1}},
    {8, {719.3, 26.1, 366.1}, {117.4, 7.3, 61.5}, {28.7, 4.6, 15.7}, {626.2, 23.2, 319.2}},
    {12, {753.6, 41.1, 385.5}, {123.0, 11.5, 64.9}, {30.0, 7.2, 16.7}, {656.0, 36.5, 336.0}},
    {16, {770.7, 56.0, 395.3}, {125.8, 15.7, 66.8}, {30.7, 9.8, 17.3}, {671.0, 49.8, 344.7}},
    {24, {787.8, 85.9, 406.1}, {128.6, 24.1, 69.3}, {31.4, 15.0, 18.2}, {685.9, 76.4, 354.3}},
    {32, {796.4, 115.8, 412.5}, {130.0, 32.5, 71.1}, {31.7, 20.2, 18.9}, {693.3, 102.9, 360.2}},
    {48, {805.0, 175.6, 420.1}, {131.4, 49.3, 72.9}, {32.1, 30.7, 19.6}, {700.8, 156.0, 366.8}},
    {64, {809.2, 235.3, 425.5}, {132.1, 66.1, 74.3}, {32.3, 41.1, 20.2}, {704.5, 209.2, 371.5}},
    {96, {813.5, 354.9, 431.9}, {132.8, 99.6, 76.8}, {32.4, 62.0, 21.3}, {708.2, 315.4, 377.6}},
    {128, {815.7, 474.4, 437.2}, {133.2, 133.2, 79.1}, {32.5, 82.8, 22.4}, {710.1, 421.6, 382.8}},
};

static void check_megabytes(unsigned workers, unsigned rows, unsigned cols, const double want[3])
{
    static const char *const names[] = {"ring", "sfb", "shard-sf"};
    struct profile *profile = book_one_layer("FC", rows, cols, 0);
    struct book book = book_of(profile, workers);
    struct plan *plan = book_plan(&book);
    for (size_t i = 0; i < 3; i++) {
        double got = plan->layers[0].costs[book_scheme_index(names[i])].cost.send_bytes / 1e6;
        /* within 1 %, and within the last digit the table prints */
        if (fabs(got - want[i]) > fmax(0.01 * want[i], 0.051))
            fail_msg("%s of %ux%u at P=%u: %.2f MB, the table says %.1f", names[i], rows, cols,
                     workers, got, want[i]);
    }
    plan_free(plan);
    profile_free(profile);
}

TEST(megabytes_per_node_match_the_table)
{
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        const struct megabytes *row = &published[i];
        check_megabytes(row->workers, 4096, 25088, row->fc6);
        check_megabytes(row->workers, 4096, 4096, row->fc7);
        check_megabytes(row->workers, 1000, 4096, row->fc8);
        check_megabytes(row->workers, 21841, 4096, row->fc8_22k);
    }
}

/* ---- placement ---- */

static double variation_of(const struct profile *profile, const char *placement, bool only_ps)
{
    struct book book = book_of(profile, 4);
    book.batch = profile->default_batch;
    book.placement = placement_find(placement);
    if (only_ps)
        book.schemes = book_scheme("ps");
    else
        book.rule = PLAN_BYTES;
    struct plan *plan = book_plan(&book);
    double cv = plan->cv;
    plan_free(plan);
    return cv;
}

/* The thesis's Figure 5.3, with all layers on servers and as rule bytes would have it. */
static void check_variation(bool only_ps)
{
    static const char *const models[] = {"resnet110_cifar10", "googlenet", "inception_v4"};
    static const char *const others[] = {"round-robin", "greedy", "tensor"};
    double round_robin[3];
    for (size_t m = 0; m < 3; m++) {
        struct profile *profile = book_model(models[m]);
        double lpt = variation_of(profile, "lpt", only_ps);
        round_robin[m] = variation_of(profile, "round-robin", only_ps);
        for (size_t i = 0; i < 3; i++) {
            double other = variation_of(profile, others[i], only_ps);
            assert_true(lpt < other);
            if (m == 1)
                assert_true(other <= round_robin[m]);
        }
        assert_true(variation_of(profile, "uniform", only_ps) < 1e-3);
        profile_free(profile);
    }
    assert_true(round_robin[1] > round_robin[0] && round_robin[1] > round_robin[2]);
}

TEST(lpt_varies_least_and_round_robin_most_on_googlenet)
{
    (void)state;
    check_variation(true);
    check_variation(false);
}

/* The pieces of a layer lie end to end and fill it. */
static void check_pieces(const struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_layer *layer = &plan->layers[i];
        uint64_t next = 0;
        for (size_t j = layer->first_piece; j < layer->first_piece + layer->pieces; j++) {
            assert_int_equal(plan->piece[j].layer, i);
            assert_int_equal(plan->piece[j].first, next);
            assert_true(plan->piece[j].server < plan->book->servers);
            next += plan->piece[j].floats;
        }
        assert_int_equal(next, layer->pieces > 0 ? layer->profile->params : 0);
    }
}

TEST(servers_own_exactly_the_parameters_that_live_on_them)
{
    (void)state;
    struct profile *profile = book_model("vgg19");
    for (size_t p = 0; placement_at(p) != NULL; p++)
        for (unsigned servers = 1; servers <= 40; servers += 13) {
            struct book book = book_of(profile, 5);
            book.placement = placement_at(p);
            book.servers = servers;
            book.colocated = servers < 5 ? servers : 5;
            struct plan *plan = book_plan(&book);
            uint64_t want = 0, got = 0;
            for (size_t i = 0; i < plan->count; i++)
                if (plan->layers[i].pieces > 0)
                    want += 4 * plan->layers[i].profile->params;
            for (size_t s = 0; s < servers; s++)
                got += plan->server_bytes[s];
            assert_int_equal(got, want);
            check_pieces(plan);
            plan_free(plan);
        }
    profile_free(profile);
}

TEST(an_even_split_differs_by_one_float_between_servers)
{
    (void)state;
    struct profile *profile = book_model("resnet110_cifar10");
    struct book book = book_of(profile, 3);
    book.schemes = book_scheme("ps");
    book.placement = placement_find("uniform");
    book.servers = 7;
    struct plan *plan = book_plan(&book);
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t s = 0; s < 7; s++) {
        low = plan->server_bytes[s] < low ? plan->server_bytes[s] : low;
        high = plan->server_bytes[s] > high ? plan->server_bytes[s] : high;
    }
    assert_true(high - low <= 4);
    plan_free(plan);
    profile_free(profile);
}

TEST(adam_puts_a_layer_whole_on_one_server)
{
    (void)state;
    struct profile *profile = book_one_layer("FC", 4096, 4096, 4096);
    struct book book = book_of(profile, 4);
    book.forced = scheme_at(book_scheme_index("adam"));
    struct plan *plan = book_plan(&book);
    assert_int_equal(plan->layers[0].pieces, 1);
    assert_int_equal(plan->server_bytes[0], 4 * (4096 * 4096 + 4096));
    assert_int_equal(plan->server_bytes[1], 0);
    assert_true(plan->server_buffer_bytes == 4.0 * 4 * 32 * 8192);
    plan_free(plan);
    profile_free(profile);
}

/* ---- embeddings ---- */

TEST(an_embedding_that_another_layer_uses_is_dense)
{
    (void)state;
    struct profile *profile = book_model("gpt2_small");
    struct book book = book_of(profile, 4);
    struct plan *plan = book_plan(&book);
    const struct plan_layer *wte = &plan->layers[0];
    assert_string_equal(wte->profile->name, "wte");
    assert_non_null(wte->costs[book_scheme_index("rows")].refused);
    assert_int_equal(plan->count, profile->with_params); /* lm_head, tied, is not planned twice */
    plan_free(plan);
    profile_free(profile);
}

TEST(a_free_embedding_sends_rows)
{
    (void)state;
    struct profile *profile = book_model("gadei_yelp");
    struct book book = book_of(profile, 4);
    struct plan *plan = book_plan(&book);
    assert_int_equal(plan->layers[0].profile->kind, TRI_EMBED);
    assert_string_equal(scheme_of(plan, 0), "rows");
    plan_free(plan);
    profile_free(profile);
}

/* ---- the edges of the book ---- */

static void refused(const struct book *book, tri_status status, const char *text)
{
    struct plan *plan = NULL;
    tri_error err = {0};
    assert_int_equal(plan_make(book, &mem_libc, &plan, &err), status);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, text);
    assert_null(plan);
}

TEST(a_book_that_asks_the_impossible_is_refused)
{
    (void)state;
    struct profile *conv = book_one_layer("CONV", 64, 27, 64);
    struct book book = book_of(conv, 4);
    book.forced = scheme_at(book_scheme_index("sfb"));
    refused(&book, TRI_EINPUT, "'sfb' cannot carry layer 'l' (CONV)");
    book = book_of(conv, 4);
    book.schemes = book_scheme("sfb");
    refused(&book, TRI_EINPUT, "none of the allowed schemes");
    book = book_of(conv, 4);
    book.grid_rows = 3;
    book.grid_cols = 2;
    refused(&book, TRI_EINPUT, "3 x 2 owners does not fit 4 workers");
    book = book_of(conv, 4);
    book.server_bytes = 100;
    refused(&book, TRI_EINPUT, "landing buffers");
    book = book_of(conv, 0);
    refused(&book, TRI_EARG, "out of its range");
    book = book_of(conv, 4);
    book.bits_s = NAN;
    refused(&book, TRI_EARG, "out of its range");
    book = book_of(conv, 4);
    book.chunk_bytes = 6;
    refused(&book, TRI_EARG, "not a whole number of floats");
    book.chunk_bytes = (uint64_t)1 << 34;
    refused(&book, TRI_EARG, "more than a message can carry");
    book = book_of(conv, 4);
    book.colocated = 5;
    refused(&book, TRI_EARG, "more nodes are both");
    profile_free(conv);
}

TEST(single_layers_can_be_given_a_scheme_of_their_own)
{
    (void)state;
    struct profile *profile = book_model("vgg19");
    const tri_scheme_ops *wanted[24] = {0};
    struct book book = book_of(profile, 8);
    book.rule = PLAN_BYTES;
    book.forced_for = wanted;
    wanted[22] = scheme_at(book_scheme_index("adam"));
    struct plan *plan = book_plan(&book);
    assert_string_equal(plan->layers[17].profile->name, "fc7");
    assert_string_equal(scheme_of(plan, 17), "adam");
    assert_string_equal(scheme_of(plan, 16), "sfb");
    plan_free(plan);
    wanted[0] = scheme_at(book_scheme_index("sfb"));
    refused(&book, TRI_EINPUT, "'sfb' cannot carry layer 'conv1_1' (CONV)");
    profile_free(profile);
}

TEST(chunks_too_small_to_count_are_refused)
{
    (void)state;
    struct profile *huge = book_one_layer("CONV", 1 << 20, 1 << 20, 0);
    struct book book = book_of(huge, 4);
    book.chunk_bytes = 1024;
    refused(&book, TRI_EINPUT, "chunks of 1024 bytes cut the model into more than 67108864 pieces");
    profile_free(huge);
}

TEST(the_chunk_size_follows_the_link)
{
    (void)state;
    double model = 1e12;
    assert_int_equal(plan_chunk_bytes(1e10, 50e-6, model, 8), 1 << 21); /* Poseidon's 2 MB */
    assert_int_equal(plan_chunk_bytes(1e9, 50e-6, model, 8), 1 << 18);
    assert_int_equal(plan_chunk_bytes(1e10, 0, model, 8), 1 << 21);
    assert_int_equal(plan_chunk_bytes(1e15, 1, model, 8), 1 << 24);
    assert_int_equal(plan_chunk_bytes(1e3, 1e-9, model, 8), 1 << 16);
}

TEST(every_server_has_four_chunks_of_the_model)
{
    (void)state;
    double model = 128e6;
    assert_int_equal(plan_chunk_bytes(1e11, 50e-6, model, 1), 1 << 24);
    assert_int_equal(plan_chunk_bytes(1e11, 50e-6, model, 8), 1 << 21);
    assert_int_equal(plan_chunk_bytes(1e11, 50e-6, model, 32), 1 << 19);
    assert_int_equal(plan_chunk_bytes(1e10, 0, model, 32), 1 << 19);
    assert_int_equal(plan_chunk_bytes(1e11, 50e-6, 4, 65536), 1 << 16);
    assert_int_equal(plan_chunk_bytes(1e9, 50e-6, model, 32), 1 << 18); /* the link's own */
}

TEST(compute_time_comes_from_the_measurement_or_the_flops)
{
    (void)state;
    struct profile *profile = book_model("vgg19");
    struct book book = book_of(profile, 4);
    book.flops_s = profile->flops_s;
    book.batch = 64;
    struct plan *plan = book_plan(&book);
    assert_true(fabs(plan->compute_s - 64 / 35.5) < 1e-3);
    plan_free(plan);
    book.flops_s = 1e12;
    plan = book_plan(&book);
    assert_true(fabs(plan->compute_s - 64 * profile->flops / 1e12) < 1e-9);
    plan_free(plan);
    profile_free(profile);
    profile = book_one_layer("FC", 10, 10, 0);
    book.profile = profile;
    plan = book_plan(&book);
    assert_true(isnan(plan->compute_s));
    plan_free(plan);
    profile_free(profile);
}

TEST(a_measured_time_needs_no_rate_beside_it)
{
    (void)state;
    struct profile *profile = book_one_layer("FC", 10, 10, 0);
    profile->iteration_s = 1.5;
    profile->compute_batch = 16;
    struct book book = book_of(profile, 4);
    struct plan *plan = book_plan(&book);
    assert_true(plan->compute_s == 3);
    plan_free(plan);
    profile_free(profile);
}

TEST(schemes_that_cost_the_same_keep_the_order_of_the_registry)
{
    (void)state;
    struct profile *profile = book_one_layer("CONV", 4096, 4096, 0);
    for (unsigned workers = 2; workers < 300; workers++) {
        struct book book = book_of(profile, workers);
        struct plan *plan = book_plan(&book);
        assert_string_equal(scheme_of(plan, 0), "ps"); /* ring moves as many bytes */
        plan_free(plan);
    }
    profile_free(profile);
}

TEST(every_model_plans_on_any_cluster)
{
    (void)state;
    static const char *const models[] = {"alexnet",          "bert_base",         "cifar10_quick",
                                         "densenet_cifar10", "gadei_age",         "googlenet_aux",
                                         "inception_v3",     "inception_v4_slim", "lstm_lm_medium",
                                         "resnet152",        "vgg_bn_cifar10",    "gpt2_small"};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct profile *profile = book_model(models[m]);
        for (unsigned workers = 1; workers <= 1024; workers *= 4) {
            struct book book = book_of(profile, workers);
            book.colocated = workers / 3;
            struct plan *plan = book_plan(&book);
            assert_int_equal(plan->count, profile->with_params);
            assert_true(isfinite(plan->comm_s));
            plan_free(plan);
        }
        profile_free(profile);
    }
}

TEST(memory_that_is_refused_is_told_and_nothing_leaks)
{
    (void)state;
    struct profile *profile = book_model("cifar10_quick");
    struct book book = book_of(profile, 4);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct plan *plan = NULL;
        tri_error err = {0};
        tri_status status = plan_make(&book, &fault.mem, &plan, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        plan_free(plan);
    }
    assert_true(fault.run > 5);
    profile_free(profile);
}

TEST(too_many_pieces_of_an_even_split_are_blamed_on_the_servers)
{
    (void)state;
    struct buf text;
    buf_init(&text, &mem_libc);
    buf_text(&text, "{\"format\": \"layer-profile/1\", \"name\": \"m\", \"layers\": [");
    for (int i = 0; i < 1100; i++)
        buf_format(&text, "%s{\"name\": \"l%d\", \"type\": \"CONV\", \"M\": 1000, \"N\": 1000}",
                   i == 0 ? "" : ",", i);
    buf_text(&text, "]}");
    struct profile *profile = NULL;
    assert_int_equal(profile_read("m", text.data, text.len, &mem_libc, &profile, NULL), TRI_OK);
    struct book book = book_of(profile, 4);
    book.servers = BOOK_MAX_NODES;
    book.placement = placement_find("uniform");
    struct plan *plan = NULL;
    tri_error err = {0};
    assert_int_equal(plan_make(&book, &mem_libc, &plan, &err), TRI_EINPUT);
    assert_string_equal(err.text,
                        "placement 'uniform' cuts the model into more than 67108864 pieces");
    assert_string_equal(err.why, "it splits every tensor over all of the 65536 servers");
    assert_string_equal(err.next, "take fewer --servers or --placement hash");
    profile_free(profile);
    buf_fini(&text);
}

TEST(where_a_layer_came_from_is_where_planning_again_finds_it)
{
    (void)state;
    struct profile *profile = book_one_layer("FC", 4096, 4096, 0);
    struct book book = book_of(profile, 40);
    book.schemes = book_scheme("ps") | book_scheme("sfb");
    book.flops_s = 1e11;
    book.servers_follow = true;
    struct plan *plan = book_plan(&book);
    size_t other = SCHEME_MAX;
    assert_int_equal(plan_came(plan, &plan->layers[0], &other), 9);
    assert_string_equal(scheme_at(other)->name, "sfb");
    plan_free(plan);
    book.workers = book.servers = book.colocated = 5;
    plan = book_plan(&book);
    assert_int_equal(plan_came(plan, &plan->layers[0], &other), 0);
    plan_free(plan);
    profile_free(profile);
}

/* The scheme of the first layer with p workers, everything else as the book says. */
static size_t anew(const struct book *from, bool shared, unsigned p)
{
    struct book book = *from;
    book.workers = p;
    book.servers = from->servers_follow ? p : from->servers;
    unsigned room = p < book.servers ? p : book.servers;
    book.colocated = shared || from->colocated > room ? room : from->colocated;
    struct plan *plan = book_plan(&book);
    size_t scheme = plan->layers[0].scheme;
    plan_free(plan);
    return scheme;
}

static void check_changes(const struct book *book, bool shared)
{
    enum { MOST = 40 };
    struct plan *plan = book_plan(book);
    size_t now = plan->layers[0].scheme, up = SCHEME_MAX, down = SCHEME_MAX;
    unsigned leaves = 0, came = 0;
    for (unsigned p = book->workers + 1; p <= MOST && leaves == 0; p++)
        leaves = anew(book, shared, p) != now ? p : 0;
    for (unsigned p = book->workers - 1; p >= 2 && came == 0; p--)
        came = anew(book, shared, p) != now ? p : 0;
    assert_int_equal(plan_leaves(plan, &plan->layers[0], MOST, &up), leaves);
    assert_int_equal(plan_came(plan, &plan->layers[0], &down), came);
    assert_int_equal(up, leaves > 0 ? anew(book, shared, leaves) : SCHEME_MAX);
    assert_int_equal(down, came > 0 ? anew(book, shared, came) : SCHEME_MAX);
    plan_free(plan);
}

static void check_all_changes(unsigned side, uint32_t schemes)
{
    struct profile *profile = book_one_layer("FC", side, side, 0);
    for (unsigned workers = 2; workers <= 20; workers += 3)
        for (unsigned servers = 0; servers <= 20; servers += 4)
            for (unsigned apart = 0; apart <= 4; apart += 2) {
                struct book book = book_of(profile, workers);
                book.schemes = schemes;
                book.flops_s = 2e11;
                book.servers_follow = servers == 0;
                book.servers = servers == 0 ? workers : servers;
                unsigned room = workers < book.servers ? workers : book.servers;
                book.colocated = room > apart ? room - apart : 0;
                check_changes(&book, apart == 0);
            }
    profile_free(profile);
}

TEST(changes_are_foretold_for_every_way_of_sharing_nodes)
{
    (void)state;
    uint32_t sfb = book_scheme("sfb");
    for (unsigned side = 256; side <= 4096; side *= 4)
        check_all_changes(side, sfb | book_scheme("ps"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vgg19_takes_sfb_for_its_three_fc_layers_by_bytes),
        cmocka_unit_test(googlenets_fc_layer_takes_ps_by_bytes),
        cmocka_unit_test(a_layer_of_4096x1000_leaves_sfb_after_50_workers_by_bytes),
        cmocka_unit_test(rule_bytes_counts_every_application_of_a_layer),
        cmocka_unit_test(fc7_leaves_sfb_early_on_slow_nodes_and_late_on_fast_ones),
        cmocka_unit_test(time_is_the_sum_of_its_parts),
        cmocka_unit_test(leaving_is_foretold_where_planning_again_finds_it),
        cmocka_unit_test(megabytes_per_node_match_the_table),
        cmocka_unit_test(lpt_varies_least_and_round_robin_most_on_googlenet),
        cmocka_unit_test(servers_own_exactly_the_parameters_that_live_on_them),
        cmocka_unit_test(an_even_split_differs_by_one_float_between_servers),
        cmocka_unit_test(adam_puts_a_layer_whole_on_one_server),
        cmocka_unit_test(an_embedding_that_another_layer_uses_is_dense),
        cmocka_unit_test(a_free_embedding_sends_rows),
        cmocka_unit_test(a_book_that_asks_the_impossible_is_refused),
        cmocka_unit_test(single_layers_can_be_given_a_scheme_of_their_own),
        cmocka_unit_test(chunks_too_small_to_count_are_refused),
        cmocka_unit_test(the_chunk_size_follows_the_link),
        cmocka_unit_test(every_server_has_four_chunks_of_the_model),
        cmocka_unit_test(compute_time_comes_from_the_measurement_or_the_flops),
        cmocka_unit_test(a_measured_time_needs_no_rate_beside_it),
        cmocka_unit_test(schemes_that_cost_the_same_keep_the_order_of_the_registry),
        cmocka_unit_test(every_model_plans_on_any_cluster),
        cmocka_unit_test(memory_that_is_refused_is_told_and_nothing_leaks),
        cmocka_unit_test(too_many_pieces_of_an_even_split_are_blamed_on_the_servers),
        cmocka_unit_test(where_a_layer_came_from_is_where_planning_again_finds_it),
        cmocka_unit_test(changes_are_foretold_for_every_way_of_sharing_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
