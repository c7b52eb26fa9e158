/* settings/settings: every variable, right and wrong, and who wins. */
#include "settings/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "plan/book.h"
#include "settings/view.h"

/* All that is read beside the table's, so that none of it leaks in from outside or from test to
 * test. */
static const char *const variables[] = {
    "TRIDENT_CONFIG",
    "TRIDENT_TIMEOUT",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_NAMESPACE",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_STEP_NODELIST",
};

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        (void)unsetenv(variables[i]);
    for (size_t i = 0; setting_at(i) != NULL; i++)
        (void)unsetenv(setting_at(i)->variable);
    return 0;
}

static void set(const char *name, const char *text)
{
    assert_int_equal(setenv(name, text, 1), 0);
}

static struct settings settings;
static tri_error err;

static struct settings *read_with(const tri_options *options)
{
    memset(&settings, 0, sizeof settings);
    if (settings_read(options, false, &settings, &err) != TRI_OK)
        fail_msg("%s (%s)", err.text, err.next);
    return &settings;
}

static void refused(const tri_options *options, const char *text, const char *next)
{
    memset(&err, 0, sizeof err);
    assert_int_equal(settings_read(options, false, &settings, &err), TRI_EINPUT);
    if (strstr(err.text, text) == NULL || strstr(err.next, next) == NULL)
        fail_msg("'%s', try '%s'", err.text, err.next);
}

TEST(without_anything_there_is_one_worker_without_a_network)
{
    (void)state;
    const struct settings *s = read_with(NULL);
    assert_int_equal(s->agree.workers, 1);
    assert_int_equal(s->agree.servers, 1);
    assert_int_equal(s->agree.colocated, 1);
    assert_int_equal(s->node, 0);
    assert_string_equal(s->coordinator, "");
    assert_string_equal(s->job, "trident");
    assert_string_equal(s->transport, "tcp");
    assert_string_equal(s->agree.optimizer, "sgd");
    assert_string_equal(s->agree.consistency, "bsp");
    assert_string_equal(s->agree.placement, "hash");
    assert_string_equal(s->flight, ".");
    assert_null(s->token);
    assert_null(s->checkpoint);
    assert_int_equal(s->checkpoint_every, 1000);
    assert_int_equal(s->checkpoint_keep, 2);
    assert_false(s->resume);
    assert_null(s->log.sink);
    assert_int_equal(s->timeout_ms, 30000);
    assert_int_equal(s->heartbeat_ms, 1000);
    assert_int_equal(s->sockets, 1);
    assert_int_equal(s->checksum_every, 0);
    assert_true(s->agree.reproducible);
    assert_false(s->agree.aggregate);
    assert_null(s->agree.scheme);
    assert_null(s->listen);
}

/* ---- who takes part ---- */

TEST(the_program_wins_over_trident_and_trident_over_torchrun_and_mpi)
{
    (void)state;
    set("OMPI_COMM_WORLD_SIZE", "9");
    set("OMPI_COMM_WORLD_RANK", "8");
    set("MASTER_ADDR", "10.0.0.9");
    set("MASTER_PORT", "4000");
    assert_int_equal(read_with(NULL)->agree.workers, 9);
    assert_int_equal(settings.node, 8);
    set("WORLD_SIZE", "7");
    set("RANK", "6");
    assert_int_equal(read_with(NULL)->agree.workers, 7);
    assert_int_equal(settings.node, 6);
    assert_string_equal(settings.coordinator, "10.0.0.9:4001");
    set("TRIDENT_WORKERS", "5");
    set("TRIDENT_RANK", "4");
    set("TRIDENT_COORDINATOR", "10.0.0.5:5000");
    assert_int_equal(read_with(NULL)->agree.workers, 5);
    assert_int_equal(settings.node, 4);
    assert_string_equal(settings.coordinator, "10.0.0.5:5000");
    tri_options options = TRI_OPTIONS_INIT;
    options.workers = 3;
    options.rank = 0;
    options.coordinator = "10.0.0.3:3000";
    assert_int_equal(read_with(&options)->agree.workers, 3);
    assert_int_equal(settings.node, 0);
    assert_string_equal(settings.coordinator, "10.0.0.3:3000");
}

