/* run/greeting: who is at the other end. */
#include "run/greeting.h"

#include <string.h>

#include "base/rng.h"
#include "lib/test.h"

static struct convert_greeting draw_greeting(struct rng *rng)
{
    uint32_t nodes = (uint32_t)(1 + rng_below(rng, (uint64_t)WIRE_MAX_NODES));
    return (struct convert_greeting){.job = rng_u64(rng),
                                     .node = (uint32_t)rng_below(rng, nodes),
                                     .nodes = nodes,
                                     .incarnation = rng_u64(rng),
                                     .port = (uint16_t)rng_u64(rng),
                                     .wire_min = 1,
                                     .wire_max = (uint16_t)(1 + rng_below(rng, 9)),
                                     .roles = (uint8_t)(1 + rng_below(rng, 7))};
}

TEST(greetings_come_back_and_one_wrong_bit_is_refused)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 5);
    for (int run = 0; run < 50; run++) {
        struct convert_greeting sent = draw_greeting(&rng), got;
        uint8_t bytes[TRANSPORT_GREETING_BYTES], again[TRANSPORT_GREETING_BYTES];
        tri_error err = {0};
        greeting_encode(&sent, bytes);
        assert_int_equal(greeting_decode(bytes, &got, &err), TRI_OK);
        greeting_encode(&got, again);
        assert_memory_equal(bytes, again, sizeof bytes);
        assert_true(got.job == sent.job && got.node == sent.node && got.nodes == sent.nodes &&
                    got.incarnation == sent.incarnation && got.port == sent.port &&
                    got.wire_min == sent.wire_min && got.wire_max == sent.wire_max &&
                    got.roles == sent.roles);
        for (unsigned bit = 0; bit < 8 * sizeof bytes; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_not_equal(greeting_decode(bytes, &got, &err), TRI_OK);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

static void refuse_greeting(const char *begin, tri_status status, const char *text)
{
    uint8_t bytes[TRANSPORT_GREETING_BYTES] = {0};
    struct convert_greeting got;
    tri_error err = {0};
    memcpy(bytes, begin, 8);
    assert_int_equal(greeting_decode(bytes, &got, &err), status);
    assert_string_equal(err.text, text);
}

TEST(what_is_no_greeting_is_called_by_its_name)
{
    (void)state;
    refuse_greeting("GET / HT", TRI_EINPUT, "this is an HTTP client, not a trident node");
    refuse_greeting("TRID\1\0\7\0", TRI_EINPUT, "this is a message without a greeting before it");
    refuse_greeting("TRIG\2\0\3\0", TRI_EMISMATCH,
                    "peer speaks wire versions 2 to 3, this is version 1");
    refuse_greeting("\1\2\3\4\5\6\7\0", TRI_EINPUT,
                    "this is not a trident node: its bytes begin with 01 02 03 04");
}

TEST(a_greeting_of_another_job_cluster_or_process_is_refused)
{
    (void)state;
    const struct convert_greeting own = {.job = 1,
                                         .node = 2,
                                         .nodes = 4,
                                         .incarnation = 7,
                                         .wire_min = 1,
                                         .wire_max = 1,
                                         .roles = 1};
    struct convert_greeting other = own;
    tri_error err = {0};
    other.node = 3;
    other.incarnation = 8;
    assert_int_equal(greeting_check(&own, &other, &err), TRI_OK);
    other.node = 2;
    assert_int_equal(greeting_check(&own, &other, &err), TRI_EMISMATCH);
    assert_string_equal(err.text, "there are two processes that are node 2");
    other.nodes = 5;
    assert_int_equal(greeting_check(&own, &other, &err), TRI_EMISMATCH);
    assert_string_equal(err.text, "node 2 counts 5 nodes, node 2 counts 4");
    other.job = 9;
    assert_int_equal(greeting_check(&own, &other, &err), TRI_EMISMATCH);
    assert_string_equal(err.text, "node 2 belongs to another job");
}

TEST(bytes_fit_when_both_are_greetings_of_one_job)
{
    (void)state;
    struct convert_greeting mine = {.job = 1,
                                    .node = 2,
                                    .nodes = 4,
                                    .incarnation = 7,
                                    .wire_min = 1,
                                    .wire_max = 1,
                                    .roles = 1};
    uint8_t own[TRANSPORT_GREETING_BYTES], other[TRANSPORT_GREETING_BYTES];
    tri_error err = {0};
    greeting_encode(&mine, own);
    mine.node = 1;
    greeting_encode(&mine, other);
    assert_int_equal(greeting_fits(own, other, &err), TRI_OK);
    mine.nodes = 3;
    greeting_encode(&mine, other);
    assert_int_equal(greeting_fits(own, other, &err), TRI_EMISMATCH);
    assert_string_equal(err.text, "node 1 counts 3 nodes, node 2 counts 4");
    other[60] ^= 1;
    assert_int_equal(greeting_fits(own, other, &err), TRI_EINPUT);
    memset(other, 0, sizeof other);
    assert_int_equal(greeting_fits(own, other, &err), TRI_EINPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greetings_come_back_and_one_wrong_bit_is_refused),
        cmocka_unit_test(what_is_no_greeting_is_called_by_its_name),
        cmocka_unit_test(a_greeting_of_another_job_cluster_or_process_is_refused),
        cmocka_unit_test(bytes_fit_when_both_are_greetings_of_one_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
