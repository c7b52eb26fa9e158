/* run/agree: what nodes plan from the same description, and how they tell that it is not the same.
 */
#include "run/agree.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "lib/books.h"
#include "lib/test.h"
#include "run/convert.h"
#include "wire/hello.h"

enum { MOST = 300 };

static const struct agree_layer small[] = {
    {.name = "conv1", .kind = TRI_CONV, .rows = 64, .cols = 27, .bias = true},
    {.name = "fc6", .kind = TRI_FC, .rows = 4096, .cols = 1024, .bias = true, .max_factor_rows = 8},
    {.name = "fc7", .kind = TRI_FC, .rows = 4096, .cols = 4096, .max_factor_rows = 8},
    {.name = "norm", .kind = TRI_NORM, .rows = 128, .cols = 1},
};
enum { SMALL = sizeof small / sizeof small[0] };

static struct agree_options options_of(uint32_t workers)
{
    return (struct agree_options){.workers = workers,
                                  .servers = workers,
                                  .colocated = workers,
                                  .bits_s = 1e10,
                                  .latency_s = 5e-5,
                                  .message_s = 1e-6,
                                  .flops_s = 1e12,
                                  .reproducible = true,
                                  .rule = PLAN_TIME};
}

static struct agreement *make(const struct agree_layer *layers, uint32_t count,
                              const struct agree_options *options)
{
    struct agreement *agreement = NULL;
    tri_error err = {0};
    if (agree_make(layers, count, options, &mem_libc, &agreement, &err) != TRI_OK)
        fail_msg("%s (%s)", err.text, err.why);
    return agreement;
}

/* The agreement of a node that has nothing but the bytes. */
static struct agreement *through_book(const struct agreement *agreement)
{
    struct agreement *got = NULL;
    struct buf book, again;
    tri_error err = {0};
    buf_init(&book, &mem_libc);
    buf_init(&again, &mem_libc);
    if (agree_encode(agreement, &book, &err) != TRI_OK)
        fail_msg("%s", err.text);
    struct wire_header header = {.kind = WIRE_BOOK, .data_len = (uint32_t)book.len};
    if (agree_decode(&header, (const uint8_t *)book.data, &mem_libc, &got, &err) != TRI_OK)
        fail_msg("%s (%s)", err.text, err.why);
    assert_int_equal(agree_encode(got, &again, &err), TRI_OK);
    assert_int_equal(book.len, again.len);
    assert_memory_equal(book.data, again.data, book.len);
    buf_fini(&book);
    buf_fini(&again);
    return got;
}

/* What rank 0 says of rank 3. */
static bool differs(const struct agreement *of_3, const struct agreement *of_0, char *text,
                    size_t size)
{
    struct agree_hello hello = {3, (const uint8_t *)of_3->hello.data, of_3->hello.len};
    return agree_differ(of_0, &hello, text, size);
}

