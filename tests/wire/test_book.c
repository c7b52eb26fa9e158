/* wire/book and the data of wire/hello: books and layers come back, wrong ones are refused. */
#include "wire/book.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test.h"
#include "wire/hash.h"
#include "wire/samples.h"

enum { RUNS = 2000, MOST = 6 };

static struct wire_header header_of(unsigned kind, const struct buf *data)
{
    return (struct wire_header){
        .kind = (uint8_t)kind, .sender = 0, .data_len = (uint32_t)data->len};
}

static const uint8_t *bytes_of(const struct buf *data)
{
    return (const uint8_t *)data->data;
}

/* A name of its own for every i, kept in room. */
static struct wire_text name(struct rng *rng, unsigned i, char room[40])
{
    int len = snprintf(room, 40, "%c%u%.*s", (char)('a' + i), i, (int)rng_below(rng, 30),
                       "-and-what-comes-behind-it-to-be-long");
    return (struct wire_text){room, (size_t)len};
}

static void random_layers(struct rng *rng, struct wire_layer layers[MOST], char rooms[MOST][40])
{
    for (unsigned i = 0; i < MOST; i++) {
        struct wire_layer layer = {.name = name(rng, i, rooms[i])};
        layer.kind = (uint8_t)rng_below(rng, WIRE_LAYER_KINDS);
        layer.rows = (uint32_t)rng_below(rng, 1 << 24);
        layer.cols = (uint32_t)rng_below(rng, 1 << 24);
        layer.bias = rng_below(rng, 2) == 0 ? 0 : layer.rows;
        layer.max_factor_rows = (uint32_t)rng_below(rng, WIRE_MAX_SIDE + UINT64_C(1));
        layers[i] = layer;
    }
}

static void same_layer(const struct wire_layer *a, const struct wire_layer *b)
{
    assert_true(wire_text_equal(a->name, b->name));
    assert_true(a->kind == b->kind && a->rows == b->rows && a->cols == b->cols &&
                a->bias == b->bias && a->max_factor_rows == b->max_factor_rows);
}

static struct wire_book random_book(struct rng *rng, char rooms[MOST][40])
{
    struct wire_book book = {.batch = 1 + rng_below(rng, UINT64_MAX)};
    book.workers = 1 + (uint32_t)rng_below(rng, 100);
    book.servers = 1 + (uint32_t)rng_below(rng, 100);
    uint32_t both = book.workers < book.servers ? book.workers : book.servers;
    book.colocated = (uint32_t)rng_below(rng, both + UINT64_C(1));
    book.bits_s = 1e3 + rng_unit(rng) * 1e12;
    book.latency_s = rng_below(rng, 3) == 0 ? 0 : rng_unit(rng);
    book.message_s = rng_below(rng, 3) == 0 ? 0 : rng_unit(rng) * 1e-3;
    book.flops_s = 1 + rng_unit(rng) * 1e15;
    book.chunk_bytes = rng_u64(rng);
    book.server_bytes = rng_u64(rng);
    book.grid_rows = (uint32_t)rng_u64(rng);
    book.grid_cols = (uint32_t)rng_u64(rng);
    book.rule = (uint8_t)rng_below(rng, 2);
    book.reproducible = rng_below(rng, 2) == 1;
    book.aggregate = rng_below(rng, 2) == 1;
    book.replicated = !book.aggregate && rng_below(rng, 2) == 1;
    book.scheme_count = 1 + (uint32_t)rng_below(rng, MOST);
    for (unsigned i = 0; i < book.scheme_count; i++)
        book.schemes[i] = name(rng, i, rooms[i]);
    book.forced = rng_below(rng, 2) == 0 ? wire_text_of("") : book.schemes[0];
    book.placement = wire_text_of("greedy");
    book.optimizer = wire_text_of("adagrad");
    book.consistency = wire_text_of("ssp:3");
    book.layer_count = 1 + (uint32_t)rng_below(rng, MOST);
    return book;
}

