/* Consistency rules: what each hook answers, by hand-made tables, and reading their names. */
#include "mod/consistency.h"

#include <string.h>

#include "lib/test.h"

static const tri_consistency_ops *rule(const char *text, tri_consistency *self)
{
    const tri_consistency_ops *ops = NULL;
    *self = (tri_consistency){.workers = 4};
    tri_error err = {0};
    if (consistency_read(text, &ops, &self->bound, &err) != TRI_OK)
        fail_msg("%s", err.text);
    return ops;
}

/* Columns are bsp, ssp:1, ssp:3, asp. */
enum { COLUMNS = 4 };
static const char *const columns[COLUMNS] = {"bsp", "ssp:1", "ssp:3", "asp"};

TEST(an_iteration_begins_with_all_updates_up_to_the_bound)
{
    (void)state;
    static const struct {
        uint64_t clock, least[COLUMNS];
    } rows[] = {
        {0, {0, 0, 0, 0}},
        {1, {1, 0, 0, 0}},
        {2, {2, 1, 0, 0}},
        {3, {3, 2, 0, 0}},
        {4, {4, 3, 1, 0}},
        {5, {5, 4, 2, 0}},
        {UINT64_C(1) << 62,
         {UINT64_C(1) << 62, (UINT64_C(1) << 62) - 1, (UINT64_C(1) << 62) - 3, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t c = 0; c < COLUMNS; c++) {
            tri_consistency self;
            const tri_consistency_ops *ops = rule(columns[c], &self);
            assert_int_equal(ops->client_sync(&self, rows[i].clock), rows[i].least[c]);
        }
}

TEST(a_push_is_answered_when_the_next_iteration_may_begin)
{
    (void)state;
    static const struct {
        uint64_t pushed, least[COLUMNS];
    } rows[] = {
        {0, {1, 0, 0, 0}}, {1, {2, 1, 0, 0}},  {2, {3, 2, 0, 0}},
        {3, {4, 3, 1, 0}}, {9, {10, 9, 7, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t c = 0; c < COLUMNS; c++) {
            tri_consistency self;
            const tri_consistency_ops *ops = rule(columns[c], &self);
            uint64_t least = ops->before_serving(&self, rows[i].pushed);
            assert_int_equal(least, rows[i].least[c]);
            assert_int_equal(least, ops->client_sync(&self, rows[i].pushed + 1));
        }
}

TEST(an_update_leaves_when_the_copy_was_fresh_enough)
{
    (void)state;
    static const struct {
        uint64_t clock, version;
        bool leaves[COLUMNS];
    } rows[] = {
        {0, 0, {true, true, true, true}},    {1, 0, {false, true, true, true}},
        {1, 1, {true, true, true, true}},    {2, 0, {false, false, true, true}},
        {4, 0, {false, false, false, true}}, {4, 1, {false, false, true, true}},
        {4, 3, {false, true, true, true}},   {4, 4, {true, true, true, true}},
        {4, 5, {false, true, true, true}}, /* newer than the clock: bsp never has it */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t c = 0; c < COLUMNS; c++) {
            tri_consistency self;
            const tri_consistency_ops *ops = rule(columns[c], &self);
            if (ops->after_update(&self, rows[i].clock, rows[i].version) != rows[i].leaves[c])
                fail_msg("%s, row %zu", columns[c], i);
        }
}

TEST(bsp_steps_with_all_pushes_and_the_others_with_any)
{
    (void)state;
    static const struct {
        uint32_t in, live;
        bool steps[COLUMNS];
    } rows[] = {
        {0, 4, {false, false, false, false}}, {1, 4, {false, true, true, true}},
        {3, 4, {false, true, true, true}},    {4, 4, {true, true, true, true}},
        {1, 1, {true, true, true, true}},
    };
    for (size_t c = 0; c < COLUMNS; c++) {
        tri_consistency self;
        const tri_consistency_ops *ops = rule(columns[c], &self);
        assert_int_equal(ops->each_push, c > 0);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            assert_int_equal(ops->after_push(&self, rows[i].in, rows[i].live), rows[i].steps[c]);
    }
}

TEST(older_parameters_are_not_installed)
{
    (void)state;
    static const struct {
        uint64_t held, came;
        bool installed[COLUMNS];
    } rows[] = {
        {5, 4, {false, false, false, false}},
        {5, 5, {false, true, true, true}}, /* the same clocks, and more of the newer updates */
        {5, 6, {true, true, true, true}},
        {5, 7, {false, true, true, true}}, /* bsp goes clock by clock */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t c = 0; c < COLUMNS; c++) {
            tri_consistency self;
            const tri_consistency_ops *ops = rule(columns[c], &self);
            assert_int_equal(ops->after_parameters(&self, rows[i].held, rows[i].came),
                             rows[i].installed[c]);
        }
}

TEST(nobody_pulls_because_answers_to_pushes_are_enough)
{
    (void)state;
    for (size_t c = 0; c < COLUMNS; c++) {
        tri_consistency self;
        const tri_consistency_ops *ops = rule(columns[c], &self);
        assert_false(ops->clock(&self, 9, 0));
        assert_false(ops->clock(&self, 9, 9));
        assert_null(ops->worth_sending);
    }
}

TEST(under_ssp_the_rate_is_shared_among_the_live_workers)
{
    (void)state;
    static const float rates[COLUMNS] = {0.5f, 0.125f, 0.125f, 0.5f};
    for (size_t c = 0; c < COLUMNS; c++) {
        tri_consistency self;
        const tri_consistency_ops *ops = rule(columns[c], &self);
        assert_true(ops->lr(&self, 0.5f) == rates[c]);
    }
    tri_consistency self;
    const tri_consistency_ops *ops = rule("ssp:3", &self);
    self.workers = 2; /* two have left */
    assert_true(ops->lr(&self, 0.5f) == 0.25f);
}

TEST(every_row_of_the_registry_is_whole)
{
    (void)state;
    const tri_consistency_ops *ops;
    for (size_t i = 0; (ops = consistency_at(i)) != NULL; i++) {
        assert_int_equal(ops->abi, TRI_CONSISTENCY_ABI);
        assert_ptr_equal(consistency_find(ops->name), ops);
        assert_true(ops->summary[0] != '\0' && ops->options != NULL);
        assert_int_equal(ops->bounded, ops->options != NULL && ops->options[0].name != NULL);
        assert_true(ops->client_sync != NULL && ops->after_update != NULL);
        assert_true(ops->after_push != NULL && ops->before_serving != NULL);
        assert_true(ops->after_parameters != NULL && ops->clock != NULL && ops->lr != NULL);
    }
    assert_null(consistency_find("ssp:3"));
}

TEST(names_and_bounds_are_read)
{
    (void)state;
    static const struct {
        const char *text, *name;
        uint32_t bound;
    } rows[] = {
        {"bsp", "bsp", 0},     {"asp", "asp", 0},   {"ssp:1", "ssp", 1},
        {"ssp:005", "ssp", 5}, {"ssp:0", "bsp", 0}, {"ssp:4294967295", "ssp", UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const tri_consistency_ops *ops = NULL;
        uint32_t bound = 77;
        assert_int_equal(consistency_read(rows[i].text, &ops, &bound, NULL), TRI_OK);
        assert_ptr_equal(ops, consistency_find(rows[i].name));
        assert_int_equal(bound, rows[i].bound);
    }
}

TEST(what_is_not_understood_is_named)
{
    (void)state;
    static const char *const number =
        "write it as ssp:N, where N is a number of iterations, as in ssp:3";
    static const struct {
        const char *text, *says, *next;
    } rows[] = {
        {"ssp", "consistency 'ssp' is not understood", number},
        {"ssp:", "consistency 'ssp:' is not understood", number},
        {"ssp:x", "consistency 'ssp:x' is not understood", number},
        {"ssp:-1", "consistency 'ssp:-1' is not understood", number},
        {"ssp:1.5", "consistency 'ssp:1.5' is not understood", number},
        {"ssp:3:4", "consistency 'ssp:3:4' is not understood", number},
        {"ssp:4294967296", "consistency 'ssp:4294967296' is not understood", number},
        {"bsp:3", "consistency 'bsp:3' is not understood", "bsp takes no number: write bsp"},
        {"bsp:", "consistency 'bsp:' is not understood", "bsp takes no number: write bsp"},
        {"asp:3", "consistency 'asp:3' is not understood", "asp takes no number: write asp"},
        {"eventual", "there is no consistency 'eventual'", "choose one of: bsp, ssp, asp"},
        {"", "there is no consistency ''", "choose one of: bsp, ssp, asp"},
        {":", "there is no consistency ':'", "choose one of: bsp, ssp, asp"},
        {"a-name-that-is-longer-than-any-there-is",
         "there is no consistency "
         "'a-name-that-is-longer-than-any-there-is'",
         "choose one of: bsp, ssp, asp"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const tri_consistency_ops *ops = NULL;
        uint32_t bound = 77;
        tri_error err = {0};
        assert_int_equal(consistency_read(rows[i].text, &ops, &bound, &err), TRI_EINPUT);
        assert_string_equal(err.text, rows[i].says);
        assert_string_equal(err.next, rows[i].next);
        assert_true(ops == NULL && bound == 77);
    }
    const tri_consistency_ops *ops;
    uint32_t bound;
    tri_error err = {0};
    assert_int_equal(consistency_read("sspp:5", &ops, &bound, &err), TRI_EINPUT);
    assert_non_null(strstr(err.next, "did you mean ssp"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_iteration_begins_with_all_updates_up_to_the_bound),
        cmocka_unit_test(a_push_is_answered_when_the_next_iteration_may_begin),
        cmocka_unit_test(an_update_leaves_when_the_copy_was_fresh_enough),
        cmocka_unit_test(bsp_steps_with_all_pushes_and_the_others_with_any),
        cmocka_unit_test(older_parameters_are_not_installed),
        cmocka_unit_test(nobody_pulls_because_answers_to_pushes_are_enough),
        cmocka_unit_test(under_ssp_the_rate_is_shared_among_the_live_workers),
        cmocka_unit_test(every_row_of_the_registry_is_whole),
        cmocka_unit_test(names_and_bounds_are_read),
        cmocka_unit_test(what_is_not_understood_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
