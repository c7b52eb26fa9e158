/* engine/loader: batches made ahead are those that the stream asks for. */
#include <string.h>

#include "engine/data/data.h"
#include "lib/test.h"

enum { SAMPLES = 23, SIDE = 3, BATCH = 4 };

/* Images whose pixels are the number of the sample. */
struct fixture {
    uint8_t pixels[SAMPLES * SIDE * SIDE];
    uint32_t labels[SAMPLES], tokens[SAMPLES * 2];
    size_t starts[SAMPLES + 1];
    struct data images, text;
};

static void make_fixture(struct fixture *f)
{
    for (uint32_t i = 0; i < SAMPLES; i++) {
        memset(f->pixels + (size_t)i * SIDE * SIDE, (int)i, (size_t)SIDE * SIDE);
        f->labels[i] = i + 100;
        f->starts[i] = (size_t)i * 2;
        f->tokens[f->starts[i]] = i + 2;
        f->tokens[f->starts[i] + 1] = i + 3;
    }
    f->starts[SAMPLES] = (size_t)SAMPLES * 2;
    f->images = (struct data){.samples = SAMPLES,
                              .shape = {.image = {1, SIDE, SIDE}, .classes = 2},
                              .images = f->pixels,
                              .labels = f->labels,
                              .scale = {255}};
    f->text = (struct data){.samples = SAMPLES,
                            .shape = {.length = 3, .words = 30, .classes = 2},
                            .text = true,
                            .tokens = f->tokens,
                            .starts = f->starts,
                            .labels = f->labels};
}

static struct loader *open_loader(const struct data *data, uint32_t rank, uint32_t workers,
                                  uint64_t first)
{
    struct loader *loader = NULL;
    const struct loader_options options = {.data = data,
                                           .batch = BATCH,
                                           .rank = rank,
                                           .workers = workers,
                                           .seed = 8,
                                           .start = first * workers * BATCH};
    assert_int_equal(loader_open(&options, &mem_libc, &loader, NULL), TRI_OK);
    return loader;
}

TEST(batches_come_in_the_order_of_the_stream)
{
    (void)state;
    struct fixture f;
    make_fixture(&f);
    struct stream *stream = stream_new(&mem_libc, SAMPLES, 8);
    const uint32_t workers = 3, rank = 1;
    const uint64_t first = 5;
    struct loader *loader = open_loader(&f.images, rank, workers, first);
    float pixels[BATCH * SIDE * SIDE];
    uint32_t labels[BATCH];
    const struct net_batch out = {.images = pixels, .labels = labels};
    for (uint64_t i = first; i < first + 50; i++) {
        loader_next(loader, &out);
        for (uint32_t k = 0; k < BATCH; k++) {
            uint64_t sample = stream_at(stream, (i * workers + rank) * BATCH + k);
            assert_int_equal(labels[k], sample + 100);
            for (size_t p = 0; p < (size_t)SIDE * SIDE; p++)
                assert_float_equal(pixels[(size_t)k * SIDE * SIDE + p], (float)sample, 1e-4);
        }
    }
    loader_close(loader);
    stream_free(stream);
}

TEST(workers_together_see_what_one_would)
{
    (void)state;
    enum { WORKERS = 3, ALL = WORKERS * BATCH };
    struct fixture f;
    make_fixture(&f);
    struct loader *ours[WORKERS], *one = NULL;
    const struct loader_options alone = {
        .data = &f.text, .batch = ALL, .workers = 1, .seed = 8, .start = (uint64_t)2 * ALL};
    assert_int_equal(loader_open(&alone, &mem_libc, &one, NULL), TRI_OK);
    for (uint32_t r = 0; r < WORKERS; r++)
        ours[r] = open_loader(&f.text, r, WORKERS, 2);
    uint32_t labels[ALL], wanted[ALL], tokens[ALL * 3], wanted_tokens[ALL * 3];
    for (int i = 0; i < 20; i++) {
        loader_next(one, &(struct net_batch){.tokens = wanted_tokens, .labels = wanted});
        for (size_t r = 0; r < WORKERS; r++)
            loader_next(ours[r], &(struct net_batch){.tokens = tokens + r * BATCH * 3,
                                                     .labels = labels + r * BATCH});
        assert_memory_equal(labels, wanted, sizeof wanted);
        assert_memory_equal(tokens, wanted_tokens, sizeof wanted_tokens);
    }
    for (uint32_t r = 0; r < WORKERS; r++)
        loader_close(ours[r]);
    loader_close(one);
}

TEST(tokens_are_padded)
{
    (void)state;
    struct fixture f;
    make_fixture(&f);
    struct loader *loader = open_loader(&f.text, 0, 1, 0);
    uint32_t labels[BATCH], tokens[BATCH * 3];
    const struct net_batch out = {.tokens = tokens, .labels = labels};
    for (int i = 0; i < 20; i++) {
        memset(tokens, 0xFF, sizeof tokens);
        loader_next(loader, &out);
        for (size_t k = 0; k < BATCH; k++) {
            assert_int_equal(tokens[3 * k], labels[k] - 98);
            assert_int_equal(tokens[3 * k + 1], labels[k] - 97);
            assert_int_equal(tokens[3 * k + 2], 0);
        }
    }
    loader_close(loader);
}

TEST(closing_at_any_moment_ends_the_thread)
{
    (void)state;
    struct fixture f;
    make_fixture(&f);
    float pixels[BATCH * SIDE * SIDE];
    uint32_t labels[BATCH];
    const struct net_batch out = {.images = pixels, .labels = labels};
    for (int taken = 0; taken < 60; taken++) {
        struct loader *loader = open_loader(&f.images, 0, 1, 0);
        for (int i = 0; i < taken % 6; i++)
            loader_next(loader, &out);
        loader_close(loader);
    }
    loader_close(NULL);
}

TEST(impossible_options_are_refused)
{
    (void)state;
    struct fixture f;
    make_fixture(&f);
    struct data none = f.images;
    none.samples = 0;
    const struct loader_options wrong[] = {
        {.data = &f.images, .batch = 0, .workers = 1},
        {.data = &f.images, .batch = 1, .workers = 0},
        {.data = &f.images, .batch = 1, .workers = 2, .rank = 2},
        {.data = &none, .batch = 1, .workers = 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct loader *loader = NULL;
        tri_error err = {0};
        assert_int_equal(loader_open(&wrong[i], &mem_libc, &loader, &err), TRI_EARG);
        assert_null(loader);
        assert_true(err.text[0] != '\0');
    }
}

TEST(opening_survives_refused_memory)
{
    (void)state;
    struct fixture f;
    make_fixture(&f);
    const struct data *const both[] = {&f.images, &f.text};
    for (int i = 0; i < 2; i++) {
        struct fault fault = {0};
        const struct loader_options options = {.data = both[i], .batch = BATCH, .workers = 1};
        FAULT_WALK(&fault)
        {
            struct loader *loader = NULL;
            tri_status status = loader_open(&options, &fault.mem, &loader, NULL);
            assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
            assert_int_equal(loader != NULL, status == TRI_OK);
            size_t calls = fault.calls;
            loader_close(loader);
            assert_int_equal(fault.calls, calls); /* none after the start */
        }
        assert_int_equal(fault.run, 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_come_in_the_order_of_the_stream),
        cmocka_unit_test(workers_together_see_what_one_would),
        cmocka_unit_test(tokens_are_padded),
        cmocka_unit_test(closing_at_any_moment_ends_the_thread),
        cmocka_unit_test(impossible_options_are_refused),
        cmocka_unit_test(opening_survives_refused_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