static void same_book(const struct wire_book *a, const struct wire_book *b)
{
    assert_true(a->workers == b->workers && a->servers == b->servers &&
                a->colocated == b->colocated && a->batch == b->batch);
    assert_true(a->bits_s == b->bits_s && a->latency_s == b->latency_s &&
                a->message_s == b->message_s && a->flops_s == b->flops_s);
    assert_true(a->chunk_bytes == b->chunk_bytes && a->server_bytes == b->server_bytes);
    assert_true(a->grid_rows == b->grid_rows && a->grid_cols == b->grid_cols);
    assert_true(a->rule == b->rule && a->reproducible == b->reproducible &&
                a->aggregate == b->aggregate && a->replicated == b->replicated &&
                a->layer_count == b->layer_count);
    assert_int_equal(a->scheme_count, b->scheme_count);
    for (uint32_t i = 0; i < a->scheme_count; i++)
        assert_true(wire_text_equal(a->schemes[i], b->schemes[i]));
    assert_true(wire_text_equal(a->forced, b->forced));
    assert_true(wire_text_equal(a->placement, b->placement));
    assert_true(wire_text_equal(a->optimizer, b->optimizer));
    assert_true(wire_text_equal(a->consistency, b->consistency));
}

TEST(books_come_back)
{
    (void)state;
    struct rng rng;
    struct buf data;
    rng_init(&rng, 21);
    buf_init(&data, &mem_libc);
    for (int run = 0; run < RUNS; run++) {
        char rooms[MOST][40], more[MOST][40];
        struct wire_layer layers[MOST], layer;
        struct wire_book book = random_book(&rng, rooms), got;
        uint32_t homes[100], node;
        tri_error err = {0};
        random_layers(&rng, layers, more);
        for (uint32_t i = 0; i < book.colocated; i++)
            homes[i] = (i + 7) % book.workers; /* each once, not in order */
        buf_clear(&data);
        if (wire_book_encode(&book, homes, layers, &data, &err) != TRI_OK)
            fail_msg("seed 21, run %d: %s", run, err.text);
        struct wire_header header = header_of(WIRE_BOOK, &data);
        if (wire_book_decode(&header, bytes_of(&data), &got, &err) != TRI_OK)
            fail_msg("seed 21, run %d: %s", run, err.text);
        same_book(&book, &got);
        for (uint32_t i = 0; i < book.colocated; i++) {
            assert_true(wire_home_next(&got.homes, &node));
            assert_int_equal(node, homes[i]);
        }
        assert_false(wire_home_next(&got.homes, &node));
        for (uint32_t i = 0; i < book.layer_count; i++) {
            assert_true(wire_layer_next(&got.layers, &layer));
            same_layer(&layer, &layers[i]);
        }
        assert_false(wire_layer_next(&got.layers, &layer));
    }
    buf_fini(&data);
}

/* Hash of the sample book, changed as `change` says. */
static uint64_t hash_with(void (*change)(struct wire_book *, struct wire_layer *))
{
    struct wire_book book = sample_book();
    struct wire_layer layers[2];
    struct buf data;
    sample_layers(layers);
    buf_init(&data, &mem_libc);
    if (change != NULL)
        change(&book, layers);
    assert_int_equal(wire_book_encode(&book, NULL, layers, &data, NULL), TRI_OK);
    uint64_t hash = wire_hash64(WIRE_HASH_START, data.data, data.len);
    buf_fini(&data);
    return hash;
}

static void change_latency(struct wire_book *book, struct wire_layer *layers)
{
    (void)layers;
    book->latency_s = nextafter(book->latency_s, 1);
}

static void change_stepper(struct wire_book *book, struct wire_layer *layers)
{
    (void)layers;
    book->replicated = !book->replicated;
}

