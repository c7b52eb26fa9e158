/* What the busiest node moves, against a count over all pairs of worker and piece. */
#include "plan/traffic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "lib/books.h"
#include "lib/test.h"

enum { MAX_NODES = 24 };

struct node {
    double send, recv;
};

/* What one worker and the owner of one piece exchange for it. */
static void exchange(const struct plan *plan, const struct plan_piece *piece, uint32_t worker,
                     struct node nodes[MAX_NODES])
{
    uint32_t owner = plan_node(plan->book, piece->server);
    if (owner == worker)
        return;
    const struct plan_layer *layer = &plan->layers[piece->layer];
    const struct profile_layer *profile = layer->profile;
    const char *scheme = scheme_at(layer->scheme)->name;
    double bytes = 4 * (double)piece->floats, up = bytes, down = bytes;
    double rows = (double)profile->rows, row = (double)profile->cols + 1;
    if (strcmp(scheme, "adam") == 0)
        up = 4 * layer->shape.factor_rows * (rows + (double)profile->cols);
    if (strcmp(scheme, "rows") == 0) {
        double share = (double)piece->floats / (double)profile->params;
        double touched = (double)(plan->book->batch * profile->sparse_rows);
        up = share * 4 * (touched * row + (double)profile->bias);
        down =
            share * 4 * (fmin(plan->book->workers * touched, rows) * row + (double)profile->bias);
    }
    nodes[worker].send += up;
    nodes[owner].recv += up;
    nodes[owner].send += down;
    nodes[worker].recv += down;
}

static void count(const struct plan *plan, struct node nodes[MAX_NODES])
{
    for (uint32_t w = 0; w < plan->book->workers; w++) {
        for (size_t i = 0; i < plan->pieces; i++)
            exchange(plan, &plan->piece[i], w, nodes);
        for (size_t i = 0; i < plan->count; i++)
            if (plan->layers[i].pieces == 0) {
                const struct plan_layer *layer = &plan->layers[i];
                nodes[w].send += layer->costs[layer->scheme].cost.send_bytes;
                nodes[w].recv += layer->costs[layer->scheme].cost.recv_bytes;
            }
    }
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(1, fmax(fabs(a), fabs(b)));
}

static void check(const struct plan *plan)
{
    struct node nodes[MAX_NODES] = {0};
    double most = 0;
    bool found = false;
    count(plan, nodes);
    for (size_t i = 0; i < MAX_NODES; i++)
        most = fmax(most, fmax(nodes[i].send, nodes[i].recv));
    double busiest = fmax(plan->busiest_send_bytes, plan->busiest_recv_bytes);
    if (!near(busiest, most))
        fail_msg("the busiest node moves %.17g, not %.17g", most, busiest);
    for (size_t i = 0; i < MAX_NODES; i++)
        found = found || (near(nodes[i].send, plan->busiest_send_bytes) &&
                          near(nodes[i].recv, plan->busiest_recv_bytes));
    assert_true(found);
    if (plan->busiest_server != PLAN_NO_SERVER) {
        struct node node = nodes[plan_node(plan->book, plan->busiest_server)];
        assert_true(near(fmax(node.send, node.recv), most));
    }
}

static struct profile *random_model(struct rng *rng)
{
    static const char *const kinds[] = {"FC", "CONV", "EMBED", "NORM"};
    struct buf text;
    struct profile *profile = NULL;
    tri_error err = {0};
    buf_init(&text, &mem_libc);
    buf_text(&text, "{\"format\": \"layer-profile/1\", \"name\": \"m\", \"layers\": [");
    for (unsigned i = 0, n = 1 + (unsigned)rng_below(rng, 6); i < n; i++) {
        unsigned rows = 1 + (unsigned)rng_below(rng, 3000), kind = (unsigned)rng_below(rng, 4);
        buf_format(&text,
                   "%s{\"name\": \"l%u\", \"type\": \"%s\", \"M\": %u, \"N\": %u, "
                   "\"bias\": %u%s}",
                   i == 0 ? "" : ", ", i, kinds[kind], rows, 1 + (unsigned)rng_below(rng, 300),
                   rng_below(rng, 2) == 0 ? rows : 0, kind == 2 ? ", \"sparse_rows\": 3" : "");
    }
    buf_text(&text, "]}");
    if (profile_read("m", text.data, text.len, &mem_libc, &profile, &err) != TRI_OK)
        fail_msg("%s", err.text);
    buf_fini(&text);
    return profile;
}