static void same_from_both(const struct agree_layer *layers, uint32_t count,
                           const struct agree_options *options)
{
    struct agreement *mine = make(layers, count, options);
    struct agreement *theirs = through_book(mine);
    char text[200];
    assert_true(mine->plan_hash == theirs->plan_hash);
    assert_true(mine->layers_hash == theirs->layers_hash);
    assert_true(
        mine->plan_hash ==
        layout_hash(mine->layout, core_rules_hash(&theirs->rules, theirs->options.optimizer)));
    assert_int_equal(mine->layout->layer_count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_string_equal(theirs->layout->layers[i].name, layers[i].name);
    if (differs(mine, theirs, text, sizeof text))
        fail_msg("%s", text);
    assert_string_equal(text, "");
    agree_free(mine);
    agree_free(theirs);
}

/* Layers of a model in models/, as a program would describe them. */
static uint32_t model_layers(const struct profile *profile, struct agree_layer *layers)
{
    uint32_t count = 0;
    for (size_t i = 0; i < profile->count && count < MOST; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        if (layer->params > 0)
            layers[count++] =
                (struct agree_layer){.name = layer->name,
                                     .kind = layer->kind,
                                     .rows = (uint32_t)layer->rows,
                                     .cols = (uint32_t)layer->cols,
                                     .bias = layer->bias > 0,
                                     .max_factor_rows = layer->kind == TRI_FC ? 32 : 0};
    }
    return count;
}

TEST(a_node_without_a_program_makes_the_same_plan)
{
    (void)state;
    static const char *const models[] = {"vgg19", "inception_v3", "alexnet"};
    static const char *const consistencies[] = {NULL, "bsp", "ssp:3", "asp"};
    struct rng rng;
    rng_init(&rng, 3);
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct agree_layer layers[MOST];
        struct profile *profile = book_model(models[m]);
        uint32_t count = model_layers(profile, layers);
        for (uint32_t workers = 1; workers <= 9; workers += 4) {
            uint32_t home[] = {workers - 1};
            struct agree_options options = options_of(workers);
            options.consistency = consistencies[rng_below(&rng, 4)];
            options.rule = rng_below(&rng, 2) == 0 ? PLAN_TIME : PLAN_BYTES;
            options.reproducible = rng_below(&rng, 2) == 0;
            options.optimizer = rng_below(&rng, 2) == 0 ? "momentum:0.9" : NULL;
            options.placement = placement_at((size_t)rng_below(&rng, 6))->name;
            same_from_both(layers, count, &options);
            options.servers = 3;
            options.colocated = 1;
            options.home = home;
            options.consistency = NULL;
            options.aggregate = rng_below(&rng, 2) == 0;
            options.replicated = !options.aggregate;
            same_from_both(layers, count, &options);
        }
        profile_free(profile);
    }
}

TEST(factors_are_planned_only_for_layers_that_give_them)
{
    (void)state;
    struct agree_layer layers[] = {small[1], small[2]};
    struct agree_options options = options_of(8);
    layers[1].max_factor_rows = 0;
    struct agreement *agreement = make(layers, 2, &options);
    assert_int_equal(agreement->layout->layers[0].form, TRI_FORM_FACTORS);
    assert_int_equal(agreement->layout->layers[0].factor_rows, 8);
    assert_int_equal(agreement->layout->layers[1].form, TRI_FORM_DENSE);
    agree_free(agreement);
    layers[0].max_factor_rows = 60000; /* more bytes than the layer itself */
    agreement = make(layers, 2, &options);
    assert_int_equal(agreement->layout->layers[0].form, TRI_FORM_DENSE);
    agree_free(agreement);
}

TEST(the_plan_answers_questions_by_name)
{
    (void)state;
    struct agree_options options = options_of(8);
    struct agreement *agreement = make(small, SMALL, &options);
    char text[100];
    tri_error err = {0};
    assert_string_equal(agree_scheme(agreement, 0), "ps");
    assert_string_equal(agree_scheme(agreement, 2), "sfb");
    assert_int_equal(agree_query(agreement, "scheme.fc7", text, sizeof text, &err), TRI_OK);
    assert_string_equal(text, "sfb");
    assert_int_equal(agree_query(agreement, "workers", text, sizeof text, &err), TRI_OK);
    assert_string_equal(text, "8");
    assert_int_equal(agree_query(agreement, "wrkers", text, sizeof text, &err), TRI_EARG);
    agree_free(agreement);
}

TEST(where_every_push_is_a_step_all_layers_go_by_servers)
{
    (void)state;
    struct agree_options options = options_of(8);
    options.consistency = "ssp:3";
    struct agreement *agreement = make(small, SMALL, &options);
    assert_int_equal(agreement->layout->on_workers, 0);
    assert_int_equal(agreement->rules.bound, 3);
    assert_string_equal(agreement->rules.consistency->name, "ssp");
    agree_free(agreement);
}

