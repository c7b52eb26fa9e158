/* run/convert: what no right node sends is refused, and by name. */
#include "run/convert.h"

#include "run/travel.h"
#include "wire/hello.h"
#include "wire/peers.h"

/* ---- a fixed job, for what is refused ---- */

/* Three workers; servers on nodes 1 and 3. fc goes by factors among workers, big by factors to a
 * server, conv densely. */
struct fixed {
    struct agreement *agreement;
    struct buf book, out;
    uint32_t fc, big, conv;
};

static void open_fixed(struct fixed *fixed)
{
    static const uint32_t home[] = {1};
    const struct agree_layer layers[] = {
        {.name = "conv", .kind = TRI_CONV, .rows = 10, .cols = 9, .bias = true},
        {.name = "fc", .kind = TRI_FC, .rows = 200, .cols = 200, .max_factor_rows = 2},
        {.name = "big", .kind = TRI_FC, .rows = 30, .cols = 40, .max_factor_rows = 8},
    };
    const struct agree_options options = {.workers = 3,
                                          .servers = 2,
                                          .colocated = 1,
                                          .home = home,
                                          .bits_s = 1e9,
                                          .flops_s = 1e12,
                                          .chunk_bytes = 160,
                                          .reproducible = true,
                                          .rule = PLAN_TIME};
    tri_error err = {0};
    *fixed = (struct fixed){.conv = 0, .fc = 1, .big = 2};
    buf_init(&fixed->book, &mem_libc);
    buf_init(&fixed->out, &mem_libc);
    if (agree_make(layers, 3, &options, &mem_libc, &fixed->agreement, &err) != TRI_OK)
        fail_msg("%s", err.text);
    assert_int_equal(agree_encode(fixed->agreement, &fixed->book, &err), TRI_OK);
    const struct layout *layout = fixed->agreement->layout;
    assert_int_equal(layout->layers[fixed->fc].home, TRI_HOME_WORKERS);
    assert_int_equal(layout->layers[fixed->conv].home, TRI_HOME_PIECES);
}

static void close_fixed(struct fixed *fixed)
{
    agree_free(fixed->agreement);
    buf_fini(&fixed->book);
    buf_fini(&fixed->out);
}

static struct convert fixed_context(const struct fixed *fixed, uint32_t node)
{
    return context(fixed->agreement, node, &fixed->book);
}

static uint32_t owner_of(const struct fixed *fixed, uint32_t layer, uint32_t part)
{
    const struct layout *layout = fixed->agreement->layout;
    uint32_t unit = layout->parts[layout->layers[layer].first_part + part].unit;
    return layout->server_node[layout->units[unit].server];
}

/* As sent by a node; then `change` spoils the header. */
static tri_status receive(struct fixed *fixed, uint32_t from, uint32_t to,
                          const struct message *message, void (*change)(struct wire_header *),
                          tri_error *err)
{
    struct convert sender = fixed_context(fixed, from), receiver = fixed_context(fixed, to);
    struct wire_header header;
    struct message got = {.len = 4711};
    uint64_t set[WORDS];
    size_t head = 0;
    buf_clear(&fixed->out);
    sender.checked = false;
    if (convert_encode(&sender, message, &fixed->out, &head, err) != TRI_OK)
        fail_msg("%s", err->text);
    const uint8_t *bytes = (const uint8_t *)fixed->out.data;
    assert_int_equal(wire_header_decode(bytes, &wire_widest, &header, err), TRI_OK);
    if (change != NULL)
        change(&header);
    struct convert_in in = {&header, bytes + WIRE_HEADER_BYTES, bytes + head};
    tri_status status = convert_decode(&receiver, &in, set, &got, err);
    if (status != TRI_OK) {
        assert_int_equal(got.len, 4711);
        return status;
    }
    return convert_decode_data(&receiver, &in, set, &got, err);
}

