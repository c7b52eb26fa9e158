/* Schemes: the formulas against Poseidon's Table 1, against a plain count of what
 * every node sends, and what every row of the registry must keep to. */
#include "mod/scheme.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "lib/books.h"
#include "lib/test.h"

#define CLOSE(a, b) assert_true(fabs((a) - (b)) <= 1e-9 * fmax(1, fabs((double)(b))))

static tri_scheme_layer layer_of(tri_kind kind, double rows, double cols, double k)
{
    return (tri_scheme_layer){.kind = kind,
                              .rows = rows,
                              .cols = cols,
                              .factor_rows = k,
                              .touched_rows = kind == TRI_EMBED ? fmin(k, rows) : rows,
                              .pieces = 1};
}

static tri_scheme_cluster nodes_of(double workers, double servers, double both)
{
    return (tri_scheme_cluster){.workers = workers,
                                .servers = servers,
                                .both = both,
                                .chunk_bytes = 1 << 21,
                                .reproducible = true};
}

static tri_scheme_cost cost_of(const char *name, tri_scheme_layer layer, tri_scheme_cluster cluster)
{
    tri_scheme_cost cost = {0};
    const tri_scheme_ops *ops = scheme_at(book_scheme_index(name));
    assert_null(ops->refuses(&layer, &cluster));
    ops->cost(&layer, &cluster, &cost);
    return cost;
}

TEST(poseidons_worked_example_comes_out)
{
    (void)state;
    tri_scheme_layer fc = layer_of(TRI_FC, 4096, 4096, 32);
    tri_scheme_cluster eight = nodes_of(8, 8, 8);
    tri_scheme_cost ps = cost_of("ps", fc, eight);
    CLOSE(ps.floats_worker, 33554432.0);
    CLOSE(ps.floats_server, 33554432.0);
    CLOSE(ps.floats_both, 58720256.0);
    tri_scheme_cost sfb = cost_of("sfb", fc, eight);
    CLOSE(sfb.floats_worker, 3670016.0);
    CLOSE(sfb.floats_both, 3670016.0);
    assert_true(isnan(sfb.floats_server));
    tri_scheme_cost adam = cost_of("adam", fc, eight);
    CLOSE(adam.floats_server, 8 * 16777216.0 + 8 * 32 * 8192.0);
    CLOSE(adam.floats_worker, 32 * 8192.0 + 16777216.0);
    CLOSE(adam.floats_both, 7 * (16777216.0 + 32 * 8192.0));
}

TEST(table_1_holds_for_any_cluster)
{
    (void)state;
    for (int p = 1; p <= 9; p++)
        for (int q = 1; q <= 9; q++) {
            double m = 30, n = 70, k = 5;
            tri_scheme_layer fc = layer_of(TRI_FC, m, n, k);
            tri_scheme_cluster nodes = nodes_of(p, q, fmin(p, q));
            tri_scheme_cost ps = cost_of("ps", fc, nodes);
            CLOSE(ps.floats_server, 2 * p * m * n / q);
            CLOSE(ps.floats_worker, 2 * m * n);
            CLOSE(ps.floats_both, 2 * m * n * (p + q - 2) / q);
            CLOSE(cost_of("sfb", fc, nodes).floats_worker, 2 * k * (p - 1) * (m + n));
        }
}

TEST(a_node_that_is_both_sends_and_receives_its_share_of_the_table)
{
    (void)state;
    tri_scheme_layer fc = layer_of(TRI_FC, 4096, 1000, 32);
    static const char *const names[] = {"ps", "sfb", "ring", "shard-sf"};
    for (int p = 1; p <= 64; p++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            tri_scheme_cost cost = cost_of(names[i], fc, nodes_of(p, p, p));
            CLOSE(cost.send_bytes + cost.recv_bytes, 4 * cost.floats_both);
            CLOSE(cost.send_bytes, cost.recv_bytes);
        }
}

/* The plain reference: every worker sends every server its share, except itself. */
static void count_ps(int p, int q, int both, double floats, double *send, double *recv)
{
    double sent[64] = {0}, received[64] = {0};
    for (int w = 0; w < p; w++)
        for (int s = 0; s < q; s++) {
            int node = s < both ? s : p + s - both;
            if (node == w)
                continue;
            sent[w] += floats / q;
            received[node] += floats / q;
            sent[node] += floats / q;
            received[w] += floats / q;
        }
    *send = *recv = 0;
    for (int i = 0; i < p + q - both; i++) {
        *send = fmax(*send, 4 * sent[i]);
        *recv = fmax(*recv, 4 * received[i]);
    }
}

