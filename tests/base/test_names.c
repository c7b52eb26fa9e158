/* base/names: equal names, and guesses at what was meant. */
#include "base/names.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"

static const char *const models[] = {
    "alexnet",   "vgg19",     "vgg19_22k",  "vgg_bn_cifar10", "resnet50",     "resnet152",
    "googlenet", "bert_base", "gpt2_small", "inception_v3",   "inception_v4", NULL,
};

/* The ith string of an array that ends in NULL. */
static const char *from_list(const void *ctx, size_t i)
{
    return ((const char *const *)ctx)[i];
}

TEST(dash_and_underscore_are_the_same)
{
    (void)state;
    assert_true(names_equal("", ""));
    assert_true(names_equal("shard-sf", "shard_sf"));
    assert_true(names_equal("_-_", "-_-"));
    assert_true(names_equal("vgg19", "vgg19"));
    assert_false(names_equal("vgg19", "vgg1"));
    assert_false(names_equal("vgg1", "vgg19"));
    assert_false(names_equal("vgg19", "VGG19")); /* case tells names apart */
    assert_false(names_equal("a-b", "ab"));
    assert_false(names_equal("a-b", "a b"));
    assert_false(names_equal("", "-"));
}

TEST(typical_slips_find_the_name_meant)
{
    (void)state;
    static const struct {
        const char *typed, *text;
    } cases[] = {
        {"vgg91", "vgg19"}, /* swapped */
        {"alxenet", "alexnet"},
        {"alexnt", "alexnet"}, /* a letter missing */
        {"googlnet", "googlenet"},
        {"allexnet", "alexnet"}, /* one too many */
        {"alexmet", "alexnet"},  /* one wrong */
        {"AlexNet", "alexnet"},  /* case */
        {"BERT-Base", "bert_base"},
        {"bert-bse", "bert_base"},
        {"gpt2", "gpt2_small"},       /* a start */
        {"alexnet_large", "alexnet"}, /* the name with more behind it */
        {"inception", "inception_v3 or inception_v4"},
        {"inception_v5", "inception_v3 or inception_v4"},
        {"vgg", "vgg19, vgg19_22k or vgg_bn_cifar10"},
        {"vgg19-22", "vgg19_22k or vgg19"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[NAMES_TEXT];
        if (!names_suggest(cases[i].typed, from_list, models, out))
            fail_msg("nothing was near '%s'", cases[i].typed);
        if (strcmp(out, cases[i].text) != 0)
            fail_msg("'%s' suggests '%s', not '%s'", cases[i].typed, out, cases[i].text);
    }
}

TEST(the_best_guess_comes_first_whatever_the_order_of_candidates)
{
    (void)state;
    static const char *const near_last[] = {"abcxyz", "abcdxx", "abcdex", "abcdef", NULL};
    static const char *const near_first[] = {"abcdef", "abcdex", "abcdxx", "abcxyz", NULL};
    char out[NAMES_TEXT];
    assert_true(names_suggest("abcdef", from_list, near_last, out));
    assert_string_equal(out, "abcdef, abcdex or abcdxx");
    assert_true(names_suggest("abcdef", from_list, near_first, out));
    assert_string_equal(out, "abcdef, abcdex or abcdxx");
}

TEST(equal_guesses_keep_the_order_of_candidates_and_stop_at_three)
{
    (void)state;
    static const char *const list[] = {"case", "vase", "base", "lase", "mase", NULL};
    char out[NAMES_TEXT];
    assert_true(names_suggest("xase", from_list, list, out));
    assert_string_equal(out, "case, vase or base");
}

TEST(swapped_neighbours_are_one_slip)
{
    (void)state;
    static const char *const list[] = {"abxx", "abcd", NULL};
    char out[NAMES_TEXT];
    assert_true(names_suggest("abdc", from_list, list, out));
    assert_string_equal(out, "abcd or abxx");
}

TEST(a_slip_beats_a_start)
{
    (void)state;
    static const char *const list[] = {"hash-table", "hush", NULL};
    char out[NAMES_TEXT];
    assert_true(names_suggest("hash", from_list, list, out));
    assert_string_equal(out, "hush or hash-table");
}

TEST(nothing_near_means_no_guess)
{
    (void)state;
    static const char *const far[] = {"", "x", "lstm", "transformer", "9", "zzzzzzzzzz", "--"};
    static const char *const none[] = {NULL};
    static const char *const empty[] = {"", NULL};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        char out[NAMES_TEXT] = "old";
        if (names_suggest(far[i], from_list, models, out))
            fail_msg("'%s' suggests '%s'", far[i], out);
        assert_string_equal(out, "");
    }
    char out[NAMES_TEXT];
    assert_false(names_suggest("vgg19", from_list, none, out));
    assert_false(names_suggest("vgg19", from_list, empty, out));
    assert_false(names_suggest("", from_list, empty, out));
}