TEST(empty_variables_are_as_if_not_set)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        set(variables[i], "");
    for (size_t i = 0; setting_at(i) != NULL; i++)
        set(setting_at(i)->variable, "");
    assert_int_equal(read_with(NULL)->agree.workers, 1);
}

TEST(a_rank_and_a_number_of_workers_come_together)
{
    (void)state;
    set("TRIDENT_COORDINATOR", "127.0.0.1:1");
    set("TRIDENT_RANK", "0");
    refused(NULL, "a rank is given by TRIDENT_RANK, the number of workers is not",
            "set TRIDENT_WORKERS");
    (void)unsetenv("TRIDENT_RANK");
    set("TRIDENT_WORKERS", "2");
    refused(NULL, "is given by TRIDENT_WORKERS, this one's rank is not", "set TRIDENT_RANK");
    set("TRIDENT_WORKERS", "1"); /* which rank this is needs no saying */
    assert_int_equal(read_with(NULL)->node, 0);
    tri_options options = TRI_OPTIONS_INIT;
    options.rank = 1;
    refused(&options, "there is no rank 1 among 1 workers", "from 0 to");
    set("TRIDENT_WORKERS", "2");
    set("TRIDENT_RANK", "2");
    refused(NULL, "there is no rank 2 among 2 workers", "from 0 to");
}

TEST(numbers_of_workers_that_cannot_be_are_refused)
{
    (void)state;
    static const char *const wrong[] = {"0", "-1", "two", "2x", "99999999999", "1.5"};
    set("TRIDENT_RANK", "0");
    set("TRIDENT_COORDINATOR", "127.0.0.1:1");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[60];
        (void)snprintf(text, sizeof text, "TRIDENT_WORKERS cannot be '%s'", wrong[i]);
        set("TRIDENT_WORKERS", wrong[i]);
        refused(NULL, text, "whole number");
    }
    set("TRIDENT_WORKERS", "2");
    set("TRIDENT_RANK", "x");
    refused(NULL, "TRIDENT_RANK cannot be 'x'", "whole number");
    tri_options options = TRI_OPTIONS_INIT;
    options.rank = 0;
    options.workers = BOOK_MAX_NODES + 1;
    refused(&options, "workers cannot be '65537'", "from 1 to 65536");
    assert_string_equal(err.where, "the program");
    options.workers = 2;
    options.servers = BOOK_MAX_NODES + 1;
    refused(&options, "servers cannot be '65537'", "from 1 to 65536");
}

TEST(where_rank_0_is_must_be_known)
{
    (void)state;
    set("WORLD_SIZE", "2");
    set("RANK", "1");
    refused(NULL, "where rank 0 is to be found is not given", "TRIDENT_COORDINATOR");
    set("MASTER_ADDR", "::1");
    refused(NULL, "where rank 0 is to be found is not given", "TRIDENT_COORDINATOR");
    set("MASTER_PORT", "29500");
    assert_string_equal(read_with(NULL)->coordinator, "[::1]:29501");
    set("MASTER_ADDR", "node7");
    assert_string_equal(read_with(NULL)->coordinator, "node7:29501");
    set("TRIDENT_PORT", "7000");
    assert_string_equal(read_with(NULL)->coordinator, "node7:7000");
    set("TRIDENT_PORT", "70000");
    refused(NULL, "TRIDENT_PORT cannot be '70000'", "from 1 to 65535");
    (void)unsetenv("TRIDENT_PORT");
    set("MASTER_PORT", "65535"); /* there is none behind it */
    refused(NULL, "MASTER_PORT cannot be '65535'", "whole number");
}