TEST(ps_bytes_equal_a_count_over_all_messages)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int q = 1; q <= 8; q++)
            for (int both = 0; both <= (p < q ? p : q); both++) {
                double send, recv;
                tri_scheme_layer conv = layer_of(TRI_CONV, 64, 27, 32);
                conv.bias = 64;
                tri_scheme_cost cost = cost_of("ps", conv, nodes_of(p, q, both));
                count_ps(p, q, both, 64 * 27 + 64, &send, &recv);
                CLOSE(cost.send_bytes, send);
                CLOSE(cost.recv_bytes, recv);
            }
}

TEST(shard_sf_takes_the_best_of_all_grids)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 11);
    for (int i = 0; i < 300; i++) {
        double rows = 1 + (double)rng_below(&rng, 5000), cols = 1 + (double)rng_below(&rng, 5000);
        double p = 1 + (double)rng_below(&rng, 130), best = INFINITY;
        for (int pr = 1; pr <= p; pr++) {
            double pc = p / pr;
            if (pc == floor(pc) && pr <= rows && pc <= cols)
                best = fmin(best, rows / pr + cols / pc);
        }
        tri_scheme_layer fc = layer_of(TRI_FC, rows, cols, 8);
        tri_scheme_cluster nodes = nodes_of(p, p, p);
        const tri_scheme_ops *ops = scheme_at(book_scheme_index("shard-sf"));
        if (isinf(best)) {
            assert_non_null(ops->refuses(&fc, &nodes));
            continue;
        }
        tri_scheme_cost cost = cost_of("shard-sf", fc, nodes);
        CLOSE(rows / cost.grid_rows + cols / cost.grid_cols, best);
        CLOSE(cost.grid_rows * cost.grid_cols, p);
        CLOSE(cost.send_bytes, 4 * (p - 1) * (8 * best + rows * cols / p));
    }
}

TEST(shard_sf_refuses_more_owners_than_rows)
{
    (void)state;
    tri_scheme_layer fc = layer_of(TRI_FC, 3, 4096, 8);
    tri_scheme_cluster nodes = nodes_of(8, 8, 8);
    const tri_scheme_ops *ops = scheme_at(book_scheme_index("shard-sf"));
    assert_null(ops->refuses(&fc, &nodes));
    nodes.grid_rows = 4;
    nodes.grid_cols = 2;
    assert_non_null(strstr(ops->refuses(&fc, &nodes), "fewer rows"));
    fc.cols = 1;
    nodes.grid_rows = nodes.grid_cols = 0;
    assert_non_null(ops->refuses(&fc, &nodes));
}

TEST(rows_move_less_than_ps_and_only_embeddings_have_them)
{
    (void)state;
    const tri_scheme_ops *rows = scheme_at(book_scheme_index("rows"));
    tri_scheme_cluster nodes = nodes_of(4, 4, 4);
    tri_scheme_layer embed = layer_of(TRI_EMBED, 30000, 300, 60);
    CLOSE(cost_of("rows", embed, nodes).floats_worker, (60 + 240) * 301.0);
    assert_true(cost_of("rows", embed, nodes).send_bytes <
                cost_of("ps", embed, nodes).send_bytes / 50);
    embed.touched_rows = embed.rows;
    assert_non_null(rows->refuses(&embed, &nodes));
    tri_scheme_layer fc = layer_of(TRI_FC, 30000, 300, 60);
    assert_non_null(rows->refuses(&fc, &nodes));
}

TEST(an_owner_apart_does_the_products_of_all_workers)
{
    (void)state;
    tri_scheme_layer fc = layer_of(TRI_FC, 100, 200, 32);
    CLOSE(cost_of("adam", fc, nodes_of(4, 4, 4)).extra_flops, 2.0 * 3 * 32 * 100 * 200);
    CLOSE(cost_of("adam", fc, nodes_of(4, 4, 0)).extra_flops, 2.0 * 4 * 32 * 100 * 200);
    CLOSE(cost_of("sfb", fc, nodes_of(4, 4, 4)).extra_flops, 2.0 * 3 * 32 * 100 * 200);
    CLOSE(cost_of("shard-sf", fc, nodes_of(4, 4, 4)).extra_flops, 0);
}

TEST(landing_slots_are_one_per_worker_only_in_rank_order)
{
    (void)state;
    tri_scheme_layer fc = layer_of(TRI_FC, 100, 200, 32);
    tri_scheme_cluster nodes = nodes_of(6, 3, 3);
    CLOSE(cost_of("ps", fc, nodes).server_buffer_bytes, 6 * 4 * 20000.0 / 3);
    nodes.reproducible = false;
    CLOSE(cost_of("ps", fc, nodes).server_buffer_bytes, 4 * 20000.0 / 3);
}