TEST(a_short_name_is_not_rewritten_whole)
{
    (void)state;
    static const char *const list[] = {"ps", "on", "off", NULL};
    char out[NAMES_TEXT];
    assert_true(names_suggest("pss", from_list, list, out));
    assert_string_equal(out, "ps");
    assert_false(names_suggest("x", from_list, list, out));
    assert_false(names_suggest("xy", from_list, list, out));
}

TEST(advice_is_a_question_or_the_list)
{
    (void)state;
    static const char *const list[] = {"time", "bytes", NULL};
    static const char *const none[] = {NULL};
    char out[NAMES_TEXT];
    names_advise("tme", from_list, list, out);
    assert_string_equal(out, "did you mean time?");
    names_advise("inception", from_list, models, out);
    assert_string_equal(out, "did you mean inception_v3 or inception_v4?");
    names_advise("colour", from_list, list, out);
    assert_string_equal(out, "choose one of: time, bytes");
    names_advise("", from_list, list, out);
    assert_string_equal(out, "choose one of: time, bytes");
    names_advise("colour", from_list, none, out);
    assert_string_equal(out, "choose one of:");
}

/* Names of `len` bytes that differ in their last. */
struct long_names {
    char text[30][400];
    size_t count;
};

static const char *from_long(const void *ctx, size_t i)
{
    const struct long_names *names = ctx;
    return i < names->count ? names->text[i] : NULL;
}

static void make_long(struct long_names *names, size_t len)
{
    names->count = 30;
    for (size_t i = 0; i < names->count; i++) {
        memset(names->text[i], 'n', len);
        names->text[i][len - 1] = (char)('A' + i);
        names->text[i][len] = '\0';
    }
}

/* Both texts for what was typed, in blocks whose ends the sanitizer guards. */
static bool stays_inside(const char *typed, const struct long_names *names)
{
    char out[NAMES_TEXT], advice[NAMES_TEXT];
    bool near = names_suggest(typed, from_long, names, out);
    names_advise(typed, from_long, names, advice);
    assert_true(memchr(out, '\0', sizeof out) != NULL);
    assert_true(memchr(advice, '\0', sizeof advice) != NULL);
    assert_int_equal(strncmp(advice, near ? "did you mean " : "choose one of: ", 13), 0);
    return near;
}

TEST(many_long_names_stay_inside_the_text)
{
    (void)state;
    static struct long_names names;
    char typed[500];
    for (size_t len = 1; len < 400; len++) {
        make_long(&names, len);
        memset(typed, 'n', len);
        typed[len] = '\0';
        assert_int_equal(stays_inside(typed, &names), len <= 60);
        (void)stays_inside("q", &names);
        (void)stays_inside("nn", &names);
    }
}

TEST(names_of_60_bytes_are_compared_and_longer_ones_are_not)
{
    (void)state;
    static struct long_names names;
    char typed[100], out[NAMES_TEXT];
    make_long(&names, 60);
    memset(typed, 'n', sizeof typed);
    typed[60] = '\0';
    assert_true(names_suggest(typed, from_long, &names, out));
    assert_int_equal(strlen(out), 60 + 2 + 60 + 4 + 60);
    typed[60] = 'n';
    typed[61] = '\0';
    assert_false(names_suggest(typed, from_long, &names, out));
    make_long(&names, 61);
    typed[60] = '\0';
    assert_false(names_suggest(typed, from_long, &names, out));
}

TEST(a_list_that_does_not_fit_is_cut)
{
    (void)state;
    static struct long_names names;
    char out[NAMES_TEXT];
    make_long(&names, 50);
    names_advise("q", from_long, &names, out);
    assert_int_equal(strlen(out), NAMES_TEXT - 1);
    assert_memory_equal(out, "choose one of: nnnn", 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dash_and_underscore_are_the_same),
        cmocka_unit_test(typical_slips_find_the_name_meant),
        cmocka_unit_test(the_best_guess_comes_first_whatever_the_order_of_candidates),
        cmocka_unit_test(equal_guesses_keep_the_order_of_candidates_and_stop_at_three),
        cmocka_unit_test(swapped_neighbours_are_one_slip),
        cmocka_unit_test(a_slip_beats_a_start),
        cmocka_unit_test(nothing_near_means_no_guess),
        cmocka_unit_test(a_short_name_is_not_rewritten_whole),
        cmocka_unit_test(advice_is_a_question_or_the_list),
        cmocka_unit_test(many_long_names_stay_inside_the_text),
        cmocka_unit_test(names_of_60_bytes_are_compared_and_longer_ones_are_not),
        cmocka_unit_test(a_list_that_does_not_fit_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
