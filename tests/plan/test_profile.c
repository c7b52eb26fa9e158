/* The profile reader: what it takes, and where it says what is wrong. */
#include "plan/profile.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "lib/books.h"
#include "lib/test.h"

#define HEAD     "{\"format\": \"layer-profile/1\", \"name\": \"m\", \"layers\": ["
#define FC(rest) "{\"name\": \"fc\", \"type\": \"FC\", \"M\": 3, \"N\": 5" rest "}"

static tri_status read_text(const char *text, struct profile **out, tri_error *err)
{
    return profile_read("f.json", text, strlen(text), &mem_libc, out, err);
}

TEST(a_minimal_profile_is_enough)
{
    (void)state;
    struct profile *profile = NULL;
    assert_int_equal(read_text(HEAD FC("") "]}", &profile, NULL), TRI_OK);
    assert_string_equal(profile->name, "m");
    assert_string_equal(profile->title, "");
    assert_int_equal(profile->count, 1);
    assert_int_equal(profile->params, 15);
    assert_int_equal(profile->layers[0].applications, 1);
    assert_int_equal(profile->default_batch, 0);
    profile_free(profile);
}

TEST(every_field_arrives)
{
    (void)state;
    struct profile *p = NULL;
    tri_error err = {0};
    tri_status status = read_text(
        "{\"_remark\": [1, {\"x\": null}], \"format\": \"layer-profile/1\", \"name\": \"m\","
        "\"title\": \"T\\u00e9\", \"dtype_bytes\": 4, \"default_batch\": 64,"
        "\"compute\": {\"default\": {\"iteration_s\": 0.5, \"batch\": 16}, \"estimated\": true,"
        "\"effective_gflops\": 2.5}, \"layers\": [{\"name\": \"e\", \"type\": \"EMBED\", \"M\": 7,"
        "\"N\": 2, \"params\": 14, \"sparse_rows\": 3, \"applications\": 9, \"bwd_share\": 0},"
        "{\"name\": \"f\", \"type\": \"FC\", \"M\": 7, \"N\": 2, \"bias\": 7, \"params\": 21,"
        "\"fwd_flops\": 100, \"bwd_flops\": 250, \"fwd_share\": 0.25, \"bwd_share\": 0.75},"
        "{\"name\": \"head\", \"type\": \"FC\", \"M\": 7, \"N\": 2, \"params\": 0,"
        "\"tied_to\": \"e\"}, {\"name\": \"pool\", \"type\": \"OTHER\", \"M\": 0, \"N\": 0}]}",
        &p, &err);
    if (status != TRI_OK)
        fail_msg("%s %s", err.text, err.where);
    assert_string_equal(p->title, "T\xc3\xa9");
    assert_int_equal(p->default_batch, 64);
    assert_true(p->iteration_s == 0.5 && p->compute_batch == 16 && p->estimated);
    assert_true(p->flops_s == 2.5e9 && p->flops == 350);
    assert_int_equal(p->params, 35);
    assert_int_equal(p->with_params, 2);
    assert_int_equal(p->layers[0].sparse_rows, 3);
    assert_int_equal(p->layers[0].applications, 10); /* once more for head */
    assert_true(p->layers[0].dense);                 /* head uses its weights */
    assert_int_equal(p->layers[1].bias, 7);
    assert_true(p->layers[1].fwd_share == 0.25 && p->layers[1].bwd_flops == 250);
    assert_int_equal(p->layers[2].params, 0);
    assert_ptr_equal(profile_layer(p, "pool"), &p->layers[3]);
    assert_null(profile_layer(p, "pond"));
    profile_free(p);
}