TEST(half_of_a_launcher_is_no_launcher)
{
    (void)state;
    set("TRIDENT_COORDINATOR", "127.0.0.1:1");
    set("RANK", "1");
    refused(NULL, "a rank is given by RANK, the number of workers is not", "TRIDENT_WORKERS");
    set("TRIDENT_WORKERS", "2");
    assert_int_equal(read_with(NULL)->node, 1);
    (void)clear(NULL);
    set("OMPI_COMM_WORLD_SIZE", "4");
    refused(NULL, "is given by OMPI_COMM_WORLD_SIZE, this one's rank is not", "TRIDENT_RANK");
}

TEST(slurm_says_who_and_where)
{
    (void)state;
    set("SLURM_PROCID", "2");
    set("SLURM_STEP_NUM_TASKS", "4");
    set("SLURM_NTASKS", "4");
    set("SLURM_JOB_ID", "17");
    set("SLURM_STEP_ID", "0");
    set("SLURM_JOB_NODELIST", "n[3-4]");
    const struct settings *s = read_with(NULL);
    assert_int_equal(s->node, 2);
    assert_int_equal(s->agree.workers, 4);
    assert_memory_equal(s->coordinator, "n3:", 3);
    set("MASTER_ADDR", "elsewhere");
    set("MASTER_PORT", "99");
    assert_string_equal(read_with(NULL)->coordinator, "elsewhere:100");
    set("TRIDENT_COORDINATOR", "here:1");
    assert_string_equal(read_with(NULL)->coordinator, "here:1");
}

TEST(who_only_looks_does_not_ask_the_launcher)
{
    (void)state;
    set("OMPI_COMM_WORLD_SIZE", "2");
    set("OMPI_COMM_WORLD_RANK", "1");
    set("PMIX_NAMESPACE", "of-a-test"); /* nobody is there to answer */
    set("TRIDENT_INTERFACE", "nonsense0");
    assert_string_equal(read_with(NULL)->coordinator, "");
    assert_null(settings.token);
}

TEST(addresses_have_a_host_and_a_port)
{
    (void)state;
    static const char *const wrong[] = {"nowhere",  ":7000",   "host:",      "host:65536",
                                        "host:x",   "::1:700", "[::1]",      "[]:7000",
                                        "host:-70", "",        "fd00::1:70", "[::1:70"};
    static const char *const right[] = {"host:1", "1.2.3.4:65535", "[::1]:7000",
                                        "[fe80::1%eth0]:1"};
    tri_options options = TRI_OPTIONS_INIT;
    options.rank = 1;
    options.workers = 2;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        options.coordinator = wrong[i];
        if (wrong[i][0] != '\0')
            refused(&options, "coordinator cannot be", "host:port");
    }
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        options.coordinator = right[i];
        assert_string_equal(read_with(&options)->coordinator, right[i]);
    }
    set("TRIDENT_LISTEN", "eth0");
    refused(&options, "TRIDENT_LISTEN cannot be 'eth0'", "host:port");
}

TEST(servers_are_beside_the_workers_unless_they_are_apart)
{
    (void)state;
    static const struct {
        const char *servers, *colocate;
        uint32_t want, together;
    } rows[] = {{"", "", 4, 4},   {"2", "", 2, 2},   {"4", "yes", 4, 4}, {"2", "no", 2, 0},
                {"", "no", 4, 0}, {"3", "on", 3, 3}, {"3", "0", 3, 0},   {"6", "no", 6, 0}};
    set("TRIDENT_WORKERS", "4");
    set("TRIDENT_RANK", "1");
    set("TRIDENT_COORDINATOR", "127.0.0.1:1");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set("TRIDENT_SERVERS", rows[i].servers);
        set("TRIDENT_COLOCATE", rows[i].colocate);
        assert_int_equal(read_with(NULL)->agree.servers, rows[i].want);
        assert_int_equal(settings.agree.colocated, rows[i].together);
    }
    tri_options options = TRI_OPTIONS_INIT;
    options.servers = 1;
    assert_int_equal(read_with(&options)->agree.servers, 1);
    set("TRIDENT_SERVERS", "0");
    refused(NULL, "TRIDENT_SERVERS cannot be '0'", "from 1 to");
    set("TRIDENT_SERVERS", "");
    set("TRIDENT_COLOCATE", "maybe");
    refused(NULL, "TRIDENT_COLOCATE cannot be 'maybe'", "on or off");
}