static void refused(struct fixed *fixed, uint32_t from, uint32_t to, const struct message *message,
                    void (*change)(struct wire_header *), const char *text)
{
    tri_error err = {0};
    tri_status status = receive(fixed, from, to, message, change, &err);
    assert_string_equal(err.text, text);
    assert_true(status == TRI_EINPUT || status == TRI_EMISMATCH);
    assert_int_equal(err.status, status);
}

static void longer(struct wire_header *header)
{
    header->data_len += 4;
}

static void shorter(struct wire_header *header)
{
    header->data_len--;
}

static void far_part(struct wire_header *header)
{
    header->chunk = 1000;
}

static void far_layer(struct wire_header *header)
{
    header->layer = 3;
}

static void far_sender(struct wire_header *header)
{
    header->sender = 4;
}

static void other_job(struct wire_header *header)
{
    header->job = 0xfee1;
}

static void other_plan(struct wire_header *header)
{
    header->plan = 0xbad;
}

static void with_codec(struct wire_header *header)
{
    header->codec = 1;
}

TEST(lengths_that_do_not_fit_the_layout_are_refused)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    uint32_t owner = owner_of(&fixed, fixed.conv, 0);
    struct message push = {.kind = WIRE_PUSH, .rank = 2, .count = 1};
    struct message factors = {
        .kind = WIRE_FACTORS, .layer = fixed.fc, .rank = 2, .rows = 2, .parts = 2};
    struct message init = {.kind = WIRE_INIT};
    refused(&fixed, 2, owner, &push, longer,
            "PUSH from node 2 has 164 bytes of values for part 0 of layer 'conv' instead of 160");
    refused(&fixed, 2, owner, &push, shorter,
            "PUSH from node 2 has 159 bytes of values for part 0 of layer 'conv' instead of 160");
    refused(&fixed, 0, owner, &init, longer,
            "INIT from node 0 has 164 bytes of values for part 0 of layer 'conv' instead of 160");
    refused(
        &fixed, 2, 0, &factors, longer,
        "FACTORS from node 2 has 1604 bytes of values for part 0 of layer 'fc' instead of 1600");
    close_fixed(&fixed);
}

TEST(numbers_that_do_not_fit_the_layout_are_refused)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    uint32_t owner = owner_of(&fixed, fixed.conv, 0), other = owner == 1 ? 3 : 1;
    struct message push = {.kind = WIRE_PUSH, .rank = 2, .count = 1};
    refused(&fixed, 2, owner, &push, far_layer,
            "PUSH from node 2 is about a layer that there is not");
    refused(&fixed, 2, owner, &push, far_part,
            "PUSH from node 2 is about part 1000 of layer 'conv', which has 3");
    refused(&fixed, 2, owner, &push, far_sender, "PUSH from node 4 comes from no such node");
    refused(&fixed, 2, owner, &push, with_codec,
            "PUSH from node 2 uses a codec that is not known here");
    refused(&fixed, 3, owner, &push, NULL, "PUSH from node 3 comes from no such node");
    refused(&fixed, 2, other, &push, NULL,
            "PUSH from node 2 is about a part that is not kept here");
    refused(&fixed, 1, owner, &push, NULL,
            "PUSH from node 1 speaks for a rank that is not its own");
    push.rank = 3;
    refused(&fixed, 2, owner, &push, NULL,
            "head of PUSH from node 2 is malformed: a rank is past the last worker");
    push = (struct message){.kind = WIRE_PUSH, .layer = fixed.fc, .rank = 2, .count = 1};
    refused(&fixed, 2, owner, &push, NULL,
            "PUSH from node 2 is about a layer whose updates travel in another form");
    close_fixed(&fixed);
}

TEST(factors_that_do_not_fit_the_layout_are_refused)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    struct message factors = {
        .kind = WIRE_FACTORS, .layer = fixed.fc, .rank = 2, .rows = 3, .parts = 3};
    refused(&fixed, 2, 0, &factors, NULL,
            "FACTORS from node 2 has 3 rows for layer 'fc', which takes 2 at most");
    factors.rows = 2;
    factors.parts = 1;
    refused(&fixed, 2, 0, &factors, NULL,
            "FACTORS from node 2 is cut into other parts than the plan says");
    factors.layer = fixed.conv;
    refused(&fixed, 2, 1, &factors, NULL,
            "FACTORS from node 2 is about a layer whose updates travel in another form");
    close_fixed(&fixed);
}

