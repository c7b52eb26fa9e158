/* os/interfaces: which address of a machine is chosen; on made-up machines, and on this one. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/interfaces.h"
#include "settings/settings.h"

#include "lib/test.h" /* after error.h: cmocka has a macro named fail */

static struct interface interface(const char *name, const char *address, bool up)
{
    struct interface out = {.up = up};
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    (void)snprintf(out.name, sizeof out.name, "%s", name);
    if (inet_pton(AF_INET, address, &four.sin_addr) == 1) {
        memcpy(&out.address.at, &four, sizeof four);
        out.address.len = sizeof four;
    } else {
        assert_int_equal(inet_pton(AF_INET6, address, &six.sin6_addr), 1);
        memcpy(&out.address.at, &six, sizeof six);
        out.address.len = sizeof six;
    }
    return out;
}

enum { COUNT = 9 };
static struct interface all[COUNT];

static int make_machine(void **state)
{
    (void)state;
    all[0] = interface("lo", "127.0.0.1", true);
    all[1] = interface("docker0", "172.17.0.1", true);
    all[2] = interface("eth0", "192.168.1.20", true);
    all[3] = interface("eth1", "10.128.0.3", false);
    all[4] = interface("ib0", "10.1.2.3", true);
    all[5] = interface("lo", "::1", true);
    all[6] = interface("eth0", "fe80::1", true);
    all[7] = interface("eth0", "fd00::20", true);
    all[8] = interface("ib0", "2001:db8:8000::3", true);
    return 0;
}

static const char *pick(const char *wanted, bool loopback)
{
    static char out[NET_TEXT];
    tri_error err = {0};
    if (interfaces_pick(wanted, all, COUNT, loopback, out, &err) == TRI_OK)
        return out;
    assert_int_equal(err.status, TRI_EINPUT);
    return "none";
}

TEST(names_and_networks_choose)
{
    (void)state;
    assert_string_equal(pick("eth0", false), "192.168.1.20:0");
    assert_string_equal(pick("ib0", false), "10.1.2.3:0");
    assert_string_equal(pick("10.0.0.0/8", false), "10.1.2.3:0");
    assert_string_equal(pick("10.1.2.3", false), "10.1.2.3:0");
    assert_string_equal(pick("fd00::/8", false), "[fd00::20]:0");
    assert_string_equal(pick("2001:db8:8000::/33", false), "[2001:db8:8000::3]:0");
    assert_string_equal(pick("2001:db8::/33", false), "none");
    assert_string_equal(pick("2001:db8::/32", false), "[2001:db8:8000::3]:0");
    assert_string_equal(pick("0.0.0.0/0", false), "172.17.0.1:0");
    assert_string_equal(pick("::/0", false), "[fd00::20]:0");
    assert_string_equal(pick("192.168.1.16/28", false), "192.168.1.20:0");
    assert_string_equal(pick("192.168.1.24/29", false), "none");
}

TEST(the_first_of_the_list_that_is_there_wins)
{
    (void)state;
    assert_string_equal(pick("ib0,eth0", false), "10.1.2.3:0");
    assert_string_equal(pick("eth0,ib0", false), "192.168.1.20:0");
    assert_string_equal(pick("eth7,ib0", false), "10.1.2.3:0");
    assert_string_equal(pick("eth1,ib0", false), "10.1.2.3:0"); /* eth1 is down */
    assert_string_equal(pick("eth", false), "none");            /* names are whole */
}

TEST(exclusions_go_before_all_else)
{
    (void)state;
    assert_string_equal(pick("^docker0", false), "192.168.1.20:0");
    assert_string_equal(pick("^172.17.0.0/16", false), "192.168.1.20:0");
    assert_string_equal(pick("^docker0,^eth0", false), "10.1.2.3:0");
    assert_string_equal(pick("ib0,^10.0.0.0/8", false), "[2001:db8:8000::3]:0");
    assert_string_equal(pick("eth0,^eth0", false), "none");
    assert_string_equal(pick("^0.0.0.0/0,^::/0", true), "none");
}

TEST(loopback_is_for_jobs_of_one_machine)
{
    (void)state;
    assert_string_equal(pick("lo", false), "none");
    assert_string_equal(pick("lo", true), "127.0.0.1:0");
    assert_string_equal(pick("::1", true), "[::1]:0");
    assert_string_equal(pick("127.0.0.0/8,eth0", false), "192.168.1.20:0");
    assert_true(interfaces_is_loopback("127.0.0.1:7000"));
    assert_true(interfaces_is_loopback("localhost:7000"));
    assert_true(interfaces_is_loopback("[::1]:7000"));
    assert_false(interfaces_is_loopback("10.0.0.1:7000"));
}