TEST(options_that_mean_the_same_are_the_same)
{
    (void)state;
    struct agree_options plain = options_of(4), spelled = plain;
    static const uint32_t home[] = {0, 1, 2, 3};
    char text[200];
    spelled.scheme = "";
    spelled.placement = "hash";
    spelled.optimizer = "sgd";
    spelled.consistency = "ssp:0";
    spelled.schemes = UINT32_MAX;
    spelled.home = home;
    struct agreement *a = make(small, SMALL, &plain), *b = make(small, SMALL, &spelled);
    assert_false(differs(a, b, text, sizeof text));
    assert_true(a->layers_hash == b->layers_hash && a->plan_hash == b->plan_hash);
    agree_free(b);
    plain.aggregate = spelled.aggregate = true;
    spelled.optimizer = "momentum:0.5"; /* nobody steps */
    agree_free(a);
    a = make(small, SMALL, &plain);
    b = make(small, SMALL, &spelled);
    assert_false(differs(a, b, text, sizeof text));
    agree_free(a);
    agree_free(b);
}

/* ---- differences ---- */

static void differ(const struct agree_layer *layers, uint32_t count,
                   const struct agree_options *options, const char *wanted)
{
    struct agree_options plain = options_of(4);
    struct agreement *mine = make(small, SMALL, &plain), *theirs = make(layers, count, options);
    char text[200];
    assert_true(differs(mine, theirs, text, sizeof text));
    assert_string_equal(text, wanted);
    assert_true(mine->layers_hash != theirs->layers_hash);
    agree_free(mine);
    agree_free(theirs);
}

TEST(the_first_layer_that_differs_is_named)
{
    (void)state;
    struct agree_options options = options_of(4);
    struct agree_layer layers[SMALL + 2];
#define DIFFER(change, wanted)                                                                     \
    memcpy(layers, small, sizeof small);                                                           \
    change;                                                                                        \
    differ(layers, SMALL, &options, wanted)
    DIFFER(layers[2].cols = 2048, "layer 2: 'fc7' is 4096x4096 on rank 3, 4096x2048 on rank 0");
    DIFFER(layers[2].name = "fc8", "layer 2 is 'fc7' on rank 3, 'fc8' on rank 0");
    DIFFER(layers[0].kind = TRI_OTHER, "layer 0: 'conv1' is CONV on rank 3, OTHER on rank 0");
    DIFFER(layers[1].bias = false, "layer 1: 'fc6' has a bias on rank 3, none on rank 0");
    DIFFER(layers[2].bias = true, "layer 2: 'fc7' has no bias on rank 3, one on rank 0");
    DIFFER(layers[1].max_factor_rows = 9,
           "layer 1: 'fc6' gives at most 8 factor rows on rank 3, 9 on rank 0");
#undef DIFFER
    memcpy(layers, small, sizeof small);
    layers[SMALL] = layers[SMALL + 1] = small[2];
    layers[SMALL].name = "fc8";
    layers[SMALL + 1].name = "fc9";
    differ(layers, SMALL + 2, &options, "rank 0 has 2 more layers than rank 3, from 'fc8' on");
    differ(layers, SMALL - 1, &options, "rank 3 has 1 more layer than rank 0, from 'norm' on");
}

TEST(the_first_option_that_differs_is_named)
{
    (void)state;
    static const uint32_t home[] = {0, 1, 3, 2};
#define DIFFER(change, wanted)                                                                     \
    do {                                                                                           \
        struct agree_options options = options_of(4);                                              \
        change;                                                                                    \
        differ(small, SMALL, &options, wanted);                                                    \
    } while (0)
    DIFFER(options.consistency = "ssp:3",
           "option consistency is 'bsp' on rank 3, 'ssp:3' on rank 0");
    DIFFER(options.optimizer = "adam", "option optimizer is 'sgd' on rank 3, 'adam' on rank 0");
    DIFFER(options.placement = "lpt", "option placement is 'hash' on rank 3, 'lpt' on rank 0");
    DIFFER(options.scheme = "ps", "option scheme is '' on rank 3, 'ps' on rank 0");
    DIFFER(options.schemes = 1, "option schemes is 'ps,sfb,adam' on rank 3, 'ps' on rank 0");
    DIFFER(options.aggregate = true, "option aggregate is 'off' on rank 3, 'on' on rank 0");
    DIFFER(options.replicated = true, "option replicated is 'off' on rank 3, 'on' on rank 0");
    DIFFER(options.reproducible = false, "option reproducible is 'on' on rank 3, 'off' on rank 0");
    DIFFER(options.rule = PLAN_BYTES, "option rule is 'time' on rank 3, 'bytes' on rank 0");
    DIFFER(options.chunk_bytes = 4096, "option chunk is '0' on rank 3, '4096' on rank 0");
    DIFFER(options.bits_s = 1e9,
           "option bandwidth is '10000000000' on rank 3, '1000000000' on rank 0");
    DIFFER(options.workers = 5, "option workers is '4' on rank 3, '5' on rank 0");
    DIFFER(options.home = home, "option server-nodes is '0,1,2,3' on rank 3, "
                                "'0,1,3,2' on rank 0");
#undef DIFFER
}