/* ---- what every scheme keeps to ---- */

TEST(every_scheme_has_its_table_filled)
{
    (void)state;
    for (size_t i = 0; scheme_at(i) != NULL; i++) {
        const tri_scheme_ops *ops = scheme_at(i);
        size_t found = SCHEME_MAX;
        assert_int_equal(ops->abi, TRI_SCHEME_ABI);
        assert_true(strlen(ops->summary) > 10 && strlen(ops->formula) > 3);
        assert_ptr_equal(scheme_find(ops->name, &found), ops);
        assert_int_equal(found, i);
    }
}

TEST(every_scheme_costs_nothing_with_one_worker_on_one_node)
{
    (void)state;
    tri_scheme_cluster one = nodes_of(1, 1, 1);
    for (int kind = 0; kind < LAYER_KINDS; kind++)
        for (size_t i = 0; scheme_at(i) != NULL; i++) {
            tri_scheme_layer layer = layer_of((tri_kind)kind, 100, 200, 4);
            if (scheme_at(i)->refuses(&layer, &one) != NULL)
                continue;
            tri_scheme_cost cost = {0};
            scheme_at(i)->cost(&layer, &one, &cost);
            CLOSE(cost.send_bytes + cost.recv_bytes + cost.messages, 0);
            CLOSE(cost.rounds + cost.extra_flops, 0);
        }
}

TEST(every_scheme_stays_finite_and_never_negative)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 7);
    for (int run = 0; run < 3000; run++) {
        double p = 1 + (double)rng_below(&rng, 65536), q = 1 + (double)rng_below(&rng, 65536);
        tri_scheme_layer layer =
            layer_of((tri_kind)rng_below(&rng, LAYER_KINDS), 1 + (double)rng_below(&rng, 1 << 30),
                     1 + (double)rng_below(&rng, 1 << 17), 1 + (double)rng_below(&rng, 1 << 30));
        tri_scheme_cluster nodes =
            nodes_of(p, q, (double)rng_below(&rng, (uint64_t)fmin(p, q) + 1));
        for (size_t i = 0; scheme_at(i) != NULL; i++) {
            if (scheme_at(i)->refuses(&layer, &nodes) != NULL)
                continue;
            tri_scheme_cost cost = {0};
            scheme_at(i)->cost(&layer, &nodes, &cost);
            const double all[] = {cost.send_bytes,
                                  cost.recv_bytes,
                                  cost.messages,
                                  cost.rounds,
                                  cost.extra_flops,
                                  cost.floats_both,
                                  cost.server_buffer_bytes,
                                  cost.worker_buffer_bytes};
            for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
                assert_true(isfinite(all[j]) && all[j] >= 0);
        }
    }
}

TEST(every_scheme_explains_the_number_it_charges)
{
    (void)state;
    tri_scheme_cluster nodes = nodes_of(6, 6, 6);
    for (size_t i = 0; scheme_at(i) != NULL; i++)
        for (int kind = 0; kind < LAYER_KINDS; kind++) {
            tri_scheme_layer layer = layer_of((tri_kind)kind, 1234, 567, 8);
            if (scheme_at(i)->refuses(&layer, &nodes) != NULL)
                continue;
            char text[200];
            scheme_at(i)->explain(&layer, &nodes, text, sizeof text);
            assert_non_null(strstr(text, "567"));
            assert_null(strstr(text, "nan"));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(poseidons_worked_example_comes_out),
        cmocka_unit_test(table_1_holds_for_any_cluster),
        cmocka_unit_test(a_node_that_is_both_sends_and_receives_its_share_of_the_table),
        cmocka_unit_test(ps_bytes_equal_a_count_over_all_messages),
        cmocka_unit_test(shard_sf_takes_the_best_of_all_grids),
        cmocka_unit_test(shard_sf_refuses_more_owners_than_rows),
        cmocka_unit_test(rows_move_less_than_ps_and_only_embeddings_have_them),
        cmocka_unit_test(an_owner_apart_does_the_products_of_all_workers),
        cmocka_unit_test(landing_slots_are_one_per_worker_only_in_rank_order),
        cmocka_unit_test(every_scheme_has_its_table_filled),
        cmocka_unit_test(every_scheme_costs_nothing_with_one_worker_on_one_node),
        cmocka_unit_test(every_scheme_stays_finite_and_never_negative),
        cmocka_unit_test(every_scheme_explains_the_number_it_charges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