/* Each with the place and the words of its refusal. */
static const struct {
    const char *text, *where, *says;
} refusals[] = {
    {"", "f.json:1:1", "an object"},
    {"[]", "f.json:1:1", "an object"},
    {"{\"format\": \"layer-profile/2\"}", "f.json:1:12", "'layer-profile/2' is not known"},
    {"{\"name\": \"m\"}", "f.json:1:1", "has no 'format'"},
    {"{\"format\": \"layer-profile/1\", \"layers\": [" FC("") "]}", "f.json:1:1", "no 'name'"},
    {"{\"format\": \"layer-profile/1\", \"name\": \"m\"}", "f.json:1:1", "has no 'layers'"},
    {HEAD "]}", "f.json:1:54", "no layer has parameters"},
    {HEAD "{\"name\": \"p\", \"type\": \"OTHER\", \"M\": 0, \"N\": 0}]}", "f.json:1:54",
     "no layer has parameters"},
    {HEAD "\n" FC(", \"bais\": 3") "]}", "f.json:2:46", "unknown key 'bais' in a layer"},
    {HEAD "\n" FC(", \"M\": 3") "]}", "f.json:2:46", "'M' stands twice"},
    {HEAD "\n" FC("") ",\n" FC("") "]}", "f.json:3:10", "two layers are called 'fc'"},
    {HEAD "\n{\"type\": \"FC\", \"M\": 3, \"N\": 5}]}", "f.json:2:1", "a layer has no 'name'"},
    {HEAD "{\"name\": \"\", \"type\": \"FC\", \"M\": 3, \"N\": 5}]}", "f.json:1:64", "empty"},
    {HEAD "\n{\"name\": \"a\", \"type\": \"DENSE\", \"M\": 3, \"N\": 5}]}", "f.json:2:23",
     "unknown layer type 'DENSE'"},
    {HEAD "\n{\"name\": \"a\", \"type\": \"FC\", \"M\": 0, \"N\": 5}]}", "f.json:2:10",
     "layer 'a' has no shape: M is 0 and N is 5"},
    {HEAD "\n{\"name\": \"a\", \"type\": \"OTHER\", \"M\": 0, \"N\": 0, \"params\": 7}]}",
     "f.json:2:10", "layer 'a' has no shape"},
    {HEAD "\n{\"name\": \"a\", \"type\": \"FC\", \"M\": -1, \"N\": 5}]}", "f.json:2:34",
     "'M' of a layer: -1 is not between 0 and 2147483647"},
    {HEAD "\n{\"name\": \"a\", \"type\": \"FC\", \"M\": 1.5, \"N\": 5}]}", "f.json:2:34",
     "'M' of a layer: 1.5 is not a whole number"},
    {HEAD "\n{\"name\": \"a\", \"type\": \"FC\", \"M\": \"3\", \"N\": 5}]}", "f.json:2:34",
     "found '\"' where the number 'M' of a layer should be"},
    {HEAD "\n{\"name\": \"a\", \"type\": \"FC\", \"M\": 99999999999999999999, \"N\": 5}]}",
     "f.json:2:34", "is not between"},
    {HEAD FC(", \"fwd_flops\": -1") "]}", "f.json:1:113",
     "'fwd_flops' of a layer: -1 is not between 0 and 1e+18"},
    {"\xEF\xBB\xBF{}", "f.json:1:1", "begins with a byte order mark"},
    {"\xFF\xFE{}", "f.json:1:1", "is UTF-16"},
    {HEAD FC("") "], \"compute\": {\"effective_gflops\": 1e-4}}", "f.json:1:134",
     "'effective_gflops' of compute: 0.0001 is not between 0.001 and 1e+08"},
    {HEAD FC("") "], \"compute\": {\"effective_gflops\": 1e9}}", "f.json:1:134",
     "is not between 0.001 and 1e+08"},
    {HEAD FC(", \"fwd_flops\": 1e15") "], \"compute\": {\"default\": {\"iteration_s\": 1e-9, "
                                      "\"batch\": 2}}}",
     "f.json:1:160", "come to 2e+24 flop/s, which is not between 1e+06 and 1e+17"},
    {HEAD FC(", \"fwd_flops\": 1") "], \"compute\": {\"default\": {\"iteration_s\": 1000, "
                                   "\"batch\": 2}}}",
     "f.json:1:157", "come to 0.002 flop/s"},
    {HEAD "\n{\"name\": \"a\", \"type\": \"FC\", \"M\": 2147483647, \"N\": 2147483647}]}",
     "f.json:2:10", "more than 2^48"},
    {HEAD "{\"name\": \"a\", \"type\": \"FC\", \"M\": 16777216, \"N\": 16777216},\n"
          "{\"name\": \"b\", \"type\": \"FC\", \"M\": 1, \"N\": 1}]}",
     "f.json:2:10", "the layers up to 'b' have more than 2^48"},
    {HEAD FC(", \"bias\": 2") "]}", "f.json:1:64", "bias of 2; it must be 0 or M, which is 3"},
    {HEAD FC(", \"params\": 16") "]}", "f.json:1:64", "params 16, but M x N + bias is 15"},
    {HEAD FC(", \"tied_to\": \"x\"") ", {\"name\": \"a\", \"type\": \"FC\", \"M\": 1, \"N\": 1}]}",
     "f.json:1:64", "tied to 'x', which is not a layer with parameters"},
    {HEAD FC(", \"tied_to\": \"a\"") ", {\"name\": \"a\", \"type\": \"FC\", \"M\": 1, \"N\": 1}]}",
     "f.json:1:64", "'fc' is tied to 'a' but has another shape"},
    {"{\"format\": \"layer-profile/1\", \"name\": \"\"}", "f.json:1:39", "name must not be empty"},
    {HEAD FC(", \"applications\": 0") "]}", "f.json:1:116", "0 is not between 1 and"},
    {HEAD FC(", \"fwd_share\": 1.5") "]}", "f.json:1:113", "1.5 is not between 0 and 1"},
    {HEAD FC(", \"bwd_share\": 1") ", {\"name\": \"a\", \"type\": \"NORM\", \"M\": 1, \"N\": 1}]}",
     "f.json:1:126", "layer 'a' has neither fwd_share nor bwd_share, but others have"},
    {HEAD FC("") "], \"dtype_bytes\": 2}", "f.json:1:117", "only 4 (fp32) is supported"},
    {HEAD FC("") "], \"default_batch\": 0}", "f.json:1:119", "0 is not between 1"},
    {HEAD FC("") "], \"compute\": {\"default\": {\"batch\": 1}}}", "f.json:1:125",
     "compute.default has no 'iteration_s'"},
    {HEAD "{\"name\": \"a\\u0000b\", \"type\": \"FC\", \"M\": 3, \"N\": 5}]}", "f.json:1:66",
     "\\u0000"},
    {HEAD FC("") "]} x", "f.json:1:102", "more text after the end"},
};

