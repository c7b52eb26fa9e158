/* settings/table, settings/view: what every row keeps to, that the page of docs is the
 * table, and what is told of values. */
#include "settings/table.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/test.h"
#include "os/file.h"
#include "settings/view.h"

static int clear(void **state)
{
    (void)state;
    static const char *const others[] = {"TRIDENT_CONFIG", "RANK",        "WORLD_SIZE",
                                         "MASTER_ADDR",    "MASTER_PORT", "PMIX_NAMESPACE",
                                         "SLURM_PROCID",   "SLURM_JOB_ID"};
    for (size_t i = 0; setting_at(i) != NULL; i++)
        (void)unsetenv(setting_at(i)->variable);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        (void)unsetenv(others[i]);
    return 0;
}

static struct settings settings;
static struct settings_view view;
static tri_error err;

/* ---- rows ---- */

TEST(names_variables_and_places_are_all_different_and_alike_in_form)
{
    (void)state;
    for (size_t i = 0; setting_at(i) != NULL; i++) {
        const struct setting *row = setting_at(i);
        char variable[80] = "TRIDENT_";
        for (size_t k = 0; row->name[k] != '\0'; k++) {
            assert_true(islower((unsigned char)row->name[k]) || row->name[k] == '_');
            variable[8 + k] = (char)toupper((unsigned char)row->name[k]);
        }
        assert_string_equal(row->variable, variable);
        assert_true(row->help[0] != '\0' && row->group[0] != '\0');
        assert_true((row->fallback == NULL) != (row->otherwise == NULL));
        assert_int_equal(setting_of(row->offset), i);
        for (size_t k = 0; k < i; k++)
            assert_false(names_equal(setting_at(k)->name, row->name));
        /* a group's rows stand together */
        for (size_t k = 0; k + 1 < i; k++)
            if (strcmp(setting_at(k)->group, row->group) == 0)
                assert_string_equal(setting_at(k + 1)->group, row->group);
    }
    size_t texts = 0;
    for (size_t i = 0; setting_at(i) != NULL; i++)
        texts += setting_at(i)->kind == SETTING_TEXT || setting_at(i)->kind == SETTING_ADDRESS ||
                 setting_at(i)->kind == SETTING_PART;
    assert_true(texts * SETTINGS_TEXT <= SETTINGS_TEXTS);
}

/* A value that is not the default and can be. */
static const char *another(const struct setting *row)
{
    switch (row->kind) {
    case SETTING_COUNT:
        return row->min > 1 ? "11" : "1";
    case SETTING_FLAG:
        return strcmp(row->fallback, "on") == 0 ? "off" : "on";
    case SETTING_SIZE:
        return "4KiB";
    case SETTING_RATE:
        return "1Gbit";
    case SETTING_TIME:
        return "1ms";
    case SETTING_FLOPS:
        return "1T";
    case SETTING_CHOICE:
        return row->choices[1];
    case SETTING_ADDRESS:
        return "127.0.0.1:7000";
    case SETTING_PART:
        return strcmp(row->name, "optimizer") == 0     ? "adam"
               : strcmp(row->name, "consistency") == 0 ? "asp"
               : strcmp(row->name, "placement") == 0   ? "lpt"
               : strcmp(row->name, "scheme") == 0      ? "ps"
                                                       : "inproc";
    case SETTING_TEXT:
        break;
    }
    return "127.0.0.1";
}

static const char *value_of(size_t i)
{
    static char room[SETTINGS_ADDRESS];
    return settings_value(&view, &settings, i, room);
}

static void origin_is(size_t i, const char *want)
{
    char origin[SETTINGS_ORIGIN];
    settings_origin(&view, i, origin);
    assert_string_equal(origin, want);
}

static void explain(const struct settings_request *request)
{
    if (settings_explain(request, &view, &settings, &err) != TRI_OK)
        fail_msg("%s (%s)", err.text, err.where);
}

/* What some cannot do without, apart from the row itself. */
static size_t company(const struct setting *row, const char *sets[4])
{
    const char *const all[] = {strcmp(row->name, "rank") == 0 ? "workers=2" : "workers=1",
                               "checkpoint=x", "coordinator=h:1"};
    size_t count = 0, len = strlen(row->name);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strncmp(all[i], row->name, len) != 0 || all[i][len] != '=')
            sets[count++] = all[i];
    return count;
}