static void change_order(struct wire_book *book, struct wire_layer *layers)
{
    (void)layers;
    book->schemes[0] = wire_text_of("sfb");
    book->schemes[1] = wire_text_of("ps");
}

static void change_layer(struct wire_book *book, struct wire_layer *layers)
{
    (void)book;
    layers[1].cols++;
}

TEST(equal_books_have_equal_hashes_and_others_have_not)
{
    (void)state;
    uint64_t hash = hash_with(NULL);
    assert_true(hash == hash_with(NULL));
    assert_true(hash != hash_with(change_latency));
    assert_true(hash != hash_with(change_stepper));
    assert_true(hash != hash_with(change_order));
    assert_true(hash != hash_with(change_layer));
}

TEST(servers_without_homes_live_on_the_first_nodes)
{
    (void)state;
    struct wire_book book = sample_book();
    struct wire_layer layers[2];
    struct buf told, left;
    sample_layers(layers);
    buf_init(&told, &mem_libc);
    buf_init(&left, &mem_libc);
    assert_int_equal(wire_book_encode(&book, (const uint32_t[]){0, 1}, layers, &told, NULL),
                     TRI_OK);
    assert_int_equal(wire_book_encode(&book, NULL, layers, &left, NULL), TRI_OK);
    assert_int_equal(told.len, left.len);
    assert_memory_equal(told.data, left.data, told.len);
    buf_fini(&told);
    buf_fini(&left);
}

TEST(the_shortest_book_has_the_least_data_that_is_let_through)
{
    (void)state;
    struct wire_book book = sample_book();
    struct wire_layer layer = {.name = wire_text_of("x")};
    struct buf data;
    buf_init(&data, &mem_libc);
    book.colocated = 0;
    book.scheme_count = book.layer_count = 1;
    book.schemes[0] = book.placement = book.optimizer = book.consistency = wire_text_of("x");
    assert_int_equal(wire_book_encode(&book, NULL, &layer, &data, NULL), TRI_OK);
    assert_int_equal(data.len, wire_kind_at(WIRE_BOOK)->data_min);
    buf_fini(&data);
}

/* The sample book (at homes 0 and 1) with the `len` bytes at `at` replaced. */
static void refuse_at(size_t at, uint64_t value, size_t len, const char *why)
{
    struct wire_book book = sample_book(), got;
    struct wire_layer layers[2];
    struct buf data;
    tri_error err = {0};
    char wanted[200];
    sample_layers(layers);
    buf_init(&data, &mem_libc);
    assert_int_equal(wire_book_encode(&book, NULL, layers, &data, NULL), TRI_OK);
    for (size_t i = 0; i < len; i++)
        data.data[at + i] = (char)(value >> 8 * i);
    struct wire_header header = header_of(WIRE_BOOK, &data);
    assert_int_equal(wire_book_decode(&header, bytes_of(&data), &got, &err), TRI_EINPUT);
    (void)snprintf(wanted, sizeof wanted, "data of BOOK from node 0 is malformed: %s", why);
    assert_string_equal(err.text, wanted);
    buf_fini(&data);
}

static uint64_t bits(double value)
{
    uint64_t out;
    memcpy(&out, &value, sizeof out);
    return out;
}