TEST(values_come_only_from_those_who_have_them)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    uint32_t owner = owner_of(&fixed, fixed.conv, 0), other = owner == 1 ? 3 : 1;
    uint64_t all[WORDS] = {7};
    struct message init = {.kind = WIRE_INIT}, result = {.kind = WIRE_RESULT, .set = all};
    tri_error err = {0};
    assert_int_equal(receive(&fixed, owner, 2, &init, NULL, &err), TRI_OK);
    assert_int_equal(receive(&fixed, 0, owner, &init, NULL, &err), TRI_OK);
    assert_int_equal(receive(&fixed, other, 2, &init, NULL, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "has values that are not its own to give"));
    refused(&fixed, 2, owner, &init, NULL,
            "INIT from node 2 has values that are not its own to give");
    refused(&fixed, 0, other, &init, NULL,
            "INIT from node 0 has values that are not its own to give");
    init.layer = result.layer = fixed.fc;
    assert_int_equal(receive(&fixed, 0, 1, &init, NULL, &err), TRI_OK);
    refused(&fixed, 1, 2, &init, NULL, "INIT from node 1 has values that are not its own to give");
    refused(&fixed, 1, 2, &result, NULL,
            "RESULT from node 1 has values that are not its own to give");
    result.layer = fixed.conv;
    assert_int_equal(receive(&fixed, owner, 2, &result, NULL, &err), TRI_OK);
    assert_int_equal(receive(&fixed, other, 2, &result, NULL, &err), TRI_EINPUT);
    close_fixed(&fixed);
}

TEST(other_jobs_and_other_plans_are_refused)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    tri_error err = {0};
    struct message message = {.kind = WIRE_CLOCK, .clock = 4};
    assert_int_equal(receive(&fixed, 1, 0, &message, other_job, &err), TRI_EMISMATCH);
    assert_string_equal(err.text, "CLOCK from node 1 belongs to another job: 000000000000fee1, "
                                  "this one is 000000000000010b");
    assert_int_equal(receive(&fixed, 1, 0, &message, other_plan, &err), TRI_EMISMATCH);
    assert_non_null(
        strstr(err.text, "CLOCK from node 1 follows another plan: 0000000000000bad, this node's"));
    message.kind = WIRE_HEARTBEAT; /* is sent before plans are compared */
    assert_int_equal(receive(&fixed, 1, 0, &message, other_plan, &err), TRI_OK);
    close_fixed(&fixed);
}

TEST(who_may_say_what_is_held_against_the_sender)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    uint64_t set[WORDS] = {4};
    refused(&fixed, 1, 2, &(struct message){.kind = WIRE_VIEW, .view = 2, .set = set}, NULL,
            "VIEW from node 1 is for the coordinator on node 0 to say");
    refused(&fixed, 1, 2, &(struct message){.kind = WIRE_START, .view = 1}, NULL,
            "START from node 1 is for the coordinator on node 0 to say");
    refused(&fixed, 3, 0, &(struct message){.kind = WIRE_CLOCK, .clock = 1}, NULL,
            "CLOCK from node 3 comes from no such node");
    refused(&fixed, 1, 2, &(struct message){.kind = WIRE_CLOCK, .clock = 1}, NULL,
            "CLOCK from node 1 is for the coordinator, which is on node 0");
    refused(&fixed, 0, 0,
            &(struct message){.kind = WIRE_LEFT_OUT, .rank = 1, .count = 2, .clock = 3}, NULL,
            "LEFT_OUT from node 0 comes from no server");
    refused(&fixed, 1, 0, &(struct message){.kind = WIRE_LEFT_OUT, .rank = 2, .clock = 3}, NULL,
            "LEFT_OUT from node 1 speaks for a rank that is not its own");
    refused(&fixed, 1, 0,
            &(struct message){
                .kind = WIRE_MARKED, .mark = CORE_MARK_JOIN, .rank = 2, .owner = CORE_OWNER_WORKER},
            NULL, "MARKED from node 1 speaks for a rank that is not its own");
    close_fixed(&fixed);
}