/* Workers, servers, and which of them share nodes, in any order. */
static void random_cluster(struct rng *rng, struct book *book, uint32_t home[MAX_NODES])
{
    book->workers = 1 + (uint32_t)rng_below(rng, 9);
    book->servers = 1 + (uint32_t)rng_below(rng, 9);
    uint32_t room = book->workers < book->servers ? book->workers : book->servers;
    book->colocated = (uint32_t)rng_below(rng, room + 1);
    for (uint32_t i = 0; i < book->workers; i++)
        home[i] = i;
    for (uint32_t i = 0; i + 1 < book->workers; i++) {
        uint32_t j = i + (uint32_t)rng_below(rng, book->workers - i), at = home[i];
        home[i] = home[j];
        home[j] = at;
    }
    book->home = rng_below(rng, 2) == 0 ? home : NULL;
}

TEST(the_busiest_node_is_the_one_that_counting_finds)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 20);
    size_t placements = 0;
    while (placement_at(placements) != NULL)
        placements++;
    for (int run = 0; run < 2000; run++) {
        struct profile *profile = random_model(&rng);
        struct book book = book_of(profile, 1);
        uint32_t home[MAX_NODES];
        random_cluster(&rng, &book, home);
        book.placement = placement_at((size_t)rng_below(&rng, placements));
        book.chunk_bytes = 4096;
        book.batch = 1 + rng_below(&rng, 64);
        book.schemes = (uint32_t)rng_u64(&rng) | book_scheme("ps");
        struct plan *plan = book_plan(&book);
        check(plan);
        plan_free(plan);
        profile_free(profile);
    }
}

TEST(an_even_placement_moves_what_the_prices_say)
{
    (void)state;
    struct profile *profile = book_one_layer("CONV", 1024, 1024, 0);
    struct book book = book_of(profile, 8);
    book.placement = placement_find("uniform");
    book.latency_s = 1e-3;
    book.message_s = 1e-5;
    struct plan *plan = book_plan(&book);
    assert_true(near(plan->busiest_send_bytes, plan->send_bytes));
    assert_true(near(plan->busiest_recv_bytes, plan->recv_bytes));
    assert_true(near(plan->busiest_s, plan->comm_s));
    assert_true(plan->fullest_over_mean == 1);
    plan_free(plan);
    profile_free(profile);
}

TEST(a_server_with_one_large_tensor_takes_as_long_as_it_moves)
{
    (void)state;
    struct profile *profile = book_model("vgg19");
    struct book book = book_of(profile, 8);
    book.forced = scheme_at(book_scheme_index("ps"));
    book.placement = placement_find("lpt");
    struct plan *plan = book_plan(&book);
    double most = 4.0 * 4096 * 25088, all = 4.0 * 143667240; /* fc6's weights, and everything */
    assert_true(near(plan->busiest_send_bytes, all - most + 7 * most));
    assert_int_equal(plan->busiest_server, 0);
    assert_true(near(plan->busiest_s, 8 * plan->busiest_send_bytes / 1e10));
    assert_true(plan->busiest_s > 2.9 * plan->comm_s);
    plan_free(plan);
    profile_free(profile);
}

TEST(times_follow_the_fullest_server)
{
    (void)state;
    struct profile *profile = book_model("googlenet");
    struct book book = book_of(profile, 4); /* messages cost nothing in it */
    book.forced = scheme_at(book_scheme_index("ps"));
    double fullest[16], time[16];
    size_t n = 0;
    for (; placement_at(n) != NULL; n++) {
        book.placement = placement_at(n);
        struct plan *plan = book_plan(&book);
        fullest[n] = plan->fullest_over_mean;
        time[n] = plan->busiest_s;
        plan_free(plan);
    }
    assert_true(n >= 6);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (fullest[i] < fullest[j])
                assert_true(time[i] < time[j]);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_busiest_node_is_the_one_that_counting_finds),
        cmocka_unit_test(an_even_placement_moves_what_the_prices_say),
        cmocka_unit_test(a_server_with_one_large_tensor_takes_as_long_as_it_moves),
        cmocka_unit_test(times_follow_the_fullest_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