TEST(more_servers_than_workers_must_be_apart)
{
    (void)state;
    set("TRIDENT_WORKERS", "4");
    set("TRIDENT_RANK", "1");
    set("TRIDENT_COORDINATOR", "127.0.0.1:1");
    set("TRIDENT_SERVERS", "6");
    refused(NULL, "there are 6 servers, and only 4 workers to have them inside",
            "set TRIDENT_SERVERS to 4 or less");
    assert_string_equal(err.where, "TRIDENT_SERVERS");
    set("TRIDENT_MODE", "local"); /* has one, whatever is said */
    assert_int_equal(read_with(NULL)->agree.workers, 4);
}

TEST(auto_is_direct_with_sgd_and_else_a_server)
{
    (void)state;
    enum { SERVER, DIRECT, SYNC };
    set("TRIDENT_MODE", "local");
    assert_int_equal(read_with(NULL)->local, SERVER);
    set("TRIDENT_LOCAL", "sync");
    assert_int_equal(read_with(NULL)->local, SYNC);
    set("TRIDENT_LOCAL", "auto");
    assert_int_equal(read_with(NULL)->local, DIRECT);
    set("TRIDENT_OPTIMIZER", "momentum:0.9");
    assert_int_equal(read_with(NULL)->local, SERVER);
}

TEST(one_worker_whose_server_is_apart_hears_why_it_is_not_alone)
{
    (void)state;
    set("TRIDENT_COLOCATE", "off");
    refused(NULL, "where rank 0 is to be found is not given", "set TRIDENT_COORDINATOR");
    assert_string_equal(err.why, "servers are in processes of their own, by TRIDENT_COLOCATE");
}

TEST(a_server_has_a_node_and_no_rank)
{
    (void)state;
    set("TRIDENT_WORKERS", "2");
    set("TRIDENT_SERVERS", "2");
    set("TRIDENT_COLOCATE", "no");
    set("TRIDENT_COORDINATOR", "127.0.0.1:1");
    set("TRIDENT_NODE", "3");
    set("RANK", "0"); /* of somebody else */
    assert_int_equal(settings_read(NULL, true, &settings, &err), TRI_OK);
    assert_int_equal(settings.node, 3);
}

/* ---- the rest ---- */

TEST(texts_of_the_program_win_over_the_environment)
{
    (void)state;
    set("TRIDENT_JOB", "of-env");
    set("TRIDENT_OPTIMIZER", "adam");
    set("TRIDENT_CONSISTENCY", "ssp:3");
    set("TRIDENT_PLACEMENT", "uniform");
    set("TRIDENT_SCHEME", "ps");
    set("TRIDENT_LISTEN", "10.1.1.1:0");
    const struct settings *s = read_with(NULL);
    assert_string_equal(s->job, "of-env");
    assert_string_equal(s->agree.optimizer, "adam");
    assert_string_equal(s->agree.consistency, "ssp:3");
    assert_string_equal(s->agree.placement, "uniform");
    assert_string_equal(s->agree.scheme, "ps");
    assert_string_equal(s->listen, "10.1.1.1:0");
    tri_options options = TRI_OPTIONS_INIT;
    options.job = "own";
    options.optimizer = "sgd";
    options.consistency = "asp";
    options.placement = "hash";
    options.scheme = "sfb";
    s = read_with(&options);
    assert_string_equal(s->job, "own");
    assert_string_equal(s->agree.optimizer, "sgd");
    assert_string_equal(s->agree.consistency, "asp");
    assert_string_equal(s->agree.placement, "hash");
    assert_string_equal(s->agree.scheme, "sfb");
}