/* ---- before there is a plan ---- */

TEST(without_a_plan_only_what_comes_before_it_passes)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    uint64_t members[WORDS] = {1};
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++) {
        struct message message = {.kind = kind, .rank = 0, .set = members, .rows = 2, .parts = 2};
        struct convert sender = fixed_context(&fixed, 0), receiver = fixed_context(&fixed, 3);
        bool early = kind == WIRE_BOOK || kind == WIRE_REFUSED || kind == WIRE_HEARTBEAT ||
                     kind == WIRE_EVICTED || kind == WIRE_BYE || kind == WIRE_FAILED ||
                     kind == WIRE_PEERS || kind == WIRE_RESUME;
        struct wire_header header;
        struct message got;
        uint64_t set[WORDS];
        size_t head = 0;
        tri_error err = {0};
        if (kind == WIRE_ROWS || kind == WIRE_PULL || kind == WIRE_HELLO)
            continue;
        message.layer = kind == WIRE_FACTORS ? fixed.fc : 0;
        static const uint8_t zeros[16] = {0};
        message.bytes = zeros;
        message.len = kind == WIRE_RESUME ? 16 : kind == WIRE_DECISION ? 8 : 4;
        buf_clear(&fixed.out);
        assert_int_equal(convert_encode(&sender, &message, &fixed.out, &head, &err), TRI_OK);
        receiver.layout = NULL;
        receiver.limits = wire_widest;
        const uint8_t *bytes = (const uint8_t *)fixed.out.data;
        assert_int_equal(wire_header_decode(bytes, &wire_widest, &header, &err), TRI_OK);
        struct convert_in in = {&header, bytes + WIRE_HEADER_BYTES, bytes + head};
        tri_status status = convert_decode(&receiver, &in, set, &got, &err);
        assert_int_equal(status, early ? TRI_OK : TRI_EINPUT);
        if (!early)
            assert_non_null(strstr(err.text, "came before there is a plan"));
        else
            assert_int_equal(convert_decode_data(&receiver, &in, set, &got, &err), TRI_OK);
    }
    close_fixed(&fixed);
}

TEST(a_hello_without_layers_goes_by_those_of_node_0)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    struct convert sender = fixed_context(&fixed, 3), receiver = fixed_context(&fixed, 0);
    struct wire_hello_out hello;
    struct buf data;
    struct parcel parcel = {0};
    buf_init(&data, &mem_libc);
    assert_int_equal(wire_hello_begin(&hello, &data, "9.9.9", NULL), TRI_OK);
    sender.hello = (struct convert_data){(const uint8_t *)data.data, data.len};
    struct message message = {.kind = WIRE_HELLO, .incarnation = 3};
    travel(&sender, &receiver, &message, &fixed.out, &parcel);
    assert_true(parcel.message.hash == fixed.agreement->layers_hash);
    assert_int_equal(parcel.message.incarnation, 3);
    assert_int_equal(parcel.message.role, CORE_COORDINATOR);
    free(parcel.bytes);
    buf_fini(&data);
    close_fixed(&fixed);
}

TEST(addresses_are_handed_on_as_they_are)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    struct convert sender = fixed_context(&fixed, 0), receiver = fixed_context(&fixed, 2);
    struct wire_peers_out peers;
    struct buf data;
    struct parcel parcel = {0};
    buf_init(&data, &mem_libc);
    wire_peers_begin(&peers, &data);
    assert_int_equal(wire_peers_add(&peers, &(struct wire_peer){3, wire_text_of("h:1")}, NULL),
                     TRI_OK);
    struct message message = {
        .kind = WIRE_PEERS, .bytes = (const uint8_t *)data.data, .len = data.len};
    travel(&sender, &receiver, &message, &fixed.out, &parcel);
    assert_int_equal(parcel.message.role, CORE_NOBODY);
    assert_int_equal(parcel.message.len, data.len);
    assert_memory_equal(parcel.message.bytes, data.data, data.len);
    free(parcel.bytes);
    buf_fini(&data);
    close_fixed(&fixed);
}