static void shows(size_t i, const struct settings_request *request, const char *origin)
{
    const struct setting *row = setting_at(i);
    explain(request);
    if (strcmp(value_of(i), row->secret ? "(set)" : another(row)) != 0)
        fail_msg("%s is '%s'", row->name, value_of(i));
    origin_is(i, origin);
    settings_view_fini(&view);
}

TEST(every_setting_can_be_given_in_every_way)
{
    (void)state;
    char path[] = "/tmp/settings.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    for (size_t i = 0; setting_at(i) != NULL; i++) {
        const struct setting *row = setting_at(i);
        const char *sets[4];
        char set[120], text[120], want[160];
        struct settings_request request = {.mem = &mem_libc, .sets = sets};
        request.set_count = company(row, sets);
        (void)setenv(row->variable, another(row), 1);
        (void)snprintf(want, sizeof want, "environment %s", row->variable);
        shows(i, &request, want);
        (void)snprintf(set, sizeof set, "%s=%s", row->name, another(row));
        sets[request.set_count++] = set;
        shows(i, &request, "--set"); /* over the environment */
        (void)unsetenv(row->variable);
        request.set_count--;
        if (row->process)
            continue;
        (void)snprintf(text, sizeof text, "# a line\n%s = %s\n", row->name, another(row));
        assert_int_equal(file_write(path, text, strlen(text), NULL), TRI_OK);
        assert_int_equal(chmod(path, 0600), 0);
        request.file = path;
        (void)snprintf(want, sizeof want, "file %s:2", path);
        shows(i, &request, want);
    }
    (void)unlink(path);
}

/* ---- where from ---- */

static size_t place(const char *name)
{
    size_t i = 0;
    assert_non_null(setting_find(name, &i));
    return i;
}

TEST(launchers_are_named)
{
    (void)state;
    const struct settings_request request = {.mem = &mem_libc};
    (void)setenv("RANK", "1", 1);
    (void)setenv("WORLD_SIZE", "3", 1);
    (void)setenv("MASTER_ADDR", "n1", 1);
    (void)setenv("MASTER_PORT", "400", 1);
    explain(&request);
    assert_string_equal(value_of(place("rank")), "1");
    origin_is(place("rank"), "torchrun RANK");
    origin_is(place("workers"), "torchrun WORLD_SIZE");
    assert_string_equal(value_of(place("coordinator")), "n1:401");
    origin_is(place("coordinator"), "environment MASTER_ADDR and MASTER_PORT");
    assert_string_equal(value_of(place("servers")), "3");
    origin_is(place("servers"), "default");
    settings_view_fini(&view);
    (void)unsetenv("MASTER_ADDR");
    (void)setenv("PMIX_NAMESPACE", "of-a-test", 1);
    explain(&request);
    assert_string_equal(value_of(place("coordinator")), "(agreed upon when the job starts)");
    origin_is(place("coordinator"), "torchrun PMIx");
    assert_string_equal(value_of(place("token")), "(agreed upon when the job starts)");
    settings_view_fini(&view);
    (void)setenv("TRIDENT_TOKEN", "hush", 1);
    explain(&request);
    assert_string_equal(value_of(place("token")), "(set)");
    origin_is(place("token"), "environment TRIDENT_TOKEN");
    settings_view_fini(&view);
}

TEST(an_interface_chooses_where_to_listen)
{
    (void)state;
    static const char *const sets[] = {"rank=1", "workers=2", "coordinator=127.0.0.1:1"};
    const struct settings_request request = {.mem = &mem_libc, .sets = sets, .set_count = 3};
    (void)setenv("TRIDENT_INTERFACE", "127.0.0.0/8", 1);
    explain(&request);
    assert_memory_equal(value_of(place("listen")), "127.", 4);
    origin_is(place("listen"), "environment TRIDENT_INTERFACE");
    settings_view_fini(&view);
}

static void set_refused(const char *set, const char *text, const char *where, const char *next)
{
    const struct settings_request request = {.mem = &mem_libc, .sets = &set, .set_count = 1};
    assert_int_equal(settings_explain(&request, &view, &settings, &err), TRI_EINPUT);
    if (strstr(err.text, text) == NULL || strcmp(err.where, where) != 0 ||
        strstr(err.next, next) == NULL)
        fail_msg("'%s' at '%s', try '%s'", err.text, err.where, err.next);
    settings_view_fini(&view);
}