TEST(numbers_of_the_program_win_over_the_environment)
{
    (void)state;
    set("TRIDENT_TIMEOUT_MS", "1500");
    set("TRIDENT_CHECKSUM_EVERY", "5");
    set("TRIDENT_HEARTBEAT_MS", "200");
    set("TRIDENT_SOCKETS", "4");
    set("TRIDENT_THREADS", "3");
    const struct settings *s = read_with(NULL);
    assert_int_equal(s->timeout_ms, 1500);
    assert_int_equal(s->checksum_every, 5);
    assert_int_equal(s->heartbeat_ms, 200);
    assert_int_equal(s->sockets, 4);
    assert_int_equal(s->helpers, 3);
    tri_options options = TRI_OPTIONS_INIT;
    options.timeout_ms = 7;
    options.checksum_every = 8;
    options.result = TRI_AGGREGATE;
    s = read_with(&options);
    assert_int_equal(s->timeout_ms, 7);
    assert_int_equal(s->checksum_every, 8);
    assert_true(s->agree.aggregate);
}

TEST(rates_are_read_with_their_units)
{
    (void)state;
    set("TRIDENT_BANDWIDTH", "40Gbit");
    set("TRIDENT_LATENCY", "20us");
    set("TRIDENT_FLOPS", "5T");
    set("TRIDENT_CHUNK", "1MiB");
    set("TRIDENT_REPRODUCIBLE", "off");
    const struct settings *s = read_with(NULL);
    assert_true(s->agree.bits_s == 40e9);
    assert_true(s->agree.latency_s > 19e-6 && s->agree.latency_s < 21e-6);
    assert_true(s->agree.flops_s == 5e12);
    assert_int_equal(s->agree.chunk_bytes, 1 << 20);
    assert_false(s->agree.reproducible);
}