/* ---- sending ---- */

static void unsendable(struct fixed *fixed, const struct message *message, const char *text)
{
    struct convert ctx = fixed_context(fixed, 1);
    tri_error err = {0};
    size_t head = 4711;
    buf_clear(&fixed->out);
    buf_text(&fixed->out, "before");
    assert_int_equal(convert_encode(&ctx, message, &fixed->out, &head, &err), TRI_EARG);
    assert_string_equal(err.text, text);
    assert_string_equal(buf_string(&fixed->out), "before");
    assert_int_equal(head, 4711);
}

TEST(what_cannot_be_sent_is_refused_and_leaves_the_buffer_as_it_was)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    unsendable(&fixed, &(struct message){.kind = WIRE_ROWS}, "a message of kind 9 cannot be sent");
    unsendable(&fixed, &(struct message){.kind = 99}, "a message of kind 99 cannot be sent");
    unsendable(&fixed, &(struct message){.kind = WIRE_PUSH, .layer = 3},
               "PUSH is about layer 3, which there is not");
    unsendable(&fixed, &(struct message){.kind = WIRE_CLOCK, .clock = UINT64_MAX},
               "CLOCK has an impossible clock");
    unsendable(&fixed, &(struct message){.kind = WIRE_PUSH, .part = 50},
               "PUSH would have 0 bytes of data instead of 1 to 1073741824");
    unsendable(&fixed, &(struct message){.kind = WIRE_VIEW}, "VIEW has no list of nodes");
    unsendable(&fixed, &(struct message){.kind = WIRE_REPORT},
               "REPORT would have 0 bytes of data instead of 4 to 67108864");
    close_fixed(&fixed);
}

TEST(a_long_reason_is_cut_and_one_without_text_is_sent)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    struct convert sender = fixed_context(&fixed, 0), receiver = fixed_context(&fixed, 2);
    static char text[5000];
    memset(text, 'x', sizeof text);
    struct message message = {
        .kind = WIRE_EVICTED, .bytes = (const uint8_t *)text, .len = sizeof text};
    struct parcel parcel = {0};
    travel(&sender, &receiver, &message, &fixed.out, &parcel);
    assert_int_equal(parcel.message.len, WIRE_REASON_MAX);
    free(parcel.bytes);
    message = (struct message){.kind = WIRE_FAILED, .status = TRI_OK};
    travel(&sender, &receiver, &message, &fixed.out, &parcel);
    assert_int_equal(parcel.message.len, 0);
    assert_int_equal(parcel.message.status, TRI_EPEER);
    free(parcel.bytes);
    close_fixed(&fixed);
}

TEST(writing_takes_no_memory_once_the_buffer_is_warm)
{
    (void)state;
    struct fixed fixed;
    struct fault fault;
    struct buf out;
    uint64_t set[WORDS] = {7};
    size_t head = 0;
    open_fixed(&fixed);
    fault_init(&fault);
    buf_init(&out, &fault.mem);
    struct convert ctx = fixed_context(&fixed, 1);
    struct message message = {.kind = WIRE_RESULT, .set = set};
    assert_int_equal(convert_encode(&ctx, &message, &out, &head, NULL), TRI_OK);
    size_t calls = fault.calls;
    for (int i = 0; i < 100; i++) {
        buf_clear(&out);
        message.clock++;
        assert_int_equal(convert_encode(&ctx, &message, &out, &head, NULL), TRI_OK);
    }
    assert_int_equal(fault.calls, calls);
    buf_fini(&out);
    close_fixed(&fixed);
}