TEST(books_with_impossible_numbers_are_refused)
{
    (void)state;
    refuse_at(0, 0, 4, "workers or servers are not within 1 and 65536");
    refuse_at(0, 65537, 4, "workers or servers are not within 1 and 65536");
    refuse_at(0, UINT32_MAX, 4, "workers or servers are not within 1 and 65536");
    refuse_at(4, 0, 4, "workers or servers are not within 1 and 65536");
    refuse_at(8, 4, 4, "more servers share a node with a worker than there are");
    refuse_at(8, UINT32_MAX, 4, "more servers share a node with a worker than there are");
    refuse_at(12, 0, 8, "the batch is 0");
    static const size_t rates[] = {20, 44}, times[] = {28, 36};
    for (size_t i = 0; i < 2; i++) {
        refuse_at(rates[i], 0, 8, "a rate is not a positive number");
        refuse_at(rates[i], bits(-1), 8, "a rate is not a positive number");
        refuse_at(rates[i], bits((double)NAN), 8, "a rate is not a positive number");
        refuse_at(rates[i], bits((double)INFINITY), 8, "a rate is not a positive number");
        refuse_at(times[i], bits(-0.0), 8, "a time is negative or not a number");
        refuse_at(times[i], bits(-1e-9), 8, "a time is negative or not a number");
        refuse_at(times[i], bits((double)NAN), 8, "a time is negative or not a number");
        refuse_at(times[i], bits((double)INFINITY), 8, "a time is negative or not a number");
    }
    refuse_at(76, 2, 1, "the rule is unknown");
    refuse_at(77, 2, 1, "a yes or no is neither 0 nor 1");
    refuse_at(78, 255, 1, "a yes or no is neither 0 nor 1");
    refuse_at(79, 2, 1, "a yes or no is neither 0 nor 1");
    refuse_at(78, 0x0101, 2, "it is aggregate and replicated at once");
}

TEST(books_with_impossible_names_or_lists_are_refused)
{
    (void)state;
    refuse_at(80, 0, 1, "schemes are not within 1 and 32");
    refuse_at(82, '\n', 1, "a text has a control character in it"); /* ps */
    /* 81 "ps" 84 "sfb" 88 "" 89 "hash" 94 "momentum:0.9" 107 "bsp" 111 homes 119 layers */
    refuse_at(111, 3, 4, "a server is at home on no worker's node");
    refuse_at(111, 1, 4, "two servers are at home on one node");
    refuse_at(119, 0, 4, "layers are not within 1 and 1048576");
    refuse_at(119, UINT32_MAX, 4, "it announces more items than it has bytes for");
    /* 123 "fc6" 127 kind 128 rows 132 cols 136 bias 140 K */
    refuse_at(127, 5, 1, "a layer is of unknown kind");
    refuse_at(128, UINT32_C(1) << 31, 4, "a side of a layer is over 2147483647");
    refuse_at(132, UINT32_MAX, 4, "a side of a layer is over 2147483647");
    refuse_at(140, UINT32_MAX, 4, "a side of a layer is over 2147483647");
    refuse_at(136, 4095, 4, "the bias of a layer is neither 0 nor its rows");
    refuse_at(128, 0x7fffffff7fffffff, 8, "the bias of a layer is neither 0 nor its rows");
}

static void refuse_book(const struct wire_book *book, const uint32_t *homes,
                        const struct wire_layer *layers, const char *why)
{
    struct buf data;
    tri_error err = {0};
    char wanted[200];
    buf_init(&data, &mem_libc);
    assert_int_equal(wire_book_encode(book, homes, layers, &data, &err), TRI_EARG);
    (void)snprintf(wanted, sizeof wanted, "the book cannot be sent: %s", why);
    assert_string_equal(err.text, wanted);
    assert_int_equal(data.len, 0);
    buf_fini(&data);
}