/* ---- what cannot be ---- */

static void refuse(const struct agree_layer *layers, uint32_t count,
                   const struct agree_options *options, const char *text)
{
    struct agreement *agreement = NULL;
    tri_error err = {0};
    assert_int_equal(agree_make(layers, count, options, &mem_libc, &agreement, &err), TRI_EINPUT);
    assert_string_equal(err.text, text);
    assert_null(agreement);
}

TEST(layers_that_cannot_be_are_refused_by_name)
{
    (void)state;
    struct agree_options options = options_of(2);
    struct agree_layer layers[] = {small[0], small[1]};
    layers[1].name = "conv1";
    refuse(layers, 2, &options, "two layers are called 'conv1'");
    layers[1] = small[1];
    layers[1].cols = 0;
    refuse(layers, 2, &options, "layer 1 cannot be: 'fc6', 4096 x 0");
    layers[1] = small[1];
    layers[1].name = "";
    refuse(layers, 2, &options, "layer 1 cannot be: '', 4096 x 1024");
    layers[1].name = "bell\x07";
    refuse(layers, 2, &options, "layer 1 cannot be: 'bell?', 4096 x 1024");
    layers[1] = small[1];
    layers[1].kind = (tri_kind)7;
    refuse(layers, 2, &options, "layer 1 cannot be: 'fc6', 4096 x 1024");
    refuse(layers, 0, &options, "a job has 1 to 1048576 layers, this one 0");
}

TEST(a_scheme_of_factors_leaves_layers_without_them_to_ps)
{
    (void)state;
    struct agree_options options = options_of(4);
    options.scheme = "sfb";
    struct agreement *agreement = NULL;
    tri_error err = {0};
    assert_int_equal(agree_make(small, SMALL, &options, &mem_libc, &agreement, &err), TRI_OK);
    for (uint32_t i = 0; i < SMALL; i++)
        assert_string_equal(agree_scheme(agreement, i),
                            small[i].kind == TRI_FC && small[i].max_factor_rows > 0 ? "sfb" : "ps");
    agree_free(agreement);
}

TEST(options_that_cannot_be_are_refused_by_name)
{
    (void)state;
    static const uint32_t twice[] = {0, 2, 1, 2}, outside[] = {0, 2, 1, 4};
#define REFUSE(change, text)                                                                       \
    do {                                                                                           \
        struct agree_options options = options_of(4);                                              \
        change;                                                                                    \
        refuse(small, SMALL, &options, text);                                                      \
    } while (0)
    REFUSE(options.consistency = "ssp", "consistency 'ssp' is not understood");
    REFUSE(options.consistency = "xsp", "there is no consistency 'xsp'");
    REFUSE(options.optimizer = "sgt", "there is no optimizer 'sgt'");
    REFUSE(options.placement = "left", "there is no placement 'left'");
    REFUSE(options.scheme = "pst", "there is no scheme 'pst'");
    REFUSE((options.schemes = book_scheme("sfb"), options.consistency = "asp"),
           "none of the allowed schemes can run a job with consistency 'asp'");
    REFUSE(options.schemes = book_scheme("ring"),
           "none of the allowed schemes can run a job with consistency 'bsp'");
    REFUSE(options.workers = 0, "0 workers and 4 servers, 4 of them on workers' nodes, cannot be");
    REFUSE(options.colocated = 5,
           "4 workers and 4 servers, 5 of them on workers' nodes, cannot be");
    REFUSE(options.home = twice, "two servers are to be on node 2");
    REFUSE(options.home = outside,
           "server 3 is to share node 4 with a worker, and there are only 4 of these");
    REFUSE(options.aggregate = options.replicated = true,
           "results are means in aggregate mode: there is no optimizer to be replicated");
    REFUSE((options.aggregate = true, options.consistency = "asp"),
           "asp needs the optimiser on the servers: it goes neither with aggregate mode nor with "
           "optimizer = replicated");
#undef REFUSE
}