TEST(refused_memory_is_told)
{
    (void)state;
    struct fixed fixed;
    struct fault fault = {0};
    open_fixed(&fixed);
    struct convert ctx = fixed_context(&fixed, 0);
    FAULT_WALK(&fault)
    {
        struct buf out;
        tri_error err = {0};
        size_t head = 0;
        buf_init(&out, &fault.mem);
        tri_status status =
            convert_encode(&ctx, &(struct message){.kind = WIRE_BOOK}, &out, &head, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        buf_fini(&out);
    }
    close_fixed(&fixed);
}

TEST(a_damaged_list_is_noticed_when_it_is_covered)
{
    (void)state;
    struct fixed fixed;
    open_fixed(&fixed);
    struct convert sender = fixed_context(&fixed, 0), receiver = fixed_context(&fixed, 2);
    struct wire_header header;
    struct message got;
    uint64_t set[WORDS] = {8};
    size_t head = 0;
    tri_error err = {0};
    struct message message = {.kind = WIRE_VIEW, .view = 2, .set = set};
    assert_true(sender.checked);
    assert_int_equal(convert_encode(&sender, &message, &fixed.out, &head, &err), TRI_OK);
    uint8_t *bytes = (uint8_t *)fixed.out.data;
    assert_int_equal(wire_header_decode(bytes, &receiver.limits, &header, &err), TRI_OK);
    struct convert_in in = {&header, bytes + WIRE_HEADER_BYTES, bytes + head};
    assert_int_equal(convert_decode(&receiver, &in, set, &got, &err), TRI_OK);
    bytes[head + 4] ^= 1;
    assert_int_equal(convert_decode_data(&receiver, &in, set, &got, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "VIEW from node 0 is damaged"));
    assert_null(got.set);
    close_fixed(&fixed);
}

TEST(a_checksum_over_values_is_held_against_where_they_landed)
{
    (void)state;
    float values[4] = {1, 2, 3, 4};
    struct wire_header header = {.kind = WIRE_INIT, .data_len = sizeof values};
    tri_error err = {0};
    wire_payload_cover(&header, NULL, values);
    struct convert_in in = {&header, NULL, NULL};
    struct transport_run runs[TRANSPORT_RUNS] = {{values, 12}, {values + 3, 4}};
    assert_int_equal(convert_check_values(&in, runs, &err), TRI_OK);
    values[3] = 5;
    assert_int_equal(convert_check_values(&in, runs, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "INIT from node 0 is damaged"));
    runs[0].at = runs[1].at = NULL;
    assert_int_equal(convert_check_values(&in, runs, &err), TRI_OK);
    header.checked = false;
    runs[0].at = values;
    assert_int_equal(convert_check_values(&in, runs, &err), TRI_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_that_do_not_fit_the_layout_are_refused),
        cmocka_unit_test(numbers_that_do_not_fit_the_layout_are_refused),
        cmocka_unit_test(factors_that_do_not_fit_the_layout_are_refused),
        cmocka_unit_test(values_come_only_from_those_who_have_them),
        cmocka_unit_test(other_jobs_and_other_plans_are_refused),
        cmocka_unit_test(who_may_say_what_is_held_against_the_sender),
        cmocka_unit_test(without_a_plan_only_what_comes_before_it_passes),
        cmocka_unit_test(a_hello_without_layers_goes_by_those_of_node_0),
        cmocka_unit_test(addresses_are_handed_on_as_they_are),
        cmocka_unit_test(what_cannot_be_sent_is_refused_and_leaves_the_buffer_as_it_was),
        cmocka_unit_test(a_long_reason_is_cut_and_one_without_text_is_sent),
        cmocka_unit_test(writing_takes_no_memory_once_the_buffer_is_warm),
        cmocka_unit_test(refused_memory_is_told),
        cmocka_unit_test(a_damaged_list_is_noticed_when_it_is_covered),
        cmocka_unit_test(a_checksum_over_values_is_held_against_where_they_landed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
