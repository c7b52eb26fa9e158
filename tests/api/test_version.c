/* api/version: the library and its header name the same things. */
#include <stdio.h>

#include "lib/test.h"
#include "trident/trident.h"

TEST(the_version_is_the_one_of_the_header)
{
    (void)state;
    char want[40];
    (void)snprintf(want, sizeof want, "%d.%d.%d", TRI_VERSION_MAJOR, TRI_VERSION_MINOR,
                   TRI_VERSION_PATCH);
    assert_string_equal(tri_version(), want);
}

TEST(every_status_has_its_name)
{
    (void)state;
    assert_string_equal(tri_status_name(TRI_OK), "TRI_OK");
    assert_string_equal(tri_status_name(TRI_EARG), "TRI_EARG");
    assert_string_equal(tri_status_name(TRI_ENOMEM), "TRI_ENOMEM");
    assert_string_equal(tri_status_name(TRI_EIO), "TRI_EIO");
    assert_string_equal(tri_status_name(TRI_EINPUT), "TRI_EINPUT");
}

TEST(the_released_values_stay_what_they_are)
{
    (void)state;
    assert_int_equal(TRI_OK, 0);
    assert_int_equal(TRI_EARG, -1);
    assert_int_equal(TRI_ENOMEM, -2);
    assert_int_equal(TRI_EIO, -3);
    assert_int_equal(TRI_EINPUT, -4);
}

TEST(a_status_of_another_version_has_a_name_too)
{
    (void)state;
    assert_string_equal(tri_status_name((tri_status)-999), "TRI_?");
    assert_string_equal(tri_status_name((tri_status)1), "TRI_?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_is_the_one_of_the_header),
        cmocka_unit_test(every_status_has_its_name),
        cmocka_unit_test(the_released_values_stay_what_they_are),
        cmocka_unit_test(a_status_of_another_version_has_a_name_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