/* ---- books that no agreement makes ---- */

static tri_status decode_changed(size_t at, uint8_t value, tri_error *err)
{
    struct agree_options options = options_of(2);
    struct agreement *agreement = make(small, SMALL, &options), *got = NULL;
    struct buf book;
    buf_init(&book, &mem_libc);
    assert_int_equal(agree_encode(agreement, &book, err), TRI_OK);
    book.data[at] = (char)value;
    struct wire_header header = {.kind = WIRE_BOOK, .data_len = (uint32_t)book.len};
    tri_status status = agree_decode(&header, (const uint8_t *)book.data, &mem_libc, &got, err);
    assert_true((got == NULL) == (status != TRI_OK));
    agree_free(got);
    agree_free(agreement);
    buf_fini(&book);
    return status;
}

TEST(books_of_another_kind_are_refused)
{
    (void)state;
    tri_error err = {0};
    assert_int_equal(decode_changed(12, 32, &err), TRI_EINPUT); /* batch */
    assert_string_equal(err.text,
                        "the book of node 0 is not that of a job: its batch is 32 instead of 1");
    assert_int_equal(decode_changed(52, 3, &err), TRI_EINPUT); /* chunk */
    assert_int_equal(err.status, TRI_EINPUT);
    assert_int_equal(decode_changed(82, 'q', &err), TRI_EMISMATCH); /* first scheme */
    assert_string_equal(err.text, "node 0 plans with scheme 'qs', which is not known here");
    assert_int_equal(decode_changed(0, 0, &err), TRI_EINPUT); /* workers */
}

TEST(random_damage_is_refused_or_makes_another_sound_agreement)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 21);
    for (int run = 0; run < 2000; run++) {
        tri_error err = {0};
        size_t at = 76 + (size_t)rng_below(&rng, 100);
        tri_status status = decode_changed(at, (uint8_t)rng_u64(&rng), &err);
        assert_true(status == TRI_OK || err.text[0] != '\0');
        assert_true(status == TRI_OK || status == TRI_EINPUT || status == TRI_EMISMATCH);
    }
}

TEST(a_long_list_of_nodes_is_cut_and_still_told_apart)
{
    (void)state;
    enum { NODES = 200 };
    uint32_t home[NODES];
    struct agree_options options = options_of(NODES);
    char text[200];
    for (uint32_t i = 0; i < NODES; i++)
        home[i] = i;
    struct agreement *mine = make(small, SMALL, &options);
    home[NODES - 1] = NODES - 2;
    home[NODES - 2] = NODES - 1;
    options.home = home;
    struct agreement *theirs = make(small, SMALL, &options);
    assert_true(mine->layers_hash != theirs->layers_hash);
    assert_true(differs(mine, theirs, text, sizeof text));
    assert_non_null(strstr(text, "option server-nodes is '0,1,2,3,4"));
    agree_free(mine);
    agree_free(theirs);
}

/* Another version may know options that this one does not. */
TEST(other_options_are_told_with_the_versions)
{
    (void)state;
    struct agree_options options = options_of(2);
    struct agreement *own = make(small, SMALL, &options);
    struct wire_hello_out out;
    struct wire_option option = {wire_text_of("zeal"), wire_text_of("on")};
    struct buf data;
    char text[200];
    buf_init(&data, &mem_libc);
    assert_int_equal(wire_hello_begin(&out, &data, "9.9.9", NULL), TRI_OK);
    assert_int_equal(wire_hello_option(&out, &option, NULL), TRI_OK);
    for (uint32_t i = 0; i < SMALL; i++) {
        struct wire_layer layer = {.name = wire_text_of(small[i].name),
                                   .kind = (uint8_t)small[i].kind,
                                   .rows = small[i].rows,
                                   .cols = small[i].cols,
                                   .bias = small[i].bias ? small[i].rows : 0,
                                   .max_factor_rows = small[i].max_factor_rows};
        assert_int_equal(wire_hello_layer(&out, &layer, NULL), TRI_OK);
    }
    struct agree_hello hello = {1, (const uint8_t *)data.data, data.len};
    assert_true(agree_differ(own, &hello, text, sizeof text));
    assert_ptr_equal(
        strstr(text, "rank 1 has other options than rank 0: it runs trident 9.9.9, rank 0 "), text);
    buf_fini(&data);
    agree_free(own);
}