TEST(a_book_that_nobody_would_take_is_not_written)
{
    (void)state;
    struct wire_layer layers[2];
    char longest[257];
    memset(longest, 'x', sizeof longest);
    sample_layers(layers);
    struct wire_book book = sample_book();
    book.workers = 0;
    refuse_book(&book, NULL, layers, "workers or servers are not within 1 and 65536");
    book = sample_book();
    book.bits_s = (double)NAN;
    refuse_book(&book, NULL, layers, "a rate is not a positive number");
    book = sample_book();
    book.aggregate = book.replicated = true;
    refuse_book(&book, NULL, layers, "it is aggregate and replicated at once");
    book = sample_book();
    book.schemes[1] = wire_text_of("ps");
    refuse_book(&book, NULL, layers, "a scheme is named twice");
    book.schemes[1] = wire_text_of("");
    refuse_book(&book, NULL, layers, "a scheme has no name, or an impossible one");
    book = sample_book();
    book.scheme_count = 33;
    refuse_book(&book, NULL, layers, "schemes are not within 1 and 32");
    book = sample_book();
    book.placement = wire_text_of("");
    refuse_book(&book, NULL, layers, "a part has no name, or an impossible one");
    book = sample_book();
    book.forced = (struct wire_text){longest, 256};
    refuse_book(&book, NULL, layers, "a part has no name, or an impossible one");
    book = sample_book();
    refuse_book(&book, (const uint32_t[]){2, 2}, layers, "two servers are at home on one node");
    refuse_book(&book, (const uint32_t[]){2, 3}, layers, "a server is at home on no worker's node");
    book.layer_count = 0;
    refuse_book(&book, NULL, layers, "layers are not within 1 and 1048576");
    book.layer_count = 2;
    layers[1].name.len = 0;
    refuse_book(&book, NULL, layers, "a layer has no name");
    layers[1].name = (struct wire_text){longest, 256};
    refuse_book(&book, NULL, layers,
                "the name of a layer is longer than 255 bytes or has a control character in it");
    sample_layers(layers);
    layers[1].rows = layers[1].cols = UINT32_C(1) << 25;
    refuse_book(&book, NULL, layers, "a layer has more than 2^48 parameters");
}

/* ---- the data of HELLO ---- */

TEST(hellos_come_back)
{
    (void)state;
    struct rng rng;
    struct buf data;
    rng_init(&rng, 22);
    buf_init(&data, &mem_libc);
    for (int run = 0; run < RUNS; run++) {
        char rooms[MOST][40], more[MOST][40];
        struct wire_layer layers[MOST], layer;
        struct wire_option options[MOST], option;
        struct wire_hello_out out;
        struct wire_hello_data got;
        uint32_t option_count = (uint32_t)rng_below(&rng, MOST + 1);
        uint32_t layer_count = (uint32_t)rng_below(&rng, MOST + 1);
        tri_error err = {0};
        random_layers(&rng, layers, more);
        buf_clear(&data);
        assert_int_equal(wire_hello_begin(&out, &data, "1.2.3", &err), TRI_OK);
        for (unsigned i = 0; i < option_count; i++) {
            options[i] = (struct wire_option){name(&rng, i, rooms[i]), layers[i].name};
            assert_int_equal(wire_hello_option(&out, &options[i], &err), TRI_OK);
        }
        for (unsigned i = 0; i < layer_count; i++)
            assert_int_equal(wire_hello_layer(&out, &layers[i], &err), TRI_OK);
        struct wire_header header = header_of(WIRE_HELLO, &data);
        if (wire_hello_data_decode(&header, bytes_of(&data), &got, &err) != TRI_OK)
            fail_msg("seed 22, run %d: %s", run, err.text);
        assert_true(wire_text_equal(got.library, wire_text_of("1.2.3")));
        assert_true(got.option_count == option_count && got.layer_count == layer_count);
        for (unsigned i = 0; i < option_count; i++) {
            assert_true(wire_option_next(&got.options, &option));
            assert_true(wire_text_equal(option.name, options[i].name));
            assert_true(wire_text_equal(option.value, options[i].value));
        }
        assert_false(wire_option_next(&got.options, &option));
        for (unsigned i = 0; i < layer_count; i++) {
            assert_true(wire_layer_next(&got.layers, &layer));
            same_layer(&layer, &layers[i]);
        }
        assert_false(wire_layer_next(&got.layers, &layer));
    }
    buf_fini(&data);
}

