/* Asking the book by name. */
#include "plan/query.h"

#include <string.h>

#include "lib/books.h"
#include "lib/test.h"

static struct profile *profile;
static struct book book;
static struct plan *plan;

static int set_up(void **state)
{
    (void)state;
    profile = book_model("vgg19");
    book = book_of(profile, 8);
    book.rule = PLAN_BYTES;
    plan = book_plan(&book);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    plan_free(plan);
    profile_free(profile);
    return 0;
}

TEST(every_fact_can_be_asked_for)
{
    (void)state;
    static const struct {
        const char *name, *answer;
    } facts[] = {{"workers", "8"},          {"servers", "8"},          {"batch", "32"},
                 {"rule", "bytes"},         {"layers", "19"},          {"params", "143667240"},
                 {"placement", "hash"},     {"scheme.fc6", "sfb"},     {"scheme.conv1_1", "ps"},
                 {"scheme.conv1-1", "ps"},  {"kind.fc7", "FC"},        {"rows.fc8", "1000"},
                 {"cols.fc6", "25088"},     {"chunks.conv5_4", "5"},   {"chunks.fc6", "0"},
                 {"params.fc8", "4097000"}, {"chunk_bytes", "2097152"}};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        char out[40];
        assert_int_equal(plan_query(plan, facts[i].name, out, sizeof out, NULL), TRI_OK);
        assert_string_equal(out, facts[i].answer);
    }
}

TEST(a_name_that_is_not_there_gets_a_suggestion)
{
    (void)state;
    char out[40] = "untouched";
    tri_error err = {0};
    assert_int_equal(plan_query(plan, "wrokers", out, sizeof out, &err), TRI_EARG);
    assert_string_equal(err.next, "did you mean workers?");
    assert_int_equal(plan_query(plan, "scheme.fc9", out, sizeof out, &err), TRI_EARG);
    assert_string_equal(err.text, "the book has no layer 'fc9'");
    assert_int_equal(plan_query(plan, "schema.fc6", out, sizeof out, &err), TRI_EARG);
    assert_string_equal(err.next, "did you mean scheme?");
    assert_int_equal(plan_query(plan, "", out, sizeof out, &err), TRI_EARG);
    assert_int_equal(plan_query(plan, ".", out, sizeof out, &err), TRI_EARG);
    assert_string_equal(out, "untouched");
}

TEST(an_answer_is_cut_to_the_room_there_is)
{
    (void)state;
    char out[4];
    assert_int_equal(plan_query(plan, "params", out, sizeof out, NULL), TRI_OK);
    assert_string_equal(out, "143");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fact_can_be_asked_for),
        cmocka_unit_test(a_name_that_is_not_there_gets_a_suggestion),
        cmocka_unit_test(an_answer_is_cut_to_the_room_there_is),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