TEST(what_is_wrong_is_named_with_line_and_column)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct profile *profile = NULL;
        tri_error err = {0};
        if (read_text(refusals[i].text, &profile, &err) != TRI_EINPUT)
            fail_msg("accepted: %s", refusals[i].text);
        assert_null(profile);
        if (strcmp(err.where, refusals[i].where) != 0 || strstr(err.text, refusals[i].says) == NULL)
            fail_msg("%s\n  said: %s (%s)\n  want: %s (%s)", refusals[i].text, err.text, err.where,
                     refusals[i].says, refusals[i].where);
        if (err.next[0] == '\0')
            fail_msg("%s\n  said: %s, and no next step", refusals[i].text, err.text);
    }
}

TEST(a_slip_in_a_key_gets_a_suggestion)
{
    (void)state;
    struct profile *profile = NULL;
    tri_error err = {0};
    assert_int_equal(read_text(HEAD FC(", \"aplications\": 3") "]}", &profile, &err), TRI_EINPUT);
    assert_string_equal(err.next, "did you mean applications?");
}

/* n layers of one kind, all tied to the first but every second one. */
static void many_layers(struct buf *text, size_t n)
{
    buf_text(text, HEAD);
    for (size_t i = 0; i < n; i++)
        buf_format(text, "%s\n{\"name\": \"layer%zu\", \"type\": \"FC\", \"M\": 64, \"N\": 64%s}",
                   i == 0 ? "" : ",", i, i % 2 == 1 ? ", \"tied_to\": \"layer0\"" : "");
    buf_text(text, "]}");
}