TEST(the_hello_says_what_the_hash_says)
{
    (void)state;
    struct agree_options options = options_of(2);
    struct agreement *agreement = make(small, SMALL, &options);
    const uint8_t *data = (const uint8_t *)agreement->hello.data;
    struct wire_header header = {.kind = WIRE_HELLO, .data_len = (uint32_t)agreement->hello.len};
    struct wire_hello_data hello;
    struct wire_option option;
    struct wire_layer layer;
    tri_error err = {0};
    if (wire_hello_data_decode(&header, data, &hello, &err) != TRI_OK)
        fail_msg("%s", err.text);
    assert_true(convert_hello_hash(data, agreement->hello.len) == agreement->layers_hash);
    assert_int_equal(hello.layer_count, SMALL);
    bool found = false;
    while (wire_option_next(&hello.options, &option))
        found = found || (wire_text_equal(option.name, wire_text_of("consistency")) &&
                          wire_text_equal(option.value, wire_text_of("bsp")));
    assert_true(found);
    for (uint32_t i = 0; i < SMALL; i++) {
        assert_true(wire_layer_next(&hello.layers, &layer));
        assert_true(layer.max_factor_rows == small[i].max_factor_rows &&
                    layer.rows == small[i].rows);
    }
    agree_free(agreement);
}

TEST(refused_memory_is_told_and_nothing_leaks)
{
    (void)state;
    struct agree_options options = options_of(3);
    struct agreement *source = make(small, SMALL, &options);
    struct buf book;
    struct fault fault = {0};
    buf_init(&book, &mem_libc);
    assert_int_equal(agree_encode(source, &book, NULL), TRI_OK);
    struct wire_header header = {.kind = WIRE_BOOK, .data_len = (uint32_t)book.len};
    FAULT_WALK(&fault)
    {
        struct agreement *agreement = NULL;
        struct buf again;
        tri_error err = {0};
        buf_init(&again, &fault.mem);
        tri_status status =
            agree_decode(&header, (const uint8_t *)book.data, &fault.mem, &agreement, &err);
        if (status == TRI_OK)
            status = agree_encode(agreement, &again, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        agree_free(agreement);
        buf_fini(&again);
    }
    buf_fini(&book);
    agree_free(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_without_a_program_makes_the_same_plan),
        cmocka_unit_test(factors_are_planned_only_for_layers_that_give_them),
        cmocka_unit_test(the_plan_answers_questions_by_name),
        cmocka_unit_test(where_every_push_is_a_step_all_layers_go_by_servers),
        cmocka_unit_test(options_that_mean_the_same_are_the_same),
        cmocka_unit_test(the_first_layer_that_differs_is_named),
        cmocka_unit_test(the_first_option_that_differs_is_named),
        cmocka_unit_test(layers_that_cannot_be_are_refused_by_name),
        cmocka_unit_test(a_scheme_of_factors_leaves_layers_without_them_to_ps),
        cmocka_unit_test(options_that_cannot_be_are_refused_by_name),
        cmocka_unit_test(books_of_another_kind_are_refused),
        cmocka_unit_test(random_damage_is_refused_or_makes_another_sound_agreement),
        cmocka_unit_test(a_long_list_of_nodes_is_cut_and_still_told_apart),
        cmocka_unit_test(other_options_are_told_with_the_versions),
        cmocka_unit_test(the_hello_says_what_the_hash_says),
        cmocka_unit_test(refused_memory_is_told_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
