/* The papers' rows: each can be simulated, and comes out as docs/claims.md says. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/books.h"
#include "lib/test.h"
#include "os/file.h"
#include "sim/claims.h"

/* ---- models, read once ---- */

struct shelf {
    char names[16][32];
    struct profile *profiles[16];
    size_t count;
    size_t asked, stop_after; /* 0: never */
};

static const struct profile *find(void *ctx, const char *name, tri_error *err)
{
    struct shelf *shelf = ctx;
    for (size_t i = 0; i < shelf->count; i++)
        if (strcmp(shelf->names[i], name) == 0)
            return shelf->profiles[i];
    char path[64];
    struct buf text;
    (void)snprintf(path, sizeof path, "models/%s.json", name);
    buf_init(&text, &mem_libc);
    struct profile *profile = NULL;
    tri_status status = file_read(path, (size_t)1 << 24, &text, err);
    if (status == TRI_OK)
        (void)profile_read(path, buf_string(&text), text.len, &mem_libc, &profile, err);
    buf_fini(&text);
    assert_true(shelf->count < sizeof shelf->profiles / sizeof shelf->profiles[0]);
    if (profile == NULL)
        return NULL;
    (void)snprintf(shelf->names[shelf->count], sizeof shelf->names[0], "%s", name);
    shelf->profiles[shelf->count++] = profile;
    return profile;
}

static bool stop(void *ctx)
{
    struct shelf *shelf = ctx;
    return shelf->stop_after > 0 && ++shelf->asked >= shelf->stop_after;
}

static void clear(struct shelf *shelf)
{
    for (size_t i = 0; i < shelf->count; i++)
        profile_free(shelf->profiles[i]);
}

static struct claim_result run(const struct claim *claim, struct shelf *shelf)
{
    struct claim_tools tools = {.mem = &mem_libc, .ctx = shelf, .find = find, .stop = stop};
    struct claim_result result;
    tri_error err = {0};
    if (claim_run(claim, &tools, &result, &err) != TRI_OK)
        fail_msg("%s %s: %s", claim->id, claim->what, err.text);
    return result;
}

/* ---- the rows ---- */

static void check_case(const struct claim *claim, const struct claim_case *one, struct shelf *shelf)
{
    tri_error err = {0};
    if (find(shelf, one->model, &err) == NULL)
        fail_msg("%s: %s", claim->id, err.text);
    if (study_system_find(one->system) == NULL)
        fail_msg("%s: no system '%s'", claim->id, one->system);
    if (one->placement != NULL && placement_find(one->placement) == NULL)
        fail_msg("%s: no placement '%s'", claim->id, one->placement);
}

TEST(every_row_names_models_systems_and_placements_that_exist)
{
    (void)state;
    struct shelf shelf = {.count = 0};
    const struct claim *claim;
    for (size_t i = 0; (claim = claim_at(i)) != NULL; i++) {
        check_case(claim, &claim->ours, &shelf);
        if (claim->over != NULL)
            check_case(claim, &claim->against, &shelf);
        if (claim->other.model != NULL)
            check_case(claim, &claim->other, &shelf);
        assert_non_null(placement_find(claim_paper_of(claim)->placement));
        assert_int_equal(claim_paper_of(claim)->letter, claim->id[0]);
    }
    clear(&shelf);
}

TEST(every_row_fits_its_columns)
{
    (void)state;
    const struct claim *claim;
    char text[CLAIM_TEXT];
    for (size_t i = 0; (claim = claim_at(i)) != NULL; i++) {
        assert_int_equal(strlen(claim->id), 4);
        assert_true(strlen(claim->what) <= 10);
        assert_true(strlen(claim->ours.system) <= 9);
        assert_true(strlen(claim_model_name(claim->ours.model)) <= 12);
        assert_true(strlen(claim->paper) <= 14);
        assert_true(strlen(claim_sentence(claim, text)) < CLAIM_TEXT - 1);
        assert_true(strlen(claim_own_settings(claim, text)) < CLAIM_TEXT - 1);
        assert_true(strlen(claim_settings(claim_paper_of(claim), text)) < CLAIM_TEXT - 1);
    }
}

TEST(no_two_rows_say_the_same)
{
    (void)state;
    const struct claim *one, *two;
    char a[CLAIM_TEXT], b[CLAIM_TEXT];
    for (size_t i = 0; (one = claim_at(i)) != NULL; i++)
        for (size_t j = i + 1; (two = claim_at(j)) != NULL; j++)
            if (strcmp(one->id, two->id) == 0 &&
                strcmp(claim_sentence(one, a), claim_sentence(two, b)) == 0)
                fail_msg("%s twice: %s", one->id, a);
}

TEST(a_row_has_a_number_or_a_test)
{
    (void)state;
    const struct claim *claim;
    for (size_t i = 0; (claim = claim_at(i)) != NULL; i++) {
        assert_true(claim->test != CLAIM_NUMBER || claim->value > 0);
        assert_true((claim->test == CLAIM_NUMBER) == (claim_test_text(claim->test) == NULL));
        if (claim->test == CLAIM_LINEAR)
            assert_true(fabs(claim->value - claim->nodes) < 1e-9);
    }
}

/* ---- what comes out ---- */