TEST(values_that_cannot_be_are_refused_by_name_with_one_that_can)
{
    (void)state;
    static const struct {
        const char *name, *text, *next;
    } rows[] = {
        {"TRIDENT_BANDWIDTH", "fast", "10Gbit"},
        {"TRIDENT_BANDWIDTH", "0Gbit", "10Gbit"},
        {"TRIDENT_LATENCY", "soon", "50us"},
        {"TRIDENT_FLOPS", "0", "100G"},
        {"TRIDENT_CHUNK", "100", "from 1KiB"},
        {"TRIDENT_CHUNK", "1025", "whole floats"},
        {"TRIDENT_CHUNK", "2GiB", "to 1GiB"},
        {"TRIDENT_REPRODUCIBLE", "2", "on or off"},
        {"TRIDENT_TIMEOUT_MS", "0", "from 1 to"},
        {"TRIDENT_HEARTBEAT_MS", "9", "from 10 to 600000"},
        {"TRIDENT_SOCKETS", "17", "from 1 to 16"},
        {"TRIDENT_THREADS", "257", "from 0 to 256"},
        {"TRIDENT_CHECKSUM_EVERY", "-1", "from 0 to"},
        {"TRIDENT_LOG", "loud", "error, warn, info, debug or trace"},
        {"TRIDENT_ON_FAILURE", "cry", "continue or stop"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[80];
        (void)snprintf(text, sizeof text, "%s cannot be '%s'", rows[i].name, rows[i].text);
        set(rows[i].name, rows[i].text);
        refused(NULL, text, rows[i].next);
        (void)unsetenv(rows[i].name);
    }
}

TEST(texts_are_the_settings_own)
{
    (void)state;
    char job[] = "first", token[] = "secret", scheme[] = "sfb";
    tri_options options = TRI_OPTIONS_INIT;
    options.job = job;
    options.token = token;
    options.scheme = scheme;
    set("TRIDENT_OPTIMIZER", "adam");
    const struct settings *s = read_with(&options);
    memset(job, 'x', sizeof job - 1);
    memset(token, 'x', sizeof token - 1);
    memset(scheme, 'x', sizeof scheme - 1);
    set("TRIDENT_OPTIMIZER", "sgd");
    assert_string_equal(s->job, "first");
    assert_string_equal(s->token, "secret");
    assert_string_equal(s->agree.scheme, "sfb");
    assert_string_equal(s->agree.optimizer, "adam");
}

TEST(every_text_may_be_as_long_as_it_can)
{
    (void)state;
    char text[SETTINGS_TEXT + 1];
    memset(text, 'x', sizeof text);
    text[SETTINGS_TEXT - 1] = '\0';
    for (size_t i = 0; setting_at(i) != NULL; i++)
        if (setting_at(i)->kind == SETTING_TEXT)
            set(setting_at(i)->variable, text);
    (void)unsetenv("TRIDENT_INTERFACE");
    assert_int_equal(strlen(read_with(NULL)->trace), SETTINGS_TEXT - 1);
    text[SETTINGS_TEXT - 1] = 'x';
    text[SETTINGS_TEXT] = '\0';
    set("TRIDENT_TRACE", text);
    refused(NULL, "TRIDENT_TRACE is longer than 1023 bytes", "shorter");
}

TEST(checkpoints_and_flights_are_set_as_all_else)
{
    (void)state;
    set("TRIDENT_CHECKPOINT", "/saved");
    set("TRIDENT_CHECKPOINT_EVERY", "50");
    set("TRIDENT_CHECKPOINT_KEEP", "7");
    set("TRIDENT_RESUME", "on");
    set("TRIDENT_FLIGHT", "off");
    set("TRIDENT_TOKEN", "of-env");
    const struct settings *s = read_with(NULL);
    assert_string_equal(s->checkpoint, "/saved");
    assert_int_equal(s->checkpoint_every, 50);
    assert_int_equal(s->checkpoint_keep, 7);
    assert_true(s->resume);
    assert_null(s->flight);
    assert_string_equal(s->token, "of-env");
    tri_options options = TRI_OPTIONS_INIT;
    options.checkpoint = "/own";
    options.checkpoint_every = 3;
    options.checkpoint_keep = 4;
    options.resume = -1;
    options.token = "own";
    s = read_with(&options);
    assert_string_equal(s->checkpoint, "/own");
    assert_int_equal(s->checkpoint_every, 3);
    assert_int_equal(s->checkpoint_keep, 4);
    assert_false(s->resume);
    set("TRIDENT_FLIGHT", "/flights");
    struct host_options host = settings_host(read_with(&options));
    assert_string_equal(host.token, "own");
    assert_string_equal(host.flight, "/flights");
    options.checkpoint_keep = 1001;
    refused(&options, "checkpoint_keep cannot be '1001'", "from 1 to 1000");
}

TEST(resuming_needs_a_folder)
{
    (void)state;
    set("TRIDENT_RESUME", "yes");
    refused(NULL, "to be resumed, and there is no folder", "TRIDENT_CHECKPOINT");
    assert_string_equal(err.where, "TRIDENT_RESUME");
}

TEST(parts_that_are_not_there_are_refused_at_once)
{
    (void)state;
    static const struct {
        const char *name, *text, *what, *next;
    } rows[] = {
        {"TRIDENT_OPTIMIZER", "adem", "there is no optimizer 'adem'", "adam"},
        {"TRIDENT_OPTIMIZER", "momentum:2", "momentum is 2", "below 1"},
        {"TRIDENT_CONSISTENCY", "bps", "there is no consistency 'bps'", "did you mean bsp"},
        {"TRIDENT_CONSISTENCY", "ssp", "is not understood", "ssp:3"},
        {"TRIDENT_PLACEMENT", "hsah", "there is no placement 'hsah'", "did you mean hash?"},
        {"TRIDENT_SCHEME", "sbf", "there is no scheme 'sbf'", "sfb"},
        {"TRIDENT_SCHEME", "wonder", "there is no scheme 'wonder'", "auto, ps, sfb, adam"},
        {"TRIDENT_SCHEME", "ring", "scheme 'ring' cannot run a job", "auto, ps, sfb, adam"},
        {"TRIDENT_SCHEME", "shard_sf", "'shard-sf' cannot run a job", "auto, ps, sfb, adam"},
        {"TRIDENT_TRANSPORT", "tpc", "there is no transport 'tpc'", "tcp"},
        {"TRIDENT_TRANSPORT", "tcp:tcp", "there is no transport 'tcp:tcp'", "tcp"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set(rows[i].name, rows[i].text);
        refused(NULL, rows[i].what, rows[i].next);
        assert_string_equal(err.where, rows[i].name);
        (void)unsetenv(rows[i].name);
    }
    set("TRIDENT_SCHEME", "auto");
    assert_null(read_with(NULL)->agree.scheme);
    set("TRIDENT_TRANSPORT", "trace:fault:tcp");
    assert_string_equal(read_with(NULL)->transport, "trace:fault:tcp");
}

TEST(the_log_has_levels_and_can_be_off)
{
    (void)state;
    set("TRIDENT_LOG", "warn");
    assert_int_equal(read_with(NULL)->log.level, LOG_WARN);
    assert_non_null(settings.log.sink);
    set("TRIDENT_LOG", "off");
    assert_null(read_with(NULL)->log.sink);
}

static char told[300];
static int told_level, told_count;

static void tell(void *ctx, int level, const char *line)
{
    (void)ctx;
    told_level = level;
    told_count++;
    (void)snprintf(told, sizeof told, "%s", line);
}

TEST(a_variable_that_looks_misspelt_is_told_to_the_log_once)
{
    (void)state;
    tri_options options = TRI_OPTIONS_INIT;
    options.log = tell;
    set("TRIDENT_TIMEOUT", "3");
    told_count = 0;
    assert_int_equal(read_with(&options)->timeout_ms, 30000);
    assert_int_equal(told_count, 1);
    assert_int_equal(told_level, 1);
    assert_non_null(strstr(told, "TRIDENT_TIMEOUT is not a setting; did you mean "
                                 "TRIDENT_TIMEOUT_MS?"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_anything_there_is_one_worker_without_a_network, clear),
        cmocka_unit_test_setup(the_program_wins_over_trident_and_trident_over_torchrun_and_mpi,
                               clear),
        cmocka_unit_test_setup(empty_variables_are_as_if_not_set, clear),
        cmocka_unit_test_setup(a_rank_and_a_number_of_workers_come_together, clear),
        cmocka_unit_test_setup(numbers_of_workers_that_cannot_be_are_refused, clear),
        cmocka_unit_test_setup(where_rank_0_is_must_be_known, clear),
        cmocka_unit_test_setup(servers_are_beside_the_workers_unless_they_are_apart, clear),
        cmocka_unit_test_setup(more_servers_than_workers_must_be_apart, clear),
        cmocka_unit_test_setup(auto_is_direct_with_sgd_and_else_a_server, clear),
        cmocka_unit_test_setup(one_worker_whose_server_is_apart_hears_why_it_is_not_alone, clear),
        cmocka_unit_test_setup(a_server_has_a_node_and_no_rank, clear),
        cmocka_unit_test_setup(texts_of_the_program_win_over_the_environment, clear),
        cmocka_unit_test_setup(numbers_of_the_program_win_over_the_environment, clear),
        cmocka_unit_test_setup(rates_are_read_with_their_units, clear),
        cmocka_unit_test_setup(values_that_cannot_be_are_refused_by_name_with_one_that_can, clear),
        cmocka_unit_test_setup(half_of_a_launcher_is_no_launcher, clear),
        cmocka_unit_test_setup(slurm_says_who_and_where, clear),
        cmocka_unit_test_setup(who_only_looks_does_not_ask_the_launcher, clear),
        cmocka_unit_test_setup(addresses_have_a_host_and_a_port, clear),
        cmocka_unit_test_setup(texts_are_the_settings_own, clear),
        cmocka_unit_test_setup(every_text_may_be_as_long_as_it_can, clear),
        cmocka_unit_test_setup(checkpoints_and_flights_are_set_as_all_else, clear),
        cmocka_unit_test_setup(resuming_needs_a_folder, clear),
        cmocka_unit_test_setup(parts_that_are_not_there_are_refused_at_once, clear),
        cmocka_unit_test_setup(the_log_has_levels_and_can_be_off, clear),
        cmocka_unit_test_setup(a_variable_that_looks_misspelt_is_told_to_the_log_once, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