TEST(ten_thousand_layers_are_read_and_found)
{
    (void)state;
    struct buf text;
    buf_init(&text, &mem_libc);
    many_layers(&text, 10000);
    struct profile *profile = NULL;
    assert_int_equal(profile_read("big", text.data, text.len, &mem_libc, &profile, NULL), TRI_OK);
    assert_int_equal(profile->count, 10000);
    assert_int_equal(profile->with_params, 5000);
    assert_true(profile->layers[0].dense);
    assert_false(profile->layers[2].dense);
    profile_free(profile);
    buf_fini(&text);
}

TEST(memory_that_is_refused_is_told_and_nothing_leaks)
{
    (void)state;
    struct buf text;
    buf_init(&text, &mem_libc);
    many_layers(&text, 20);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct profile *profile = NULL;
        tri_error err = {0};
        tri_status status = profile_read("f", text.data, text.len, &fault.mem, &profile, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        profile_free(profile);
    }
    assert_true(fault.run > 20);
    buf_fini(&text);
}

TEST(the_committed_models_have_the_sizes_of_the_papers)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t params;
    } models[] = {
        {"vgg19", 143667240},           {"vgg19_22k", 229052817},        {"cifar10_quick", 145578},
        {"resnet110_cifar10", 1727962}, {"inception_v4_slim", 42649769}, {"googlenet", 6998552}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct profile *profile = book_model(models[i].name);
        assert_int_equal(profile->params, models[i].params);
        profile_free(profile);
    }
}

TEST(refusals_say_what_to_do_next)
{
    (void)state;
    static const struct {
        const char *text, *next;
    } cases[] = {
        {"{", "mend the file there; docs/profile.md in the source tree describes the format"},
        {HEAD "3]}",
         "mend the file there; docs/profile.md in the source tree describes the format"},
        {"{}", "add it; docs/profile.md in the source tree says what it means"},
        {"\xEF\xBB\xBF{}", "save it as UTF-8 without one"},
        {HEAD "{\"name\": \"a\", \"type\": \"fc\", \"M\": 3, \"N\": 5}]}", "did you mean FC?"},
        {HEAD "{\"name\": \"a\", \"type\": \"FC\", \"M\": 1e2, \"N\": 5}]}",
         "write it without point or exponent"},
        {HEAD FC("") "," FC("") "]}", "rename one of them ('-' and '_' count as the same)"},
        {HEAD FC(", \"M\": 3") "]}", "remove one of the two"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct profile *profile = NULL;
        tri_error err = {0};
        assert_int_equal(read_text(cases[i].text, &profile, &err), TRI_EINPUT);
        assert_string_equal(err.next, cases[i].next);
    }
}

TEST(the_origin_of_a_measurement_is_kept)
{
    (void)state;
    struct profile *profile = NULL;
    assert_int_equal(read_text(HEAD FC("") "], \"compute\": {\"default\": {\"iteration_s\": 1, "
                                           "\"batch\": 2, \"device\": \"D\", \"source\": \"S\", "
                                           "\"where\": null}}}",
                               &profile, NULL),
                     TRI_OK);
    assert_string_equal(profile->device, "D");
    assert_string_equal(profile->source, "S");
    assert_null(profile->where); /* not a text: left out */
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_minimal_profile_is_enough),
        cmocka_unit_test(every_field_arrives),
        cmocka_unit_test(what_is_wrong_is_named_with_line_and_column),
        cmocka_unit_test(a_slip_in_a_key_gets_a_suggestion),
        cmocka_unit_test(ten_thousand_layers_are_read_and_found),
        cmocka_unit_test(memory_that_is_refused_is_told_and_nothing_leaks),
        cmocka_unit_test(the_committed_models_have_the_sizes_of_the_papers),
        cmocka_unit_test(refusals_say_what_to_do_next),
        cmocka_unit_test(the_origin_of_a_measurement_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