TEST(what_is_set_is_checked)
{
    (void)state;
    set_refused("timeout_ms=0", "timeout_ms cannot be '0'", "--set", "from 1");
    set_refused("timeout=1", "there is no setting 'timeout'", "--set", "did you mean timeout_ms");
    set_refused("timeout_ms", "needs a name and a value", "", "name=value");
    set_refused("timeout_ms=", "needs a name and a value", "", "name=value");
    set_refused("=1", "needs a name and a value", "", "name=value");
    set_refused("scheme=ring", "cannot run a job", "--set", "ps");
}

/* ---- strangers ---- */

static char found[400];

static void note(void *ctx, const char *name, const char *meant)
{
    (void)ctx;
    size_t used = strlen(found);
    (void)snprintf(found + used, sizeof found - used, "%s>%s ", name, meant);
}

TEST(only_variables_that_look_like_settings_are_told)
{
    (void)state;
    static const char *const environment[] = {"TRIDENT_TIMEOUT=3",
                                              "TRIDENT_SHCEME=ps",
                                              "TRIDENT_JOB=mine",
                                              "TRIDENT_JOBS=2",
                                              "TRIDENT_NODES=a,b",
                                              "TRIDENT_SIM_JOBS=3",
                                              "TRIDENT_SOMETHING=1",
                                              "TRIDENT_=1",
                                              "TRIDENT",
                                              "TRIDENT_FAULT_SEED=1",
                                              "TRIDENT_DATA=/data",
                                              "TRIDENT_CONFIG=x",
                                              "MY_TRIDENT_TIMEOUT=3",
                                              "PATH=/bin",
                                              "TRIDENT_CSI_SERVICE_HOST=1.2.3.4",
                                              "TRIDENT_TRAIN_WORKER=1",
                                              "TRIDENT_MODELS=/mod",
                                              "TRIDENT_LOGS",
                                              "TRIDENT_QUICK=1",
                                              NULL};
    found[0] = '\0';
    settings_strangers(environment, note, NULL);
    assert_string_equal(found, "TRIDENT_TIMEOUT>TRIDENT_TIMEOUT_MS TRIDENT_SHCEME>TRIDENT_SCHEME "
                               "TRIDENT_LOGS>TRIDENT_LOG ");
}

/* ---- the page ---- */

static void table_head(const char *group, struct buf *out)
{
    buf_format(out,
               "%s### [%s]\n\n| name | variable | value | default | meaning |\n"
               "|---|---|---|---|---|\n",
               out->len > 0 ? "\n" : "", group);
}

static void table_row(const struct setting *row, struct buf *out)
{
    char form[SETTING_FORM];
    const char *tick = row->fallback != NULL ? "`" : "";
    setting_form(row, form);
    buf_format(out, "| `%s` | `%s` | %s | %s%s%s | %s%s |\n", row->name, row->variable, form, tick,
               row->fallback != NULL ? row->fallback : row->otherwise, tick, row->help,
               row->process ? " (not in files)" : "");
}

TEST(the_page_of_docs_has_the_table)
{
    (void)state;
    struct buf want, page;
    const char *group = "";
    buf_init(&want, &mem_libc);
    buf_init(&page, &mem_libc);
    for (size_t i = 0; setting_at(i) != NULL; i++) {
        if (strcmp(setting_at(i)->group, group) != 0)
            table_head(group = setting_at(i)->group, &want);
        table_row(setting_at(i), &want);
    }
    assert_int_equal(file_read("docs/config.md", 1 << 20, &page, &err), TRI_OK);
    bool there = strstr(buf_string(&page), buf_string(&want)) != NULL;
    if (!there)
        fprintf(stderr, "docs/config.md shall have:\n%s", buf_string(&want));
    buf_fini(&want);
    buf_fini(&page);
    assert_true(there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_variables_and_places_are_all_different_and_alike_in_form),
        cmocka_unit_test_setup_teardown(every_setting_can_be_given_in_every_way, clear, clear),
        cmocka_unit_test_setup_teardown(launchers_are_named, clear, clear),
        cmocka_unit_test_setup_teardown(an_interface_chooses_where_to_listen, clear, clear),
        cmocka_unit_test_setup_teardown(what_is_set_is_checked, clear, clear),
        cmocka_unit_test(only_variables_that_look_like_settings_are_told),
        cmocka_unit_test(the_page_of_docs_has_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