TEST(what_cannot_travel_in_a_hello_is_not_written)
{
    (void)state;
    char longest[257];
    struct wire_hello_out out;
    struct buf data;
    tri_error err = {0};
    memset(longest, 'x', 256);
    longest[256] = '\0';
    buf_init(&data, &mem_libc);
    assert_int_equal(wire_hello_begin(&out, &data, longest, &err), TRI_EARG);
    assert_int_equal(data.len, 0);
    assert_int_equal(wire_hello_begin(&out, &data, "1", &err), TRI_OK);
    struct wire_option option = {wire_text_of("b"), wire_text_of("2")};
    assert_int_equal(wire_hello_option(&out, &option, &err), TRI_OK);
    size_t len = data.len;
    assert_int_equal(wire_hello_option(&out, &option, &err), TRI_EARG);
    assert_string_equal(err.text, "option 'b' is out of order");
    option.name = wire_text_of("");
    assert_int_equal(wire_hello_option(&out, &option, &err), TRI_EARG);
    option = (struct wire_option){wire_text_of("c"), wire_text_of("tab\t")};
    assert_int_equal(wire_hello_option(&out, &option, &err), TRI_EARG);
    assert_string_equal(err.text, "option 'c' is longer than 255 bytes or has control characters");
    struct wire_layer layer = {.name = wire_text_of("l"), .kind = 9};
    assert_int_equal(wire_hello_layer(&out, &layer, &err), TRI_EARG);
    assert_string_equal(err.text, "a layer is of unknown kind");
    assert_int_equal(data.len, len);
    layer.kind = 0;
    assert_int_equal(wire_hello_layer(&out, &layer, &err), TRI_OK);
    option = (struct wire_option){wire_text_of("d"), wire_text_of("")};
    assert_int_equal(wire_hello_option(&out, &option, &err), TRI_EARG); /* behind a layer */
    buf_fini(&data);
}

static void refuse_hello(const char *bytes, size_t len, const char *why)
{
    struct wire_header header = {.kind = WIRE_HELLO, .data_len = (uint32_t)len};
    struct wire_hello_data got;
    tri_error err = {0};
    char wanted[200];
    (void)snprintf(wanted, sizeof wanted, "data of HELLO from node 0 is malformed: %s", why);
    assert_int_equal(wire_hello_data_decode(&header, (const uint8_t *)bytes, &got, &err),
                     TRI_EINPUT);
    assert_string_equal(err.text, wanted);
}

TEST(hellos_with_impossible_lists_are_refused)
{
    (void)state;
#define REFUSE(bytes, why) refuse_hello(bytes, sizeof(bytes) - 1, why)
    REFUSE("\2\0\0\0\0\0\0\0\0\1b\0\1a\0", "options have no name or do not ascend");
    REFUSE("\2\0\0\0\0\0\0\0\0\1a\0\1a\0", "options have no name or do not ascend");
    REFUSE("\1\0\0\0\0\0\0\0\0\0\1x", "options have no name or do not ascend");
    REFUSE("\2\0\0\0\0\0\0\0\0", "it announces more items than it has bytes for");
    REFUSE("\0\0\0\0\1\0\0\0\0", "it announces more items than it has bytes for");
    REFUSE("\0\0\0\0\0\0\0\0\1\a", "a text has a control character in it");
    REFUSE("\0\0\0\0\1\0\0\0\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0", "a layer has no name");
#undef REFUSE
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(books_come_back),
        cmocka_unit_test(equal_books_have_equal_hashes_and_others_have_not),
        cmocka_unit_test(servers_without_homes_live_on_the_first_nodes),
        cmocka_unit_test(the_shortest_book_has_the_least_data_that_is_let_through),
        cmocka_unit_test(books_with_impossible_numbers_are_refused),
        cmocka_unit_test(books_with_impossible_names_or_lists_are_refused),
        cmocka_unit_test(a_book_that_nobody_would_take_is_not_written),
        cmocka_unit_test(hellos_come_back),
        cmocka_unit_test(what_cannot_travel_in_a_hello_is_not_written),
        cmocka_unit_test(hellos_with_impossible_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