TEST(a_word_holds_on_one_side_of_its_bound)
{
    (void)state;
    static const struct {
        enum claim_test test;
        double holds, fails;
    } cases[] = {
        {CLAIM_BELOW, 0.99, 1},  {CLAIM_ABOVE, 1.01, 1},  {CLAIM_LINEAR, 9, 8.9},
        {CLAIM_FLAT, 4.9, 5},    {CLAIM_LEAST, 30, 29.9}, {CLAIM_UNEVEN, 1.6, 1.4},
        {CLAIM_EVEN, 1.09, 1.1}, {CLAIM_HIGH, 0.6, 0.4},  {CLAIM_LOW, 0.09, 0.1},
        {CLAIM_NONE, 0, 0.001},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct claim claim = {.test = cases[i].test, .nodes = 10, .value = 30};
        assert_true(claim_holds(&claim, cases[i].holds));
        assert_false(claim_holds(&claim, cases[i].fails));
        assert_false(claim_holds(&claim, NAN));
    }
}

/* The rows that are known not to come out; all others must. */
static bool is_known(const struct claim *claim)
{
    static const struct {
        const char *id, *model;
        uint32_t nodes;
        const char *over;
    } known[] = {
        {"P005", "vgg19_22k", 32, NULL},
        {"P047", "inception_v3_aux", 32, NULL},
        {"P049", "vgg19_22k", 32, NULL},
        {"P057", "vgg19", 16, NULL},
        {"P065", "vgg19", 32, NULL},
        {"T010", "inception_v4_slim", 4, "heuristic"},
        {"T017", "resnet110_cifar10", 4, NULL},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].id, claim->id) == 0 && strcmp(known[i].model, claim->ours.model) == 0 &&
            known[i].nodes == claim->nodes &&
            (known[i].over == NULL ||
             (claim->over != NULL && strcmp(known[i].over, claim->over) == 0)))
            return true;
    return false;
}

TEST(every_row_comes_out_as_the_paper_says_but_for_those_known)
{
    (void)state;
    struct shelf shelf = {.count = 0};
    const struct claim *claim;
    char text[CLAIM_TEXT];
    for (size_t i = 0; (claim = claim_at(i)) != NULL; i++) {
        struct claim_result result = run(claim, &shelf);
        bool met = claim->test != CLAIM_NUMBER
                       ? claim_holds(claim, result.ours)
                       : fabs(claim_difference(claim, result.ours)) <= CLAIM_WITHIN;
        if (met == is_known(claim))
            fail_msg("%s, %s: %g for '%s' %s", claim->id, claim_sentence(claim, text), result.ours,
                     claim->paper, met ? "is no longer to be excused" : "is not met");
        assert_true(isnan(result.other) == (claim->other.model == NULL));
    }
    clear(&shelf);
}

TEST(the_six_of_the_seven_main_rows_are_among_those_that_must_come_out)
{
    (void)state;
    static const char *const six[] = {"P001", "P006", "P008", "P044", "P045", "P061"};
    const struct claim *claim;
    size_t count = 0, excused = 0;
    for (size_t i = 0; (claim = claim_at(i)) != NULL; i++) {
        count += claim_is_main(claim);
        excused += claim_is_main(claim) && is_known(claim);
        for (size_t j = 0; j < sizeof six / sizeof six[0]; j++)
            if (strcmp(claim->id, six[j]) == 0)
                assert_true(claim_is_main(claim) && !is_known(claim));
    }
    assert_int_equal(count, 7);
    assert_int_equal(excused, 1);
}

TEST(a_row_of_many_runs_stops_when_asked)
{
    (void)state;
    struct shelf shelf = {.stop_after = 3};
    struct claim_tools tools = {.mem = &mem_libc, .ctx = &shelf, .find = find, .stop = stop};
    const struct claim *claim = NULL;
    for (size_t i = 0; (claim = claim_at(i)) != NULL && claim->kind != CLAIM_RATE;)
        i++;
    assert_non_null(claim);
    struct claim_result result;
    tri_error err = {0};
    assert_int_equal(claim_run(claim, &tools, &result, &err), TRI_EPEER);
    assert_int_equal(shelf.asked, 3);
    clear(&shelf);
}

TEST(a_row_survives_memory_that_is_refused)
{
    (void)state;
    struct claim small[] = {
        {.id = "P000", .what = "PS", .paper = "", .kind = CLAIM_SPEEDUP, .nodes = 2, .gbit = 1},
        {.id = "P000", .what = "PS", .paper = "", .kind = CLAIM_LOAD, .nodes = 2},
    };
    struct shelf shelf = {.count = 0};
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        struct fault fault = {0};
        small[i].over = "PS";
        small[i].ours = (struct claim_case){"cifar10_quick", "ps", .placement = "lpt"};
        small[i].against = small[i].ours;
        small[i].other = (struct claim_case){"cifar10_quick", "wfbp", .placement = "lpt"};
        FAULT_WALK(&fault)
        {
            struct claim_tools tools = {.mem = &fault.mem, .ctx = &shelf, .find = find};
            struct claim_result result;
            tri_error err = {0};
            tri_status status = claim_run(&small[i], &tools, &result, &err);
            assert_true(status == TRI_OK || status == TRI_ENOMEM);
            if (status == TRI_OK)
                assert_true(i > 0 || fabs(result.ours - 1) < 1e-9);
        }
    }
    clear(&shelf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_names_models_systems_and_placements_that_exist),
        cmocka_unit_test(every_row_fits_its_columns),
        cmocka_unit_test(no_two_rows_say_the_same),
        cmocka_unit_test(a_row_has_a_number_or_a_test),
        cmocka_unit_test(a_word_holds_on_one_side_of_its_bound),
        cmocka_unit_test(every_row_comes_out_as_the_paper_says_but_for_those_known),
        cmocka_unit_test(the_six_of_the_seven_main_rows_are_among_those_that_must_come_out),
        cmocka_unit_test(a_row_of_many_runs_stops_when_asked),
        cmocka_unit_test(a_row_survives_memory_that_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