TEST(an_address_of_one_link_is_not_chosen)
{
    (void)state;
    assert_string_equal(pick("fe80::/10", true), "none");
}

TEST(what_cannot_be_is_named)
{
    (void)state;
    static const char *const wrong[] = {
        "",       ",",           "^",          "eth0,,ib0",
        "eth0,",  "10.0.0.0/33", "10.0.0.0/x", "::/99999",
        "::/129", "10.0.0.0/",   "eth0/8",     "a-name-that-is-longer-than-any-interface-can-have"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char out[NET_TEXT] = "untouched";
        tri_error err = {0};
        assert_int_equal(interfaces_pick(wrong[i], all, COUNT, true, out, &err), TRI_EINPUT);
        assert_non_null(strstr(err.text, "is neither an interface nor a network"));
        assert_string_equal(out, "untouched");
    }
}

TEST(a_refusal_names_the_list_and_what_there_is)
{
    (void)state;
    char out[NET_TEXT];
    tri_error err = {0};
    assert_int_equal(interfaces_pick("eth9,^lo", all, 4, false, out, &err), TRI_EINPUT);
    assert_string_equal(err.text, "no address of this machine fits 'eth9,^lo'");
    assert_string_equal(err.why, "there are: lo 127.0.0.1, docker0 172.17.0.1, eth0 192.168.1.20, "
                                 "eth1 10.128.0.3 (down); loopback is not for other machines to "
                                 "reach");
    assert_int_equal(interfaces_pick("eth9", all, 0, true, out, &err), TRI_EINPUT);
}

TEST(this_machine_has_a_loopback)
{
    (void)state;
    struct interface real[INTERFACES_MOST];
    size_t count = 0;
    char out[NET_TEXT];
    tri_error err = {0};
    assert_int_equal(interfaces_list(real, &count, &err), TRI_OK);
    assert_true(count > 0 && count <= INTERFACES_MOST);
    assert_int_equal(interfaces_pick("127.0.0.0/8", real, count, true, out, &err), TRI_OK);
    assert_memory_equal(out, "127.", 4);
}

/* ---- as a setting ---- */

static tri_status read(const char *interface, const char *coordinator, struct settings *settings,
                       tri_error *err)
{
    tri_options options = TRI_OPTIONS_INIT;
    options.rank = 1;
    options.workers = 2;
    options.coordinator = coordinator;
    (void)setenv("TRIDENT_INTERFACE", interface, 1);
    tri_status status = settings_read(&options, false, settings, err);
    (void)unsetenv("TRIDENT_INTERFACE");
    return status;
}

TEST(a_rank_listens_where_the_setting_says)
{
    (void)state;
    struct settings settings;
    tri_error err = {0};
    assert_int_equal(read("127.0.0.0/8", "127.0.0.1:7000", &settings, &err), TRI_OK);
    assert_memory_equal(settings.listen, "127.", 4);
    assert_int_equal(read("127.0.0.0/8", "192.0.2.1:7000", &settings, &err), TRI_EINPUT);
    assert_string_equal(err.where, "TRIDENT_INTERFACE=127.0.0.0/8");
    (void)setenv("TRIDENT_LISTEN", "127.0.0.1:7001", 1);
    assert_int_equal(read("nonsense0", "127.0.0.1:7000", &settings, &err), TRI_OK);
    assert_string_equal(settings.listen, "127.0.0.1:7001");
    (void)unsetenv("TRIDENT_LISTEN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_networks_choose),
        cmocka_unit_test(the_first_of_the_list_that_is_there_wins),
        cmocka_unit_test(exclusions_go_before_all_else),
        cmocka_unit_test(loopback_is_for_jobs_of_one_machine),
        cmocka_unit_test(an_address_of_one_link_is_not_chosen),
        cmocka_unit_test(what_cannot_be_is_named),
        cmocka_unit_test(a_refusal_names_the_list_and_what_there_is),
        cmocka_unit_test(this_machine_has_a_loopback),
        cmocka_unit_test(a_rank_listens_where_the_setting_says),
    };
    return cmocka_run_group_tests(tests, make_machine, NULL);
}
